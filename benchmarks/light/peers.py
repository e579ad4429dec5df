"""MCX through its Python packages (pmcx: CUDA, pmcxcl: OpenCL): the same case, and the times that it prints itself."""

import ctypes
import importlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from napari_gpubio.light.phantom.benchmarks import Case

FACE_LETTERS = {"default": "_", "escape": "a", "fresnel": "r", "mirror": "m", "cyclic": "c"}
MCX_FACES = (0, 2, 4, 1, 3, 5)  # MCX: -x -y -z +x +y +z; ours: -i +i -j +j -k +k


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRun:
    """One run of MCX."""

    kernel_seconds: float  # photons over the speed that it prints; without that line, its own ``runtime``
    runtime_seconds: float  # ``stat["runtime"]``: until the kernel's end, with what it prepares on the GPU
    call_seconds: float  # from call to result
    absorbed: float  # fraction of the energy that entered, from the fluence


class Peer:
    """An installed MCX."""

    def __init__(self, package: str) -> None:
        self._module = importlib.import_module(package)
        self.name = f"{package} {metadata.version(package)}"

    def run(self, made: Case, photons: int, threshold: float) -> PeerRun:
        """Trace photons; ``threshold`` is the weight below which MCX's own roulette begins, 0 for never."""
        wanted = configuration(made, photons, threshold)
        with captured_output() as printed:
            begun = time.perf_counter()
            found = self._module.run(wanted)
            call_seconds = time.perf_counter() - begun
        runtime = float(found["stat"]["runtime"]) / 1e3
        return PeerRun(
            kernel_seconds=printed_kernel_seconds("".join(printed), photons) or runtime,
            runtime_seconds=runtime,
            call_seconds=call_seconds,
            absorbed=absorbed_fraction(made, np.asarray(found["flux"]), wanted["tstep"]),
        )


def find_peer(package: str) -> Peer | str:
    """Return the installed package, or a sentence that says why there is none."""
    try:
        return Peer(package)
    except ImportError as error:
        return f"{package} cannot be imported ({error})"


def configuration(made: Case, photons: int, threshold: float) -> dict[str, Any]:
    """The case as MCX wants it: positions in voxels with an origin of 0, properties in 1/mm, one output, one gate."""
    domain, settings = made.domain, made.settings
    voxel_mm = float(domain.voxel_sizes_mm[0])
    if not np.allclose(domain.voxel_sizes_mm, voxel_mm):
        raise ValueError(f"MCX needs cubic voxels; these are {domain.voxel_sizes_mm} mm")
    end = settings.time_gates_ns[-1] * 1e-9
    return {
        "nphoton": photons,
        "vol": domain.labels,
        "prop": properties(made),
        "srctype": made.source.kind,
        "srcpos": (domain.world_to_grid(made.source.position_mm) / voxel_mm).tolist(),
        "srcdir": domain.direction_to_grid(made.source.frame()[2]).tolist(),
        "issrcfrom0": 1,
        "tstart": 0.0,
        "tend": end,
        "tstep": end,
        "isreflect": int(settings.refraction),
        "isspecular": 0,
        "issavedet": 0,
        "autopilot": 1,
        "gpuid": 1,
        "minenergy": threshold,
        "unitinmm": voxel_mm,
        "bc": "".join(FACE_LETTERS[settings.faces[face]] for face in MCX_FACES),
        "outputtype": "flux",
    }


def properties(made: Case) -> np.ndarray:
    """Rows of mu_a and mu_s (1/mm), g and n; row 0 is the outside."""
    media = made.domain.media
    rows = np.zeros((1 + max(medium.label for medium in media), 4))
    rows[:, 2:] = 1.0
    rows[0, 3] = made.domain.outside_n
    for medium in media:
        rows[medium.label] = medium.mua_per_mm, medium.mus_per_mm, medium.g, medium.n
    return rows


def absorbed_fraction(made: Case, flux: np.ndarray, gate_seconds: float) -> float:
    """mu_a times fluence, over the volume; MCX normalizes to the energy that entered."""
    fluence = flux.reshape(made.domain.shape).astype(np.float64) * gate_seconds
    return float((fluence * made.domain.absorption()).sum() * made.domain.voxel_volume_mm3)


def printed_kernel_seconds(printed: str, photons: int) -> float | None:
    """Seconds of the kernel by the line ``... 123.45 photon/ms``, or None without one."""
    speed = re.search(r"([\d.]+) photon/ms", printed)
    return photons / float(speed[1]) / 1e3 if speed and float(speed[1]) else None


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """What C and Python print inside the block, in the list after its end."""
    printed: list[str] = []
    sys.stdout.flush()
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield printed
        finally:
            sys.stdout.flush()
            ctypes.CDLL(None).fflush(None)
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            printed.append(file.read().decode(errors="replace"))

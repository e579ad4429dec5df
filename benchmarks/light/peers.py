"""Rows f and g: MCX through its Python packages (pmcx: CUDA, pmcxcl: OpenCL) beside ours.

Both run in the same process, in turn, so that both meet the machine in the same state.
"""

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
from common import Row, Stopwatch, compact, line, skipped

from light.plan import CPU_PHOTONS, ROULETTE, Plan, case, roulette_text, with_settings
from light.tracing import call, trace_once, warm_up
from napari_gpubio.light.benchmarks import Case
from napari_gpubio.light.result import LightResult

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
        settings = configuration(made, photons, threshold)
        with captured_output() as printed:
            begun = time.perf_counter()
            found = self._module.run(settings)
            call_seconds = time.perf_counter() - begun
        runtime = float(found["stat"]["runtime"]) / 1e3
        return PeerRun(
            kernel_seconds=printed_kernel_seconds("".join(printed), photons) or runtime,
            runtime_seconds=runtime,
            call_seconds=call_seconds,
            absorbed=absorbed_fraction(made, np.asarray(found["flux"]), settings["tstep"]),
        )


def find_peer(package: str) -> Peer | str:
    """Return the installed package, or the reason why there is none."""
    try:
        return Peer(package)
    except ImportError as error:
        return f"{package} cannot be imported ({error})"


def configuration(made: Case, photons: int, threshold: float) -> dict[str, Any]:
    """The case in MCX's terms: positions in voxels with an origin of 0, properties in 1/mm, one output, one gate."""
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


# -- beside ours ------------------------------------------------------------------------------------------------------

TARGETS = {"B1": 2.5, "B2": 2.5, "cube60b": 1.5, "cube60": 1.1}
FEW_PHOTONS = 1_000_000  # an interactive run
COLUMNS = (
    "case", "photons", "ours", "ours, no roulette", "MCX", "MCX, roulette", "ours / MCX", "both roulette",
    "both without", "whole calls", "absorbed: ours", "MCX", "z", "target",
)  # fmt: skip


def beside(package: str, plan: Plan) -> Iterator[Row]:
    """Every case beside MCX, and B1 with few photons."""
    letter = "f" if package == "pmcx" else "g"
    peer = find_peer(package)
    if isinstance(peer, str):
        yield skipped(f"{letter} beside {package}", peer)
        return
    if package == "pmcx" and not plan.device.is_gpu:
        yield skipped(f"{letter} beside {package}", "pmcx needs a GPU; so does the comparison (--device cuda:0)")
        return
    jobs = [(name, plan.count(name)) for name in CPU_PHOTONS] + [("B1", FEW_PHOTONS)]
    for name, photons in jobs:
        label = f"{letter} {name}, {photons:.0e} photons, beside {peer.name}"
        try:
            yield compared(label, name, photons, peer, plan)
        except Exception as error:  # noqa: BLE001 - whatever MCX dislikes, the other cases go on
            yield skipped(label, f"{type(error).__name__}: {error}")


def compared(label: str, name: str, photons: int, peer: Peer, plan: Plan) -> Row:
    """Ours and MCX, each with and without roulette, one after the other, several times round."""
    ours = {t: with_settings(case(name), photons=photons, roulette_threshold=t) for t in (ROULETTE, 0.0)}
    watches, calls = {t: Stopwatch() for t in ours}, {t: Stopwatch() for t in ours}
    theirs: dict[float, list[PeerRun]] = {t: [] for t in ours}
    for threshold, made in ours.items():
        warm_up(made, plan.device)
        peer.run(made, min(photons, FEW_PHOTONS), threshold)
    for _ in range(plan.repeats):
        for threshold, made in ours.items():
            result = traced(made, plan, watches[threshold], calls[threshold])
            if threshold:
                with_roulette = result
            theirs[threshold].append(peer.run(made, photons, threshold))
    times = {
        "ours": {t: {"tracing": min(watches[t].wall), "call": min(calls[t].wall)} for t in ours},
        "peer": {t: best(runs) for t, runs in theirs.items()},
    }
    return {
        "name": label,
        "case": name,
        "photons": photons,
        "device": plan.device.describe(),
        "peer": peer.name,
        "best_seconds": {who: {roulette_text(t): v for t, v in found.items()} for who, found in times.items()},
        "all_seconds": {
            roulette_text(t): {"ours": watches[t].wall, "peer": [vars_of(r) for r in theirs[t]]} for t in ours
        },
        "ratios": ratios(times),
        "absorbed": absorbed(with_roulette, [run.absorbed for run in theirs[0.0]], photons),
        "target": f">= {TARGETS[name]}" if name in TARGETS and photons > FEW_PHOTONS else "",
    }


def traced(made: Case, plan: Plan, tracing: Stopwatch, whole: Stopwatch) -> LightResult:
    """Trace ours once on resident buffers and once as a whole call."""
    trace_once(made, plan.device, tracing)
    with whole.running():
        return call(made, plan.device)()


def best(runs: list[PeerRun]) -> dict[str, float]:
    """The shortest of each time."""
    return {
        "kernel": min(run.kernel_seconds for run in runs),
        "runtime": min(run.runtime_seconds for run in runs),
        "call": min(run.call_seconds for run in runs),
    }


def vars_of(run: PeerRun) -> dict[str, float]:
    return {"kernel": run.kernel_seconds, "runtime": run.runtime_seconds, "call": run.call_seconds}


def ratios(times: dict[str, dict[float, dict[str, float]]]) -> dict[str, float]:
    """How many times faster ours is; MCX has no roulette unless requested, ours has."""
    ours, peer = times["ours"], times["peer"]
    return {
        "as each is by default": peer[0.0]["kernel"] / ours[ROULETTE]["tracing"],
        "both with roulette": peer[ROULETTE]["kernel"] / ours[ROULETTE]["tracing"],
        "both without": peer[0.0]["kernel"] / ours[0.0]["tracing"],
        "whole calls, by default": peer[0.0]["call"] / ours[ROULETTE]["call"],
    }


def absorbed(ours: LightResult, theirs: list[float], photons: int) -> dict[str, float]:
    """Absorbed fractions of what entered, and their distance in standard errors; MCX's error is taken from ours."""
    value, error = (part / ours.energy.entered for part in ours.energy.absorbed)
    their_error = error * np.sqrt(ours.launched / (photons * len(theirs)))
    mean = float(np.mean(theirs))
    return {
        "ours": value,
        "ours_error": error,
        "peer": mean,
        "peer_runs": len(theirs),
        "z": (value - mean) / float(np.hypot(error, their_error)),
    }


def peer_line(r: Row) -> str:

    def speed(who: str, roulette: str, what: str) -> str:
        return compact(r["photons"] / r["best_seconds"][who][roulette][what]) + "/s"

    found: dict[str, Any] = r["absorbed"]
    return line(
        r["case"], f"{r['photons']:.0e}", speed("ours", "roulette", "tracing"), speed("ours", "no roulette", "tracing"),
        speed("peer", "no roulette", "kernel"), speed("peer", "roulette", "kernel"),
        *(f"{ratio:.2f}" for ratio in r["ratios"].values()),
        f"{found['ours']:.5f} ± {found['ours_error']:.5f}", f"{found['peer']:.5f}", f"{found['z']:+.1f}", r["target"],
    )  # fmt: skip

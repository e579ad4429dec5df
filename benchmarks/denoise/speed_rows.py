"""Rows a to e: sizes, radii, settings, processors, memory; volumes and targets of all rows."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

from common import (
    Array,
    PoolBytes,
    Row,
    Timing,
    limited_threads,
    row,
    thread_counts,
    threads_text,
    timed_on,
)
from speed import Job, Plan

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import open_run
from napari_gpubio.denoise.checks import head_volume
from napari_gpubio.denoise.kernels.anlm import gpu
from napari_gpubio.denoise.kernels.anlm.calibration import make_problem
from napari_gpubio.denoise.kernels.anlm.problem import Problem, scale_of
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.settings import DenoiseSettings, Large, Small

TARGETS = {  # seconds: 100^3 and 256^3 with data resident on one H200, and on two cores of a CPU
    ("cuda", 100): 5e-3,
    ("cuda", 256): 70e-3,
    ("cpu", 100): 1.7,
    ("cpu", 256): 27.0,
}
SEED_SECONDS = "GPU-ANLM 1.1 s on a 980 Ti"
MAX_FLOAT_VOLUMES = 6  # of memory, and slabs


def scaled_problem(volume: Array, settings: DenoiseSettings | None = None) -> Problem:
    """What the engine makes of a volume before it filters."""
    return make_problem(volume / scale_of(volume), settings or DenoiseSettings())


def cube(n: int) -> Array:
    """The noisy head, cut or mirrored to n^3 voxels."""
    return head_volume(n, n, n)


SMALL, LARGE = 100, 256  # voxels along each axis
RADII = (1, 2, 3, 4, 5)
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "small patch alone": {"patches": Small()},
    "large patch alone": {"patches": Large()},
    "no pre-selection": {"preselection": "none"},
    "cut-off 3, largest center": {"cutoff": 3.0, "center": "largest"},
    "Rician": {"noise_model": "rician"},
    "Rician, cut-off 3, largest center": {"noise_model": "rician", "cutoff": 3.0, "center": "largest"},
}
LONG_SECONDS = 10.0  # what takes longer on a CPU is timed once


class Resident:
    """A volume on its device, ready to be filtered; mixing included, transfers left out."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self._problem = problem
        self._run = open_run(problem, device)

    def filter(self) -> None:
        """Everything from values and moments to the mixed estimate, which stays where it is."""
        self.kernels()
        self.mix()

    def kernels(self) -> None:
        """The two sweeps over all displacements alone."""
        self._run.advance(0, self._problem.items)

    def mix(self) -> None:
        """Noise, bias and sub-bands."""
        with mock.patch.object(gpu, "to_host", lambda array, _: array):  # the image stays on the GPU
            self._run.finish()

    def __enter__(self) -> "Resident":
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()


def timed_resident(problem: Problem, device: Device, plan: Plan, part: str = "filter") -> Timing:
    """Time a part of the filtering."""
    with Resident(problem, device) as resident:
        resident.kernels()
        return timed_on(device, getattr(resident, part), repeats_of(problem.values, device, plan))


def timed_call(volume: Array, device: Device, plan: Plan, settings: DenoiseSettings | None = None) -> Timing:
    """Time the whole call, from the volume to the image on the host."""
    return timed_on(device, lambda: denoise(volume, settings, device=device), repeats_of(volume, device, plan))


def repeats_of(volume: Array, device: Device, plan: Plan) -> int:
    """How often a volume is timed: on a GPU often, on a CPU once where it takes long."""
    if device.is_gpu:
        return 3 if plan.quick else 10
    expected = TARGETS["cpu", SMALL] * volume.size / SMALL**3
    return 1 if expected > LONG_SECONDS else plan.repeats


# -------------------------------------------------------------------------------------------------------- rows a: sizes
def sizes(plan: Plan) -> Iterator[Job]:
    """Both cubes, resident (as a whole and in parts) and as a whole call."""
    for n in (SMALL, LARGE):
        for part, label in (
            ("filter", "resident"),
            ("kernels", "resident, kernels alone"),
            ("mix", "resident, mixing"),
        ):
            if part == "filter" or plan.device.is_gpu or n == SMALL:
                yield Job(f"a {n}^3, {label}", partial(_resident, n, part, plan))
        yield Job(f"a {n}^3, whole call", partial(_whole, n, plan))


def _resident(n: int, part: str, plan: Plan, name: str) -> Row:
    volume = cube(n)
    timing = timed_resident(scaled_problem(volume), plan.device, plan, part)
    target = f"target {TARGETS[plan.device.kind, n]:g} s" if part == "filter" else ""
    return row(name, plan.device, timing, volume.size, "voxels", target=target)


def _whole(n: int, plan: Plan, name: str) -> Row:
    volume = cube(n)
    more = {"paper": SEED_SECONDS} if n == SMALL else {}
    return row(name, plan.device, timed_call(volume, plan.device, plan), volume.size, "voxels", **more)


# ----------------------------------------------------------------------------------------------- rows b and c: settings
def radii(plan: Plan) -> Iterator[Job]:
    """Search radius, both patches."""
    for radius in RADII if plan.device.is_gpu else RADII[:4]:
        measure = partial(_with, {"search_radius": radius}, "b 100^3, search radius 3", plan)
        yield Job(f"b 100^3, search radius {radius}", measure)


def settings(plan: Plan) -> Iterator[Job]:
    """Patches, rules and noise models."""
    for label, options in SETTINGS.items():
        yield Job(f"c 100^3, {label}", partial(_with, options, "c 100^3, defaults", plan))


def _with(options: dict[str, Any], base: str, plan: Plan, name: str) -> Row:
    volume = cube(SMALL)
    problem = scaled_problem(volume, DenoiseSettings(**options))
    timing = timed_resident(problem, plan.device, plan)
    return row(name, plan.device, timing, volume.size, "voxels", compared_with=base)


# --------------------------------------------------------------------------------------------------- rows d: processors
def processors(plan: Plan) -> Iterator[Job]:
    """One to all threads of a CPU, or one to all GPUs."""
    if not plan.device.is_gpu:
        for count in thread_counts():
            yield Job(f"d 100^3, {threads_text(count)}", partial(_on_threads, count, plan))
        return
    for count in range(1, len(plan.device.indices) + 1):
        device = Device("cuda", plan.device.indices[:count])
        yield Job(f"d 256^3, {count} GPU{'s' * (count > 1)}, whole call", partial(_on_gpus, device, plan))


def _on_threads(count: int, plan: Plan, name: str) -> Row:
    volume = cube(SMALL)
    with limited_threads(count):
        timing = timed_resident(scaled_problem(volume), CPU, plan)
        return row(name, CPU, timing, volume.size, "voxels", compared_with="d 100^3, 1 thread", processors=count)


def _on_gpus(device: Device, plan: Plan, name: str) -> Row:
    volume = cube(LARGE)
    timing = timed_call(volume, device, plan)
    more = {"compared_with": "d 256^3, 1 GPU, whole call", "processors": len(device.indices)}
    return row(name, device, timing, volume.size, "voxels", **more)


# ------------------------------------------------------------------------------------------------------- rows e: memory
def memory(plan: Plan) -> Iterator[Job]:
    """What a volume takes of a GPU: declared, and the most that CuPy's pool held, in volumes of float32."""
    for n in (SMALL, LARGE):
        yield Job(f"e {n}^3, memory", partial(_memory, n, plan))


def _memory(n: int, plan: Plan, name: str) -> Row:
    volume, pool = cube(n), PoolBytes(plan.device)
    denoise(volume, device=plan.device)
    _, most = pool.used_and_grown()
    declared, volumes = scaled_problem(volume).memory(plan.device).total, 4 * volume.size
    text = f"declared {declared / volumes:.1f}, most {most / volumes:.1f} ({most / 1e6:.0f} MB)"
    target = f"{MAX_FLOAT_VOLUMES} volumes of float32 and slabs"
    return {"name": name, "declared_bytes": declared, "bytes": most, "text": f"{text}; target {target}"}

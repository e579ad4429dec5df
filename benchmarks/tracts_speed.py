"""Speed of the tracts engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/tracts_speed.py                                  # this machine's CPU, a few minutes
    python benchmarks/tracts_speed.py --device cuda:0 --brain b.npz    # a GPU, the CPU beside it where that is asked
    python benchmarks/tracts_speed.py --export-brain b.npz             # make that file where the data and nibabel are

A GPU machine needs NumPy, SciPy, Numba and CuPy only: without nibabel, or from a tree that is not installed, the
numerics are imported past the readers.
"""
# ruff: noqa: E402 - the package is made importable before it is imported

import argparse
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy import ndimage

ROOT = Path(__file__).resolve().parents[1]
BRAIN = ROOT.parent / "shared" / "data" / "dwi" / "whole_brain_b1000"
RESULTS = Path(__file__).with_name("results")


def make_importable() -> None:
    """Measure this working tree, installed or not; without nibabel, the readers' library, go past the readers."""
    sys.path.insert(0, str(ROOT))
    if importlib.util.find_spec("nibabel") is None:
        package = types.ModuleType("napari_gpubio.tracts")  # its own __init__ would import the readers
        package.__path__ = [str(ROOT / "napari_gpubio" / "tracts")]
        sys.modules[package.__name__] = package


make_importable()

from napari_gpubio import __version__
from napari_gpubio.core.device import CPU, Device, choose_device, machine
from napari_gpubio.core.philox import uniform
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.rays import cpu
from napari_gpubio.tracts.rays.geodesic import trace
from napari_gpubio.tracts.rays.partial import STATS
from napari_gpubio.tracts.rays.problem import RayProblem
from napari_gpubio.tracts.run import track
from napari_gpubio.tracts.seeds import Launch, make_launch
from napari_gpubio.tracts.settings import Directions, StopReason, TrackSettings
from napari_gpubio.tracts.tensors import cpu as tensors_cpu
from napari_gpubio.tracts.tensors.problem import FitSettings, fit_problem
from napari_gpubio.tracts.tensors.run import fit_tensors

Array = npt.NDArray[Any]
Row = dict[str, Any]

SEED_SHAPE = (1024, 64, 64)  # van Aart et al. 2011, section 5
SEED_FIBERS, SEED_STEPS, STEP_VOXELS = 2048, 4096, 0.2
STEP_SIZES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # voxels, its figure 6
FREE = TrackSettings(  # nothing ends a ray but the volume's edge and the number of steps
    method="vanaart2011",
    integrator="rk2",
    step_mm=STEP_VOXELS,
    fa_stop=0.0,
    max_length_mm=100_000.0,
    min_length_mm=0.0,
    max_steps=SEED_STEPS,
)
LINEAR_RK2 = replace(FREE, method="hamiltonian", interpolation="linear")
CUBIC_RK4 = replace(FREE, method="hamiltonian", interpolation="smoothing", integrator="rk4")
CLICK_TARGET = {"cpu": "< 1 s on 2 cores", "cuda": "< 0.1 s on a GPU"}
ONE_WAY = Directions(kind="principal", both_ways=False)
TOLD = ("method", "interpolation", "integrator", "step_mm", "fa_stop", "max_steps", "precision", "texture")


# ---------------------------------------------------------------------------------------------------------------- time
@dataclass(frozen=True, slots=True)
class Timing:
    """Best wall seconds, their median, and the best of the process's CPU seconds (which other people's load leaves)."""

    seconds: float
    median: float
    cpu_seconds: float | None = None


def timed(work: Callable[[], object], repeats: int) -> Timing:
    """Time a function after one call that does not count."""
    work()
    wall, busy = [], []
    for _ in range(repeats):
        begun, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - begun)
        busy.append(time.process_time() - used)
    return Timing(min(wall), sorted(wall)[len(wall) // 2], min(busy))


def timed_on(device: Device, work: Callable[[], object], repeats: int) -> Timing:
    """Time a function; on a GPU its end is waited for."""
    if not device.is_gpu:
        return timed(work, repeats)
    import cupy

    def finished() -> None:
        work()
        cupy.cuda.Device(device.indices[0]).synchronize()

    with cupy.cuda.Device(device.indices[0]):
        return timed(finished, repeats)


def row(name: str, device: Device, timing: Timing, amount: float, unit: str, **more: Any) -> Row:
    """One line of the results; ``rate`` is ``amount`` (in ``unit``) per second of the best run."""
    return {
        "name": name,
        "device": device.describe(),
        "seconds": timing.seconds,
        "median_seconds": timing.median,
        "cpu_seconds": timing.cpu_seconds,
        "amount": amount,
        "rate": amount / timing.seconds,
        "rate_per_core": amount / timing.cpu_seconds if timing.cpu_seconds and not device.is_gpu else None,
        "unit": unit + "/s",
        **more,
    }


def skipped(name: str, why: str) -> Row:
    """A line that says why there is no figure."""
    return {"name": name, "skipped": why}


def told(settings: TrackSettings, **more: Any) -> dict[str, Any]:
    """The settings that matter here, as JSON can hold them."""
    return {name: getattr(settings, name) for name in TOLD} | more


# ------------------------------------------------------------------------------------------------------------- tracing
class CpuTrace:
    """The Numba tracing call alone, on buffers made beforehand."""

    def __init__(self, problem: RayProblem) -> None:
        p, settings, real = problem, problem.settings, problem.real
        rays = len(p.launch) * p.rays_per_fiber
        field = p.prepared("field", lambda: cpu.prepare_field(p))
        seeds, directions = p.rays(0, len(p.launch))
        self.written, self.reasons = np.empty(rays, np.int32), np.empty(rays, np.uint8)
        self._arguments = (
            p.kind, p.stages, p.measure, field, p.guide, p.mask, p.euclid.astype(real), np.array(p.field.shape), seeds,
            directions, p.rays_per_fiber, p.limits, settings.ray_steps, settings.points_every,
            np.zeros((rays, settings.ray_points, 4), real), self.written, self.reasons, np.empty((rays, STATS), real),
        )  # fmt: skip

    def timing(self, repeats: int) -> Timing:
        """Seconds of the call."""
        return timed(lambda: trace(*self._arguments), repeats)

    def outcome(self) -> tuple[Array, Array]:
        """Points written and stop reason of each ray."""
        return self.written, self.reasons


class GpuTrace:
    """The tracing kernel alone, on resident buffers, by CUDA events."""

    def __init__(self, problem: RayProblem, device: Device) -> None:
        import cupy

        from napari_gpubio.tracts.rays import gpu

        p = problem
        rays = len(p.launch) * p.rays_per_fiber
        self._device = device
        with cupy.cuda.Device(device.indices[0]):
            self._run = gpu.Run(problem, device=device)
            host_seeds, host_directions = p.rays(0, len(p.launch))
            self._arrays = (
                cupy.asarray(host_seeds), cupy.asarray(host_directions),
                cupy.empty((rays, p.settings.ray_points, 4), p.real), cupy.zeros(rays, np.int32),
                cupy.zeros(rays, np.uint8), cupy.empty((rays, STATS), p.real),
            )  # fmt: skip

    def timing(self, repeats: int) -> Timing:
        """Seconds of the kernel."""
        import cupy

        with cupy.cuda.Device(self._device.indices[0]):
            seconds = []
            for _ in range(repeats + 1):
                begun, ended = cupy.cuda.Event(), cupy.cuda.Event()
                begun.record()
                self._run.launch(*self._arrays)
                ended.record()
                ended.synchronize()
                seconds.append(cupy.cuda.get_elapsed_time(begun, ended) / 1e3)
        warm = sorted(seconds[1:])
        return Timing(warm[0], warm[len(warm) // 2])

    def outcome(self) -> tuple[Array, Array]:
        """Points written and stop reason of each ray."""
        import cupy

        return cupy.asnumpy(self._arrays[3]), cupy.asnumpy(self._arrays[4])


def trace_row(name: str, problem: RayProblem, device: Device, repeats: int, threads: int = 0, **more: Any) -> Row:
    """Time the tracing of a problem; ``threads`` limits Numba (0 = all cores)."""
    before = numba.get_num_threads()
    numba.set_num_threads(threads or numba.config.NUMBA_NUM_THREADS)
    try:
        tracing = GpuTrace(problem, device) if device.is_gpu else CpuTrace(problem)
        timing = tracing.timing(repeats)
    finally:
        numba.set_num_threads(before)
    written, reasons = tracing.outcome()
    early = int((reasons != StopReason.STEPS).sum())
    return row(
        name, device, timing, int(written.sum()) * problem.settings.points_every, "steps",
        fibers=len(problem.launch), mean_steps=float(written.mean()), ended_early=early,
        threads=None if device.is_gpu else threads or numba.config.NUMBA_NUM_THREADS,
        settings=told(problem.settings, measure=problem.measure), **more,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ synthetic data
def seed_volume() -> TensorField:
    """The paper's benchmark volume: anisotropic along x, slightly modulated, weakly focusing so that no ray leaves."""
    nx, ny, nz = SEED_SHAPE
    x, y, z = np.meshgrid(np.arange(nx), np.arange(ny) - (ny - 1) / 2, np.arange(nz) - (nz - 1) / 2, indexing="ij")
    wave = 1 + 0.01 * np.sin(2 * np.pi * x / 96) * np.cos(2 * np.pi * y / 48)
    tensors = np.zeros((*SEED_SHAPE, 6))
    tensors[..., 0] = 1.7e-3 * wave * (1 + 0.05 * (y**2 + z**2) / (ny / 2) ** 2)  # rays bend to where D is low
    tensors[..., 1] = 0.3e-3 * wave
    tensors[..., 2] = 0.3e-3 * (2 - wave)
    return TensorField(tensors=tensors, mask=np.ones(SEED_SHAPE, bool), affine=np.eye(4))


def random_field(shape: tuple[int, int, int]) -> TensorField:
    """Tensors of a brain's size of eigenvalues, each voxel its own."""
    u = uniform(1, 0, int(np.prod(shape)), 6).astype(np.float64).reshape(*shape, 6)
    tensors = np.concatenate([0.4 + 1.2 * u[..., :3], 0.5 * (u[..., 3:] - 0.5)], axis=-1) * 1e-3
    return TensorField(tensors=tensors, mask=np.ones(shape, bool), affine=np.eye(4))


def seed_problem(field: TensorField, settings: TrackSettings, fibers: int) -> RayProblem:
    """Random seeds near the left end, around the axis, all launched along +x."""
    room = field.shape[0] - 6 - 1.05 * settings.step_mm * settings.max_steps
    u = uniform(7, 0, fibers, 3).astype(np.float64)
    points = np.array([3.0, 22.0, 22.0]) + u * np.array([room, 19.0, 19.0])
    return RayProblem(field, Launch(points, np.tile([1.0, 0.0, 0.0], (fibers, 1)), ONE_WAY), settings, measure=False)


# ---------------------------------------------------------------------------------------------------------- real brain
@dataclass(frozen=True, eq=False, slots=True)
class Brain:
    """The real brain: tensors, and the scan they come from."""

    field: TensorField
    scan: DiffusionScan


def load_brain(path: Path | None) -> Brain | str:
    """The brain from an ``.npz`` or from the shared data; a sentence where there is none."""
    if path is not None:
        return _unpacked_brain(path)
    if not BRAIN.is_dir():
        return f"{BRAIN} is absent and no --brain was given"
    if importlib.util.find_spec("nibabel") is None:
        return "nibabel is missing and no --brain was given"
    from napari_gpubio.tracts.io.dwi import read_dwi
    from napari_gpubio.tracts.io.volumes import read_mask

    scan = read_dwi(BRAIN / "dwi.nii.gz")
    mask = read_mask(BRAIN / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    return Brain(fit_tensors(scan, mask, device="cpu"), scan)


def _unpacked_brain(path: Path) -> Brain:
    with np.load(path) as z:
        mask = z["mask"]
        tensors = np.zeros((*mask.shape, 6))
        tensors[mask] = z["tensors"]
        data = np.zeros((*mask.shape, z["signals"].shape[1]), z["signals"].dtype)
        data[mask] = z["signals"]
        scan = DiffusionScan(data=data, bvals=z["bvals"], directions=z["directions"], affine=z["affine"])
        return Brain(TensorField(tensors=tensors, mask=mask, affine=z["affine"]), scan)


def export_brain(brain: Brain, path: Path) -> None:
    """Write what `load_brain` reads: tensors and signals of the mask's voxels."""
    field, scan = brain.field, brain.scan
    np.savez_compressed(
        path,
        tensors=field.tensors[field.mask],
        mask=field.mask,
        affine=field.affine,
        signals=scan.data[field.mask],
        bvals=scan.bvals,
        directions=scan.directions,
    )


def callosum_box(field: TensorField) -> tuple[Array, Array]:
    """First voxel and extent of the 22 x 4 region (y, z) of the mid-sagittal slice with the most left-right fibers."""
    middle = round(float(apply_affine(np.linalg.inv(field.affine), [[0.0, 0.0, 0.0]])[0][0]))
    values, vectors = field.eigen.values[middle], field.eigen.vectors[middle]
    left_right = (values[..., 0] - values[..., 1]) * np.abs(vectors[..., 0, 0])
    score = ndimage.uniform_filter(np.where(field.mask[middle], left_right, 0.0), (22, 4), mode="constant")
    centre = np.unravel_index(score.argmax(), score.shape)
    return np.array([middle, centre[0] - 11, centre[1] - 2]), np.array([1, 22, 4])


def callosum_problem(field: TensorField, settings: TrackSettings, fibers: int) -> RayProblem:
    """Random points of the callosal region, each with one random direction of the sphere."""
    first, extent = callosum_box(field)
    u = uniform(11, 0, fibers, 5).astype(np.float64)
    points = apply_affine(field.affine, first - 0.5 + u[:, :3] * extent)
    cos, turn = 2 * u[:, 3] - 1, 2 * np.pi * u[:, 4]
    sin = np.sqrt(1 - cos**2)
    directions = np.stack([sin * np.cos(turn), sin * np.sin(turn), cos], axis=1)
    return RayProblem(field, Launch(points, directions, ONE_WAY), settings, measure=False)


# ---------------------------------------------------------------------------------------------------------------- rows
@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and where."""

    device: Device
    quick: bool
    brain: Brain | str

    @property
    def repeats(self) -> int:
        """How often each thing is timed."""
        return 3 if self.quick else 5

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device asked for, and the CPU beside a GPU."""
        return (self.device, CPU) if self.device.is_gpu else (CPU,)


def thread_counts() -> list[int]:
    """1, 2, 4, ... and all of Numba's threads."""
    most = numba.config.NUMBA_NUM_THREADS
    return sorted({most, *(2**n for n in range(10) if 2**n <= most)})


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def seed_benchmark(plan: Plan) -> Iterator[Row]:
    """Rows a: the paper's synthetic benchmark, figures 6 and 7, and section 5.2."""
    field = seed_volume()
    gpu = plan.device.is_gpu
    small = plan.quick and not gpu
    fibers, steps = (256, 512) if small else (SEED_FIBERS, SEED_STEPS)

    def one(name: str, settings: TrackSettings, count: int = fibers, threads: int = 0, **more: Any) -> Row:
        limited = replace(settings, max_steps=min(settings.max_steps, steps))
        return trace_row(name, seed_problem(field, limited, count), plan.device, plan.repeats, threads, **more)

    yield one("a1 seed's scheme, RK2", FREE, paper="GTX 260: 0.165 s for 2048 x 4096 steps")
    yield one("a2 seed's scheme, Euler", replace(FREE, integrator="euler"), paper="section 5.2: as long as RK2")
    if gpu:
        yield one("a3 seed's scheme, RK2, hardware texture", replace(FREE, texture=True))
        yield one("a4 seed's scheme, Euler, texture", replace(FREE, integrator="euler", texture=True))
    for size in STEP_SIZES:
        settings = replace(FREE, step_mm=size, max_steps=1900)  # 1900 x 0.5 voxel still ends inside
        yield one(f"a5 step {size} voxel, in the kernel", settings, paper="figure 6")
        if gpu:
            yield one(f"a6 step {size} voxel, texture", replace(settings, texture=True), paper="figure 6")
    many = 16_384 if gpu else fibers
    yield one("a7 hamiltonian, linear, RK2", LINEAR_RK2, many, target="6e9 steps/s on an H200" if gpu else "")
    yield one("a8 hamiltonian, cubic, RK4", replace(CUBIC_RK4, max_steps=4096 if gpu else 512), many)
    if gpu:
        yield one("a9 seed's scheme, RK2", FREE, many)
        yield one("a9 seed's scheme, RK2, hardware texture", replace(FREE, texture=True), many)
    else:
        for threads in thread_counts():
            yield one(f"a10 seed's scheme, RK2, {_threads(threads)}", FREE, threads=threads, paper="figure 7")


def corpus_callosum(plan: Plan) -> Iterator[Row]:
    """Rows b: the paper's table 3 on the real brain, CPU against GPU."""
    if isinstance(plan.brain, str):
        yield skipped("b table 3: corpus callosum", plan.brain)
        return
    field = plan.brain.field
    step = STEP_VOXELS * float(field.voxel_sizes_mm.min())
    for fibers in (1024, 4096) if plan.quick else (1024, 2048, 3072, 4096):
        for device in plan.devices:
            for label, settings in (("seed's scheme, RK2", FREE), ("hamiltonian, cubic, RK4", CUBIC_RK4)):
                problem = callosum_problem(field, replace(settings, step_mm=step), fibers)
                name = f"b table 3: {fibers} seeds, {label}"
                yield trace_row(name, problem, device, plan.repeats, paper="table 3: GPU 2 to 40 times a 4-core CPU")


def preparation(plan: Plan) -> Iterator[Row]:
    """Rows c: making the volume that the rays read, a million voxels."""
    field = random_field((50, 50, 50) if plan.quick and not plan.device.is_gpu else (100, 100, 100))
    launch = make_launch(field, [(20.0, 20.0, 20.0)], Directions())
    for label, settings in (("default scheme", TrackSettings()), ("seed's scheme", FREE)):
        problem = RayProblem(field, launch, settings)
        for device in plan.devices:
            timing = timed_on(device, lambda p=problem, d=device: _prepare(p, d), plan.repeats)
            name, settings_told = f"c prepare the field, {label}", told(settings)
            paper = "GTX 260: 0.05 s for 1e6 voxels"
            yield row(name, device, timing, float(field.mask.sum()), "voxels", settings=settings_told, paper=paper)


def _prepare(problem: RayProblem, device: Device) -> object:
    if not device.is_gpu:
        return cpu.prepare_field(problem)
    from napari_gpubio.tracts.rays import gpu

    return gpu.prepare_field(problem)


def tensor_fit(plan: Plan) -> Iterator[Row]:
    """Rows d: weighted least squares of the whole brain, the solver alone and the whole call."""
    if isinstance(plan.brain, str):
        yield skipped("d tensor fit", plan.brain)
        return
    scan, mask = plan.brain.scan, plan.brain.field.mask
    problem = fit_problem(np.asarray(scan.data[mask], np.float32), scan.bvals, scan.directions, FitSettings())
    voxels, volumes = problem.signals.shape
    for device in plan.devices:
        target = "< 0.05 s on a GPU" if device.is_gpu else "< 1 s on 2 cores"
        made = _fit_run(problem, device)
        timing = timed_on(device, lambda m=made: m.advance(0, len(problem.signals)), plan.repeats)
        made.close()
        settings = {"estimator": "wls", "iterations": problem.iterations, "volumes": volumes}
        yield row("d tensor fit, solver alone", device, timing, voxels, "voxels", settings=settings, target=target)
        timing = timed_on(device, lambda d=device: fit_tensors(scan, mask, device=d), plan.repeats)
        yield row("d tensor fit, fit_tensors() end to end", device, timing, voxels, "voxels", settings=settings)


def _fit_run(problem: Any, device: Device) -> Any:
    if not device.is_gpu:
        return tensors_cpu.Run(problem)
    from napari_gpubio.tracts.tensors import gpu

    return gpu.Run(problem, device=device)


def interaction(plan: Plan) -> Iterator[Row]:
    """Rows e: a click on the real brain with default settings, end to end."""
    if isinstance(plan.brain, str):
        yield skipped("e click: 1000 fibers", plan.brain)
        return
    field = plan.brain.field
    click = callosum_click(field)
    default = TrackSettings()
    for device in plan.devices:
        timing = timed_on(device, lambda d=device: _first_click(field, click, d), plan.repeats)
        yield _click_row("e first click on a new field, default settings", field, default, device, timing)
        for label, settings, target in (
            ("default settings", default, ""),
            ("no FA stop: long fibers", replace(default, fa_stop=0.0), CLICK_TARGET[device.kind]),
        ):
            work = _clicker(field, click, settings, device)
            timing = timed_on(device, work, 2 * plan.repeats)
            yield _click_row(f"e click, field ready, {label}", field, settings, device, timing, target=target)


def _clicker(field: TensorField, click: Array, settings: TrackSettings, device: Device) -> Callable[[], Tractogram]:
    return lambda: track(field, click, settings=settings, device=device)


def _click_row(
    name: str, field: TensorField, settings: TrackSettings, device: Device, timing: Timing, **more: Any
) -> Row:
    fibers = _clicker(field, callosum_click(field), settings, device)()
    steps = float(len(fibers.points))
    return row(
        name, device, timing, steps, "points", fibers=len(fibers), mean_steps=steps / max(len(fibers), 1),
        settings=told(settings), **more,
    )  # fmt: skip


def _first_click(field: TensorField, click: Array, device: Device) -> None:
    track(TensorField(tensors=field.tensors, mask=field.mask, affine=field.affine), click, device=device)


def one_core(plan: Plan) -> Iterator[Row]:
    """Rows f: steps per second of one CPU core, in a small volume that stays in the cache and on the real brain."""
    fibers = 128 if plan.quick else 512
    cases = (
        ("seed's scheme, RK2", FREE, "3e6 steps/s"),
        ("hamiltonian, linear, RK2", LINEAR_RK2, ""),
        ("hamiltonian, cubic, RK2", replace(CUBIC_RK4, integrator="rk2"), ""),
        ("hamiltonian, cubic, RK4", CUBIC_RK4, "0.5e6 steps/s"),
        ("hamiltonian, cubic, RK4, double", replace(CUBIC_RK4, precision="double"), ""),
        ("EuDX, Euler", replace(FREE, method="eudx", integrator="euler"), ""),
    )
    small = random_box()
    for label, settings, target in cases:
        problem = box_problem(small, replace(settings, max_steps=200), fibers)
        yield trace_row(f"f one core, {label}, 48^3", problem, CPU, plan.repeats, 1, target=target)
        if not isinstance(plan.brain, str):
            real = replace(settings, step_mm=0.5, fa_stop=0.1)
            launch = make_launch(plan.brain.field, callosum_click(plan.brain.field), Directions(count=fibers))
            problem = RayProblem(plan.brain.field, launch, real)
            yield trace_row(f"f one core, {label}, brain, measured", problem, CPU, plan.repeats, 1, target=target)


def random_box() -> TensorField:
    """A 48^3 volume of gently turning tensors."""
    x, y, _ = np.meshgrid(*[np.arange(48.0)] * 3, indexing="ij")
    turn = 0.2 * np.sin(2 * np.pi * y / 48)
    tensors = np.zeros((48, 48, 48, 6))
    tensors[..., 0] = 0.3 + 1.4 * np.cos(turn) ** 2
    tensors[..., 1] = 0.3 + 1.4 * np.sin(turn) ** 2
    tensors[..., 2] = 0.3 + 0.02 * np.sin(2 * np.pi * x / 48)
    tensors[..., 3] = 1.4 * np.cos(turn) * np.sin(turn)
    return TensorField(tensors=tensors * 1e-3, mask=np.ones((48, 48, 48), bool), affine=np.eye(4))


def box_problem(field: TensorField, settings: TrackSettings, fibers: int) -> RayProblem:
    """Seeds in a small box near the left face, along +x."""
    u = uniform(3, 0, fibers, 3).astype(np.float64)
    points = np.array([2.0, 20.0, 20.0]) + u * np.array([3.0, 8.0, 8.0])
    return RayProblem(field, Launch(points, np.tile([1.0, 0.0, 0.0], (fibers, 1)), ONE_WAY), settings, measure=False)


def callosum_click(field: TensorField) -> Array:
    """The middle of the callosal region, world mm, shape (1, 3)."""
    first, extent = callosum_box(field)
    return apply_affine(field.affine, (first + extent // 2)[None].astype(float))


def gpu_memory(plan: Plan) -> Iterator[Row]:
    """Row g: GPU bytes that a brain of 145 x 174 x 145 takes in the default scheme."""
    name = "g GPU memory, 145 x 174 x 145, default scheme"
    if not plan.device.is_gpu:
        yield skipped(name, "needs a GPU")
        return
    import cupy

    from napari_gpubio.tracts.rays import gpu

    gc.collect()
    field = random_field((145, 174, 145))
    problem = RayProblem(field, make_launch(field, [(70.0, 80.0, 70.0)], Directions()), TrackSettings())
    with cupy.cuda.Device(plan.device.indices[0]):
        pool = cupy.get_default_memory_pool()
        pool.free_all_blocks()
        before, before_total = pool.used_bytes(), pool.total_bytes()
        begun = time.perf_counter()
        run = gpu.Run(problem, device=plan.device)
        seconds = time.perf_counter() - begun
        used, peak = pool.used_bytes() - before, pool.total_bytes() - before_total
    yield row(
        name, plan.device, Timing(seconds, seconds), used, "bytes", target="< 1e9 bytes", bytes_used=used,
        bytes_taken_while_preparing=peak, bytes_for_1000_fibers=1000 * run.bytes_per_item(),
        settings=told(TrackSettings()),
    )  # fmt: skip


def peers(plan: Plan) -> Iterator[Row]:
    """Rows h: DIPY's EuDX beside ours, the same tensors, seeds, step and FA stop, one thread and all."""
    name = "h EuDX beside DIPY"
    if isinstance(plan.brain, str) or importlib.util.find_spec("dipy") is None:
        yield skipped(name, plan.brain if isinstance(plan.brain, str) else "dipy is not installed")
        return
    field = plan.brain.field
    seeds = white_matter_seeds(field, 2000 if plan.quick else 10_000)
    settings = TrackSettings(
        method="eudx", integrator="euler", step_mm=0.5, fa_stop=0.1, min_length_mm=0.0, max_length_mm=500.0
    )
    for threads in thread_counts():
        yield _our_eudx(plan, field, seeds, settings, threads)
    for label, threads, work in dipy_trackers(field, seeds):
        kept: list[Any] = []
        timing = timed(lambda w=work, k=kept: (k.clear(), k.extend(w())), min(plan.repeats, 3))
        points = int(sum(map(len, kept)))
        yield row(
            f"h {label}", CPU, timing, points, "points", threads=threads, fibers=len(kept),
            fibers_per_second=len(kept) / timing.seconds, mean_steps=points / max(len(kept), 1),
            version=metadata.version("dipy"),
        )  # fmt: skip


def _our_eudx(plan: Plan, field: TensorField, seeds: Array, settings: TrackSettings, threads: int) -> Row:
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        directions = Directions(kind="principal")
        timing = timed(lambda: track(field, seeds, directions, settings, device="cpu"), plan.repeats)
        fibers = track(field, seeds, directions, settings, device="cpu")
    finally:
        numba.set_num_threads(before)
    return row(
        f"h ours: track(), EuDX, {_threads(threads)}", CPU, timing, len(fibers.points), "points", threads=threads,
        fibers=len(fibers), fibers_per_second=len(fibers) / timing.seconds,
        mean_steps=len(fibers.points) / max(len(fibers), 1), settings=told(settings),
    )  # fmt: skip


def white_matter_seeds(field: TensorField, count: int) -> Array:
    """Random points in voxels of FA above 0.3, world mm."""
    from napari_gpubio.tracts.tensors.scalars import fa_map

    voxels = np.argwhere(fa_map(field) > 0.3)
    u = uniform(5, 0, count, 4).astype(np.float64)
    return apply_affine(field.affine, voxels[(u[:, 0] * len(voxels)).astype(int)] + u[:, 1:] - 0.5)


def dipy_trackers(field: TensorField, seeds: Array) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """DIPY's two EuDX trackers on our principal directions: name, threads, function that gives the streamlines."""
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion
    from dipy.tracking.tracker import eudx_tracking

    from napari_gpubio.tracts.tensors.scalars import fa_map

    fa = fa_map(field).astype(np.float64)
    peaks = dipy_peaks(field, fa)

    def local() -> Any:
        stop = ThresholdStoppingCriterion(fa, 0.1)
        return list(LocalTracking(peaks, stop, seeds, field.affine, step_size=0.5, maxlen=1000))

    def parallel(threads: int) -> Any:
        stop = ThresholdStoppingCriterion(fa, 0.1)
        made = eudx_tracking(
            seeds, stop, field.affine, pam=peaks, step_size=0.5, max_len=500, nbr_threads=threads, max_cross=1
        )
        return list(getattr(made, "streamlines", made))

    yield "DIPY LocalTracking, EuDX, 1 thread", 1, local
    for threads in thread_counts():
        yield f"DIPY eudx_tracking, {_threads(threads)}", threads, lambda t=threads: parallel(t)


def dipy_peaks(field: TensorField, fa: Array) -> Any:
    """Our principal directions as DIPY's peaks, in its voxel axes."""
    from dipy.data import get_sphere
    from dipy.direction.peaks import PeaksAndMetrics

    sphere = get_sphere(name="repulsion724")
    axes = field.affine[:3, :3] / np.linalg.norm(field.affine[:3, :3], axis=0)
    directions = field.eigen.vectors[..., 0, :] @ axes
    nearest = np.abs(directions.reshape(-1, 3) @ sphere.vertices.T).argmax(axis=1).reshape(fa.shape)
    peaks = PeaksAndMetrics()
    peaks.sphere, peaks.affine, peaks.shm_coeff = sphere, field.affine, None
    peaks.peak_dirs = np.where(field.mask[..., None], directions, 0.0)[..., None, :]
    peaks.peak_values, peaks.qa, peaks.gfa = fa[..., None], fa[..., None], fa
    peaks.peak_indices = np.where(field.mask, nearest, -1)[..., None].astype(np.int64)
    peaks.ang_thr, peaks.qa_thr, peaks.total_weight = 60.0, 0.0, 0.5
    return peaks


# -------------------------------------------------------------------------------------------------------------- report
PARTS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "a": seed_benchmark,
    "b": corpus_callosum,
    "c": preparation,
    "d": tensor_fit,
    "e": interaction,
    "f": one_core,
    "g": gpu_memory,
    "h": peers,
}


def commit() -> str:
    """The commit of the working tree, with ``-dirty`` where files differ, or nothing."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return ""
    told_by = subprocess.run([git, "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return told_by.stdout.strip()


def header(quick: bool) -> dict[str, Any]:
    """Machine, versions and date."""
    return {
        "napari_gpubio": __version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "quick": quick,
        "load_average": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else [],
        "machine": machine(),
    }


def compact(number: float) -> str:
    """A number of three digits with its power of ten."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g} "


def markdown(head: dict[str, Any], rows: list[Row]) -> str:
    """The results as a table to read."""
    facts = ", ".join(f"{name} {value}" for name, value in head["machine"].items())
    commit_told = f", commit {head['commit']}" if head["commit"] else ""
    lines = [
        "# Speed of the tracts engine",
        "",
        f"napari-gpubio {head['napari_gpubio']}{commit_told}, {head['date']}{', quick run' if head['quick'] else ''}.",
        f"{facts}. Load average at the start {head['load_average']}.",
        "",
        (
            "Best of several runs. *cpu s*: processor time summed over threads; *per core*: the work per such second, "
            "which other people's load spoils least."
        ),
        "",
        "| row | device | threads | fibers | mean steps | seconds | median | cpu s | rate | per core | target, paper |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(r: Row) -> str:
    if "skipped" in r:
        return f"| {r['name']} | | | | | | | | | | skipped: {r['skipped']} |"
    early = f" ({r['ended_early']} ended early)" if r.get("ended_early") and r["name"].startswith("a") else ""
    notes = [r.get("target") and f"target {r['target']}", r.get("paper")]
    if "bytes_used" in r:
        notes.append(f"{r['bytes_used'] / 1e6:.0f} MB used, {r['bytes_taken_while_preparing'] / 1e6:.0f} MB at most")
    rate = "" if "bytes_used" in r else f"{compact(r['rate'])}{r['unit']}"
    if "fibers_per_second" in r:
        rate += f", {compact(r['fibers_per_second'])}fibers/s"
    per_core = f"{compact(r['rate_per_core'])}{r['unit']}" if r["rate_per_core"] else ""
    busy = "" if r["cpu_seconds"] is None else f"{r['cpu_seconds']:.4g}"
    cells = (
        r["name"], r["device"], r.get("threads") or "", r.get("fibers", ""),
        f"{r['mean_steps']:.0f}{early}" if "mean_steps" in r else "", f"{r['seconds']:.4g}",
        f"{r['median_seconds']:.4g}", busy, rate, per_core, "; ".join(n for n in notes if n),
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def save(head: dict[str, Any], rows: list[Row], path: Path) -> None:
    """Write the JSON file and the table beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(head, rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="less work on the CPU, fewer repeats")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, for instance abf")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="the real brain, as --export-brain writes it")
    parser.add_argument("--export-brain", type=Path, metavar="NPZ", help="write the real brain and do nothing else")
    arguments = parser.parse_args()
    brain = load_brain(arguments.brain)
    if arguments.export_brain is not None:
        if isinstance(brain, str):
            raise SystemExit(brain)
        export_brain(brain, arguments.export_brain)
        return
    plan = Plan(choose_device(arguments.device), arguments.quick, brain)
    head, rows = header(arguments.quick), []
    for letter in arguments.rows:
        for result in PARTS[letter](plan):
            rows.append(result)
            print(_line(result), flush=True)
        gc.collect()
    kind = "cuda" if plan.device.is_gpu else "cpu"
    path = arguments.json or RESULTS / f"tracts_speed_{kind}_{head['date']}.json"
    save(head, rows, path)
    print(f"written: {path} and {path.with_suffix('.md').name}")


if __name__ == "__main__":
    main()

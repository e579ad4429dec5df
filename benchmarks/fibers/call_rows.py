"""Rows c, d, e, g and i: making the field ready, the tensor fit, a click, a GPU's memory, fibers to a target."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from common import Array, PoolBytes, Row, Stopwatch, Timing, row, skipped, timed_on

from fibers.brain import Plan, callosum_box, callosum_click
from fibers.problems import CUBIC_RK4, FREE, STEP_VOXELS, random_field
from fibers.tracing import recorded
from napari_gpubio.core.device import Device
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.kernels.tensors import cpu as tensors_cpu
from napari_gpubio.diffusion.kernels.tensors.problem import fit_problem
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.diffusion.tensors.settings import FitSettings
from napari_gpubio.fibers.directions import Cone, Isotropic
from napari_gpubio.fibers.kernels.rays import cpu
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.fibers.settings import Hamiltonian, InTensors
from napari_gpubio.tractograms.model import Tractogram

TO_BALL_MM = np.array([30.0, 0.0, 25.0])  # from the middle of the callosal region to that of the target
CLICK_TARGET = {"cpu": "< 1 s on 2 cores", "cuda": "< 0.1 s on a GPU"}


def preparation(plan: Plan) -> Iterator[Row]:
    """Rows c: making the volume that the rays read, a million voxels."""
    field = random_field((50, 50, 50) if plan.quick and not plan.device.is_gpu else (100, 100, 100))
    launch = make_launch(field, [(20.0, 20.0, 20.0)], Cone())
    for label, settings in (("default scheme", Hamiltonian()), ("seed's scheme", FREE)):
        problem = RayProblem(field, launch, settings)
        for device in plan.devices:
            timing = timed_on(device, lambda p=problem, d=device: _prepare(p, d), plan.repeats)
            name, recorded_settings = f"c prepare the field, {label}", recorded(settings)
            paper = "GTX 260: 0.05 s for 1e6 voxels"
            yield row(name, device, timing, float(field.mask.sum()), "voxels", settings=recorded_settings, paper=paper)


def _prepare(problem: RayProblem, device: Device) -> object:
    if not device.is_gpu:
        return cpu.prepare_field(problem)
    from napari_gpubio.fibers.kernels.rays import gpu

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
    from napari_gpubio.diffusion.kernels.tensors import gpu

    return gpu.Run(problem, device=device)


def interaction(plan: Plan) -> Iterator[Row]:
    """Rows e: a click on the real brain with default settings, end to end."""
    if isinstance(plan.brain, str):
        yield skipped("e click: 1000 fibers", plan.brain)
        return
    field = plan.brain.field
    click = callosum_click(field)
    default = Hamiltonian()
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


def _clicker(field: TensorField, click: Array, settings: InTensors, device: Device) -> Callable[[], Tractogram]:
    return lambda: track(field, click, method=settings, device=device)


def _click_row(name: str, field: TensorField, settings: InTensors, device: Device, timing: Timing, **more: Any) -> Row:
    fibers = _clicker(field, callosum_click(field), settings, device)()
    steps = float(len(fibers.points))
    return row(
        name, device, timing, steps, "points", fibers=len(fibers), mean_steps=steps / max(len(fibers), 1),
        settings=recorded(settings), **more,
    )  # fmt: skip


def to_target(plan: Plan) -> Iterator[Row]:
    """Row i: all directions from the callosal region of the real brain, of which those that reach a ball are kept."""
    if isinstance(plan.brain, str):
        yield skipped("i fibers to a target", plan.brain)
        return
    field = plan.brain.field
    first, extent = callosum_box(field)
    seeds = apply_affine(field.affine, first + np.argwhere(np.ones(extent)))
    ball = Sphere(name="ball", center_mm=tuple(callosum_click(field)[0] + TO_BALL_MM), radius_mm=8.0)
    directions = Isotropic(count=100 if plan.quick else 1000, both_ways=False)
    settings = replace(CUBIC_RK4, step_mm=STEP_VOXELS * float(field.voxel_sizes_mm.min()), max_steps=2000)
    for device in plan.devices:
        kept: list[Tractogram] = []

        def work(where: Device = device, kept: list[Tractogram] = kept) -> None:
            kept[:] = [track(field, seeds, directions, settings, target=ball, only_target=True, device=where)]

        timing = timed_on(device, work, plan.repeats)
        launched = len(seeds) * directions.count
        yield row(
            "i fibers to a target, track() end to end", device, timing, launched, "fibers launched",
            fibers=len(kept[0]), mean_steps=len(kept[0].points) / max(len(kept[0]), 1), settings=recorded(settings),
            target="< 0.15 s on an H200" if device.is_gpu and not plan.quick else "",
        )  # fmt: skip


def _first_click(field: TensorField, click: Array, device: Device) -> None:
    track(TensorField(tensors=field.tensors, mask=field.mask, affine=field.affine), click, device=device)


def gpu_memory(plan: Plan) -> Iterator[Row]:
    """Row g: GPU bytes that a brain of 145 x 174 x 145 takes in the default scheme."""
    name = "g GPU memory, 145 x 174 x 145, default scheme"
    from napari_gpubio.fibers.kernels.rays import gpu

    field = random_field((145, 174, 145))
    problem = RayProblem(field, make_launch(field, [(70.0, 80.0, 70.0)], Cone()), Hamiltonian())
    pool, watch = PoolBytes(plan.device), Stopwatch()
    with watch.running():
        run = gpu.Run(problem, device=plan.device)
    used, peak = pool.used_and_grown()
    yield row(
        name, plan.device, watch.timing(), used, "bytes", target="< 1e9 bytes", bytes_used=used,
        bytes_taken_while_preparing=peak, bytes_for_1000_fibers=1000 * run.bytes_per_item(),
        settings=recorded(Hamiltonian()),
    )  # fmt: skip

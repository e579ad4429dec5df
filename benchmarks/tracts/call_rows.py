"""Rows c, d, e and g: making the field ready, the tensor fit, a click, and the memory of a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from common import Array, PoolBytes, Row, Stopwatch, Timing, row, skipped, timed_on

from napari_gpubio.core.device import Device
from napari_gpubio.tracts.kernels.rays import cpu
from napari_gpubio.tracts.kernels.rays.problem import RayProblem
from napari_gpubio.tracts.kernels.tensors import cpu as tensors_cpu
from napari_gpubio.tracts.kernels.tensors.problem import fit_problem
from napari_gpubio.tracts.model import TensorField, Tractogram
from napari_gpubio.tracts.run import track
from napari_gpubio.tracts.seeds import make_launch
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.run import fit_tensors
from napari_gpubio.tracts.tensors.settings import FitSettings
from tracts.brain import Plan, callosum_click
from tracts.problems import FREE, random_field
from tracts.tracing import recorded

CLICK_TARGET = {"cpu": "< 1 s on 2 cores", "cuda": "< 0.1 s on a GPU"}


def preparation(plan: Plan) -> Iterator[Row]:
    """Rows c: making the volume that the rays read, a million voxels."""
    field = random_field((50, 50, 50) if plan.quick and not plan.device.is_gpu else (100, 100, 100))
    launch = make_launch(field, [(20.0, 20.0, 20.0)], Directions())
    for label, settings in (("default scheme", TrackSettings()), ("seed's scheme", FREE)):
        problem = RayProblem(field, launch, settings)
        for device in plan.devices:
            timing = timed_on(device, lambda p=problem, d=device: _prepare(p, d), plan.repeats)
            name, recorded_settings = f"c prepare the field, {label}", recorded(settings)
            paper = "GTX 260: 0.05 s for 1e6 voxels"
            yield row(name, device, timing, float(field.mask.sum()), "voxels", settings=recorded_settings, paper=paper)


def _prepare(problem: RayProblem, device: Device) -> object:
    if not device.is_gpu:
        return cpu.prepare_field(problem)
    from napari_gpubio.tracts.kernels.rays import gpu

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
    from napari_gpubio.tracts.kernels.tensors import gpu

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
        settings=recorded(settings), **more,
    )  # fmt: skip


def _first_click(field: TensorField, click: Array, device: Device) -> None:
    track(TensorField(tensors=field.tensors, mask=field.mask, affine=field.affine), click, device=device)


def gpu_memory(plan: Plan) -> Iterator[Row]:
    """Row g: GPU bytes that a brain of 145 x 174 x 145 takes in the default scheme."""
    name = "g GPU memory, 145 x 174 x 145, default scheme"
    from napari_gpubio.tracts.kernels.rays import gpu

    field = random_field((145, 174, 145))
    problem = RayProblem(field, make_launch(field, [(70.0, 80.0, 70.0)], Directions()), TrackSettings())
    pool, watch = PoolBytes(plan.device), Stopwatch()
    with watch.running():
        run = gpu.Run(problem, device=plan.device)
    used, peak = pool.used_and_grown()
    yield row(
        name, plan.device, watch.timing(), used, "bytes", target="< 1e9 bytes", bytes_used=used,
        bytes_taken_while_preparing=peak, bytes_for_1000_fibers=1000 * run.bytes_per_item(),
        settings=recorded(TrackSettings()),
    )  # fmt: skip

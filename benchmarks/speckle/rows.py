"""How contrast is timed on frames that are where they are worked on, and the rows that come of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from common import Row, Timing, load_average, row, timed

from napari_gpubio.core.device import Device
from napari_gpubio.speckle.kernels.contrast import cpu
from napari_gpubio.speckle.kernels.contrast.problem import Recipe
from speckle.plan import Plan, frames_of

_LAUNCHES = 10  # that one timing on a GPU is the mean of


def pixel_row(name: str, device: Device, timing: Timing, pixels: int, **more: Any) -> Row:
    """A row that counts pixels of the maps."""
    if not device.is_gpu:
        more = {"load_average": load_average()[:1], **more}
    return row(name, device, timing, pixels, "pixels", **more)


def timed_resident(recipe: Recipe, maps: int, plan: Plan, threads: int | None = None) -> Timing:
    """Time the making of so many maps from frames that are there; transfers left out."""
    s = recipe.settings
    frames = frames_of((maps - 1) * s.step + s.depth, recipe.shape)
    if plan.device.is_gpu:
        return timed_on_gpu(recipe, frames, maps, plan)
    maker, made = cpu.Maker(recipe, threads), recipe.empty_maps(maps)
    return timed(lambda: maker.fill(frames, made), plan.repeats)


def timed_on_gpu(recipe: Recipe, frames: Any, maps: int, plan: Plan) -> Timing:
    """Time the kernels by the GPU's own clock."""
    import cupy

    from napari_gpubio.speckle.kernels.contrast.gpu import Maker, bytes_of, map_buffer

    with cupy.cuda.Device(plan.device.indices[0]):
        maker, there = Maker(recipe, plan.device), cupy.asarray(frames)
        made = map_buffer(cupy.empty(bytes_of(recipe, maps), np.uint8), recipe, maps).maps
        return timed_by_events(lambda: maker.fill(there, made), plan.repeats)


def timed_by_events(work: Callable[[], object], repeats: int) -> Timing:
    """Time what is launched on the current stream, by the GPU's own clock."""
    import cupy

    for _ in range(3):
        work()
    seconds = []
    for _ in range(repeats):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        for _ in range(_LAUNCHES):
            work()
        last.record()
        last.synchronize()
        seconds.append(1e-3 * cupy.cuda.get_elapsed_time(first, last) / _LAUNCHES)
    return Timing(min(seconds), sorted(seconds)[len(seconds) // 2])

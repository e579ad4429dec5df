"""What the contrast of a stack takes on a device at its fullest moment, before it begins."""

import math

from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.speckle.kernels.contrast import gpu
from napari_gpubio.speckle.kernels.contrast.problem import BATCH_BYTES, ContrastRecipe, Problem
from napari_gpubio.speckle.settings import SpatioTemporal


def memory_of(problem: Problem, device: Device) -> Memory:
    """See `memory_of_maps`."""
    keeps = problem.hand_on is None
    return memory_of_maps(problem.recipe, problem.items, problem.stack.window_bytes, device, keeps=keeps)


def memory_of_maps(recipe: ContrastRecipe, items: int, window_bytes: int, device: Device, *, keeps: bool) -> Memory:
    """What maps take of a stack whose pixels have so many bytes where they are read, as they are kept or not."""
    if device.is_gpu:
        return _gpu_memory(recipe, items)
    results = items * recipe.bytes_of_map if keeps else 0
    return Memory(results=results, scratch=_cpu_scratch(recipe, items, window_bytes, keeps=keeps))


def _cpu_scratch(recipe: ContrastRecipe, items: int, window_bytes: int, *, keeps: bool) -> int:
    """Sums over frames, and of a batch: frames that are read or copied, and maps that are handed on.

    A copy with margins is made of a copy as doubles, before there are sums.
    """
    from napari_gpubio.speckle.kernels.contrast import cpu

    r, s, pixels = recipe, recipe.settings, math.prod(recipe.shape)
    batch = min(items, max(1, BATCH_BYTES // cpu.bytes_of_map(r)))
    summed = min(batch, max(1, cpu.BATCH_PIXELS // pixels)) if r.is_real else int(s.depth > 1)
    sums = summed * (2 * r.work_dtype.itemsize + 2 * s.has_mask)
    loaded = (batch - 1) * s.step + s.depth
    most = max(loaded * window_bytes, loaded * (window_bytes - 8 * r.is_real) + sums)
    return pixels * most + (0 if keeps else batch * r.bytes_of_map)


def _gpu_memory(recipe: ContrastRecipe, items: int) -> Memory:
    """Frames and maps of the batches in flight, and the sums over frames of the one that is computed."""
    r, s, pixels = recipe, recipe.settings, math.prod(recipe.shape)
    most, batches = gpu.batches_of(r, items)
    frames = ((most - 1) * s.step + s.depth) * pixels * r.dtype.itemsize
    sums = 0 if not isinstance(s.mode, SpatioTemporal) or r.is_real else most * pixels * gpu.sum_bytes(r)
    return Memory(inputs=batches * frames, results=batches * most * r.bytes_of_map, scratch=sums)

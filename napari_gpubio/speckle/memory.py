"""What maps of speckle contrast take on a device at their fullest moment, before they are computed."""

import math
from typing import Any

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.memory import Memory
from napari_gpubio.speckle.kernels.contrast.problem import BATCH_BYTES, ContrastRecipe
from napari_gpubio.speckle.model import FrameStack
from napari_gpubio.speckle.settings import ContrastSettings, Noise, NoiseModel, RelativeFlow, SpatioTemporal


def needed_memory(
    frames: Any,
    settings: ContrastSettings | None = None,
    *,
    noise: Noise | None = None,
    device: str | Device = "auto",
    keeps: bool = True,
) -> Memory:
    """Memory that `napari_gpubio.speckle.contrast` takes besides the frames; see it for the arguments.

    Parameters
    ----------
    keeps
        Whether the maps are kept; False where they are handed on ``into`` files.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import speckle
    >>> memory = speckle.needed_memory(np.zeros((5, 64, 64), np.uint16), device="cpu")
    >>> memory.results == 5 * 64 * 64 * 9  # contrast, index and mask
    True
    """
    settings, stack, chosen = settings or ContrastSettings(), FrameStack(frames), choose_device(device)
    baseline = 1.0 if isinstance(settings.index, RelativeFlow) else None
    recipe = ContrastRecipe(
        settings=settings, noise=noise or NoiseModel(), shape=stack.shape, dtype=stack.dtype, baseline=baseline
    )
    items = settings.count(stack.count)
    if chosen.is_gpu:
        return _on_gpu(recipe, items)
    results = items * recipe.bytes_of_map if keeps else 0
    return Memory(results=results, scratch=_cpu_scratch(recipe, items, stack.window_bytes, keeps=keeps))


def _cpu_scratch(recipe: ContrastRecipe, items: int, window_bytes: int, *, keeps: bool) -> int:
    """Sums over frames, and of a batch: frames that are read or copied, and maps that are handed on.

    A copy with margins is made of a copy as doubles, before there are sums.
    """
    from napari_gpubio.speckle.kernels.contrast import cpu

    s, pixels = recipe.settings, math.prod(recipe.shape)
    batch = min(items, max(1, BATCH_BYTES // cpu.bytes_of_map(recipe)))
    summed = min(batch, max(1, cpu.BATCH_PIXELS // pixels)) if recipe.is_real else int(s.depth > 1)
    sums = summed * (2 * recipe.work_dtype.itemsize + 2 * s.has_mask)
    loaded = (batch - 1) * s.step + s.depth
    most = max(loaded * window_bytes, loaded * (window_bytes - 8 * recipe.is_real) + sums)
    return pixels * most + (0 if keeps else batch * recipe.bytes_of_map)


def _on_gpu(recipe: ContrastRecipe, items: int) -> Memory:
    """Frames and maps of the batches in flight, and the sums over frames of the one that is computed."""
    from napari_gpubio.speckle.kernels.contrast import gpu

    s, pixels = recipe.settings, math.prod(recipe.shape)
    most, batches = gpu.batches_of(recipe, items)
    frames = ((most - 1) * s.step + s.depth) * pixels * recipe.dtype.itemsize
    sums = 0 if not isinstance(s.mode, SpatioTemporal) or recipe.is_real else most * pixels * gpu.sum_bytes(recipe)
    return Memory(inputs=batches * frames, results=batches * most * recipe.bytes_of_map, scratch=sums)

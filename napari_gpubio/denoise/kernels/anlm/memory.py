"""What the filtering of a volume takes on a device at its fullest moment, before it begins."""

import math

from napari_gpubio.core.device import Device, shared_memory_bytes
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.denoise.kernels.anlm import gpu
from napari_gpubio.denoise.kernels.anlm.problem import BRICK, NoiseGrid, Problem
from napari_gpubio.denoise.kernels.anlm.tally import HALO, mixed_slabs


def memory_of(problem: Problem, device: Device) -> Memory:
    """Memory of one volume: values, mask and noise; sums and estimates of each patch; and slabs that are worked on."""
    p, voxels = problem, problem.values.size
    is_map = not (p.variance is None or isinstance(p.variance, NoiseGrid))
    inputs = voxels * (5 + 4 * (is_map and not device.is_gpu))
    tallies = 8 * len(p.windows.patches) * voxels
    slab = _gpu_slab_bytes(p, device) if device.is_gpu else _cpu_slab_bytes(p)
    filtering = Memory(inputs=inputs, tallies=tallies, scratch=slab)
    results = 0 if device.is_gpu else 8  # bytes of a voxel
    mixing = _mixing_bytes(p, results, uploaded=is_map and device.is_gpu) - results * voxels
    return fuller(filtering, Memory(inputs=inputs, tallies=tallies, results=results * voxels, scratch=max(0, mixing)))


def _cpu_slab_bytes(p: Problem) -> int:
    """Values, means and variances of a layer of bricks with a halo, and what they are made of."""
    halo = [search + patch for search, patch in zip(p.windows.search, p.windows.largest_patch, strict=True)]
    planes = min(BRICK[0], p.shape[0]) + 2 * halo[0]
    return 4 * planes * (3 * math.prod(n + 2 * h for n, h in zip(p.shape[1:], halo[1:], strict=True)))


def _gpu_slab_bytes(p: Problem, device: Device) -> int:
    """Moments of the planes that a slab of bricks reads, and the candidates that are chosen there."""
    column = gpu.build_of(p, shared_memory_bytes(device)).column
    bricks = gpu.slab_of(p, column)
    first, last = gpu.planes_read(p, 0, bricks)
    chosen = 4 * gpu.chosen_words(p, column) * bricks if p.variance is None else 0
    return 8 * (last - first) * math.prod(p.shape[1:]) + chosen


def _mixing_bytes(p: Problem, result: int, *, uploaded: bool) -> int:
    """Arrays of a slab and the planes beside it, while both patches become one image, and results before it.

    The part of a noise map is ``uploaded``; that of a grid is made.
    """
    is_grid, is_mixed = isinstance(p.variance, NoiseGrid), len(p.windows.patches) == 2
    each = 4 * (is_grid or uploaded) + 8 * (is_mixed and p.settings.is_rician)
    if not is_mixed:
        each += 17  # four numbers, and which voxels are usable
    elif p.settings.mixing == "mean":
        each += 21
    else:
        each += 30 if p.variance is not None and p.settings.mixing == "auto" else 34
    ends = ((slab.start, slab.stop) for slab in mixed_slabs(p.shape))
    planes = (result * start + each * (min(stop + HALO, p.shape[0]) - max(start - HALO, 0)) for start, stop in ends)
    return max(planes) * math.prod(p.shape[1:])

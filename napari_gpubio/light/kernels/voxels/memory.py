"""What a simulation takes on a device at its fullest moment, before it begins."""

import math

from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VOXELS_AT_ONCE


def memory_of(problem: VoxelProblem, device: Device, *, previews: bool = False) -> Memory:
    """Memory of a run from its first photon to its result, besides the labels and lists of detected photons.

    Of a GPU, what is kept there by one that has memory enough, which traces most batches together. On the CPU, tallies
    are full where light has come to every part of the volume; pages that none comes to are never there. With
    ``previews``, a copy of all tallies and a result are shown while the run goes on.
    """
    p, batch = problem, 8 * problem.tally_size
    is_open = p.settings.photons % p.batch_size > 0
    if device.is_gpu:
        slots = p.slots(len(device.indices))
        inside = p.resident_bytes(slots * p.copies(slots)) - p.grid_bytes
        return Memory(inputs=p.grid_bytes, tallies=inside, scratch=batch * (is_open or previews))
    shown = p.state_bytes + batch + result_bytes(p) if previews else 0
    tallies = p.resident_bytes() - p.grid_bytes
    tracing = Memory(inputs=p.grid_bytes, tallies=tallies, scratch=shown)
    closed = 0 if is_open else batch  # gone before the result is made
    sums = _sum_bytes(p, is_open=is_open)
    made = Memory(inputs=p.grid_bytes, tallies=tallies - closed, results=result_bytes(p), scratch=shown + sums)
    return fuller(tracing, made)


def _sum_bytes(problem: VoxelProblem, *, is_open: bool) -> int:
    """Sums of halves and gates, and of an open batch, of the planes that each thread makes volumes of at a time."""
    from napari_gpubio.core.jit import thread_count

    voxels, several = math.prod(problem.size), problem.halves * problem.gates > 1
    each = 8 * several + 8 * is_open + 8 * (several and is_open) + 4 * (problem.gates > 1)
    return each * min(voxels, thread_count() * VOXELS_AT_ONCE)


def result_bytes(problem: VoxelProblem) -> int:
    """Bytes of the volumes of a result: fluence, errors, half buffers, and escaped weight."""
    p = problem
    volumes = 2 * p.gates + (p.gates > 1) + (p.halves > 1) * p.halves * p.gates + bool(p.settings.exit_map)
    return 4 * math.prod(p.size) * volumes * p.patterns

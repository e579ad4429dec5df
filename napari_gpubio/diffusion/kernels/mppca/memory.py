"""What Marchenko-Pastur PCA takes on a device at its fullest moment, before it begins."""

from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.diffusion.kernels.mppca import gpu
from napari_gpubio.diffusion.kernels.mppca.problem import PcaProblem


def memory_of(problem: PcaProblem, device: Device) -> Memory:
    """The series, the voxels, what is found in those of a chunk, and what threads, or blocks of a GPU, need.

    Of the GPU's chunks the longest one counts, and of its series what there is room for.
    """
    p, each = problem, problem.bytes_per_item
    if device.is_gpu:
        plan, plane = gpu.Plan(p, device), p.data[:1].nbytes
        planes = min(len(p.data), max(p.window[0], gpu.room_for_series(device) // plane))
        return Memory(
            inputs=p.voxels.nbytes + 4 * p.window_voxels + planes * plane,
            tallies=each * min(len(p.voxels), items_within_memory(device, each)),
            scratch=plan.blocks * plan.scratch_bytes,
        )
    from napari_gpubio.core.jit import thread_count
    from napari_gpubio.diffusion.kernels.mppca.projection import make_scratch

    scratch = thread_count() * sum(array.nbytes for array in make_scratch(p))
    chunk = min(len(p.voxels), p.first_chunk(device)) * (4 * p.volumes + 6)
    return Memory(inputs=p.data.nbytes + p.voxels.nbytes, tallies=chunk, scratch=scratch)

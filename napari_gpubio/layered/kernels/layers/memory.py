"""What a simulation in layers takes on a device at its fullest moment, before it begins."""

from napari_gpubio.core.device import Device, processor_count
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.layered.kernels.layers import gpu
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem


def memory_of(problem: LayeredProblem, device: Device) -> Memory:
    """What a run takes.

    On each of some GPUs while it traces all batches: tallies, their copies, packets under way. On the CPU it is most
    where a batch is added to the others, or where the errors of the largest map are pooled
    (`napari_gpubio.optics.pooled_variance`), which takes eleven arrays of its bins and, at the end, as many flags.
    """
    p, s = problem, problem.settings
    if device.is_gpu:
        blocks = min(processor_count(device) * gpu.BLOCKS_PER_PROCESSOR, -(-s.photons // gpu.THREADS))
        return Memory(tallies=p.gpu_bytes, scratch=2 * 4 * gpu.PACKET_WORDS * gpu.THREADS * blocks)
    from napari_gpubio.core.jit import thread_count

    done = p.resident_bytes
    tracing = Memory(tallies=done + 8 * p.tally_size * (p.tallies(thread_count()) + 2))
    bins = p.absorption_cells + 2 * (p.angular_cells + s.radial_bins + s.angle_bins) + s.depth_bins
    pooling = 89 * max(p.absorption_cells, p.angular_cells)
    made = Memory(tallies=done, results=16 * bins, scratch=2 * 8 * p.tally_size + pooling)
    return fuller(tracing, made)

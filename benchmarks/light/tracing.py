"""Photons on buffers made beforehand, as `simulate` traces them, and the whole call."""

from collections.abc import Callable

from common import Stopwatch, Timing

from light.plan import with_settings
from napari_gpubio.core.chunks import advance_in_pieces
from napari_gpubio.core.device import Device
from napari_gpubio.light.batches import FIRST_CHUNK, joined
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VoxelTally, assemble
from napari_gpubio.light.phantom.benchmarks import Case
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import make_runs, simulate

WARM_UP = {"cpu": 160, "cuda": 10_000}  # photons


class Tracing:
    """All photons of a case, ready to be traced once.

    Parameters
    ----------
    made
        The case; its settings say how many photons.
    device
        A CPU, one GPU, or several.
    """

    def __init__(self, made: Case, device: Device) -> None:
        self.problem = VoxelProblem(made.domain, made.source, made.settings, made.detectors)
        self._runs = make_runs(self.problem, device)
        self._pieces = joined(VoxelTally.empty(self.problem).missing(self.problem), self._runs[0].span)
        self._first_chunk = FIRST_CHUNK[device.kind]

    def in_chunks(self) -> None:
        """Trace them as `simulate` does: in chunks of about a tenth of a second, the folding of batches included."""
        for _ in advance_in_pieces(self._runs, self._pieces, first_chunk=self._first_chunk):
            pass

    def result(self) -> LightResult:
        """What was traced."""
        partial = VoxelTally.empty(self.problem)
        for run in self._runs:
            partial.add(run.snapshot(), self.problem)
        return assemble(self.problem, partial, {})

    def close(self) -> None:
        """Free the buffers."""
        for run in self._runs:
            run.close()


def trace_once(made: Case, device: Device, watch: Stopwatch) -> LightResult:
    """Trace a case, timing only the tracing."""
    tracing = Tracing(made, device)
    try:
        with watch.running():
            tracing.in_chunks()
        return tracing.result()
    finally:
        tracing.close()


def warm_up(made: Case, device: Device) -> None:
    """Compile and load what a case needs."""
    few = with_settings(made, photons=WARM_UP[device.kind])
    for _ in range(2):  # Numba's cache and the GPU's memory pool are filled by the first
        trace_once(few, device, Stopwatch())


def call(made: Case, device: Device) -> Callable[[], LightResult]:
    """Return the whole call, from arguments to result on the host."""
    return lambda: simulate(made.domain, made.source, made.settings, detectors=made.detectors, device=device)


def timed_tracing(made: Case, device: Device, repeats: int) -> tuple[Timing, LightResult]:
    """Time the tracing of a case several times after a warm-up; the last result too."""
    warm_up(made, device)
    watch = Stopwatch()
    for _ in range(repeats):
        result = trace_once(made, device, watch)
    return watch.timing(), result


def timed_call(made: Case, device: Device, repeats: int) -> Timing:
    """Time the whole call several times after a warm-up."""
    warm_up(made, device)
    watch, work = Stopwatch(), call(made, device)
    for _ in range(repeats):
        with watch.running():
            work()
    return watch.timing()

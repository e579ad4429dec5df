"""Photons on buffers made beforehand, as `simulate` traces them, and the whole call."""

from collections.abc import Callable, Sequence
from typing import Any

from common import Stopwatch, Timing, timed

from light.plan import with_settings
from napari_gpubio.core.chunks import advance_in_pieces
from napari_gpubio.core.device import Device
from napari_gpubio.light.assemble import assemble
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.phantom.benchmarks import Case
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import make_runs, simulate
from napari_gpubio.light.scheduling import FIRST_CHUNK, joined

WARM_UP = {"cpu": 160, "cuda": 10_000}  # photons


class Resident:
    """All photons of a problem on buffers made beforehand, ready to be traced once."""

    def __init__(self, problem: Any, runs: Sequence[Any], tally: Any, device: Device) -> None:
        self.problem, self._runs, self._tally = problem, runs, tally
        self._pieces = joined(tally.empty(problem).missing(problem), runs[0].span)
        self._first_chunk = FIRST_CHUNK[device.kind]

    def trace(self, first_chunk: int | None = None) -> None:
        """Trace them as `simulate` does: in chunks of about a tenth of a second, the folding of batches included."""
        for _ in advance_in_pieces(self._runs, self._pieces, first_chunk=first_chunk or self._first_chunk):
            pass

    def tallies(self) -> Any:
        """What was traced."""
        partial = self._tally.empty(self.problem)
        for run in self._runs:
            partial.add(run.snapshot(), self.problem)
        return partial

    def __enter__(self) -> "Resident":
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs:
            run.close()


def resident(made: Case, device: Device) -> Resident:
    """A case on a CPU, one GPU, or several."""
    problem = VoxelProblem(made.domain, made.source, made.settings, made.detectors)
    return Resident(problem, make_runs(problem, device), VoxelTally, device)


def trace_once(made: Case, device: Device, watch: Stopwatch) -> LightResult:
    """Trace a case, timing only the tracing."""
    with resident(made, device) as photons:
        with watch.running():
            photons.trace()
        return assemble(photons.problem, photons.tallies(), {})


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
    """Time the whole call several times after one that does not count."""
    return timed(call(made, device), repeats)

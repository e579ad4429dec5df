"""Photons on buffers made beforehand, as `simulate` traces them, and the whole call."""

from collections.abc import Callable
from typing import Any

from common import Stopwatch, Timing, timed

from light.plan import with_settings
from napari_gpubio.core.chunks import advance_in_pieces
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.light.benchmarks import Case
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import assemble
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate

WARM_UP = {"cpu": 160, "cuda": 10_000}  # photons


class Resident:
    """All photons of a problem on buffers made beforehand, ready to be traced once."""

    def __init__(self, problem: Any, device: Device, **given: Any) -> None:
        self.problem, self._runs = problem, Runs(problem, device, **given)
        self._pieces = problem.pieces(self._runs.each[0].span)
        self._first_chunk = problem.first_chunk(device)

    def trace(self, first_chunk: int | None = None) -> None:
        """Trace them as `simulate` does: in chunks of about a tenth of a second, the folding of batches included."""
        for _ in advance_in_pieces(self._runs.each, self._pieces, first_chunk=first_chunk or self._first_chunk):
            pass

    def tallies(self) -> Any:
        """What was traced."""
        return self._runs.tally()

    def __enter__(self) -> "Resident":
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.close()


def resident(made: Case, device: Device) -> Resident:
    """A case on a CPU, one GPU, or several."""
    problem = VoxelProblem(made.domain, made.source, made.settings, made.detectors)
    return Resident(problem, device)


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

"""Photons on buffers made beforehand, as `simulate` traces them, and the whole call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from common import Row, Stopwatch, Timing, load_average, row

from layered.plan import Case, with_photons
from napari_gpubio.core.chunks import advance_in_pieces
from napari_gpubio.core.device import Device
from napari_gpubio.light.batches import FIRST_CHUNK, joined
from napari_gpubio.light.kernels.layers.gpu import Run, Variant
from napari_gpubio.light.kernels.layers.problem import SCALE, LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.layers.run import make_runs, simulate
from napari_gpubio.light.result import Estimate

WARM_UP = {"cpu": 200, "cuda": 1 << 20}  # photons at least; fewer do not fill a GPU, and tell nothing of more
WARM_UP_SHARE = 100  # else that part of the photons
MOST_SECONDS = 20.0  # what seems to take longer is measured with a tenth of the photons
ENOUGH_SECONDS = 6.0  # after so long a thing is not timed again


class Timed(NamedTuple):
    """How long it took, how many photons, and what they gave: something that may not depend on how it was made fast."""

    timing: Timing
    photons: int
    reflectance: Estimate


class Tracing:
    """All photons of a case, ready to be traced once.

    Parameters
    ----------
    made
        The case; its settings say how many photons.
    device
        A CPU, one GPU, or several.
    variant
        How a single GPU tallies; None: as `simulate` does it.
    """

    def __init__(self, made: Case, device: Device, variant: Variant | None = None) -> None:
        self.problem = LayeredProblem(made.medium, made.settings)
        one = variant is not None
        self._runs = [Run(self.problem, device=device, variant=variant)] if one else make_runs(self.problem, device)
        self._pieces = joined(LayerTally.empty(self.problem).missing(self.problem), self._runs[0].span)
        self._first_chunk = FIRST_CHUNK[device.kind]

    def in_chunks(self) -> None:
        """Trace them as `simulate` does: in chunks of about a tenth of a second, the cache's pilot included."""
        for _ in advance_in_pieces(self._runs, self._pieces, first_chunk=self._first_chunk):
            pass

    def at_once(self) -> None:
        """Trace them in one launch for each processor, without a pause for previews and Stop."""
        for _ in advance_in_pieces(self._runs, self._pieces, first_chunk=self.problem.settings.photons):
            pass

    def tallies(self) -> LayerTally:
        """What was traced."""
        partial = LayerTally.empty(self.problem)
        for run in self._runs:
            partial.add(run.snapshot(), self.problem)
        return partial

    def close(self) -> None:
        """Free the buffers."""
        for run in self._runs:
            run.close()


def reflectance_of(problem: LayeredProblem, partial: LayerTally) -> Estimate:
    """Diffuse reflectance and its error, without the maps, which take their time."""
    cells = slice(problem.absorption_cells, problem.absorption_cells + problem.angular_cells)
    batches = list(partial.batches.values())
    shares = np.array([batch.numbers[cells].sum() / SCALE / batch.photons for batch in batches])
    error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    return Estimate(float(np.average(shares, weights=[batch.photons for batch in batches])), float(error))


def trace_once(
    made: Case, device: Device, watch: Stopwatch, variant: Variant | None = None, *, at_once: bool = False
) -> Estimate:
    """Trace a case, timing only the tracing."""
    tracing = Tracing(made, device, variant)
    try:
        with watch.running():
            tracing.at_once() if at_once else tracing.in_chunks()
        return reflectance_of(tracing.problem, tracing.tallies())
    finally:
        tracing.close()


def affordable(made: Case, device: Device, variant: Variant | None = None) -> Case:
    """Compile and load what a case needs, and return it with fewer photons if it is going to take too long."""
    photons, watch = made.settings.photons, Stopwatch()
    few = min(photons, max(photons // WARM_UP_SHARE, WARM_UP[device.kind]))
    for _ in range(2):  # Numba's cache and the GPU's memory pool are filled by the first
        trace_once(with_photons(made, few), device, watch, variant)
    too_long = watch.wall[-1] * photons / few > MOST_SECONDS
    return with_photons(made, max(few, photons // 10)) if too_long else made


def timed_tracing(made: Case, device: Device, repeats: int, variant: Variant | None = None) -> Timed:
    """Time the tracing of a case several times after a warm-up."""
    made = affordable(made, device, variant)
    return _timed(lambda watch: trace_once(made, device, watch, variant), made, repeats)


def timed_launch(made: Case, device: Device, repeats: int) -> Timed:
    """Time the tracing of a case in one launch."""
    trace_once(with_photons(made, max(1, made.settings.photons // 100)), device, Stopwatch(), at_once=True)
    return _timed(lambda watch: trace_once(made, device, watch, at_once=True), made, repeats)


def timed_call(made: Case, device: Device, repeats: int) -> Timed:
    """Time the whole call several times after a warm-up, from arguments to result on the host."""
    made = affordable(made, device)

    def call(watch: Stopwatch) -> Estimate:
        with watch.running():
            result = simulate(*made, device=device)
        return result.diffuse_reflectance

    return _timed(call, made, repeats)


def _timed(once: Callable[[Stopwatch], Estimate], made: Case, repeats: int) -> Timed:
    watch = Stopwatch()
    for _ in range(repeats):
        found = once(watch)
        if sum(watch.wall) > ENOUGH_SECONDS:
            break
    return Timed(watch.timing(), made.settings.photons, found)


def photon_row(name: str, device: Device, timed: Timed, **more: Any) -> Row:
    """A row that counts photons."""
    if not device.is_gpu:
        more = {"threads": numba.get_num_threads(), "load_average": load_average()[:1], **more}
    told = {"reflectance": timed.reflectance.value, "reflectance_error": timed.reflectance.error}
    return row(name, device, timed.timing, timed.photons, "photons", **told, **more)

"""Photons on buffers made beforehand, as `simulate` traces them, and the whole call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from common import Row, Stopwatch, Timing, row
from light.tracing import Resident

from layered.plan import Case, with_photons
from napari_gpubio.core.device import Device
from napari_gpubio.layered.kernels.layers.gpu import Variant
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import LayerTally
from napari_gpubio.layered.run import simulate
from napari_gpubio.optics.estimates import Estimate

WARM_UP = {"cpu": 200, "cuda": 1 << 20}  # photons at least; fewer do not fill a GPU, and tell nothing of more
WARM_UP_SHARE = 100  # else that part of the photons
MAX_SECONDS = 20.0  # what seems to take longer is measured with a tenth of the photons
ENOUGH_SECONDS = 6.0  # after so long a thing is not timed again


class Timed(NamedTuple):
    """How long it took, how many photons, and what they gave: something that may not depend on how it was made fast."""

    timing: Timing
    photons: int
    reflectance: Estimate


def resident(made: Case, device: Device, variant: Variant | None = None) -> Resident:
    """A case on a CPU, one GPU, or several; ``variant`` says how a single GPU tallies, if not as `simulate` does it."""
    problem = LayeredProblem(made.medium, made.settings)
    return Resident(problem, device, **({} if variant is None else {"variant": variant}))


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
    """Trace a case, timing only the tracing, to the end of the last packet and with the tallies on the host."""
    with resident(made, device, variant) as photons:
        with watch.running():  # in one launch for each processor, or with pauses for previews and Stop
            photons.trace(made.settings.photons if at_once else None)
            tallies = photons.tallies()
        return reflectance_of(photons.problem, tallies)


def affordable(made: Case, device: Device, variant: Variant | None = None) -> Case:
    """Compile and load what a case needs, and return it with fewer photons if it is going to take too long."""
    photons, watch = made.settings.photons, Stopwatch()
    few = min(photons, max(photons // WARM_UP_SHARE, WARM_UP[device.kind]))
    for _ in range(2):  # Numba's cache and the GPU's memory pool are filled by the first
        trace_once(with_photons(made, few), device, watch, variant)
    too_long = watch.wall[-1] * photons / few > MAX_SECONDS
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
    facts = {"reflectance": timed.reflectance.value, "reflectance_error": timed.reflectance.error, **more}
    if not device.is_gpu:
        facts["threads"] = numba.get_num_threads()
    return row(name, device, timed.timing, timed.photons, "photons", **facts)

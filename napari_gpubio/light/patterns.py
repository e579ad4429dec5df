"""Many patterns in one run, which share its photons: structured illumination and single-pixel imaging."""

import dataclasses
import functools
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.light.kernels.voxels.patterns import (
    launched_weights,
    part_of,
    sharing,
    start_density,
)
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VoxelTally, assemble
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import check_detectors, check_sources, described
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.batches import photon_steps, resumed
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import SimulationResult
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Pattern, Source, checked_patterns, rectangle_of

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class PatternResult(SimulationResult):
    """Results of patterns that shared the photons of one run.

    Parameters
    ----------
    results
        One `LightResult` for each pattern, per weight launched in it. Their errors are not independent of each other,
        and none of them can be resumed by itself; this can.
    """

    results: tuple[LightResult, ...]

    def of(self, pattern: int) -> LightResult:
        """Return the result of one pattern, from 0.

        Raises
        ------
        InvalidInput
            If there is no such pattern.
        """
        if not 0 <= pattern < len(self.results):
            raise InvalidInput(f"there is no pattern {pattern}; give one from 0 to {len(self.results) - 1}")
        return self.results[pattern]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[LightResult]:
        return iter(self.results)


def simulate_patterns_steps(
    domain: Domain,
    source: Source,
    patterns: Array,
    settings: LightSettings | None = None,
    *,
    detectors: Sequence[Detector] = (),
    device: str | Device = "auto",
    resume: PatternResult | None = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, PatternResult]:
    """Trace photons once for many patterns of one rectangle, step by step.

    Every photon has a weight for each pattern; result k is what a run with pattern k alone would give, within errors,
    divided by the weight launched in it. All patterns together take a little more time than one of them, and as much
    memory for tallies as all of them.

    Parameters
    ----------
    domain, settings, detectors, device, stop
        As of `napari_gpubio.light.simulate_steps`.
    source
        The rectangle: `Planar`, or `Pattern`, whose own pattern is not used.
    patterns
        Irradiance of each pattern, shape (K, rows, columns), each on any scale, nowhere negative. Signed patterns are
        differences of two of these.
    resume
        An earlier result of the same patterns and all else: only the photons that it lacks are traced.

    Raises
    ------
    InvalidInput
        As of `simulate_steps`, or if patterns are no stack of images, or one of them is negative, not finite, or zero
        everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import light, optics
    >>> head = optics.phantom.load_head_phantom()
    >>> above = optics.phantom.default_source(head)
    >>> source = optics.Planar(position_mm=above.position_mm, direction=above.direction)
    >>> halves = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> both = light.simulate_patterns(head, source, halves, light.LightSettings(photons=1000), device="cpu")
    >>> len(both), type(both.of(1).source).__name__
    (2, 'Pattern')
    """
    settings, images = settings or LightSettings(), checked_patterns(patterns)
    shape = rectangle_of(source).changed_to(Pattern, pattern=start_density(images))
    check_sources(domain, shape)
    check_detectors(domain, detectors)
    problem = sharing(VoxelProblem(domain, shape, settings, tuple(detectors)), images)
    problem = resumed(problem, resume, VoxelTally)
    advice = "take fewer patterns or time gates, larger voxels, or close other programs"
    problem.memory(CPU).check("the simulation", advice)
    made, how = functools.partial(_assemble, patterns=images), described(problem)
    steps = photon_steps(problem, VoxelTally.none(problem), made, how, device=device, resume=resume, stop=stop)
    return (yield from steps)


simulate_patterns = driven(simulate_patterns_steps)


def _assemble(
    problem: VoxelProblem, tally: VoxelTally, parameters: Mapping[str, Any], patterns: npt.NDArray[np.float64]
) -> PatternResult:
    """Turn the tallies of the photons that are done into a result of each pattern."""
    from napari_gpubio.light.kernels.voxels.pixels import detected_pixels

    pixels = detected_pixels(problem, tally)
    found = []
    for k, image in enumerate(patterns):
        alone = dataclasses.replace(problem, source=problem.source.changed_to(Pattern, pattern=image), shares=None)
        weights = launched_weights(problem, tally, k)
        counts = {"pattern": k, "patterns": len(patterns), "launched_weight": weights.total}
        shared = {"photon_sharing": counts | {"heaviest": problem.heaviest}}
        result = assemble(alone, part_of(problem, tally, k, pixels), {**parameters, **shared}, weights)
        found.append(_per_weight(result, weights.total))
    launched = tally.photons
    return PatternResult(
        results=tuple(found),
        launched=launched,
        complete=launched == problem.settings.photons,
        parameters=parameters,
        state=tally,
    )


def _per_weight(result: LightResult, launched_weight: float) -> LightResult:
    """The result per launched weight, where it is per photon, but for energies; it has no state of its own."""
    scale = np.float32(result.launched / launched_weight if launched_weight > 0 else 1.0)
    names = ("gates", "gates_error", "fluence_error", "half_fluences", "escaped_weight")
    volumes: dict[str, Any] = {name: getattr(result, name) for name in names}
    volumes = {name: None if values is None else values * scale for name, values in volumes.items()}
    detected = dataclasses.replace(result.detected, weight=result.detected.weight * scale)
    return dataclasses.replace(result, **volumes, detected=detected, state=None)

"""Statistics of a light result: fluence units, detected light, and fluence in each label."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.detectors import AnyDetector, DetectedPhotons, Detector, detector_names
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.estimates import fluence_units as fluence_units
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.pooled_variance import pooled_variance
from napari_gpubio.optics.sources import Source

Array = npt.NDArray[Any]
MAX_BINS, SHORTEST_NS = 100, 1e-3  # intervals of a time spread


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorNumbers:
    """Light that one detector detected.

    Parameters
    ----------
    name
        Its name, or its number.
    photons
        Photons listed.
    weight
        Their weight per launched photon.
    total_path_mm, path_mm
        Mean path length in tissue, in all and in each label; weighted, as the time is.
    separation_mm
        Distance between source and detector; not a number for a whole face.
    dpf
        Mean path over separation: the differential pathlength factor.
    time_ns
        Mean time of flight.
    """

    name: str
    photons: int
    weight: Estimate
    total_path_mm: Estimate
    path_mm: Mapping[int, Estimate]
    separation_mm: float
    dpf: Estimate
    time_ns: Estimate

    def parts(self) -> tuple[tuple[str, Estimate, str], ...]:
        """Name, number and unit of what is not by label."""
        return (
            ("Detected weight", self.weight, ""),
            ("Separation", Estimate(self.separation_mm, math.nan), "mm"),
            ("Mean path", self.total_path_mm, "mm"),
            ("DPF", self.dpf, ""),
            ("Mean time of flight", self.time_ns, "ns"),
        )


def detector_numbers(result: LightResult) -> tuple[DetectorNumbers, ...]:
    """The numbers of every detector, in their order."""
    return tuple(_of_detector(result, index) for index in range(len(result.detectors)))


def separation_mm(result: LightResult, detector: AnyDetector) -> float:
    """Distance between source and detector, mm; NaN of several sources, and of a whole face."""
    if not (isinstance(result.source, Source) and isinstance(detector, Detector)):
        return math.nan
    return math.dist(detector.position_mm, result.source.position_mm)


def _of_detector(result: LightResult, index: int) -> DetectorNumbers:
    detector, detected = result.detectors[index], result.detected.of(index)
    separation = separation_mm(result, detector)
    paths = _weighted_means(detected.weight, detected.path_mm)
    total = _weighted_means(detected.weight, detected.path_mm.sum(axis=1, dtype=np.float64)[:, None])[0]
    return DetectorNumbers(
        name=detector_names(result.detectors)[index],
        photons=len(detected),
        weight=_detected_weight(detected),
        total_path_mm=total,
        path_mm=dict(zip(detected.labels, paths, strict=True)),
        separation_mm=separation,
        dpf=Estimate(*(part / separation if separation > 0 else math.nan for part in total)),
        time_ns=_weighted_means(detected.weight, detected.time_ns[:, None])[0],
    )


def _detected_weight(detected: DetectedPhotons) -> Estimate:
    """Mean over all launched photons; one that was not detected weighs 0."""
    weight, launched = detected.weight.astype(np.float64), max(1, detected.listed_launched)
    mean = weight.sum() / launched
    variance = max(0.0, float(weight @ weight) / launched - mean**2)
    return Estimate(float(mean), math.sqrt(variance / max(1, launched - 1)))


def _weighted_means(weight: Array, values: Array) -> list[Estimate]:
    """Weighted mean of each column, and its standard error as that of a ratio of two sums; one photon knows none."""
    weight = weight.astype(np.float64)
    total = weight.sum()
    if total == 0:
        return [Estimate(math.nan, math.nan)] * values.shape[1]
    means = weight @ values / total
    errors = np.sqrt(weight**2 @ (values - means) ** 2) / total if len(weight) > 1 else np.full(means.shape, math.nan)
    return [Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True)]


def detected_sources(result: LightResult) -> npt.NDArray[np.int64]:
    """Return which source, from 0, each detected photon started at, shape (N,)."""
    if len(result.sources) == 1:
        return np.zeros(len(result.detected), np.int64)
    from napari_gpubio.light.kernels.voxels.pixels import drawn_sources

    return drawn_sources([source.weight for source in result.sources], result.settings.seed, result.detected.photon)


class TimeSpread(NamedTuple):
    """Temporal point spread function of a detector.

    Parameters
    ----------
    time_ns
        Middle of each interval, shape (B,).
    weight, error
        Detected weight per launched photon and ns, and its standard error, shape (B,).
    """

    time_ns: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


def time_spread(detected: DetectedPhotons) -> TimeSpread:
    """Temporal point spread function (TPSF) of the photons of one detector, in as many equal intervals as they fill."""
    if not len(detected):
        return TimeSpread(np.empty(0), np.empty(0), np.empty(0))
    bins = min(math.ceil(2 * len(detected) ** (1 / 3)), MAX_BINS)  # Rice's rule
    first, last = float(detected.time_ns.min()), float(detected.time_ns.max())
    slack = max(0.0, bins * SHORTEST_NS - (last - first)) / 2
    edges = np.linspace(first - slack, np.nextafter(last + slack, np.inf), bins + 1)
    squares, _ = np.histogram(detected.time_ns, edges, weights=detected.weight.astype(np.float64) ** 2)
    error = np.sqrt(squares) / np.diff(edges) / max(1, detected.listed_launched)
    return TimeSpread((edges[:-1] + edges[1:]) / 2, detected.time_point_spread(edges), error)


def pooled_error(result: LightResult) -> npt.NDArray[np.float32]:
    """Standard error of the fluence of all gates that neighboring voxels help to know, 1/mm^2, shape (X, Y, Z).

    The error that a result has comes from a voxel's own photons alone. It is right on average; but a dark voxel that
    has not seen the rare photons which carry most of its light has too small a value and, with it, too small an error.
    Here a voxel worth fewer than 100 photons has half of its variance from the ones around it, see
    `napari_gpubio.optics.pooled_variance`. It takes some passes over the volume, so it is made on request.

    Parameters
    ----------
    result
        What a simulation gave.
    """
    if np.isnan(result.fluence_error).any():
        return result.fluence_error
    value, error = result.fluence.astype(np.float64), result.fluence_error.astype(np.float64)
    return np.sqrt(pooled_variance(value, np.square(error), _AROUND, result.domain.labels > 0)).astype(np.float32)


_AROUND = (5, 5, 5)  # voxels whose errors help


class LabelFluence(NamedTuple):
    """Fluence in the voxels of a label, per launched photon.

    Parameters
    ----------
    volume_mm3
        Volume of the label.
    mean, highest
        Fluence, 1/mm^2. The highest is that of one noisy voxel among many, and so rather too high.
    above_mm3
        Volume in which a threshold is reached; NaN if there was none.
    """

    volume_mm3: float
    mean: Estimate
    highest: Estimate
    above_mm3: float


def label_fluence(result: LightResult, threshold: float | None = None) -> dict[int, LabelFluence]:
    """Fluence in each label that occurs.

    The mean's standard error is known where absorption is the same in the whole label: what the label absorbs is then
    its mean fluence times a constant, and has the same relative error. Elsewhere it is NaN, because neighboring
    voxels do not vary independently.

    Parameters
    ----------
    result
        What a simulation gave.
    threshold
        Fluence per launched photon, 1/mm^2.
    """
    domain = result.domain
    counts, sums, places, above = _tally(
        domain.labels.ravel(), result.fluence.ravel(), np.float32(np.inf if threshold is None else threshold)
    )
    found = {}
    for label in domain.labels_present:
        mean, place = sums[label] / counts[label], places[label]
        found[label] = LabelFluence(
            volume_mm3=float(counts[label]) * domain.voxel_volume_mm3,
            mean=Estimate(float(mean), float(mean) * _relative_error(result, label)),
            highest=Estimate(float(result.fluence.ravel()[place]), float(result.fluence_error.ravel()[place])),
            above_mm3=math.nan if threshold is None else float(above[label]) * domain.voxel_volume_mm3,
        )
    return found


def _relative_error(result: LightResult, label: int) -> float:
    part = result.absorbed.get(label)
    if result.domain.mua_per_mm is not None or part is None or part.value <= 0:
        return math.nan
    return part.error / part.value


def _tally(labels: Array, fluence: Array, threshold: np.float32) -> tuple[Array, Array, Array, Array]:
    """Of each label: voxels, sum of the fluence, first voxel of the highest, voxels that reach the threshold."""
    from napari_gpubio.light.kernels.voxels.fold import add_by_label, writable

    size = 1 + int(labels.max())
    sums, highest, (counts, places, above) = np.zeros(size), np.full(size, -np.inf), np.zeros((3, size), np.int64)
    add_by_label(writable(labels), writable(fluence), threshold, counts, sums, highest, places, above)
    return counts, sums, places, above


def label_name(domain: Domain, label: int) -> str:
    """Name of a label's medium."""
    return domain.medium(label).name or f"label {label}"

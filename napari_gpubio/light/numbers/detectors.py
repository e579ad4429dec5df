"""What each detector caught, in the terms of near-infrared spectroscopy."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.result import Estimate, LightResult

Array = npt.NDArray[Any]
MOST_BINS, SHORTEST_NS = 100, 1e-3  # intervals of a time spread


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorNumbers:
    """What one detector caught.

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
        Distance between source and detector.
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
        """Name, number and unit of what is not told by label."""
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


def _of_detector(result: LightResult, index: int) -> DetectorNumbers:
    detector, caught = result.detectors[index], result.detected.of(index)
    separation = math.dist(detector.position_mm, result.source.position_mm)
    paths = _weighted_means(caught.weight, caught.path_mm)
    total = _weighted_means(caught.weight, caught.path_mm.sum(axis=1, dtype=np.float64)[:, None])[0]
    return DetectorNumbers(
        name=detector.name or str(index + 1),
        photons=len(caught),
        weight=_detected_weight(caught),
        total_path_mm=total,
        path_mm=dict(zip(caught.labels, paths, strict=True)),
        separation_mm=separation,
        dpf=Estimate(*(part / separation if separation > 0 else math.nan for part in total)),
        time_ns=_weighted_means(caught.weight, caught.time_ns[:, None])[0],
    )


def _detected_weight(caught: DetectedPhotons) -> Estimate:
    """Mean over all launched photons; one that was not caught weighs 0."""
    weight, launched = caught.weight.astype(np.float64), max(1, caught.launched)
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


def time_spread(caught: DetectedPhotons) -> TimeSpread:
    """Temporal point spread function (TPSF) of the photons of one detector, in as many equal intervals as they fill."""
    if not len(caught):
        return TimeSpread(np.empty(0), np.empty(0), np.empty(0))
    bins = min(math.ceil(2 * len(caught) ** (1 / 3)), MOST_BINS)  # Rice's rule
    first, last = float(caught.time_ns.min()), float(caught.time_ns.max())
    slack = max(0.0, bins * SHORTEST_NS - (last - first)) / 2
    edges = np.linspace(first - slack, np.nextafter(last + slack, np.inf), bins + 1)
    squares, _ = np.histogram(caught.time_ns, edges, weights=caught.weight.astype(np.float64) ** 2)
    error = np.sqrt(squares) / np.diff(edges) / max(1, caught.launched)
    return TimeSpread((edges[:-1] + edges[1:]) / 2, caught.time_point_spread(edges), error)

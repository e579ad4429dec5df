"""Fluence in each label, in one pass over the volume."""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from napari_gpubio.light.model import Domain
from napari_gpubio.light.result import Estimate, LightResult

Array = npt.NDArray[Any]


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


@numba.njit(cache=True, nogil=True)
def _tally(labels: Array, fluence: Array, threshold: float) -> tuple[Array, Array, Array, Array]:
    """Of each label: voxels, sum of the fluence, voxel of the highest, voxels that reach the threshold."""
    size = 65536
    counts, sums = np.zeros(size, np.int64), np.zeros(size, np.float64)
    places, above = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    for voxel in range(labels.size):
        label, value = labels[voxel], fluence[voxel]
        counts[label] += 1
        sums[label] += value
        above[label] += value >= threshold
        if places[label] < 0 or value > fluence[places[label]]:
            places[label] = voxel
    return counts, sums, places, above


def label_name(domain: Domain, label: int) -> str:
    """What a label stands for, as its medium says."""
    return domain.medium(label).name or f"label {label}"

"""The dose as the kernels read it, and its bins."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.settings import DvhSettings

Array = npt.NDArray[Any]
_TINY = np.float32(2.0**-60)  # of numbers near 1: less is 0, so that no product is subnormal, which a GPU would flush
FINE_STEPS = 1 << 20  # steps between the least and the largest dose in which sums of dose are kept
_MANTISSA_BITS = 23
_OCTAVES = 17  # at least, in bins of equal ratio: five decades


class ScaledDose(NamedTuple):
    """A dose volume from which ``least`` is subtracted and which is divided by a power of two, so as to be in [0, 1].

    Parameters
    ----------
    values
        Shape (X, Y, Z), float32, C order.
    from_world
        World mm to voxel index, 4 x 4.
    least, scale
        dose = least + scale x value.
    """

    values: npt.NDArray[np.float32]
    from_world: npt.NDArray[np.float64]
    least: float
    scale: float


class BinRule(NamedTuple):
    """How a value finds its bin, as the kernels take it.

    Parameters
    ----------
    inverse_width
        Bins per unit of value, where they are of equal width.
    shift, first
        Where they are of equal ratio: the bits of a value that are dropped, and the bin of the lowest one.
    fine
        Steps of the sum of dose per unit of value.
    """

    logarithmic: np.int32
    bins: np.int32
    inverse_width: np.float32
    shift: np.int32
    first: np.int32
    fine: np.float32


@dataclass(frozen=True, eq=False, slots=True)
class Bins:
    """Bins between the least and the largest dose.

    Parameters
    ----------
    rule
        For the kernels.
    edges
        In units of the dose, shape (bins + 1,).
    fine_step
        Dose of one step of the sums.
    least
        Dose at which the sums count 0.
    """

    rule: BinRule
    edges: npt.NDArray[np.float64]
    fine_step: float
    least: float


def scaled_dose(dose: Dose) -> ScaledDose:
    """Lay a dose out for the kernels; takes 4 bytes a voxel."""
    array, affine = c_ordered(dose.values, dose.affine)
    least = min(0.0, dose.least)
    width = dose.largest - least
    scale = float(2.0 ** np.ceil(np.log2(width))) if width > 0 else 1.0
    values = np.empty(array.shape, np.float32)
    for source, target in zip(array, values, strict=True):  # slice by slice, to save memory
        target[...] = (source.astype(np.float64) - least) / scale
        target[target < _TINY] = 0.0
    return ScaledDose(values, np.asarray(np.linalg.inv(affine), np.float64), least, scale)


def make_bins(grid: ScaledDose, settings: DvhSettings) -> Bins:
    """Bins for a dose, as the settings want them."""
    top = float(grid.values.max()) or 1.0
    fine = np.float32(FINE_STEPS / top)
    if settings.bin_scale == "linear":
        rule = BinRule(
            np.int32(0), np.int32(settings.bins), np.float32(settings.bins / top), np.int32(0), np.int32(0), fine
        )
        edges = np.arange(settings.bins + 1) / np.float64(rule.inverse_width)
    else:
        rule = _ratio_rule(settings.bins, np.float32(top), fine)
        edges = _ratio_edges(rule)
    edges[-1] = max(edges[-1], top)
    return Bins(rule, grid.least + grid.scale * edges, grid.scale / float(fine), grid.least)


def _ratio_rule(count: int, top: np.float32, fine: np.float32) -> BinRule:
    """The leading bits of a float32 are a bin number: as many bins in every octave, of equal width in each."""
    per_octave = int(np.clip(np.floor(np.log2(count / _OCTAVES)), 0, _MANTISSA_BITS))
    shift = _MANTISSA_BITS - per_octave
    highest = int(top.view(np.int32)) >> shift
    first = max(highest - count + 1, 0)
    return BinRule(np.int32(1), np.int32(count), np.float32(0), np.int32(shift), np.int32(first), fine)


def _ratio_edges(rule: BinRule) -> npt.NDArray[np.float64]:
    bits = (int(rule.first) + np.arange(int(rule.bins) + 1)) << int(rule.shift)
    edges = np.minimum(bits, 0x7F7FFFFF).astype(np.int32).view(np.float32).astype(np.float64)
    edges[0] = 0.0  # the lowest bin holds all that is less
    return edges


def c_ordered(array: Array, affine: npt.NDArray[np.float64]) -> tuple[Array, npt.NDArray[np.float64]]:
    """A volume whose last axis is contiguous in memory, copied only if it must be, and its affine.

    A napari layer's array is the transposed of a volume, so a volume in C order is often seen from its other end.
    """
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return array.T, affine[:, [2, 1, 0, 3]]
    return np.ascontiguousarray(array), affine

"""Bins of dose, of equal width or of nearly equal ratio."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.kernels.histogram.grid import ScaledDose
from napari_gpubio.dose.settings import DvhSettings

FINE_STEPS = 1 << 20  # steps between the least and the largest dose in which sums of dose are kept
_MANTISSA_BITS = 23
_OCTAVES = 17  # at least, in bins of equal ratio: five decades


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


def make_bins(grid: ScaledDose, settings: DvhSettings) -> Bins:
    """Bins for a dose, as the settings want them."""
    top = grid.top or 1.0
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

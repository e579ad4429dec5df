"""The dose as the kernels read it: scaled values, and bins between the least and the largest dose."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.jit import kernel, read_only
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import same_grid
from napari_gpubio.dose.model import Dose, is_turned
from napari_gpubio.dose.settings import DvhSettings

Array = npt.NDArray[Any]
# Sums of dose are kept in steps of a part of the doses' width, and what is below a step in parts of that again: 40 bits
# in all, so that the mean of what is a billionth of the largest dose is still right.
FINE_STEPS = 1 << 20
_TINY = np.float32(2.0**-60)  # of numbers near 1: less is 0, so that no product is subnormal, which a GPU would flush
_MIN_SCALE = 2.0**-1000  # whose inverse is a number still
_MANTISSA_BITS = 23
_LOWEST_BINS = 2  # in bins of equal ratio: the dose 0, and doses between it and the least one of the volume


class ScaledDose(NamedTuple):
    """A dose volume, and the numbers that bring it into [0, 1]: (dose - ``least``) / ``scale``, as float32."""

    source: Array  # the doses, shape (X, Y, Z), float32 or float64, C order
    affine: npt.NDArray[np.float64]  # voxel to world mm, 4 x 4
    least: float
    scale: float  # a power of two, so that dividing by it costs no bits
    top: float  # largest scaled value; 0 where all doses are ``least``
    whole: bool  # whether a voxel's value holds in all of it, instead of values being interpolated between centers
    turned: bool  # whether X, Y, Z are the axes of the array that was given from the last to the first; see `c_ordered`

    @property
    def from_world(self) -> npt.NDArray[np.float64]:
        """World mm to voxel index, 4 x 4."""
        return np.asarray(np.linalg.inv(self.affine), np.float64)

    @property
    def inverse_scale(self) -> float:
        """What doses are multiplied by."""
        return 1.0 / self.scale

    def values(self) -> npt.NDArray[np.float32]:
        """Scaled values, same shape, on the CPU; takes 4 bytes a voxel. ``scale_dose`` of ``dvh.cu`` is its backend."""
        out = np.empty(self.source.shape, np.float32)
        _scale(0, out.size, read_only(self.source.reshape(-1)), self.least, self.inverse_scale, out.reshape(-1))
        return out


@kernel
def _scale(start: int, stop: int, source: Array, least: float, inverse: float, out: Array) -> None:
    """Scale some voxels; on one core, which memory keeps busy already."""
    source, out = source[start:stop], out[start:stop]
    for n in range(len(source)):  # from 0, so that LLVM uses vector instructions
        value = np.float32((np.float64(source[n]) - least) * inverse)
        out[n] = value if value >= _TINY else np.float32(0.0)


def scaled_dose(dose: Dose, *, whole: bool, turned: bool | None = None) -> ScaledDose:
    """Lay a dose out for the kernels; ``turned`` is that of an earlier layout on the same grid."""
    array, affine = c_ordered(dose.values, dose.affine, turned=turned)
    least = min(0.0, dose.least)
    width = dose.largest - least
    scale = max(float(2.0 ** np.ceil(np.log2(width))), _MIN_SCALE) if width > 0 else 1.0
    top = np.float32(width / scale)
    exact = np.can_cast(array.dtype, np.float32) and width > _TINY  # a GPU would flush subnormal doses
    return ScaledDose(
        source=array.astype(np.float32 if exact else np.float64, copy=False),
        affine=affine,
        least=least,
        scale=scale,
        top=float(top) if top >= _TINY else 0.0,
        whole=whole,
        turned=is_turned(dose.values) if turned is None else turned,
    )


def renewed(grid: ScaledDose, dose: Dose) -> ScaledDose:
    """The layout of another dose on the same grid; InvalidInput if it lies on another one."""
    new = scaled_dose(dose, whole=grid.whole, turned=grid.turned)
    is_same = new.source.shape == grid.source.shape and np.array_equal(new.affine, grid.affine)  # known in microseconds
    if not is_same and not same_grid(new.source.shape, new.affine, grid.source.shape, grid.affine):
        raise InvalidInput(
            f"the new dose has shape {dose.values.shape} and another grid than the one that structures were laid out "
            "for; give a dose on the same grid, or start anew"
        )
    return new._replace(affine=grid.affine)


def c_ordered(
    array: Array, affine: npt.NDArray[np.float64], *, turned: bool | None = None
) -> tuple[Array, npt.NDArray[np.float64]]:
    """A volume whose last axis is contiguous in memory, copied only if it must be, and its affine.

    Its axes are taken from the last to the first if ``turned``; None: if that saves a copy.
    """
    if is_turned(array) if turned is None else turned:
        return np.ascontiguousarray(array.T), affine[:, [2, 1, 0, 3]]
    return np.ascontiguousarray(array), affine


class BinRule(NamedTuple):
    """How a value finds its bin, as the kernels take it."""

    logarithmic: np.int32
    bins: np.int32
    inverse_width: np.float32  # bins per unit of value, where they are of equal width
    # where they are of equal ratio: the bits of a value that are dropped, and the bin of the lowest one
    shift: np.int32
    first: np.int32
    fine: np.float32  # steps of the sum of dose per unit of value


@dataclass(frozen=True, eq=False, slots=True)
class Bins(ShortRepr):
    """Bins between the least and the largest dose."""

    rule: BinRule
    # in units of the dose, shape (bins + 1,); bins of equal ratio begin with one that holds the dose 0 alone
    edges: npt.NDArray[np.float64]
    fine_step: float  # dose of one step of the sums
    least: float  # dose at which the sums count 0


def make_bins(grid: ScaledDose, settings: DvhSettings) -> Bins:
    """Bins for a dose, from the settings; InvalidInput if they cannot hold its doses."""
    top = grid.top or 1.0
    fine = np.float32(FINE_STEPS / top)
    if settings.bin_scale == "linear":
        rule = BinRule(
            np.int32(0), np.int32(settings.bins), np.float32(settings.bins / top), np.int32(0), np.int32(0), fine
        )
        edges = np.arange(settings.bins + 1) / np.float64(rule.inverse_width)
    else:
        if grid.least < 0:
            raise InvalidInput(
                f"bins of equal ratio need doses from 0 on, and the least one is {grid.least:.4g}; choose linear bins"
            )
        rule = _ratio_rule(settings.bins, _least_positive(grid), np.float32(top), fine)
        edges = _ratio_edges(rule)
    edges[-1] = max(edges[-1], top)
    return Bins(rule, grid.least + grid.scale * edges, grid.scale / float(fine), grid.least)


def _least_positive(grid: ScaledDose) -> np.float32:
    """The least scaled value that is not 0; the largest one if all are 0."""
    scaled = (np.asarray(grid.source, np.float64) - grid.least) * grid.inverse_scale
    return np.float32(np.min(scaled, where=scaled >= _TINY, initial=grid.top or 1.0))


def _ratio_rule(count: int, least: np.float32, top: np.float32, fine: np.float32) -> BinRule:
    """The leading bits of a float32 are a bin number: as many bins in every octave, of equal width in each.

    There are as many octaves as from the least to the largest dose, so that bins are as narrow as their number allows.
    """
    octaves = 1 + (int(top.view(np.int32)) >> _MANTISSA_BITS) - (int(least.view(np.int32)) >> _MANTISSA_BITS)
    per_octave = int(np.clip(np.floor(np.log2(max((count - _LOWEST_BINS) / octaves, 1.0))), 0, _MANTISSA_BITS))
    shift = _MANTISSA_BITS - per_octave
    highest = int(top.view(np.int32)) >> shift
    first = max(highest - count + 1, 0)
    return BinRule(np.int32(1), np.int32(count), np.float32(0), np.int32(shift), np.int32(first), fine)


def _ratio_edges(rule: BinRule) -> npt.NDArray[np.float64]:
    bits = (int(rule.first) + np.arange(int(rule.bins) + 1)) << int(rule.shift)
    edges = np.minimum(bits, 0x7F7FFFFF).astype(np.int32).view(np.float32).astype(np.float64)
    edges[:_LOWEST_BINS] = 0.0  # all that is less, except 0 itself, is in the second one
    return edges

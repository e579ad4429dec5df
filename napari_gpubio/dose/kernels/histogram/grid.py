"""The dose as the kernels read it."""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import same_grid
from napari_gpubio.dose.model import Dose

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")
_TINY = np.float32(2.0**-60)  # of numbers near 1: less is 0, so that no product is subnormal, which a GPU would flush
_LEAST_SCALE = 2.0**-1000  # whose inverse is a number still


class ScaledDose(NamedTuple):
    """A dose volume, and the numbers that bring it into [0, 1]: (dose - ``least``) / ``scale``, as float32.

    Parameters
    ----------
    source
        The doses, shape (X, Y, Z), float32 or float64, C order.
    affine
        Voxel to world mm, 4 x 4.
    least, scale
        ``scale`` is a power of two, so that dividing by it costs no bits.
    top
        Largest scaled value; 0 where all doses are ``least``.
    turned
        Whether X, Y, Z are the axes of the array that was given from the last to the first; see `c_ordered`.
    """

    source: Array
    affine: npt.NDArray[np.float64]
    least: float
    scale: float
    top: float
    turned: bool

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
        _scale(self.source.reshape(-1), self.least, self.inverse_scale, out.reshape(-1))
        return out


@_jit
def _scale(source: Array, least: float, inverse: float, out: Array) -> None:
    """On one core, which memory keeps busy already."""
    for n in range(len(source)):
        value = np.float32((np.float64(source[n]) - least) * inverse)
        out[n] = value if value >= _TINY else np.float32(0.0)


def scaled_dose(dose: Dose, *, turned: bool | None = None) -> ScaledDose:
    """Lay a dose out for the kernels; ``turned`` is that of an earlier layout on the same grid."""
    array, affine = c_ordered(dose.values, dose.affine, turned=turned)
    least = min(0.0, dose.least)
    width = dose.largest - least
    scale = max(float(2.0 ** np.ceil(np.log2(width))), _LEAST_SCALE) if width > 0 else 1.0
    top = np.float32(width / scale)
    exact = np.can_cast(array.dtype, np.float32) and width > _TINY  # a GPU would flush subnormal doses
    return ScaledDose(
        source=array.astype(np.float32 if exact else np.float64, copy=False),
        affine=affine,
        least=least,
        scale=scale,
        top=float(top) if top >= _TINY else 0.0,
        turned=is_turned(dose.values) if turned is None else turned,
    )


def renewed(grid: ScaledDose, dose: Dose) -> ScaledDose:
    """The layout of another dose on the same grid.

    Raises
    ------
    InvalidInput
        If it lies on another grid.
    """
    new = scaled_dose(dose, turned=grid.turned)
    is_same = new.source.shape == grid.source.shape and np.array_equal(new.affine, grid.affine)  # known in microseconds
    if not is_same and not same_grid(new.source.shape, new.affine, grid.source.shape, grid.affine):
        raise InvalidInput(
            f"the new dose has shape {dose.values.shape} and another grid than the one that structures were laid out "
            "for; give a dose on the same grid, or start anew"
        )
    return new._replace(affine=grid.affine)


def is_turned(array: Array) -> bool:
    """Whether a volume is seen from its other end: in memory its first axis is the contiguous one.

    A napari layer's array is the transposed of a volume, so a volume in C order often is.
    """
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


def c_ordered(
    array: Array, affine: npt.NDArray[np.float64], *, turned: bool | None = None
) -> tuple[Array, npt.NDArray[np.float64]]:
    """A volume whose last axis is contiguous in memory, copied only if it must be, and its affine.

    Parameters
    ----------
    array, affine
        A volume and its voxel-to-world matrix.
    turned
        Whether its axes are taken from the last to the first; None: if that saves a copy.
    """
    if is_turned(array) if turned is None else turned:
        return np.ascontiguousarray(array.T), affine[:, [2, 1, 0, 3]]
    return np.ascontiguousarray(array), affine

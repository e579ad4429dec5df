"""Where the pixels of a DICOM image lie."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.io.dicom import numbers

Array = npt.NDArray[np.float64]
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's patient axes to those of this package
EVEN = 1e-2  # share of the distance of slices by which they may differ
_SQUARE = 1e-4  # cosine of the angle between rows and columns


def plane_axes(dataset: Any, name: str) -> Array:
    """Columns: from a pixel to the next one in its row and in its column, mm, and the unit normal; patient axes, 3 x 3.

    Raises
    ------
    InvalidInput
        If the orientation or the spacing is missing or cannot be; ``name`` is the file's.
    """
    cosines = numbers(dataset, "ImageOrientationPatient", name, 6)
    along_row, along_column = cosines[:3], cosines[3:]
    lengths = np.linalg.norm([along_row, along_column], axis=1)
    if abs(along_row @ along_column) > _SQUARE or np.abs(lengths - 1).max() > _SQUARE:
        raise InvalidInput(
            f"ImageOrientationPatient of {name} is {cosines.tolist()}, which are no axes; export it again"
        )
    between_rows, between_columns = numbers(dataset, "PixelSpacing", name, 2)
    normal = np.cross(along_row, along_column)
    return np.stack([along_row * between_columns, along_column * between_rows, normal], axis=1)


def to_world(axes: Array, slice_mm: float, first: Array) -> Array:
    """Index of column, row, slice to world mm (RAS), 4 x 4.

    Parameters
    ----------
    axes
        See `plane_axes`.
    slice_mm
        From one slice to the next along the normal; negative if they run against it.
    first
        Patient coordinates of the first pixel, mm.
    """
    affine = np.eye(4)
    affine[:3, :2], affine[:3, 2] = axes[:, :2], axes[:, 2] * slice_mm
    affine[:3, 3] = first
    return LPS_TO_RAS @ affine

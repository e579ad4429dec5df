"""Projections of the world on what is displayed: the canvas, and the thumbnail in the layer list."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.gui.lines.paint import unpack_rgb

if TYPE_CHECKING:
    from napari_gpubio.gui.lines.packed import Lines

Array = npt.NDArray[Any]
_THUMBNAIL_POINTS = 4096


def display_matrix(linear: Array, displayed: list[int]) -> npt.NDArray[np.float64]:
    """Map data (x, y, z) to the local coordinates of napari's layer node, shape (3, 3).

    napari gives the node only the part of the transform that belongs to the displayed axes: it drops what a rotated
    layer's hidden axis adds to the picture. This matrix puts that back, so that node transform times this matrix is
    the true projection of the world on the displayed axes; without rotation it merely selects and orders axes.

    Parameters
    ----------
    linear
        3 x 3 map from data to world, both in layer axes z, y, x.
    displayed
        Layer axes on the canvas, as napari orders them (the last one is drawn from left to right).
    """
    rows = list(displayed)[::-1]
    matrix = np.zeros((3, 3))
    # the pseudo-inverse, because an affine that exchanges axes leaves napari's own part without an inverse
    matrix[: len(rows)] = np.linalg.pinv(linear[np.ix_(rows, rows)]) @ linear[rows][:, ::-1]
    return matrix


def thumbnail(lines: "Lines", axes: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Picture of evenly spaced points, projected on two layer axes."""
    picture = np.zeros(shape, np.uint8)
    picture[..., 3] = 255
    some = lines.vertices[:: max(1, len(lines.vertices) // _THUMBNAIL_POINTS)]
    if len(some):
        low, high = lines.extent[:, axes]
        scale = (min(shape[:2]) - 1) / max(float((high - low).max()), 1e-6)
        row, column = ((some[:, 2::-1][:, axes] - low) * scale).astype(np.intp).T
        picture[row, column, :3] = unpack_rgb(some[:, 3])
    return picture

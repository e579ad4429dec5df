"""Values of an image along lines, to color them by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import trilinear
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.gui.lines.packed import Lines

Array = npt.NDArray[Any]
_MIN_POINTS = 20_000  # worth a thread


@dataclass(frozen=True, eq=False, kw_only=True)
class LineImage(ShortRepr):
    """An image that lines can be colored by.

    Parameters
    ----------
    name
        Of the number that the lines get.
    array
        The volume, shape (X, Y, Z), any real type.
    affine
        Voxel to world (x, y, z), mm: the image's own, however its grid lies to that of the lines.
    unit
        Of its values; empty if it has none.
    """

    name: str
    array: Array
    affine: Array
    unit: str = ""

    def along(self, lines: Lines, linear: Array, translate: Array) -> npt.NDArray[np.float32]:
        """Return the value at every point by trilinear interpolation, shape (P,); NaN outside of the image.

        Parameters
        ----------
        lines
            The lines.
        linear, translate
            Their data to world, layer axes z, y, x: 3 x 3, and (3,).
        """
        to_world = np.eye(4)
        to_world[:3, :3], to_world[:3, 3] = linear[::-1, ::-1], translate[::-1]
        matrix = np.ascontiguousarray((np.linalg.inv(self.affine) @ to_world)[:3])
        values = np.empty(len(lines.vertices), np.float32)
        source = np.ascontiguousarray(self.array, np.float32)
        run_blocks(trilinear.sample_points, len(values), source, matrix, lines.vertices, values, least=_MIN_POINTS)
        return values


_SHORT = {"fa", "md", "ad", "rd", "fod"}  # what is written in capital letters


def title_of(name: str, unit: str = "") -> str:
    """Return a number's name for people, with its unit: "length (mm)" for ``length_mm``, "mean FA" for ``mean_fa``."""
    words = name.removesuffix("_mm").replace("_", " ").split(" ")
    readable = " ".join(word.upper() if word in _SHORT else word for word in words)
    unit = unit or ("mm" if name.endswith("_mm") else "")
    return readable if not unit or readable.endswith(f"({unit})") else f"{readable} ({unit})"


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return the name, or one made from it that is not taken."""
    names = (name, f"{name} (image)", *(f"{name} (image {n})" for n in range(2, 1000)))
    return next(one for one in names if one not in taken)

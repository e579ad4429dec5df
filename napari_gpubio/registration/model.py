"""Transforms from the space of one image to that of another, and the figures by which they are judged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, checked_affine

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform:
    """Where the points of an image (fixed) lie in another one (moving).

    Parameters
    ----------
    matrix
        4 x 4, world mm of the fixed image to world mm of the moving one.
    displacement
        Added to a point before the matrix: mm along the world's axes, shape (X, Y, Z, 3); None: nothing.
    grid
        Voxel to world of the displacement, mm.
    figures
        By which a registration is judged; empty for a transform that was read.
    notes
        What is to be looked at, in sentences.
    complete
        Whether the registration came to its end.

    Raises
    ------
    InvalidInput
        If the matrix cannot be inverted, or the displacement is no field of vectors.

    Examples
    --------
    >>> import numpy as np
    >>> shift = np.eye(4)
    >>> shift[0, 3] = 5.0
    >>> Transform(matrix=shift).apply([1.0, 2.0, 3.0])
    array([6., 2., 3.])
    """

    matrix: npt.NDArray[np.float64]
    displacement: Array | None = None
    grid: Array | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_affine(self.matrix))
        if self.displacement is None:
            return
        if self.grid is None or self.displacement.ndim != 4 or self.displacement.shape[3] != 3:
            raise InvalidInput(
                f"the displacement has shape {self.displacement.shape}; give (X, Y, Z, 3) and its affine (grid)"
            )
        object.__setattr__(self, "grid", checked_affine(self.grid))

    def apply(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map points of the fixed image, shape (..., 3), to the moving one."""
        points = np.asarray(points_mm, np.float64)
        if self.displacement is not None and self.grid is not None:
            from scipy.ndimage import map_coordinates

            at = apply_affine(np.linalg.inv(self.grid), points.reshape(-1, 3)).T
            moved = [map_coordinates(self.displacement[..., k], at, order=1, output=float) for k in range(3)]
            points = points + np.stack(moved, -1).reshape(points.shape)
        return apply_affine(self.matrix, points)

    def lines(self) -> Iterator[str]:
        """Its figures, for people."""
        if not (found := self.figures):
            return
        before, after = found["mutual_information_before"], found["mutual_information_after"]
        least, largest = found["least_displacement_mm"], found["largest_displacement_mm"]
        yield f"mutual information: {before:.3g} bits before, {after:.3g} after; metric {found['final_metric']:.3g}"
        yield f"overlap of the brains: {found['overlap_before']:.0%} before, {found['overlap_after']:.0%} after"
        yield f"displacement: {least:.3g} to {largest:.3g} mm; turned by {found['rotation_degrees']:.3g}°"
        yield f"determinant: {found['determinant']:.4g}; largest scaling {found['largest_scaling']:.4g}"

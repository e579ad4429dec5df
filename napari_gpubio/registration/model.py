"""Transforms from the space of one image to that of another, and the figures by which they are judged."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, checked_affine, rotation_of, voxel_sizes_mm

Array = npt.NDArray[Any]
_SHEARED = 1e-3  # edges of a voxel


def is_sheared(affine: Array) -> bool:
    """Whether voxels are no boxes, which ITK's are always."""
    sizes = voxel_sizes_mm(affine)
    return bool(np.abs(affine[:3, :3] - rotation_of(affine) * sizes).max() >= _SHEARED * sizes.min())


@dataclass(frozen=True, eq=False, kw_only=True)
class Warp(ShortRepr):
    """Displacements of points, interpolated between the voxels of a grid; a point outside it stays where it is.

    Parameters
    ----------
    displacements
        Shape (X, Y, Z, 3), mm along the world's axes. InvalidInput if it has another one, or one is not finite.
    affine
        Voxel to world of the grid, mm.
    """

    displacements: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        found = np.asarray(self.displacements, np.float32)
        if found.ndim != 4 or found.shape[3] != 3 or 0 in found.shape:
            raise InvalidInput(f"displacements have shape {found.shape}; give (x, y, z, 3)")
        if (wrong := np.count_nonzero(~np.isfinite(found).all(axis=3))) != 0:
            raise InvalidInput(f"displacements are not finite in {wrong:,} voxels; make the transform again")
        object.__setattr__(self, "displacements", found)
        object.__setattr__(self, "affine", checked_affine(self.affine))

    def moved(self, points: Array) -> Array:
        """Where world points, shape (..., 3), lie."""
        from scipy.ndimage import map_coordinates

        at = apply_affine(np.linalg.inv(self.affine), points)
        inside = ((at >= -0.5) & (at < np.array(self.displacements.shape[:3]) - 0.5)).all(axis=-1)
        found = np.array(points, float)
        for axis in range(3):
            values = self.displacements[..., axis]
            found[inside, axis] += map_coordinates(values, at[inside].T, output=float, order=1, mode="nearest")
        return found

    def between(self, matrix: Array) -> "Warp":
        """The same warp after a matrix and before its inverse, which again is a warp: on another grid."""
        back = np.linalg.inv(matrix)
        return Warp(displacements=self.displacements @ back[:3, :3].T.astype(np.float32), affine=back @ self.affine)

    def jacobians(self) -> npt.NDArray[np.float64]:
        """Return by how much each voxel's surroundings grow, shape (X, Y, Z); 0 or less where they are folded."""
        change = np.stack(np.gradient(self.displacements.astype(float), axis=(0, 1, 2)), axis=-1)
        return np.asarray(np.linalg.det(change @ np.linalg.inv(self.affine[:3, :3]) + np.eye(3)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(ShortRepr):
    """Where the points of an image (fixed) lie in another one (moving).

    Parameters
    ----------
    matrix
        4 x 4, world mm of the fixed image to world mm of the moving one, after the warps. InvalidInput if it cannot be
        inverted.
    warps
        Through which the points go before, in this order; none: it is linear.
    inverse_warps
        What takes the points back through each of them, if that is known.
    figures
        By which a registration is judged; empty for a transform that was read.
    notes
        What is to be looked at, in sentences.
    complete
        Whether the registration came to its end.
    """

    matrix: npt.NDArray[np.float64]
    warps: tuple[Warp, ...] = ()
    inverse_warps: tuple[Warp, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_affine(self.matrix))

    @classmethod
    def of_parts(cls, parts: "Iterable[Array | Warp]") -> "Transform":
        """Return the transform that takes points through matrices and warps, in this order, without loss."""
        matrix, warps = np.eye(4), list[Warp]()
        for part in parts:
            if isinstance(part, Warp):
                warps.append(part.between(matrix))
            else:
                matrix = part @ matrix
        return cls(matrix=matrix, warps=tuple(warps))

    def moved(self, points: Array) -> Array:
        """Where world points of the fixed image, shape (..., 3), lie in the moving one, mm."""
        for warp in self.warps:
            points = warp.moved(points)
        return apply_affine(self.matrix, points)

    def inverse(self) -> "Transform":
        """Where the points of the moving image lie in the fixed one; InvalidInput if a warp has none."""
        if len(self.warps) != len(self.inverse_warps):
            raise InvalidInput("the inverse of its warp is not known; read the file of the inverse")
        back = np.linalg.inv(self.matrix)
        found = Transform.of_parts((back, *reversed(self.inverse_warps)))
        return replace(found, inverse_warps=tuple(one.between(back) for one in reversed(self.warps)))

    def lines(self) -> Iterator[str]:
        """Its figures, for people."""
        if found := self.figures:
            yield (
                f"mutual information: {found['mutual_information_before']:.3g} bits before, "
                f"{found['mutual_information_after']:.3g} after; metric {found['final_metric']:.3g}"
            )
            yield f"overlap of the brains: {found['overlap_before']:.0%} before, {found['overlap_after']:.0%} after"
            yield (
                f"displacement: {found['least_displacement_mm']:.3g} to {found['largest_displacement_mm']:.3g} mm; "
                f"turned by {found['rotation_degrees']:.3g}°"
            )
            yield f"determinant: {found['determinant']:.4g}; largest scaling {found['largest_scaling']:.4g}"
            if self.warps:
                yield (
                    f"warp: {found['mean_warp_mm']:.3g} mm on the average, at most {found['largest_warp_mm']:.3g}; "
                    f"least Jacobian determinant {found['least_jacobian']:.3g}; mutual information "
                    f"{found['mutual_information_affine']:.3g} bits without it"
                )


def sitk() -> Any:
    """Return SimpleITK; InvalidInput if it is not installed."""
    try:
        import SimpleITK as library  # noqa: N813 - as everybody calls it
    except ImportError as error:
        raise InvalidInput(
            "this needs SimpleITK, which is not installed: python -m pip install 'napari-gpubio[registration]'"
        ) from error
    return library

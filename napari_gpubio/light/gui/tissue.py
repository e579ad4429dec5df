"""Where the mouse points, and where that meets the surface of a labels layer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import grid_of, volume_of
from napari_gpubio.core.space import viewer_to_world as to_world
from napari_gpubio.core.space import voxel_sizes_mm, world_axes_of
from napari_gpubio.core.space import world_to_viewer as to_viewer
from napari_gpubio.light.model import OUTSIDE
from napari_gpubio.light.surface import first_tissue, nearest_surface

Position = npt.NDArray[np.float64]
Vector = tuple[float, float, float]
MOST_LABEL = 65535


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """Where the mouse points.

    Parameters
    ----------
    position
        Viewer position (z, y, x).
    direction
        In 3-D the direction of view (z, y, x), None in 2-D.
    hidden
        In 2-D the viewer axis (0, 1, 2 for z, y, x) that the slice cuts; None in 3-D.
    """

    position: Position
    direction: Position | None = None
    hidden: int | None = None

    def moved(self, offset: Position) -> "Sight":
        """Return the same view through a place that lies by so much elsewhere."""
        return Sight(self.position + offset, self.direction, self.hidden)


@dataclass(frozen=True, slots=True, eq=False)
class Tissue:
    """The volume of a labels layer.

    Parameters
    ----------
    labels
        Shape (X, Y, Z).
    affine
        Voxel to world, mm.
    """

    labels: npt.NDArray[Any]
    affine: npt.NDArray[np.float64]

    @classmethod
    def of(cls, layer: Any) -> "Tissue":
        """Return what a labels layer shows now.

        Raises
        ------
        InvalidInput
            If it is no volume.
        """
        return cls(volume_of(layer), grid_of(layer)[0])

    @property
    def extent_mm(self) -> float:
        """Longest side of the grid, mm; what is drawn is sized by it."""
        return float((voxel_sizes_mm(self.affine) * self.labels.shape).max())

    @property
    def grid_text(self) -> str:
        """How many voxels of what size."""
        counts = " × ".join(map(str, self.labels.shape))
        sizes = " × ".join(f"{edge:.4g}" for edge in voxel_sizes_mm(self.affine))
        return f"{counts} voxels of {sizes} mm"

    def to_world(self, position: npt.ArrayLike) -> Position:
        """World mm of a viewer position (z, y, x)."""
        return to_world(position, self.affine, self.labels.shape)

    def to_viewer(self, points_mm: npt.ArrayLike) -> Position:
        """Viewer position (z, y, x) of world mm."""
        return to_viewer(points_mm, self.affine, self.labels.shape)

    def surface_under(self, sight: Sight) -> Position | None:
        """Return the point of the surface that a click means, world mm, or None if it means none.

        In 2-D it is the nearest point in the slice, in 3-D the first tissue along the line of sight.

        Raises
        ------
        InvalidInput
            In 2-D, if the slice has no tissue or the click is beside the volume.
        """
        start = self.to_world(sight.position)
        if sight.direction is not None:
            direction = self.to_world(sight.position + sight.direction) - start
            return first_tissue(self.labels, self.affine, start, direction, whole_line=True)
        across = None if sight.hidden is None else world_axes_of(self.affine).index(2 - sight.hidden)
        return nearest_surface(self.labels, self.affine, start, across=across)


def labels_in(array: npt.NDArray[Any]) -> tuple[int, ...]:
    """Labels that occur in a volume (X, Y, Z), without the outside; slice by slice, to save memory.

    Raises
    ------
    InvalidInput
        If a value is no label.
    """
    counts = np.zeros(MOST_LABEL + 1, np.int64)
    for plane in np.moveaxis(array, int(np.argmax(array.strides)), 0):
        if plane.size and not 0 <= int(plane.min()) <= int(plane.max()) <= MOST_LABEL:
            raise InvalidInput(
                f"the labels run from {plane.min()} to {plane.max()}; they must lie between 0 and {MOST_LABEL}"
            )
        counts += np.bincount(plane.ravel(), minlength=MOST_LABEL + 1)
    return tuple(int(label) for label in np.flatnonzero(counts) if label != OUTSIDE)


def vector(values: npt.ArrayLike) -> Vector:
    """Three plain numbers."""
    x, y, z = (float(v) for v in np.asarray(values, np.float64))
    return x, y, z

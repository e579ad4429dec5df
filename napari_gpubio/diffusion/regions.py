"""Regions of the brain that fibers are asked about: voxels, spheres, boxes, and the regions of an atlas.

Positions are world mm (RAS). A region of voxels keeps its own grid, which need not be that of the tensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, checked_affine, in_mask, nearest_voxels, same_grid, voxel_volume_mm3

Array = npt.NDArray[Any]
_FEW_LABELS = 1 << 20
_BLOCK = 1 << 20  # voxels whose centers are looked at together


class AnyRegion:
    """Base of all regions: a part of space in world mm, with a name."""

    name: str

    def contains(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether world points, shape (N, 3), lie in it."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Region(AnyRegion, ShortRepr):
    """Some voxels of a grid.

    Parameters
    ----------
    name
        As the user knows it.
    voxels
        Which voxels belong to it, shape (X, Y, Z).
    affine
        Voxel to world, mm.
    is_oriented
        False if its file does not tell where its voxels lie, so that the affine is an assumption.

    Raises
    ------
    InvalidInput
        If it is not a volume or has no voxel.
    """

    name: str
    voxels: npt.NDArray[np.bool_]
    affine: npt.NDArray[np.float64]
    is_oriented: bool = True

    def __post_init__(self) -> None:
        voxels = np.asarray(self.voxels, bool)
        if voxels.ndim != 3:
            raise InvalidInput(f"the region {self.name!r} has {voxels.ndim} dimensions; give a volume (x, y, z)")
        if not voxels.any():
            raise InvalidInput(f"the region {self.name!r} is empty; paint it, or choose another label")
        object.__setattr__(self, "voxels", voxels)
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def center_mm(self) -> npt.NDArray[np.float64]:
        """Center of mass, world mm."""
        return apply_affine(self.affine, np.argwhere(self.voxels).mean(axis=0))

    @property
    def volume_mm3(self) -> float:
        """Volume of its voxels."""
        return float(np.count_nonzero(self.voxels) * voxel_volume_mm3(self.affine))

    def contains(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether world points, shape (N, 3), lie in it; a point between two voxels belongs to the upper one."""
        return in_mask(nearest_voxels(self.affine, points_mm), self.voxels)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sphere(AnyRegion):
    """A ball.

    Parameters
    ----------
    name
        As the user knows it.
    center_mm
        World position.
    radius_mm
        Above 0.
    """

    name: str
    center_mm: tuple[float, float, float]
    radius_mm: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.center_mm).all() and np.isfinite(self.radius_mm) and self.radius_mm > 0):
            raise InvalidInput(f"the sphere {self.name!r} has radius {self.radius_mm} mm; give a number above 0")

    def contains(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether world points, shape (N, 3), lie in it."""
        away = np.asarray(points_mm, np.float64) - self.center_mm
        return np.asarray(np.einsum("...k,...k->...", away, away) <= self.radius_mm**2)


@dataclass(frozen=True, eq=False, kw_only=True)
class Box(AnyRegion):
    """A box along the axes of the world.

    Parameters
    ----------
    name
        As the user knows it.
    low_mm, high_mm
        Opposite corners, world positions.
    """

    name: str
    low_mm: tuple[float, float, float]
    high_mm: tuple[float, float, float]

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low_mm, np.float64), np.asarray(self.high_mm, np.float64)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InvalidInput(f"the box {self.name!r} runs from {self.low_mm} to {self.high_mm} mm; it has no volume")

    def contains(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether world points, shape (N, 3), lie in it."""
        points = np.asarray(points_mm, np.float64)
        return np.asarray(((points >= self.low_mm) & (points <= self.high_mm)).all(axis=-1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Atlas(GriddedArray, array="labels"):
    """A volume of labels and their names.

    Parameters
    ----------
    labels
        Whole numbers, shape (X, Y, Z); 0 is background.
    affine
        Voxel to world, mm.
    names
        Of labels; one without a name is called by its number.
    path
        The file it came from, or None.
    notes
        What a reader assumed or found, in sentences for the user.
    is_oriented
        False if its file does not tell where its voxels lie, so that the affine is an assumption.
    """

    labels: npt.NDArray[np.integer[Any]]
    affine: npt.NDArray[np.float64]
    names: Mapping[int, str] = field(default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()
    is_oriented: bool = True

    def __post_init__(self) -> None:
        if self.labels.ndim != 3 or not np.issubdtype(self.labels.dtype, np.integer):
            what = f"{self.labels.ndim} dimensions of {self.labels.dtype}"
            raise InvalidInput(f"the atlas has {what}; labels are a volume (x, y, z) of whole numbers")
        object.__setattr__(self, "affine", checked_affine(self.affine))
        object.__setattr__(self, "_voxel_counts", label_counts(self.labels))

    _voxel_counts: dict[int, int] = field(init=False, repr=False, default_factory=dict)

    @property
    def voxel_counts(self) -> Mapping[int, int]:
        """Number of voxels of each label that is there, in the order of the labels."""
        return self._voxel_counts

    def __len__(self) -> int:
        return len(self._voxel_counts)

    def __iter__(self) -> Iterator[Region]:
        return (self.region(label) for label in self._voxel_counts)

    def name_of(self, label: int) -> str:
        """Name of a label, or its number."""
        return self.names.get(label) or str(label)

    def region(self, key: int | str) -> Region:
        """Voxels of a label, given by its number or its name (upper and lower case are the same).

        InvalidInput if there is no such label, or several have that name.
        """
        label = key if not isinstance(key, str) else self._label_named(key)
        if label not in self._voxel_counts:
            there = ", ".join(str(value) for value in list(self._voxel_counts)[:20])
            raise InvalidInput(f"no voxel has label {label}; the atlas has {len(self)} labels: {there}")
        voxels, name = self.labels == label, self.name_of(int(label))
        return Region(name=name, voxels=voxels, affine=self.affine, is_oriented=self.is_oriented)

    def _label_named(self, name: str) -> int:
        wanted = name.strip().casefold()
        found = [label for label in self._voxel_counts if self.name_of(label).strip().casefold() == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInput(f"labels {found} are all called {name!r}; give the number")
        like = [self.name_of(n) for n in self._voxel_counts if wanted in self.name_of(n).casefold()][:10]
        some = like or [self.name_of(label) for label in list(self._voxel_counts)[:10]]
        raise InvalidInput(f"no label is called {name!r}; the atlas has {', '.join(some)}")


def label_counts(labels: npt.NDArray[np.integer[Any]]) -> dict[int, int]:
    """Return the number of voxels of each label that occurs, in the order of the labels; 0 is none."""
    first = int(labels.min()) if labels.size else 0
    if labels.size and int(labels.max()) - first < _FEW_LABELS:  # many times as fast as sorting
        counted = np.bincount(labels.ravel().astype(np.int64) - first)
        values = np.flatnonzero(counted)
        found = {first + int(value): int(counted[value]) for value in values}
    else:
        found = {int(v): int(n) for v, n in zip(*np.unique(labels, return_counts=True), strict=True)}
    found.pop(0, None)
    return found


def distances_mm(region: AnyRegion, points_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Distance of world points, shape (N, 3), from a region (from the nearest center of its voxels), shape (N,)."""
    from scipy.spatial import KDTree

    points = np.asarray(points_mm, np.float64)
    if isinstance(region, Sphere):
        return np.maximum(np.linalg.norm(points - region.center_mm, axis=-1) - region.radius_mm, 0.0)
    if isinstance(region, Box):
        return np.asarray(np.linalg.norm(points - points.clip(region.low_mm, region.high_mm), axis=-1))
    assert isinstance(region, Region)
    return np.asarray(KDTree(apply_affine(region.affine, np.argwhere(region.voxels))).query(points)[0])


def voxels_on(region: AnyRegion, shape: tuple[int, ...], affine: Array) -> npt.NDArray[np.bool_]:
    """Which voxels of another grid have their centers in a region, shape ``shape``; perhaps none."""
    if isinstance(region, Region) and same_grid(region.voxels.shape, region.affine, shape, affine):
        return region.voxels
    inside = np.zeros(shape, bool)
    slabs = max(1, _BLOCK // max(1, int(np.prod(shape[1:]))))
    for first in range(0, shape[0], slabs):
        part = inside[first : first + slabs]
        centers = np.moveaxis(np.indices(part.shape), 0, -1)
        centers[..., 0] += first
        part[...] = region.contains(apply_affine(affine, centers).reshape(-1, 3)).reshape(part.shape)
    return inside

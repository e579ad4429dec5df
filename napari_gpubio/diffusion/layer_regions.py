"""Regions that napari layers hold: labels, closed shapes, points with a size; without importing napari."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import label_volume
from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.named_layers import Drawn, closed_shapes, label_names
from napari_gpubio.core.napari_io import IN_MM, ORIENTED, LayerData, affine_mm, is_oriented, mm_per_unit, volume_layer
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Region, Sphere, label_counts

Array = npt.NDArray[Any]
VOLUMES = ("labels", "image")  # kinds of layers whose numbers may be labels
EDGE_MM = 0.5  # of the voxels that stand for a drawn shape


def region_names(layer: Any) -> dict[int | str, str]:
    """Return the regions that a layer holds: the key of each, for `region_of`, and its name.

    Parameters
    ----------
    layer
        A labels layer, or an image of labels (a region for each label that occurs), a shapes layer (one for each name
        in its table, or one named as the layer), or a points layer (a sphere for each point).
    """
    kind = layer._type_string
    if kind in VOLUMES:
        names = label_names(layer)
        return {label: names.get(label, str(label)) for label in label_counts(label_volume(layer))}
    if kind == "shapes":
        return {shape.name: shape.name for shape in closed_shapes(layer)[0]}
    return {n: f"{layer.name} {n + 1}" if len(layer.data) > 1 else layer.name for n in range(len(layer.data))}


def region_of(layer: Any, key: int | str, *, thickness_mm: float = 1.0) -> AnyRegion:
    """Return a region of a layer.

    Parameters
    ----------
    layer
        A layer as of `region_names`.
    key
        A label; the name of shapes; the index of a point.
    thickness_mm
        How thick closed shapes are across their plane; take the distance of the slices that they were drawn in.

    Returns
    -------
    Region or Sphere
        Labels keep their grid. Shapes become voxels of 0.5 mm. The size of a point is the diameter of its sphere.

    Raises
    ------
    InvalidInput
        If the layer does not hold it.
    """
    kind = layer._type_string
    if kind in VOLUMES:
        name, affine = label_names(layer).get(int(key)) or f"{layer.name} {key}", affine_mm(layer)
        return Region(name=name, voxels=label_volume(layer) == int(key), affine=affine, is_oriented=is_oriented(layer))
    if kind == "shapes":
        loops = [shape for shape in closed_shapes(layer)[0] if shape.name == key]
        if not loops:
            raise InvalidInput(f"the shapes {layer.name!r} hold nothing closed called {key!r}; draw a polygon")
        return _slabs(str(key), loops, thickness_mm)
    if not 0 <= int(key) < len(layer.data):
        raise InvalidInput(f"the points {layer.name!r} have no point {key}; there are {len(layer.data)}")
    factors = np.array(mm_per_unit(layer))
    center = viewer_to_world(np.asarray(layer.data_to_world(layer.data[int(key)]))[-3:] * factors)
    x, y, z = (float(part) for part in center)
    diameter = float(np.asarray(layer.size)[int(key)]) * mm_of_size(layer)
    return Sphere(name=region_names(layer)[int(key)], center_mm=(x, y, z), radius_mm=diameter / 2)


def region_layer(region: Region | Sphere) -> LayerData:
    """Return a layer of a region alone, of which `region_of` makes it again: labels, or a point with a size."""
    if isinstance(region, Sphere):
        place = {"name": region.name, "size": 2 * region.radius_mm, "projection_mode": "rescale_spherical", **IN_MM}
        return np.array([world_to_viewer(region.center_mm)]), place, "points"
    about = {STRUCTURES: {1: region.name}, ORIENTED: region.is_oriented}
    voxels = region.voxels.astype(np.uint8)
    return volume_layer(voxels, region.affine, region.name, kind="labels", metadata=about)


def atlas_of(layer: Any) -> Atlas:
    """Return the atlas that a labels layer holds, with the names of its labels; InvalidInput if it has no label."""
    labels = label_volume(layer)
    if not labels.any():
        raise InvalidInput(f"the labels {layer.name!r} are empty; paint regions, or open an atlas")
    names = label_names(layer)
    return Atlas(labels=labels, affine=affine_mm(layer), names=names, is_oriented=is_oriented(layer))


def mm_of_size(layer: Any) -> float:
    """How many mm a unit of the size of a points layer's points is."""
    return float(np.abs(np.asarray(layer.scale)[-3:] * np.array(mm_per_unit(layer))).mean())


def _slabs(name: str, loops: list[Drawn], thickness_mm: float) -> Region:
    """Voxels, along the world's axes, whose centers lie in one of several flat shapes of some thickness."""
    corners = np.concatenate([shape.points_mm for shape in loops])
    low = np.floor((corners.min(axis=0) - thickness_mm / 2) / EDGE_MM) * EDGE_MM
    shape = tuple(np.ceil((corners.max(axis=0) + thickness_mm / 2 - low) / EDGE_MM).astype(int) + 1)
    affine = np.diag([EDGE_MM, EDGE_MM, EDGE_MM, 1.0])
    affine[:3, 3] = low + EDGE_MM / 2
    centers = np.moveaxis(np.indices(shape), 0, -1).reshape(-1, 3) * EDGE_MM + affine[:3, 3]
    inside = np.zeros(len(centers), bool)
    for loop in loops:
        middle = loop.points_mm.mean(axis=0)
        across = np.linalg.svd(loop.points_mm - middle)[2]  # two directions in the plane, and its normal
        away = (centers - middle) @ across.T
        near = np.abs(away[:, 2]) <= thickness_mm / 2
        inside[near] |= _in_polygon(away[near, :2], ((loop.points_mm - middle) @ across.T)[:, :2])
    return Region(name=name, voxels=inside.reshape(shape), affine=affine)


def _in_polygon(points: Array, corners: Array) -> npt.NDArray[np.bool_]:
    """Whether points (N, 2) lie in a polygon (C, 2), by the number of its edges to their right."""
    inside = np.zeros(len(points), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 != y1:
            straddles = (y0 > points[:, 1]) != (y1 > points[:, 1])
            inside ^= straddles & (points[:, 0] < x0 + (points[:, 1] - y0) / (y1 - y0) * (x1 - x0))
    return inside

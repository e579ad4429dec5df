"""The regions of a flow, on the grid of its fixels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, in_grid, nearest_voxels, same_grid
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Region, Sphere, voxels_on
from napari_gpubio.fibers.flow.nodes import EXCLUDED, FixelNodes, Members
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
_NAMED = 3  # regions that a note names


class Placed(NamedTuple):
    """Regions on the grid of the ordered fixels.

    ``voxels``: flat indices of those of each region, ascending; ``members``: the fixels in them; ``notes``: what to
    know of them, as sentences.
    """

    labels: npt.NDArray[np.int64]
    names: tuple[str, ...]
    voxels: tuple[npt.NDArray[np.int64], ...]
    members: Members
    notes: tuple[str, ...]


def place_regions(
    field: FixelField, nodes: FixelNodes, regions: Atlas | Sequence[AnyRegion], step_voxels: float
) -> Placed:
    """Find the fixels of each region, but for excluded ones.

    InvalidInput if there are no regions, one of a list has no fixel, none of an atlas has one, or it is not known how
    they lie to the fixels.
    """
    if isinstance(regions, Atlas):
        labels, names, voxels = _of_atlas(field, nodes, regions)
    else:
        if not len(regions):
            raise InvalidInput("there are no regions; give an atlas, or at least one region that fibers start from")
        labels, names = np.arange(1, len(regions) + 1), tuple(region.name for region in regions)
        voxels = tuple(voxels_of(field, nodes, region) for region in regions)
    lists = [fixels[nodes.outside(EXCLUDED, fixels)] for fixels in (fixels_in(nodes, inside) for inside in voxels)]
    without = [name for name, fixels in zip(names, lists, strict=True) if not len(fixels)]
    if without and (not isinstance(regions, Atlas) or len(without) == len(names)):
        raise InvalidInput(_no_fixels(regions, without, nodes))
    members = Members.of(lists, len(nodes.voxels))
    notes = _notes(nodes, names, voxels, without, step_voxels)
    return Placed(labels.astype(np.int64), names, voxels, members, notes)


def place_source(
    field: FixelField, nodes: FixelNodes, source: AnyRegion, others: Placed | None
) -> tuple[Placed, npt.NDArray[np.int32]]:
    """Return a source as the only region, and its fixels; what mass arrives in are other regions, if there are any.

    InvalidInput if it has no fixels, or it is not known how it lies to them.
    """
    voxels = voxels_of(field, nodes, source)
    fixels = fixels_in(nodes, voxels)
    fixels = fixels[nodes.outside(EXCLUDED, fixels)]
    if not len(fixels):
        raise InvalidInput(_no_fixels([source], [source.name], nodes))
    members = Members.of([fixels], len(nodes.voxels)) if others is None else others.members
    return Placed(np.ones(1, np.int64), (source.name,), (voxels,), members, ()), fixels


def _of_atlas(field: FixelField, nodes: FixelNodes, atlas: Atlas) -> tuple[Array, tuple[str, ...], tuple[Array, ...]]:
    what = "the atlas" if atlas.path is None else atlas.path.name
    check_place(field, atlas.labels.shape, atlas.affine, what, is_oriented=atlas.is_oriented)
    if not len(atlas):
        raise InvalidInput(f"{what} has no labels; all its voxels are 0")
    if same_grid(atlas.labels.shape, atlas.affine, field.shape, field.affine):
        values = atlas.labels.ravel()
    else:
        centers = apply_affine(field.affine, np.indices(field.shape).reshape(3, -1).T)
        at = nearest_voxels(atlas.affine, centers)
        values, inside = np.zeros(len(at), atlas.labels.dtype), in_grid(at, atlas.labels.shape)
        values[inside] = atlas.labels[tuple(at[inside].T)]
    ordered = values[nodes.given]
    labels = np.array(list(atlas.voxel_counts), np.int64)
    order = np.argsort(ordered, kind="stable")
    begins, ends = (np.searchsorted(ordered[order], labels, side) for side in ("left", "right"))
    voxels = tuple(order[begin:end] for begin, end in zip(begins, ends, strict=True))
    return labels, tuple(atlas.name_of(int(label)) for label in labels), voxels


def voxels_of(field: FixelField, nodes: FixelNodes, region: AnyRegion) -> npt.NDArray[np.int64]:
    """Return the voxels of the ordered grid whose centers lie in a region, ascending.

    InvalidInput if there are none, or it is not known how the region lies to the fixels.
    """
    if isinstance(region, Region):
        name = f"the region {region.name!r}"
        check_place(field, region.voxels.shape, region.affine, name, is_oriented=region.is_oriented)
    if isinstance(region, Sphere):
        inside = _in_sphere(field, region)
    else:
        inside = np.flatnonzero(voxels_on(region, field.shape, field.affine))
    if not len(inside):
        raise InvalidInput(f"the region {region.name!r} holds no center of a voxel of the volume; move it, or widen it")
    return np.sort(nodes.ordered[inside])


def _in_sphere(field: FixelField, sphere: Sphere) -> Array:
    """Flat indices of the voxels of a sphere, of which those around it alone are looked at: it follows a drag."""
    to_voxel = np.linalg.inv(field.affine)
    center = apply_affine(to_voxel, sphere.center_mm)
    reach = sphere.radius_mm * np.linalg.norm(to_voxel[:3, :3], axis=1)
    low = np.clip(np.floor(center - reach), 0, field.shape).astype(int)
    high = np.clip(np.ceil(center + reach) + 1, 0, field.shape).astype(int)
    ranges = (np.arange(first, stop) for first, stop in zip(low, high, strict=True))
    voxels = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)
    voxels = voxels[sphere.contains(apply_affine(field.affine, voxels))]
    return np.ravel_multi_index(tuple(voxels.T), field.shape)


def fixels_in(nodes: FixelNodes, voxels: Array) -> npt.NDArray[np.int32]:
    """Fixels of some voxels of the ordered grid, in the order of the voxels."""
    counts = nodes.first[voxels + 1] - nodes.first[voxels]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(nodes.first[voxels], counts) + within, np.int32)


def _no_fixels(regions: Atlas | Sequence[AnyRegion], without: list[str], nodes: FixelNodes) -> str:
    if not len(nodes.voxels):
        return "there are no fixels at all; deconvolve FODs in a mask that holds the brain, and find their peaks"
    if isinstance(regions, Atlas):
        return "no label of the atlas has a voxel with fixels; check that it is of this brain, and where it lies"
    outside = "" if nodes.walls is None else " outside of what is excluded"
    return (
        f"the region {without[0]!r} has no fixels{outside}, so no fibers leave it; move it into white matter, or lower "
        "the least amplitude"
    )


def _notes(
    nodes: FixelNodes, names: tuple[str, ...], voxels: tuple[Array, ...], without: list[str], step_voxels: float
) -> tuple[str, ...]:
    notes = []
    if without:
        notes.append(f"{_some(without)} of the atlas {_have(without)} no fixels, so nothing leaves or enters.")
    pairs = _near_pairs(nodes.field.shape, voxels)
    if len(pairs):
        near = [f"{names[a]} and {names[b]}" for a, b in pairs]
        notes.append(
            f"{_some(near)} overlap or touch; what passes between such regions says little about a route between them."
        )
    shape = nodes.field.shape
    thin = [
        name
        for name, inside in zip(names, voxels, strict=True)
        if len(inside) and min(np.ptp(axis) + 1 for axis in np.unravel_index(inside, shape)) < step_voxels
    ]
    if thin:
        notes.append(
            f"{_some(thin)} {'are' if len(thin) > 1 else 'is'} thinner than a step of {step_voxels:g} voxels, so mass "
            "may pass without being counted as an arrival; overlaps count it."
        )
    return tuple(notes)


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _have(names: list[str]) -> str:
    return "have" if len(names) > 1 else "has"


def _near_pairs(shape: tuple[int, int, int], voxels: tuple[Array, ...]) -> npt.NDArray[np.int64]:
    """Pairs of regions that share a voxel, or have voxels side by side, (P, 2), the lower first."""
    from scipy import sparse

    if len(voxels) < 2:
        return np.zeros((0, 2), np.int64)
    inside = np.concatenate([np.zeros(0, np.int64), *voxels])
    owners = np.repeat(np.arange(len(voxels)), [len(one) for one in voxels])
    size = len(voxels), int(np.prod(shape))
    held = sparse.csr_array((np.ones(len(inside), np.int32), (owners, inside)), shape=size)
    near = held @ held.T
    for axis, stride in enumerate((shape[1] * shape[2], shape[2], 1)):
        ahead = inside // stride % shape[axis] < shape[axis] - 1
        places = owners[ahead], inside[ahead] + stride
        moved = sparse.csr_array((np.ones(len(places[0]), np.int32), places), shape=size) @ held.T
        near = near + moved + moved.T
    pairs = np.stack(near.nonzero(), axis=1).astype(np.int64)
    return pairs[pairs[:, 0] < pairs[:, 1]]

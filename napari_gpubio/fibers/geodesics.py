"""Connectomes of geodesics: the best route between every two regions of an atlas."""

import dataclasses
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.space import apply_affine, voxel_sizes_mm
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import Atlas, Region
from napari_gpubio.fibers.crossings import ONE_DIRECTION, crossing_notes
from napari_gpubio.fibers.directions import Cone, Directions
from napari_gpubio.fibers.kernels.rays.problem import RayProblem, check_tensors
from napari_gpubio.fibers.run import trace_problem
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.fibers.settings import Hamiltonian, InTensors
from napari_gpubio.tractograms.connectome.assignment import Assigner
from napari_gpubio.tractograms.connectome.model import SCORE, Connectome
from napari_gpubio.tractograms.connectome.run import empty_connectome, joined
from napari_gpubio.tractograms.connectome.settings import ConnectomeSettings, Radial
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
FAN = Cone(count=20)
TRACKING = Hamiltonian(points_every=4)  # a fiber is known by fewer points, and there are many


@dataclass(frozen=True, kw_only=True)
class GeodesicSettings(Settings):
    """How densely geodesics are shot from each region, and how many of them are kept."""

    seeds_per_region: int = param(
        500,
        "Seeds per region",
        "At most so many voxels of a region are seeds, evenly chosen.",
        minimum=1,
        maximum=1_000_000,
        step=100,
    )
    best_per_pair: int = param(
        10,
        "Keep the best",
        "From each region, so many fibers to each other region are kept, those of highest alignment × FA; all count.",
        unit="fibers",
        minimum=0,
        maximum=100_000,
    )


def geodesic_connectome_steps(
    field: TensorField,
    atlas: Atlas,
    settings: GeodesicSettings | None = None,
    directions: Directions | None = None,
    tracking: InTensors | None = None,
    *,
    fods: FodField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Connectome]:
    """Shoot geodesics from each region of an atlas, and keep those that end in another one, region by region.

    A fiber ends in the first other region that it meets, so a connection does not lead through a third region.

    Parameters
    ----------
    field
        The tensors.
    atlas
        The regions, on any grid of the same world. Those without a voxel that holds tensors have no fibers.
    settings
        Seeds of each region, and how many fibers are kept; see `GeodesicSettings`.
    directions
        The fan at each seed, by default 20 in a cone of 30 degrees around the principal direction, and back.
    tracking
        Method, metric, step and stops, and how many points are kept, by default every fourth; see
        `napari_gpubio.fibers.settings`.
    fods
        FODs of the same brain, if there are any: a note then says on which share of the way of the best fibers they
        have two directions.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; the connectome has the regions that were done, and is not complete.

    Returns
    -------
    Connectome
        ``matrix("alignment_fa", statistic="max")`` is the score of the best route of each pair, ``matrix()`` the
        number of fibers; numbers are those of tracking. ``best`` holds the best fibers of each pair. ``notes`` say that
        tensors have one direction a voxel; which regions are joined through crossings: `napari_gpubio.fibers.flow`.

    Raises
    ------
    InvalidInput
        If the atlas has fewer than two regions, or it is not known how it lies to the tensors.
    """
    if len(atlas) < 2:
        raise InvalidInput(f"the atlas has {len(atlas)} region; a connectome needs two at least")
    near = Radial(radius_mm=2.0 * float(voxel_sizes_mm(field.affine).max()))
    assigner = Assigner(atlas, ConnectomeSettings(assignment=near))
    check_place(field, atlas.labels.shape, atlas.affine, "the atlas", is_oriented=atlas.is_oriented)
    settings = settings or GeodesicSettings()
    tracking = tracking or TRACKING
    check_tensors(field)
    chosen = choose_device(device)
    parts, best, done, count = [empty_connectome(atlas, assigner)], list[Tractogram](), 0, 0
    for place, label in enumerate(assigner.labels.tolist()):
        if stop is not None and stop.is_set():
            break
        seeds = _seeds(field, atlas, label, settings.seeds_per_region)
        if len(seeds):
            others = Region(
                name=f"all but {atlas.name_of(label)}",
                voxels=(atlas.labels != 0) & (atlas.labels != label),
                affine=atlas.affine,
            )
            launch = make_launch(field, seeds, tracking.directions(directions, FAN)).one_way()
            fibers = trace_problem(RayProblem(field, launch, tracking, target=others, only_target=True), chosen)
            parts.append(_of_region(parts[0], _nearest(assigner, fibers, place, near.radius_mm), place, fibers, count))
            best.append(_best(fibers, parts[-1], settings.best_per_pair))
            count += len(fibers)
        done += 1
        yield Step(done, len(atlas), "shooting from each region")
    kept = Tractogram.join(best) if best else None
    notes = ONE_DIRECTION, *(() if kept is None else crossing_notes(kept, fods, chosen))
    return dataclasses.replace(joined(parts, complete=done == len(atlas)), best=kept, notes=notes)


geodesic_connectome = driven(geodesic_connectome_steps)


def _seeds(field: TensorField, atlas: Atlas, label: int, most: int) -> Array:
    """Centers of a region's voxels that hold tensors, world mm, (S, 3)."""
    points = apply_affine(atlas.affine, np.argwhere(atlas.labels == label))
    points = points[Region(name="mask", voxels=field.mask, affine=field.affine).contains(points)]
    return points[:: -(-max(len(points), 1) // most)]


def _nearest(assigner: Assigner, fibers: Tractogram, place: int, radius_mm: float) -> Array:
    """The region whose voxel is nearest to the last point of each fiber, but for its own."""
    return assigner.nearest(fibers.points[fibers.offsets[1:] - 1], radius_mm, but=place)


def _of_region(like: Connectome, other: Array, place: int, fibers: Tractogram, first: int) -> Connectome:
    """The pairs of a region's fibers: it, and the other one of each."""
    pairs = np.sort(np.stack([np.full(len(fibers), place), other], axis=1), axis=1).astype(np.int32)
    numbers = {name: np.asarray(values) for name, values in fibers.per_fiber.items()}
    return dataclasses.replace(like, pairs=pairs, fibers=first + np.arange(len(fibers)), numbers=numbers)


def _best(fibers: Tractogram, found: Connectome, most: int) -> Tractogram:
    """The best fibers to each other region, in their order, with their index in the connectome."""
    pairs, scores = found.pairs, np.asarray(fibers.per_fiber[SCORE])
    order = np.lexsort((-scores, pairs[:, 1], pairs[:, 0]))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(pairs[order], axis=0) != 0).any(axis=1)
    starts = np.flatnonzero(is_first)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    which = np.sort(order[rank < most])
    kept = fibers.select(which)
    return dataclasses.replace(kept, per_fiber={**kept.per_fiber, "fiber": found.fibers[which]})

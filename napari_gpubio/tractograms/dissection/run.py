"""Dissection on any device: fibers and a condition in, which fibers fit it out."""

import hashlib
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import open_run
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.steps import Step, drive, driven
from napari_gpubio.diffusion.regions import AnyRegion, Box, Region, Sphere
from napari_gpubio.tractograms.dissection.conditions import Answer, Condition
from napari_gpubio.tractograms.io.blocks import Source, blocks_of
from napari_gpubio.tractograms.kernels.traversal.problem import LARGEST, TraversalProblem, groups, solid_of
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
Key = tuple[Any, ...]
_LENGTH = "length_mm"
_KEPT = 64  # regions whose answers are remembered


def dissect_steps(
    fibers: Source,
    condition: Condition,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, npt.NDArray[np.bool_]]:
    """Find the fibers that fit a condition, region by region, and block by block if they are in a file.

    Parameters
    ----------
    fibers
        Of any program; points in world mm. Or a file, of which not more than a block is held where the format allows
        it (tck, uncompressed trx).
    condition
        See `napari_gpubio.tractograms.dissection`.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; no fiber fits then.

    Returns
    -------
    ndarray
        Booleans, shape (F,).

    Raises
    ------
    InvalidInput
        If the fibers lack a number that the condition asks for, or it is not known how a region lies to them.

    Examples
    --------
    >>> from napari_gpubio import tractograms
    >>> from napari_gpubio.core.files import sample_path
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> fibers = tractograms.io.read_tractogram(sample_path("brain_phantom/bundles.trk"))
    >>> ball = Sphere(name="genu", center_mm=(0.0, 32.0, 8.0), radius_mm=6.0)
    >>> kept = tractograms.dissection.dissect(fibers, tractograms.dissection.through(ball), device="cpu")
    >>> int(kept.sum()), len(kept)
    (4, 136)
    """
    if isinstance(fibers, Tractogram):
        return (yield from _of_block(fibers, condition, device, stop))
    found, done = list[npt.NDArray[np.bool_]](), 0
    for total, block in blocks_of(fibers):
        found.append(drive(_of_block(block, condition, device, stop)))
        done += len(block)
        yield Step(done, total, "fibers")
        if stop is not None and stop.is_set():
            return np.zeros(total, bool)
    return np.concatenate(found)


dissect = driven(dissect_steps)


def _of_block(
    fibers: Tractogram, condition: Condition, device: str | Device, stop: threading.Event | None
) -> Generator[Step, None, npt.NDArray[np.bool_]]:
    dissector = Dissector(fibers, device=device)
    try:
        return (yield from dissector.select_steps(condition, stop=stop))
    finally:
        dissector.close()


class Dissector:
    """Fibers that are asked again and again: what is known of a region stays known until the region is another.

    Parameters
    ----------
    fibers
        They stay on the GPU, if one is used.
    device
        See `napari_gpubio.core.device.choose_device`.
    """

    def __init__(self, fibers: Tractogram, *, device: str | Device = "auto") -> None:
        self.fibers = fibers
        self.notes: list[str] = []  # about the regions that were asked last, in sentences
        self._device = choose_device(device)
        self._known: dict[Key, Answer] = {}
        self._numbers = _Numbers(fibers)

    @cached_property
    def _run(self) -> Any:
        return open_run(TraversalProblem(self.fibers), self._device.first)

    def select(self, condition: Condition) -> npt.NDArray[np.bool_]:
        """Return which fibers fit a condition, shape (F,)."""
        return drive(self.select_steps(condition))

    def select_steps(
        self, condition: Condition, *, stop: threading.Event | None = None
    ) -> Generator[Step, None, npt.NDArray[np.bool_]]:
        """Find the fibers that fit a condition; only regions that are not known yet are asked about."""
        by_key = {_key(region): region for region in condition.regions()}
        for region in by_key.values():
            if isinstance(region, Region):
                grid = region.voxels.shape, region.affine
                check_place(self.fibers, *grid, f"the region {region.name!r}", is_oriented=region.is_oriented)
        self.notes = _notes(list(condition.regions()), self._run.bounds())
        unknown = [key for key in by_key if key not in self._known]
        of_groups = groups([by_key[key] for key in unknown])
        done, total = 0, len(unknown)
        for key in unknown:
            region = by_key[key]
            if isinstance(region, (Sphere, Box)):
                answers = self._run.solid(*solid_of(region))
                self._known[key] = Answer(*(part.astype(bool) for part in answers))
                done += 1
        for group in of_groups:
            yield Step(done, total, "regions")
            if stop is not None and stop.is_set():
                return np.zeros(len(self.fibers), bool)
            answers = self._run.words(group)
            for bit, place in enumerate(group.places):
                self._known[unknown[place]] = Answer(*(_bit(part, bit) for part in answers))
            done += len(group.places)
        yield Step(max(total, 1), max(total, 1), "regions")
        found = condition.holds(lambda region: self._known[_key(region)], self._numbers)
        while len(self._known) > max(_KEPT, len(by_key)):
            self._known.pop(next(iter(self._known)))
        return found

    def close(self) -> None:
        """Free what is kept on a GPU."""
        if "_run" in self.__dict__:
            self._run.close()


class _Numbers(Mapping[str, Array]):
    """Numbers of fibers by name; their length is measured only if it is asked for, since that reads all points."""

    def __init__(self, fibers: Tractogram) -> None:
        self._fibers = fibers

    @cached_property
    def _lengths_mm(self) -> npt.NDArray[np.float64]:
        return self._fibers.lengths_mm()

    def __getitem__(self, name: str) -> Array:
        known = self._fibers.per_fiber
        return self._lengths_mm if name == _LENGTH and name not in known else known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((_LENGTH, *self._fibers.per_fiber)))

    def __len__(self) -> int:
        return len(set(self))


def _bit(words: Array, bit: int) -> npt.NDArray[np.bool_]:
    return np.asarray((words & np.uint64(1 << bit)) != 0)


def _key(region: AnyRegion) -> Key:
    """What makes a region itself, whatever its name."""
    if isinstance(region, Sphere):
        return ("sphere", tuple(region.center_mm), region.radius_mm)
    if isinstance(region, Box):
        return ("box", tuple(region.low_mm), tuple(region.high_mm))
    assert isinstance(region, Region)
    voxels = hashlib.sha256(np.packbits(region.voxels).tobytes()).digest()
    return ("voxels", region.voxels.shape, region.affine.tobytes(), voxels)


def _notes(regions: Sequence[AnyRegion], box: tuple[Array, Array]) -> list[str]:
    """What a user should know about regions: those that no fiber can meet, and those that are the same."""
    notes, seen = list[str](), dict[Key, str]()
    for region in regions:
        same = seen.setdefault(_key(region), region.name)
        if same != region.name:
            notes.append(f"the regions {same!r} and {region.name!r} are the same")
        low, high = _box_of(region)
        gap = float(np.linalg.norm(np.maximum(np.maximum(box[0] - high, low - box[1]), 0.0)))
        if 0 < gap < LARGEST:  # which it is from no fibers at all
            notes.append(f"the region {region.name!r} lies {gap:.0f} mm from all fibers; is it of another space?")
    return list(dict.fromkeys(notes))


def _box_of(region: AnyRegion) -> tuple[Array, Array]:
    """Lowest and highest corner of a region, world mm."""
    if isinstance(region, Sphere):
        center = np.asarray(region.center_mm)
        return center - region.radius_mm, center + region.radius_mm
    if isinstance(region, Box):
        return np.asarray(region.low_mm), np.asarray(region.high_mm)
    assert isinstance(region, Region)
    filled = [np.flatnonzero(region.voxels.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1))]
    ends = np.array([(axis[0] - 0.5, axis[-1] + 0.5) for axis in filled])
    corners = apply_affine(region.affine, np.stack(np.meshgrid(*ends, indexing="ij"), -1).reshape(-1, 3))
    return corners.min(axis=0), corners.max(axis=0)

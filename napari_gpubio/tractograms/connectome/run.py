"""Connectomes of tractograms, in memory or in a file of any size."""

import dataclasses
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.files import existing_file, fingerprint
from napari_gpubio.core.keeping import Inputs, check_inputs
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.settings import plain
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.tractograms.connectome.assignment import Assigner
from napari_gpubio.tractograms.connectome.model import LENGTH, Connectome
from napari_gpubio.tractograms.connectome.settings import AllVoxels, ConnectomeSettings
from napari_gpubio.tractograms.io.blocks import BLOCK, Source, blocks_of
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_EACH_FIBER, _EACH_POINT = 64, 52  # bytes of a block, measured, while ends, or all points, are looked up


def connectome_steps(
    fibers: Source,
    atlas: Atlas,
    settings: ConnectomeSettings | None = None,
    *,
    known: Connectome | None = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, Connectome]:
    """Find which regions of an atlas fibers connect, block by block; previews are connectomes of what is done.

    Parameters
    ----------
    fibers
        A tractogram, or a file of one, of which not more than a block is held where the format allows it.
    atlas
        The regions; points in the fibers and the atlas are in the same world, mm.
    settings
        How the regions of a fiber are found.
    known
        What an earlier run had found when it was stopped: it goes on from there.
    stop
        Set it to stop early; the connectome is then not complete, and can be given as ``known``.

    Returns
    -------
    Connectome
        With the numbers of the fibers, and their length. The same whatever the blocks.

    Raises
    ------
    InvalidInput
        If a file cannot be read, or it is not known how the atlas lies to the fibers.

    Examples
    --------
    >>> from napari_gpubio import diffusion, tractograms
    >>> from napari_gpubio.core.files import sample_path
    >>> atlas = diffusion.io.read_atlas(sample_path("brain_phantom/atlas.nii.gz"))
    >>> fibers = tractograms.io.read_tractogram(sample_path("brain_phantom/bundles.trk"))
    >>> found = tractograms.connectome.connectome(fibers, atlas)
    >>> found.matrix().shape
    (21, 21)
    """
    settings = settings or ConnectomeSettings()
    assigner = Assigner(atlas, settings)
    inputs = _inputs(fibers, atlas, assigner)
    if known is not None:
        check_inputs("connectome", known.parameters.get("inputs"), inputs)
    done = 0 if known is None else len(known.numbers[LENGTH])
    waiting, found = [known] if known is not None and done else [], None
    for total, block in blocks_of(fibers, done):
        pairs, owners = assigner.pairs(block)
        if found is None:  # the nodes of the atlas are there
            needed = dataclasses.replace(_memory(fibers, total, block, len(pairs), atlas, settings), inputs=0)
            needed.check("this connectome", "make it of fewer fibers, or close other programs")
        lengths = {LENGTH: block.lengths_mm()}
        numbers = {name: np.asarray(values) for name, values in block.per_fiber.items() if np.ndim(values) == 1}
        waiting.append(_part(atlas, assigner, pairs, owners + done, numbers | lengths, inputs))
        found = found or _Growing(waiting[0], total)
        while waiting:
            found.add(waiting.pop(0))
        done += len(block)
        yield Step(done, total, "assigning fibers to regions").showing(found.connectome(complete=False))
        if stop is not None and stop.is_set() and done < total:
            return found.connectome(complete=False)
    if found is None:
        return dataclasses.replace(known or empty_connectome(atlas, assigner), complete=True)
    return found.connectome(complete=True)


connectome = driven(connectome_steps)


def needed_memory(fibers: Source, atlas: Atlas, settings: ConnectomeSettings | None = None) -> Memory:
    """Memory that `connectome` takes besides fibers in memory and the atlas; see `connectome_steps` for the arguments.

    The first block of fibers is looked at: the others are taken to have as many points and pairs. Of a file, what the
    system keeps of it is not in it, nor where its fibers end. Geodesics take what `napari_gpubio.fibers.needed_memory`
    says of their tracking; their number is not known before.

    Examples
    --------
    >>> from napari_gpubio import diffusion, tractograms
    >>> from napari_gpubio.core.files import sample_path
    >>> atlas = diffusion.io.read_atlas(sample_path("brain_phantom/atlas.nii.gz"))
    >>> memory = tractograms.connectome.needed_memory(sample_path("brain_phantom/bundles.trk"), atlas)
    >>> memory.inputs == 4 * atlas.labels.size
    True
    """
    settings, (total, block) = settings or ConnectomeSettings(), next(blocks_of(fibers))
    return _memory(fibers, total, block, len(Assigner(atlas, settings).pairs(block)[0]), atlas, settings)


def _memory(
    fibers: Source, total: int, block: Tractogram, pairs: int, atlas: Atlas, settings: ConnectomeSettings
) -> Memory:
    """See `needed_memory`; of the fibers their number, a block, and the number of its pairs."""
    nodes, copied = 4 * atlas.labels.size, (not atlas.labels.flags.c_contiguous) * atlas.labels.nbytes
    numbers = [values for name, values in block.per_fiber.items() if np.ndim(values) == 1 and name != LENGTH]
    each = 8 + sum(np.asarray(values).dtype.itemsize for values in numbers)  # its length, too
    tables = [block.points, *map(np.asarray, (*block.per_point.values(), *block.per_fiber.values()))]
    read = 0 if isinstance(fibers, Tractogram) else sum(table.nbytes for table in tables)
    visits = isinstance(settings.assignment, AllVoxels) * _EACH_POINT * len(block.points)
    results = each * total + 16 * _share(total, pairs, len(block))
    looking = _EACH_FIBER * min(total, BLOCK) + read + visits
    return fuller(Memory(inputs=nodes, results=results, scratch=looking), Memory(inputs=nodes, scratch=copied))


def empty_connectome(atlas: Atlas, assigner: Assigner) -> Connectome:
    """Return a connectome of no fibers."""
    nothing = np.zeros((0, 2), np.int32), np.zeros(0, np.int64)
    return _part(atlas, assigner, *nothing, {LENGTH: np.zeros(0)})


def _inputs(fibers: Source, atlas: Atlas, assigner: Assigner) -> Inputs:
    """Name and fingerprint of fibers, regions and settings."""
    names = [atlas.name_of(int(label)) for label in assigner.labels]
    made = fingerprint(atlas.labels, atlas.affine, atlas.is_oriented, names)
    if isinstance(fibers, Tractogram):
        own = "", fingerprint(fibers.points, fibers.offsets)
    else:
        own = str(fibers), fingerprint(existing_file(fibers))
    chosen = repr(assigner.settings)
    return {"fibers": own, "regions": (str(atlas.path or ""), made), "settings": (chosen, chosen)}


def _part(
    atlas: Atlas, assigner: Assigner, pairs: Array, owners: Array, numbers: dict[str, Array],
    inputs: Inputs | None = None,
) -> Connectome:  # fmt: skip
    return Connectome(
        labels=assigner.labels,
        names=tuple(atlas.name_of(int(label)) for label in assigner.labels),
        voxels=np.array([atlas.voxel_counts[int(label)] for label in assigner.labels], np.int64),
        pairs=pairs,
        fibers=owners,
        numbers=numbers,
        parameters={
            "software": f"napari-gpubio {__version__}",
            "atlas": str(atlas.path or ""),
            "connectome": plain(assigner.settings),
            **({} if inputs is None else {"inputs": inputs}),
        },
    )


def _share(fibers: int, pairs: int, of: int) -> int:
    """How many pairs fibers have, if there are so many of some."""
    return -(-fibers * pairs // max(1, of))


class _Rows:
    """Rows that are added behind each other; what was taken of them before stays as it is."""

    def __init__(self, like: Array, room: int) -> None:
        self._array, self._count = np.empty((room, *like.shape[1:]), like.dtype), 0

    @property
    def rows(self) -> Array:
        """All that were added."""
        return self._array[: self._count]

    def add(self, rows: Array) -> None:
        """Add some; where there is no room, with a copy of all."""
        count, kind = self._count + len(rows), np.result_type(self._array, rows)
        if count > len(self._array) or kind != self._array.dtype:
            room = len(self._array) if count <= len(self._array) else 2 * count
            wider = np.empty((room, *rows.shape[1:]), kind)
            wider[: self._count] = self.rows
            self._array = wider
        self._array[self._count : count] = rows
        self._count = count


class _Growing:
    """A connectome of so many fibers, part by part; numbers that not all parts have are left out."""

    def __init__(self, like: Connectome, count: int) -> None:
        self._like = like
        pairs = _share(count, len(like.pairs), len(like.numbers[LENGTH]))
        self._pairs, self._fibers = _Rows(like.pairs, pairs), _Rows(like.fibers, pairs)
        self._numbers = {name: _Rows(values, count) for name, values in like.numbers.items()}

    def add(self, part: Connectome) -> None:
        """Add the fibers that come next."""
        self._pairs.add(part.pairs)
        self._fibers.add(part.fibers)
        self._numbers = {name: rows for name, rows in self._numbers.items() if name in part.numbers}
        for name, rows in self._numbers.items():
            rows.add(part.numbers[name])

    def connectome(self, *, complete: bool) -> Connectome:
        """What was added so far, not copied."""
        numbers = {name: rows.rows for name, rows in self._numbers.items()}
        return dataclasses.replace(
            self._like, pairs=self._pairs.rows, fibers=self._fibers.rows, numbers=numbers, complete=complete
        )


def joined(parts: Sequence[Connectome], *, complete: bool) -> Connectome:
    """Put parts together, in their order; numbers that not all of them have are left out."""
    parts = [part for part in parts if len(part.numbers[LENGTH])] or parts
    shared = set.intersection(*(set(part.numbers) for part in parts))
    return dataclasses.replace(
        parts[0],
        pairs=np.concatenate([part.pairs for part in parts]),
        fibers=np.concatenate([part.fibers for part in parts]),
        numbers={n: np.concatenate([part.numbers[n] for part in parts]) for n in parts[0].numbers if n in shared},
        complete=complete,
    )

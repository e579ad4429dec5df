"""Connectomes of tractograms, in memory or in a file of any size."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.files import existing_file, fingerprint
from napari_gpubio.core.keeping import Inputs, check_inputs
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.tracts.connectome.assignment import Assigner
from napari_gpubio.tracts.connectome.model import LENGTH, Connectome
from napari_gpubio.tracts.connectome.settings import ConnectomeSettings
from napari_gpubio.tracts.io.blocks import Source, blocks_of
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.regions import Atlas

Array = npt.NDArray[Any]


def connectome(
    fibers: Source,
    atlas: Atlas,
    settings: ConnectomeSettings | None = None,
    *,
    progress: Callable[[Step], object] | None = None,
) -> Connectome:
    """Find which regions of an atlas fibers connect; see `connectome_steps`, whose end this returns.

    Examples
    --------
    >>> from napari_gpubio import tracts
    >>> from napari_gpubio.core.files import sample_path
    >>> atlas = tracts.io.read_atlas(sample_path("brain_phantom/atlas.nii.gz"))
    >>> fibers = tracts.io.read_tractogram(sample_path("brain_phantom/bundles.trk"))
    >>> found = tracts.connectome.connectome(fibers, atlas)
    >>> found.matrix().shape
    (21, 21)
    """
    return drive(connectome_steps(fibers, atlas, settings), progress)


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
    """
    settings = settings or ConnectomeSettings()
    assigner = Assigner(atlas, settings)
    inputs = _inputs(fibers, atlas, assigner)
    parts = [] if known is None else [known]
    for part in parts:
        check_inputs("connectome", part.parameters.get("inputs"), inputs)
    done = sum(len(part.numbers[LENGTH]) for part in parts)
    for total, block in blocks_of(fibers, done):
        pairs, owners = assigner.pairs(block)
        lengths = {LENGTH: block.lengths_mm()}
        numbers = {name: np.asarray(values) for name, values in block.per_fiber.items() if np.ndim(values) == 1}
        parts.append(_part(atlas, assigner, pairs, owners + done, numbers | lengths, inputs))
        done += len(block)
        so_far = functools.partial(joined, tuple(parts), complete=False)
        yield Step(done, total, "assigning fibers to regions", make_preview=so_far)
        if stop is not None and stop.is_set() and done < total:
            return joined(parts, complete=False)
    return joined(parts or [empty_connectome(atlas, assigner)], complete=True)


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
            "connectome": dataclasses.asdict(assigner.settings),
            **({} if inputs is None else {"inputs": inputs}),
        },
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

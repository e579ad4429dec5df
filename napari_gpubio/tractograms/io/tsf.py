"""MRtrix track scalars (``.tsf``): a number for each point of the ``.tck`` file that they were sampled along.

The file is laid out as a tck file is, with one number where that has three: a NaN behind every fiber, inf at the end.
Numbers belong to points by their order alone, so that both files must have the same fibers; ``timestamp`` of both
headers tells that one was made from the other.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.reading import note
from napari_gpubio.tractograms.io import tck
from napari_gpubio.tractograms.io.parsed import Parsed
from napari_gpubio.tractograms.io.validation import load_bytes

DAMAGE = tck.DAMAGE
MAGIC = b"mrtrix track scalars"
SUFFIX = ".tsf"
_HEADER = 1 << 16  # bytes that are searched for a timestamp
_TIMESTAMP = re.compile(rb"\ntimestamp: *([0-9.]+)")


def tracks_of(path: Path) -> Path:
    """Return the tck file beside one of scalars that has its name, or its timestamp; InvalidInput if there is none."""
    stem, stamp = path.name[: -len(SUFFIX)], _stamp(path)
    for name in (f"{stem}.tck", f"{stem}.tck.gz"):
        if (found := path.with_name(name)).is_file():
            return found
    others = [] if stamp is None else filter(Path.is_file, sorted(path.parent.glob("*.tck")))
    same = [tracks for tracks in others if _stamp(tracks) == stamp]
    if not same:
        raise InvalidInput(
            f"track scalars belong to a tck file, and there is none beside {path.name} with its name or its timestamp; "
            "put it there, or give it to read_track_scalars"
        )
    note(f"its fibers are those of {same[0].name}, which has the same timestamp")
    return same[0]


def _stamp(path: Path) -> str | None:
    """The timestamp in the header of a file, or None."""
    with path.open("rb") as file:
        found = _TIMESTAMP.search(file.read(_HEADER))
    return None if found is None else found[1].decode()


def read_tsf(path: Path, tracks: Path) -> Parsed:
    """Read a tck file with the numbers of a tsf file as a column of points, named as the tsf file.

    InvalidInput if one of them is damaged, or they have different fibers.
    """
    data = load_bytes(existing_file(path))
    _, offset, dtype = tck.header_of(data, MAGIC)
    values = np.frombuffer(data, dtype, (len(data) - offset) // dtype.itemsize, offset)
    found = tck.read_tck(existing_file(tracks))
    stamps = _stamp(path), _stamp(tracks)
    if None not in stamps and stamps[0] != stamps[1]:
        note(f"its timestamp {stamps[0]} is not that of {tracks.name}, {stamps[1]}; the fibers may be others")
    ends = found.offsets[1:] + np.arange(len(found.offsets) - 1)
    used = int(ends[-1]) + 1 if len(ends) else 0
    fits = len(values) >= used and not np.isfinite(values[ends]).any() and not np.isfinite(values[used:]).any()
    if not fits:
        raise InvalidInput(
            f"it has {np.count_nonzero(np.isnan(values))} fibers of {np.count_nonzero(np.isfinite(values))} numbers in "
            f"all, {tracks.name} has {len(ends)} of {len(found.points)} points: give the tck file it was made from"
        )
    column = np.delete(values[:used], ends).astype(np.float32)
    if missing := np.count_nonzero(~np.isfinite(column)):
        note(f"{missing} of {len(column)} points have no finite number")
    return dataclasses.replace(found, per_point={path.name[: -len(SUFFIX)]: column})

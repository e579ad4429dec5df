"""MRtrix tracks (``.tck``): a text header, then float32 points in world mm (RAS) with a NaN point behind every fiber.

The format holds points only. MRtrix keeps numbers of points in ``.tsf`` files (see `tsf`) and numbers of fibers in text
files beside it; a note names those that are not written. Parameters and the grid go into one header line of our own.

The header is read here, and not by nibabel, which has no public way to do that without reading fibers.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.tractograms.io.parsed import KEY, FormatWriter, Parsed, Provenance, decode
from napari_gpubio.tractograms.io.validation import DAMAGED, checked_magic, load_bytes, offsets_of
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
MAGIC = b"mrtrix tracks"
DAMAGE = DAMAGED
LONGEST_HEADER = 16 * 2**20  # bytes
DTYPES = {  # by the name in small letters, as MRtrix compares them; without an end, it is the machine's
    f"float{bits}{end}": np.dtype(f"{sign}f{bits // 8}")
    for bits in (32, 64)
    for end, sign in (("", "<"), ("le", "<"), ("be", ">"))
}
_ROWS = 1 << 24  # that are looked at together
_END = re.compile(rb"\nEND[ \r]*\n")


def read_tck(path: Path) -> Parsed:
    """Read a ``.tck`` file, as many whole fibers as it holds; InvalidInput if its header or first fiber is cut off."""
    data = load_bytes(path)
    header, offset, dtype = header_of(data)
    triples = np.frombuffer(data, dtype, (len(data) - offset) // dtype.itemsize // 3 * 3, offset).reshape(-1, 3)
    ends = fiber_ends(triples, header)
    provenance = decode(header[KEY]) if KEY in header else Provenance()
    return Parsed(
        points=points_of(triples, ends), offsets=offsets_of(np.diff(ends, prepend=-1) - 1), provenance=provenance
    )


def header_of(data: bytes | bytearray, magic: bytes = MAGIC) -> tuple[dict[str, str], int, np.dtype[Any]]:
    """Entries of the header, the byte where the numbers begin, and their type."""
    checked_magic(data, magic, magic.decode())
    if (end := _END.search(data, 0, LONGEST_HEADER)) is None:
        raise InvalidInput("its header has no END; the file is cut off, copy or export it again")
    entries: dict[str, str] = {}
    for line in data[: end.start()].decode("utf-8", "replace").split("\n")[1:]:
        key, _, value = line.partition("#")[0].partition(":")
        entries.setdefault(key.strip(), value.strip())
    name = entries.get("datatype", "").lower()
    if name not in DTYPES:
        if name:
            raise InvalidInput(
                f"its datatype is {entries['datatype']!r}; tck has Float32LE and the like, export it again"
            )
        note("the header has no datatype; Float32LE was taken")
    if "file" not in entries:
        note("the header does not tell where the numbers begin; they were read from its END on")
    where, _, offset = entries.get("file", f". {end.end()}").partition(" ")
    if where != "." or not offset.strip().isdecimal() or not end.end() <= int(offset) <= len(data):
        raise InvalidInput(
            f"its header puts the points at {entries['file']!r}; they must lie between the header and byte {len(data)}"
        )
    return entries, int(offset), DTYPES.get(name, DTYPES["float32le"])


def fiber_ends(triples: Array, header: Mapping[str, str]) -> npt.NDArray[np.int64]:
    """Rows that close a fiber: NaN, or the inf that closes the file where the last NaN is missing.

    Notes tell what the header counts otherwise, and what is cut off; InvalidInput if that is the first fiber.
    """
    parts = range(0, max(1, len(triples)), _ROWS)  # they may be on the disk, and more than memory holds
    odd = np.concatenate([first + np.flatnonzero(~np.isfinite(triples[first : first + _ROWS, 0])) for first in parts])
    closing = odd[np.isnan(triples[odd]).all(axis=1)]
    last = odd[np.isinf(triples[odd]).all(axis=1)]
    if len(last):
        end, closing = last[-1], closing[closing < last[-1]]  # one before it is a point of a broken fiber
        if (behind := len(triples) - 1 - end) > 0:
            note(f"{behind} points behind the closing mark (inf, inf, inf) were not read")
        begun = end > 0 if not len(closing) else closing[-1] + 1 < end
        closing = np.append(closing, end) if begun else closing
    elif len(triples) and not len(closing):
        raise InvalidInput("it ends inside its first fiber; the file is cut off, copy or export it again")
    else:
        cut = len(triples) - 1 - (closing[-1] if len(closing) else -1)
        inside = f" and it ends inside fiber {len(closing)}" if cut else ""
        note(f"the closing mark (inf, inf, inf) is missing{inside}; {len(closing)} whole fibers were read")
    if (count := header.get("count", "")).isdecimal() and int(count) != len(closing):
        note(f"the header counts {int(count)} fibers and the file holds {len(closing)}; all {len(closing)} were read")
    return closing


def points_of(triples: Array, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The rows before the last end that are no ends themselves."""
    keep = np.ones(ends[-1] + 1 if len(ends) else 0, bool)
    keep[ends] = False
    return np.asarray(triples[: len(keep)][keep], np.float32)


class TckWriter(FormatWriter):
    """Writes a ``.tck`` file part by part."""

    def __init__(self, path: Path, provenance: Provenance) -> None:
        super().__init__(path, provenance)
        self._has_warned = False
        self._file = path.open("wb")
        self._file.write(self._header(complete=True))

    def append(self, part: Tractogram) -> None:
        """Write points, with a NaN point behind every fiber."""
        names = [*part.per_fiber, *part.per_point]
        if names and not self._has_warned:
            note(f"tck has no place for {', '.join(names)}; write trx, trk or vtk to keep them")
            self._has_warned = True
        rows = np.full((len(part.points) + len(part), 3), np.nan, "<f4")
        keep = np.ones(len(rows), bool)
        keep[part.offsets[1:] + np.arange(len(part))] = False
        rows[keep] = part.points
        self._file.write(rows.data)
        self.fibers += len(part)

    def finish(self, *, complete: bool) -> None:
        """Write the closing mark and the header with the true count."""
        self._file.write(np.full(3, np.inf, "<f4").data)
        self._file.seek(0)
        self._file.write(self._header(complete=complete))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _header(self, *, complete: bool) -> bytes:
        line = Provenance(self.provenance.parameters, complete, self.grid).encode()
        text = f"{MAGIC.decode()}\ncount: {self.fibers:010d}\ndatatype: Float32LE\n{KEY}: {line}\nfile: . "
        length = len(text) + len("\nEND\n")
        offset = length + len(str(length))
        offset = length + len(str(offset))
        return f"{text}{offset}\nEND\n".encode("ascii")

"""MRtrix tracks (``.tck``): a text header, then float32 points in world mm (RAS) with a NaN point behind every fiber.

The format holds points only. MRtrix keeps numbers of points in ``.tsf`` files and numbers of fibers in text files
beside it; they are left out here, with a warning. Parameters and the grid go into one header line of our own.

The header is read here, and not by nibabel, which has no public way to do that without reading fibers.
"""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io.parsed import KEY, FormatWriter, Parsed, Provenance, decode
from napari_gpubio.tracts.io.validation import DAMAGED, check_finite, checked_magic, load_bytes, offsets_of
from napari_gpubio.tracts.model import Tractogram

Array = npt.NDArray[Any]
logger = logging.getLogger(__name__)
MAGIC = b"mrtrix tracks"
DAMAGE = DAMAGED
LONGEST_HEADER = 16 * 2**20  # bytes
DTYPES = {
    f"Float{bits}{end}": np.dtype(f"{sign}f{bits // 8}")
    for bits in (32, 64)
    for end, sign in (("LE", "<"), ("BE", ">"))
}
_ROWS = 1 << 24  # that are looked at together
_END = re.compile(rb"\nEND[ \r]*\n")


def read_tck(path: Path) -> Parsed:
    """Read a ``.tck`` file; InvalidInput if it is damaged or cut off (the closing inf, inf, inf is missing)."""
    data = load_bytes(path)
    checked_magic(data, MAGIC, "tck")
    header, offset, dtype = header_of(data)
    rows = (len(data) - offset) // (3 * dtype.itemsize)
    triples = np.frombuffer(data, dtype, rows * 3, offset).reshape(-1, 3)
    ends = fiber_ends(triples)
    keep = np.ones(ends[-1] + 1 if len(ends) else 0, bool)
    keep[ends] = False
    points = triples[: len(keep)][keep].astype(np.float32, copy=False)
    check_finite(points)
    if (count := header.get("count", "")).isdecimal() and int(count) != len(ends):
        logger.warning("the tck header counts %s fibers and the file holds %d; all of them were read", count, len(ends))
    provenance = decode(header[KEY]) if KEY in header else Provenance()
    return Parsed(points=points, offsets=offsets_of(np.diff(ends, prepend=-1) - 1), provenance=provenance)


def header_of(data: bytes | bytearray) -> tuple[dict[str, str], int, np.dtype[Any]]:
    """Entries of the header, the byte where the points begin, and their type."""
    if (end := _END.search(data, 0, LONGEST_HEADER)) is None:
        raise InvalidInput("its header has no END; the file is cut off, copy or export it again")
    entries: dict[str, str] = {}
    for line in data[: end.start()].decode("utf-8", "replace").split("\n")[1:]:
        key, _, value = line.partition("#")[0].partition(":")
        entries.setdefault(key.strip(), value.strip())
    if (name := entries.get("datatype", "Float32LE")) not in DTYPES:
        raise InvalidInput(f"its datatype is {name!r}; tck has {', '.join(DTYPES)}, export the file again")
    where, _, offset = entries.get("file", f". {end.end()}").partition(" ")
    if where != "." or not offset.strip().isdecimal() or not end.end() <= int(offset) <= len(data):
        raise InvalidInput(
            f"its header puts the points at {entries['file']!r}; they must lie between the header and byte {len(data)}"
        )
    return entries, int(offset), DTYPES[name]


def fiber_ends(triples: Array) -> npt.NDArray[np.int64]:
    """Rows that close a fiber: NaN, or the inf that closes the file where the last NaN is missing."""
    parts = range(0, max(1, len(triples)), _ROWS)  # they may be on the disk, and more than memory holds
    odd = np.concatenate([first + np.flatnonzero(~np.isfinite(triples[first : first + _ROWS, 0])) for first in parts])
    last = odd[np.isinf(triples[odd]).all(axis=1)]
    if not len(last):
        raise InvalidInput("the closing mark (inf, inf, inf) is missing; the file is cut off, copy or export it again")
    end = last[0]
    closing = odd[(odd < end) & np.isnan(triples[odd]).all(axis=1)]
    begun = end > 0 if not len(closing) else closing[-1] + 1 < end
    return np.append(closing, end) if begun else closing


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
            logger.warning("tck has no place for %s; write trx, trk or vtk to keep them", ", ".join(names))
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

"""Writes TRX part by part: the points go straight into the zip file, everything else is gathered beside it."""

import json
import logging
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io.parsed import FormatWriter, numeric_columns
from napari_gpubio.tracts.io.provenance import KEY, Provenance
from napari_gpubio.tracts.io.trx import GROUP
from napari_gpubio.tracts.io.validation import BLOCK, unique_names
from napari_gpubio.tracts.model import Tractogram

Array = npt.NDArray[Any]
logger = logging.getLogger(__name__)
LONGEST_SIDE = np.iinfo(np.uint16).max


class TrxWriter(FormatWriter):
    """Writes a ``.trx`` file part by part."""

    def __init__(self, path: Path, provenance: Provenance) -> None:
        super().__init__(path, provenance)
        if max(self.grid.shape) > LONGEST_SIDE:
            raise InvalidInput(
                f"trx cannot hold a volume of {self.grid.shape} voxels; a side has at most {LONGEST_SIDE}"
            )
        self._gathered: dict[str, IO[bytes]] = {}
        self._archive = zipfile.ZipFile(path, "w")
        self._positions = self._archive.open("positions.3.float32", "w", force_zip64=True)
        self._gather("offsets.uint64", np.zeros(1, "<u8"))

    def append(self, part: Tractogram) -> None:
        """Write points; gather offsets, columns and groups."""
        self._positions.write(np.ascontiguousarray(part.points, "<f4").data)
        self._gather("offsets.uint64", (part.offsets[1:] + self.points).astype("<u8"))
        self._gather_columns("dpv", part.per_point, "point")
        groups = {name: np.asarray(v) for name, v in part.per_fiber.items() if name.startswith(GROUP)}
        groups = {name: v for name, v in groups.items() if v.dtype == bool and v.ndim == 1}
        self._gather_columns("dps", {n: v for n, v in part.per_fiber.items() if n not in groups}, "fiber")
        for name, mask in groups.items():
            which = np.flatnonzero(mask) + self.fibers
            self._gather(f"groups/{_plain(name.removeprefix(GROUP))}.uint32", which.astype("<u4"))
        self.fibers += len(part)
        self.points += len(part.points)

    def finish(self, *, complete: bool) -> None:
        """Write what was gathered, and the header."""
        self._positions.close()
        for name, gathered in self._gathered.items():
            gathered.seek(0)
            with self._archive.open(name, "w", force_zip64=True) as member:
                shutil.copyfileobj(gathered, member, BLOCK)
        header = {
            "VOXEL_TO_RASMM": self.grid.affine.tolist(),
            "DIMENSIONS": list(self.grid.shape),
            "NB_VERTICES": self.points,
            "NB_STREAMLINES": self.fibers,
            KEY: Provenance(self.provenance.parameters, complete).encode(),
        }
        self._archive.writestr("header.json", json.dumps(header))
        self._archive.close()

    def close(self) -> None:
        """Close every file."""
        for gathered in self._gathered.values():
            gathered.close()
        with suppress(OSError, ValueError):
            self._positions.close()
        with suppress(OSError, ValueError):
            self._archive.close()

    def _gather_columns(self, folder: str, table: Any, what: str) -> None:
        columns = list(numeric_columns(table, what))
        names = unique_names([_plain(name) for name, _ in columns])
        for name, (_, values) in zip(names, columns, strict=True):
            k = values.shape[1]
            kind = "bit" if values.dtype == bool else values.dtype.name
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            self._gather(f"{folder}/{name}{f'.{k}' if k > 1 else ''}.{kind}", little)

    def _gather(self, member: str, values: Array) -> None:
        if member not in self._gathered:
            self._gathered[member] = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 - closed in close()
        self._gathered[member].write(np.ascontiguousarray(values).data)


def _plain(name: str) -> str:
    """Give a name that a member can have: dots and slashes mean something there."""
    plain = "".join(c if c.isalnum() or c in "_-+ " else "_" for c in name) or "_"
    if plain != name:
        logger.info("trx cannot hold the name %r; it is written as %r", name, plain)
    return plain

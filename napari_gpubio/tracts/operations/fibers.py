"""Fibers as values of operations: how they are opened and written."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.records import File, Reading
from napari_gpubio.core.operations.stores import Kind, file, register_kind
from napari_gpubio.core.settings import part
from napari_gpubio.tracts.io import trx, tsf
from napari_gpubio.tracts.io.tractograms import WRITTEN_SUFFIXES, read_tractogram, tractogram_suffix
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.operations.regions import REFERENCE

_HEADER = "header.json"  # of a folder


@dataclass(frozen=True, kw_only=True)
class OpenTractogram(Reading, verb="open-tractogram", makes={"fibers": Tractogram}):
    """Open fibers: a tractogram of TrackVis, MRtrix, TRX, VTK or DSI Studio."""

    file: File = part("File", "Tractogram; of a folder as a trx archive holds it, its header.json.")
    beside: tuple[File, ...] = part(
        "Beside it", "The other files of the folder; the tck file of a tsf file.", default=()
    )
    reference: File | None = part("Reference", REFERENCE, default=None)

    @property
    def title(self) -> str:
        """Name of the file."""
        path = self._place(Path(self.file.path))
        return path.name.removesuffix(tractogram_suffix(path) or "")

    @staticmethod
    def _place(path: Path) -> Path:
        """The folder that a header is of, or the file itself."""
        return path.parent if trx.is_folder(path.parent) and tractogram_suffix(path) is None else path

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenTractogram":
        """Return the operation that opens a tractogram as it is now."""
        path, beside = Path(path), list[Path]()
        if trx.is_folder(path):
            beside = sorted(one for one in path.rglob("*") if one.is_file() and one != path / _HEADER)
            path = path / _HEADER
        elif tractogram_suffix(path) == tsf.SUFFIX:
            beside = [tsf.tracks_of(path)]
        return cls(file=file(path), beside=tuple(map(file, beside)), **options)

    def read(self, data: Any) -> Tractogram:
        """Read it."""
        return read_tractogram(self._place(data.file), reference=data.reference)


def _write(fibers: Tractogram, path: Path, record: Mapping[str, Any]) -> None:
    dataclasses.replace(fibers, parameters={**fibers.parameters, RECORD: dict(record)}).save(path)


register_kind(
    Kind(
        Tractogram,
        counts=lambda one: (
            one.points,
            one.offsets,
            one.affine,
            one.shape,
            one.per_fiber,
            one.per_point,
            one.per_group,
        ),
        endings=WRITTEN_SUFFIXES,
        write=_write,
        opens=OpenTractogram,
    )
)

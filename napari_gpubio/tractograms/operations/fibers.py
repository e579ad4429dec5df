"""Fibers as values of operations: how they are opened and written, whole, or block by block from files of any size."""

import dataclasses
from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Held, Reading, file
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.diffusion.operations.held import HeldValue, NamedArrays
from napari_gpubio.diffusion.operations.regions import REFERENCE
from napari_gpubio.tractograms.io import trx, tsf
from napari_gpubio.tractograms.io.blocks import Source, blocks_of, write_blocks
from napari_gpubio.tractograms.io.tractograms import (
    STREAMED_SUFFIXES,
    WRITTEN_SUFFIXES,
    read_tractogram,
    tractogram_suffix,
    write_tractogram,
)
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import PLACED_IN, UNKNOWN_LENGTHS, UNKNOWN_PLACE, has_place


class Fibers(ABC):  # noqa: B024 - a tractogram is one, too
    """Base of fibers: a `Tractogram`, or those of a file of which not more than a block is held."""


Fibers.register(Tractogram)


@dataclass(frozen=True, eq=False)
class FiberFile(Fibers):
    """A file of fibers, which is read block by block.

    Parameters
    ----------
    path
        Of the file.
    kept
        Which of its fibers count, shape (F,); None: all.
    parameters
        That they get beside their own.
    """

    path: Path
    kept: Any = None
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def blocks(self) -> Iterator[Tractogram]:
        """Yield the fibers that count, one block after the other."""
        done = 0
        for _, block in blocks_of(self.path):
            kept = block if self.kept is None else block.select(self.kept[done : done + len(block)])
            done += len(block)
            yield dataclasses.replace(kept, parameters={**kept.parameters, **self.parameters})


def source_of(fibers: Fibers) -> Source:
    """Return fibers as the functions take them that go through a file block by block."""
    if isinstance(fibers, FiberFile) and fibers.kept is None:
        return fibers.path
    return whole(fibers)


def whole(fibers: Any) -> Tractogram:
    """Return fibers, all of them in memory."""
    return Tractogram.join([*fibers.blocks()]) if isinstance(fibers, FiberFile) else fibers


_HEADER = "header.json"  # of a folder
_LAYERS = "napari_gpubio.tractograms.gui.fibers:layers_of_tractogram"


@dataclass(frozen=True, kw_only=True)
class OpenTractogram(Reading, verb="open-tractogram", makes={"fibers": Tractogram}):
    """Open fibers: a tractogram of TrackVis, MRtrix, TRX, VTK or DSI Studio."""

    examples = ("open-tractogram fibers.tt.gz --reference t1.nii.gz --out fibers.trx",)

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


@dataclass(frozen=True, kw_only=True)
class OpenFibers(OpenTractogram, verb="open-fibers", makes={"fibers": Fibers}):
    """Open fibers without reading them, where the format allows to go through a file block by block."""

    examples = ("open-fibers fibers.tck --out fibers.trx",)

    def read(self, data: Any) -> Any:
        """Return the file, or all that it holds where that is needed."""
        path = self._place(data.file)
        is_read = data.reference is not None or tractogram_suffix(path) not in STREAMED_SUFFIXES
        return super().read(data) if is_read else FiberFile(path)


def _write_blocks(fibers: FiberFile, path: Path, record: Mapping[str, Any]) -> None:
    own = dataclasses.replace(fibers, parameters={**fibers.parameters, RECORD: dict(record)})
    write_blocks(path, own.blocks())


def _write(fibers: Tractogram, path: Path, record: Mapping[str, Any]) -> None:
    write_tractogram(path, dataclasses.replace(fibers, parameters={**fibers.parameters, RECORD: dict(record)}))


register_kind(
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
    shows=_LAYERS,
)
register_kind(
    Fibers,
    counts=lambda one: (
        one.kept,
        ((block.points, block.offsets, block.per_fiber, block.per_point) for block in one.blocks()),
    ),
    endings=WRITTEN_SUFFIXES,
    write=_write_blocks,
    opens=OpenFibers,
    shows=_LAYERS,
)


@dataclass(frozen=True, kw_only=True)
class HeldTractogram(HeldValue, verb="held-tractogram", makes={"fibers": Tractogram}):
    """Fibers that no file holds."""

    value = Tractogram
    points: Held = part("Points", "Shape (P, 3).", unit="mm")
    offsets: Held = part("Offsets", "Where each fiber begins, shape (F + 1,).")
    shape: tuple[int, int, int] = part("Shape", "Dimensions of the volume that they belong to.")
    per_fiber: NamedArrays = part("Numbers of fibers", "By name.", default=())
    per_point: NamedArrays = part("Numbers of points", "By name.", default=())
    per_group: tuple[tuple[str, NamedArrays], ...] = part("Numbers of groups", "By group and name.", default=())
    is_oriented: bool = param(True, "Oriented", "Whether their place is known.")
    is_in_mm: bool = param(True, "In mm", "Whether their lengths are known.")
    was_placed: bool = param(False, "Placed", "Whether they were put voxel by voxel where they lie.")

    @classmethod
    def of(cls, value: Any, name: str = "", store: Store = STORE) -> Self:
        """Return the operation of fibers as they are now."""
        return dataclasses.replace(
            super().of(value, name, store),
            is_oriented=has_place(value),
            is_in_mm=not UNKNOWN_LENGTHS.items() <= value.parameters.items(),
            was_placed=PLACED_IN in value.parameters,
        )

    def read(self, data: Any) -> Tractogram:
        """Take them from where they are held."""
        parameters: dict[str, Any] = {} if self.is_oriented else dict(UNKNOWN_PLACE)
        parameters |= {} if self.is_in_mm else UNKNOWN_LENGTHS
        parameters |= {PLACED_IN: ([list(row) for row in self.affine], list(self.shape))} if self.was_placed else {}
        return dataclasses.replace(super().read(data), parameters=parameters)

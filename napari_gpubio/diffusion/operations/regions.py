"""Regions and atlases as values of operations: files, spheres and boxes."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, STRUCTURES, describe
from napari_gpubio.core.operations.kinds import digest, register_kind
from napari_gpubio.core.operations.records import File, Operation, Output, Reading, file
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.parameters import param
from napari_gpubio.core.reading import without_notes
from napari_gpubio.core.settings import part
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, stem_of, write_volume
from napari_gpubio.diffusion.io.atlases import names_beside, read_atlas
from napari_gpubio.diffusion.operations.held import HeldAtlas, HeldRegion
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Box, Region, Sphere

Point = tuple[float, float, float]
REFERENCE = "Image for the place of what tells none: it has as many voxels, which are taken one by one."


@dataclass(frozen=True, kw_only=True)
class OpenAtlas(Reading, verb="open-atlas", makes={"atlas": Atlas}):
    """Open an atlas: a volume of labels, with a table of their names."""

    file: File = part("File", "NIfTI or MRtrix image of labels.")
    table: File | None = part("Names", "Table of the names; found beside the labels by default.", default=None)
    reference: File | None = part("Reference", REFERENCE, default=None)

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenAtlas":
        """Return the operation that opens an atlas as it is now, with the table that is given or lies beside it."""
        return cls(file=file(path), **{"table": _table_of(path), **options})

    def read(self, data: Any) -> Atlas:
        """Read it."""
        return read_atlas(data.file, data.table, reference=data.reference)


@dataclass(frozen=True, kw_only=True)
class OpenRegion(Reading, verb="open-region", makes={"region": AnyRegion}):
    """Open a region: a mask, or a label of an atlas."""

    examples = ("open-region aparc.nii.gz:Brain-Stem --record stem.json",)

    file: File = part("File", "NIfTI or MRtrix image: a mask, or labels.")
    label: str = param("", "Label", "Number or name; all voxels that are not 0 by default.", advanced=True)
    table: File | None = part(
        "Names", "Table of the names; found beside the labels by default.", default=None, advanced=True
    )
    reference: File | None = part("Reference", REFERENCE, default=None)

    @property
    def title(self) -> str:
        """Name of the label or file."""
        return self.label or stem_of(Path(self.file.path))

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenRegion | SphereRegion | BoxRegion":
        """Return the operation of a region as a command names it: ``FILE``, ``FILE:LABEL``, ``sphere:``, ``box:``.

        Raises
        ------
        InvalidInput
            If numbers are missing, or the file is.
        """
        text = str(path)
        kind, _, rest = text.partition(":")
        if kind == "sphere":
            x, y, z, radius = _numbers(text, rest, 4)
            return SphereRegion(center_mm=(x, y, z), radius_mm=radius, name=text)
        if kind == "box":
            x0, y0, z0, x1, y1, z1 = _numbers(text, rest, 6)
            return BoxRegion(corner_mm=(x0, y0, z0), opposite_mm=(x1, y1, z1), name=text)
        name, colon, label = text.rpartition(":")
        if not colon or not name or Path(text).is_file():
            name, label = text, ""
        options = {"label": label, **options}
        if options["label"] and "table" not in options:
            options["table"] = _table_of(name)
        return cls(file=file(name), **options)

    def read(self, data: Any) -> AnyRegion:
        """Read it."""
        atlas = read_atlas(data.file, data.table, reference=data.reference)
        if self.label:
            return atlas.region(int(self.label) if re.fullmatch("-?[0-9]+", self.label) else self.label)
        voxels, name = atlas.labels != 0, data.file.name
        return Region(name=name, voxels=voxels, affine=atlas.affine, is_oriented=atlas.is_oriented)


def _table_of(path: str | Path) -> File | None:
    """The file that names the labels of an atlas, if there is one; what is to be noted of it is when it is read."""
    with without_notes(), suppress(InvalidInput):  # what cannot be read is reported then, too
        return None if (found := names_beside(path)) is None else file(found)
    return None


def _numbers(text: str, values: str, count: int) -> list[float]:
    try:
        found = [float(one) for one in values.split(",")]
    except ValueError:
        found = []
    if len(found) != count:
        raise InvalidInput(f"the region is {text!r}; it needs {count} numbers with commas between them")
    return found


@dataclass(frozen=True, kw_only=True)
class SphereRegion(Reading, verb="sphere", makes={"region": AnyRegion}):
    """A ball as a region."""

    examples = ("sphere --center-mm 0 -5 22 --radius-mm 4 --record ball.json",)

    center_mm: Point = part("Center", "World position.", unit="mm")
    radius_mm: float = param(5.0, "Radius", "Of the ball.", unit="mm", above=0.0)
    name: str = param("sphere", "Name", "As people know it.", compare=False)

    def read(self, data: Any) -> AnyRegion:  # noqa: ARG002 - it needs none
        """Make it."""
        return Sphere(name=self.name, center_mm=self.center_mm, radius_mm=self.radius_mm)


@dataclass(frozen=True, kw_only=True)
class BoxRegion(Reading, verb="box", makes={"region": AnyRegion}):
    """A box along the axes of the world as a region."""

    examples = ("box --corner-mm -4 -9 18 --opposite-mm 4 -1 26 --record box.json",)

    corner_mm: Point = part("Corner", "World position.", unit="mm")
    opposite_mm: Point = part("Opposite corner", "World position.", unit="mm")
    name: str = param("box", "Name", "As people know it.", compare=False)

    def check(self) -> None:
        """Raise InvalidInput if it has no volume."""
        self.read(None)

    def read(self, data: Any) -> AnyRegion:  # noqa: ARG002 - it needs none
        """Make it."""
        (x0, y0, z0), (x1, y1, z1) = self.corner_mm, self.opposite_mm
        low, high = (min(x0, x1), min(y0, y1), min(z0, z1)), (max(x0, x1), max(y0, y1), max(z0, z1))
        return Box(name=self.name, low_mm=low, high_mm=high)


def parts_of(region: AnyRegion) -> tuple[Any, ...]:
    """Return what makes a region what it is, beside its name."""
    if isinstance(region, Sphere):
        return region.center_mm, region.radius_mm
    if isinstance(region, Box):
        return region.low_mm, region.high_mm
    assert isinstance(region, Region)
    return region.voxels, region.affine, region.is_oriented


register_kind(AnyRegion, counts=parts_of, opens=OpenRegion)


def write_atlas(atlas: Atlas, path: Path, record: Mapping[str, Any]) -> None:
    """Write labels as NIfTI; their names and the record go into a JSON file beside it."""
    write_volume(path, atlas.labels, atlas.affine, "labels, written by napari-gpubio")
    names = {label: atlas.name_of(label) for label in atlas.voxel_counts}
    describe(path, {"kind": "labels", STRUCTURES: names, RECORD: record})


register_kind(
    Atlas,
    counts=lambda one: (one.labels, one.affine, one.names, one.is_oriented),
    endings=NIFTI_SUFFIXES,
    write=write_atlas,
    opens=OpenAtlas,
    shows="napari_gpubio.diffusion.napari_io:layers_of_atlas",
)


def region_source(region: AnyRegion, path: Path | None, key: int | str) -> Output[Any]:
    """Return where a region comes from: its numbers, a label of a file, or its voxels, which are copied.

    Parameters
    ----------
    region
        As it is used.
    path, key
        The file of labels that it was taken from, as far as that is known, and which of them.
    """
    if isinstance(region, Sphere):
        x, y, z = map(float, region.center_mm)
        return SphereRegion(center_mm=(x, y, z), radius_mm=region.radius_mm, name=region.name).output()
    if isinstance(region, Box):
        return BoxRegion(corner_mm=region.low_mm, opposite_mm=region.high_mm, name=region.name).output()
    opened = opened_first(region, lambda: OpenRegion.at(path or "", label=str(key)), path)
    return opened or HeldRegion.of(region).output()


def atlas_source(atlas: Atlas, name: str, path: Path | None) -> Output[Any]:
    """Return where an atlas comes from: a file, or its labels, which are copied; ``path``: of the file, if known."""
    return opened_first(atlas, lambda: OpenAtlas.at(path or ""), path) or HeldAtlas.of(atlas, name).output()


def opened_first(value: Any, opened: Callable[[], Operation], path: Path | None) -> Output[Any] | None:
    """What opens a file, if that holds exactly a value."""
    if path is not None and path.exists():
        with suppress(InvalidInput), without_notes():  # a file that has become something else since
            output = opened().output()
            if digest(run(output, device="cpu")) == digest(value):
                return output
    return None

"""Regions and atlases as values of operations: files, spheres and boxes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import File, Reading
from napari_gpubio.core.operations.stores import Kind, file, register_kind
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.volumes import stem_of
from napari_gpubio.tracts.io.atlases import read_atlas
from napari_gpubio.tracts.regions import AnyRegion, Atlas, Box, Region, Sphere

Point = tuple[float, float, float]
REFERENCE = "Image for the place of what tells none: it has as many voxels, which are taken one by one."


@dataclass(frozen=True, kw_only=True)
class OpenAtlas(Reading, verb="open-atlas", makes={"atlas": Atlas}):
    """Open an atlas: a volume of labels, with a table of their names."""

    file: File = part("File", "NIfTI or MRtrix image of labels.")
    table: File | None = part("Names", "Table of the names; found beside the labels by default.", default=None)
    reference: File | None = part("Reference", REFERENCE, default=None)

    @property
    def title(self) -> str:
        """Name of the file."""
        return stem_of(Path(self.file.path))

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenAtlas":
        """Return the operation that opens an atlas as it is now."""
        return cls(file=file(path), **options)

    def read(self, data: Any) -> Atlas:
        """Read it."""
        return read_atlas(data.file, data.table, reference=data.reference)


@dataclass(frozen=True, kw_only=True)
class OpenRegion(Reading, verb="open-region", makes={"region": AnyRegion}):
    """Open a region: a mask, or a label of an atlas."""

    file: File = part("File", "NIfTI or MRtrix image: a mask, or labels.")
    label: str = param("", "Label", "Number or name; all voxels that are not 0 by default.", advanced=True)
    reference: File | None = part("Reference", REFERENCE, default=None)

    @property
    def title(self) -> str:
        """Name of the label or file."""
        return self.label or stem_of(Path(self.file.path))

    @classmethod
    def at(cls, text: str | Path, **options: Any) -> "OpenRegion | SphereRegion | BoxRegion":
        """Return the operation of a region as a command names it: ``FILE``, ``FILE:LABEL``, ``sphere:``, ``box:``.

        Raises
        ------
        InvalidInput
            If numbers are missing, or the file is.
        """
        text = str(text)
        kind, _, rest = text.partition(":")
        if kind == "sphere":
            x, y, z, radius = _numbers(text, rest, 4)
            return SphereRegion(center_mm=(x, y, z), radius_mm=radius, name=text)
        if kind == "box":
            values = _numbers(text, rest, 6)
            low, high = zip(*(sorted(pair) for pair in zip(values[:3], values[3:], strict=True)), strict=True)
            return BoxRegion(low_mm=low, high_mm=high, name=text)
        path, colon, label = text.rpartition(":")
        if not colon or not path or Path(text).is_file():
            path, label = text, ""
        return cls(file=file(path), **{"label": label, **options})

    def read(self, data: Any) -> AnyRegion:
        """Read it."""
        atlas = read_atlas(data.file, reference=data.reference)
        if self.label:
            return atlas.region(int(self.label) if self.label.lstrip("-").isdigit() else self.label)
        voxels, name = atlas.labels != 0, data.file.name
        return Region(name=name, voxels=voxels, affine=atlas.affine, is_oriented=atlas.is_oriented)


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

    center_mm: Point = part("Center", "World position.", unit="mm")
    radius_mm: float = param(5.0, "Radius", "Of the ball.", unit="mm", above=0.0)
    name: str = param("sphere", "Name", "As people know it.", compare=False)

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    def read(self, data: Any) -> AnyRegion:  # noqa: ARG002 - it needs none
        """Make it."""
        return Sphere(name=self.name, center_mm=self.center_mm, radius_mm=self.radius_mm)


@dataclass(frozen=True, kw_only=True)
class BoxRegion(Reading, verb="box", makes={"region": AnyRegion}):
    """A box along the axes of the world as a region."""

    low_mm: Point = part("Low corner", "World position.", unit="mm")
    high_mm: Point = part("High corner", "World position.", unit="mm")
    name: str = param("box", "Name", "As people know it.", compare=False)

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    def check(self) -> None:
        """Raise InvalidInput if it has no volume."""
        self.read(None)

    def read(self, data: Any) -> AnyRegion:  # noqa: ARG002 - it needs none
        """Make it."""
        return Box(name=self.name, low_mm=self.low_mm, high_mm=self.high_mm)


def _counts(region: AnyRegion) -> tuple[Any, ...]:
    if isinstance(region, Sphere):
        return region.center_mm, region.radius_mm
    if isinstance(region, Box):
        return region.low_mm, region.high_mm
    assert isinstance(region, Region)
    return region.voxels, region.affine, region.is_oriented


register_kind(Kind(AnyRegion, counts=_counts, opens=OpenRegion))
register_kind(Kind(Atlas, counts=lambda one: (one.labels, one.affine, one.names, one.is_oriented), opens=OpenAtlas))

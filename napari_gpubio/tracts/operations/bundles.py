"""Numbers and profiles of the bundles of many subjects: a verb."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Told, Words, given
from napari_gpubio.core.operations.stores import file, register_kind
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.bundles.group import Group, Member, group_steps, in_order, member_of
from napari_gpubio.tracts.bundles.settings import ProfileSettings
from napari_gpubio.tracts.bundles.tables import Table


def _images(rows: list[list[str]]) -> tuple[tuple[str, str], ...]:
    """Names of images, and their files, or patterns of these."""
    images: dict[str, str] = {}
    for (text,) in rows:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            raise InvalidInput(f"--image is {text!r}; give a name and a file, such as FA=fa.nii.gz")
        if name in images:
            raise InvalidInput(f"there are two images called {name}; give each its own name")
        images[name] = pattern
    return tuple(images.items())


@dataclass(frozen=True, kw_only=True)
class OpenBundle(Reading, verb="open-bundle", makes={"bundle": Member}):
    """Open a bundle of a subject, with images of that subject, for tables; files are read one after the other."""

    words: ClassVar[Any] = {"image": Words(("NAME=FILE",), _images)}

    file: File = part("File", "Tractogram of one bundle, or of several in groups.")
    image: tuple[tuple[str, File], ...] = part(
        "Images", "What to measure, such as FA; one file for all, or a pattern with one for each subject.", default=()
    )
    subject: str = param(
        "", "Subject", "What a path calls sub-... (with ses-...), else the folder of the file.", advanced=True
    )
    bundle: str = param("", "Bundle", "Its name; by default the rest of the file's.", advanced=True)

    @property
    def title(self) -> str:
        """Names of subject and bundle."""
        return f"{self.subject} {self.bundle}"

    @classmethod
    def at(cls, path: str | Path, *, image: Any = (), **options: Any) -> "OpenBundle":
        """Return the operation that opens a file as it is now; ``image``: names, and files or patterns of them."""
        found = member_of(Path(path), dict(image))
        images = tuple((name, file(one)) for name, one in found.images.items())
        return cls(file=file(path), image=images, **{"subject": found.subject, "bundle": found.bundle, **options})

    def read(self, data: Any) -> Member:
        """Return what is to be read."""
        pairs = zip(self.image, data.image or (), strict=True)
        images = {name: path for (name, _), (_, path) in pairs}
        return Member(subject=self.subject, bundle=self.bundle, path=data.file, images=images)


def _write(table: Table, path: Path, _: Any) -> None:
    if not table.rows:
        raise InvalidInput(f"{path.name} would be a table without rows; a profile needs an image: --image FA=fa.nii.gz")
    table.write(path)


register_kind(Member, counts=lambda one: (one.subject, one.bundle), opens=OpenBundle)
register_kind(Table, counts=lambda one: (one.columns, one.rows), endings=("",), write=_write)


@dataclass(frozen=True, kw_only=True)
class MeasureBundles(Operation, verb="bundles", makes={"summary": Table, "profiles": Table}):
    """Write numbers of bundles, of many subjects, and their profiles as tables.

    Count, volume, lengths and means of images, a row for each bundle of each subject; profiles along the bundles, a
    row for each subject, bundle, node and image. A bundle runs the same way in all subjects. Names that end in .tsv
    get tabs.
    """

    examples = (
        "bundles sub-*/AF.trx --image FA=sub-*/fa.nii.gz --image MD=sub-*/md.nii.gz -o t.csv --profiles-out p.csv",
    )
    needs_no_file = True

    bundles: tuple[Ref[Member], ...] = given("Bundles", "Tractograms, one bundle each: .trk, .tck, .trx or .vtk.")
    settings: ProfileSettings = part("Profiles", "Nodes and weights.", default=ProfileSettings())

    def has(self, name: str) -> bool:
        """Whether there is the table: profiles are those of images."""
        return name != "profiles" or any(getattr(one.of, "image", True) for _, one in self.inputs())

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Group]:  # noqa: ARG002 - on the CPU
        """Measure them."""
        nodes, weighting = self.settings.nodes, self.settings.weighting
        return group_steps(in_order(data.bundles), nodes=nodes, weighting=weighting, stop=stop)

    def told(self, made: Group) -> Told:
        """How many rows there are."""
        lines = (f"{len(made.summary):,} bundles", f"{len(made.profiles):,} rows of profiles")
        return Told(lines, {"bundles": made.summary.records(), "profiles": made.profiles.records()})

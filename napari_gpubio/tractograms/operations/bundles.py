"""Numbers and profiles of the bundles of many subjects: a verb."""

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, Words, file, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.tractograms.bundles.group import Group, Member, group_steps, in_order, member_of
from napari_gpubio.tractograms.bundles.profile import Profile, profile
from napari_gpubio.tractograms.bundles.settings import ProfileSettings
from napari_gpubio.tractograms.bundles.summary import summary
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place


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

    def summary(self, made: Group) -> Summary:
        """How many rows there are."""
        lines = (f"{len(made.summary):,} bundles", f"{len(made.profiles):,} rows of profiles")
        return Summary(lines, {"bundles": made.summary.records(), "profiles": made.profiles.records()})


# -- one brain --------------------------------------------------------------------------------------------------------

_PROFILE_COLUMNS = ("bundle", "node", "metric", "mean", "sd", "n")


@dataclass(frozen=True, eq=False)
class Measured:
    """What `ProfileBundles` makes.

    Parameters
    ----------
    summary
        A row for each bundle; see `napari_gpubio.tractograms.bundles.summary`.
    curves
        The profile of each bundle, by its name.
    metric
        Name of the image.
    notes
        What is to be known, in sentences.
    complete
        Whether all of it was done.
    """

    summary: Table
    curves: Mapping[str, Profile]
    metric: str
    notes: tuple[str, ...]
    complete: bool

    @property
    def profiles(self) -> Table:
        """A row for each bundle and node."""
        rows = [
            (name, node + 1, self.metric, float(found.mean[node]), float(found.sd[node]), int(found.counts[node]))
            for name, found in self.curves.items()
            for node in range(len(found))
        ]
        return Table(_PROFILE_COLUMNS, tuple(rows))


@dataclass(frozen=True, kw_only=True)
class ProfileBundles(Operation, verb="profiles", makes={"summary": Table, "profiles": Table}):
    """Write numbers of the bundles of one brain, and how an image runs along each, as tables.

    Of many subjects: bundles. Names that end in .tsv get tabs.
    """

    examples = ("profiles AF.trx CST.trx --image fa.nii.gz --metric FA --out bundles.csv --profiles-out profiles.csv",)
    needs_no_file = True

    bundles: tuple[Ref[Tractogram], ...] = given("Bundles", "Tractograms, one bundle each: .trk, .tck, .trx or .vtk.")
    image: Ref[Volume] = given("Image", "What to average along them, such as FA.")
    names: tuple[str, ...] = part("Names", "Of the bundles; by default those of their files.", default=())
    metric: str = param("image", "Metric", "Name of the image in the tables.")
    settings: ProfileSettings = part("Profiles", "Nodes and weights.", default=ProfileSettings())

    def check(self) -> None:
        """Raise InvalidInput if there are more or fewer names than bundles, or two are the same."""
        if self.names and (len(self.names) != len(self.bundles) or len({*self.names}) != len(self.names)):
            raise InvalidInput(f"there are {len(self.bundles)} bundles and the names {self.names}; give each its own")

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Measured]:
        """Measure them."""
        names = self.names or tuple(ref.of.title for name, ref in self.inputs() if name == "bundles")
        for name, fibers in zip(names, data.bundles, strict=True):
            check_place(fibers, data.image.array.shape, data.image.affine, f"the image of {name}",
                        is_oriented=data.image.oriented)  # fmt: skip
        found = dict(zip(names, data.bundles, strict=True))
        return measured_steps(found, data.image, self.metric, self.settings, device=device, stop=stop)

    def summary(self, made: Measured) -> Summary:
        """The numbers of the bundles."""
        return Summary(tuple(made.summary.csv().rstrip().splitlines()), {"bundles": made.summary.records()})


def measured_steps(
    bundles: Mapping[str, Tractogram],
    image: Volume,
    metric: str,
    settings: ProfileSettings,
    *,
    device: str | Device,
    stop: threading.Event | None,
) -> Generator[Step, None, Measured]:
    """Measure bundles by their names, step by step; those that were not reached when it is stopped are left out."""
    curves, notes, grid = dict[str, Profile](), list[str](), (image.array, image.affine)
    for name, fibers in bundles.items():
        yield Step(len(curves), len(bundles) + 1, "profiles")
        if stop is not None and stop.is_set():
            break
        curves[name] = profile(fibers, *grid, settings.nodes, settings.weighting)
        notes += [f"{name}: {note}." for note in curves[name].notes]
    yield Step(len(bundles), len(bundles) + 1, "numbers of bundles")
    table = summary({name: bundles[name] for name in curves}, {metric: grid}, device=device)
    return Measured(table, curves, metric, tuple(notes), complete=len(curves) == len(bundles))

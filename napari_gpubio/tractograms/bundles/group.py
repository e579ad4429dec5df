"""Numbers and profiles of the bundles of many subjects, from files, in two tables."""

import functools
import glob
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import as_many_voxels, same_grid
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.volumes import has_orientation
from napari_gpubio.diffusion.io.dwi import read_volume
from napari_gpubio.diffusion.model import GROUP
from napari_gpubio.tractograms.bundles.profile import Profile, profile
from napari_gpubio.tractograms.bundles.summary import Images, summary
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.io.tractograms import read_tractogram, tractogram_suffix
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place, has_place

_SUBJECT = re.compile(r"(?<![a-zA-Z0-9])(sub-[a-zA-Z0-9]+)(?:[_/\\](ses-[a-zA-Z0-9]+))?")
_COLUMNS = ("subject", "bundle", "node", "metric", "mean", "sd", "se", "n")
_IMAGES_KEPT = 8
_UNCERTAIN = 0.8  # ratio of distances, forward to reversed, above which a direction is a guess


@dataclass(frozen=True, kw_only=True)
class Member:
    """One bundle of one subject.

    Parameters
    ----------
    subject, bundle
        Names.
    path
        Its tractogram; groups in it are bundles of their own names, and the other fibers this one.
    images
        Files of the subject's images, by name.
    """

    subject: str
    bundle: str
    path: Path
    images: Mapping[str, Path]


@dataclass(frozen=True, eq=False, kw_only=True)
class Group:
    """Tables of many subjects.

    Parameters
    ----------
    summary
        A row for each bundle of each subject; columns ``subject`` and those of `summary`.
    profiles
        A row for each subject, bundle, node (from 0 on) and image: ``subject, bundle, node, metric, mean, sd, se, n``.
    notes
        What was changed or is doubtful, in sentences for the user.
    complete
        False if the work was stopped before its end.
    """

    summary: Table
    profiles: Table
    notes: tuple[str, ...]
    complete: bool = True


def find_members(bundles: Sequence[str | Path], images: Mapping[str, str | Path] | None = None) -> list[Member]:
    """Find the files of subjects.

    Parameters
    ----------
    bundles
        Tractograms, or patterns of their names (``sub-*/AF_left.trx``).
    images
        By name, a file for all subjects or a pattern (``sub-*/fa.nii.gz``) with one file for each.

    Returns
    -------
    list of Member
        In the order of subjects and bundles. A subject is what a path calls ``sub-...`` (with ``ses-...``), else the
        folder of the file; a bundle is the rest of the file's name.

    Raises
    ------
    InvalidInput
        If a file is missing or no tractogram, a subject has none or several of an image, or two files are the same
        bundle of a subject.
    """
    files = [path for pattern in bundles for path in _files(pattern)]
    return in_order([member_of(path, images or {}) for path in dict.fromkeys(files)])


def member_of(path: Path, images: Mapping[str, str | Path]) -> Member:
    """Return the bundle of a file with the images of its subject; see `find_members`."""
    if tractogram_suffix(path) is None:
        raise InvalidInput(f"{path} is no tractogram; give .trk, .tck, .trx or .vtk files")
    subject = subject_of(path)
    own = {name: _image_of(subject, name, _images_by_subject(pattern)) for name, pattern in images.items()}
    return Member(subject=subject, bundle=_bundle_of(path), path=path, images=own)


def in_order(members: Sequence[Member]) -> list[Member]:
    """Return bundles by subject and name; InvalidInput if two are the same bundle of a subject."""
    found: dict[tuple[str, str], Member] = {}
    for one in members:
        other = found.setdefault((one.subject, one.bundle), one)
        if other is not one:
            raise InvalidInput(f"{other.path} and {one.path} are both {one.bundle} of {one.subject}; leave one out")
    return [found[key] for key in sorted(found)]


def subject_of(path: str | Path) -> str:
    """Return the subject that a path names: the last ``sub-...`` and its ``ses-...``, else the file's folder."""
    named = _SUBJECT.findall(str(path))
    if named:
        subject = named[-1][0]
        session = next((one for name, one in named if name == subject and one), "")
        return f"{subject}_{session}" if session else subject
    return Path(path).absolute().parent.name


def group_steps(
    members: Sequence[Member], *, nodes: int = 100, weighting: str = "afq", stop: threading.Event | None = None
) -> Generator[Step, None, Group]:
    """Make the tables of numbers and profiles of many bundles, with a `Step` after each bundle.

    Parameters
    ----------
    members
        See `find_members`.
    nodes, weighting
        See `tractograms.bundles.profile`. A bundle runs the same way in all subjects: as in the first.
    stop
        An event that ends the work early; what was done is returned.

    Raises
    ------
    InvalidInput
        If there are no members, or a file cannot be used; the sentence names it.
    """
    if not members:
        raise InvalidInput("there are no bundles; give one or more tractograms")
    read_image = functools.lru_cache(maxsize=_IMAGES_KEPT)(read_volume)
    tables: list[Table] = []
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    lines: dict[str, npt.NDArray[np.float64]] = {}
    finished = 0
    for done, member in enumerate(members, 1):
        if stop is not None and stop.is_set():
            break
        images = {name: read_image(path) for name, path in member.images.items()}
        grid = next(((affine, array.shape) for array, affine in images.values()), None)
        fibers = read_tractogram(member.path, reference=grid)
        notes += [f"{member.subject}: {note}" for note in fibers.notes]
        images = {name: _placed(path, *images[name], fibers) for name, path in member.images.items()}
        try:
            for group_name, part in by_group(fibers).items():
                one = replace(member, bundle=group_name or member.bundle)
                tables.append(_summary(one, part, images))
                for name, found in _profiles(part, images, nodes, weighting, lines.get(one.bundle)):
                    rows += _rows(one, name, found)
                    notes += [f"{one.subject}, {one.bundle}, {name}: {note}" for note in _doubts(found, one, lines)]
                    if len(part):
                        lines.setdefault(one.bundle, found.line_mm)
        except InvalidInput as error:
            raise InvalidInput(f"{member.path}: {error}") from error
        finished = done
        yield Step(done, len(members), f"{member.subject} {member.bundle}")
    joined = Table.join(tables) if tables else Table(("subject",), ())
    return Group(
        summary=joined, profiles=Table(_COLUMNS, tuple(rows)), notes=tuple(notes), complete=finished == len(members)
    )


group = driven(group_steps)


def _placed(path: Path, array: Any, affine: Any, fibers: Tractogram) -> tuple[Any, Any]:
    """An image beside fibers; without an orientation, voxel by voxel in their volume if it has as many."""
    is_oriented, grids = has_orientation(path), (array.shape, affine, fibers.shape, fibers.affine)
    if not is_oriented and has_place(fibers) and not same_grid(*grids) and as_many_voxels(*grids):
        note(f"{path.name} has no orientation and was taken voxel by voxel in the volume of the fibers")
        return array, fibers.affine
    check_place(fibers, array.shape, affine, path.name, is_oriented=is_oriented)
    return array, affine


def _summary(member: Member, fibers: Tractogram, images: Images) -> Table:
    table = summary({member.bundle: fibers}, images)
    return Table(("subject", *table.columns), tuple((member.subject, *row) for row in table.rows))


def _profiles(
    fibers: Tractogram, images: Images, nodes: int, weighting: str, line: Any
) -> Generator[tuple[str, Profile], None, None]:
    filled = fibers.select(fibers.counts > 0)
    for name, (image, affine) in images.items():
        yield name, profile(filled, image, affine, nodes, weighting, start=line)


def _rows(member: Member, metric: str, found: Profile) -> list[tuple[Any, ...]]:
    numbers = zip(found.mean.tolist(), found.sd.tolist(), found.se.tolist(), found.counts.tolist(), strict=True)
    return [(member.subject, member.bundle, node, metric, *four) for node, four in enumerate(numbers)]


def _doubts(found: Profile, member: Member, lines: Mapping[str, Any]) -> list[str]:
    """Notes of a profile; and whether its direction is a guess, because the bundle lies elsewhere in other subjects."""
    notes, line = list(found.notes), lines.get(member.bundle)
    if line is not None and len(found.turned):
        same, turned = (np.nanmean(np.linalg.norm(one - line, axis=1)) for one in (found.line_mm, found.line_mm[::-1]))
        if same > _UNCERTAIN * turned:
            notes.append("its direction is uncertain, because it lies far from that of the first subject; look at it")
    return notes


def _files(pattern: str | Path) -> list[Path]:
    """The file of a path, or those that a pattern names."""
    if Path(pattern).is_file():
        return [Path(pattern)]
    found = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207 - also absolute ones
    if not found:
        raise InvalidInput(f"no file is called {str(pattern)!r}; check the path")
    return found


def _images_by_subject(pattern: str | Path) -> dict[str, list[Path]] | Path:
    """Files by subject, or the one file for all."""
    if Path(pattern).is_file():
        return Path(pattern)
    found: dict[str, list[Path]] = {}
    for path in _files(pattern):
        found.setdefault(subject_of(path), []).append(path)
    return found


def _image_of(subject: str, name: str, known: dict[str, list[Path]] | Path) -> Path:
    if isinstance(known, Path):
        return known
    paths = known.get(subject) or known.get(subject.partition("_ses-")[0], [])
    if len(paths) != 1:
        there = ", ".join(str(path) for path in paths) or f"there are those of {', '.join(list(known)[:10])}"
        raise InvalidInput(f"{subject} has {len(paths)} images for {name}, and must have one ({there})")
    return paths[0]


def _bundle_of(path: Path) -> str:
    """The file's name without its suffix and subject."""
    stem = path.name[: -len(tractogram_suffix(path) or "")]
    rest = "_".join(part for part in stem.split("_") if not part.startswith(("sub-", "ses-")))
    return rest or stem


def by_group(fibers: Tractogram) -> dict[str, Tractogram]:
    """Return the fibers of each group by its name, and those in none, if there are any, under an empty one.

    A group is a column of fibers named ``group/NAME``; a fiber may be in several.
    """
    masks = {name: np.asarray(v, bool) for name, v in fibers.per_fiber.items() if name.startswith(GROUP)}
    rest = ~np.any([*masks.values(), np.zeros(len(fibers), bool)], axis=0)
    found = {name.removeprefix(GROUP): fibers.select(mask) for name, mask in masks.items()}
    return found if masks and not rest.any() else found | {"": fibers.select(rest)}

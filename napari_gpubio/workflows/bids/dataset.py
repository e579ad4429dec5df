"""A folder of the Brain Imaging Data Structure: its subjects, their files, and what is wrong with them.

Folders of subjects are looked through when they are asked for. What is wrong with one file costs that file.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.bids import BidsName, bids_name, described
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.reading import note
from napari_gpubio.core.text import first_of
from napari_gpubio.diffusion.io.dwi import find_gradient_files

DESCRIPTION, DERIVATIVES = "dataset_description.json", "derivatives"
IMAGES = (".nii.gz", ".nii")
RT = "rt"
_STRICT = ("anat", "dwi", "nirs")  # folders whose files must have names of BIDS
_TEMPLATES = ("MNI", "fsaverage", "Talairach", "ICBM", "NIHPD", "OASIS", "UNC", "WHS")  # begin spaces of no subject
_MAX_NAMED = 4


@dataclass(frozen=True)
class BidsFile:
    """A file of a subject.

    Parameters
    ----------
    path
        Where it is.
    name
        What its name says.
    datatype
        Its folder, such as ``dwi``.
    pipeline
        The derivatives that it is of; empty for what was acquired.
    """

    path: Path
    name: BidsName
    datatype: str
    pipeline: str = ""

    @property
    def session(self) -> str:
        """Label of its session; empty where there are none."""
        return self.name.entities.get("ses", "")

    @property
    def in_template(self) -> bool:
        """Whether it lies in the space of a template, not of the subject."""
        return self.name.entities.get("space", "").startswith(_TEMPLATES)

    def metadata(self) -> dict[str, Any]:
        """Return what JSON files say of it, the inherited ones included."""
        return described(self.path)


@dataclass(frozen=True)
class _Found:
    """The files of a subject, folders of radiotherapy by their sessions, and sentences on what is left out."""

    files: tuple[BidsFile, ...]
    plans: Mapping[str, Path]
    problems: tuple[str, ...]


class Dataset:
    """Subjects of a BIDS dataset and their files; made by `open_dataset`.

    Parameters
    ----------
    folder
        Of the dataset.
    derivatives
        Folders of derivatives, by their names.
    problems
        What is wrong with the dataset as a whole.
    """

    def __init__(self, folder: Path, derivatives: Mapping[str, Path], problems: Sequence[str]) -> None:
        self.folder, self.derivatives, self.own_problems = folder, derivatives, tuple(problems)
        self._found: dict[str, _Found] = {}
        self.subjects: tuple[str, ...] = tuple(
            sorted({*_labels(folder, "sub"), *_labels(folder / "sourcedata", "sub")})
        )

    def sessions(self, subject: str) -> tuple[str, ...]:
        """Labels of a subject's sessions; none where its files lie in its folder."""
        found = self._of(subject)
        return tuple(sorted({*(one.session for one in found.files if not one.pipeline), *found.plans} - {""}))

    def files(
        self, *, subject: str | None = None, session: str | None = None, suffix: str = "", datatype: str = "",
        extension: str | tuple[str, ...] = "", **entities: str,
    ) -> tuple[BidsFile, ...]:  # fmt: skip
        """Return files by what their names say.

        Parameters
        ----------
        subject, session
            Labels, without ``sub-`` and ``ses-``; None: all.
        suffix, datatype, extension
            Such as ``T1w``, ``anat`` and ``.nii.gz``; empty: all.
        **entities
            Labels by the short names of entities, such as ``desc="brain"``.

        Raises
        ------
        InvalidInput
            If there is no such subject.
        """
        every = self.subjects if subject is None else (subject,)
        return tuple(
            one
            for label in every
            for one in self._of(label).files
            if session in (None, one.session)
            and suffix in ("", one.name.suffix)
            and datatype in ("", one.datatype)
            and one.name.extension.endswith(extension)
            and entities.items() <= one.name.entities.items()
        )

    def plans(self, subject: str) -> Mapping[str, Path]:
        """Return folders with files of radiotherapy by session: ``rt``, which BIDS does not know, or sourcedata."""
        return self._of(subject).plans

    def problems(self, subject: str | None = None) -> tuple[str, ...]:
        """Return what is wrong with a subject's files; of all subjects, and of the dataset itself, for None."""
        if subject is not None:
            return self._of(subject).problems
        return (*self.own_problems, *(text for label in self.subjects for text in self._of(label).problems))

    def joined(self, to: BidsFile, **wanted: Any) -> BidsFile | None:
        """Return the file that belongs to another: of its subject and session, with most entities in common, or None.

        Parameters
        ----------
        to
            What it belongs to.
        **wanted
            As of `files`. A file in the space of a template belongs to none in that of the subject.
        """
        own, asked = to.name.entities, wanted.keys()
        fitting = [
            (len({*own.items()} & {*one.name.entities.items()}), -len(one.name.entities), one)
            for one in self.files(subject=own["sub"], **wanted)
            if one.session in ("", to.session) and one.in_template == to.in_template and one.path != to.path
            and (one.datatype != to.datatype  # runs of different kinds of files are not the same
                 or all(own.get(key, label) == label for key, label in one.name.entities.items()
                        if key not in ("desc", "space", *asked)))
        ]  # fmt: skip
        if not fitting:
            return None
        *_, best = max(fitting, key=lambda row: row[:2])
        if others := [one.path.name for *_, one in fitting if one is not best]:
            note(f"{best.path.name} is taken for {to.path.name}, of {first_of([best.path.name, *others], _MAX_NAMED)}")
        return best

    def _of(self, subject: str) -> _Found:
        if subject not in self.subjects:
            raise InvalidInput(
                f"{self.folder.name} has no subject {subject[:40]!r}; it has {first_of(self.subjects, _MAX_NAMED)}"
            )
        if subject not in self._found:
            self._found[subject] = _look_through(self, subject)
        return self._found[subject]


def open_dataset(folder: str | Path, derivatives: Sequence[str | Path] = (), *, without: Path | None = None) -> Dataset:
    """Open a BIDS dataset, with the derivatives in its folder.

    Parameters
    ----------
    folder
        Of the dataset, of raw data or of derivatives.
    derivatives
        Further folders of derivatives.
    without
        A folder of derivatives that is left out, since results go there.

    Raises
    ------
    InvalidInput
        If it is no folder, or has no folder of a subject; the rest is in `Dataset.problems`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from napari_gpubio.workflows.bids import open_dataset
    >>> scan = Path(tempfile.mkdtemp()) / "sub-01" / "dwi" / "sub-01_dwi.nii.gz"
    >>> scan.parent.mkdir(parents=True)
    >>> scan.touch()
    >>> [one.path.name for one in open_dataset(scan.parents[2]).files(subject="01", suffix="dwi")]
    ['sub-01_dwi.nii.gz']
    """
    root = Path(folder)
    if not root.is_dir():
        raise InvalidInput(f"{root} is no folder; give that of a BIDS dataset")
    every = [root / DERIVATIVES, *_folders(root / DERIVATIVES), *map(Path, derivatives)]
    known = {one.name: one for one in every if [*_labels(one, "sub")] and one.resolve() != _resolved(without)}
    if missing := next((one for one in map(Path, derivatives) if not one.is_dir()), None):
        raise InvalidInput(f"{missing} is no folder; give that of derivatives")
    found = Dataset(root, known, [*_problems_of_description(root)])
    if not found.subjects:
        raise InvalidInput(f"{root.name} has no folder of a subject, such as sub-01; give the folder of a BIDS dataset")
    return found


def place_in_dataset(path: Path) -> tuple[Path, str, str]:
    """Return the dataset that a folder is, or is of a subject or session of, and the labels of these, or empty.

    Examples
    --------
    >>> from pathlib import Path
    >>> from napari_gpubio.workflows.bids.dataset import place_in_dataset
    >>> place_in_dataset(Path("/data/study/sub-01"))[1:]
    ('01', '')
    """
    path = path.absolute()
    if path.name.startswith("sub-"):
        return path.parent, path.name[4:], ""
    if path.name.startswith("ses-") and path.parent.name.startswith("sub-"):
        return path.parents[1], path.parent.name[4:], path.name[4:]
    return path, "", ""


def is_dataset(path: Path) -> bool:
    """Whether a folder is a BIDS dataset, or that of a subject or a session."""
    root, subject, _ = place_in_dataset(path)
    return path.is_dir() and (bool(subject) or any(True for _ in _labels(root, "sub")))


# -- what is there ----------------------------------------------------------------------------------------------------


def _resolved(path: Path | None) -> Path | None:
    return None if path is None else path.resolve()


def _folders(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []


def _labels(folder: Path, key: str) -> Iterator[str]:
    """Labels of the folders of subjects, or sessions, in a folder."""
    return (one.name[len(key) + 1 :] for one in _folders(folder) if one.name.startswith(f"{key}-"))


def _problems_of_description(root: Path) -> Iterator[str]:
    if not (root / DESCRIPTION).is_file():
        yield f"{root.name} has no {DESCRIPTION}, which BIDS requires"
        return
    try:
        says = existing_json(root / DESCRIPTION)
    except InvalidInput as error:
        yield str(error)
        return
    missing = [key for key in ("Name", "BIDSVersion") if not isinstance(says, dict) or key not in says]
    if missing:
        yield f"{DESCRIPTION} lacks {' and '.join(missing)}, which BIDS requires"


def _look_through(dataset: Dataset, subject: str) -> _Found:
    problems, files = list[str](), dict[tuple[Any, ...], BidsFile]()
    folders = {"": dataset.folder, **dataset.derivatives}
    for pipeline, folder in folders.items():
        home = folder / f"sub-{subject}"
        for path in _files_under(home):
            where = path.relative_to(folder).as_posix()
            try:
                one = _file(path, home, pipeline)
            except InvalidInput as error:
                problems.append(f"{where} is left out: {error}")
                continue
            if one is None:
                continue
            first = files.setdefault(_identity(one), one)
            if first is not one:
                problems.append(f"{where} is left out: it has the entities of {first.path.name}; rename or remove one")
    found = tuple(files.values())
    problems += [text for one in found if (text := _without_table(one))]
    return _Found(found, _plans(dataset.folder, subject), tuple(problems))


def _files_under(home: Path) -> Iterator[Path]:
    """Files in the folders of a subject, but for hidden ones."""
    for folder, below, names in os.walk(home):
        below[:] = sorted(one for one in below if not one.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def _file(path: Path, home: Path, pipeline: str) -> BidsFile | None:
    """A file by its name; None of one that is not looked at; InvalidInput says why it cannot be used."""
    *above, _ = path.relative_to(home).parts
    session = above[0][4:] if above and above[0].startswith("ses-") else ""
    datatype = "".join(above[bool(session) : bool(session) + 1])
    try:
        name = bids_name(path)
    except InvalidInput:
        if datatype in _STRICT:
            raise
        return None
    if datatype == RT:
        return None
    for key, label in (("sub", home.name[4:]), ("ses", session)):
        if (said := name.entities.get(key, "")) != label:
            raise InvalidInput(f"its name says {key}-{said}, and its folder {key}-{label}; move or rename it")
    if not path.exists():
        raise InvalidInput("it is a link to a file that is not here; fetch it (datalad get), or copy it")
    return BidsFile(path, name, datatype, pipeline)


def _identity(one: BidsFile) -> tuple[Any, ...]:
    """What no two files have in common; an image is the same whether it is compressed or not."""
    name = one.name
    kind = "image" if name.extension in IMAGES else name.extension
    return one.pipeline, one.datatype, frozenset(name.entities.items()), name.suffix, kind


def _without_table(one: BidsFile) -> str:
    """What a diffusion scan lacks, in a sentence, or nothing."""
    if one.name.suffix != "dwi" or one.name.extension not in IMAGES:
        return ""
    tables = zip(("b-values (.bval)", "b-vectors (.bvec)"), find_gradient_files(one.path), strict=True)
    missing = [what for what, path in tables if path is None]
    return f"{one.path.name} has no {' and no '.join(missing)}, beside it or inherited" if missing else ""


def _plans(root: Path, subject: str) -> dict[str, Path]:
    """Folders of radiotherapy: in the folder of the subject or session, else those of sourcedata."""
    for home, inside in ((root / f"sub-{subject}", RT), (root / "sourcedata" / f"sub-{subject}", "")):
        sessions = {"": home, **{label: home / f"ses-{label}" for label in _labels(home, "ses")}}
        found = {label: one / inside for label, one in sessions.items() if any((one / inside).glob("*.[dD][cC][mM]"))}
        if found:
            return found
    return {}

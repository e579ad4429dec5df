"""A folder of the Brain Imaging Data Structure: its subjects, their files, and what is wrong with them.

Folders of subjects are looked through when they are asked for. What is wrong with one file costs that file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.bids import DESCRIPTION, bids_name
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.reading import note
from napari_gpubio.core.text import first_of
from napari_gpubio.diffusion.io.dwi import find_gradient_files

IMAGES = (".nii.gz", ".nii")
RT = "rt"
_STRICT = ("anat", "dwi", "nirs")  # folders whose files must have names of BIDS
_TEMPLATES = ("MNI", "fsaverage", "Talairach", "ICBM", "NIHPD", "OASIS", "UNC")  # begin spaces that are no subject's
_NOT_SHARED = ("desc", "space", "seg", "atlas")  # entities that tell versions of a file
_MAX_NAMED = 4


@dataclass(frozen=True)
class BidsFile:
    """A file of a subject, or its folder of radiotherapy.

    Parameters
    ----------
    path
        Where it is.
    entities
        Labels by the short names of entities, such as ``{"sub": "01"}``, in the order of its name.
    suffix, extension
        Such as ``dwi`` and ``.nii.gz``.
    datatype
        Its folder, such as ``dwi``.
    pipeline
        The folder of derivatives that it is of; empty for what was acquired.
    """

    path: Path
    entities: Mapping[str, str]
    suffix: str = ""
    extension: str = ""
    datatype: str = ""
    pipeline: str = ""

    @property
    def session(self) -> str:
        """Label of its session; empty where there are none."""
        return self.entities.get("ses", "")

    @property
    def in_template(self) -> bool:
        """Whether it lies in the space of a template, not of the subject."""
        return self.entities.get("space", "").startswith(_TEMPLATES)


class Dataset:
    """Subjects of a BIDS dataset and their files; made by `open_dataset`.

    Parameters
    ----------
    folder
        Of the dataset.
    derivatives
        Folders of derivatives, by what files of them have as their `BidsFile.pipeline`.
    """

    def __init__(self, folder: Path, derivatives: Mapping[str, Path]) -> None:
        self.folder, self.derivatives = folder, derivatives
        self.own_problems = tuple(_problems_of_description(folder))
        self.subjects = tuple(sorted({*_labels(folder, "sub"), *_labels(folder / "sourcedata", "sub")}))
        self._found: dict[str, tuple[tuple[BidsFile, ...], tuple[str, ...]]] = {}

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
        return tuple(
            one
            for label in (self.subjects if subject is None else (subject,))
            for one in self._of(label)[0]
            if session in (None, one.session)
            and suffix in ("", one.suffix)
            and datatype in ("", one.datatype)
            and one.extension.endswith(extension)
            and entities.items() <= one.entities.items()
        )

    def sessions(self, subject: str) -> tuple[str, ...]:
        """Labels of the sessions in which something of a subject was acquired."""
        acquired = [one for one in self.files(subject=subject) if not one.pipeline]
        return tuple(sorted({one.session for one in (*acquired, *self.plans(subject))} - {""}))

    def probes(self, subject: str) -> tuple[BidsFile, ...]:
        """Return the probe of each session of a subject: its table of optodes, or its first recording."""
        optodes = self.files(subject=subject, suffix="optodes", extension=".tsv")
        found = dict[str, BidsFile]()
        for one in (*optodes, *self.files(subject=subject, suffix="nirs", extension=".snirf")):
            found.setdefault(one.session, one)
        return tuple(found.values())

    def plans(self, subject: str) -> tuple[BidsFile, ...]:
        """Return folders with DICOM files: ``rt`` of each session, which BIDS does not know, or else sourcedata."""
        for home, inside in ((self.folder / f"sub-{subject}", RT), (self.folder / "sourcedata" / f"sub-{subject}", "")):
            found = []
            for label in ("", *_labels(home, "ses")):
                entities, folder = {"sub": subject}, home.joinpath(f"ses-{label}" if label else "", inside)
                if any(folder.glob("*.[dD][cC][mM]")):
                    found.append(BidsFile(folder, entities | ({"ses": label} if label else {}), datatype=RT))
            if found:
                return tuple(found)
        return ()

    def problems(self, subject: str | None = None) -> tuple[str, ...]:
        """Return what is wrong with a subject's files; of all subjects, and of the dataset itself, for None."""
        if subject is not None:
            return self._of(subject)[1]
        return (*self.own_problems, *(text for label in self.subjects for text in self._of(label)[1]))

    def joined(self, to: BidsFile, **wanted: Any) -> BidsFile | None:
        """Return the file that belongs to another: of its subject and session, with most entities in common, or None.

        ``wanted``: as of `files`. A file in the space of a template belongs to none in that of the subject.
        """
        fitting = [
            (len(to.entities.items() & one.entities.items()), -len(one.entities), one)
            for one in self.files(subject=to.entities["sub"], **wanted)
            if one.session in ("", to.session) and one.in_template == to.in_template and _agree(one, to)
        ]
        if not fitting:
            return None
        *_, best = max(fitting, key=lambda row: row[:2])
        if others := [one.path.name for *_, one in fitting if one is not best]:
            note(f"{best.path.name} is taken, of {first_of([best.path.name, *others], _MAX_NAMED)}")
        return best

    def _of(self, subject: str) -> tuple[tuple[BidsFile, ...], tuple[str, ...]]:
        """Files of a subject, and sentences on what is wrong."""
        if subject not in self.subjects:
            known = first_of(self.subjects, _MAX_NAMED)
            raise InvalidInput(f"{self.folder.name} has no subject {subject[:40]!r}; it has {known}: choose one")
        if subject not in self._found:
            self._found[subject] = _look_through({"": self.folder, **self.derivatives}, f"sub-{subject}")
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
    root, given = Path(folder), [*map(Path, derivatives)]
    if missing := next((one for one in (root, *given) if not one.is_dir()), None):
        raise InvalidInput(f"{missing} is no folder; give that of a BIDS dataset")
    every = [root / "derivatives", *_folders(root / "derivatives"), *given]
    left_out = None if without is None else without.resolve()
    found = Dataset(root, {str(one): one for one in every if _labels(one, "sub") and one.resolve() != left_out})
    if not found.subjects:
        raise InvalidInput(f"{root.name} has no folder of a subject, such as sub-01; give the folder of a BIDS dataset")
    return found


def place_in_dataset(path: Path) -> tuple[Path, str, str]:
    """Return the dataset that a folder, or its description, is of, and its labels of subject and session, or empty."""
    path = path.absolute().parent if path.name == DESCRIPTION else path.absolute()
    if path.name.startswith("ses-") and path.parent.name.startswith("sub-"):
        return path.parents[1], path.parent.name[4:], path.name[4:]
    return (path.parent, path.name[4:], "") if path.name.startswith("sub-") else (path, "", "")


# -- what is there ----------------------------------------------------------------------------------------------------


def _folders(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []


def _labels(folder: Path, key: str) -> list[str]:
    """Labels of the folders of subjects, or sessions, in a folder."""
    return [one.name[len(key) + 1 :] for one in _folders(folder) if one.name.startswith(f"{key}-")]


def _problems_of_description(root: Path) -> Iterator[str]:
    try:
        says = existing_json(root / DESCRIPTION)
    except InvalidInput as error:
        yield str(error)
        return
    if missing := [key for key in ("Name", "BIDSVersion") if not isinstance(says, dict) or key not in says]:
        yield f"{DESCRIPTION} lacks {' and '.join(missing)}, which BIDS requires"


def _agree(one: BidsFile, to: BidsFile) -> bool:
    """Whether no entity that both have differs; runs of different kinds of files are not the same."""
    shared = [key for key in one.entities if key in to.entities and key not in _NOT_SHARED]
    return one.datatype != to.datatype or all(one.entities[key] == to.entities[key] for key in shared)


def _look_through(folders: Mapping[str, Path], subject: str) -> tuple[tuple[BidsFile, ...], tuple[str, ...]]:
    """Files of a subject in folders of a dataset and its derivatives, and what is wrong with them."""
    problems, files = list[str](), dict[tuple[Any, ...], BidsFile]()
    for pipeline, folder in folders.items():
        for path in _files_under(folder / subject):
            where = path.relative_to(folder).as_posix()
            try:
                one = _file(path, folder / subject, pipeline)
            except InvalidInput as error:
                problems.append(f"{where} is left out: {error}")
                continue
            if one is None:
                continue
            kind = one.suffix, one.extension.replace(*IMAGES)  # the same, compressed or not
            first = files.setdefault((pipeline, one.datatype, frozenset(one.entities.items()), *kind), one)
            if first is not one:
                problems.append(f"{where} is left out: it has the entities of {first.path.name}; rename or remove one")
    problems += [text for one in files.values() if (text := _without_table(one))]
    return tuple(files.values()), tuple(problems)


def _files_under(home: Path) -> list[Path]:
    """Files in the folders of a subject, also links that lead nowhere, but for hidden ones."""
    found = (one for one in sorted(home.rglob("*")) if not one.is_dir())
    return [one for one in found if not any(part.startswith(".") for part in one.relative_to(home).parts)]


def _file(path: Path, home: Path, pipeline: str) -> BidsFile | None:
    """A file by its name; None of one that is not looked at; InvalidInput says why it cannot be used."""
    folders = path.relative_to(home).parts[:-1]
    session = folders[0][4:] if folders and folders[0].startswith("ses-") else ""
    datatype = "".join(folders[bool(session) : bool(session) + 1])
    try:
        name = bids_name(path)
    except InvalidInput:
        if datatype in _STRICT:
            raise
        return None
    for key, label in (("sub", home.name[4:]), ("ses", session)):
        if (said := name.entities.get(key, "")) != label:
            raise InvalidInput(f"its name says {key}-{said}, and its folder {key}-{label}; move or rename it")
    if not path.exists():
        raise InvalidInput("it is a link to a file that is not here; fetch it (datalad get), or copy it")
    return BidsFile(path, *name, datatype, pipeline)


def _without_table(one: BidsFile) -> str:
    """What a diffusion scan lacks, in a sentence, or nothing."""
    if one.suffix != "dwi" or one.extension not in IMAGES:
        return ""
    tables = zip(("b-values (.bval)", "b-vectors (.bvec)"), find_gradient_files(one.path), strict=True)
    missing = [what for what, path in tables if path is None]
    return f"{one.path.name} has no {' and no '.join(missing)}, beside it or inherited" if missing else ""

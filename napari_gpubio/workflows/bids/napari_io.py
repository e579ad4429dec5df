"""Folders of BIDS as napari layers, without importing napari: those of a subject, or of the first one of a dataset."""

import importlib
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.bids import DESCRIPTION
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, notes_held, read_each, reader_if
from napari_gpubio.core.reading import note, reading
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.text import first_of
from napari_gpubio.workflows.bids.dataset import IMAGES, Dataset, open_dataset, place_in_dataset

PANEL = "BIDS dataset"  # the dock widget that shows another subject
PLACE = "bids"  # under which layers carry the folder of their dataset, and the name of their `Row`
_IMAGES, _MAX_NAMED = "diffusion.napari_io", 4
_KINDS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # in the order of layers: what it is, its reader, its names
    ("T1-weighted image", _IMAGES, {"suffix": "T1w", "datatype": "anat", "extension": IMAGES}),
    ("diffusion scan", _IMAGES, {"suffix": "dwi", "datatype": "dwi", "extension": IMAGES}),
    ("labels", _IMAGES, {"suffix": "dseg", "extension": IMAGES}),
)
KINDS = (*(what for what, *_ in _KINDS), "probe", "plan")


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of BIDS datasets and folders of their subjects (napari's), or None for other folders."""
    return reader_if(_is_ours, path, read_layers)


def _is_ours(path: Path) -> bool:
    """Whether a folder, or its description, is of a BIDS dataset, or of a subject or session of one."""
    root, subject, _ = place_in_dataset(path)
    return (path.is_dir() or path.name == DESCRIPTION) and (bool(subject) or any(root.glob("sub-*/")))


def read_layers(path: Paths) -> list[LayerData]:
    """Read what a subject has: T1-weighted images, diffusion scans, labels, probes, and plans of radiotherapy.

    Of a dataset the first subject is read, and of a subject the first session; a note names the others.

    Raises
    ------
    InvalidInput
        If there is nothing that can be shown.
    """
    return read_each(path, _read)


def _read(folder: Path) -> list[LayerData]:
    root, subject, session = place_in_dataset(folder)
    dataset = open_dataset(root)
    subject = subject or _first(dataset.subjects, "sub", root)
    session = session or _first(dataset.sessions(subject), "ses", root / f"sub-{subject}")
    for text in dataset.own_problems:
        note(text)
    return drive(layer_steps(dataset, _row(dataset, subject, session))) or []


def _first(labels: tuple[str, ...], key: str, folder: Path) -> str:
    """The first of several labels, with a note on how the others are opened; empty if there is none."""
    if len(labels) > 1:
        others = first_of([f"{key}-{one}" for one in labels[1:]], _MAX_NAMED)
        shown = f"of {folder.name}, {key}-{labels[0]} is shown"
        note(f"{shown}; choose another one in the panel {PANEL!r}, or open its folder: {others}")
    return labels[0] if labels else ""


class Row(NamedTuple):
    """What a session of a subject has, or a subject that has no sessions.

    Parameters
    ----------
    subject, session
        Labels; the second one is empty where there are no sessions.
    files
        By what they are, in the order of `KINDS`: files with the modules that read them.
    problems
        Sentences on what is wrong with its files.
    """

    subject: str
    session: str
    files: Mapping[str, Sequence[tuple[Path, str]]]
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its folder, as seen from that of the dataset."""
        return f"sub-{self.subject}" + (f"/ses-{self.session}" if self.session else "")


def rows_of(dataset: Dataset, subject: str) -> list[Row]:
    """Look through the folders of a subject; returns what each of its sessions has.

    Raises
    ------
    InvalidInput
        If there is no such subject, or a folder cannot be read.
    """
    with reading(dataset.folder):
        return [_row(dataset, subject, session) for session in dataset.sessions(subject) or ("",)]


def _row(dataset: Dataset, subject: str, session: str) -> Row:
    """What a session of a subject has, with what is of no session."""
    every: Any = [(w, m, [f for f in dataset.files(subject=subject, **n) if not f.in_template]) for w, m, n in _KINDS]
    every += [("probe", "probes.napari_io", dataset.probes(subject)), ("plan", "dose.reader", dataset.plans(subject))]
    files = {what: [(f.path, module) for f in found if f.session in ("", session)] for what, module, found in every}
    problems = [text for text in dataset.problems(subject) if _session_in(text) in ("", session)]
    return Row(subject, session, files, tuple(problems))


def _session_in(text: str) -> str:
    """The session that a sentence is about, by the first name in it; empty if that is none."""
    found = re.search("ses-([a-zA-Z0-9+]+)", text)
    return found[1] if found else ""


def layer_steps(
    dataset: Dataset, row: Row, stop: threading.Event | None = None
) -> Generator[Step, None, list[LayerData] | None]:
    """Read what a session of a subject has, a step for each file.

    Layers carry `PLACE`. What is wrong with a file is a note, and costs that
    file.

    Returns
    -------
    The layers; None if the event was set.

    Raises
    ------
    InvalidInput
        If there is nothing that can be shown.
    """
    for text in row.problems:
        note(text)
    files, layers, refused = [one for every in row.files.values() for one in every], list[LayerData](), list[str]()
    for number, (path, module) in enumerate(files):
        yield Step(number, len(files), f"reading {path.name}")
        if stop is not None and stop.is_set():
            return None
        try:
            with notes_held():
                layers += importlib.import_module(f"napari_gpubio.{module}").read_layers(str(path))
        except InvalidInput as error:
            refused.append(f"{path.name} is left out: {error}")
            note(refused[-1])
    if not layers:
        why = "".join(f" ({text})" for text in refused[:1])
        raise InvalidInput(f"{row.name} has no {' and no '.join(KINDS)} that can be shown{why}; choose another one")
    for _, keywords, _ in layers:
        ours = keywords.setdefault("metadata", {}).setdefault(KEY, {})
        ours[PLACE] = str(dataset.folder), row.name
    return layers

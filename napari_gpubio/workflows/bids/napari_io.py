"""Folders of BIDS as napari layers, without importing napari: those of a subject, or of the first one of a dataset."""

import importlib
import warnings
from pathlib import Path
from typing import Any

from napari_gpubio.core.bids import DESCRIPTION
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, LayerReader, Paths, read_each, reader_if
from napari_gpubio.core.reading import ReadingNote, note
from napari_gpubio.core.text import first_of
from napari_gpubio.workflows.bids.dataset import IMAGES, Dataset, open_dataset, place_in_dataset

_IMAGES, _MAX_NAMED = "diffusion.napari_io", 4
_KINDS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # in the order of layers: what it is, its reader, its names
    ("T1-weighted image", _IMAGES, {"suffix": "T1w", "datatype": "anat", "extension": IMAGES}),
    ("diffusion scan", _IMAGES, {"suffix": "dwi", "datatype": "dwi", "extension": IMAGES}),
    ("labels", _IMAGES, {"suffix": "dseg", "extension": IMAGES}),
)


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
    for text in (*dataset.own_problems, *dataset.problems(subject)):
        note(text)
    files, lacking = _files_of(dataset, subject, session)
    layers = list[LayerData]()
    for path, module in files:
        try:
            with warnings.catch_warnings():  # its notes are shown with all others
                warnings.simplefilter("ignore", ReadingNote)
                layers += importlib.import_module(f"napari_gpubio.{module}").read_layers(str(path))
        except InvalidInput as error:
            note(f"{path.name} is left out: {error}")
    if not layers:
        raise InvalidInput(f"sub-{subject} has no {' and no '.join(lacking)} that can be shown; choose another subject")
    return layers


def _first(labels: tuple[str, ...], key: str, folder: Path) -> str:
    """The first of several labels, with a note on how the others are opened; empty if there is none."""
    if len(labels) > 1:
        others = first_of([f"{key}-{one}" for one in labels[1:]], _MAX_NAMED)
        note(f"of {folder.name}, {key}-{labels[0]} is shown; open the folder of another one to see it: {others}")
    return labels[0] if labels else ""


def _files_of(dataset: Dataset, subject: str, session: str) -> tuple[list[tuple[Path, str]], list[str]]:
    """Files of a subject with the modules that read them, and what there is none of."""
    found, lacking = list[tuple[Path, str]](), list[str]()
    for what, module, wanted in _KINDS:
        every = [one for one in dataset.files(subject=subject, **wanted) if not one.in_template]
        own = [one.path for one in every if one.session in ("", session)]
        found += [(path, module) for path in own]
        lacking += [] if own else [what]
    for module, others in (("probes.napari_io", dataset.probes(subject)), ("dose.reader", dataset.plans(subject))):
        found += [(one.path, module) for one in others if one.session in ("", session)]
    return found, [*lacking, "probe", "plan"]

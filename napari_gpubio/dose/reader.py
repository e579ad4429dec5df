"""DICOM RT files, and folders of them, as napari layers, without importing napari."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.dose.io.ct import read_ct, refuse_damaged
from napari_gpubio.dose.io.dicom import CLASSES, is_dicom, modality_of, sorted_by_modality
from napari_gpubio.dose.io.dicom_rt import StructureSet, read_rtdose, read_rtplan, read_rtstruct
from napari_gpubio.dose.model import Dose, check_frames
from napari_gpubio.dose.napari_io import CT_NUMBER, NUMBERS, RTDOSE, contours_layer, dose_layer, labels_layer
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.raster import label_structures

Paths = str | Sequence[str]
Kinds = dict[str, list[Path]]
_MOST_LOOKED_AT = 64  # files of a folder, to see whether it is ours
_SOFT_TISSUE_HU = (-160.0, 240.0)
_NOWHERE = Dose(values=np.zeros((1, 1, 1)), affine=np.eye(4), unit="1")  # contours without an image lie in the world


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of DICOM RT files or a folder of them (napari's reader contribution), or None for others."""
    paths = _listed(path)
    return read_layers if paths and all(_is_ours(one) for one in paths) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read DICOM RT files, or folders of them, as one study.

    Returns
    -------
    layers
        The CT, doses, labels of structures, and their contours (hidden where there are labels). A dose carries the
        prescription of a plan that is read with it, and its file; structures carry their numbers. What was left out or
        overlaps is in ``notes`` of the metadata, also which DICOM files of a folder without CT cannot be read.

    Raises
    ------
    InvalidInput
        If there is nothing that can be shown, or a file cannot be read that is shown, or may be a slice of a CT.
    """
    kinds, notes = _sorted(_listed(path))
    plans = [read_rtplan(file).prescription for file in kinds["RTPLAN"]]
    prescriptions = [plan[0] for plan in plans if plan is not None]
    doses = [read_rtdose(file) for file in kinds["RTDOSE"]]
    layers, ground = _ct_layers(kinds["CT"])
    if ground is not None:
        for dose in doses:
            _check_frames(dose, ground)
    carried = {"prescription": prescriptions[0]} if len(prescriptions) == 1 and len(doses) == 1 else {}
    noted = {"notes": notes} if notes else {}
    opacity = 0.5 if layers else 1.0
    layers += [
        dose_layer(dose, metadata={**carried, **noted, RTDOSE: str(file.resolve())}, opacity=opacity)
        for dose, file in zip(doses, kinds["RTDOSE"], strict=True)
    ]
    for file in kinds["RTSTRUCT"]:
        found = read_rtstruct(file)
        found = dataclasses.replace(found, notes=(*found.notes, *notes))
        layers += _structure_layers(found, ground or next(iter(doses), None), file.stem)
    if not layers:
        raise InvalidInput("there is no CT, RTDOSE or RTSTRUCT file to show (an RTPLAN file holds numbers only)")
    return layers


def _ct_layers(files: list[Path]) -> tuple[list[LayerData], Dose | None]:
    """The layer of a CT series, and the CT as a ground for structures."""
    if not files:
        return [], None
    ct = read_ct(files)
    ground = Dose(
        values=ct.values,
        affine=ct.affine,
        unit="HU",
        quantity=CT_NUMBER,
        frame_of_reference=ct.frame_of_reference,
        name=ct.name or "CT",
    )
    return [dose_layer(ground, colormap="gray", contrast_limits=_SOFT_TISSUE_HU)], ground


def _structure_layers(found: StructureSet, ground: Dose | None, name: str) -> list[LayerData]:
    drawn = [structure for structure in found.structures if structure.planes]
    numbers = {one.name: number for one, number in zip(found.structures, found.numbers, strict=True)}
    numbered = {NUMBERS: numbers}
    if ground is None:
        return [contours_layer(drawn, name, metadata=numbered)]
    for structure in drawn:
        _check_frames(structure, ground)
    x, y, z = ground.values.shape
    labels, lost = label_structures(drawn, ground.affine, (x, y, z))
    colors = {n: structure.color for n, structure in enumerate(drawn, start=1) if structure.color is not None}
    notes = [*found.notes, *(note for structure in drawn for note in structure.notes), *lost]
    return [
        contours_layer(drawn, f"{name} contours", metadata=numbered, visible=False),
        labels_layer(labels, name, colors, metadata={**numbered, "notes": list(dict.fromkeys(notes))}, opacity=0.4),
    ]


def _check_frames(shown: Dose | ContourStructure, ground: Dose) -> None:
    frames = shown.frame_of_reference, ground.frame_of_reference
    check_frames(repr(shown.name), repr(ground.name), frames, "register them, or open the files one by one")


def _listed(path: Paths) -> list[Path]:
    return [Path(path)] if isinstance(path, str) else [Path(one) for one in path]


def _is_ours(path: Path) -> bool:
    """Whether a file is DICOM RT or CT, or a folder has such a file among its first ones."""
    if not path.is_dir():
        return _is_our_file(path)
    return any(_is_our_file(file) for file in sorted(path.iterdir())[:_MOST_LOOKED_AT] if file.is_file())


def _is_our_file(file: Path) -> bool:
    """Whether a file is DICOM RT or CT; not so if it cannot be read."""
    try:
        return is_dicom(file) and modality_of(file) in CLASSES
    except InvalidInput:
        return False


def _sorted(paths: list[Path]) -> tuple[Kinds, tuple[str, ...]]:
    """Files by their kind, of folders those that are DICOM, and in sentences which of those cannot be read."""
    kinds: Kinds = {kind: [] for kind in CLASSES}
    notes: list[str] = []
    for path in paths:
        found, damaged = sorted_by_modality(path) if path.is_dir() else ({modality_of(path): [path]}, ())
        if found.get("CT"):
            refuse_damaged(damaged, path.name)
        notes += damaged
        for kind, files in found.items():
            kinds.setdefault(kind, []).extend(files)
    return kinds, tuple(notes)

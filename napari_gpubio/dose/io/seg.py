"""Labels as DICOM segmentations (SEG), in and out, by highdicom."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.submodules import extra
from napari_gpubio.dose.io.dicom import LPS_TO_RAS, modality_of, patient_of, read_dataset, sorted_by_modality
from napari_gpubio.dose.structures.labels import LabelStructures

_IMAGES = "CT", "MR", "PT"
_MAY_BE_EMPTY = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyID", "StudyDate", "StudyTime",
    "AccessionNumber", "ReferringPhysicianName",
)  # fmt: skip
_US = "napari-gpubio"
_ORDER = [2, 1, 0, 3]  # highdicom has slices, rows, columns


def write_seg(
    path: str | Path, structures: LabelStructures, images: str | Path | Sequence[str | Path], *, description: str = ""
) -> None:
    """Write labels as a DICOM segmentation, a segment for each structure, that refers to a series of images.

    Segments are coded as tissue that was marked by hand; their names are those of the structures. Slices without any
    are left out.

    Parameters
    ----------
    path
        Ends in ``.dcm``.
    structures
        Labels, on any grid with right angles in the frame of reference of the images.
    images
        Folder or files of the CT, MR or PET series that they are of: patient, study and frame of reference are theirs.
    description
        Of the series; by default the names of the first structures.

    Raises
    ------
    InvalidInput
        If highdicom is not installed, there are no such images or structures, they refer to something else than the
        labels, or the file cannot be written.
    """
    hd = extra("highdicom", "seg", "a DICOM segmentation")
    from pydicom.sr.codedict import codes
    from pydicom.uid import generate_uid

    sources = [*_datasets(images)]
    frame = str(sources[0].FrameOfReferenceUID)
    if structures.frame_of_reference not in ("", frame):
        raise InvalidInput("the labels refer to another frame of reference than the images; give those they are of")
    if not structures.values:
        raise InvalidInput("there are no structures to write; name at least one label")
    segments = np.zeros(structures.labels.shape, np.uint16)
    for number, value in enumerate(structures.values, 1):
        segments[structures.labels == value] = number
    volume = hd.Volume(
        segments.transpose(2, 1, 0),
        (LPS_TO_RAS @ structures.affine)[:, _ORDER],
        "PATIENT",
        frame_of_reference_uid=frame,
    )
    tissue, named = codes.SCT.Tissue, enumerate(structures.names, 1)
    try:
        described = [hd.seg.SegmentDescription(n, name[:64], tissue, tissue, "MANUAL") for n, name in named]
        made = hd.seg.Segmentation(
            sources, volume, "BINARY", described, generate_uid(), 1, generate_uid(), 1, _US, _US, __version__, "0",
            series_description=(description or ", ".join(structures.names))[:64],
        )  # fmt: skip
    except (AttributeError, ValueError, TypeError) as error:
        raise InvalidInput(f"the labels cannot be written as segments of these images ({error})") from error
    with atomic_write(path) as part:
        made.save_as(part)


def _datasets(images: str | Path | Sequence[str | Path]) -> Sequence[Any]:
    """Headers of the images of the first series, in the order of their files."""
    if isinstance(images, str | Path) and Path(images).is_dir():
        kinds, _ = sorted_by_modality(Path(images))
        files = next((kinds[kind] for kind in _IMAGES if kinds.get(kind)), [])
    else:
        files = [Path(one) for one in ([images] if isinstance(images, str | Path) else images)]
    if not files or (kind := modality_of(files[0])) not in _IMAGES:
        raise InvalidInput(f"{images} holds no CT, MR or PET images; give the series that the labels are of")
    found = [read_dataset(one, kind) for one in files]
    for one in found:  # which may be empty, and must be there
        for keyword in _MAY_BE_EMPTY:
            one.setdefault(keyword, "")
    return [one for one in found if one.SeriesInstanceUID == found[0].SeriesInstanceUID]


@reads_file
def read_seg(path: str | Path) -> tuple[LabelStructures, ...]:
    """Read the segments of a DICOM segmentation as labels; those that overlap come in several label volumes.

    Raises
    ------
    InvalidInput
        If highdicom is not installed, or the file is missing, damaged, of another kind, or no regular volume.
    """
    hd = extra("highdicom", "seg", "a DICOM segmentation")
    dataset = read_dataset(path, "SEG")
    try:
        segmentation = hd.seg.Segmentation.from_dataset(dataset, copy=False)
        volume = segmentation.get_volume(combine_segments=False, allow_missing_positions=True)
    except (RuntimeError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(f"its segments are no regular volume ({error})") from error
    packed: list[tuple[Any, dict[int, str]]] = []
    for place, number in enumerate(segmentation.segment_numbers):
        segment = np.asarray(volume.array[..., place]).transpose(2, 1, 0) > 0
        fitting = next((one for one in packed if not (one[0][segment] != 0).any()), None)
        if fitting is None:
            packed.append(fitting := (np.zeros(segment.shape, np.uint16), {}))
        fitting[0][segment] = number
        fitting[1][int(number)] = str(segmentation.get_segment_description(number).segment_label)
    affine = LPS_TO_RAS @ volume.affine[:, _ORDER]
    frame, patient = str(getattr(dataset, "FrameOfReferenceUID", "")), patient_of(dataset, Path(path).name)
    return tuple(
        LabelStructures(labels=labels, affine=affine, structures=names, frame_of_reference=frame, patient=patient)
        for labels, names in packed
    )

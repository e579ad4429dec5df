"""Histograms in the DVH Sequence of an RTDOSE file (DICOM PS3.3 C.8.8.4)."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.dose.io.dicom import decoded, numbers, pydicom, read_dataset
from napari_gpubio.dose.metrics.dvh import Dvh

Array = npt.NDArray[np.float64]
_MOST_BINS = 100_000
_DOSE_UNITS = {"GY": "Gy", "RELATIVE": "%"}


def read_dvh_sequence(path: str | Path, names: Mapping[int, str] | None = None) -> tuple[Dvh, ...]:
    """Read the histograms that a planning system has stored in an RTDOSE file.

    Least, largest and mean dose are those of the curves: files give them in units of all kinds.

    Parameters
    ----------
    path
        The file.
    names
        Names of structures by their number; others are called ``structure 1`` and so on.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, or holds no histogram, or one in % of volume, from which
        its volume in cc cannot be told.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTDOSE")
    found = decoded(
        f"the histograms of {name}",
        lambda: tuple(_read_item(item, names or {}, name) for item in dataset.get("DVHSequence") or ()),
    )
    if not found:
        raise InvalidInput(f"{name} holds no histograms (no DVHSequence)")
    return found


def _read_item(item: Any, names: Mapping[int, str], file: str) -> Dvh:
    roi = int(item.DVHReferencedROISequence[0].ReferencedROINumber)
    name = names.get(roi, f"structure {roi}")
    if (unit := str(item.get("DVHVolumeUnits", "")).upper()) != "CM3":
        raise InvalidInput(
            f"the histogram of {name!r} in {file} gives volume as {unit or 'nothing'}; only CM3 can be used"
        )
    dose_unit = str(item.get("DoseUnits", "")).upper()
    if dose_unit not in _DOSE_UNITS:
        raise InvalidInput(f"the histogram of {name!r} in {file} gives dose as {dose_unit or 'nothing'}, not in GY")
    data = numbers(item, "DVHData", file)
    if len(data) % 2:
        raise InvalidInput(f"the histogram of {name!r} in {file} has {len(data)} numbers, which are no pairs")
    widths, volumes = data[0::2] * numbers(item, "DVHDoseScaling", file, 1)[0], data[1::2]
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    if str(item.get("DVHType", "")).upper() == "DIFFERENTIAL":
        volumes = np.cumsum(volumes[::-1])[::-1]
    return _curve(name, _DOSE_UNITS[dose_unit], edges, np.append(volumes, 0.0))


def _curve(name: str, unit: str, edges: Array, above: Array) -> Dvh:
    """A histogram from the volumes above the edges of bins, without the empty ends."""
    if above[0] <= 0:
        return Dvh(name=name, unit=unit, doses=np.empty(0), volumes_cc=np.empty(0), mean=float("nan"))
    above = np.minimum.accumulate(above)
    first = int(np.flatnonzero(above == above[0])[-1])
    end = int(np.flatnonzero(above > 0)[-1]) + 2
    doses, volumes = edges[first:end], above[first:end]
    mean = doses[0] + np.trapezoid(volumes, doses) / volumes[0]
    return Dvh(name=name, unit=unit, doses=doses, volumes_cc=volumes, mean=float(mean))


def write_dvh_sequence(
    path: str | Path, dvhs: Iterable[Dvh], numbers_of: Mapping[str, int], source: str | Path, *, bin_width: float = 0.01
) -> None:
    """Write a copy of an RTDOSE file that holds histograms instead of those that it had.

    Curves are written as volumes above multiples of a dose, with ten digits: what is read back is equal to that.

    Parameters
    ----------
    path
        The new file.
    dvhs
        In Gy; those without volume are left out, which DICOM cannot tell.
    numbers_of
        Number of each structure by its name, as in the RTSTRUCT file.
    source
        The RTDOSE file of the dose; patient, study, frame of reference and dose grid are taken from it.
    bin_width
        Gy.

    Raises
    ------
    InvalidInput
        If the source cannot be read, a structure has no number, a dose is negative or not in Gy, or the new file cannot
        be written.
    """
    library = pydicom()
    dataset = copy.deepcopy(read_dataset(source, "RTDOSE"))
    kind = str(dataset.get("DoseType", "") or "PHYSICAL")
    items = [_item(dvh, numbers_of, bin_width, kind) for dvh in dvhs if not dvh.is_empty]
    if not items:
        raise InvalidInput("there is no histogram to write: all structures are empty")
    dataset.DVHSequence = library.Sequence(items)
    _renew(dataset, Path(source).name)
    with atomic_write(path) as part:  # save_as() would refuse what was big-endian
        library.dcmwrite(part, dataset, implicit_vr=True, little_endian=True, enforce_file_format=True)


def _renew(dataset: Any, name: str) -> None:
    """Make a dataset an instance of its own, uncompressed and without types of values: those limit texts to 64 KiB."""
    library = pydicom()
    meta = getattr(dataset, "file_meta", None) or library.dataset.FileMetaDataset()
    syntax = meta.get("TransferSyntaxUID", library.uid.ImplicitVRLittleEndian)
    if "PixelData" in dataset and (syntax.is_compressed or not syntax.is_little_endian):
        pixels = decoded(f"the dose grid of {name}", lambda: dataset.pixel_array)
        dataset.PixelData = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
        dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OW", False
    dataset.SOPInstanceUID = library.uid.generate_uid()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = dataset.SOPClassUID, dataset.SOPInstanceUID
    meta.TransferSyntaxUID = library.uid.ImplicitVRLittleEndian
    dataset.file_meta = meta


def _item(dvh: Dvh, numbers_of: Mapping[str, int], bin_width: float, kind: str) -> Any:
    if dvh.unit != "Gy":
        raise InvalidInput(f"{dvh.name!r} is in {dvh.unit}; a DICOM histogram must be in Gy")
    if dvh.name not in numbers_of:
        raise InvalidInput(f"{dvh.name!r} has no number; give that of the RTSTRUCT file")
    if dvh.least < 0:
        raise InvalidInput(f"{dvh.name!r} has a dose of {dvh.least:g} Gy; a DICOM histogram begins with 0")
    if not bin_width > 0 or dvh.largest / bin_width > _MOST_BINS:
        raise InvalidInput(f"bins of {bin_width!r} Gy up to {dvh.largest:g} Gy are too many; choose wider ones")
    library = pydicom()
    item, roi = library.Dataset(), library.Dataset()
    roi.DVHROIContributionType, roi.ReferencedROINumber = "INCLUDED", numbers_of[dvh.name]
    count = int(np.floor(dvh.largest / bin_width)) + 1
    volumes = np.asarray(dvh.volume_at(bin_width * np.arange(count)))
    item.DVHReferencedROISequence = library.Sequence([roi])
    item.DVHType, item.DoseUnits, item.DoseType = "CUMULATIVE", "GY", kind
    item.DVHDoseScaling, item.DVHVolumeUnits, item.DVHNumberOfBins = "1", "CM3", count
    item.DVHData = [text for volume in volumes for text in (_text(bin_width), _text(volume))]
    item.DVHMinimumDose, item.DVHMaximumDose, item.DVHMeanDose = map(_text, (dvh.least, dvh.largest, dvh.mean))
    return item


def _text(number: float) -> str:
    """A number in at most 16 letters, as DICOM wants it."""
    return f"{number:.10g}"

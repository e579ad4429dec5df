"""Histograms as files: the DVH Sequence of RTDOSE files (DICOM PS3.3 C.8.8.4), CSV and JSON."""

import copy
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file, write_rows, write_text
from napari_gpubio.core.foreign import existing_json, existing_table
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.dose.io.dicom import items_of, numbers, pixels_of, pydicom, read_dataset, required, text_of
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import Metric, MetricTable, metric_table
from napari_gpubio.dose.metrics.surface import SurfaceHistogram

Array = npt.NDArray[np.float64]
_MAX_BINS = 100_000
_DOSE_UNITS = {"GY": "Gy", "RELATIVE": "%"}


@reads_file
def read_dvh_sequence(path: str | Path, names: Mapping[int, str] | None = None) -> tuple[Dvh, ...]:
    """Read the histograms that a planning system has stored in an RTDOSE file.

    Least, largest and mean dose are those of the curves: files give them in units of all kinds. A note counts those
    that cannot be read, for instance in % of a volume that is not known.

    Parameters
    ----------
    path
        The file.
    names
        Names of structures by their number; others are called ``structure 1`` and so on. A histogram of several
        structures is named ``A + B - C``.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, or holds no histogram that can be read.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTDOSE")
    found, refusals = [], []
    for item in items_of(dataset, "DVHSequence", name):
        try:
            found.append(_read_item(item, names or {}, name))
        except InvalidInput as error:
            refusals.append(error)
    if not found:
        raise refusals[0] if refusals else InvalidInput(f"{name} holds no histograms (no DVHSequence)")
    if refusals:
        note(f"{len(refusals)} histograms of {name} were left out ({refusals[0]})")
    return tuple(found)


def _read_item(item: Any, names: Mapping[int, str], file: str) -> Dvh:
    referenced = items_of(item, "DVHReferencedROISequence", file)
    if not referenced:
        raise InvalidInput(f"a histogram of {file} names no structure (DVHReferencedROISequence); export it again")
    name = ""
    for one in referenced:
        roi = int(numbers(one, "ReferencedROINumber", file, 1)[0])
        sign = " - " if text_of(one, "DVHROIContributionType", file).upper() == "EXCLUDED" else " + "
        name += f"{sign}{names.get(roi, f'structure {roi}')}"
    name = name.removeprefix(" + ").strip()
    if (unit := text_of(item, "DVHVolumeUnits", file).upper()) != "CM3":
        raise InvalidInput(
            f"the histogram of {name!r} in {file} gives volume as {unit or 'nothing'}; only CM3 can be used"
        )
    dose_unit = text_of(item, "DoseUnits", file).upper()
    if dose_unit not in _DOSE_UNITS:
        raise InvalidInput(f"the histogram of {name!r} in {file} gives dose as {dose_unit or 'nothing'}, not in GY")
    data = numbers(item, "DVHData", file)
    if len(data) % 2:
        raise InvalidInput(f"the histogram of {name!r} in {file} has {len(data)} numbers, which are no pairs")
    widths, volumes = data[0::2] * numbers(item, "DVHDoseScaling", file, 1)[0], data[1::2]
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    if text_of(item, "DVHType", file).upper() == "DIFFERENTIAL":
        volumes = np.cumsum(volumes[::-1])[::-1]
    return _curve_above(name, _DOSE_UNITS[dose_unit], edges, np.append(volumes, 0.0))


def _curve_above(name: str, unit: str, edges: Array, above: Array) -> Dvh:
    """A histogram from the volumes above the edges of bins, without the empty ends."""
    if above[0] <= 0:
        return Dvh(name=name, unit=unit, doses=np.empty(0), volumes_cc=np.empty(0), mean=float("nan"))
    above = np.minimum.accumulate(above)
    first = int(np.flatnonzero(above == above[0])[-1])
    end = int(np.flatnonzero(above > 0)[-1]) + 2
    doses, volumes = edges[first:end], above[first:end]
    return _curve_through(name, unit, doses, volumes)


def _curve_through(name: str, unit: str, doses: Array, volumes: Array) -> Dvh:
    """A histogram with the mean of its curve."""
    mean = float(doses[0] + np.trapezoid(volumes, doses) / volumes[0])
    return Dvh(name=name, unit=unit, doses=doses, volumes_cc=volumes, mean=mean)


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
        In Gy; those without volume are left out, which DICOM cannot express.
    numbers_of
        Number of each structure by its name, as in the RTSTRUCT file.
    source
        The RTDOSE file of the dose; patient, study, frame of reference and dose grid are taken from it.
    bin_width
        Gy.

    Raises
    ------
    InvalidInput
        If the source cannot be read, a structure has no number or that of another one, a dose is negative or not in Gy,
        or the new file cannot be written.
    """
    library = pydicom()
    dataset = copy.deepcopy(read_dataset(source, "RTDOSE"))
    kind = text_of(dataset, "DoseType", Path(source).name) or "PHYSICAL"
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
        pixels = pixels_of(dataset, name)
        dataset.PixelData = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
        dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OW", False
    dataset.SOPInstanceUID = library.uid.generate_uid()
    meta.MediaStorageSOPClassUID = required(dataset, "SOPClassUID", name)
    meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    meta.TransferSyntaxUID = library.uid.ImplicitVRLittleEndian
    dataset.file_meta = meta


def _item(dvh: Dvh, numbers_of: Mapping[str, int], bin_width: float, kind: str) -> Any:
    if dvh.unit != "Gy":
        raise InvalidInput(f"{dvh.name!r} is in {dvh.unit}; a DICOM histogram must be in Gy")
    if dvh.name not in numbers_of:
        raise InvalidInput(f"{dvh.name!r} has no number; give that of the RTSTRUCT file")
    own = numbers_of[dvh.name]
    if same := [name for name, number in numbers_of.items() if number == own and name != dvh.name]:
        both = f"{dvh.name!r} and {same[0]!r} have the same number {own}"
        raise InvalidInput(f"{both}, so a histogram could be of either; give each a number of its own")
    if dvh.least < 0:
        raise InvalidInput(f"{dvh.name!r} has a dose of {dvh.least:g} Gy; a DICOM histogram begins with 0")
    if not bin_width > 0 or dvh.largest / bin_width > _MAX_BINS:
        raise InvalidInput(f"bins of {bin_width!r} Gy up to {dvh.largest:g} Gy are too many; choose wider ones")
    library = pydicom()
    item, roi = library.Dataset(), library.Dataset()
    roi.DVHROIContributionType, roi.ReferencedROINumber = "INCLUDED", own
    count = int(np.floor(dvh.largest / bin_width)) + 1
    volumes = np.asarray(dvh.volume_at(bin_width * np.arange(count)))
    item.DVHReferencedROISequence = library.Sequence([roi])
    item.DVHType, item.DoseUnits, item.DoseType = "CUMULATIVE", "GY", kind
    item.DVHDoseScaling, item.DVHVolumeUnits, item.DVHNumberOfBins = "1", "CM3", count
    item.DVHData = [text for volume in volumes for text in (_text(bin_width), _text(volume))]
    item.DVHMinimumDose, item.DVHMaximumDose, item.DVHMeanDose = map(_text, (dvh.least, dvh.largest, dvh.mean))
    return item


def _text(number: float) -> str:
    """A number in at most 16 characters, the most that DICOM allows."""
    return f"{number:.10g}"


def write_curves_csv(path: str | Path, dvhs: Iterable[Dvh]) -> None:
    """Write every point of every cumulative curve: structure, dose, its unit, volume in cc and in %.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    rows = (
        (dvh.name, dose, dvh.unit, volume, 100.0 * volume / dvh.volume_cc)
        for dvh in dvhs
        for dose, volume in zip(dvh.doses.tolist(), dvh.volumes_cc.tolist(), strict=True)
    )
    write_rows(path, [("structure", "dose", "unit", "volume_cc", "volume_percent"), *rows])


def write_metrics_csv(
    path: str | Path,
    dvhs: Iterable[Dvh],
    metrics: Sequence[Metric],
    *,
    reference_dose: float | None = None,
    everything: Dvh | None = None,
) -> None:
    """Write a table with a row for each structure and a column for each metric.

    A cell without a value has the reason: ``not evaluated: 'Heart' has 5 cc, less than D9cc[Gy] needs``. A dose where
    nothing was counted is given as less than the lowest one counted in the structure: ``<3.1e-09``.

    Parameters
    ----------
    path
        The new file.
    dvhs
        Of one plan.
    metrics
        Columns.
    reference_dose
        What % of dose are of, in the histograms' unit.
    everything
        Histogram of all that is irradiated, see `napari_gpubio.dose.metrics.Metric.of`.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    write_metric_table(path, metric_table(dvhs, metrics, reference_dose=reference_dose, everything=everything))


def write_metric_table(path: str | Path, table: MetricTable) -> None:
    """Write a table as of `write_metrics_csv`; InvalidInput if the file cannot be written."""
    rows = ([name, *(one.cell for one in values)] for name, values in table.rows)
    write_rows(path, [["structure", *map(str, table.metrics)], *rows])


def write_surfaces_csv(path: str | Path, surfaces: Iterable[SurfaceHistogram]) -> None:
    """Write dose-surface histograms: a row for each point of a curve, with the area that receives at least a dose.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or units differ.
    """
    known = tuple(surfaces)
    units = {one.unit for one in known}
    if len(units) > 1:
        raise InvalidInput(f"the histograms are in {' and '.join(sorted(units))}; write those of one unit into a file")
    points = ((one.name, zip(one.doses.tolist(), one.areas_cm2.tolist(), strict=True)) for one in known)
    rows = [(name, dose, area) for name, curve in points for dose, area in curve]
    write_rows(path, [("structure", f"dose_{units.pop() if units else ''}", "area_cm2"), *rows])


def write_json(path: str | Path, result: DvhResult) -> None:
    """Write curves and all that is known of how they were made.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    written = {
        "parameters": dict(result.parameters),
        "complete": result.complete,
        "structures": [_described(dvh) for dvh in result],
    }
    write_text(path, json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@reads_file
def read_json(path: str | Path) -> DvhResult:
    """Read what `write_json` has written; all numbers are the same to the last bit.

    Raises
    ------
    InvalidInput
        If the file is missing or holds something else.
    """
    file = existing_file(path)
    try:
        stored = existing_json(file)
        dvhs = tuple(_read_described(one) for one in _field(stored, "structures", list))
        complete = _field(stored, "complete", bool)
        return DvhResult(dvhs=dvhs, parameters=_field(stored, "parameters", dict), complete=complete)
    except ValueError as error:  # also of the encoding
        raise InvalidInput(f"{file.name} holds no histograms ({error}); give a file that write_json made") from error


@reads_file
def read_curves_csv(path: str | Path) -> tuple[Dvh, ...]:
    """Read the curves that `write_curves_csv` has written.

    Means are those of the curves, because the file has none. Empty structures are not in it.

    Raises
    ------
    InvalidInput
        If the file is missing or holds something else.
    """
    file = existing_file(path)
    points: dict[str, list[tuple[float, float]]] = {}
    units: dict[str, str] = {}
    try:
        titles, rows = existing_table(file)
        if missing := {"structure", "dose", "unit", "volume_cc"} - set(titles):
            raise ValueError(f"no column {', '.join(sorted(missing))}")
        for row in rows:
            points.setdefault(row["structure"], []).append((float(row["dose"]), float(row["volume_cc"])))
            units.setdefault(row["structure"], row["unit"])
        return tuple(_curve_through(name, units[name], *np.array(own).T) for name, own in points.items())
    except ValueError as error:
        raise InvalidInput(f"{file.name} holds no curves ({error}); give a file that write_curves_csv made") from error


def _field(stored: Any, name: str, *kinds: type) -> Any:
    """A field of an object in JSON; ValueError if it is missing or of another kind."""
    if not isinstance(stored, dict) or name not in stored:
        raise ValueError(f"no {name!r}")
    value = stored[name]
    if not isinstance(value, kinds):
        raise ValueError(f"{name!r} is {type(value).__name__}")
    return value


def _numbers(stored: Any, name: str) -> Array:
    array = np.array(_field(stored, name, list))
    if array.dtype.kind not in "if" and array.size:
        raise ValueError(f"{name!r} holds no numbers")
    return array.astype(np.float64)


def _rgb(color: list[Any]) -> tuple[int, int, int]:
    if len(color) != 3 or not all(isinstance(part, int) for part in color):
        raise ValueError(f"'color' is {color}")
    red, green, blue = color
    return red, green, blue


def _read_described(stored: Any) -> Dvh:
    number, nothing = (int, float), type(None)
    mean, color = _field(stored, "mean", *number, nothing), _field(stored, "color", list, nothing)
    doses, volumes = _numbers(stored, "doses"), _numbers(stored, "volumes_cc")
    if doses.ndim != 1 or doses.shape != volumes.shape:
        raise ValueError(f"{doses.shape} doses and {volumes.shape} volumes")
    return Dvh(
        name=_field(stored, "name", str),
        unit=_field(stored, "unit", str),
        doses=doses,
        volumes_cc=volumes,
        mean=math.nan if mean is None else mean,
        outside_cc=_field(stored, "outside_cc", *number),
        outside=_field(stored, "outside", str),
        zero_cc=_field(stored, "zero_cc", *number, nothing) if "zero_cc" in stored else None,  # older files lack it
        color=None if color is None else _rgb(color),
        spacing_mm=_field(stored, "spacing_mm", *number),
        resolution_cc=_field(stored, "resolution_cc", *number),
        notes=tuple(map(str, _field(stored, "notes", list))),
    )


def _described(dvh: Dvh) -> dict[str, Any]:
    return {
        "name": dvh.name,
        "unit": dvh.unit,
        "volume_cc": dvh.volume_cc,
        "outside_cc": dvh.outside_cc,
        "outside": dvh.outside,
        "zero_cc": dvh.zero_cc,
        "mean": None if math.isnan(dvh.mean) else dvh.mean,
        "color": None if dvh.color is None else list(dvh.color),
        "spacing_mm": dvh.spacing_mm,
        "resolution_cc": dvh.resolution_cc,
        "notes": list(dvh.notes),
        "doses": dvh.doses.tolist(),
        "volumes_cc": dvh.volumes_cc.tolist(),
    }

"""CT series as volumes: what slices belong together, where they lie, and what their pixels mean."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.reading import members, note, noted, reading
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.dose.io.dicom import (
    EVEN,
    LPS_TO_RAS,
    number_of,
    numbers,
    patient_of,
    pixels_of,
    plane_axes,
    read_dataset,
    sorted_by_modality,
    text_of,
    to_world,
)
from napari_gpubio.dose.model import differing

Array = npt.NDArray[Any]
_STRAIGHT_MM = 0.05  # how far the first pixel of a slice may lie off the line through those of the others
_ROUNDED = 0.05  # share of the distance of slices by which they may lie beside even positions and be shown there
_DOMINATING = 0.5  # of the usual distance: shorter ones do not make the grid
_NEARLY = 0.75  # of the usual distance: those that are longer are that distance, inexactly
_BESIDE = 0.25  # of a pixel, by which the last pixels of slices of one size and orientation may lie beside each other
_MAX_RESAMPLED_VALUES = 1 << 29


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CtImage(ShortRepr):
    """A CT series.

    Parameters
    ----------
    values
        Hounsfield units, shape (X, Y, Z): int16 where that holds them exactly, else float32.
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    slices
        World position of the first pixel of each slice of the files, ascending along their normal, shape (K, 3); other
        ones than in ``values`` where those were interpolated.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where the files have it.
    patient
        As `napari_gpubio.dose.Dose.patient`.
    name
        Of the series or of the folder.
    notes
        What was assumed or left out, in sentences.
    """

    values: Array
    affine: npt.NDArray[np.float64]
    slices: npt.NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.empty((0, 3)))
    frame_of_reference: str = ""
    patient: str = ""
    name: str = ""
    notes: tuple[str, ...] = ()


def read_ct(path: str | Path | Sequence[str | Path], *, series: str | None = None) -> CtImage:
    """Read a CT series: of several the one with most slices, with a note; see `read_ct_series`.

    Parameters
    ----------
    path
        A folder, of which all CT files are taken, also those in folders of it, or the files of a series in any order.
    series
        SeriesInstanceUID, where there are several.

    Raises
    ------
    InvalidInput
        If there is no CT slice that can be read, or none of the series.
    """
    with noted() as notes:
        files, name, damaged = _files_of(path)
        with reading(name):
            groups = _series(_slices(files, name, damaged), name)
            chosen = [group for group in groups if series in (None, group[0].series)]
            if not chosen:
                which = f" of series {series}" if series else ""
                raise InvalidInput(f"{name} holds no CT slices{which}; choose another folder")
            if len(chosen) > 1:
                others = ", ".join(_called(group) for group in chosen[1:])
                note(f"{name} holds {len(chosen)} CT series: {_called(chosen[0])} was taken, not {others}; see series=")
            found = _volume(chosen[0], name)
    return dataclasses.replace(found, notes=tuple(notes))


def read_ct_series(path: str | Path | Sequence[str | Path]) -> tuple[CtImage, ...]:
    """Read all CT series of a folder or of files, that with most slices first.

    Slices that are damaged, of another size or orientation than most, or lie where others do are left out; a volume of
    unevenly spaced slices is interpolated linearly, and one of rounded positions is shown on even ones. Notes say so.

    Parameters
    ----------
    path
        As of `read_ct`.

    Raises
    ------
    InvalidInput
        If there is no series that can be read.
    """
    found, refusals = [], []
    with noted() as common:
        files, name, damaged = _files_of(path)
        with reading(name):
            groups = _series(_slices(files, name, damaged), name)
    with reading(name):
        for group in groups:
            try:
                with noted() as notes:
                    one = _volume(group, name)
                found.append(dataclasses.replace(one, notes=(*common, *notes)))
            except InvalidInput as error:
                refusals.append(error)
        if not found:
            raise refusals[0] if refusals else InvalidInput(f"{name} holds no CT slices; choose another folder")
        for refusal in refusals:
            note(f"a CT series was left out: {refusal}")
    return tuple(found)


def _files_of(path: str | Path | Sequence[str | Path]) -> tuple[list[Path], str, tuple[str, ...]]:
    """Files, their name in messages, and why others of a folder cannot be read."""
    if not isinstance(path, str | Path):
        files = [Path(one) for one in path]
        return files, files[0].parent.name if files else "nothing", ()
    folder = Path(path)
    if not folder.is_dir():
        return [folder], folder.name, ()
    kinds, damaged = sorted_by_modality(folder)
    return kinds.get("CT", []), folder.name, damaged


class _Slice(NamedTuple):
    """A slice of a series."""

    dataset: Any
    series: str
    frame: str  # of reference
    axes: Array  # see `plane_axes`
    corner: Array  # patient coordinates of the first pixel
    values: Array  # rows, columns, in Hounsfield units


def _slices(files: Sequence[Path], name: str, damaged: Sequence[str]) -> list[_Slice]:
    """The slices that can be read; a note counts the others, which may lie between them."""
    found, refusals = [], [InvalidInput(reason) for reason in damaged]
    with members({file.name for file in files}):
        for file in files:
            try:
                found.append(_slice(read_dataset(file, "CT"), name))
            except InvalidInput as error:
                refusals.append(error)
    if refusals and len(found) < 2:
        raise refusals[0]
    if refusals:
        note(f"{len(refusals)} files of {name} that may be slices were left out ({refusals[0]})")
    return found


def _slice(dataset: Any, name: str) -> _Slice:
    called = _slice_name(dataset, name)
    if (number_of(dataset, "NumberOfFrames", called) or 1) > 1:
        raise InvalidInput(f"{called} is a CT image of several frames in one file; export it slice by slice")
    return _Slice(
        dataset=dataset,
        series=text_of(dataset, "SeriesInstanceUID", name),
        frame=text_of(dataset, "FrameOfReferenceUID", name),
        axes=plane_axes(dataset, called),
        corner=numbers(dataset, "ImagePositionPatient", called, 3),
        values=_slice_values(dataset, name),
    )


def _series(slices: Iterable[_Slice], name: str) -> list[list[_Slice]]:
    """Slices by series and frame of reference, that with most of them first; those of the size and axes of most."""
    by_series: dict[tuple[str, str], list[list[_Slice]]] = defaultdict(list)
    for one in sorted(slices, key=lambda one: one.frame == ""):  # which go with the first of their series
        of_series = [key for key in by_series if key[0] == one.series]
        kinds = by_series[of_series[0] if of_series and not one.frame else (one.series, one.frame)]
        kind = next((kind for kind in kinds if _are_alike(kind[0], one)), None)
        if kind is None:
            kinds.append([one])
        else:
            kind.append(one)
    for series, count in Counter(series for series, _ in by_series).items():
        if count > 1:
            note(f"series {series} of {name} has slices in {count} frames of reference, which are taken for series")
    found = []
    for kinds in by_series.values():
        main, *others = sorted(kinds, key=len, reverse=True)
        if others:
            note(f"{sum(map(len, others))} slices of {name} of another size or orientation than most were left out")
        patients = [patient_of(one.dataset, name) for one in main]
        usual = Counter(filter(None, patients)).most_common(1) or [("", 0)]
        own = [one for one, patient in zip(main, patients, strict=True) if not differing(patient, usual[0][0])]
        if len(own) < len(main):
            note(f"{len(main) - len(own)} slices of {name} are of another patient than most and were left out")
        found.append(own)
    return sorted(found, key=len, reverse=True)


def _are_alike(one: _Slice, other: _Slice) -> bool:
    """Whether slices have one size and orientation, however their numbers were rounded."""
    beside = np.linalg.norm(one.axes - other.axes, axis=0)[:2] @ one.values.shape[::-1]
    return one.values.shape == other.values.shape and bool(beside <= _BESIDE * np.linalg.norm(one.axes[:, 0]))


def _called(group: Sequence[_Slice]) -> str:
    """A series in messages."""
    return f"{group[0].series or 'without a number'} ({len(group)} slices)"


def _volume(slices: Sequence[_Slice], name: str) -> CtImage:
    axes, first = slices[0].axes, slices[0].dataset
    if without := sum(None in _rescaling(one.dataset, name) for one in slices):
        note(f"{without} slices of {name} lack RescaleSlope or RescaleIntercept; 1 and 0 are taken instead")
    kinds = {text_of(one.dataset, "RescaleType", name).strip().upper() for one in slices} - {"", "HU"}
    if kinds:
        note(f"values of {name} are no Hounsfield units (RescaleType {', '.join(sorted(kinds))})")
    ordered = list(_without_repeats(slices, name))
    corners = np.array([one.corner for one in ordered])
    values, way = _evenly(ordered, corners, name)
    return CtImage(
        values=values.transpose(2, 1, 0),
        affine=to_world(axes, way, corners[0]),
        slices=corners @ LPS_TO_RAS[:3, :3],
        frame_of_reference=max(one.frame for one in slices),
        patient=patient_of(first, name),
        name=text_of(first, "SeriesDescription", name) or name,
    )


def _without_repeats(slices: Sequence[_Slice], name: str) -> Iterator[_Slice]:
    """Slices in their order along the normal; of several at one place the first that was acquired."""
    normal = slices[0].axes[:, 2]

    def order(one: _Slice) -> tuple[float, float, float]:
        acquisition, instance = (
            number_of(one.dataset, key, name) or 0.0 for key in ("AcquisitionNumber", "InstanceNumber")
        )
        return round(float(one.corner @ normal), 2), acquisition, instance

    ordered = sorted(slices, key=order)
    depths = np.array([one.corner @ normal for one in ordered])
    steps = np.diff(depths)
    usual = float(np.median(steps[steps > _STRAIGHT_MM])) if (steps > _STRAIGHT_MM).any() else 0.0
    last, lost = -np.inf, 0
    for depth, one in zip(depths, ordered, strict=True):
        if depth - last <= max(EVEN * usual, 1e-6):
            lost += 1
            continue
        last = depth
        yield one
    if lost:
        note(f"{lost} slices of {name} lie where others do and were left out")


def _evenly(slices: Sequence[_Slice], corners: Array, name: str) -> tuple[Array, Array]:
    """Slices, rows, columns at even distances, and the way from one slice to the next in patient axes."""
    values, normal = _stacked([one.values for one in slices]), slices[0].axes[:, 2]
    if len(slices) == 1:
        return values, _thickness(slices[0], name) * normal
    depths = (corners - corners[0]) @ normal
    way = _way(corners, normal, name)
    step = float(depths[-1]) / (len(depths) - 1)
    beside = float(np.abs(depths - step * np.arange(len(depths))).max())
    if beside <= EVEN * step:
        return values, way * step
    if beside <= _ROUNDED * step:
        placed = f"lie up to {short_number(beside)} mm beside even positions {short_number(step)} mm apart"
        note(f"the slices of {name} {placed} and are shown there")
        return values, way * step
    gaps, usual = np.diff(depths), float(np.median(np.diff(depths)))
    finest = float(gaps[gaps >= _DOMINATING * usual].min())
    finest = usual if finest > _NEARLY * usual else finest
    count = round(float(depths[-1]) / finest) + 1
    if count * values[0].size > _MAX_RESAMPLED_VALUES:
        raise InvalidInput(f"the slices of {name} would take {count} resampled ones, too many to hold; choose fewer")
    step = float(depths[-1]) / (count - 1)
    span = f"{short_number(float(gaps.min()))} to {short_number(float(gaps.max()))} mm apart"
    made = f"{count} slices {short_number(step)} mm apart"
    note(f"the slices of {name} are {span} and were interpolated linearly to {made}")
    return _resampled(values, depths, step, count), way * step


def _resampled(values: Array, depths: Array, step: float, count: int) -> Array:
    """Slices at multiples of a step, linear between those that are there; whole numbers stay so."""
    found = np.empty((count, *values.shape[1:]), values.dtype)
    for n in range(count):
        place = min(n * step, float(depths[-1]))
        before = min(int(np.searchsorted(depths, place + 1e-9 * step, side="right")) - 1, len(depths) - 2)
        share = (place - depths[before]) / (depths[before + 1] - depths[before])
        between = (1 - share) * values[before].astype(np.float64) + share * values[before + 1]
        found[n] = np.rint(between) if values.dtype.kind == "i" else between
    return found


def _way(corners: Array, normal: Array, name: str) -> Array:
    """From slice to slice for each mm along the normal; beside the normal where the gantry was tilted."""
    whole = corners[-1] - corners[0]
    along = whole / float(whole @ normal)
    off = np.linalg.norm(corners - corners[0] - ((corners - corners[0]) @ normal)[:, None] * along, axis=1)
    allowed = _STRAIGHT_MM * np.sqrt(len(corners))
    if (most := float(off.max())) > allowed:
        note(f"the slices of {name} lie up to {short_number(most)} mm beside a straight line and are shown on it")
    if float(np.linalg.norm(along - normal)) * float(whole @ normal) <= allowed:
        return normal
    tilt = np.degrees(np.arccos(np.clip(1 / np.linalg.norm(along), -1, 1)))
    how = "each slice is kept as it is, displaced against the one before as the tilt has it"
    note(f"{name} was taken with the gantry tilted by {tilt:.3g} degrees: {how}")
    return np.asarray(along)


def _thickness(one: _Slice, name: str) -> float:
    """Of a single slice, mm."""
    thickness = number_of(one.dataset, "SliceThickness", name)
    if thickness and thickness > 0:
        return thickness
    stated = "none" if thickness is None else f"{thickness:g} mm"
    note(f"{name} is a single slice and is shown 1 mm thick, since its SliceThickness is {stated}")
    return 1.0


def _stacked(found: Sequence[Array]) -> Array:
    exact = all(one.dtype == np.int16 for one in found)
    return np.stack([one.astype(np.int16 if exact else np.float32, copy=False) for one in found])


def _slice_values(dataset: Any, name: str) -> Array:
    stored = pixels_of(dataset, _slice_name(dataset, name))
    slope, intercept = _rescaling(dataset, name)
    slope, intercept = slope or 1.0, intercept or 0.0
    if stored.ndim != 2:
        raise InvalidInput(
            f"{_slice_name(dataset, name)} has pixels of shape {stored.shape}; one slice in gray values is needed"
        )
    values = stored * slope + intercept
    whole = slope == int(slope) and intercept == int(intercept)
    fits = whole and values.min() >= -(2**15) and values.max() < 2**15
    return values.astype(np.int16 if fits else np.float32)


def _rescaling(dataset: Any, name: str) -> tuple[float | None, float | None]:
    """What stored values are multiplied by and what is added; None where it is missing, or would leave one value."""
    return number_of(dataset, "RescaleSlope", name) or None, number_of(dataset, "RescaleIntercept", name)


def _slice_name(dataset: Any, name: str) -> str:
    """The name of a slice in messages: its file's, where it has one."""
    file = getattr(dataset, "filename", None)
    return f"{Path(file).name}, a slice of {name}," if file else f"a slice of {name}"

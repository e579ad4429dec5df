"""Positions of optodes from SNIRF files (``.snirf``), the HDF5 format of near-infrared spectroscopy.

Read are the positions of sources and detectors, in three dimensions where they are there, their labels, the wavelengths
and landmarks of the probe, and which source and detector are measured together.
Positions are in the **file's own coordinate system**, that of the digitizer or of a template head; the format does not
say which. They must be registered to the label volume before they are used in it.

Needs h5py: ``pip install "napari-gpubio[snirf]"``.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.hdf5 import MAX_VALUES, Hdf5Content, read_hdf5
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.short_repr import ShortRepr

_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0, "dm": 100.0, "um": 1e-3, "μm": 1e-3, "µm": 1e-3}
_WORDS = {
    **dict.fromkeys(("millimeter", "millimetre"), "mm"),
    **dict.fromkeys(("centimeter", "centimetre"), "cm"),
    **dict.fromkeys(("meter", "metre"), "m"),
}
FLAT = "lies in a plane, z = 0: it is a flat layout; digitized positions are needed on a head"
OWN_SYSTEM = "positions are in the file's own coordinate system; register them to the volume"
_MAX_NAMED = 6
_WAVELENGTHS_NM = (100.0, 1e4)
_DISTANCES_MM = (1.0, 300.0)  # of a source and a detector that are measured together
_GROUP = re.compile(r"nirs(\d*)")
_DATASETS = tuple(f"{kind}{what}" for kind in ("source", "detector") for what in ("Pos3D", "Pos2D", "Labels"))
_KINDS = ("source", "detector")
_INDICES = ("sourceIndex", "detectorIndex")
PATTERNS = (
    "/nirs*", "/nirs*/probe", "/nirs*/metaDataTags/LengthUnit", "/nirs*/probe/wavelengths",
    "/nirs*/probe/landmarkPos3D", "/nirs*/probe/landmarkLabels", "/nirs*/probe/coordinateSystem",
    *(f"/nirs*/probe/{name}" for name in _DATASETS),
    *(f"/nirs*/data*/measurementList*/{name}" for name in _INDICES),  # a group for each, or one with arrays
)  # fmt: skip
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Optodes(ShortRepr):
    """Sources and detectors of a probe.

    Parameters
    ----------
    sources, detectors
        Names.
    source_positions_mm, detector_positions_mm
        In the file's own coordinate system, mm, shape (S, 3) and (D, 3).
    wavelengths_nm
        Nominal wavelengths of the sources.
    pairs
        Source and detector, counted from 0, that are measured together, each once; empty where the file does not tell.
    landmarks_mm
        Named places in the same coordinate system, such as ``Nz``.
    notes
        What a person should know.
    """

    sources: tuple[str, ...]
    source_positions_mm: npt.NDArray[np.float64]
    detectors: tuple[str, ...]
    detector_positions_mm: npt.NDArray[np.float64]
    wavelengths_nm: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    landmarks_mm: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@reads_file
def read_snirf(path: str | Path) -> Optodes:
    """Read where the optodes are.

    Parameters
    ----------
    path
        A ``.snirf`` file. If it holds several recordings, the first that has a probe is read.

    Raises
    ------
    InvalidInput
        If h5py is not installed, the file is missing, damaged or no HDF5, or it has no positions of one kind for all.

    Notes
    -----
    The file is read in a process of its own, which takes a quarter of a second, see `core.hdf5`.
    """
    return optodes_of(read_hdf5(path, PATTERNS))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Content(ShortRepr):
    """What a file has: its recordings, and the unit and the datasets of the first with a probe, if there is one."""

    recordings: list[str]
    chosen: str | None = None
    unit: Array | None = None
    probe: Mapping[str, Array | int] = field(default_factory=dict)  # an integer: so many values, too many
    measured: Mapping[str, Array] = field(default_factory=dict)  # indices of the measurement list, by their paths


def optodes_of(file: Hdf5Content) -> Optodes:
    """Return where the optodes are in what was read of a file by `PATTERNS`; errors as `read_snirf`."""
    groups = {path[1:] for path in file.groups}
    recordings = sorted(filter(_GROUP.fullmatch, groups), key=lambda name: int(name[4:] or 0))
    chosen = next((name for name in recordings if f"{name}/probe" in groups), None)
    if chosen is None:
        return _optodes(_Content(recordings=recordings))
    start, found = f"/{chosen}/probe/", dict[str, Array | int]({**file.arrays, **file.sizes})
    probe = {path.removeprefix(start): values for path, values in found.items() if path.startswith(start)}
    unit = file.arrays.get(f"/{chosen}/metaDataTags/LengthUnit")
    measured = {path: values for path, values in file.arrays.items() if path.startswith(f"/{chosen}/data")}
    return _optodes(_Content(recordings=recordings, chosen=chosen, unit=unit, probe=probe, measured=measured))


def _optodes(content: _Content) -> Optodes:
    if not content.recordings:
        raise InvalidInput("it has no group /nirs; it is HDF5, but not a SNIRF file")
    if content.chosen is None:
        raise InvalidInput("it has no group /nirs/probe; export it again, with the probe")
    unit, unit_notes = _unit(content.unit)
    axes = next((axes for axes in (3, 2) if all(_has_positions(content, kind, axes) for kind in _KINDS)), 3)
    shapes = [getattr(content.probe.get(f"{kind}Pos3D"), "shape", ()) for kind in _KINDS]
    turned = axes == len("xyz") and _are_turned(shapes)
    if turned:
        note("positions are stored with an axis in each row; they are turned to one optode in each row")
    sources, detectors = (_positions(content, kind, axes, turned=turned) * unit for kind in _KINDS)
    system = f"{OWN_SYSTEM[0].upper()}{OWN_SYSTEM[1:]}."
    named = _dataset(content, "coordinateSystem")
    if named is not None and (name := "".join(text for row in _rows(named) for text in row).strip()):
        system = system.replace("system;", f"system, {name[:40]};")
    notes = [*unit_notes, system]
    if (count := len(content.recordings)) > 1:
        notes.append(
            f"The file holds {count} recordings ({', '.join(content.recordings[:8])}); {content.chosen} was read."
        )
    return placed_optodes(
        (_names(content, "source", len(sources)), sources),
        (_names(content, "detector", len(detectors)), detectors),
        _pairs(content),
        wavelengths_nm=_wavelengths(content),
        landmarks_mm=_landmarks(content, unit) if axes == len("xyz") else {},
        notes=tuple(notes),
    )


Places = tuple[Sequence[str], Floats]  # names and positions, mm, shape (N, 3)


def placed_optodes(
    sources: Places,
    detectors: Places,
    measured: Iterable[tuple[int, int]],
    *,
    wavelengths_nm: Sequence[float],
    **more: Any,
) -> Optodes:
    """Return the optodes that have a position.

    The others, measurements of optodes that there are not, and what is no wavelength of light in nm, are left out, and
    a note counts them.

    Parameters
    ----------
    sources, detectors
        All of the file.
    measured
        Source and detector of each measurement, counted from 0; the same ones may come again.
    wavelengths_nm
        Nominal wavelengths.
    **more
        Other fields of `Optodes`.

    Raises
    ------
    InvalidInput
        If no source or no detector has a position.
    """
    kept = []
    for kind, (names, positions) in (("source", sources), ("detector", detectors)):
        known = [bool(np.isfinite(position).all()) for position in positions]
        if not any(known):
            raise InvalidInput(f"{kind} 1 is at {positions[0].tolist()}, and no other is better: give finite numbers")
        if lost := [name for name, is_known in zip(names, known, strict=True) if not is_known]:
            named = ", ".join(lost[:_MAX_NAMED]) + (", …" if len(lost) > _MAX_NAMED else "")
            note(f"{len(lost)} of {len(names)} {kind}s ({named}) have no position of finite numbers; they are left out")
        kept.append(np.flatnonzero(known).tolist())
    numbers = [{old: new for new, old in enumerate(each)} for each in kept]
    every = _counted(list(measured), len(sources[0]), len(detectors[0]))
    pairs = [(numbers[0][a], numbers[1][b]) for a, b in every if a in numbers[0] and b in numbers[1]]
    if len(pairs) < len(every):
        note(
            f"{len(every) - len(pairs)} of {len(every)} measurements name an optode that the probe does not have; they "
            "are left out"
        )
    shortest, longest = _WAVELENGTHS_NM
    if odd := [one for one in wavelengths_nm if not shortest <= one <= longest]:
        note(f"{len(odd)} of {len(wavelengths_nm)} wavelengths ({odd[0]:g}, …) are not in nm; they are left out")
    _check_distances(sources[1][kept[0]], detectors[1][kept[1]], pairs)
    return Optodes(
        sources=tuple(sources[0][row] for row in kept[0]),
        source_positions_mm=sources[1][kept[0]],
        detectors=tuple(detectors[0][row] for row in kept[1]),
        detector_positions_mm=detectors[1][kept[1]],
        pairs=tuple(dict.fromkeys(pairs)),
        wavelengths_nm=tuple(one for one in wavelengths_nm if one not in odd),
        **more,
    )


def _counted(measured: list[tuple[int, int]], sources: int, detectors: int) -> list[tuple[int, int]]:
    """Measurements of so many optodes, of files that count from 0 where they should from 1."""
    moved = [(source + 1, detector + 1) for source, detector in measured]
    ends = [end for pair in measured for end in pair]
    if min(ends, default=0) == -1 and all(0 <= a < sources and 0 <= b < detectors for a, b in moved):
        note("its measurements count sources and detectors from 0, not from 1 as they should; they are taken so")
        return moved
    return measured


def _check_distances(sources: Floats, detectors: Floats, pairs: Sequence[tuple[int, int]]) -> None:
    """Note distances that no measurement has; where it is not known what is measured, that of the farthest two."""
    if pairs:
        first, second = np.transpose(pairs)
        found = np.linalg.norm(sources[first] - detectors[second], axis=1)
    else:
        both = np.concatenate([sources, detectors])
        found = np.linalg.norm(np.ptp(both, axis=0, keepdims=True), axis=1)
    least, most = _DISTANCES_MM
    if odd := np.count_nonzero((found < least) | (found > most)):
        note(
            f"{odd} of {len(found)} distances of sources and detectors are not within {least:g} to {most:g} mm (found "
            f"are {found.min():.3g} to {found.max():.3g} mm); check the unit of length and the positions"
        )


def _unit(found: Any) -> tuple[float, tuple[str, ...]]:
    """Millimeters in the unit of length."""
    unit = "" if found is None else "".join(text for row in _rows(found) for text in row)
    if not unit:
        return 1.0, ("metaDataTags/LengthUnit is missing; positions were taken as mm.",)
    return millimeters(unit, "metaDataTags/LengthUnit"), ()


def millimeters(unit: str, place: str) -> float:
    """Return the millimeters in a unit of length that stands in a place of a file; InvalidInput if it is not known."""
    word = unit.strip()
    word = _WORDS.get(word.lower().rstrip("s"), word if word in _MM else word.lower())
    if word not in _MM:
        raise InvalidInput(f"{place} is {unit[:40]!r}; known are {', '.join(list(_MM)[:5])}: correct it")
    return _MM[word]


def _dataset(content: _Content, name: str) -> Array | None:
    found = content.probe.get(name)
    if isinstance(found, int):
        raise InvalidInput(f"probe/{name} has {found} values; a probe has less than {MAX_VALUES}")
    return found


def _has_positions(content: _Content, kind: str, axes: int) -> bool:
    found = content.probe.get(f"{kind}Pos{axes}D")
    if found is None or isinstance(found, int):
        return found is not None
    return found.size > 0 and (axes == len("xy") or found.dtype.kind not in "iuf" or bool(found.any()))


def _are_turned(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether rows and columns are exchanged, as by MATLAB's own functions; shapes alone must leave no doubt."""
    have_axes = all(len(shape) == 2 and shape[0] == 3 for shape in shapes)
    return have_axes and any(shape[1] not in (2, 3) for shape in shapes)


def _positions(content: _Content, kind: str, axes: int, *, turned: bool) -> Floats:
    name = f"{kind}Pos{axes}D"
    found = _dataset(content, name)
    if found is None or found.size == 0:
        flat = "" if f"{kind}Pos2D" not in content.probe else f" ({kind}Pos2D is a flat layout, which others have not)"
        raise InvalidInput(f"it has no probe/{name}{flat}; digitize the optodes, or place them on the head by hand")
    if found.dtype.kind not in "iuf":
        raise InvalidInput(f"probe/{name} holds {found.dtype}, not numbers; export the file again")
    values = found.astype(np.float64)
    values = values.T if turned else values
    if values.shape == (axes,):
        values = values[None]
    if values.ndim != 2 or values.shape[1] != axes:
        raise InvalidInput(f"probe/{name} has shape {values.shape}; it must be (number of {kind}s, {axes})")
    if not values[:, 2:].any():
        note(f"probe/{name} {FLAT}")
    return np.pad(values, ((0, 0), (0, len("xyz") - axes)))


def _names(content: _Content, kind: str, count: int) -> tuple[str, ...]:
    """Labels of the optodes; where there is not one for each, numbers: S1, S2, … and D1, D2, and so on."""
    own = tuple(f"{kind[0].upper()}{number + 1}" for number in range(count))
    found = _dataset(content, f"{kind}Labels")
    labels = [] if found is None else [row[0] for row in _rows(found)]
    if len(labels) != count:
        return own
    if len({label.strip() or other for label, other in zip(labels, own, strict=True)}) < count:
        note(f"{kind}s have labels that repeat; they are named {own[0]}, {own[1]} and so on")
        return own
    return tuple(label.strip() or other for label, other in zip(labels, own, strict=True))


def _wavelengths(content: _Content) -> tuple[float, ...]:
    found = _dataset(content, "wavelengths")
    if found is None or found.dtype.kind not in "iuf":
        return ()
    return tuple(number for number in found.astype(np.float64).ravel().tolist() if math.isfinite(number))


def _pairs(content: _Content) -> Iterator[tuple[int, int]]:
    """Source and detector of every measurement, from 0, in the order of the lists."""
    groups = dict.fromkeys(path.rpartition("/")[0] for path in content.measured)
    for group in sorted(groups, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]):
        ends = [content.measured.get(f"{group}/{name}") for name in _INDICES]
        if any(end is None or end.dtype.kind not in "iuf" for end in ends):
            continue
        first, second = (np.asarray(end).ravel() for end in ends)
        if len(first) != len(second):
            raise InvalidInput(f"{group} has {len(first)} sources and {len(second)} detectors; export the file again")
        for source, detector in zip(first.tolist(), second.tolist(), strict=True):
            yield source - 1, detector - 1


def _landmarks(content: _Content, unit: float) -> dict[str, tuple[float, float, float]]:
    """Named landmarks, as far as they are whole; a fourth column has the number of the name."""
    places, labels = _dataset(content, "landmarkPos3D"), _dataset(content, "landmarkLabels")
    if places is None or labels is None or places.dtype.kind not in "iuf" or places.ndim != 2:
        return {}
    if places.shape[1] not in (3, 4):
        return {}
    names, found = [row[0].strip() for row in _rows(labels)], {}
    for row, values in enumerate(places.astype(np.float64)):
        number = row if len(values) == 3 or not np.isfinite(values[3]) else int(values[3]) - 1
        if np.isfinite(values[:3]).all() and 0 <= number < len(names) and names[number]:
            x, y, z = (float(value) * unit for value in values[:3])
            found[names[number]] = (x, y, z)
    return found


def _rows(found: Any) -> Iterator[list[str]]:
    """Texts row by row: the labels of a source may differ by wavelength."""
    values = np.atleast_1d(np.asarray(found, object))
    for row in values.reshape(len(values), -1) if values.size else ():
        yield [item.decode("utf-8", "replace").rstrip("\0") if isinstance(item, bytes) else str(item) for item in row]

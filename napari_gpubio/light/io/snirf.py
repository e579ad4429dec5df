"""Positions of optodes from SNIRF files (``.snirf``), the HDF5 format of near-infrared spectroscopy.

Read are the three-dimensional positions of sources and detectors, their labels and the wavelengths of the probe.
Positions are in the **file's own coordinate system**, that of the digitizer or of a template head; the format does not
say which. They must be registered to the label volume before they are used in it.

Needs h5py: ``pip install "napari-gpubio[snirf]"``.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file

_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0, "dm": 100.0, "um": 1e-3, "μm": 1e-3, "µm": 1e-3}
_WORDS = {
    **dict.fromkeys(("millimeter", "millimetre"), "mm"),
    **dict.fromkeys(("centimeter", "centimetre"), "cm"),
    **dict.fromkeys(("meter", "metre"), "m"),
}
_GROUP = re.compile(r"nirs(\d*)")
_MOST_VALUES = 100_000  # positions or labels; no cap has so many
# What h5py raises on a damaged file.
_READ_ERRORS = (OSError, RuntimeError, ValueError, TypeError, LookupError, UnicodeError, ArithmeticError)


@dataclass(frozen=True, eq=False, kw_only=True)
class Optodes:
    """Sources and detectors of a probe.

    Parameters
    ----------
    sources, detectors
        Names.
    source_positions_mm, detector_positions_mm
        In the file's own coordinate system, mm, shape (S, 3) and (D, 3).
    wavelengths_nm
        Nominal wavelengths of the sources.
    notes
        What a person should know.
    """

    sources: tuple[str, ...]
    source_positions_mm: npt.NDArray[np.float64]
    detectors: tuple[str, ...]
    detector_positions_mm: npt.NDArray[np.float64]
    wavelengths_nm: tuple[float, ...]
    notes: tuple[str, ...] = ()


def read_snirf(path: str | Path) -> Optodes:
    """Read where the optodes are.

    Parameters
    ----------
    path
        A ``.snirf`` file. If it holds several recordings, the first that has a probe is read.

    Raises
    ------
    InvalidInput
        If h5py is not installed, the file is missing, damaged or no HDF5, or it has no positions in three dimensions.

    Notes
    -----
    A file whose bytes were changed can crash the HDF5 library or keep it busy for ever (seen with 2.0.0, in one of a
    hundred such files with texts of variable length). Nothing here can prevent that.
    """
    file = existing_file(path)
    h5py = _h5py()
    try:
        with h5py.File(file, "r") as content:
            return _read(content, h5py)
    except InvalidInput as error:
        raise InvalidInput(f"{file.name}: {error}") from error
    except _READ_ERRORS as error:
        raise InvalidInput(
            f"{file.name} cannot be read as HDF5 ({str(error)[:200]}); it is no SNIRF file, or damaged: export it again"
        ) from error


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InvalidInput(
            'SNIRF files need the package h5py, which is not installed; run: pip install "napari-gpubio[snirf]"'
        ) from error
    return h5py


def _read(content: Any, h5py: Any) -> Optodes:
    recordings = sorted((name for name in content if _GROUP.fullmatch(name)), key=lambda name: int(name[4:] or 0))
    if not recordings:
        raise InvalidInput("it has no group /nirs; it is HDF5, but no SNIRF file")
    groups = [name for name in recordings if _probe(content[name], h5py) is not None]
    if not groups:
        raise InvalidInput("it has no group /nirs/probe; export it again, with the probe")
    recording = content[groups[0]]
    reader = _Reader(recording["probe"], h5py)
    unit, unit_notes = _unit(recording, h5py)
    sources, detectors = reader.positions("source") * unit, reader.positions("detector") * unit
    notes = [*unit_notes, "Positions are in the file's own coordinate system; register them to the volume."]
    if len(recordings) > 1:
        notes.append(
            f"The file holds {len(recordings)} recordings ({', '.join(recordings[:8])}); {groups[0]} was read."
        )
    return Optodes(
        sources=reader.names("source", len(sources)),
        source_positions_mm=sources,
        detectors=reader.names("detector", len(detectors)),
        detector_positions_mm=detectors,
        wavelengths_nm=reader.wavelengths(),
        notes=tuple(notes),
    )


def _probe(recording: Any, h5py: Any) -> Any:
    probe = recording.get("probe") if isinstance(recording, h5py.Group) else None
    return probe if isinstance(probe, h5py.Group) else None


def _unit(recording: Any, h5py: Any) -> tuple[float, tuple[str, ...]]:
    """Millimeters in the unit of length."""
    tags = recording.get("metaDataTags")
    unit = None
    if isinstance(tags, h5py.Group) and isinstance(tags.get("LengthUnit"), h5py.Dataset):
        unit = "".join(_texts(tags["LengthUnit"]))
    if not unit:
        return 1.0, ("metaDataTags/LengthUnit is missing; positions were taken as mm.",)
    word = unit.strip()
    word = _WORDS.get(word.lower().rstrip("s"), word)
    if word not in _MM:
        raise InvalidInput(
            f"metaDataTags/LengthUnit is {unit[:40]!r}; known are {', '.join(list(_MM)[:5])}: correct it"
        )
    return _MM[word], ()


@dataclass(frozen=True, eq=False)
class _Reader:
    """Takes checked values from the group ``probe``."""

    probe: Any
    h5py: Any

    def dataset(self, name: str) -> Any:
        """A dataset of sensible length, or None."""
        found = self.probe.get(name)
        if not isinstance(found, self.h5py.Dataset) or found.shape is None:
            return None
        if found.size > _MOST_VALUES:
            raise InvalidInput(f"probe/{name} has {found.size} values; a probe has less than {_MOST_VALUES}")
        return found

    def positions(self, kind: str) -> npt.NDArray[np.float64]:
        name = f"{kind}Pos3D"
        found = self.dataset(name)
        if found is None or found.size == 0:
            flat = "" if self.dataset(f"{kind}Pos2D") is None else f" ({kind}Pos2D is a flat layout, which does not do)"
            raise InvalidInput(f"it has no probe/{name}{flat}; digitize the optodes, or place them on the head by hand")
        if found.dtype.kind not in "iuf":
            raise InvalidInput(f"probe/{name} holds {found.dtype}, not numbers; export the file again")
        values = np.asarray(found[()], np.float64)
        if values.shape == (3,):
            values = values[None]
        if values.ndim != 2 or values.shape[1] != 3:
            raise InvalidInput(f"probe/{name} has shape {values.shape}; it must be (number of {kind}s, 3)")
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise InvalidInput(f"{kind} {row + 1} is at {values[row].tolist()}; positions must be finite numbers")
        return values

    def names(self, kind: str, count: int) -> tuple[str, ...]:
        """Labels of the optodes; where there is not one for each, numbers: S1, S2, … and D1, D2, and so on."""
        own = [f"{kind[0].upper()}{number + 1}" for number in range(count)]
        found = self.dataset(f"{kind}Labels")
        labels = [] if found is None else [row[0] for row in _rows(found)]
        if len(labels) != count:
            return tuple(own)
        return tuple(label.strip() or other for label, other in zip(labels, own, strict=True))

    def wavelengths(self) -> tuple[float, ...]:
        found = self.dataset("wavelengths")
        if found is None or found.dtype.kind not in "iuf":
            return ()
        numbers = np.asarray(found[()], np.float64).ravel().tolist()
        return tuple(number for number in numbers if math.isfinite(number))


def _texts(dataset: Any) -> list[str]:
    return [text for row in _rows(dataset) for text in row]


def _rows(dataset: Any) -> Iterator[list[str]]:
    """Texts of a dataset, row by row: the labels of a source may differ by wavelength."""
    values = np.atleast_1d(np.asarray(dataset[()], object))
    for row in values.reshape(len(values), -1) if values.size else ():
        yield [item.decode("utf-8", "replace").rstrip("\0") if isinstance(item, bytes) else str(item) for item in row]

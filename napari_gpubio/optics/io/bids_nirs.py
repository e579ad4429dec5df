"""Positions of optodes from a BIDS-NIRS folder: ``*_optodes.tsv`` with its ``*_coordsystem.json``.

The table has the columns ``name``, ``type`` (source or detector), ``x``, ``y`` and ``z``; the JSON file says their unit
and coordinate system, and has landmarks. A ``*_channels.tsv`` beside it says which source and detector are measured
together, and at which wavelengths.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.bids import inherited
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_json, existing_table
from napari_gpubio.core.reading import reads_file
from napari_gpubio.optics.io.snirf import Optodes, placed_optodes

_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0}
_MISSING = ("", "n/a", "nan")
SUFFIX = "_optodes.tsv"
_SYSTEM, _CHANNELS = "_coordsystem.json", "_channels.tsv"


@reads_file
def read_optodes_tsv(path: str | Path) -> Optodes:
    """Read where the optodes are.

    Parameters
    ----------
    path
        The ``*_optodes.tsv`` file; ``*_coordsystem.json`` and ``*_channels.tsv`` lie beside it.

    Raises
    ------
    InvalidInput
        If a file is missing or damaged, a column is missing, a position is not a number, the unit is not known,
        two sources or two detectors have one name, or a channel has an optode that is not in the table.
    """
    table = Path(path)
    rows = _rows(table)
    if missing := [name for name in ("name", "type", "x", "y", "z") if not rows or name not in rows[0]]:
        raise InvalidInput(f"it has no column {missing[0]!r}; an optodes table has name, type, x, y and z")
    system = _beside(table, _SYSTEM)
    described: Mapping[str, Any] = {}
    if system is not None:
        described = existing_json(system)
        if not isinstance(described, dict):
            raise InvalidInput(f"{system.name} is not a JSON object; write it again")
    unit, notes = _unit(described, system)
    places = {kind: _places(rows, kind, unit) for kind in ("source", "detector")}
    for kind, found in places.items():
        if not found:
            raise InvalidInput(f"it has no {kind}; the column type says 'source' or 'detector'")
    sources, detectors = list(places["source"]), list(places["detector"])
    pairs, wavelengths = _channels(_beside(table, _CHANNELS), sources, detectors)
    return placed_optodes(
        (sources, np.array([places["source"][name] for name in sources])),
        (detectors, np.array([places["detector"][name] for name in detectors])),
        pairs,
        wavelengths_nm=wavelengths,
        landmarks_mm=_landmarks(described, unit),
        notes=notes,
    )


def _rows(path: Path) -> list[dict[str, str]]:
    _, rows = existing_table(path, "\t")
    return [{str(key): str(value or "") for key, value in row.items()} for row in rows]


def files_beside(path: str | Path) -> tuple[Path, ...]:
    """Return the other files that `read_optodes_tsv` reads; of another probe, there are none."""
    table = Path(path)
    found = (_beside(table, suffix) for suffix in (_SYSTEM, _CHANNELS) if table.name.endswith(SUFFIX))
    return tuple(one for one in found if one is not None)


def _beside(table: Path, suffix: str) -> Path | None:
    """The file of the same recording, or one that it inherits; None where there is none."""
    own = table.with_name(table.name.removesuffix(SUFFIX) + suffix)
    name, dot, extension = suffix.removeprefix("_").partition(".")
    return own if own.exists() else next(inherited(table, dot + extension, name), None)


def _unit(described: Mapping[str, Any], system: Path | None) -> tuple[float, tuple[str, ...]]:
    unit = str(described.get("NIRSCoordinateUnits", "")).strip()
    if not unit:
        where = "there is no *_coordsystem.json beside it" if system is None else f"{system.name} has none"
        return 1.0, (f"NIRSCoordinateUnits is not known ({where}); positions were taken as mm.",)
    if unit not in _MM:
        raise InvalidInput(f"NIRSCoordinateUnits is {unit[:40]!r}; known are {', '.join(_MM)}: correct it")
    return _MM[unit], ()


def _places(rows: list[dict[str, str]], kind: str, unit: float) -> dict[str, tuple[float, float, float]]:
    """Position of each source or detector by its name, mm."""
    found: dict[str, tuple[float, float, float]] = {}
    for number, row in enumerate(rows, 1):
        if row["type"].strip().lower() != kind:
            continue
        if (name := row["name"].strip()) in found:
            raise InvalidInput(f"row {number} is another {kind} of the name {name!r}; give each a name of its own")
        found[name] = _position(row, unit)
    return found


def _position(row: Mapping[str, str], unit: float) -> tuple[float, float, float]:
    numbers = []
    for axis in "xyz":
        text = row[axis].strip()
        try:
            value = math.nan if text.lower() in _MISSING else float(text)
        except ValueError:
            raise InvalidInput(f"optode {row['name']} has {axis} = {text!r}; digitize it, or remove its row") from None
        numbers.append(value * unit)
    x, y, z = numbers
    return x, y, z


def _channels(
    path: Path | None, sources: list[str], detectors: list[str]
) -> tuple[tuple[tuple[int, int], ...], tuple[float, ...]]:
    """Pairs and wavelengths of the channels, as far as the table tells them."""
    if path is None:
        return (), ()
    pairs: dict[tuple[int, int], None] = {}
    wavelengths: set[float] = set()
    for number, row in enumerate(_rows(path), 1):
        if pair := _pair(row, f"{path.name}: row {number}", sources, detectors):
            pairs[pair] = None
        try:
            wavelength = float(row.get("wavelength_nominal", ""))
        except ValueError:
            continue
        if math.isfinite(wavelength):
            wavelengths.add(wavelength)
    return tuple(pairs), tuple(sorted(wavelengths))


def _pair(row: Mapping[str, str], place: str, sources: list[str], detectors: list[str]) -> tuple[int, int] | None:
    """Indices of a channel's source and detector; None for a channel without them, such as an accelerometer's."""
    names = {kind: row.get(kind, "").strip() for kind in ("source", "detector")}
    if any(name.lower() in _MISSING for name in names.values()):
        return None
    for (kind, name), known in zip(names.items(), (sources, detectors), strict=True):
        if name not in known:
            raise InvalidInput(
                f"{place} has the {kind} {name!r}, which the table of optodes does not have; it has "
                f"{', '.join(known)[:80]}: correct one of them"
            )
    return sources.index(names["source"]), detectors.index(names["detector"])


def _landmarks(described: Mapping[str, Any], unit: float) -> dict[str, tuple[float, float, float]]:
    found: dict[str, tuple[float, float, float]] = {}
    for key in ("FiducialsCoordinates", "AnatomicalLandmarkCoordinates"):
        places = described.get(key)
        for name, place in (places if isinstance(places, dict) else {}).items():
            if isinstance(place, list) and len(place) == 3 and all(isinstance(v, (int, float)) for v in place):
                x, y, z = (float(value) * unit for value in place)
                found[str(name)] = (x, y, z)
    return found

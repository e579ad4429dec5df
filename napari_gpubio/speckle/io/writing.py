"""Maps as TIFF, and tables of time courses and beats as CSV."""

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.text import delimited
from napari_gpubio.speckle.io.tiff import TIFF_SUFFIXES
from napari_gpubio.speckle.model import NAMES, ContrastMaps
from napari_gpubio.speckle.pulsatility import Pulsatility
from napari_gpubio.speckle.regions import RegionCurve

Array = npt.NDArray[Any]


def write_maps(path: str | os.PathLike[str], maps: ContrastMaps, which: str = "contrast") -> None:
    """Write maps as TIFF, readable by ImageJ; their parameters are in its description (JSON).

    Parameters
    ----------
    path
        A ``.tif`` file.
    maps
        Result of a run.
    which
        ``"contrast"``, ``"index"`` (both float32) or ``"mask"`` (uint8).

    Raises
    ------
    InvalidInput
        If the maps have no such part, or the file cannot be written.
    """
    import tifffile

    array: npt.NDArray[Any] | None = getattr(maps, which)
    if array is None:
        raise InvalidInput(f"the maps have no {which}; choose it in the settings")
    if Path(path).suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{Path(path).name} does not end in .tif; give it this ending")
    about = {**maps.parameters, "map": which, "unit": maps.unit if which == "index" else ""}
    if which == "mask":
        about["bits"] = {name: bit for bit, name in NAMES.items()}
    with atomic_write(path) as part:
        tifffile.imwrite(part, array, description=json.dumps(about), metadata=None, photometric="minisblack")


def write_curves_csv(
    path: str | os.PathLike[str], curves: Sequence[RegionCurve], seconds: npt.ArrayLike | None = None
) -> None:
    """Write time courses of regions, one row per map.

    Parameters
    ----------
    path
        A ``.csv`` file.
    curves
        Time courses from the same maps.
    seconds
        Time of each map; left out if None.

    Raises
    ------
    InvalidInput
        If there is no curve, or curves and times have different lengths.
    """
    lengths = {len(curve.k2) for curve in curves} | ({np.size(seconds)} if seconds is not None else set())
    if not curves or len(lengths) > 1:
        found = "no regions" if not curves else "different numbers of maps, " + " and ".join(map(str, sorted(lengths)))
        raise InvalidInput(f"there is no table of {found}; give curves, and times, of the same maps")
    columns: dict[str, Array] = {"map": np.arange(len(curves[0].k2))}
    if seconds is not None:
        columns["time [s]"] = np.asarray(seconds)
    for curve in curves:
        parts = (("K²", curve.k2), ("SFI [1/s]", curve.sfi), ("pixels", curve.used), ("skipped", curve.skipped))
        columns |= {f"{curve.name} {what}": values for what, values in parts}
    rows = ([repr(value.item()) for value in row] for row in zip(*columns.values(), strict=True))
    with atomic_write(path) as part:
        part.write_text(delimited([columns, *rows]), encoding="utf-8")


def write_pulsatility_csv(path: str | os.PathLike[str], pulses: Sequence[Pulsatility]) -> None:
    """Write the beat of regions, one row each; numbers of a region without a beat are ``nan``.

    Raises
    ------
    InvalidInput
        If there is no region, or the file cannot be written.
    """
    if not pulses:
        raise InvalidInput("there is no table of no regions; give at least one")
    columns = {
        "region": "name", "flow": "flow", "beat rate [1/min]": "rate_bpm", "beat rate s.e. [1/min]": "rate_error_bpm",
        "slowest [1/min]": "slowest_bpm", "fastest [1/min]": "fastest_bpm", "pulsatility index": "index",
        "pulsatility index s.e.": "index_error", "resistivity index": "resistivity",
        "resistivity index s.e.": "resistivity_error", "mean [1/s]": "mean", "beats": "beats",
        "harmonics": "harmonics", "false-alarm probability": "false_alarm",
    }  # fmt: skip
    rows = [[*(getattr(pulse, name) for name in columns.values()), "; ".join(pulse.notes)] for pulse in pulses]
    _write_table(path, [[*columns, "notes"], *rows])


def write_beats_csv(path: str | os.PathLike[str], pulses: Sequence[Pulsatility]) -> None:
    """Write the beat-averaged course of flow of regions and its standard error, one row per phase.

    Raises
    ------
    InvalidInput
        If no region has a beat, or the file cannot be written.
    """
    beating = [pulse for pulse in pulses if pulse.has_beat]
    if not beating:
        raise InvalidInput("there is no averaged beat to write: no region has a beat")
    head, columns = ["phase"], [beating[0].phase]
    for pulse in beating:
        head += [f"{pulse.name} {pulse.flow} [1/s]", f"{pulse.name} {pulse.flow} s.e. [1/s]"]
        columns += [pulse.course, pulse.course_error]
    _write_table(path, [head, *(list(row) for row in zip(*(column.tolist() for column in columns), strict=True))])


def _write_table(path: str | os.PathLike[str], rows: list[list[Any]]) -> None:
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)

"""Options of the command ``speckle`` for regions: their time courses and their beat."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.speckle.io import write_beats_csv, write_curves_csv, write_pulsatility_csv
from napari_gpubio.speckle.pulsatility import PulsatilitySettings, region_pulsatility
from napari_gpubio.speckle.regions import RegionCurve

_TABLES = {"curves": "--curves", "pulsatility": "--pulsatility", "beats": "--beats"}


def add_region_options(verb: Any) -> None:
    """Add the options of regions."""
    group = verb.add_argument_group("regions")
    group.add_argument(
        "--regions", type=Path, metavar="FILE",
        help="regions: labels (.tif, .nii), or shapes that napari saved (.csv, in pixels)",
    )  # fmt: skip
    group.add_argument("--curves", type=Path, metavar="FILE", help="write their time courses: .csv")
    group.add_argument("--fps", type=float, metavar="RATE", help="frames per second of the camera")
    group.add_argument(
        "--pulsatility", type=Path, metavar="FILE", help="write beat rate and pulsatility of flow, with --fps: .csv"
    )
    group.add_argument("--beats", type=Path, metavar="FILE", help="write the beat-averaged flow, with --fps: .csv")
    add_settings(verb, PulsatilitySettings(), "pulsatility")


def region_tables(options: argparse.Namespace) -> dict[str, Path]:
    """Return what is to be written where; checked, as far as it can be, before the maps are computed.

    Raises
    ------
    InvalidInput
        If options contradict each other, or a file cannot be written.
    """
    tables = {name: getattr(options, name) for name in _TABLES if getattr(options, name) is not None}
    if options.regions is None and tables:
        raise InvalidInput(f"{_TABLES[next(iter(tables))]} needs regions; give --regions")
    if options.regions is not None and not tables:
        raise InvalidInput("--regions has no meaning without --curves, --pulsatility or --beats; give one of them")
    for name, path in tables.items():
        if path.suffix.lower() != ".csv":
            raise InvalidInput(f"{path.name} does not end in .csv; give it this ending")
        check_folder(path)
        if name != "curves" and options.fps is None:
            raise InvalidInput(f"{_TABLES[name]} needs the frame rate; give --fps")
    if options.fps is not None and not options.fps > 0:
        raise InvalidInput(f"--fps is {options.fps:g}; give the number of frames per second, above 0")
    if {"pulsatility", "beats"} & set(tables):
        read_settings(options, PulsatilitySettings())
    return tables


def write_region_tables(
    options: argparse.Namespace, tables: dict[str, Path], curves: Sequence[RegionCurve]
) -> tuple[list[str], list[str]]:
    """Write the tables of time courses; returns lines about what was written and found, and notes."""
    lines: list[str] = []
    notes: list[str] = []
    if path := tables.get("curves"):
        write_curves_csv(path, curves, None if options.fps is None else curves[0].times_s(options.fps))
        lines.append(str(path))
    if not {"pulsatility", "beats"} & set(tables):
        return lines, notes
    settings = read_settings(options, PulsatilitySettings())
    pulses = [region_pulsatility(curve, options.fps, settings) for curve in curves]
    for name, write in (("pulsatility", write_pulsatility_csv), ("beats", write_beats_csv)):
        if path := tables.get(name):
            write(path, pulses)
            lines.append(str(path))
    lines += [pulse.summary for pulse in pulses]
    return lines, [f"{pulse.name}: {note}" for pulse in pulses if pulse.has_beat for note in pulse.notes]

"""Options of the command ``speckle`` for regions: their time courses and their beat."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.speckle.io import write_beats_csv, write_curves_csv, write_pulsatility_csv
from napari_gpubio.speckle.pulsatility import PulsatilitySettings, region_pulsatility
from napari_gpubio.speckle.regions import RegionCurve

_TABLES = {"curves": "--curves", "pulsatility": "--pulsatility", "beats": "--beats"}
_OF_BEATS = (
    "name", "flow", "rate_bpm", "rate_error_bpm", "slowest_bpm", "fastest_bpm", "index", "index_error", "resistivity",
    "resistivity_error", "beats", "harmonics", "false_alarm",
)  # fmt: skip


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
    if options.regions is not None and not tables and not options.json:
        raise InvalidInput(
            "--regions has no meaning without --curves, --pulsatility, --beats or --json; give one of them"
        )
    for name, path in tables.items():
        if path.suffix.lower() != ".csv":
            raise InvalidInput(f"{path.name} does not end in .csv; give it this ending")
        if name != "curves" and options.fps is None:
            raise InvalidInput(f"{_TABLES[name]} needs the frame rate; give --fps")
    if options.fps is not None and not options.fps > 0:
        raise InvalidInput(f"--fps is {options.fps:g}; give the number of frames per second, above 0")
    if {"pulsatility", "beats"} & set(tables):
        read_settings(options, PulsatilitySettings())
    return tables


def write_region_tables(
    options: argparse.Namespace, tables: dict[str, Path], curves: Sequence[RegionCurve]
) -> Iterator[str]:
    """Write the tables of time courses, tell what was found, and yield lines about the beats."""
    seconds = None if options.fps is None else curves[0].times_s(options.fps)
    if path := tables.get("curves"):
        write_curves_csv(path, curves, seconds)
        wrote(path)
    measured(time_s=seconds, regions=[
        {"name": one.name, "k2": one.k2, "sfi_per_s": one.sfi, "pixels": one.used, "skipped": one.skipped}
        for one in curves
    ])  # fmt: skip
    if not {"pulsatility", "beats"} & set(tables) and not (options.json and options.fps):
        return
    settings = read_settings(options, PulsatilitySettings())
    pulses = [region_pulsatility(curve, options.fps, settings) for curve in curves]
    for name, write in (("pulsatility", write_pulsatility_csv), ("beats", write_beats_csv)):
        if path := tables.get(name):
            write(path, pulses)
            wrote(path)
    yield from (pulse.summary for pulse in pulses)
    tell(f"{pulse.name}: {note}" for pulse in pulses if pulse.has_beat for note in pulse.notes)
    measured(pulsatility=[
        {**{name: getattr(pulse, name) for name in _OF_BEATS}, "mean_flow_per_s": pulse.mean} for pulse in pulses
    ])  # fmt: skip

"""The command-line verb ``napari-gpubio mcml``: runs MCML's input files and writes MCML's output files."""

import argparse
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

from napari_gpubio.core.command_line import (
    STOPPED,
    Writing,
    check_outputs,
    draw_progress,
    integer,
    is_same_file,
    stop_at_interrupt,
)
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import number_text
from napari_gpubio.core.report import measured, wrote
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.arguments import MCX_SUFFIXES
from napari_gpubio.light.io.mci import MciRun, read_mci
from napari_gpubio.light.io.mco import write_mco
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.run import simulate_steps
from napari_gpubio.light.layers.settings import ABSORPTION, LayeredSettings

_EXAMPLE = """example:
  napari-gpubio mcml skin.mci --device cuda:all

Each run's output file has the name that skin.mci gives it and lies beside skin.mci, or in --out-folder.
Ctrl-C ends the work early: what the current run has done is written."""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "mcml",
        help="run MCML input files (.mci)",
        description="Trace photons through planar layers: all runs of an MCML input file, an .mco file for each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLE,
    )
    defaults = LayeredSettings()
    verb.add_argument("input", type=Path, help="MCML input file (.mci)")
    verb.add_argument(
        "-A", "--no-absorption", dest="absorption", action="store_const", const="off", default=defaults.absorption,
        help="reflectance and transmittance only, which is faster; A_z and A_rz in the files are 0",
    )  # fmt: skip
    verb.add_argument("--photons", type=integer, metavar="N", help="photons of each run (default: that of the file)")
    verb.add_argument(
        "-S", "--seed", type=int, default=defaults.seed, metavar="S",
        help=f"of the first run; each further run has the next one (default: {defaults.seed})",
    )  # fmt: skip
    verb.add_argument(
        "--absorption", choices=ABSORPTION,
        help="absorption beyond the grid: collected in the outermost bins as MCML does, or dropped from A_z and A_rz "
        f"as GPU-MCML does; off: as -A (default: {defaults.absorption})",
    )  # fmt: skip
    verb.add_argument("--out-folder", type=Path, metavar="FOLDER", help="where the output files go")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    runs = _runs(options)
    paths = _output_paths([one.output for one in runs], options)
    writing, complete, found = Writing(), True, []
    for result, path in _results(runs, paths, choose_device(options.device)):
        complete = result.complete
        print("\n".join(_table_lines(result, path.name)))
        parts = {name: getattr(result, name) for name in ("diffuse_reflectance", "absorbed", "transmittance")}
        found.append({"output": path.name, "photons": result.launched, "specular_reflectance": result.specular}
                     | {name: {"value": part[0], "error": part[1]} for name, part in parts.items()})  # fmt: skip
        with writing.attempt():  # the other runs are still worth their time
            if result.launched:
                write_mco(path, result)
                wrote(path)
    measured(runs=found)
    writing.finish()
    return 0 if complete else STOPPED


def _runs(options: argparse.Namespace) -> list[MciRun]:
    """Runs of the file, as the arguments change them."""
    if options.input.suffix.lower() in MCX_SUFFIXES:
        raise InvalidInput(f"{options.input.name} is named like an input file of MCX; run it with napari-gpubio light")
    changes: dict[str, Any] = {"absorption": options.absorption}
    if options.photons is not None:
        changes["photons"] = options.photons
    # a seed for each run: two runs of the same layers are made to see how they vary
    return [
        dataclasses.replace(one, settings=dataclasses.replace(one.settings, seed=options.seed + index, **changes))
        for index, one in enumerate(read_mci(options.input))
    ]


def _output_paths(names: Sequence[str], options: argparse.Namespace) -> list[Path]:
    """Where the output files go; what is wrong with them is found before the simulation, not after it."""
    paths: list[Path] = []
    for name in map(PureWindowsPath, names):  # it takes paths of any system apart
        if options.out_folder is None:
            path = options.input.parent / name.as_posix()
        else:
            path = options.out_folder / (name.name if name.anchor else name.as_posix())
        _check_output(path, options.input)
        if any(is_same_file(path, other) for other in paths):
            raise InvalidInput(f"two runs would write {path}; rename one of their output files in {options.input.name}")
        paths.append(path)
    check_outputs({f"the output of run {n}": path for n, path in enumerate(paths, 1)}, {}, force=options.force)
    return paths


def _check_output(path: Path, source: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder {path.parent} does not exist; create it or choose another with --out-folder")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(f"nothing can be written into {path.parent}; choose another folder with --out-folder")
    if path.is_dir():
        raise InvalidInput(f"the output file {path} is a folder; rename it in {source.name}")
    if path.resolve() == source.resolve():
        raise InvalidInput(f"the output file {path} is the input file itself; rename it in {source.name}")


def _results(runs: Sequence[MciRun], paths: Sequence[Path], device: Device) -> Iterator[tuple[LayeredResult, Path]]:
    """Simulate run after run; Ctrl-C ends the current one with what was done, and all of them with it."""
    with stop_at_interrupt() as stop:
        for number, (one, path) in enumerate(zip(runs, paths, strict=True), 1):
            steps = simulate_steps(one.medium, one.settings, device=device, stop=stop)
            result = drive(steps, functools.partial(_draw_progress, f"run {number} of {len(runs)}: "))
            yield result, path
            if not result.complete:
                return


def _draw_progress(label: str, step: Step) -> None:
    draw_progress(dataclasses.replace(step, message=label + step.message))


def _table_lines(result: LayeredResult, name: str) -> Iterator[str]:
    """Summary of a run: the fractions of the launched light with their standard errors."""
    photons = f"{result.launched:,}" + ("" if result.complete else f" of {result.settings.photons:,}")
    yield f"{name}: {photons} photons in {result.parameters['seconds']:.2f} s on {result.parameters['device']}"
    yield f"  Rsp specular reflectance  {result.specular:.6g}"
    rows = (
        ("Rd", "diffuse reflectance", result.diffuse_reflectance),
        ("A", "absorbed", result.absorbed),
        ("T", "transmittance", result.transmittance),
    )
    for symbol, words, estimate in rows:
        yield f"  {symbol:4}{words:22}{number_text(*estimate)}"

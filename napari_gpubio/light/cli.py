"""The command-line verb ``napari-gpubio light``: from labels and a table of optical properties to fluence."""

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import (
    STOPPED,
    Writing,
    check_outputs,
    draw_progress,
    is_same_file,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Keeper, left_by
from napari_gpubio.core.layer_files import described_files, sidecar_path
from napari_gpubio.core.operations.commands import add_verb as add_operation
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import measured, warn, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.light.arguments import (
    add_case,
    check_partners,
    detectors_of,
    domain_of,
    given_case,
    media_by_wavelength,
    settings_of,
    source_of,
)
from napari_gpubio.light.findings import findings
from napari_gpubio.light.forward import cli as forward
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.mcx.output import McxCase
from napari_gpubio.light.io.results import load_each_unfinished, load_result, load_unfinished, save_result_steps
from napari_gpubio.light.io.volumes import write_fluence_steps
from napari_gpubio.light.jacobians.cli import add_replay, check_replay, jacobian_outputs, run_replay
from napari_gpubio.light.layers.operations import RunMci
from napari_gpubio.light.mcx_cli import mcx_case, mcx_outputs, simulate_case, write_case
from napari_gpubio.light.model import Medium
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.spectrum import spectrum
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.light.summary import NumberRow, number_rows, write_csv, write_spectrum
from napari_gpubio.light.surface import source_problem

# Files that are written, and how their names end; the writers check the others.
_OUTPUTS = {"out": "", "result": ".npz", "numbers": ".csv", "spectrum": ".csv", "jacobian": "", "trajectories": ".npz"}
_EXAMPLE = """example:
  napari-gpubio light head.nii.gz --properties head.csv --source fiber --radius-mm 0.2 --position 0 0 80 \\
      --detector 30 0 75 1.5 --photons 10000000 --out fluence.nii.gz --result head.npz

  napari-gpubio light head.nii.gz --wavelengths 690:830:10 --tissue 1 'scalp (Strangman 2003)' \\
      --tissue 2 'skull (Strangman 2003)' --position 0 0 80 --detector 30 0 75 1.5 --spectrum light.csv

  napari-gpubio light case.json --device cuda:0

  napari-gpubio light --resume head.npz --jacobian jacobians.npz --jacobian-of mua musp --jacobian-frequency-mhz 100

Ctrl-C ends a run early: what was done is written. --result keeps it every 8 s, too; the same command, or
--resume head.npz, goes on with it."""


def add_verb(verbs: Any) -> None:
    """Add the verbs ``light``, ``mcml`` and ``forward`` to the command line."""
    add_operation(verbs, RunMci)
    forward.add_verb(verbs)
    verb = verbs.add_parser(
        "light",
        help="simulate light in a label volume",
        description="Trace photons through a label volume; write fluence, print where the energy went.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # the source's kind is also given as --source
        epilog=_EXAMPLE,
    )
    verb.add_argument(
        "labels", type=Path, nargs="?",
        help="label volume (NIfTI), 0 is outside; or an MCX input file (.json, .inp), which has all the rest: it is "
        "run as it is, with --photons if given, and what MCX would write is written to the current folder",
    )  # fmt: skip
    verb.add_argument("--resume", type=Path, metavar="FILE", help="result to go on with; all but --photons is from it")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.add_argument(
        "--srcid", type=int, metavar="N",
        help="of an MCX file with several sources: 0 all of them together (usual), -1 each separately, or one, from 1",
    )  # fmt: skip
    add_case(verb)
    _add_outputs(verb)
    add_replay(verb)
    verb.set_defaults(run=run, photons=None)  # None: not given, so that --resume takes those of its result


def _add_outputs(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("results")
    group.add_argument("--out", type=Path, help="fluence as NIfTI, with a JSON file beside it")
    group.add_argument("--each-gate", action="store_true", help="one volume for each time gate in --out")
    group.add_argument(
        "--result", type=Path, metavar="FILE.npz", help="the whole result, to load or resume; kept every 8 s"
    )
    group.add_argument("--numbers", type=Path, metavar="FILE.csv", help="the printed table in full digits")
    group.add_argument("--spectrum", type=Path, metavar="FILE.csv", help="detected light at --wavelengths")
    group.add_argument("--power-mw", type=float, help="the source's power: fluence rate in mW/mm²")
    group.add_argument("--energy-j", type=float, help="the source's energy: fluence in J/cm²")
    group.add_argument("--threshold", type=float, help="print the volume of each label above this fluence")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    unit = _unit(options)
    check_partners(options)
    _check_names(options)
    case = mcx_case(options)
    earlier = _earlier(options, case)
    goes_on = options.result is not None and is_same_file(options.result, options.resume or options.result)
    _check_outputs(options, case, goes_on=goes_on and any(earlier))
    by_wavelength = media_by_wavelength(options)
    if case is None:
        results = _simulate(options, by_wavelength, *earlier)
    else:
        results = simulate_case(options, case, earlier, _result_files(options, case))
    tables = []
    for number, result in enumerate(results, 1):
        rows = number_rows(result, unit=unit, threshold=options.threshold)
        if len(results) > 1:
            what = "Source" if case is None or case.patterns is None else "Pattern"
            print(f"{what} {number} of {len(results)}")
        print("\n".join(table_lines(rows)))
        tables.append([_plain(row) for row in rows])
        for finding in findings(result):
            note(f"{finding.status}: {finding.sentence}")
    measured(results=tables)
    writing = Writing()
    for result, suffix in reversed(list(zip(results, _suffixes(len(results)), strict=True))):
        _write(result, suffix, unit, options, writing)  # the first file is what a run for patterns goes on with
    complete = all(result.complete for result in results)
    if case is not None:
        complete &= write_case(options, case, results, writing)
    if by_wavelength:
        with writing.attempt():
            _write_spectrum(results[0], by_wavelength, options.spectrum)
    complete &= run_replay(options, results[0], writing)
    writing.finish()
    return 0 if complete else STOPPED


# -- what is simulated ------------------------------------------------------------------------------------------------


def _earlier(options: argparse.Namespace, case: McxCase | None) -> tuple[LightResult | None, ...]:
    """The results to go on with: that of ``--resume``, or what a run that did not end has left as ``--result``."""
    if options.resume is not None:
        _check_resume(options)
        return (load_result(options.resume),)
    files = _result_files(options, case)
    if case is not None and case.separately:
        return load_each_unfinished(files)
    return (left_by(files[0], load_unfinished),) if files else (None,)


def _result_files(options: argparse.Namespace, case: McxCase | None) -> list[Path]:
    """The files of ``--result``, one for each result."""
    suffixes = _suffixes(1 if case is None else case.results)
    return [] if options.result is None else [_numbered(options.result, suffix) for suffix in suffixes]


def _simulate(
    options: argparse.Namespace, by_wavelength: Mapping[float, tuple[Medium, ...]], earlier: LightResult | None
) -> tuple[LightResult, ...]:
    """Run the simulation; Ctrl-C ends it with what was done."""
    how: dict[str, Any] = {"device": options.device, "resume": earlier}
    if options.resume is None or earlier is None:
        domain = domain_of(options, by_wavelength)
        source, settings = source_of(options, domain), settings_of(options)
        how["detectors"] = detectors_of(options)
        if problem := source_problem(domain.labels, domain.affine, source):
            warn(problem)
        case: tuple[Any, ...] = domain, source, settings
    else:
        photons = earlier.settings.photons if options.photons is None else options.photons
        settings = dataclasses.replace(earlier.settings, photons=photons)
        how["detectors"] = earlier.detectors
        case = earlier.domain, earlier.source, settings
    goes_on = earlier is not None and options.resume is None
    keep = Keeper(options.result, save_result_steps, draw_progress, goes_on=goes_on)
    with stop_at_interrupt() as stop:
        steps = simulate_steps(*case, stop=stop, **how)
        return (drive(guided_steps(steps, device=options.device), keep),)


def _check_resume(options: argparse.Namespace) -> None:
    if options.labels is not None:
        raise InvalidInput("--resume takes the labels from its result; leave the label volume out")
    if given := [name for name in given_case(options) if name not in ("--wavelengths", "--tissue")]:
        raise InvalidInput(f"--resume goes on with what its result says; leave {given[0]} out")


# -- what comes out ---------------------------------------------------------------------------------------------------


def _unit(options: argparse.Namespace) -> FluenceUnit:
    if options.power_mw is not None and options.energy_j is not None:
        raise InvalidInput("both --power-mw and --energy-j are given; fluence has one unit, so give one of them")
    if options.power_mw is None and options.energy_j is None:
        return PER_PHOTON
    return fluence_units(power_mw=options.power_mw, energy_j=options.energy_j)[-1]


def _check_names(options: argparse.Namespace) -> None:
    """Find out before the simulation, not after it, whether its results can be printed and written."""
    if options.threshold is not None and not options.threshold >= 0:
        raise InvalidInput(f"the threshold is {options.threshold}; it must not be negative")
    if options.out is not None:
        sidecar_path(options.out)
    check_replay(options)
    outputs = {f"--{name}": getattr(options, name) for name in _OUTPUTS}
    for name, suffix in _OUTPUTS.items():
        path = outputs[f"--{name}"]
        if path is not None and suffix and path.suffix.lower() != suffix:
            raise InvalidInput(f"{path.name} does not end in {suffix}; give it this ending")


def _check_outputs(options: argparse.Namespace, case: McxCase | None, *, goes_on: bool) -> None:
    """Find out before the simulation where its files go, and whether they would replace others."""
    outputs: dict[str, Path | None] = {f"--{name}": getattr(options, name) for name in ("spectrum", "trajectories")}
    outputs |= jacobian_outputs(options)
    for suffix in _suffixes(1 if case is None else case.results):
        for name in ("out", "result", "numbers"):
            if (path := getattr(options, name)) is not None:
                files = described_files(_numbered(path, suffix)) if name == "out" else {"file": _numbered(path, suffix)}
                outputs |= {f"the {what}{suffix} of --{name}": file for what, file in files.items()}
    inputs = {name: getattr(options, name) for name in ("properties", "mua", "mus", "g", "n", "tensor", "pattern")}
    inputs |= {"labels": options.labels} if case is None else {f"input {path.name}": path for path in case.inputs}
    outputs |= {} if case is None else mcx_outputs(case)
    inputs["--resume"] = None if goes_on else options.resume
    check_outputs(outputs, inputs, force=options.force, continued=_result_files(options, case) if goes_on else None)


def _suffixes(results: int) -> list[str]:
    """What the names of the files of each result have before their ending."""
    return [f"_{number}" for number in range(1, results + 1)] if results > 1 else [""]


def _write(result: LightResult, suffix: str, unit: FluenceUnit, options: argparse.Namespace, writing: Writing) -> None:
    """Write every requested file of a result, with something more in its name where there are several results."""
    writers: list[tuple[Path | None, Callable[[Path], object]]] = [
        (options.result, lambda path: drive(save_result_steps(path, result), draw_progress)),
        (
            options.out,
            lambda path: drive(write_fluence_steps(path, result, unit=unit, gates=options.each_gate), draw_progress),
        ),
        (
            options.numbers,
            lambda path: write_csv(path, number_rows(result, unit=unit, threshold=options.threshold)),
        ),
    ]
    for path, write in writers:
        if path is None:
            continue
        path = _numbered(path, suffix)
        with writing.attempt():
            write(path)
            wrote(path)


def _numbered(path: Path, suffix: str) -> Path:
    """The path with something more before the ending of its name."""
    ending = ".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix
    stem, end = path.name[: len(path.name) - len(ending)], path.name[len(path.name) - len(ending) :]
    return path.with_name(stem + suffix + end)


def _write_spectrum(result: LightResult, by_wavelength: Mapping[float, tuple[Medium, ...]], path: Path) -> None:
    """Write the spectrum of detected light, which has the scattering of one wavelength, and what it warns of."""
    note("fluence and the numbers are those of the run, not of a wavelength: the least absorption of all")
    found = spectrum(result, by_wavelength, keep_scattering=True)
    for sentence in found.warnings:
        warn(sentence)
    write_spectrum(path, found)
    wrote(path)
    measured(spectrum=list(found.rows()))


def _plain(row: NumberRow) -> dict[str, Any]:
    """A row for JSON."""
    return {name: getattr(row, name) for name in ("group", "name", "label", "value", "error", "unit", "note")}


def table_lines(rows: Sequence[NumberRow]) -> Iterator[str]:
    """Lines of a table of numbers for a terminal: a heading for each group, then names, numbers and units."""
    width = max((len(row.name) for row in rows), default=0)
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            yield group
        note = f"  ({row.note})" if row.note else ""
        yield f"  {row.name:{width}}  {row.text} {row.unit}".rstrip() + note

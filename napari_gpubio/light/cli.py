"""The command-line verb ``napari-gpubio light``: from labels and a table of optical properties to fluence."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import STOPPED, add_settings, draw_progress, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.core.layer_files import sidecar_path
from napari_gpubio.core.steps import drive
from napari_gpubio.light.arguments import (
    MCX_SUFFIXES,
    add_source,
    add_tissue,
    detectors_of,
    domain_of,
    media_by_wavelength,
    settings_of,
    source_of,
)
from napari_gpubio.light.detectors import FACES, AnyDetector
from napari_gpubio.light.findings import findings
from napari_gpubio.light.forward import cli as forward
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.output import MOST_TRAJECTORIES, McxCase, McxReplayed, write_mcx_output
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.io.volumes import write_fluence
from napari_gpubio.light.jacobians.cli import add_replay, check_replay, run_replay, wants_replay
from napari_gpubio.light.jacobians.replay import replay_steps
from napari_gpubio.light.layers import cli as mcml
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.patterns import simulate_patterns_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_each_steps, simulate_steps
from napari_gpubio.light.settings import FACE_RULES, LightSettings
from napari_gpubio.light.source import AnySource, Source, all_sources
from napari_gpubio.light.spectrum import spectrum
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.light.summary import NumberRow, number_rows, write_csv, write_spectrum
from napari_gpubio.light.surface import source_problem
from napari_gpubio.light.trajectories import trajectories_steps

_EXAMPLE = """example:
  napari-gpubio light head.nii.gz --properties head.csv --source fiber --radius-mm 0.2 --position 0 0 80 \\
      --detector 30 0 75 1.5 --photons 10000000 --out fluence.nii.gz --result head.npz

  napari-gpubio light head.nii.gz --wavelengths 690:830:10 --tissue 1 'scalp (Strangman 2003)' \\
      --tissue 2 'skull (Strangman 2003)' --position 0 0 80 --detector 30 0 75 1.5 --spectrum light.csv

  napari-gpubio light case.json --device cuda:0

  napari-gpubio light --resume head.npz --jacobian jacobians.npz --jacobian-of mua musp --jacobian-frequency-mhz 100

Ctrl-C ends a run early: what was done is written, and --resume head.npz goes on with it."""


def add_verb(verbs: Any) -> None:
    """Add the verbs ``light``, ``mcml`` and ``forward`` to the command line."""
    mcml.add_verb(verbs)
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
    add_tissue(verb)
    verb.add_argument("--resume", type=Path, metavar="FILE", help="result to go on with; all but --photons is from it")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.add_argument(
        "--srcid", type=int, metavar="N",
        help="of an MCX file with several sources: 0 all of them together (usual), -1 each separately, or one, from 1",
    )  # fmt: skip
    add_source(verb)
    add_settings(verb, LightSettings(), "simulation")
    verb.add_argument("--time-gates-ns", type=float, nargs="+", metavar="EDGE", help="edges of time gates, ns")
    verb.add_argument(
        "--faces",
        nargs=6,
        metavar="RULE",
        help=f"for the faces {', '.join(FACES)}: one of {', '.join(FACE_RULES)} each",
    )
    _add_outputs(verb)
    add_replay(verb)
    verb.set_defaults(run=run, photons=None)  # None: not given, so that --resume takes those of its result


def _add_outputs(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("results")
    group.add_argument("--out", type=Path, help="fluence as NIfTI, with a JSON file beside it")
    group.add_argument("--each-gate", action="store_true", help="one volume for each time gate in --out")
    group.add_argument("--result", type=Path, metavar="FILE.npz", help="the whole result, to load or resume")
    group.add_argument("--numbers", type=Path, metavar="FILE.csv", help="the printed table in full digits")
    group.add_argument("--spectrum", type=Path, metavar="FILE.csv", help="detected light at --wavelengths")
    group.add_argument("--power-mw", type=float, help="the source's power: fluence rate in mW/mm²")
    group.add_argument("--energy-j", type=float, help="the source's energy: fluence in J/cm²")
    group.add_argument("--threshold", type=float, help="print the volume of each label above this fluence")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    unit = _unit(options)
    _check_outputs(options)
    case = _mcx_case(options)
    if case is not None and (case.separately or case.patterns is not None) and wants_replay(options):
        raise InvalidInput("--jacobian and --trajectories are of one run; choose one source with --srcid, or 0 for all")
    by_wavelength = media_by_wavelength(options)
    results = _simulate(options, case, by_wavelength)
    for number, result in enumerate(results, 1):
        rows = number_rows(result, unit=unit, threshold=options.threshold)
        if len(results) > 1:
            print(f"{_many(case)} {number} of {len(results)}")
        print("\n".join(table_lines(rows)))
        for finding in findings(result):
            print(f"{finding.status}: {finding.sentence}", file=sys.stderr)
    _write(results, unit, options, case)
    if by_wavelength:
        _write_spectrum(results[0], by_wavelength, options.spectrum)
    run_replay(options, results[0])
    return 0 if all(result.complete for result in results) else STOPPED


def _many(case: McxCase | None) -> str:
    """What there are several results of."""
    return "Pattern" if case is not None and case.patterns is not None else "Source"


# -- what is simulated ------------------------------------------------------------------------------------------------


def _mcx_case(options: argparse.Namespace) -> McxCase | None:
    """The case of an MCX input file, or None where labels are given."""
    if options.labels is None or options.labels.suffix.lower() not in MCX_SUFFIXES or options.resume is not None:
        if options.srcid is not None:
            raise InvalidInput("--srcid chooses a source of an MCX input file; leave it out here")
        return None
    own = {field.name: field.default for kind in (LightSettings, Source) for field in dataclasses.fields(kind)}
    own |= {"photons": options.photons, "properties": None, "mua": None, "mus": None, "outside_n": 1.0}
    own |= {"g": None, "n": None, "detector_face": []}
    own |= {"air_in_cavities": False, "position": None, "pattern": None, "detector": [], "time_gates_ns": None}
    own |= {"faces": None, "direction": None, "width_axis": None, "wavelengths": None, "tissue": []}
    own |= {"tensor": None, "fiber_labels": None}
    if given := [name for name, value in own.items() if getattr(options, name, value) != value]:
        raise InvalidInput(
            f"{options.labels.name} is an MCX input file, which has its own {given[0].replace('_', ' ')}; leave "
            f"--{given[0].replace('_', '-')} out, or change the file"
        )
    case = read_mcx(options.labels, options.srcid)
    case.check_output()
    for note in case.notes:
        print(f"note: {note}", file=sys.stderr)
    return case


def _simulate(
    options: argparse.Namespace, case: McxCase | None, by_wavelength: Mapping[float, tuple[Medium, ...]]
) -> tuple[LightResult, ...]:
    """Run the simulation; Ctrl-C ends it with what was done. There is a result for each pattern, or separate source."""
    earlier: LightResult | None = None
    domain: Domain
    source: AnySource
    detectors: Sequence[AnyDetector]
    if case is not None:
        domain, source, detectors = case.domain, case.source, case.detectors
        settings = dataclasses.replace(case.settings, photons=options.photons or case.settings.photons)
    elif options.resume is None:
        domain = domain_of(options, by_wavelength)
        source, settings, detectors = source_of(options, domain), settings_of(options), detectors_of(options)
    else:
        if options.labels is not None:
            raise InvalidInput("--resume takes the labels from its result; leave the label volume out")
        earlier = load_result(options.resume)
        domain, source, detectors = earlier.domain, earlier.source, earlier.detectors
        photons = earlier.settings.photons if options.photons is None else options.photons
        settings = dataclasses.replace(earlier.settings, photons=photons)
    for one in all_sources(source) if earlier is None else ():
        if problem := source_problem(domain.labels, domain.affine, one):
            print(f"warning: {problem}", file=sys.stderr)
    with stop_at_interrupt() as stop:
        how: dict[str, Any] = {"detectors": detectors, "device": options.device, "stop": stop}
        if case is not None and case.patterns is not None:
            return drive(
                simulate_patterns_steps(domain, all_sources(source)[0], case.patterns, settings, **how), draw_progress
            ).results
        if case is not None and case.separately:
            settings = _shared_out(settings, len(case.sources))
            return drive(simulate_each_steps(domain, case.sources, settings, **how), draw_progress)
        steps = simulate_steps(domain, source, settings, resume=earlier, **how)
        return (drive(guided_steps(steps, device=options.device), draw_progress),)


def _shared_out(settings: LightSettings, sources: int) -> LightSettings:
    """Settings of each of several sources, which share the photons out as in MCX."""
    return dataclasses.replace(settings, photons=max(1, settings.photons // sources))


# -- what comes out ---------------------------------------------------------------------------------------------------


def _unit(options: argparse.Namespace) -> FluenceUnit:
    if options.power_mw is not None and options.energy_j is not None:
        raise InvalidInput("both --power-mw and --energy-j are given; fluence has one unit, so give one of them")
    if options.power_mw is None and options.energy_j is None:
        return PER_PHOTON
    return fluence_units(power_mw=options.power_mw, energy_j=options.energy_j)[-1]


def _check_outputs(options: argparse.Namespace) -> None:
    """Find out before the simulation, not after it, whether its results can be printed and written."""
    if options.threshold is not None and not options.threshold >= 0:
        raise InvalidInput(f"the threshold is {options.threshold}; it must not be negative")
    if options.out is not None:
        sidecar_path(options.out)
    check_replay(options)
    endings = ((options.result, ".npz"), (options.numbers, ".csv"), (options.spectrum, ".csv"))
    for path, suffix in (*endings, (options.trajectories, ".npz")):
        if path is not None and path.suffix.lower() != suffix:
            raise InvalidInput(f"{path.name} does not end in {suffix}; give it this ending")
    written = (options.out, options.result, options.numbers, options.spectrum, options.jacobian, options.trajectories)
    for path in written:
        if path is not None:
            check_folder(path)


def _write(
    results: Sequence[LightResult], unit: FluenceUnit, options: argparse.Namespace, case: McxCase | None
) -> None:
    """Write every requested file; one that cannot be written does not keep the others from being written.

    Of several results, each has files of its own, whose names end in its number.
    """
    problems = []
    if case is not None:
        try:
            replayed = _mcx_replayed(options, case, results[0])
            print(*write_mcx_output(Path(), case, results, replayed=replayed), sep="\n")
        except (InvalidInput, OSError) as error:
            problems.append(str(error))
    for number, result in enumerate(results, 1):
        problems += _write_one(result, f"_{number}" if len(results) > 1 else "", unit, options)
    if problems:
        raise InvalidInput("\n".join(problems))


def _write_one(result: LightResult, suffix: str, unit: FluenceUnit, options: argparse.Namespace) -> list[str]:
    """Write every requested file of a result; returns what went wrong."""
    writers: list[tuple[Path | None, Callable[[Path], object]]] = [
        (options.result, lambda path: save_result(path, result)),
        (options.out, lambda path: write_fluence(path, result, unit=unit, gates=options.each_gate)),
        (
            options.numbers,
            lambda path: write_csv(path, number_rows(result, unit=unit, threshold=options.threshold)),
        ),
    ]
    problems = []
    for path, write in writers:
        if path is None:
            continue
        path = _numbered(path, suffix)
        try:
            write(path)
        except (InvalidInput, OSError) as error:
            problems.append(str(error))
        else:
            print(path)
    return problems


def _numbered(path: Path, suffix: str) -> Path:
    """The path with something more before the ending of its name."""
    ending = ".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix
    stem, end = path.name[: len(path.name) - len(ending)], path.name[len(path.name) - len(ending) :]
    return path.with_name(stem + suffix + end)


def _write_spectrum(result: LightResult, by_wavelength: Mapping[float, tuple[Medium, ...]], path: Path) -> None:
    """Write the spectrum of detected light, which has the scattering of one wavelength, and what it warns of."""
    print("note: fluence and the numbers above are those of the run, not of a wavelength: the least absorption of all.")
    found = spectrum(result, by_wavelength, keep_scattering=True)
    for sentence in found.warnings:
        print(f"warning: {sentence}", file=sys.stderr)
    write_spectrum(path, found)
    print(path)


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


def _mcx_replayed(options: argparse.Namespace, case: McxCase, result: LightResult) -> McxReplayed:
    """Trace photons again, if an MCX input file asks for what takes that."""
    jacobians, ways = None, None
    with stop_at_interrupt() as stop:
        if case.replays:
            steps = replay_steps(
                result, of=("mua", "mus") if case.output_type == "p" else ("mua",),
                gates_ns=None if case.output_type == "r" else case.settings.time_gates_ns,
                frequency_mhz=case.frequency_mhz if case.output_type == "r" else None,
                detectors=sorted(set(result.detected.detector.tolist())) or None, device=options.device, stop=stop,
            )  # fmt: skip
            jacobians = drive(steps, draw_progress)
        if case.trajectories:
            photons = None if case.replays else min(MOST_TRAJECTORIES, case.settings.photons)
            ways = drive(trajectories_steps(result, photons, device=options.device, stop=stop), draw_progress)
    return McxReplayed(jacobians, ways)

"""The command-line verb ``napari-gpubio light``: from labels and a table of optical properties to fluence."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import STOPPED, add_settings, draw_progress, read_settings, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.core.layer_files import sidecar_path
from napari_gpubio.core.steps import drive
from napari_gpubio.light.detectors import FACES, AnyDetector, Detector, FaceDetector
from napari_gpubio.light.findings import findings
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.output import McxCase, write_mcx_output
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.io.volumes import read_domain, read_irradiance, write_fluence
from napari_gpubio.light.layers import cli as mcml
from napari_gpubio.light.model import Domain
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.settings import FACE_RULES, LightSettings
from napari_gpubio.light.source import KINDS, Source
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.light.summary import NumberRow, number_rows, write_csv
from napari_gpubio.light.surface import ALL_ROUND, inward_normal, source_problem

_POINT = ("X", "Y", "Z")
MCX_SUFFIXES = (".json", ".inp", ".mcxp")
_EXAMPLE = """example:
  napari-gpubio light head.nii.gz --properties head.csv --source fiber --radius-mm 0.2 --position 0 0 80 \\
      --detector 30 0 75 1.5 --photons 10000000 --out fluence.nii.gz --result head.npz

  napari-gpubio light case.json --device cuda:0

Ctrl-C ends a run early: what was done is written, and --resume head.npz goes on with it."""


def add_verb(verbs: Any) -> None:
    """Add the verbs ``light`` and ``mcml`` to the command line."""
    mcml.add_verb(verbs)
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
    verb.add_argument(
        "--properties", type=Path, help="table of optical properties, .csv or .json: label, mua_per_mm, …"
    )
    verb.add_argument("--outside-n", type=float, default=1.0, help="refractive index outside (default: 1)")
    verb.add_argument("--mua", type=Path, metavar="FILE", help="volume of absorption coefficients instead, 1/mm")
    verb.add_argument("--mus", type=Path, metavar="FILE", help="volume of scattering coefficients instead, 1/mm")
    verb.add_argument("--g", type=Path, metavar="FILE", help="volume of the anisotropy g instead")
    verb.add_argument("--n", type=Path, metavar="FILE", help="volume of the refractive index instead")
    verb.add_argument(
        "--air-in-cavities", action="store_true", help="let light cross voxels of label 0 that tissue encloses, as air"
    )
    verb.add_argument("--resume", type=Path, metavar="FILE", help="result to go on with; all but --photons is from it")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    _add_source(verb)
    add_settings(verb, LightSettings(), "simulation")
    verb.add_argument("--time-gates-ns", type=float, nargs="+", metavar="EDGE", help="edges of time gates, ns")
    verb.add_argument(
        "--faces",
        nargs=6,
        metavar="RULE",
        help=f"for the faces {', '.join(FACES)}: one of {', '.join(FACE_RULES)} each",
    )
    _add_outputs(verb)
    verb.set_defaults(run=run, photons=None)  # None: not given, so that --resume takes those of its result


def _add_source(verb: argparse.ArgumentParser) -> None:
    add_settings(verb, Source(), "size of the source, where its kind has one")
    group = verb.add_argument_group("source and detectors")
    group.add_argument(
        "--source", "--kind", dest="kind", choices=tuple(KINDS), default="pencil", metavar="KIND",
        help=f"one of {', '.join(KINDS)} (default: pencil)",
    )  # fmt: skip
    group.add_argument("--position", type=float, nargs=3, metavar=_POINT, help="of the source, world mm")
    group.add_argument(
        "--direction", type=float, nargs=3, metavar=_POINT, help="of emission (default: normally into the tissue)"
    )
    group.add_argument("--width-axis", type=float, nargs=3, metavar=_POINT, help="direction of a rectangle's width")
    group.add_argument("--pattern", type=Path, metavar="IMAGE", help="image whose gray values are the irradiance")
    group.add_argument(
        "--detector", type=float, nargs=4, action="append", default=[], metavar=(*_POINT, "RADIUS"), help="sphere, mm"
    )
    group.add_argument(
        "--detector-face", action="append", default=[], choices=FACES, metavar="FACE",
        help=f"whole face of the grid, one of {', '.join(FACES)} (written --detector-face=-k)",
    )  # fmt: skip


def _add_outputs(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("results")
    group.add_argument("--out", type=Path, help="fluence as NIfTI, with a JSON file beside it")
    group.add_argument("--each-gate", action="store_true", help="one volume for each time gate in --out")
    group.add_argument("--result", type=Path, metavar="FILE.npz", help="the whole result, to load or resume")
    group.add_argument("--numbers", type=Path, metavar="FILE.csv", help="the printed table in full digits")
    group.add_argument("--power-mw", type=float, help="the source's power: fluence rate in mW/mm²")
    group.add_argument("--energy-j", type=float, help="the source's energy: fluence in J/cm²")
    group.add_argument("--threshold", type=float, help="print the volume of each label above this fluence")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    unit = _unit(options)
    _check_outputs(options)
    case = _mcx_case(options)
    result = _simulate(options, case)
    rows = number_rows(result, unit=unit, threshold=options.threshold)
    print("\n".join(table_lines(rows)))
    for finding in findings(result):
        print(f"{finding.status}: {finding.sentence}", file=sys.stderr)
    _write(result, rows, unit, options, case)
    return 0 if result.complete else STOPPED


# -- what is simulated ------------------------------------------------------------------------------------------------


def _mcx_case(options: argparse.Namespace) -> McxCase | None:
    """The case of an MCX input file, or None where labels are given."""
    if options.labels is None or options.labels.suffix.lower() not in MCX_SUFFIXES or options.resume is not None:
        return None
    own = {field.name: field.default for kind in (LightSettings, Source) for field in dataclasses.fields(kind)}
    own |= {"photons": options.photons, "properties": None, "mua": None, "mus": None, "outside_n": 1.0}
    own |= {"g": None, "n": None, "detector_face": []}
    own |= {"air_in_cavities": False, "position": None, "pattern": None, "detector": [], "time_gates_ns": None}
    own |= {"faces": None, "direction": None, "width_axis": None}
    if given := [name for name, value in own.items() if getattr(options, name, value) != value]:
        raise InvalidInput(
            f"{options.labels.name} is an MCX input file, which has its own {given[0].replace('_', ' ')}; leave "
            f"--{given[0].replace('_', '-')} out, or change the file"
        )
    case = read_mcx(options.labels)
    case.check_output()
    for note in case.notes:
        print(f"note: {note}", file=sys.stderr)
    return case


def _simulate(options: argparse.Namespace, case: McxCase | None) -> LightResult:
    """Run the simulation; Ctrl-C ends it with what was done."""
    earlier = None
    if case is not None:
        domain, source, detectors = case.domain, case.source, case.detectors
        settings = dataclasses.replace(case.settings, photons=options.photons or case.settings.photons)
    elif options.resume is None:
        domain = _domain(options)
        source, settings, detectors = _source(options, domain), _settings(options), _detectors(options)
    else:
        if options.labels is not None:
            raise InvalidInput("--resume takes the labels from its result; leave the label volume out")
        earlier = load_result(options.resume)
        domain, source, detectors = earlier.domain, earlier.source, earlier.detectors
        photons = earlier.settings.photons if options.photons is None else options.photons
        settings = dataclasses.replace(earlier.settings, photons=photons)
    if earlier is None and (problem := source_problem(domain.labels, domain.affine, source)):
        print(f"warning: {problem}", file=sys.stderr)
    with stop_at_interrupt() as stop:
        steps = simulate_steps(
            domain, source, settings, detectors=detectors, device=options.device, resume=earlier, stop=stop
        )
        return drive(guided_steps(steps, device=options.device), draw_progress)


def _domain(options: argparse.Namespace) -> Domain:
    if options.labels is None or options.properties is None:
        raise InvalidInput("give a label volume and --properties TABLE, or --resume RESULT")
    media = read_table(options.properties)
    domain = read_domain(
        options.labels, media, outside_n=options.outside_n, mua_path=options.mua, mus_path=options.mus,
        g_path=options.g, n_path=options.n,
    )  # fmt: skip
    return domain.with_air_in_cavities() if options.air_in_cavities else domain


def _source(options: argparse.Namespace, domain: Domain) -> Source:
    if options.position is None:
        raise InvalidInput("the source has no place; give --position X Y Z, world mm")
    direction = options.direction
    if direction is None and options.kind not in ALL_ROUND:
        direction = inward_normal(domain.labels, domain.affine, options.position)
    given = Source(
        position_mm=tuple(options.position),
        direction=Source.direction if direction is None else tuple(direction),
        width_axis=None if options.width_axis is None else tuple(options.width_axis),
        pattern=None if options.pattern is None else read_irradiance(options.pattern),
    )
    return read_settings(options, given)


def _settings(options: argparse.Namespace) -> LightSettings:
    named = ((name, getattr(options, name)) for name in ("time_gates_ns", "faces"))
    given: dict[str, Any] = {name: tuple(value) for name, value in named if value}
    if options.photons is None:
        options.photons = LightSettings().photons
    return read_settings(options, LightSettings(**given))


def _detectors(options: argparse.Namespace) -> tuple[AnyDetector, ...]:
    placed = (
        Detector(position_mm=(x, y, z), radius_mm=radius, name=f"D{number}")
        for number, (x, y, z, radius) in enumerate(options.detector, 1)
    )
    return (*placed, *(FaceDetector(face=face, name=f"face {face}") for face in options.detector_face))


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
    for path, suffix in ((options.result, ".npz"), (options.numbers, ".csv")):
        if path is not None and path.suffix.lower() != suffix:
            raise InvalidInput(f"{path.name} does not end in {suffix}; give it this ending")
    for path in (options.out, options.result, options.numbers):
        if path is not None:
            check_folder(path)


def _write(
    result: LightResult,
    rows: Sequence[NumberRow],
    unit: FluenceUnit,
    options: argparse.Namespace,
    case: McxCase | None,
) -> None:
    """Write every requested file; one that cannot be written does not keep the others from being written."""
    writers: list[tuple[Path | None, Callable[[Path], object]]] = [
        (options.result, lambda path: save_result(path, result)),
        (options.out, lambda path: write_fluence(path, result, unit=unit, gates=options.each_gate)),
        (options.numbers, lambda path: write_csv(path, rows)),
    ]
    problems = []
    if case is not None:
        try:
            print(*write_mcx_output(Path(), case, result), sep="\n")
        except (InvalidInput, OSError) as error:
            problems.append(str(error))
    for path, write in writers:
        if path is None:
            continue
        try:
            write(path)
        except (InvalidInput, OSError) as error:
            problems.append(str(error))
        else:
            print(path)
    if problems:
        raise InvalidInput("\n".join(problems))


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

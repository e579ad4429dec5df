"""The command-line verb ``napari-gpubio light``: from labels and a table of optical properties to fluence."""

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import STOPPED, add_settings, draw_progress, read_settings, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.core.layer_files import sidecar_path
from napari_gpubio.core.steps import drive
from napari_gpubio.core.tensor_components import PLACES
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.light.anisotropy import FiberCalibration, with_fibers
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.findings import findings
from napari_gpubio.light.forward import cli as forward
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.jacobians import save_jacobians, write_jacobian
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.output import MOST_TRAJECTORIES, McxCase, McxReplayed, write_mcx_output
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.io.trajectories import save_trajectories
from napari_gpubio.light.io.volumes import read_diffusion_tensors, read_domain, read_irradiance, write_fluence
from napari_gpubio.light.jacobian import COEFFICIENTS, Jacobian, Jacobians
from napari_gpubio.light.layers import cli as mcml
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.patterns import simulate_patterns_steps
from napari_gpubio.light.replay import check_request, detector_names, replay_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_each_steps, simulate_steps
from napari_gpubio.light.scattering_tensors import FREE, PRODUCT
from napari_gpubio.light.settings import FACE_RULES, FACES, LightSettings
from napari_gpubio.light.source import KINDS, AnySource, Source, all_sources, emitting_volume
from napari_gpubio.light.spectrum import spectrum, spectrum_media
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.light.summary import NumberRow, number_rows, write_csv, write_spectrum
from napari_gpubio.light.surface import ALL_ROUND, inward_normal, source_problem
from napari_gpubio.light.tissue import media_at_wavelengths
from napari_gpubio.light.trajectories import trajectories_steps

_POINT = ("X", "Y", "Z")
_MOST_WAVELENGTHS = 10_000
MCX_SUFFIXES = (".json", ".inp", ".mcxp")
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
    verb.add_argument(
        "--properties", type=Path, help="table of optical properties, .csv or .json: label, mua_per_mm, …"
    )
    verb.add_argument("--outside-n", type=float, default=1.0, help="refractive index outside (default: 1)")
    verb.add_argument("--mua", type=Path, metavar="FILE", help="volume of absorption coefficients instead, 1/mm")
    verb.add_argument("--mus", type=Path, metavar="FILE", help="volume of scattering coefficients instead, 1/mm")
    _add_fibers(verb)
    verb.add_argument(
        "--air-in-cavities", action="store_true", help="let light cross voxels of label 0 that tissue encloses, as air"
    )
    verb.add_argument("--resume", type=Path, metavar="FILE", help="result to go on with; all but --photons is from it")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.add_argument(
        "--srcid", type=int, metavar="N",
        help="of an MCX file with several sources: 0 all of them together (usual), -1 each separately, or one, from 1",
    )  # fmt: skip
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
    _add_replay(verb)
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
    group.add_argument(
        "--pattern",
        type=Path,
        metavar="IMAGE",
        help="image whose gray values are the irradiance; of --source volume a NIfTI volume of what its voxels emit",
    )
    verb.add_argument(
        "--wavelengths", metavar="FIRST:LAST:STEP", help="detected light at these wavelengths, nm, from one run: with "
        "--tissue instead of --properties, --detector, and --spectrum for the table",
    )  # fmt: skip
    verb.add_argument(
        "--tissue", nargs=2, action="append", default=[], metavar=("LABEL", "PRESET"),
        help="optical properties of a label at --wavelengths, such as: 1 'skin (Cassano 2019)'",
    )  # fmt: skip
    group.add_argument(
        "--detector", type=float, nargs=4, action="append", default=[], metavar=(*_POINT, "RADIUS"), help="sphere, mm"
    )


def _add_fibers(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("scattering along and across fibers")
    group.add_argument(
        "--tensor", type=Path, metavar="FILE", help="diffusion tensors (NIfTI): scattering follows the fibers"
    )
    group.add_argument(
        "--tensor-order", choices=tuple(PLACES),
        help="of their components: mrtrix (xx yy zz xy xz yz), fsl (xx xy xz yy yz zz), dipy (xx xy yy xz yz zz), "
        "full (3 x 3); needed with --tensor",
    )  # fmt: skip
    group.add_argument(
        "--tensor-axes", choices=("world", "voxel", "fsl"),
        help="axes that they refer to (default: world for mrtrix and full, FSL's for fsl and dipy)",
    )  # fmt: skip
    group.add_argument(
        "--fiber-labels",
        type=int,
        nargs="+",
        metavar="LABEL",
        help="labels with fibers (default: all)",
    )
    group.add_argument(
        "--scattering-model", choices=(PRODUCT, FREE), default=PRODUCT,
        help="product (default; reciprocal), or free: as in other programs, not reciprocal",
    )  # fmt: skip
    add_settings(verb, FiberCalibration(), "how much fibers scatter")


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


def _add_replay(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("detected photons, traced again")
    group.add_argument(
        "--jacobian", type=Path, metavar="FILE",
        help="how what the detectors measure changes with the coefficients of each voxel: .npz holds all of it, "
        ".nii.gz one volume for each detector, with a JSON file beside it",
    )  # fmt: skip
    group.add_argument(
        "--jacobian-of", nargs="+", choices=tuple(COEFFICIENTS), default=["mua"], metavar="COEFFICIENT",
        help=f"some of {', '.join(COEFFICIENTS)} (default: mua)",
    )  # fmt: skip
    group.add_argument("--jacobian-mean-time", action="store_true", help="also of the mean time of flight")
    group.add_argument("--jacobian-gates-ns", type=float, nargs="+", metavar="EDGE", help="also in these time gates")
    group.add_argument("--jacobian-frequency-mhz", type=float, metavar="F", help="also of amplitude and phase")
    group.add_argument("--trajectories", type=Path, metavar="FILE.npz", help="the ways of the first 1000 of them")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    unit = _unit(options)
    _check_outputs(options)
    case = _mcx_case(options)
    by_wavelength = _media_by_wavelength(options)
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
    _replay(options, results[0])
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


def _media_by_wavelength(options: argparse.Namespace) -> dict[float, tuple[Medium, ...]]:
    """Media of the presets at the wavelengths, or none."""
    if options.wavelengths is None:
        if options.tissue or options.spectrum is not None:
            raise InvalidInput("--tissue and --spectrum belong to --wavelengths FIRST:LAST:STEP; give these, too")
        return {}
    if options.spectrum is None or not options.tissue:
        raise InvalidInput("--wavelengths needs --tissue LABEL PRESET for each label, and --spectrum FILE.csv")
    if options.mua is not None:
        raise InvalidInput("--mua gives absorption voxel by voxel, and --wavelengths by label; leave one of them out")
    if options.properties is not None:
        raise InvalidInput("both --properties and --wavelengths are given; --tissue has the properties of the labels")
    if options.resume is None and not options.detector:
        raise InvalidInput(
            "there is no --detector, and only detected light is known at other wavelengths; give --detector"
        )
    if not all(label.isdecimal() for label, _ in options.tissue):
        raise InvalidInput(f"--tissue has {options.tissue[0][0]!r}; give the number of a label, then its preset")
    presets = {int(label): name for label, name in options.tissue}
    return media_at_wavelengths(presets, _range_of(options.wavelengths))


def _range_of(text: str) -> Sequence[float]:
    """Wavelengths from the first to the last, both included, in steps."""
    try:
        first, last, step = (float(part) for part in text.split(":"))
        count = math.floor((last - first) / step + 1e-9) + 1
    except (ValueError, ZeroDivisionError, OverflowError):
        count = 0
    if not 1 <= count <= _MOST_WAVELENGTHS:
        raise InvalidInput(f"--wavelengths is {text!r}; give FIRST:LAST:STEP in nm, such as 650:950:6")
    return [first + index * step for index in range(count)]


def _simulate(
    options: argparse.Namespace, case: McxCase | None, by_wavelength: Mapping[float, tuple[Medium, ...]]
) -> tuple[LightResult, ...]:
    """Run the simulation; Ctrl-C ends it with what was done. There is a result for each pattern, or separate source."""
    earlier: LightResult | None = None
    domain: Domain
    source: AnySource
    detectors: Sequence[Detector]
    if case is not None:
        domain, source, detectors = case.domain, case.source, case.detectors
        settings = dataclasses.replace(case.settings, photons=options.photons or case.settings.photons)
    elif options.resume is None:
        domain = _domain(options, by_wavelength)
        source, settings, detectors = _source(options, domain), _settings(options), _detectors(options)
        if problem := source_problem(domain.labels, domain.affine, source):
            print(f"warning: {problem}", file=sys.stderr)
    else:
        if options.labels is not None:
            raise InvalidInput("--resume takes the labels from its result; leave the label volume out")
        earlier = load_result(options.resume)
        domain, source, detectors = earlier.domain, earlier.source, earlier.detectors
        photons = earlier.settings.photons if options.photons is None else options.photons
        settings = dataclasses.replace(earlier.settings, photons=photons)
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


def _domain(options: argparse.Namespace, by_wavelength: Mapping[float, tuple[Medium, ...]]) -> Domain:
    if options.labels is None or (options.properties is None and not by_wavelength):
        raise InvalidInput("give a label volume and --properties TABLE, or --resume RESULT")
    media = spectrum_media(by_wavelength) if by_wavelength else read_table(options.properties)
    domain = read_domain(options.labels, media, outside_n=options.outside_n, mua_path=options.mua, mus_path=options.mus)
    domain = domain.with_air_in_cavities() if options.air_in_cavities else domain
    return domain if options.tensor is None else _with_fibers(options, domain)


def _with_fibers(options: argparse.Namespace, domain: Domain) -> Domain:
    """The domain with scattering that follows the fibers of a tensor image."""
    if options.tensor_order is None:
        raise InvalidInput(
            f"the order of the components of {options.tensor.name} is not given; add --tensor-order, one of "
            f"{', '.join(PLACES)}"
        )
    tensors, affine = read_diffusion_tensors(options.tensor, options.tensor_order, axes=options.tensor_axes)
    calibration = read_settings(options, FiberCalibration())
    fibrous = with_fibers(
        domain, tensors, affine, labels=options.fiber_labels, calibration=calibration, model=options.scattering_model
    )
    print(f"note: {fibrous.notes[-1]}", file=sys.stderr)
    return fibrous


def _source(options: argparse.Namespace, domain: Domain) -> Source:
    if options.kind == "volume":
        if options.pattern is None:
            raise InvalidInput("a source of kind volume needs --pattern VOLUME, what its voxels emit (NIfTI)")
        return emitting_volume(*read_volume(options.pattern))
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


def _detectors(options: argparse.Namespace) -> tuple[Detector, ...]:
    return tuple(
        Detector(position_mm=(x, y, z), radius_mm=radius, name=f"D{number}")
        for number, (x, y, z, radius) in enumerate(options.detector, 1)
    )


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
    _check_replay(options)
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


# -- detected photons, traced again -----------------------------------------------------------------------------------


def _check_replay(options: argparse.Namespace) -> None:
    """Find out before the simulation whether its photons can be replayed as requested."""
    if options.jacobian is None and options.trajectories is None:
        return
    is_mcx = options.labels is not None and options.labels.suffix.lower() in MCX_SUFFIXES
    if not options.detector and options.resume is None and not is_mcx:
        raise InvalidInput(
            "--jacobian and --trajectories are of detected photons; place detectors: --detector X Y Z RADIUS"
        )
    if options.jacobian is not None:
        check_request(options.jacobian_of, options.jacobian_gates_ns, options.jacobian_frequency_mhz)
        if options.jacobian.suffix.lower() != ".npz":
            sidecar_path(options.jacobian)


def _replay(options: argparse.Namespace, result: LightResult) -> None:
    """Trace detected photons again, if that is requested, and write what they tell; Ctrl-C keeps what is done."""
    reached = sorted(set(result.detected.detector.tolist()))
    if options.jacobian is not None and 0 < len(reached) < len(result.detectors):
        names = [name for number, name in enumerate(detector_names(result)) if number not in reached]
        print(f"warning: no photon has reached {', '.join(names)}, so there is no Jacobian of it", file=sys.stderr)
    with stop_at_interrupt() as stop:
        if options.jacobian is not None:
            steps = replay_steps(
                result, of=options.jacobian_of, mean_time=options.jacobian_mean_time,
                gates_ns=options.jacobian_gates_ns, frequency_mhz=options.jacobian_frequency_mhz,
                detectors=reached or None, device=options.device, stop=stop,
            )  # fmt: skip
            jacobians = drive(steps, draw_progress)
            for note in jacobians.notes:
                print(f"note: {note}", file=sys.stderr)
            print("\n".join(_jacobian_lines(jacobians)))
            _write_jacobians(options.jacobian, jacobians)
        if options.trajectories is not None:
            ways = drive(trajectories_steps(result, device=options.device, stop=stop), draw_progress)
            save_trajectories(options.trajectories, ways)
            print(options.trajectories)


def _write_jacobians(path: Path, jacobians: Jacobians) -> None:
    if path.suffix.lower() == ".npz":
        save_jacobians(path, jacobians)
        print(path)
        return
    for one, part in jacobian_files(path, jacobians):
        write_jacobian(one, jacobians, part)
        print(one)


def jacobian_files(path: Path, jacobians: Jacobians) -> Iterator[tuple[Path, Jacobian]]:
    """Paths of NIfTI files for the parts of Jacobians: the path itself for a single one, else with its name added."""
    name = path.name
    ending = ".nii.gz" if name.lower().endswith(".nii.gz") else path.suffix
    for part in jacobians.parts:
        gate = "" if part.gate_ns is None else f"_{part.gate_ns[0]:g}-{part.gate_ns[1]:g}ns"
        added = f"_{part.measure}{gate}_{part.coefficient}" if len(jacobians.parts) > 1 else ""
        yield path.with_name(f"{name.removesuffix(ending)}{added}{ending}"), part


def _jacobian_lines(jacobians: Jacobians) -> Iterator[str]:
    """Lines of a table: for each channel and part, the sum over each label with its error."""
    for index, channel in enumerate(jacobians.channels):
        yield f"{channel.name}, {channel.separation_mm:.1f} mm"
        for part in jacobians.parts:
            sums = zip(jacobians.labels, part.label_sums[index], part.label_errors[index], strict=True)
            listed = ", ".join(f"{label}: {value:.4g} ± {error:.2g}" for label, value, error in sums)
            yield f"  {part.name} by label, {part.unit}: {listed}"

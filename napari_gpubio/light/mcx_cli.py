"""The verb ``mcx``: input files of MCX, run as they are, with the files that MCX would write.

What it makes has the names that the input file gives; how many results there are is known when it is read.
"""

import argparse
import dataclasses
import functools
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import (
    STOPPED,
    Writing,
    check_endings,
    check_outputs,
    draw_progress,
    integer,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Keeper, left_by
from napari_gpubio.core.layer_files import described_files
from napari_gpubio.core.report import measured, tell, warn, wrote
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.foreign import MCX_SUFFIXES, check_labels_file
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.output import MOST_TRAJECTORIES, McxCase, McxReplayed, output_paths, write_mcx_output
from napari_gpubio.light.io.results import load_each_unfinished, load_unfinished, save_result_steps
from napari_gpubio.light.io.volumes import write_fluence_steps
from napari_gpubio.light.jacobians.replay import replay_steps
from napari_gpubio.light.operations import Lit
from napari_gpubio.light.patterns import PatternResult, simulate_patterns_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_each_steps, simulate_steps
from napari_gpubio.light.sources import all_sources
from napari_gpubio.light.statistics import PER_PHOTON
from napari_gpubio.light.summary import write_csv
from napari_gpubio.light.surface import source_problem
from napari_gpubio.light.trajectories import trajectories_steps

_EXAMPLE = """example:
  napari-gpubio mcx case.json --device cuda:0 --run-out run.npz

Ctrl-C ends a run early: what was done is written. --run-out keeps it every 8 s, too, and the same command goes on."""
_ENDINGS = {"out": NIFTI_SUFFIXES, "run_out": (".npz",), "numbers_out": (".csv",)}


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "mcx",
        help="run an input file of MCX (.json, .inp), and write what MCX would",
        description="Run an input file of MCX; what MCX would write is written to the current folder.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLE,
    )
    verb.add_argument("input", type=Path, help="input file of MCX (.json, .inp)")
    verb.add_argument("--photons", type=integer, metavar="N", help="photon packets (default: those of the file)")
    verb.add_argument(
        "--srcid", type=int, metavar="N",
        help="of a file with several sources: 0 all of them together (usual), -1 each separately, or one, from 1",
    )  # fmt: skip
    verb.add_argument("--out", "-o", type=Path, metavar="FILE", help="fluence of each result as NIfTI")
    verb.add_argument("--run-out", type=Path, metavar="FILE", help="each whole result (.npz); kept every 8 s")
    verb.add_argument("--numbers-out", type=Path, metavar="FILE", help="the printed tables in full digits (.csv)")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    for name, endings in _ENDINGS.items():
        check_endings({_flag(name): getattr(options, name)}, endings)
    case = mcx_case(options)
    suffixes = [f"_{number}" for number in range(1, case.results + 1)] if case.results > 1 else [""]
    files = [] if options.run_out is None else [_numbered(options.run_out, suffix) for suffix in suffixes]
    earlier = _earlier(case, files)
    _check_outputs(options, case, suffixes, files if any(earlier) else None)
    lit = [Lit(run=one, unit=PER_PHOTON) for one in simulate_case(options, case, earlier, files)]
    tables = [one.told() for one in lit]
    for number, (one, table) in enumerate(zip(lit, tables, strict=True), 1):
        if len(lit) > 1:
            print(f"{'Source' if case.patterns is None else 'Pattern'} {number} of {len(lit)}")
        print("\n".join(table.lines))
        tell(one.notes)
    measured(results=[rows for table in tables for rows in table.numbers["results"]])
    writing = Writing()
    for one, suffix in reversed(
        [*zip(lit, suffixes, strict=True)]
    ):  # the first is what a run for patterns goes on with
        _write(one, suffix, options, writing)
    complete = all(one.complete for one in lit) & write_case(options, case, [one.run for one in lit], writing)
    writing.finish()
    return 0 if complete else STOPPED


def _earlier(case: McxCase, files: Sequence[Path]) -> tuple[LightResult | None, ...]:
    """What a run that did not end has left in its files."""
    if case.separately:
        return load_each_unfinished(files)
    return (left_by(files[0], load_unfinished),) if files else (None,)


def _check_outputs(
    options: argparse.Namespace, case: McxCase, suffixes: Sequence[str], continued: Sequence[Path] | None
) -> None:
    """Find out before the run where its files go, and whether they would replace others."""
    outputs: dict[str, Path | None] = dict(mcx_outputs(case))
    for suffix in suffixes:
        for name in _ENDINGS:
            if (path := getattr(options, name)) is not None:
                path, flag = _numbered(path, suffix), _flag(name)
                files = described_files(path) if name == "out" else {"file": path}
                outputs |= {f"the {what}{suffix} of {flag}": one for what, one in files.items()}
    inputs = {f"input {path.name}": path for path in case.inputs}
    check_outputs(outputs, inputs, force=options.force, continued=continued)


def _write(lit: Lit, suffix: str, options: argparse.Namespace, writing: Writing) -> None:
    """Write the files of a result, with something more in their names where there are several results."""
    unit = lit.unit
    writers: list[tuple[Path | None, Callable[[Path], object]]] = [
        (options.run_out, lambda path: drive(save_result_steps(path, lit.run), draw_progress)),
        (options.out, lambda path: drive(write_fluence_steps(path, lit.run, unit=unit), draw_progress)),
        (options.numbers_out, lambda path: write_csv(path, lit.numbers.rows)),
    ]
    for path, write in writers:
        if path is not None:
            with writing.attempt():
                write(_numbered(path, suffix))
                wrote(_numbered(path, suffix))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _numbered(path: Path, suffix: str) -> Path:
    """The path with something more before the ending of its name."""
    ending = ".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix
    return path.with_name(
        path.name[: len(path.name) - len(ending)] + suffix + path.name[len(path.name) - len(ending) :]
    )


def mcx_case(options: argparse.Namespace) -> McxCase:
    """Read the input file."""
    if options.input.suffix.lower() not in MCX_SUFFIXES:
        check_labels_file(options.input)
        raise InvalidInput(
            f"{options.input.name} does not end in {' or '.join(MCX_SUFFIXES)}, as input files of MCX do; labels are "
            "run with napari-gpubio light"
        )
    case = read_mcx(options.input, options.srcid)
    case.check_output()
    tell(case.notes)
    photons = case.settings.photons if options.photons is None else options.photons
    return dataclasses.replace(case, settings=dataclasses.replace(case.settings, photons=photons))


def mcx_outputs(case: McxCase) -> dict[str, Path]:
    """Files that MCX would write for a case, by what they are."""
    are_wanted = {
        "volume": case.saves_volume,
        "photons": bool(case.detectors) and case.saves_photons and case.patterns is None,
        "trajectories": case.trajectories,
    }
    return {f"the {what} of MCX": path for what, path in output_paths(Path(), case).items() if are_wanted[what]}


def simulate_case(
    options: argparse.Namespace, case: McxCase, earlier: Sequence[LightResult | None], files: Sequence[Path]
) -> tuple[LightResult, ...]:
    """Run a case; Ctrl-C ends it with what was done. There is a result for each pattern, or separate source.

    ``earlier`` is what to go on with: a result of each separate source, or one. What is done is kept in ``files`` by
    time: each separate source in its own, all patterns together in the first.
    """
    for source in case.sources:
        if problem := source_problem(case.domain.labels, case.domain.affine, source):
            warn(problem)
    with stop_at_interrupt() as stop:
        how: dict[str, Any] = {"detectors": case.detectors, "device": options.device, "stop": stop}
        kept: dict[str, Any] = {"show": draw_progress, "goes_on": any(earlier)}
        path = files[0] if files else None
        if case.patterns is not None:
            source, begun = all_sources(case.source)[0], _begun(*earlier)
            steps = simulate_patterns_steps(case.domain, source, case.patterns, case.settings, resume=begun, **how)
            found = drive(steps, Keeper(path, _save_patterns, **kept))
            return found.results if found.complete else (_with_all_tallies(found), *found.results[1:])
        if case.separately:  # they share the photons out, as in MCX
            photons = max(1, case.settings.photons // len(case.sources))
            settings = dataclasses.replace(case.settings, photons=photons)
            each = simulate_each_steps(case.domain, case.sources, settings, resume=earlier, **how)
            return drive(each, Keeper(path, functools.partial(_save_each, files, set()), **kept))
        run = simulate_steps(case.domain, case.source, case.settings, resume=earlier[0], **how)
        return (drive(guided_steps(run, device=options.device), Keeper(path, save_result_steps, **kept)),)


def _save_patterns(path: Path, result: PatternResult) -> Generator[Step, None, None]:
    """Save what patterns have so far, to go on with."""
    return save_result_steps(path, _with_all_tallies(result))


def _with_all_tallies(result: PatternResult) -> LightResult:
    """The result of the first pattern, with the tallies of all."""
    return dataclasses.replace(result.results[0], state=result.state)


def _begun(saved: LightResult | None) -> PatternResult | None:
    """What patterns go on with, of what was saved."""
    if saved is None:
        return None
    run = {name: getattr(saved, name) for name in ("launched", "complete", "parameters", "state")}
    return PatternResult(results=(saved,), **run)


def _save_each(
    files: Sequence[Path], whole: set[Path], _path: Path, results: Sequence[LightResult | None]
) -> Generator[Step, None, None]:
    """Save results of separate sources, but for those of ``whole``, which it adds to; older files of others go."""
    for path, result in zip(files, results, strict=True):
        if result is None:
            path.unlink(missing_ok=True)
    for path, result in zip(files, results, strict=True):
        if result is not None and path not in whole:
            yield from save_result_steps(path, result)
            whole |= {path} if result.complete else set()


def write_case(options: argparse.Namespace, case: McxCase, results: Sequence[LightResult], writing: Writing) -> bool:
    """Write what MCX would, and return whether all of it is there: Ctrl-C may have stopped the replay.

    What takes no replay is written even if that is stopped or fails.
    """
    replayed, complete = McxReplayed(), True
    with writing.attempt():
        replayed, complete = _replayed(options, case, results[0])
    has_jacobians = replayed.jacobians is not None and replayed.jacobians.complete
    if case.replays and not has_jacobians:
        warn("without a whole replay there is no volume")
        case = dataclasses.replace(case, saves_volume=False)
    with writing.attempt():
        for path in write_mcx_output(Path(), case, results, replayed=replayed):
            wrote(path)
    return complete


def _replayed(options: argparse.Namespace, case: McxCase, result: LightResult) -> tuple[McxReplayed, bool]:
    """Trace photons again, if the file asks for what takes that, and return whether that came to its end."""
    jacobians, trajectories = None, None
    with stop_at_interrupt() as stop:
        if case.replays:
            steps = replay_steps(
                result, of=("mua", "mus") if case.output_type == "p" else ("mua",),
                gates_ns=None if case.output_type == "r" else case.settings.time_gates_ns,
                frequency_mhz=case.frequency_mhz if case.output_type == "r" else None,
                detectors=sorted(set(result.detected.detector.tolist())) or None, device=options.device, stop=stop,
            )  # fmt: skip
            jacobians = drive(steps, draw_progress)
        if case.trajectories and not stop.is_set():
            # of a replay, those of detected photons; else those of the first photons
            photons = None if case.replays else min(MOST_TRAJECTORIES, result.launched)
            traced = trajectories_steps(
                result, photons, most_photons=MOST_TRAJECTORIES, device=options.device, stop=stop
            )  # fmt: skip
            trajectories = drive(traced, draw_progress)
        return McxReplayed(jacobians, trajectories), not stop.is_set()

"""MCX input files on the command line: run as they are, with the files that MCX would write."""

import argparse
import dataclasses
import functools
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Writing, draw_progress, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Keeper
from napari_gpubio.core.report import tell, warn, wrote
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.arguments import given_case
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.foreign import MCX_SUFFIXES
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.output import MOST_TRAJECTORIES, McxCase, McxReplayed, output_paths, write_mcx_output
from napari_gpubio.light.io.results import save_result_steps
from napari_gpubio.light.jacobians.cli import wants_replay
from napari_gpubio.light.jacobians.replay import replay_steps
from napari_gpubio.light.patterns import PatternResult, simulate_patterns_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_each_steps, simulate_steps
from napari_gpubio.light.sources import all_sources
from napari_gpubio.light.surface import source_problem
from napari_gpubio.light.trajectories import trajectories_steps


def mcx_case(options: argparse.Namespace) -> McxCase | None:
    """The case of an MCX input file, or None where labels are given."""
    if options.labels is None or options.labels.suffix.lower() not in MCX_SUFFIXES or options.resume is not None:
        if options.srcid is not None:
            raise InvalidInput("--srcid chooses a source of an MCX input file; leave it out here")
        return None
    if given := given_case(options):
        raise InvalidInput(
            f"{options.labels.name} is an MCX input file, which says what is simulated; leave {given[0]} out or change "
            "the file"
        )
    case = read_mcx(options.labels, options.srcid)
    case.check_output()
    if not case.is_one_run and wants_replay(options):
        raise InvalidInput("--jacobian and --trajectories are of one run; choose one source with --srcid, or 0 for all")
    if wants_replay(options) and not case.detectors:
        raise InvalidInput("--jacobian and --trajectories are of detected photons; add Optode.Detector to the file")
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

"""The verb ``mcx``: input files of MCX, run as they are, with the files that MCX would write."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Writing
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.operations.kinds import kind_registered, register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, file, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step, with_step
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.results import load_result, save_result_steps
from napari_gpubio.light.operations.fluence import Lit
from napari_gpubio.light.patterns import PatternResult, simulate_patterns_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_each_steps, simulate_steps
from napari_gpubio.mcx.io.cases import files_of_mcx, read_mcx
from napari_gpubio.mcx.io.output import MAX_TRAJECTORIES, NOTHING, McxCase, McxReplayed, write_mcx_output
from napari_gpubio.optics.estimates import PER_PHOTON
from napari_gpubio.optics.io.archive import VOXELS, header_of
from napari_gpubio.optics.io.foreign import MCX_SUFFIXES, check_labels_file
from napari_gpubio.optics.sources import all_sources
from napari_gpubio.optics.surface import source_problem
from napari_gpubio.probes.jacobians.replay import replay_steps
from napari_gpubio.probes.trajectories import trajectories_steps

_MARK, _MARKED = "unfinished.txt", "This run did not come to its end; the same command goes on with it.\n"


@dataclass(frozen=True, kw_only=True)
class OpenMcx(Reading, verb="open-mcx", makes={"case": McxCase}):
    """Open an input file of MCX, with the files of the volume and of patterns that it names."""

    file: File = part("File", "Input file of MCX (.json, .inp).")
    beside: tuple[File, ...] = part("Beside it", "The files that it names.", default=())
    source_number: int | None = param(
        None, "Source", "Of several, as MCX's srcid: 0 all of them together, -1 each separately, or one, from 1; by "
        "default as the file says.", minimum=-1,
    )  # fmt: skip

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenMcx":
        """Return the operation that opens a file as it is now, with those that it names."""
        path = Path(path)
        if path.suffix.lower() not in MCX_SUFFIXES:
            check_labels_file(path)
            raise InvalidInput(
                f"{path.name} does not end in {' or '.join(MCX_SUFFIXES)}, as input files of MCX do; labels are run "
                "with napari-gpubio light"
            )
        return cls(file=file(path), beside=tuple(map(file, files_of_mcx(path)[1:])), **options)

    def read(self, data: Any) -> McxCase:
        """Read it."""
        case = read_mcx(data.file, self.source_number)
        known = {one.resolve() for one in (data.file, *(data.beside or ()))}
        if other := next((one for one in case.inputs if one.resolve() not in known), None):
            raise InvalidInput(f"{data.file.name} names {other.name}, which its record lacks; open it by OpenMcx.at")
        return case


@dataclass(frozen=True, eq=False, kw_only=True)
class McxRun:
    """What came of an input file of MCX.

    Parameters
    ----------
    case
        What was read, with the number of photons that was to be run.
    results
        One for each pattern, or separate source, or one; of patterns that were stopped, the first has the state of all.
        What is kept of a run that goes on has None for those that are not begun.
    replayed
        What the case wants of photons that are traced again, as far as that is there.
    complete
        Whether all of it is.
    problem
        Why photons could not be traced again.
    """

    case: McxCase
    results: tuple[LightResult, ...]
    replayed: McxReplayed = NOTHING
    complete: bool = False
    problem: str = ""

    @functools.cached_property
    def lit(self) -> tuple[Lit, ...]:
        """What each result gives, per photon."""
        return tuple(Lit(run=one, unit=PER_PHOTON) for one in self.results)

    @property
    def lacks_volume(self) -> bool:
        """Whether its volume is of photons that are traced again, of which some are not."""
        return self.case.replays and (self.replayed.jacobians is None or not self.replayed.jacobians.complete)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of it, in sentences."""
        domain = self.case.domain
        problems = [source_problem(domain.labels, domain.affine, source) for source in self.case.sources]
        problems += ["without a whole replay there is no volume"] if self.lacks_volume else []
        notes = (note for one in self.lit for note in one.notes)
        return tuple(dict.fromkeys((*(f"{WARNING}{one}" for one in problems if one), *notes)))


@dataclass(frozen=True, kw_only=True)
class RunMcx(Operation, verb="mcx", makes={"run": McxRun}):
    """Run an input file of MCX, and write what MCX would.

    A new folder gets MCX's files, by the names that the input file gives them, and run.npz, from which fluence and
    add-photons go on; where there are results of several sources or patterns, run_1.npz and so on. Ctrl-C ends a run
    early: what was done is written. It is kept every 8 s, too, and the same command goes on with it.
    """

    examples = ("mcx case.json --device cuda:0 --out results", "mcx case.json --source-number -1 --out results")
    continues = "run"

    case: Ref[McxCase] = given("Input file", "Input file of MCX (.json, .inp).")
    photons: int | None = param(None, "Photons", "Photon packets; by default those of the file.", minimum=1)

    def steps(self, data: Any, *, known: Any = None, **run: Any) -> Generator[Step, None, McxRun]:
        """Simulate it, and trace photons again where the file wants what takes that."""
        case: McxCase = data.case
        case.check_output()
        if self.photons is not None:
            case = dataclasses.replace(case, settings=dataclasses.replace(case.settings, photons=self.photons))
        results = yield from _simulated(case, {} if known is None else _load(known, case.results), run)
        made = McxRun(case=case, results=results, complete=all(one.complete for one in results))
        if not (made.complete and (case.replays or case.trajectories)):
            return made
        try:
            again = _traced_again(case, results[0], run)
            replayed = yield from with_step(again, lambda step: step.showing(made))
        except GpuBioError as error:  # what takes no replay is there all the same
            return dataclasses.replace(made, complete=False, problem=str(error))
        return dataclasses.replace(made, replayed=replayed, complete=not _is_set(run["stop"]))

    def summary(self, made: McxRun) -> Summary:
        """The numbers of each result."""
        tables, what = [one.summary() for one in made.lit], "Source" if made.case.patterns is None else "Pattern"
        lines: list[str] = []
        for number, table in enumerate(tables, 1):
            lines += [f"{what} {number} of {len(tables)}"] if len(tables) > 1 else []
            lines += table.lines
        return Summary(tuple(lines), {"results": [rows for table in tables for rows in table.numbers["results"]]})


def _is_set(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _simulated(
    case: McxCase, known: Mapping[int, LightResult], run: Mapping[str, Any]
) -> Generator[Step, None, tuple[LightResult, ...]]:
    """The results of a case, which goes on with those that are known by their numbers."""
    how: dict[str, Any] = {"detectors": case.detectors, **run}
    if case.patterns is not None:
        rest = (None,) * (case.results - 1)
        source, begun = all_sources(case.source)[0], _begun(known.get(0))
        shared = simulate_patterns_steps(case.domain, source, case.patterns, case.settings, resume=begun, **how)
        found = yield from _kept(shared, case, lambda one: (_with_all_tallies(one), *rest))
        return found.results if found.complete else (_with_all_tallies(found), *found.results[1:])
    if case.separately:  # they share the photons out, as in MCX
        photons = max(1, case.settings.photons // len(case.sources))
        settings = dataclasses.replace(case.settings, photons=photons)
        resume = tuple(known.get(number) for number in range(case.results))
        each = simulate_each_steps(case.domain, case.sources, settings, resume=resume, **how)
        return (yield from _kept(each, case, tuple))
    steps = simulate_steps(case.domain, case.source, case.settings, resume=known.get(0), **how)
    return ((yield from _kept(guided_steps(steps, device=run["device"]), case, lambda one: (one,))),)


def _kept(
    steps: Generator[Step, None, Any], case: McxCase, results_of: Callable[[Any], tuple[Any, ...]]
) -> Generator[Step, None, Any]:
    """The same steps, whose previews are what is done so far."""

    def preview(step: Step) -> Generator[Step, None, McxRun]:
        found = yield from step.preview_steps()
        return McxRun(case=case, results=results_of(found))

    def kept(step: Step) -> Step:
        is_shown = step.make_preview is not None
        return dataclasses.replace(step, make_preview=functools.partial(preview, step)) if is_shown else step

    return with_step(steps, kept)


def _with_all_tallies(result: PatternResult) -> LightResult:
    """The result of the first pattern, with the tallies of all."""
    return dataclasses.replace(result.results[0], state=result.state)


def _begun(saved: LightResult | None) -> PatternResult | None:
    """What patterns go on with, of what was saved."""
    if saved is None:
        return None
    run = {name: getattr(saved, name) for name in ("launched", "complete", "parameters", "state")}
    return PatternResult(results=(saved,), **run)


def _traced_again(case: McxCase, result: LightResult, run: Mapping[str, Any]) -> Generator[Step, None, McxReplayed]:
    """What the file wants of photons that are traced again, until it is stopped."""
    jacobians, trajectories = None, None
    if case.replays:
        jacobians = yield from replay_steps(
            result, of=("mua", "mus") if case.output_type == "p" else ("mua",),
            gates_ns=None if case.output_type == "r" else case.settings.time_gates_ns,
            frequency_mhz=case.frequency_mhz if case.output_type == "r" else None,
            detectors=sorted(set(result.detected.detector.tolist())) or None, **run,
        )  # fmt: skip
    if case.trajectories and not _is_set(run["stop"]):
        # of a replay, those of detected photons; else those of the first photons
        photons = None if case.replays else min(MAX_TRAJECTORIES, result.launched)
        trajectories = yield from trajectories_steps(result, photons, most_photons=MAX_TRAJECTORIES, **run)
    return McxReplayed(jacobians, trajectories)


# -- files ------------------------------------------------------------------------------------------------------------


def _files(folder: Path, count: int) -> list[Path]:
    """Files of so many results."""
    return [folder / f"run{f'_{number}' * (count > 1)}.npz" for number in range(1, count + 1)]


def _begin(folder: Path, count: int) -> list[Path]:
    """Make the folder of a run, and mark it until all is there; returns the files of the results."""
    mark, files = folder / _MARK, _files(folder, count)
    if not mark.exists():
        try:
            folder.mkdir(exist_ok=True)
            mark.write_text(_MARKED)
            for path in folder.glob("run*.npz"):  # of an older run
                path.unlink()
        except OSError as error:
            raise InvalidInput(f"{folder} cannot be written ({error.strerror}); choose another folder") from error
    return files


def _load(folder: Path, count: int) -> dict[int, LightResult]:
    """What there is of so many results to go on with, by their numbers."""
    files = _files(folder, count)
    if not any(path.is_file() for path in files) and [*folder.glob("run*.npz")]:
        raise InvalidInput(
            f"the run to go on with, in {folder}, is of other sources; choose another folder, to begin anew"
        )
    found = {number: load_result(path) for number, path in enumerate(files) if path.is_file()}
    return {number: result for number, result in found.items() if result.state is not None}


def _write(run: McxRun, path: Path, _: Mapping[str, Any]) -> Generator[Step, None, None]:
    """Write all that there is into a folder, or save what a run goes on with, at the path of its mark."""
    return _save(run, path.parent) if path.name == _MARK else _write_all(run, path)


def _save(run: McxRun, folder: Path) -> Generator[Step, None, None]:
    for path, result in zip(_begin(folder, len(run.results)), run.results, strict=True):
        if result is not None and not header_of(path, VOXELS).get("complete"):
            yield from save_result_steps(path, result)


def _write_all(run: McxRun, folder: Path) -> Generator[Step, None, None]:
    """If one cannot be written, the others are, and the folder stays marked."""
    writing, files = Writing(), _files(folder, len(run.results))
    with writing.attempt():
        _begin(folder, len(run.results))
    with writing.attempt():
        case = dataclasses.replace(run.case, saves_volume=run.case.saves_volume and not run.lacks_volume)
        write_mcx_output(folder, case, run.results, replayed=run.replayed)
    for path, result in reversed([*zip(files, run.results, strict=True)]):  # the first is what patterns go on with
        with writing.attempt():
            yield from save_result_steps(path, result)
    if run.problem:
        with writing.attempt():
            raise InvalidInput(run.problem)
    writing.finish()
    if run.complete:
        (folder / _MARK).unlink()


def _counted(value: Any) -> Any:
    """What makes a result of some kind what it is; nothing where there is none."""
    return None if value is None else kind_registered(type(value)).counts(value)


register_kind(
    McxCase,
    counts=lambda case: (_counted(case.domain), case.source, case.patterns, case.settings, case.detectors),
    opens=OpenMcx,
)
register_kind(
    McxRun,
    counts=lambda run: (
        tuple(map(_counted, run.results)),
        _counted(run.replayed.jacobians),
        _counted(run.replayed.trajectories),
    ),
    endings=("",),
    write=_write,
    unfinished=lambda mark: mark.parent,
    kept_at=lambda folder: folder / _MARK,
    is_folder=True,
)

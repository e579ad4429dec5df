"""Scheduling of photons for both engines: batches, GPUs, Dask workers, previews, resumed runs."""

import dataclasses
import functools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol, TypeVar

from napari_gpubio import __version__
from napari_gpubio.core.chunks import Runnable, advance_in_pieces
from napari_gpubio.core.device import Device, choose_device, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.core.timing import RunClock
from napari_gpubio.light.tallies import BatchedProblem, Tally, joined

PREVIEW_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0
FIRST_CHUNK = {"cpu": 256, "cuda": 1 << 20}  # a GPU is not filled by less


class Run(Runnable, Protocol):
    """One processor at work."""

    span: int

    def snapshot(self) -> Any:
        """Tallies so far."""

    def close(self) -> None:
        """Free what it holds."""


AnyTally = TypeVar("AnyTally", bound=Tally)
AnyProblem = TypeVar("AnyProblem", bound=Any)
MakeRuns = Callable[[Any, Device], Sequence[Run]]
Progress = Iterator[tuple[int, Callable[[], AnyTally]]]


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What an engine gives so that its photons can be traced.

    Parameters
    ----------
    make_runs
        Makes one `Run` for each processor of a device; a function of a module, so that workers find it.
    assemble
        Turns a problem, its tallies and the parameters of the run into a result.
    empty
        Makes the tallies of no photons, for others to be added to.
    """

    make_runs: MakeRuns
    assemble: Callable[[Any, Any, dict[str, Any]], Any]
    empty: Callable[[Any], Tally]


def photon_steps(
    backend: Backend,
    problem: BatchedProblem,
    described: Mapping[str, Any],
    *,
    device: str | Device,
    resume: Any = None,
    client: Any = None,
    stop: Event | None = None,
) -> Generator[Step, None, Any]:
    """Trace the photons of a problem, and return the result; now and then a step's preview is the result so far.

    Parameters
    ----------
    backend, problem
        What is traced; with ``resume``, a problem that has its batches, see `resumed`.
    described
        Everything needed to do the run again, as JSON can hold it; software, settings, device and seconds are added.
    device, client, stop
        See `napari_gpubio.light.simulate_steps`.
    resume
        An earlier result of the same problem, or None.
    """
    tally = backend.empty(problem) if resume is None else resume.state.copy()
    clock, already, total = RunClock(seconds_of(resume)), tally.photons, problem.settings.photons
    if client is None:
        chosen = choose_device(device)
        name, progress = chosen.describe(), traced(problem, tally, backend.make_runs, chosen, stop)
    else:
        name = "workers of a Dask cluster"
        progress = traced_by_workers(problem, tally, backend.make_runs, client, str(device), stop)

    def result_of(tallies: Any) -> Any:
        parameters = {
            "software": f"napari-gpubio {__version__}",
            "settings": dataclasses.asdict(problem.settings),
            **described,
            "device": name,  # of the last leg of a resumed run; the seconds are those of all of them
            "seconds": round(clock.seconds, 4),
        }
        return backend.assemble(problem, tallies, parameters)

    previews = Previews()
    for done, so_far in progress:
        make_preview = None
        if previews.due() and already + done < total:
            make_preview = functools.partial(previews.make, so_far, result_of)
        yield Step(already + done, total, "photons", make_preview=make_preview)
    return result_of(tally)


def traced(
    problem: BatchedProblem, tally: AnyTally, make_runs: MakeRuns, device: Device, stop: Event | None
) -> Progress[AnyTally]:
    """Trace what is missing on one machine and add it to ``tally``.

    Yields
    ------
    done, so_far
        Photons done, and a function that gives all tallies so far.
    """
    runs = make_runs(problem, device)

    def so_far() -> AnyTally:
        together = tally.copy()
        for run in runs:
            together.add(run.snapshot(), problem)
        return together

    try:
        pieces = joined(tally.missing(problem), runs[0].span)
        for done in advance_in_pieces(runs, pieces, stop=stop, first_chunk=FIRST_CHUNK[device.kind]):
            yield done, so_far
        for run in runs:
            tally.add(run.snapshot(), problem)
    finally:
        for run in runs:
            run.close()


def traced_by_workers(
    problem: BatchedProblem, tally: AnyTally, make_runs: MakeRuns, client: Any, device: str, stop: Event | None
) -> Progress[AnyTally]:
    """Trace what is missing on the workers of a Dask cluster; a task whose worker dies is done again by another.

    Yields
    ------
    done, so_far
        As `traced`.
    """
    from distributed import as_completed

    # on every worker, so that it is not lost with one; under a name of its own, since one that was just let go hangs
    shared = client.scatter(problem, broadcast=True, hash=False)
    tasks = [
        client.submit(_trace_range, shared, make_runs, one, device, pure=False, retries=5)
        for one in tally.missing(problem)
    ]
    done = 0
    try:
        for task in as_completed(tasks):
            part = task.result()
            done += part.photons
            tally.add(part, problem)
            yield done, tally.copy
            if stop is not None and stop.is_set():
                break
    finally:
        client.cancel(tasks)


def _trace_range(problem: BatchedProblem, make_runs: MakeRuns, photons: tuple[int, int], device: str) -> Any:
    """Trace a range of photons on a worker and return their tallies."""
    runs = make_runs(problem, choose_device(device))
    try:
        for _ in advance_in_pieces(runs, [photons], first_chunk=FIRST_CHUNK[runs[0].device.kind]):
            pass
        whole = runs[0].snapshot()
        for run in runs[1:]:
            whole.add(run.snapshot(), problem)
        return whole
    finally:
        for run in runs:
            run.close()


def resumed(problem: AnyProblem, result: Any, kind: type[Tally]) -> AnyProblem:
    """Return the problem with the batches of the result that is resumed; the problem itself of None.

    Raises
    ------
    InvalidInput
        If the result has no tallies, or they are of another simulation, or there are more photons.
    """
    if result is None:
        return problem
    state = result.state
    if not isinstance(state, kind):
        raise InvalidInput("the result to resume has no saved state; save results with it to resume them")
    problem = dataclasses.replace(problem, batch_size=state.batch_size)
    check_resumed(state, problem, problem.settings.photons)
    return problem


def check_memory(needed_bytes: float, device: Device, advice: str) -> None:
    """Raise InvalidInput if this does not fit into the computer's memory; a GPU is checked when its run is opened."""
    if device.is_gpu:
        return
    if needed_bytes > (free := free_memory_bytes(device)):
        raise InvalidInput(
            f"the simulation needs about {needed_bytes / 2**20:.0f} MB and {free / 2**20:.0f} MB are free; {advice}"
        )


def seconds_of(result: Any) -> float:
    """Seconds that all the photons of a result took, also if its run was resumed; 0 of None, or where it is unknown."""
    seconds = None if result is None else result.parameters.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def check_resumed(state: Tally, problem: BatchedProblem, photons: int) -> None:
    """Raise InvalidInput unless the tallies are those of some of a problem's photons."""
    if state.key != problem.key:
        raise InvalidInput(
            "the result to resume is of another simulation (what is simulated, the seed or the settings differ); only "
            "the number of photons may be raised"
        )
    if state.photons_up_to > photons:
        raise InvalidInput(
            f"the result to resume has traced photons up to number {state.photons_up_to:,}; request at least that many"
        )


class Previews:
    """Times previews: at most ten a second, which take at most a tenth of the time."""

    def __init__(self) -> None:
        self._next = time.perf_counter() + PREVIEW_SECONDS

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.perf_counter() >= self._next

    def make(self, so_far: Callable[[], Any], assemble: Callable[[Any], Any]) -> Any:
        """Make a preview, and put off the next one by what it took."""
        begun = time.perf_counter()
        result = assemble(so_far())
        ended = time.perf_counter()
        self._next = ended + min(max(PREVIEW_SECONDS, 9.0 * (ended - begun)), LONGEST_WAIT_SECONDS)
        return result

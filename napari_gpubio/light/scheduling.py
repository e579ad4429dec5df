"""How photons are shared out, in voxels and in layers alike: batches, GPUs, Dask workers, previews, resuming.

A way of tracing photons gives three things: a ``Problem`` (what a photon needs to know), a ``Partial`` (integer tallies
that add) and a function that makes a backend's ``Run`` objects. Everything else is here.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol, Self, TypeVar

from napari_gpubio.core.chunks import Runnable, advance_in_pieces
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step

PREVIEW_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0
FIRST_CHUNK = {"cpu": 256, "cuda": 1 << 20}  # a GPU is not filled by less
Ranges = list[tuple[int, int]]


class Problem(Protocol):
    """What every problem has."""

    @property
    def settings(self) -> Any:
        """What the user has chosen; ``photons`` among it."""

    @property
    def key(self) -> str:
        """Fingerprint of everything but the number of photons."""

    @property
    def batch_size(self) -> int:
        """Photons of a batch."""

    @property
    def batch_count(self) -> int:
        """Number of batches; the last may lack photons."""

    def batch_range(self, batch: int) -> tuple[int, int]:
        """First photon of a batch, and the one behind its last."""


class Partial(Protocol):
    """Tallies of some photons of a problem."""

    batch_size: int
    key: str

    @property
    def photons(self) -> int:
        """Number of photons done."""

    @property
    def photons_up_to(self) -> int:
        """One more than the largest index of a photon that is done."""

    def copy(self) -> Self:
        """Return a copy that further photons do not change."""

    def add(self, other: Any, problem: Any) -> None:
        """Add the tallies of other photons."""

    def missing(self, problem: Any) -> Ranges:
        """Ranges of photons that are not done, each within one batch, in order."""


class Run(Runnable, Protocol):
    """One processor at work."""

    span: int

    def snapshot(self) -> Any:
        """Tallies so far."""

    def close(self) -> None:
        """Free what it holds."""


AnyPartial = TypeVar("AnyPartial", bound=Partial)
AnyProblem = TypeVar("AnyProblem", bound=Any)
MakeRuns = Callable[[Any, Device], Sequence[Run]]
Progress = Iterator[tuple[int, Callable[[], AnyPartial]]]


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of tracing photons.

    Parameters
    ----------
    make_runs
        Makes one `Run` for each processor of a device; a function of a module, so that workers find it.
    assemble
        Turns a problem, its tallies and the parameters of the run into a result.
    """

    make_runs: MakeRuns
    assemble: Callable[[Any, Any, dict[str, Any]], Any]


def photon_steps(
    way: Way,
    problem: Problem,
    partial: AnyPartial,
    describe: Callable[[str, float], dict[str, Any]],
    *,
    device: str | Device,
    client: Any = None,
    stop: Event | None = None,
    seconds: float = 0.0,
) -> Generator[Step, None, Any]:
    """Trace the photons that are missing, and return the result; a step's preview is the result so far, now and then.

    Parameters
    ----------
    way, problem, partial
        What is traced, and what is done already.
    describe
        Gives the parameters of the run for the name of the device and the seconds so far.
    device, client, stop
        See `napari_gpubio.light.simulate_steps`.
    seconds
        What the photons that are done already took; see `seconds_of`.
    """
    begun, already, total = time.perf_counter(), partial.photons, problem.settings.photons
    if client is None:
        chosen = choose_device(device)
        name, progress = chosen.describe(), traced(problem, partial, way.make_runs, chosen, stop)
    else:
        name = "workers of a Dask cluster"
        progress = traced_by_workers(problem, partial, way.make_runs, client, str(device), stop)

    def result_of(tallies: Any) -> Any:
        return way.assemble(problem, tallies, describe(name, round(seconds + time.perf_counter() - begun, 4)))

    previews = Previews()
    for done, so_far in progress:
        look = None
        if previews.due() and already + done < total:
            look = functools.partial(previews.make, so_far, result_of)
        yield Step(already + done, total, "photons", look=look)
    return result_of(partial)


def traced(
    problem: Problem, partial: AnyPartial, make_runs: MakeRuns, device: Device, stop: Event | None
) -> "Progress[AnyPartial]":
    """Trace what is missing on one machine and add it to ``partial``.

    Yields
    ------
    done, so_far
        Photons done, and a function that gives all tallies so far.
    """
    runs = make_runs(problem, device)

    def so_far() -> AnyPartial:
        together = partial.copy()
        for run in runs:
            together.add(run.snapshot(), problem)
        return together

    try:
        pieces = joined(partial.missing(problem), runs[0].span)
        for done in advance_in_pieces(runs, pieces, stop=stop, first_chunk=FIRST_CHUNK[device.kind]):
            yield done, so_far
        for run in runs:
            partial.add(run.snapshot(), problem)
    finally:
        for run in runs:
            run.close()


def traced_by_workers(
    problem: Problem, partial: AnyPartial, make_runs: MakeRuns, client: Any, device: str, stop: Event | None
) -> "Progress[AnyPartial]":
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
        for one in partial.missing(problem)
    ]
    done = 0
    try:
        for task in as_completed(tasks):
            part = task.result()
            done += part.photons
            partial.add(part, problem)
            yield done, partial.copy
            if stop is not None and stop.is_set():
                break
    finally:
        client.cancel(tasks)


def _trace_range(problem: Problem, make_runs: MakeRuns, photons: tuple[int, int], device: str) -> Any:
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


def joined(ranges: Sequence[tuple[int, int]], span: int = 1 << 62) -> Ranges:
    """Return ranges in order, neighbors joined as far as they lie in the same span."""
    found: Ranges = []
    for start, stop in sorted(ranges):
        if found and found[-1][1] == start and found[-1][0] // span == (stop - 1) // span:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def missing_ranges(problem: Problem, done: Mapping[int, Ranges]) -> Ranges:
    """Ranges of photons that are not done, each within one batch, in order.

    Parameters
    ----------
    done
        For each batch that has been begun, the ranges that are done.
    """
    ranges: Ranges = []
    for batch in range(problem.batch_count):
        start, end = problem.batch_range(batch)
        for done_start, done_stop in done.get(batch, []):
            if start < done_start:
                ranges.append((start, done_start))
            start = done_stop
        if start < end:
            ranges.append((start, end))
    return ranges


def resumed(problem: AnyProblem, state: Any, kind: type[AnyPartial]) -> tuple[AnyProblem, AnyPartial]:
    """Return the problem with the batches of a saved state, and a copy of the state.

    Raises
    ------
    InvalidInput
        If there is no state, or it is of another simulation or has more photons.
    """
    if not isinstance(state, kind):
        raise InvalidInput("the result to resume has no saved state; save results with it to resume them")
    problem = dataclasses.replace(problem, batch_size=state.batch_size)
    check_resumed(state, problem, problem.settings.photons)
    return problem, state.copy()


def seconds_of(result: Any) -> float:
    """Seconds that all the photons of a result took, also if its run was resumed; 0 of None, or where it is unknown."""
    seconds = None if result is None else result.parameters.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def check_resumed(state: Partial, problem: Problem, photons: int) -> None:
    """Raise InvalidInput unless the tallies are those of some of a problem's photons."""
    if state.key != problem.key:
        raise InvalidInput(
            "the result to resume is of another simulation (what is simulated, the seed or the settings differ); only "
            "the number of photons may be raised"
        )
    if state.photons_up_to > photons:
        raise InvalidInput(
            f"the result to resume has traced photons up to number {state.photons_up_to:,}; ask for at least that many"
        )


class Previews:
    """Says when a preview is due: ten times a second at most, and to make them takes a tenth of the time at most."""

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

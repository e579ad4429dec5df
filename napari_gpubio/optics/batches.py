"""Batches of photons, for both engines: their integer tallies, standard errors, and tracing them on every device.

Let B whole batches of n photons have the sums S_i, and r photons that are left over the sum R. Photons are independent,
so a sum over k of them varies by k times the variance v of one photon, and ::

    v (B - 1 + c r (1 + r / (B n)))  =  < sum_i (S_i - S)^2 / n  +  c (R - S r / n)^2 >,    S = sum_i S_i / B

for any c. With c = 1 / max(n, r) the photons left over weigh as they do in the mean. Without them, a place that only
they have reached would have a value and no error; as a batch of their own (c = 1 / r), a single one that came by would
pass for a large deviation.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Problem, Runs, by_workers, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Inputs, difference, inputs_of
from napari_gpubio.core.steps import Step, with_step
from napari_gpubio.core.timing import RunClock
from napari_gpubio.optics.sources import all_sources

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Ranges = list[tuple[int, int]]
FEWEST_BATCHES = 2
PREVIEW_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0
_NO_INPUTS = ("photons", "path", "name", "notes", "parameters")  # fields that change no photon
FIRST_CHUNK = {"cpu": 256, "cuda": 1 << 20}  # a GPU is not filled by less


def joined(ranges: Sequence[tuple[int, int]], span: int = 1 << 62) -> Ranges:
    """Return ranges in order, neighbors joined as far as they lie in the same span."""
    found: Ranges = []
    for start, stop in sorted(ranges):
        if found and found[-1][1] == start and found[-1][0] // span == (stop - 1) // span:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


class BatchedProblem(Problem):
    """Photons in batches: what the problems of both engines share."""

    settings: Any
    batch_size: int

    def __post_init__(self) -> None:
        if not self.batch_size:
            object.__setattr__(self, "batch_size", max(1, self.settings.photons // self.settings.batches))

    @property
    def items(self) -> int:
        """Number of photons."""
        return int(self.settings.photons)

    def first_chunk(self, device: Device) -> int:
        """See `FIRST_CHUNK`."""
        return FIRST_CHUNK[device.kind]

    @cached_property
    def key(self) -> str:
        """Fingerprint of everything but the number of photons: runs with the same key trace the same photons."""
        raise NotImplementedError

    @property
    def batch_count(self) -> int:
        """Number of batches; the last may lack photons, and then stays open."""
        return -(-self.settings.photons // self.batch_size)

    def batch_range(self, batch: int) -> tuple[int, int]:
        """First photon of a batch, and the one behind its last."""
        return batch * self.batch_size, min((batch + 1) * self.batch_size, self.settings.photons)

    def pieces(self, span: int) -> Ranges:
        """All photons, batches that lie in the same span joined."""
        return joined([self.batch_range(batch) for batch in range(self.batch_count)], span)


@dataclass(eq=False)
class BatchPart:
    """Photons of one batch, those in the ranges (start, stop) of ``done``."""

    done: Ranges

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for start, stop in self.done)


@dataclass(eq=False, kw_only=True)
class Tally:
    """Integer tallies of some photons of a problem; what a run returns, and what is merged, saved and resumed.

    Everything is integers (but for a list of detected photons), so sums do not depend on their order.
    """

    batch_size: int
    key: str  # that of the problem

    def done(self) -> dict[int, Ranges]:
        """Ranges of photons that are done, for each batch that has been begun."""
        raise NotImplementedError

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for ranges in self.done().values() for start, stop in ranges)

    @property
    def photons_up_to(self) -> int:
        """One more than the largest index of a photon that is done."""
        return max((ranges[-1][1] for ranges in self.done().values()), default=0)

    def missing(self, problem: BatchedProblem) -> Ranges:
        """Ranges (start, stop) of photons that are not done, each within one batch, in order."""
        ranges, done = [], self.done()
        for batch in range(problem.batch_count):
            start, end = problem.batch_range(batch)
            for done_start, done_stop in done.get(batch, []):
                if start < done_start:
                    ranges.append((start, done_start))
                start = done_stop
            if start < end:
                ranges.append((start, end))
        return ranges

    def copy(self) -> Self:
        """Return a copy that further photons do not change."""
        raise NotImplementedError

    def merge(self, other: Self, problem: Any) -> None:
        """Add the tallies of other photons of the same problem."""
        raise NotImplementedError

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        return {"batch_size": np.array(self.batch_size), "key": np.array(self.key)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Undo `to_arrays`.

        Raises
        ------
        InvalidInput
            If an array is missing or of another shape or type.
        """
        try:
            return cls(batch_size=int(arrays["batch_size"]), key=str(arrays["key"]), **cls._fields_of(arrays))
        except KeyError as error:
            raise InvalidInput(f"the saved state lacks {error}; it was not written by this version") from error
        except (TypeError, ValueError, OverflowError) as error:  # arrays of other shapes or types
            raise InvalidInput(f"the saved state is damaged ({error}); save the result again") from error

    @classmethod
    def _fields_of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        raise NotImplementedError


def mean_error(whole: Floats, rest: Floats, batch_size: int, rest_photons: int) -> Floats:
    """Return the standard error of a mean per photon; NaN of fewer than two whole batches.

    Parameters
    ----------
    whole
        Sums over each whole batch, shape (B, ...).
    rest
        Sums over the photons that are left over, shape (...).
    batch_size, rest_photons
        Photons of a whole batch, and those left over.
    """
    mean = whole.mean(axis=0) if len(whole) else np.zeros(np.shape(rest))
    return error_of_squares(np.square(whole - mean).sum(axis=0), len(whole), mean, rest, batch_size, rest_photons)


def error_of_squares(
    squares: Floats, batches: int, mean: Floats, rest: Floats, batch_size: int, rest_photons: int
) -> Floats:
    """As `mean_error`, from the squares of what each batch is apart from the mean of all, added up."""
    if batches < FEWEST_BATCHES:
        return np.full(np.shape(rest), np.nan)
    spread = squares / batch_size
    spread += np.square(rest - mean * (rest_photons / batch_size)) / max(batch_size, rest_photons)
    photons = batches * batch_size + rest_photons
    return np.asarray(np.sqrt(spread / (freedom(batches, batch_size, rest_photons) * photons)))


def freedom(batches: int, batch_size: int, rest_photons: int) -> float:
    """Return how many times the variance of one photon the spread of all of them is: B - 1 + c r (1 + r / (B n))."""
    share = rest_photons / max(batch_size, rest_photons)
    return batches - 1 + share * (1.0 + rest_photons / (batches * batch_size))


AnyTally = TypeVar("AnyTally", bound=Tally)
AnyProblem = TypeVar("AnyProblem", bound=Any)
Progress = Iterator[tuple[int, Callable[[], AnyTally]]]


def photon_steps(
    problem: BatchedProblem,
    nothing: Tally,
    assemble: Callable[[Any, Any, dict[str, Any]], Any],
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
    problem
        What is traced; with ``resume``, a problem that has its batches, see `resumed`.
    nothing
        The tallies of no photons.
    assemble
        Makes a result of the problem, tallies, and parameters of the run; a generator if parts of it take long.
    described
        Everything needed to do the run again, as JSON can hold it; software, settings, device and seconds are added.
    device, client, stop
        See `napari_gpubio.light.simulate_steps`.
    resume
        An earlier result of the same problem, or None.
    """
    tally = nothing if resume is None else resume.state.copy()
    clock, already, total = RunClock(seconds_of(resume)), tally.photons, problem.settings.photons
    if client is None:
        chosen = choose_device(device)
        name, progress = chosen.describe(), traced(problem, tally, chosen, stop)
    else:
        name = "workers of a Dask cluster"
        progress = traced_by_workers(problem, tally, client, str(device), stop)

    def parameters() -> dict[str, Any]:
        """The device is that of the last leg of a resumed run, the seconds are those of all of them."""
        return how_made(name, clock.seconds, settings=dataclasses.asdict(problem.settings), **described)

    def parts_of(tallies: Any) -> Generator[None, None, Any]:
        made = assemble(problem, tallies, parameters())
        return (yield from made) if isinstance(made, Generator) else made

    previews = Previews()
    for done, so_far in progress:
        make_preview = None
        if previews.due() and already + done < total:
            make_preview = functools.partial(previews.make, so_far, parts_of)
        yield Step(already + done, total, "photons", make_preview=make_preview)
    return (yield from with_step(parts_of(tally), Step(tally.photons, total, "making volumes")))


def traced(problem: BatchedProblem, tally: AnyTally, device: Device, stop: Event | None) -> Progress[AnyTally]:
    """Trace what is missing on one machine and add it to ``tally``; yields photons done and a getter of all tallies."""
    with Runs(problem, device) as runs:
        for done in runs.pieces(joined(tally.missing(problem), runs.each[0].span), stop):
            yield done, lambda: runs.tally(tally.copy())
        runs.tally(tally)


def traced_by_workers(
    problem: BatchedProblem, tally: AnyTally, client: Any, device: str, stop: Event | None
) -> Progress[AnyTally]:
    """As `traced`, on the workers of a Dask cluster."""
    done = 0
    for part in by_workers(client, _trace_range, problem, tally.missing(problem), device):
        done += part.photons
        tally.merge(part, problem)
        yield done, tally.copy
        if stop is not None and stop.is_set():
            break


def _trace_range(problem: BatchedProblem, photons: tuple[int, int], device: str) -> Any:
    """Trace a range of photons on a worker and return their tallies."""
    with Runs(problem, choose_device(device)) as runs:
        for _ in runs.pieces([photons]):
            pass
        return runs.tally()


def resumed(problem: AnyProblem, result: Any, kind: type[Tally]) -> AnyProblem:
    """Return the problem with the batches of the result that is resumed, once it is sure that they fit."""
    if result is None:
        return problem
    state = result.state
    if not isinstance(state, kind):
        raise InvalidInput("the result to resume has no saved state; save results with it to resume them")
    problem = dataclasses.replace(problem, batch_size=state.batch_size)
    if state.key != problem.key:
        left_out = ("pattern",) if hasattr(result, "results") else ()  # each of these has its own
        before, now = (_inputs(one, left_out) for one in (getattr(result, "results", (result,))[0], problem))
        other = difference(before, now) or "what is simulated, the seed or the settings differ"
        raise InvalidInput(
            f"the result to resume is of another simulation ({other}); only the number of photons may be raised, "
            "beyond 2^31 not past the next power of 2"
        )
    if state.photons_up_to > problem.settings.photons:
        raise InvalidInput(
            f"the result to resume has traced photons up to number {state.photons_up_to:,}; request at least that many"
        )
    return problem


def _inputs(run: Any, left_out: tuple[str, ...]) -> Inputs:
    """All that a problem, or a result of one, is made of, but for some fields of its sources."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("domain", "medium", "settings"):
        if hasattr(run, name):
            found |= inputs_of(getattr(run, name), without=_NO_INPUTS)
    if hasattr(run, "domain"):
        found["labels"] = str(run.domain.path or ""), found["labels"][1]
        found |= inputs_of(all_sources(run.sources), "source", without=_NO_INPUTS + left_out)
        found |= inputs_of(tuple(run.detectors), "detector", without=_NO_INPUTS)
    return found


def seconds_of(result: Any) -> float:
    """Seconds that all the photons of a result took, also if its run was resumed; 0 of None, or where it is unknown."""
    seconds = None if result is None else result.parameters.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


class Previews:
    """Times previews: at most ten a second, which take at most a tenth of the time."""

    def __init__(self) -> None:
        self._next = time.perf_counter() + PREVIEW_SECONDS

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.perf_counter() >= self._next

    def make(
        self, so_far: Callable[[], Any], assemble: Callable[[Any], Generator[None, None, Any]]
    ) -> Generator[None, None, Any]:
        """Make a preview part by part, and put off the next one by what it took."""
        begun = time.perf_counter()
        result = yield from assemble(so_far())
        ended = time.perf_counter()
        self._next = ended + min(max(PREVIEW_SECONDS, 9.0 * (ended - begun)), LONGEST_WAIT_SECONDS)
        return result

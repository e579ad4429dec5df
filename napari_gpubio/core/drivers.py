"""The one driver of all kernels: problems, runs on the processors of a device, and the workers of a cluster.

A kernel is a package. Its ``problem.py`` has a `Problem`: what there is to do. Its ``cpu.py`` and ``gpu.py`` have a
`Run` each: how one processor does it. All else is here: `Runs` imports the backend of a device, opens a run on each of
its processors within their memory, has them do the items chunk by chunk (see `chunks`), puts together what they have
made, and closes them whatever happens.
"""

import functools
import importlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import Any, ClassVar, Self

from napari_gpubio import __version__
from napari_gpubio.core.chunks import advance_in_chunks, advance_in_pieces, within_memory
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.core.timing import compiling


class Problem(ShortRepr):
    """What there is to do; a subclass stands in the package of its backends, the modules ``cpu`` and ``gpu``.

    Only ``items`` and `memory` must be given, and they, too, only if it is done item by item, and on GPUs.
    """

    __slots__ = ()
    work: ClassVar[str] = "the computation"  # as the user knows it, for messages
    run: ClassVar[str] = "Run"  # the class in both backends
    at_first: ClassVar[int] = 8192  # items of the first chunk

    @property
    def items(self) -> int:
        """Number of items: photons, fibers, voxels, maps. What comes of one depends on its number only."""
        raise NotImplementedError

    @property
    def bytes_per_item(self) -> int:
        """Memory that an item of a chunk takes on a GPU, beyond what is resident."""
        return 1

    def first_chunk(self, device: Device) -> int:  # noqa: ARG002 - some depend on it
        """Items that each run does at first; later chunks are as long as a tenth of a second is."""
        return self.at_first

    def memory(self, device: Device) -> Memory:
        """What a run takes at its fullest moment: by default as `memory_of` of the module ``memory`` beside it says."""
        found: Memory = importlib.import_module(f"{_package_of(self)}.memory").memory_of(self, device)
        return found

    def options(self, device: Device) -> dict[str, Any]:  # noqa: ARG002 - some depend on it
        """Keyword arguments of runs, such as how many of them share the problem."""
        return {}

    def needed_bytes(self, device: Device, **options: Any) -> int:  # noqa: ARG002 - some depend on them
        """About what it takes to open a run with some options, for a message that there is less."""
        return self.memory(device).total


class Run:
    """A problem on one processor. A subclass gives `advance`, and `snapshot` or what `take` hands over.

    Parameters
    ----------
    problem
        What is done; its data are uploaded, and stay there until the run is closed.
    device
        A single processor.
    """

    def __init__(self, problem: Any, *, device: Device = CPU) -> None:
        self.device = device
        self._problem = problem
        self._finished: deque[Any] = deque()  # taken from another thread than it is filled from

    def bytes_per_item(self) -> int:
        """Memory that an item of a chunk takes."""
        return int(self._problem.bytes_per_item)

    def advance(self, start: int, count: int) -> None:
        """Do the items ``start`` to ``start + count - 1``; after an error nothing of them may remain."""
        raise NotImplementedError

    def snapshot(self) -> Any:
        """Tallies so far, as NumPy; the run goes on."""
        raise NotImplementedError

    def take(self) -> list[Any]:
        """Hand over the parts that are finished, and forget them."""
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def close(self) -> None:
        """Let all arrays go; only the device is known from then on."""
        device = self.device
        vars(self).clear()
        self.device = device


def how_made(device: Device | str, seconds: float, **settings: Any) -> dict[str, Any]:
    """How a result was made, as it carries it: by which version, with what, where, and in how many seconds."""
    where = device.describe() if isinstance(device, Device) else device
    return {"software": f"napari-gpubio {__version__}", **settings, "device": where, "seconds": round(seconds, 4)}


def _package_of(problem: Problem) -> str:
    return type(problem).__module__.rpartition(".")[0]


def backend(package: str, device: Device) -> Any:
    """Return the module ``gpu`` or ``cpu`` of a package of kernels; to load what is compiled counts as compilation."""
    with compiling():
        return importlib.import_module(f"{package}.{'gpu' if device.is_gpu else 'cpu'}")


def open_run(problem: Problem, device: Device, **options: Any) -> Any:
    """Open a run on a single processor, with `Problem.options` and what else it takes.

    Raises
    ------
    OutOfGpuMemory
        If it has too little memory.
    """
    kind = getattr(backend(_package_of(problem), device), problem.run)
    make = functools.partial(kind, problem, device=device, **options)
    if not device.is_gpu:
        return make()
    return within_memory(make, device, problem.needed_bytes(device, **options), problem.work)


class Runs:
    """The runs of one problem, one on each processor of a device, which are closed at the end of the context.

    Parameters
    ----------
    problem, device
        What is done, and where.
    **given
        What else the backend's ``Run`` takes, such as arrays that all of them fill.

    Raises
    ------
    OutOfGpuMemory
        If a GPU has too little memory.
    """

    def __init__(self, problem: Problem, device: Device, **given: Any) -> None:
        self.problem: Any = problem
        self.device = device
        options = problem.options(device) | given
        with ExitStack() as opened:  # which closes those before one that cannot be opened
            self.each = [opened.enter_context(closing(open_run(problem, one, **options))) for one in device.each]
            self.close = opened.pop_all().close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self, stop: threading.Event | None = None, *, most_ahead: int = 0) -> Iterator[int]:
        """Do all items, and yield how many are done after each chunk; see `advance_in_chunks`."""
        first = self.problem.first_chunk(self.device)
        return advance_in_chunks(self.each, self.problem.items, stop=stop, first_chunk=first, most_ahead=most_ahead)

    def pieces(self, pieces: Sequence[tuple[int, int]], stop: threading.Event | None = None) -> Iterator[int]:
        """Do some pieces of the items, each on one run; see `advance_in_pieces`."""
        return advance_in_pieces(self.each, pieces, stop=stop, first_chunk=self.problem.first_chunk(self.device))

    def steps(
        self, message: str, stop: threading.Event | None = None, preview: Callable[[], Any] | None = None
    ) -> Generator[Step, None, int]:
        """Do all items step by step; returns how many were done."""
        done = 0
        for done in self.chunks(stop):
            yield Step(done, self.problem.items, message, preview)
        return done

    def take(self) -> list[Any]:
        """Hand over the parts that are finished, of all runs."""
        return [part for run in self.each for part in run.take()]

    def tally(self, before: Any = None) -> Any:
        """Put the tallies of all runs together, whose class has ``merge(other, problem)``, into some from before."""
        first, *others = self.each
        tally = first.snapshot() if before is None else before
        for run in others if before is None else self.each:
            tally.merge(run.snapshot(), self.problem)
        return tally


def by_workers(
    client: Any,
    do: Callable[[Any, tuple[int, int], str], Any],
    problem: Any,
    ranges: Iterable[tuple[int, int]],
    device: str,
    *,
    most_ahead: int = 0,
) -> Iterator[Any]:
    """Have the workers of a Dask cluster do ranges of the items; what a worker that dies was at, another one does.

    Parameters
    ----------
    client
        A ``dask.distributed.Client``.
    do
        A function of a module, so that workers find it: ``do(problem, (start, stop), device)``.
    problem, ranges, device
        What it is given; the device is named, since workers have their own.
    most_ahead
        Ranges for each thread of a worker that may be done before one that is not; 0: any number.

    Yields
    ------
    What it returns, in the order of the ranges.
    """
    # on every worker, so that it is not lost with one; under a name of its own, since one that was just let go hangs
    shared = client.scatter(problem, broadcast=True, hash=False)
    most = most_ahead * max(1, sum(client.nthreads().values())) or sys.maxsize
    waiting, tasks = iter(ranges), deque[Any]()
    try:
        while True:
            for one in islice(waiting, most - len(tasks)):
                tasks.append(client.submit(do, shared, one, device, pure=False, retries=5))
            if not tasks:
                return
            yield tasks[0].result()
            tasks.popleft().release()  # the worker need not keep it
    finally:
        client.cancel(list(tasks))

"""Work through items in chunks: the length of a chunk, stop, retry after out-of-memory, several GPUs.

Runs are opened by `drivers`. Chunks are kept near a tenth of a second, so that Stop and a live preview work and a
display GPU's watchdog stays quiet; longer where short ones take as long because of a few items that do. Nothing here
can change a result: items are named by their global index.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from napari_gpubio.core.device import CPU, Device, free_gpu_pool, free_memory_bytes, is_out_of_gpu_memory
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.core.timing import RunClock

logger = logging.getLogger(__name__)
Made = TypeVar("Made")
CHUNK_SECONDS = 0.1
MAX_SECONDS = 0.5  # for the work of a chunk where every one, however short, takes more than CHUNK_SECONDS
USUAL_SHARE = 1 / 32  # of the free memory, for the items of a chunk
MAX_CHUNK_BYTES = 400 << 20  # more, where it is not that share, would only take it from others


def items_within_memory(device: Device, bytes_per_item: int, share: float = USUAL_SHARE) -> int:
    """Most items that are done at once on a device, at least one; ``share``: of the free memory that they may take."""
    if device.kind == CPU.kind:
        return 1 << 30
    free = free_memory_bytes(device)
    usable = min(max(MAX_CHUNK_BYTES, free * share), 0.6 * free)
    return max(1, int(usable / max(1, bytes_per_item)))


class Runnable(Protocol):
    """The methods of a backend's ``Run`` that chunked execution needs."""

    device: Device  # and perhaps ``memory_share``, in place of the usual one

    def advance(self, start: int, count: int) -> None:
        """Do the items ``start`` to ``start + count - 1``; after an error nothing of them may remain."""

    def bytes_per_item(self) -> int:
        """Memory that one item of a chunk takes on the device."""


def within_memory(do: Callable[[], Made], device: Device, needed_bytes: int, what: str) -> Made:
    """Do what takes GPU memory, such as making a run, which uploads its data; say the sizes if they do not fit.

    Parameters
    ----------
    do
        What is done, and done again if the memory runs out.
    device
        Where.
    needed_bytes
        About what it takes there.
    what
        The work, as the user knows it.

    Raises
    ------
    OutOfGpuMemory
        If there is too little memory, also after the reserve has been given back.
    """
    try:
        return do()
    except Exception as error:
        if not is_out_of_gpu_memory(error):
            raise
    free_gpu_pool(device)
    try:
        return do()
    except Exception as error:
        if not is_out_of_gpu_memory(error):
            raise
        raise OutOfGpuMemory(needed_bytes / 2**20, free_memory_bytes(device) / 2**20, what) from error


def advance_in_chunks(
    runs: Sequence[Runnable],
    total: int,
    *,
    stop: threading.Event | None = None,
    first_chunk: int = 1024,
    most_ahead: int = 0,
) -> Iterator[int]:
    """Do ``total`` items on one or several runs and yield the number done after each chunk.

    Parameters
    ----------
    runs
        One run for each device.
    total
        Number of items.
    stop
        When set, no further chunk is begun.
    first_chunk
        Items in the first chunk of each run; later ones are fitted to `CHUNK_SECONDS`.
    most_ahead
        Chunks for each run that may be begun after one that is not finished yet, for results that wait for their
        order; 0: any number.

    Raises
    ------
    OutOfGpuMemory
        If a single item does not fit on a GPU.
    """
    yield from _share(runs, _Line([(0, total)]), stop, first_chunk, most_ahead)


def advance_in_pieces(
    runs: Sequence[Runnable],
    pieces: Sequence[tuple[int, int]],
    *,
    stop: threading.Event | None = None,
    first_chunk: int = 1024,
) -> Iterator[int]:
    """Do pieces of the items, each of them on one run from its start to its end; yield the number done.

    For runs that gather over a piece (such as a batch of photons): no chunk crosses the border of a piece.

    Parameters
    ----------
    pieces
        Ranges (start, stop) of items.
    runs, stop, first_chunk
        See `advance_in_chunks`.
    """
    yield from _share(runs, _Pieces(pieces), stop, first_chunk)


class _Worker:
    """One run and the chunk length that suits it."""

    def __init__(self, run: Runnable, first_chunk: int) -> None:
        self.run = run
        self._ceiling = 1 << 30  # items that have proved too many for the memory are not tried again
        self._before: tuple[int, float] | None = None  # items and seconds of the last chunk
        self.length = max(1, min(first_chunk, self._fits()))

    def do(self, start: int, count: int) -> int:
        clock = RunClock()
        try:
            self.run.advance(start, count)
        except Exception as error:
            if not is_out_of_gpu_memory(error):
                raise
            return self._again_by_halves(start, count)
        self._fit_length(count, clock.seconds)
        return count

    def _again_by_halves(self, start: int, count: int) -> int:
        free_gpu_pool(self.run.device)
        if count == 1:
            needed, free = self.run.bytes_per_item(), free_memory_bytes(self.run.device)
            raise OutOfGpuMemory(needed / 2**20, free / 2**20)
        half = (count + 1) // 2
        logger.warning("out of GPU memory with %d items; trying again with %d", count, half)
        self.length = self._ceiling = half
        return self.do(start, half) + self.do(start + half, count - half)

    def _fit_length(self, count: int, seconds: float) -> None:
        if self._before is None and CHUNK_SECONDS < seconds < MAX_SECONDS:
            factor = 2.0  # to see whether it takes twice as long
        else:
            fixed = self._fixed_seconds(count, seconds)
            factor = max(CHUNK_SECONDS, min(2.0 * fixed, MAX_SECONDS)) / max(seconds - fixed, 1e-6)
        self._before = count, seconds
        self.length = max(1, min(int(count * min(4.0, factor)), self._ceiling, self._fits()))

    def _fixed_seconds(self, count: int, seconds: float) -> float:
        """Seconds of a chunk that do not depend on its length, such as its longest item; from the last two chunks."""
        if self._before is None or abs(count - self._before[0]) < 0.25 * count:
            return 0.0
        per_item = (seconds - self._before[1]) / (count - self._before[0])
        return min(max(0.0, seconds - per_item * count), 0.8 * seconds)

    def _fits(self) -> int:
        share = getattr(self.run, "memory_share", USUAL_SHARE)
        return items_within_memory(self.run.device, self.run.bytes_per_item(), share)


class _Line:
    """Work that any worker continues where another left off."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = [(start, stop) for start, stop in ranges if stop > start]

    def take(self, worker: _Worker) -> tuple[int, int] | None:
        """Return start and length of the next chunk for a worker, None when nothing is left."""
        if not self._ranges:
            return None
        start, stop = self._ranges[0]
        count = min(worker.length, stop - start)
        self._ranges[:1] = [(start + count, stop)] if start + count < stop else []
        return start, count


class _Pieces:
    """Work in pieces; a worker that has begun one finishes it."""

    def __init__(self, pieces: Sequence[tuple[int, int]]) -> None:
        self._waiting = _Line(pieces)._ranges
        self._own: dict[_Worker, _Line] = {}

    def take(self, worker: _Worker) -> tuple[int, int] | None:
        """Return start and length of the next chunk for a worker, None when nothing is left for it."""
        if (chunk := self._own.setdefault(worker, _Line([])).take(worker)) is not None:
            return chunk
        if not self._waiting:
            return None
        self._own[worker] = _Line([self._waiting.pop(0)])
        return self._own[worker].take(worker)


def _share(
    runs: Sequence[Runnable],
    work: _Line | _Pieces,
    stop: threading.Event | None,
    first_chunk: int,
    most_ahead: int = 0,
) -> Iterator[int]:
    workers = [_Worker(run, first_chunk) for run in runs]
    if len(workers) == 1:
        yield from _one(workers[0], work, stop)
    else:
        yield from _several(workers, work, stop, most_ahead * len(runs) or sys.maxsize)


def _one(worker: _Worker, work: _Line | _Pieces, stop: threading.Event | None) -> Iterator[int]:
    done = 0
    while not (stop is not None and stop.is_set()) and (chunk := work.take(worker)) is not None:
        done += worker.do(*chunk)
        yield done


def _several(
    workers: Sequence[_Worker], work: _Line | _Pieces, stop: threading.Event | None, most_ahead: int
) -> Iterator[int]:
    """One thread for each GPU; a worker that has finished takes the next chunk, if not too many are ahead of one."""
    done = begun = 0
    idle = list(workers)
    with ThreadPoolExecutor(len(workers), thread_name_prefix="napari-gpubio") as pool:
        busy: dict[Future[int], tuple[_Worker, int]] = {}  # with the number of its chunk, the oldest one first

        def give() -> None:
            nonlocal begun
            while idle and not (busy and begun - next(iter(busy.values()))[1] >= most_ahead):
                worker = idle.pop(0)
                stopped = stop is not None and stop.is_set()
                if not stopped and (chunk := work.take(worker)) is not None:
                    busy[pool.submit(worker.do, *chunk)] = worker, begun
                    begun += 1

        give()
        while busy:
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                idle.append(busy.pop(future)[0])
                done += future.result()
                give()
                yield done

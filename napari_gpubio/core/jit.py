"""Compiled CPU functions: five decorators, the cache they share, and blocks of items on all threads.

Numba compiles a function again for every caller that it is linked into, so the CPU backends are shallow: Python calls a
`kernel`, a kernel calls a `helper` (or a `pruned` one) or a `leaf`, and nothing large is called by anything that is
compiled. Kernels are serial, release the GIL, and take a range of items; `run_blocks` hands ranges to threads. In
compiled functions there are scalars, loops, indices and views: no array expressions, no ``parallel=True``, no formatted
messages.

The machine code is kept in a user folder named after the hash of an engine's kernel sources. An edit in any of them
(Numba itself looks at one file only) thus leads to a new folder, and a read-only installation works.
"""

import functools
import hashlib
import io
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import length_hint
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, cast

import numba as nb
import numpy.typing as npt
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from napari_gpubio.core.files import machine_code_folder, owner_of
from napari_gpubio.core.timing import begin_compiling, end_compiling

logger = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., Any])

# error_model: a division by zero is inf, as on the GPU, and not an exception.
_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
_CALLED: dict[str, Any] = {**_COMMON, "no_cpython_wrapper": True, "_nrt": False}
BLOCKS_PER_THREAD = 4
_SUM_BYTES = 16  # of the checksum behind a file of machine code


class _NamedFunctions(FunctionCache):
    """Machine code found by the name of its function, which a function that makes kernels sets.

    Numba would look at the functions around it, too, which are others in every process.
    """

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()


class _CheckedFiles(IndexDataCacheFile):
    """Files of machine code with a checksum behind them: one that does not fit its own is compiled again.

    Numba believes them, and what a bad disk or a killed copy has changed there ends in an error, or the process.
    """

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if _is_whole(Path(self._data_path(name))) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        held = io.BytesIO()
        yield held
        with super()._open_for_write(filepath) as file:
            file.write(held.getvalue() + _sum_of(held.getvalue()))


def _sum_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SUM_BYTES).digest()


def _is_whole(path: Path) -> bool:
    """Whether a file fits its checksum; one that is missing is left to Numba."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return True
    except OSError as error:
        logger.warning("%s cannot be read (%s); it is compiled again", path, error.strerror)
        return False
    if data[-_SUM_BYTES:] == _sum_of(data[:-_SUM_BYTES]):
        return True
    logger.warning("the machine code in %s is damaged; it is compiled again", path)
    with suppress(OSError):  # it is replaced in any case
        path.unlink()
    return False


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; its machine code is kept on disk."""
    chosen = nb.config.CACHE_DIR
    try:
        nb.config.CACHE_DIR = str(machine_code_folder(owner_of(Path(function.__code__.co_filename))))
        compiled: Any = nb.njit(cache=True, **_COMMON)(function)
    finally:
        nb.config.CACHE_DIR = chosen
    if hasattr(compiled, "_cache"):  # not with NUMBA_DISABLE_JIT
        compiled._cache.__class__ = _NamedFunctions
        compiled._cache._cache_file.__class__ = _CheckedFiles
    return cast("Function", compiled)


def helper(function: Function) -> Function:
    """Compile a function that only compiled functions call: it has no wrapper, and a call from Python would crash.

    References to its arrays are not counted, which would cost more than a few loads; so it makes and returns no arrays.
    """
    compiled: Function = nb.njit(**_CALLED)(function)
    return compiled


def pruned(function: Function) -> Function:
    """Compile a `helper` with ``if argument is not None``: what never runs is left out where it is called with None."""
    compiled: Function = nb.njit(**{**_CALLED, "no_rewrites": False})(function)
    return compiled


def leaf(function: Function) -> Function:
    """Compile a `helper` of a few lines, which LLVM inlines wherever it is called."""
    compiled: Function = nb.njit(forceinline=True, **_CALLED)(function)
    return compiled


def pruned_leaf(function: Function) -> Function:
    """Compile a `leaf` with ``if argument is not None``; see `pruned`."""
    compiled: Function = nb.njit(forceinline=True, **{**_CALLED, "no_rewrites": False})(function)
    return compiled


def thread_count() -> int:
    """Threads that compiled functions may use; the environment variable NUMBA_NUM_THREADS lowers it."""
    return int(nb.config.NUMBA_NUM_THREADS)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written to: one type for compiled functions, whatever array a user gave."""
    view = array.view()
    view.flags.writeable = False
    return view


def run_blocks(
    kernel: Callable[..., Any],
    count: int,
    *arguments: Any,
    least: int = 1,
    threads: int | None = None,
    blocks_per_thread: int = BLOCKS_PER_THREAD,
) -> None:
    """Call ``kernel(start, stop, *arguments)`` for ranges that make up ``range(count)``; idle threads take the next.

    Parameters
    ----------
    kernel
        A compiled function, or one of NumPy calls that let other threads run. What it writes for an item must not
        depend on the range that holds the item.
    count
        Number of items.
    arguments
        Given to every call.
    least
        Fewest items worth a call of their own; a call should last a millisecond.
    threads
        At most so many; all of `thread_count` if left out.
    blocks_per_thread
        More for long calls whose items take unequal times, so that no thread waits long for another's last.
    """
    threads = max(1, min(threads or thread_count(), count // least))
    if threads == 1:
        kernel(0, count, *arguments)
        return
    blocks = min(threads * blocks_per_thread, count // least)
    _Blocks(kernel, count, arguments, blocks, helpers=threads - 1).run()


def _nothing(*_: Any) -> None:
    """Stand in for a kernel that is not needed any more."""


class _Blocks:
    """The calls of one kernel, made by the caller and by helpers, which are threads that wait for work.

    The caller wakes two helpers only, each of which wakes two more: waking all would take it longer than many a call.
    An executor of the standard library does the same, but its futures take several times as long as a short call.
    """

    def __init__(self, kernel: Callable[..., Any], count: int, arguments: tuple[Any, ...], blocks: int, helpers: int):
        self._kernel, self._count, self._arguments, self._blocks = kernel, count, arguments, blocks
        self._todo, self._helpers = iter(range(blocks)), iter(range(helpers))  # next() is atomic under the GIL
        self._busy = threading.Condition(threading.Lock())
        self._helping, self._over = 0, False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Take part until all is done; helpers that have not begun by then are not waited for."""
        self._wake_helpers()
        try:
            self._work()
        finally:
            with self._busy:
                self._over = True
                self._busy.wait_for(lambda: not self._helping)
            self._kernel, self._arguments = _nothing, ()  # this may stay in the helpers' queue for a while
        if self._error is not None:
            raise self._error

    def help(self) -> None:
        """Take part, from another thread, unless all is done."""
        with self._busy:
            if self._over:
                return
            self._helping += 1
        try:
            self._wake_helpers()
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            self._error = error
        with self._busy:
            self._helping -= 1
            self._busy.notify()

    def _work(self) -> None:
        count, blocks = self._count, self._blocks
        for block in self._todo:
            self._kernel(block * count // blocks, (block + 1) * count // blocks, *self._arguments)

    def _wake_helpers(self) -> None:
        for _ in range(2):
            if length_hint(self._todo) and next(self._helpers, None) is not None:
                _helpers().put(self)


@functools.cache
def _helpers() -> SimpleQueue[_Blocks]:
    queue: SimpleQueue[_Blocks] = SimpleQueue()
    for number in range(thread_count() - 1):
        threading.Thread(target=_help, args=(queue,), name=f"gpubio-cpu-{number}", daemon=True).start()
    return queue


def _help(queue: SimpleQueue[_Blocks]) -> None:
    while True:
        queue.get().help()


class _Waits(event.Listener):
    """Counts the seconds in which Numba compiles, waits for a thread that does, or loads machine code."""

    def on_start(self, _event: event.Event) -> None:
        begin_compiling()

    def on_end(self, _event: event.Event) -> None:
        end_compiling()


class _Compilations(event.Listener):
    """Counts the functions that Numba compiles."""

    count = 0
    report: Callable[[], object] | None = None

    def on_start(self, _event: event.Event) -> None:
        pass

    def on_end(self, _event: event.Event) -> None:
        self.count += 1
        if self.report is not None:
            self.report()


_compilations = _Compilations()
event.register("numba:compile", _compilations)
event.register("numba:compiler_lock", _Waits())


def compiled_functions() -> int:
    """Functions that Numba has compiled in this process; those found in the cache do not count."""
    return _compilations.count


def on_compilation(report: Callable[[], object] | None) -> None:
    """Let a function be called after each compilation, in the thread that compiled; None ends that."""
    _compilations.report = report


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not survive a fork

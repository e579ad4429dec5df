"""Compiled CPU functions: four decorators, the cache they share, and blocks of items on all threads.

Numba compiles a function again for every caller that it is linked into, so the CPU backends are shallow: Python calls a
`kernel`, a kernel calls a `helper` or a `leaf`, and nothing large is called by anything that is compiled. Kernels are
serial, release the GIL, and take a range of items; `run_blocks` hands ranges to threads. Inside of compiled functions
there are scalars, loops, indices and views: no array expressions, no ``parallel=True``, no formatted messages.

The machine code is kept in a user folder named after the hash of an engine's kernel sources. An edit in any of them
(Numba itself looks at one file only) thus leads to a new folder, and a read-only installation works.
"""

import functools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from operator import length_hint
from pathlib import Path
from typing import Any, TypeVar

import numba as nb
import numpy.typing as npt
from numba.core import event

from napari_gpubio.core import timing
from napari_gpubio.core.files import machine_code_folder, owner_of

Function = TypeVar("Function", bound=Callable[..., Any])

# error_model: a division by zero is inf, as on the GPU, and not an exception.
_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
_CALLED: dict[str, Any] = {**_COMMON, "no_cpython_wrapper": True, "_nrt": False}
BLOCKS_PER_THREAD = 4


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; its machine code is kept on disk."""
    chosen = nb.config.CACHE_DIR
    try:
        nb.config.CACHE_DIR = str(machine_code_folder(owner_of(Path(function.__code__.co_filename))))
        compiled: Function = nb.njit(cache=True, **_COMMON)(function)
    finally:
        nb.config.CACHE_DIR = chosen
    return compiled


def helper(function: Function) -> Function:
    """Compile a function that only compiled functions call: it has no wrapper, and a call from Python would crash.

    References to its arrays are not counted, which would cost more than a few loads; so it makes and returns no arrays.
    """
    compiled: Function = nb.njit(**_CALLED)(function)
    return compiled


def leaf(function: Function) -> Function:
    """Compile a `helper` of a few lines, which LLVM inlines wherever it is called."""
    compiled: Function = nb.njit(forceinline=True, **_CALLED)(function)
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
    kernel: Callable[..., Any], count: int, *arguments: Any, least: int = 1, threads: int | None = None
) -> None:
    """Call ``kernel(start, stop, *arguments)`` for ranges that make up ``range(count)``; idle threads take the next.

    Parameters
    ----------
    kernel
        A compiled function. What it writes for an item must not depend on the range that holds the item.
    count
        Number of items.
    arguments
        Given to every call.
    least
        Fewest items worth a call of their own; a call should last a millisecond.
    threads
        At most so many; all of `thread_count` if left out.
    """
    threads = max(1, min(threads or thread_count(), count // least))
    if threads == 1:
        kernel(0, count, *arguments)
        return
    blocks = min(threads * BLOCKS_PER_THREAD, count // least)
    todo, helpers = iter(range(blocks)), iter(range(threads - 1))  # next() of these is atomic under the GIL
    jobs: deque[Future[None]] = deque()

    def work() -> None:
        for block in todo:
            kernel(block * count // blocks, (block + 1) * count // blocks, *arguments)

    def wake_helpers() -> None:
        for _ in range(2):
            if length_hint(todo) and next(helpers, None) is not None:
                jobs.append(_pool().submit(help_work))

    def help_work() -> None:
        wake_helpers()
        work()

    # The caller takes part, and wakes two helpers only, each of which wakes two more: waking all would take it longer
    # than many a call. Helpers that have not begun when all is done are not waited for.
    wake_helpers()
    try:
        work()
    finally:
        while jobs:
            job = jobs.popleft()
            if not job.cancel():
                job.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix="gpubio-cpu")


def _forget_pool() -> None:
    _pool.cache_clear()


class _Compilations(event.Listener):
    """Counts the functions that Numba compiles, and the seconds that it takes."""

    count = 0
    report: Callable[[], object] | None = None

    def on_start(self, _event: event.Event) -> None:
        timing.begin_compiling()

    def on_end(self, _event: event.Event) -> None:
        self.count += 1
        timing.end_compiling()
        if self.report is not None:
            self.report()


_compilations = _Compilations()
event.register("numba:compile", _compilations)


def compiled_functions() -> int:
    """Functions that Numba has compiled in this process; those found in the cache do not count."""
    return _compilations.count


def on_compilation(report: Callable[[], object] | None) -> None:
    """Let a function be called after each compilation, in the thread that compiled; None ends that."""
    _compilations.report = report


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork

"""Compiling an engine's CPU backend before a user waits for it, once for each machine.

``python -m napari_gpubio.core.warmup fibers`` makes the calls that the engine lists as ``WARMUPS``, prints the number
of compiled functions after each compilation, and leaves a marker beside the machine code. Panels and the command line
start it as a process of its own and read what it prints, so that a window stays responsive.
"""

import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from napari_gpubio.core.checks import WarmUp
from napari_gpubio.core.files import machine_code_folder, write_text

_POLL_SECONDS = 0.2
_UNSIGNED_SECONDS = 10.0  # after which a lock without its owner's number is taken for abandoned


def marker(engine: str) -> Path:
    """File that marks an engine's machine code as complete."""
    return machine_code_folder(engine) / "ready.json"


def is_warm(engine: str) -> bool:
    """Whether the CPU backend of an engine has been compiled on this machine, in its present version."""
    return marker(engine).is_file()


def warm(engine: str, on_compiled: Callable[[int], object] = lambda _: None) -> int:
    """Compile what a first use of an engine needs, in this process.

    Parameters
    ----------
    engine
        Its name.
    on_compiled
        Called with the number of functions compiled so far, after each of them.

    Returns
    -------
    Number of functions that were compiled; 0 if another process has done it.
    """
    from napari_gpubio.core import jit

    with _only_process(engine):
        if is_warm(engine):
            return 0
        before = jit.compiled_functions()
        jit.on_compilation(lambda: on_compiled(jit.compiled_functions() - before))
        try:
            for one in warmups(engine):
                one.run()
        finally:
            jit.on_compilation(None)
        compiled = jit.compiled_functions() - before
        write_text(marker(engine), json.dumps({"functions": compiled}))
    return compiled


def warmups(engine: str) -> tuple[WarmUp, ...]:
    """The calls that an engine lists, the most needed one first."""
    found: tuple[WarmUp, ...] = importlib.import_module(f"napari_gpubio.{engine}.checks").WARMUPS
    return found


def function_count(engine: str) -> int:
    """About how many functions there are to compile."""
    return sum(one.functions for one in warmups(engine))


def command(*engines: str) -> list[str]:
    """The command that warms engines, one after another, in a process of its own at low priority."""
    return [sys.executable, "-m", "napari_gpubio.core.warmup", *engines]


def warm_engines(engines: tuple[str, ...], report: Callable[[str, float, int], object]) -> bool:
    """Warm several engines, each in a process of its own, as many at a time as there are cores.

    Parameters
    ----------
    engines
        Their names.
    report
        Called with name, seconds and number of compiled functions whenever one is done; -1 functions if it failed.

    Returns
    -------
    Whether all are warm.
    """
    waiting = list(engines)
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    most, good = max(1, os.cpu_count() or 1), True
    while waiting or running:
        while waiting and len(running) < most:
            name = waiting.pop(0)
            running[name] = subprocess.Popen(command(name), stdout=subprocess.PIPE, text=True), time.perf_counter()
        for name, (process, begun) in list(running.items()):
            if process.poll() is not None:
                del running[name]
                counts = process.communicate()[0].split()
                functions = int(counts[-1]) if counts else 0
                succeeded = process.returncode == 0
                report(name, time.perf_counter() - begun, functions if succeeded else -1)
                good = good and succeeded
        time.sleep(_POLL_SECONDS)
    return good


@contextlib.contextmanager
def _only_process(engine: str) -> Iterator[None]:
    """Wait for other processes that warm the same engine, and keep others waiting."""
    lock = marker(engine).with_name("warming.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    while not _take(lock):
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _take(lock: Path) -> bool:
    import psutil  # here, for the command line's start does not need it

    try:
        with lock.open("x", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):  # its owner may end at any moment
            owner, age = lock.read_text(encoding="utf-8"), time.time() - lock.stat().st_mtime
            if not psutil.pid_exists(int(owner)) if owner.isdigit() else age > _UNSIGNED_SECONDS:
                lock.unlink()  # of a process that was killed
        return False
    return True


def main(engines: Sequence[str]) -> None:
    """Warm engines, and print after each compilation how many functions that makes."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process()
        process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else 10)
    done = 0
    for engine in engines:
        done += warm(engine, functools.partial(_print_count, done))


def _print_count(before: int, count: int) -> None:
    print(before + count, flush=True)  # noqa: T201 - read by the process that started this one


if __name__ == "__main__":
    main(sys.argv[1:])

"""Compiling an engine's CPU backend before a user waits for it, once for each machine.

``python -m napari_gpubio.core.warmup fibers`` makes the calls that the engine lists as ``WARMUPS``, prints the number
of compiled functions after each compilation, and leaves markers beside the machine code: one for each call, and one for
all. Panels and the command line start it as a process of its own and read what it prints, so that a window stays
responsive. A run waits for the calls that it needs, which come first, and not for the others.
"""

import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from napari_gpubio.core.checks import WarmUp
from napari_gpubio.core.files import machine_code_folder, write_text

_POLL_SECONDS = 0.2
_UNSIGNED_SECONDS = 10.0  # after which a lock without its owner's number is taken for abandoned
_CLOCK_SECONDS = 2.0  # by which times of files and of processes may differ
_MOST_BYTES = 4096  # of names that are read at once


def marker(name: str) -> Path:
    """File that marks the machine code of an engine, or of one of its warm-ups (``fibers/flow``), as complete."""
    engine, _, one = name.partition("/")
    return machine_code_folder(engine) / f"{one.replace(' ', '_') or 'all'}.ready.json"


def is_warm(name: str) -> bool:
    """Whether an engine, or what one of its warm-ups is for, has been compiled on this machine, as it is now."""
    return marker(name).is_file() or ("/" in name and is_warm(name.partition("/")[0]))


def warm(name: str, on_compiled: Callable[[int], object] = lambda _: None) -> int:
    """Compile what a first use of an engine needs, in this process, after what that needs of others.

    Parameters
    ----------
    name
        An engine, or one of its warm-ups: ``fibers``, ``fibers/fiber tracking``.
    on_compiled
        Called with the number of functions compiled so far, after each of them, and again at the end of each warm-up.

    Returns
    -------
    Number of functions that were compiled; those that another process has compiled do not count.
    """

    def after(before: int) -> Callable[[int], object]:
        return lambda count: on_compiled(before + count)

    engine, _, which = name.partition("/")
    if is_warm(name):
        return 0
    compiled, listed = 0, warmups(engine)
    if not which:
        for one in listed:
            compiled += warm(f"{engine}/{one.name}", after(compiled))
        write_text(marker(name), json.dumps({"functions": compiled}))
        return compiled
    chosen = next(one for one in listed if one.name == which)
    for need in chosen.needs:
        compiled += warm(need, after(compiled))
    return compiled + _run_once(name, chosen, after(compiled))


def _run_once(name: str, one: WarmUp, on_compiled: Callable[[int], object]) -> int:
    from napari_gpubio.core import jit

    with _only_process(name.partition("/")[0]):
        if is_warm(name):
            return 0
        before = jit.compiled_functions()
        jit.on_compilation(lambda: on_compiled(jit.compiled_functions() - before))
        try:
            one.run()
        finally:
            jit.on_compilation(None)
        compiled = jit.compiled_functions() - before
        write_text(marker(name), json.dumps({"functions": compiled}))
    on_compiled(compiled)
    return compiled


def warmups(engine: str) -> tuple[WarmUp, ...]:
    """The calls that an engine lists, the most needed one first."""
    found: tuple[WarmUp, ...] = importlib.import_module(f"napari_gpubio.{engine}.checks").WARMUPS
    return found


def function_counts(*names: str) -> tuple[int, int]:
    """About how many functions of engines, or of their warm-ups, are to be compiled yet, and how many there are."""
    listed = {
        f"{engine}/{one.name}": one.functions
        for engine, _, which in (name.partition("/") for name in names)
        for one in warmups(engine)
        if which in ("", one.name)
    }
    return sum(count for name, count in listed.items() if not is_warm(name)), sum(listed.values())


def command(*names: str) -> list[str]:
    """The command that warms engines, or some of their warm-ups, one after another, in a process at low priority.

    It prints how many functions are compiled after each of them, and again at the end of each warm-up. Names that it
    reads from its standard input, a line each, are the next ones.
    """
    return [sys.executable, "-m", "napari_gpubio.core.warmup", *names]


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
            running[name] = _started(command(name)), time.perf_counter()
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


def _started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def _only_process(engine: str) -> Iterator[None]:
    """Wait for other processes that warm the same engine, who came first goes first, and keep others waiting."""
    folder = machine_code_folder(engine)
    folder.mkdir(parents=True, exist_ok=True)
    lock, place = folder / "warming.lock", folder / f"{time.time_ns():020}.place"
    place.write_text(str(os.getpid()), encoding="utf-8")
    try:
        while any(map(_is_held, _places_before(place))) or not _take(lock):
            time.sleep(_POLL_SECONDS)
    finally:
        place.unlink(missing_ok=True)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _places_before(place: Path) -> list[Path]:
    """The places of those who began to wait earlier."""
    return [other for other in place.parent.glob("*.place") if other.name < place.name]


def _take(lock: Path) -> bool:
    try:
        with lock.open("x", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        _is_held(lock)
        return False
    return True


def _is_held(file: Path) -> bool:
    """Whether the process that wrote its number into a file is there; the file of one that was killed is removed."""
    import psutil  # here, for the command line's start does not need it

    try:
        owner, written = file.read_text(encoding="utf-8"), file.stat().st_mtime
        if not owner.isdigit():
            is_held = time.time() - written < _UNSIGNED_SECONDS
        else:  # a process that began later only has the number of the one that was killed
            is_held = psutil.Process(int(owner)).create_time() < written + _CLOCK_SECONDS
    except FileNotFoundError:  # its owner may end at any moment
        return False
    except psutil.NoSuchProcess:
        is_held = False
    if not is_held:
        file.unlink(missing_ok=True)
    return is_held


def main(names: Sequence[str]) -> None:
    """Warm engines or some of their warm-ups; see `command`."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process()
        process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else 10)
    waiting = deque(dict.fromkeys(names))
    threading.Thread(target=_listen, args=(waiting,), daemon=True).start()
    done = 0
    while waiting:
        done += warm(waiting.popleft(), functools.partial(_print_count, done))


def _listen(waiting: deque[str]) -> None:
    """Put the names that come from the standard input in front, until it ends."""
    with contextlib.suppress(OSError):
        while text := os.read(0, _MOST_BYTES).decode():  # what is written at once is read at once
            waiting.extendleft(reversed(text.splitlines()))


def _print_count(before: int, count: int) -> None:
    print(before + count, flush=True)  # noqa: T201 - read by the process that started this one


if __name__ == "__main__":
    main(sys.argv[1:])

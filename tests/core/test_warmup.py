"""Compiling ahead: once, by one process at a time, with a marker at the end."""

import datetime
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from napari_gpubio.cli import CHECKED
from napari_gpubio.core import files, warmup
from napari_gpubio.core.checks import WarmUp

SECONDS = 20.0


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """An engine with two warm-ups, and an empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    files.machine_code_folder.cache_clear()
    calls = []
    listed = tuple(WarmUp(name=name, run=lambda name=name: calls.append(name), functions=3) for name in ("one", "two"))
    monkeypatch.setitem(sys.modules, "napari_gpubio.made_up", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "napari_gpubio.made_up.checks", SimpleNamespace(WARMUPS=listed))
    yield SimpleNamespace(name="made_up", calls=calls)
    files.machine_code_folder.cache_clear()


def test_it_is_done_once(engine):
    assert not warmup.is_warm(engine.name)
    warmup.warm(engine.name)
    assert engine.calls == ["one", "two"]
    assert warmup.is_warm(engine.name)
    warmup.warm(engine.name)
    assert engine.calls == ["one", "two"]
    assert warmup.function_counts(engine.name) == (0, 6)


def test_one_warm_up_is_done_alone_after_what_it_needs_of_others(engine, monkeypatch):
    told = []
    needy = WarmUp(name="three", run=lambda: engine.calls.append("three"), functions=5, needs=("made_up/two",))
    monkeypatch.setitem(sys.modules, "napari_gpubio.other", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "napari_gpubio.other.checks", SimpleNamespace(WARMUPS=(needy,)))
    warmup.warm("other/three", told.append)
    assert engine.calls == ["two", "three"]
    assert told == [0, 0], "the end of each is told"
    assert [warmup.is_warm(name) for name in ("made_up/two", "made_up/one", "made_up", "other/three")] == [1, 0, 0, 1]
    assert warmup.function_counts("made_up", "made_up/two") == (3, 6), "each counts once"
    warmup.warm("made_up")
    assert engine.calls == ["two", "three", "one"], "nothing is done twice"


def test_a_failure_leaves_no_marker_and_no_lock(engine, monkeypatch):
    def fail():
        raise RuntimeError("no compiler")

    failing = SimpleNamespace(WARMUPS=(WarmUp(name="one", run=fail),))
    monkeypatch.setitem(sys.modules, "napari_gpubio.made_up.checks", failing)
    with pytest.raises(RuntimeError):
        warmup.warm(engine.name)
    assert not warmup.is_warm(engine.name)
    assert list(warmup.marker(engine.name).parent.iterdir()) == []


@pytest.mark.parametrize("signed", [True, False])
def test_the_lock_of_a_process_that_is_gone_does_not_keep_others_waiting(engine, signed):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    _leave(engine, "warming.lock", str(gone.pid) if signed else "", seconds=1e9)  # killed before it could write its own
    warmup.warm(engine.name)
    assert engine.calls == ["one", "two"]


def _leave(engine, name, owner, seconds=0.0):
    """A file of a process that warms, or waits for its turn, as it was written so many seconds ago."""
    file = warmup.marker(engine.name).with_name(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(owner)
    os.utime(file, (time.time() - seconds,) * 2)
    return file


@pytest.mark.parametrize("name", ["warming.lock", "0001.place"])
def test_a_process_with_the_number_of_one_that_was_killed_is_not_waited_for(engine, name):
    file = _leave(engine, name, str(os.getpid()), seconds=1e6)  # before this process began
    warmup.warm(engine.name)
    assert engine.calls == ["one", "two"]
    assert not file.exists()


def test_who_began_to_wait_earlier_has_the_next_turn(engine, monkeypatch):
    first = _leave(engine, "0001.place", str(os.getpid()))
    slept = []

    def sleep(_seconds):
        slept.append(engine.calls.copy())
        first.unlink()

    monkeypatch.setattr(warmup.time, "sleep", sleep)
    warmup.warm(engine.name)
    assert slept == [[]]
    assert engine.calls == ["one", "two"]


def test_a_name_that_is_read_is_the_next_one(engine, monkeypatch):
    read_end, write_end = os.pipe()
    read = os.read
    monkeypatch.setattr(warmup.os, "read", lambda _, most: read(read_end, most))
    heard = threading.Event()

    def warm(name, _on_compiled):
        if name == "one":
            os.write(write_end, b"four\nthree\n")
            os.close(write_end)
            assert heard.wait(SECONDS)
        engine.calls.append(name)
        return 0

    listen = warmup._listen
    monkeypatch.setattr(warmup, "_listen", lambda waiting: (listen(waiting), heard.set()))
    monkeypatch.setattr(warmup, "warm", warm)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(nice=lambda _: None))  # this process stays as it is
    warmup.main(["one", "two", "three"])
    assert engine.calls == ["one", "four", "three", "two", "three"]
    os.close(read_end)


def test_who_comes_second_waits_and_compiles_nothing(engine, monkeypatch):
    lock = _leave(engine, "warming.lock", str(os.getpid()))

    def other_process_ends(_seconds):
        warmup.marker(engine.name).write_text("{}")
        lock.unlink()

    monkeypatch.setattr(warmup.time, "sleep", other_process_ends)
    assert warmup.warm(engine.name) == 0
    assert engine.calls == []


def test_a_process_of_its_own_compiles_the_kit_and_says_how_far_it_is(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(warmup.command("gui"), capture_output=True, text=True, check=True, env=environment)
    counts = [int(line) for line in done.stdout.split()]
    total = warmup.function_counts("gui")[1]
    assert counts == [*range(1, total + 1), total]
    assert {path.name for path in Path(tmp_path).glob("gui-*/*.ready.json")} == {
        "all.ready.json",
        "streamlines.ready.json",
    }


def test_several_engines_are_warmed_by_processes_of_their_own(monkeypatch):
    programs = {"cold": "print(1); print(2)", "warm": "", "broken": "print(1); raise SystemExit(1)"}
    monkeypatch.setattr(warmup, "command", lambda engine: [sys.executable, "-c", programs[engine]])
    monkeypatch.setattr(warmup.os, "cpu_count", lambda: 2)
    functions = {}
    assert not warmup.warm_engines(tuple(programs), lambda name, _seconds, count: functions.update({name: count}))
    assert functions == {"cold": 2, "warm": 0, "broken": -1}
    assert warmup.warm_engines(("cold", "warm"), lambda *_: None)


COUNTED = sorted({*CHECKED} - {"speckle"})  # whose own tests count each warm-up
TODAY = datetime.date.today().toordinal()


@pytest.mark.long
@pytest.mark.parametrize("engine_name", COUNTED[TODAY % 3 :: 3])  # each compiles for a quarter of a minute
def test_warmups_compile_as_many_functions_as_they_say(engine_name, tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def compiled(*names):
        done = subprocess.run(warmup.command(*names), capture_output=True, text=True, check=True, env=environment)
        return int(done.stdout.split()[-1])

    if needs := {need for one in warmup.warmups(engine_name) for need in one.needs}:
        compiled(*needs)
    assert compiled(engine_name) == warmup.function_counts(engine_name)[1]

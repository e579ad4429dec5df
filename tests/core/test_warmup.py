"""Compiling ahead: once, by one process at a time, with a marker at the end."""

import datetime
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from napari_gpubio.cli import CHECKED
from napari_gpubio.core import files, warmup
from napari_gpubio.core.checks import WarmUp


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
    assert warmup.function_count(engine.name) == 6


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
    lock = warmup.marker(engine.name).with_name("warming.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text(str(gone.pid) if signed else "")  # killed before it could write its number
    os.utime(lock, (0, 0))
    warmup.warm(engine.name)
    assert engine.calls == ["one", "two"]


def test_who_comes_second_waits_and_compiles_nothing(engine, monkeypatch):
    lock = warmup.marker(engine.name).with_name("warming.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text(str(os.getpid()))

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
    assert counts == list(range(1, warmup.function_count("gui") + 1))
    assert len(list(Path(tmp_path).glob("gui-*/ready.json"))) == 1


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
    done = subprocess.run(warmup.command(engine_name), capture_output=True, text=True, check=True, env=environment)
    assert len(done.stdout.split()) == warmup.function_count(engine_name)

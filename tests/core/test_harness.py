"""The rules for running tests: which cases have their turn, and what ends when a test crashes or hangs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.conftest import FORBID_SKIPS
from tests.harness import deadlines, selection, times
from tests.harness.windows import KeptWindow

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ["tests.conftest", "pytestqt.plugin", "xdist.plugin"]


@pytest.fixture
def run_pytest(tmp_path):
    """A function that runs files of tests under the project's conftest; returns what is printed, and the status."""

    def run(*options: str, passed: Path | str = "", **files: str) -> tuple[str, int]:
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text("import os, time, pytest\n" + text)
        command = [sys.executable, "-m", "pytest", *(word for plugin in PLUGINS for word in ("-p", plugin))]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "--disable-warnings", *options]
        done = subprocess.run(
            [*command, str(tmp_path)],
            cwd=ROOT,
            env=os.environ
            | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", times.PASSED: str(passed), FORBID_SKIPS: ""},  # quicker
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return done.stdout + done.stderr, done.returncode

    return run


# -- which cases have their turn --------------------------------------------------------------------------------------


def items(function, count, *marks):
    """So many cases of a test."""
    return [
        SimpleNamespace(nodeid=f"tests/a.py::{function}[{n}]", get_closest_marker=dict.fromkeys(marks, True).get)
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 6, 7, 8, 30])
def test_every_case_has_its_turn_and_few_are_run_at_once(count):
    cases = items("test_x", count)
    runs = [selection.chosen(cases, seed) for seed in range(1000, 1000 + selection.DAYS)]
    assert {case.nodeid for run in runs for case in run} == {case.nodeid for case in cases}
    assert {len(run) for run in runs} <= {count // min(count, selection.DAYS), -(-count // selection.DAYS)}


def test_marks_choose_all_cases_or_none_and_a_gpu_takes_no_turn_from_the_cpu():
    assert len(selection.chosen(items("test_x", 9, "every_case"), 1)) == 9
    assert selection.chosen(items("test_x", 9, "long"), 1) == []
    both = items("test_x", 1) + items("test_x", 1, "gpu")
    assert selection.chosen(both, 1) == both


def test_slow_tests_take_turns_unless_they_are_daily():
    tests = [case for n in range(5 * selection.SLOW_DAYS) for case in items(f"test_{n}", n % 8 + 1)]
    slow = {selection.function_of(case) for case in tests}
    days = [selection.chosen(tests, seed, slow) for seed in range(1000, 1000 + selection.DAYS * selection.SLOW_DAYS)]
    functions = [{selection.function_of(case) for case in day} for day in days]
    assert {len(day) for day in functions} == {5}
    assert set.union(*functions[: selection.SLOW_DAYS]) == slow
    assert {case.nodeid for day in days for case in day} == {case.nodeid for case in tests}
    daily = items("test_daily", 1, "daily")
    assert all(
        selection.chosen(daily, seed, ["tests/a.py::test_daily"]) == daily for seed in range(selection.SLOW_DAYS)
    )


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("b.py", True),
        ("b.py::test_x", True),
        ("b.py::test_x[1]", True),
        ("b.py::test_y", False),
        ("a.py", False),
        ("", False),
    ],
)
def test_what_the_user_names_is_run_whole(tmp_path, word, named):
    item = SimpleNamespace(path=tmp_path / "b.py", nodeid="b.py::test_x[3]")
    assert selection.is_named(item, [str(tmp_path), f"{tmp_path}/c.py", f"{tmp_path}/{word}"]) is named


def test_functions_do_not_all_begin_with_their_first_case():
    first = {selection.chosen(items(f"test_{n}", 7), 1)[0].nodeid[-3:] for n in range(40)}
    assert len(first) == 7


def test_files_that_take_long_come_first_and_tests_of_a_file_stay_together():
    every = [SimpleNamespace(nodeid=f"tests/{file}.py::test_{n}", get_closest_marker=lambda _: None)
             for file, count in (("a", 2), ("b", 3), ("c", 1)) for n in range(count)]  # fmt: skip
    selection.sort_longest_first(every, {"tests/c.py::test_0": 60.0})
    assert [item.nodeid[6] for item in every] == list("cbbbaa")
    selection.shuffle(every, 3)
    assert sorted("".join(item.nodeid[6] for item in every).replace("bbb", "b").replace("aa", "a")) == list("abc")


def test_what_passed_is_not_run_again_with_all_and_what_failed_is(run_pytest, tmp_path):
    text = """@pytest.mark.parametrize("n", range(8))
def test_cases(n): assert n != 3
def test_left_out(): pytest.xfail("known")
"""
    noted = tmp_path / "passed"
    assert "1 failed, 7 passed, 1 xfailed" in run_pytest("--all", passed=noted, it=text)[0]
    out, _ = run_pytest("--all", "-n", "2", passed=noted, it=text)
    assert "1 failed, 1 xfailed" in out
    assert "but for the 7 that passed before" in out


def test_options_choose_what_is_run(run_pytest):
    text = (
        "@pytest.mark.parametrize('n', range(7))\ndef test_seven(n): pass\n@pytest.mark.long\ndef test_long(): pass\n"
    )
    out, status = run_pytest("--seed", "3", it=text)
    assert status == 0
    assert "chosen by --seed 3" in out
    assert "1 passed, 7 deselected" in out
    assert "8 passed" in run_pytest("--all", it=text)[0]


def test_the_table_has_the_seconds_of_each_folder():
    timed = times.Times(SimpleNamespace())
    for file, seconds in (("tests/a/test_1.py", 2.0), ("tests/a/test_2.py", 1.0), ("tests/b/test_3.py", 5.0)):
        timed.pytest_runtest_logreport(
            SimpleNamespace(nodeid=f"{file}::test_x", duration=seconds, when="call", outcome="passed")
        )
    assert [line.split() for line in timed.table()] == [
        ["1", "tests", "5.0", "s", "tests/b"],
        ["2", "tests", "3.0", "s", "tests/a"],
    ]


def test_slow_tests_are_written_down_and_others_taken_off():
    timed = times.Times(SimpleNamespace())
    for name, seconds in (("a[1]", 0.5), ("a[2]", 0.3), ("b", 0.05), ("c", 0.31)):
        timed.pytest_runtest_logreport(
            SimpleNamespace(nodeid=f"tests/test_1.py::{name}", duration=seconds, when="call", outcome="passed")
        )
    known = {"tests/test_1.py::b": 2.0, "tests/test_1.py::d": 1.0}
    assert timed.slow(known).splitlines() == [f"tests/test_1.py::{line}" for line in ("a,0.40", "c,0.31", "d,1.00")]


def test_slow_tests_are_there():
    """Else delete their lines."""
    for test in times.slow_tests():
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test


# -- what ends --------------------------------------------------------------------------------------------------------

OTHERS = "@pytest.mark.parametrize('n', range(50))\ndef test_slow(n): time.sleep(1)\n"


@pytest.mark.parametrize("options", [["-n", "2", "--dist", "loadfile"], []], ids=["workers", "one process"])
def test_a_crash_ends_the_run_at_once_with_the_stack_of_the_test(run_pytest, options):
    begun = time.monotonic()
    out, status = run_pytest(*options, crash="def test_that_crashes(): os.abort()\n", others=OTHERS)
    assert status != 0
    assert "Fatal Python error: Aborted" in out
    assert "in test_that_crashes" in out
    if options:
        assert re.search(r"worker gw\d has died in test_crash.py::test_that_crashes", out)
        assert time.monotonic() - begun < 40  # not the 50 s of the others


def test_a_test_that_hangs_is_ended_and_named(run_pytest):
    hanging = "import threading\ndef test_that_hangs(): threading.Event().wait()\n"
    out, status = run_pytest("-n", "2", "--dist", "loadfile", "--patience", "0.01", hang=hanging)
    assert status == 1
    assert "Timeout" in out
    assert "in test_that_hangs" in out
    assert "has died in test_hang.py::test_that_hangs" in out


def test_a_test_has_its_own_time_or_what_is_left_of_its_file_and_of_the_run(monkeypatch):
    waits, now = [], [0.0]
    monkeypatch.setattr(deadlines.faulthandler, "dump_traceback_later", lambda seconds, **_: waits.append(seconds))
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now[0])
    plugin = deadlines.Deadlines(SimpleNamespace(option=SimpleNamespace(patience=2.0)))

    def wait_of_a_test(path, begun):
        now[0] = begun
        running = plugin.pytest_runtest_protocol(SimpleNamespace(path=path))
        next(running)
        return waits[-1]

    test, file, run = (2 * s for s in (deadlines.TEST_SECONDS, deadlines.FILE_SECONDS, deadlines.RUN_SECONDS))
    assert waits == [run]
    assert wait_of_a_test("a", 10.0) == test
    assert wait_of_a_test("a", 10.0 + file - 5.0) == 5.0
    assert wait_of_a_test("b", 10.0 + file) == test
    assert wait_of_a_test("c", run - 7.0) == 7.0
    plugin.pytest_exception_interact()
    assert waits[-1] == 7.0


# -- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.display
def test_an_emptied_window_is_as_a_new_one_and_what_stays_in_it_is_named(make_window):
    kept = KeptWindow(make_window())
    viewer = kept.viewer
    viewer.add_image(np.zeros((4, 4)))
    viewer.dims.ndisplay, viewer.theme, viewer.title = 3, "light", "other"
    viewer.canvas.overlays.scale_bar.visible = True
    assert any("layers" in problem for problem in kept.problems())
    kept.empty()
    assert kept.problems() == []

    def follow(_event):
        """Stay in the window."""

    viewer.dims.events.ndisplay.connect(follow)
    viewer.mouse_drag_callbacks.append(follow)
    kept.empty()
    problems = "\n".join(kept.problems())
    assert "callbacks, dims.ndisplay: ['tests.core.test_harness" in problems
    assert "mouse callbacks, mouse_drag_callbacks: 2, not 1" in problems

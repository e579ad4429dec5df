"""The list of devices, and panels that open with a cold cache, which compile in another process before they run."""

import sys
import threading

import psutil
import pytest

from napari_gpubio.core import device as devices
from napari_gpubio.core import warmup
from napari_gpubio.gui import processors
from napari_gpubio.gui.processors import DevicePicker
from tests.gui.counting_panel import SECONDS, CountingPanel, finished


@pytest.fixture
def list_of(qtbot, monkeypatch):
    """A function that gives the list of a new panel on a machine with so many GPUs, and the panel."""
    found, panels = threading.Event(), []

    def look(count):
        assert found.wait(SECONDS)
        return [devices.CPU, *(devices.Device("cuda", (i,)) for i in range(count))]

    def make(count, problem=None, chosen=None):
        monkeypatch.setattr(processors, "list_devices", lambda: look(count))
        monkeypatch.setattr(processors, "gpu_problem", lambda: problem)
        monkeypatch.setattr(devices.Device, "describe", lambda self: f"the {self}")
        panels.append(CountingPanel())
        qtbot.addWidget(panels[0])
        box = panels[0].findChild(DevicePicker)
        assert offered(box) == ["auto", "cpu"], "before the search has ended"
        if chosen:
            panels[0].choose_device(chosen)
        found.set()
        qtbot.waitUntil(lambda: "looking" not in box.toolTip(), timeout=1000 * SECONDS)
        return box, panels[0]

    yield make
    found.set()
    panels[0].teardown()


def offered(box):
    return [box.itemData(i) for i in range(box.count())]


@pytest.mark.parametrize(("count", "names"), [(0, []), (1, ["cuda:0"]), (2, ["cuda:0", "cuda:1", "cuda:all"])])
def test_the_device_list(list_of, count, names):
    box, panel = list_of(count, None if count else "CuPy is not installed")
    assert offered(box) == ["auto", "cpu", *names]
    assert panel.device == "auto"
    assert box.toolTip() == "CuPy is not installed" if not count else box.itemText(2) == "the cuda:0"


def test_a_device_chosen_before_the_look_has_ended_is_listed_once(list_of):
    box, panel = list_of(2, chosen="cuda:1")
    assert panel.device == "cuda:1"
    assert sorted(offered(box)) == ["auto", "cpu", "cuda:0", "cuda:1", "cuda:all"]


SLOW = "import sys, time\nfor n in range(1, 4): print(n, flush=True)\nsys.stdin.read()\n"


class ColdPanel(CountingPanel):
    """Counts, on behalf of an engine that is not compiled yet."""

    warms = ("made_up",)


@pytest.fixture
def cold(monkeypatch):
    """An engine that is compiled when the function is called, by a process that runs the given program."""
    warm = []
    monkeypatch.delenv(processors.DISABLED, raising=False)
    monkeypatch.setattr(warmup, "is_warm", lambda _: bool(warm))
    monkeypatch.setattr(warmup, "function_counts", lambda *_: (15, 15))
    monkeypatch.setattr(warmup, "command", lambda *_: [sys.executable, "-c", SLOW])
    return lambda: warm.append(True)


@pytest.fixture
def panel(qtbot, cold):
    panel = ColdPanel()
    panel.choose_device("cpu")
    panel.go.set()
    qtbot.addWidget(panel)
    yield panel
    panel.teardown()


def test_it_begins_when_the_panel_comes_on_screen(qtbot, panel):
    panel.show()
    qtbot.waitUntil(lambda: "3 of 15 functions" in panel.status, timeout=1000 * SECONDS)
    assert not panel.waiting
    assert not panel.running


def test_a_run_waits_shows_the_progress_and_starts_by_itself(qtbot, panel, cold):
    panel.run()
    assert panel.waiting
    assert panel.run_button.text() == "Stop"
    assert "starts by itself" in panel.message
    qtbot.waitUntil(lambda: "3 of 15 functions" in panel.status, timeout=1000 * SECONDS)
    cold()
    with finished(qtbot, panel):
        panel.warmup_process.closeWriteChannel()
    assert [result for result, _ in panel.results] == [4]
    assert not panel.waiting
    assert panel.message == ""


GROUPS = """
import os, sys
print(1, flush=True)
print(1, flush=True)
if os.read(0, 100).decode().split() == ["made_up/needed"]:
    print(2, flush=True)
sys.stdin.read()
"""


def test_a_run_waits_for_what_it_needs_alone_which_comes_next(qtbot, panel, monkeypatch):
    """The process has compiled what comes first when the run needs something else; the rest goes on meanwhile."""
    warm, needed = [], ("made_up/needed",)
    monkeypatch.setattr(warmup, "is_warm", lambda name: name in warm)
    monkeypatch.setattr(warmup, "command", lambda *_: [sys.executable, "-c", GROUPS])
    panel.show()
    qtbot.waitUntil(lambda: "of 15 functions" in panel.status, timeout=1000 * SECONDS)
    panel.warms_first = needed
    panel.run()
    assert panel.waiting
    warm.extend(needed)
    qtbot.waitUntil(lambda: bool(panel.results), timeout=1000 * SECONDS)
    assert panel.warmup_process is not None, "the rest is still compiled"
    assert not panel.waiting


def test_how_long_the_others_take_is_said_once_some_are_compiled(panel, cold, monkeypatch):
    monkeypatch.setattr(processors.time, "monotonic", lambda: 10.0)
    warming = processors.BackgroundWarmup(panel.warms)
    warming.compiled = 4
    assert warming.progress_text(panel.warms).endswith("4 of 15 functions")
    warming.compiled = 5
    assert warming.progress_text(panel.warms).endswith("5 of 15 functions, 20 s left")


def test_stop_cancels_a_run_that_waits(qtbot, panel, cold):
    panel.run_button.click()
    panel.run_button.click()
    assert not panel.waiting
    assert panel.run_button.text() == "Count"
    cold()
    panel.warmup_process.closeWriteChannel()
    qtbot.waitUntil(lambda: panel.warmup_process is None, timeout=1000 * SECONDS)
    assert panel.results == []


def other_run(panel):
    """Begin what another engine, not compiled either, does with a result; returns what it shows."""
    shown = []
    panel.run_other(panel.make_steps, shown.append, warms=("another",))
    return shown


def test_what_another_engine_does_waits_until_that_is_compiled(qtbot, panel, cold):
    shown = other_run(panel)
    assert panel.waiting
    qtbot.waitUntil(lambda: "3 of 15 functions" in panel.status, timeout=1000 * SECONDS)
    cold()
    with finished(qtbot, panel):
        panel.warmup_process.closeWriteChannel()
    assert shown == [4]
    assert panel.results == []
    with finished(qtbot, panel):
        panel.run()
    assert [result for result, _ in panel.results] == [4]


def test_stop_cancels_what_another_engine_would_have_done_and_its_compilation(qtbot, panel, cold):
    panel.show()
    own = panel.warmup_process
    shown = other_run(panel)
    other = panel.warmup_process
    assert other is not own
    assert other.waitForStarted(1000 * SECONDS)
    number = other.processId()
    panel.run_button.click()
    assert not panel.waiting
    assert panel.status == "cancelled"
    assert not psutil.pid_exists(number)
    assert panel.warmup_process is own is not None  # which the next run needs
    cold()
    with finished(qtbot, panel):
        panel.run()
    assert shown == []
    assert [result for result, _ in panel.results] == [4]


def test_a_run_and_a_preview_start_although_compiling_ahead_failed(qtbot, panel):
    assert panel.must_warm_up()
    assert "of 15 functions" in panel.status
    panel.run()
    with finished(qtbot, panel), qtbot.waitSignal(panel.warmed, timeout=1000 * SECONDS):
        panel.warmup_process.kill()
    assert [result for result, _ in panel.results] == [4]
    assert not panel.must_warm_up()
    assert panel.warmup_process is None


def test_a_panel_that_goes_away_ends_the_process(panel):
    panel.run()
    assert panel.warmup_process.waitForStarted(1000 * SECONDS)
    panel.teardown()
    assert panel.warmup_process is None
    assert not panel.waiting


@pytest.mark.parametrize("reason", ["the engine is warm", "the run is on a GPU"])
def test_a_run_that_need_not_wait(qtbot, panel, cold, reason):
    if reason == "the engine is warm":
        cold()
        panel.show()
    else:
        panel.choose_device("cuda:0")
    with finished(qtbot, panel):
        panel.run()
    assert panel.warmup_process is None
    assert [result for result, _ in panel.results] == [4]

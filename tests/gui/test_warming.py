"""A panel that opens with a cold cache: it compiles in another process, and a run waits for it."""

import subprocess
import sys

import pytest

from napari_gpubio.core import warmup
from napari_gpubio.gui import warming
from tests.gui.counting_panel import SECONDS, CountingPanel, finished

SLOW = "import sys, time\nfor n in range(1, 4): print(n, flush=True)\nsys.stdin.read()\n"


class ColdPanel(CountingPanel):
    """Counts, on behalf of an engine that is not compiled yet."""

    warms = ("made_up",)


@pytest.fixture
def cold(monkeypatch):
    """An engine that is compiled when the function is called, by a process that runs the given program."""
    warm = []
    monkeypatch.delenv(warming.DISABLED, raising=False)
    monkeypatch.setattr(warmup, "is_warm", lambda _: bool(warm))
    monkeypatch.setattr(warmup, "function_count", lambda _: 15)
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


def test_a_run_waits_says_how_far_it_is_and_starts_by_itself(qtbot, panel, cold):
    panel.run()
    assert panel.waiting
    assert panel.run_button.text() == "Stop"
    qtbot.waitUntil(lambda: "3 of 15 functions" in panel.message, timeout=1000 * SECONDS)
    cold()
    with finished(qtbot, panel):
        panel.warmup_process.closeWriteChannel()
    assert [result for result, _ in panel.results] == [4]
    assert not panel.waiting
    assert panel.message == ""


def test_stop_cancels_a_run_that_waits(qtbot, panel, cold):
    panel.run_button.click()
    panel.run_button.click()
    assert not panel.waiting
    assert panel.run_button.text() == "Count"
    cold()
    panel.warmup_process.closeWriteChannel()
    qtbot.waitUntil(lambda: panel.warmup_process is None, timeout=1000 * SECONDS)
    assert panel.results == []


def test_a_run_starts_although_compiling_ahead_failed(qtbot, panel):
    panel.run()
    with finished(qtbot, panel):
        panel.warmup_process.kill()
    assert [result for result, _ in panel.results] == [4]


def test_a_panel_that_goes_away_ends_the_process(qtbot, panel):
    panel.run()
    process = panel.warmup_process
    assert process.waitForStarted(1000 * SECONDS)
    panel.teardown()
    assert panel.warmup_process is None
    assert not panel.waiting


def test_a_warm_engine_starts_no_process(qtbot, panel, cold):
    cold()
    panel.show()
    with finished(qtbot, panel):
        panel.run()
    assert panel.warmup_process is None


def test_a_gpu_does_not_wait_for_the_cpu(qtbot, panel):
    panel.choose_device("cuda:0")
    with finished(qtbot, panel):
        panel.run()
    assert [result for result, _ in panel.results] == [4]


def test_the_real_process_can_be_started():
    done = subprocess.run([*warmup.command("no such engine")], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_other_work_may_wait_too(qtbot, panel, cold):
    """A preview, for instance: until the backend is compiled, or could not be."""
    assert panel.must_warm_up()
    assert "of 15 functions" in panel.status
    with qtbot.waitSignal(panel.warmed, timeout=1000 * SECONDS):
        panel.warmup_process.kill()
    assert not panel.must_warm_up()
    assert panel.warmup_process is None

"""Previews take a small share of a run, however long drawing them takes."""

import time

import pytest
from qtpy.QtWidgets import QLabel, QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import Job
from napari_gpubio.gui.progress import PreviewPacer
from tests.gui.counting_panel import CountingPanel

_IS_DUE = PreviewPacer.is_due  # before a fixture replaces it
DRAW_S, WORK_S = 0.05, 0.01


@pytest.fixture
def share(monkeypatch):
    """The share of a user's runs, instead of every preview."""
    monkeypatch.setattr(PreviewPacer, "is_due", _IS_DUE)


class SlowPicture(QWidget):
    """Takes its time to be drawn."""

    drawn = 0

    def paintEvent(self, _event):  # noqa: N802 - the name that Qt has
        time.sleep(DRAW_S)
        self.drawn += 1


def working(count):
    def steps(_stop):
        for done in range(count):
            time.sleep(WORK_S)
            yield Step(done + 1, count, "working", make_preview=lambda done=done: done)
        return "done"

    return steps


def test_drawing_puts_off_the_next_preview(qtbot, share):
    picture = SlowPicture()
    qtbot.addWidget(picture)
    picture.show()
    qtbot.waitExposed(picture)
    picture.drawn = 0
    pacer, shown = PreviewPacer(), []
    job = Job(working(300), pacer=pacer)

    def show(step):
        if step.preview is not None:
            shown.append(step.preview)
            pacer.show(picture.update)

    job.stepped.connect(show)
    begun = time.perf_counter()
    with qtbot.waitSignal(job.finished, timeout=20_000):
        job.start()
    took = time.perf_counter() - begun
    assert 2 <= len(shown) <= 0.15 * took / DRAW_S + 1
    assert shown == sorted(shown)


def test_no_preview_is_made_while_one_is_on_its_way(share, qtbot, monkeypatch):
    pacer, clock = PreviewPacer(), [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    pacer.begin_run()
    assert not pacer.is_due(), "nothing is known of the cost yet"
    clock[0] += 2.0
    assert pacer.is_due()
    pacer.count_made(0.1)
    assert not pacer.is_due()
    pacer.show(lambda: clock.__setitem__(0, clock[0] + 0.4))
    clock[0] += 0.2  # a draw that comes after it
    qtbot.wait(50)
    assert not pacer.is_due(), "it may not be over"
    clock[0] += 0.02
    for _ in range(20):
        clock[0] += 0.01
        qtbot.wait(12)
    assert not pacer.is_due(), "it took 0.7 s, and so will the next one"
    clock[0] += 8.0
    assert not pacer.is_due()
    clock[0] += 12.0
    assert pacer.is_due()


def test_a_job_without_a_pacer_makes_every_preview(qtbot):
    job, seen = Job(working(30)), []
    job.stepped.connect(lambda step: seen.append(step.preview))
    with qtbot.waitSignal(job.finished, timeout=20_000):
        job.start()
    assert seen == list(range(30))


def test_a_long_status_is_wrapped(qtbot):
    panel = CountingPanel()
    qtbot.addWidget(panel)
    panel.resize(320, 500)
    panel.show()
    panel.show_status("written: a file whose name is as long as names of files can be after some years, and longer")
    label = next(one for one in panel.findChildren(QLabel) if one.text().startswith("written"))
    qtbot.waitUntil(lambda: label.height() >= label.heightForWidth(label.width()))
    assert label.height() > 1.8 * label.fontMetrics().lineSpacing()
    panel.teardown()

"""A dock widget that counts, for the tests of what every one has."""

import threading
import weakref

from napari.components import ViewerModel
from qtpy.QtWidgets import QLabel

from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.operations import SphereRegion
from napari_gpubio.gui.panel import EnginePanel

SECONDS = 10


class Buffer:
    """Stands for memory on a GPU."""


class CountingPanel(EnginePanel):
    """Counts to ``total``, while ``go`` is set; Stop gives what was counted."""

    def __init__(self, viewer=None, total=4):
        super().__init__(ViewerModel() if viewer is None else viewer, run_text="Count")
        self.inputs.addWidget(QLabel("an input", self))
        self.total, self.results, self.previews = total, [], []
        self.refusal = self.failure = None
        self.go, self.begun, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.buffer = None

    def make_steps(self, stop):
        if self.refusal is not None:
            raise self.refusal
        return _count(self.total, stop, self.failure, (self.go, self.begun, self.ended), self._hold)

    def _hold(self, buffer):
        self.buffer = weakref.ref(buffer)

    def show_result(self, result):
        self.results.append((result, threading.current_thread()))

    def show_preview(self, preview):
        self.previews.append(preview)

    def operation(self):
        if self.refusal is not None:
            raise self.refusal
        return SphereRegion(center_mm=(1.0, 2.0, 3.0), radius_mm=self.total)


def _count(total, stop, failure, events, hold):
    """Knows nothing of the panel, so that a run cannot keep it alive."""
    go, begun, ended = events
    buffer = Buffer()
    hold(buffer)
    try:
        done = 0
        begun.set()
        while done < total:
            while not (go.wait(0.005) or stop.is_set()):
                pass
            if stop.is_set():
                return done
            done += 1
            yield Step(done, total, "counting").showing(done if done % 2 else None)
        if failure is not None:
            raise failure
        return done
    finally:
        del buffer
        ended.set()


def finished(qtbot, panel):
    return qtbot.waitSignal(panel.run_finished, timeout=1000 * SECONDS)

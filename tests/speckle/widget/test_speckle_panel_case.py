"""The reference case of the panel: it times real live maps, and leaves no window behind."""

import pytest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.device import CPU
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.speckle.widget import cases

pytestmark = pytest.mark.display


def windows():
    return {type(one).__name__ for one in QApplication.topLevelWidgets() if one.isVisible()}


def test_every_map_is_timed(qtbot):
    took = cases.setter_ms(CPU, frames=12, size=(320, 256))
    assert len(took) == 12
    assert min(took) > 0
    qtbot.waitUntil(lambda: not windows())


def test_the_findings_are_of_the_maps(monkeypatch):
    monkeypatch.setattr(cases, "setter_ms", lambda _: (1.0,) * 60 + (2.0,) * 33 + (9.0,) * 7)
    median, slow = cases.CHECKS[0].run(CPU)
    assert (median.result, median.passed, slow.result, slow.passed) == (1.0, True, 9.0, False)


def test_nothing_that_comes_is_an_error(qtbot, monkeypatch):
    monkeypatch.setattr(cases, "_PATIENCE_S", 0.05)
    with pytest.raises(GpuBioError, match=r"no live map came for 0\.05 s"):
        cases.wait_until(lambda: False)

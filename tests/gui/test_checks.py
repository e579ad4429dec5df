"""What reference cases of dock widgets share: waiting, findings, and a window that goes away."""

import pytest

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui import checks as window_checks
from tests.dock_widgets import visible_windows


def test_the_findings_are_of_what_was_timed():
    took = (1.0,) * 60 + (2.0,) * 33 + (9.0,) * 7
    median, slow = window_checks.findings_of(took, 5.0, "maps")
    assert (median.result, median.passed, slow.result, slow.passed) == (1.0, True, 9.0, False)
    assert median.quantity == "median of 100 maps (ms)"


def test_nothing_that_comes_is_an_error(qtbot, monkeypatch):
    monkeypatch.setattr(window_checks, "PATIENCE_S", 0.05)
    with pytest.raises(GpuBioError, match=r"no live map came for 0\.05 s"):
        window_checks.wait_until(lambda: False, "live map")


@pytest.mark.display
@pytest.mark.usefixtures("napari_in_tests")
def test_the_window_goes_away_after_an_error_too(qtbot):
    def fail():
        with window_checks.shown_viewer() as viewer:
            assert viewer.window._qt_window.isVisible()
            raise ZeroDivisionError

    before = visible_windows()
    with pytest.raises(ZeroDivisionError):
        fail()
    qtbot.waitUntil(lambda: visible_windows() <= before)

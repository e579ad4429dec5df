"""The reference case of the panel: it times real previews, and leaves no window behind."""

import pytest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.device import CPU
from napari_gpubio.denoise.widget import cases

pytestmark = pytest.mark.display


def test_every_step_is_timed(qtbot):
    took = cases.preview_ms(CPU, slices=4, side=40)
    assert len(took) == 4
    assert min(took) > 0
    qtbot.waitUntil(lambda: not any(one.isVisible() for one in QApplication.topLevelWidgets()))


def test_the_findings_are_of_the_slices(monkeypatch):
    monkeypatch.setattr(cases, "preview_ms", lambda _: (10.0, 190.0))
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]

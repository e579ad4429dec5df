"""The reference case of the panel: it times real strokes, and leaves no window behind."""

import numpy as np
import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.dose.gui import checks as cases
from tests.dock_widgets import visible_windows


@pytest.mark.display
@pytest.mark.usefixtures("mock_app_model")  # commands are registered once in a process
def test_every_stroke_is_timed(qtbot):
    before = visible_windows()
    took = cases.stroke_ms(CPU, strokes=5, side=64)
    assert len(took) == 5
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)


def test_all_organs_lie_in_the_dose():
    dose, organs = cases.boxes(cases.SIDE)
    assert dose.values.shape == organs.labels.shape == (256, 256, 256)
    assert np.bincount(organs.labels.ravel())[1:].tolist() == [organs.voxels[1]] * 30
    assert organs.voxels[1] > 150_000


def test_the_findings_are_of_the_strokes(monkeypatch):
    monkeypatch.setattr(cases, "stroke_ms", lambda _: (10.0, 90.0))
    assert [finding.result for finding in cases.CHECKS[0].run(CPU)] == [50.0, 86.0]
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]

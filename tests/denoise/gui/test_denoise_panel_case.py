"""The reference case of the panel: it times real previews, and leaves no window behind."""

import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.denoise.gui import checks as cases
from tests.dock_widgets import visible_windows

pytestmark = pytest.mark.display


@pytest.mark.usefixtures("mock_app_model")  # commands are registered once in a process
def test_every_step_is_timed(qtbot):
    before = visible_windows()
    took = cases.preview_ms(CPU, slices=4, side=40)
    assert len(took) == 4
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)


def test_the_findings_are_of_the_slices(monkeypatch):
    monkeypatch.setattr(cases, "preview_ms", lambda _: (10.0, 190.0))
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]

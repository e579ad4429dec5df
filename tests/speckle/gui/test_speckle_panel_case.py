"""The reference case of the panel: it times real live maps, and leaves no window behind."""

import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.gui import checks as cases
from tests.dock_widgets import visible_windows

pytestmark = pytest.mark.display


@pytest.mark.usefixtures("mock_app_model")  # commands are registered once in a process
def test_every_map_is_timed(qtbot):
    before = visible_windows()
    took = cases.setter_ms(CPU, frames=12, size=(320, 256))
    assert len(took) == 12
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)


def test_the_findings_are_of_the_maps(monkeypatch):
    monkeypatch.setattr(cases, "setter_ms", lambda _: (1.0, 9.0))
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]

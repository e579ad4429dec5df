"""The dock widget "Laser speckle" in a napari window: closing, drawing, units, names of axes, the reference case."""

import threading
import weakref

import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtWidgets import QLineEdit

from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.gui import checks as cases
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP, update_data
from napari_gpubio.speckle.gui.sources import StackPage
from tests.dock_widgets import WAYS_TO_CLOSE, close, ended, visible_windows, wait_until
from tests.speckle.gui.panel_samples import (
    MICROMETERS,
    SHAPE,
    add_panel,
    add_stack,
    box,
    draw,
    layer,
    run,
    run_live,
    simulate,
    speckle,
    start,
    stop,
    units_of,
)  # fmt: skip

pytestmark = pytest.mark.display


def speckle_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("speckle")]


@WAYS_TO_CLOSE
def test_closing_ends_the_loop(make_window, qtbot, errors, how):
    viewer = make_window(proxied=True)
    add_stack(viewer)
    panel = add_panel(viewer)
    draw(qtbot, panel, box(5, 5, 20, 20))
    start(qtbot, panel)
    assert speckle_threads()
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel
    assert ended(qtbot, gone)
    assert speckle_threads() == []
    assert errors() == []


@pytest.mark.daily
def test_everything_is_drawn(viewer, panel, qtbot):
    simulate(panel)
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    panel.map_box.on_canvas.setChecked(True)
    wait_until(qtbot, lambda: len(panel.runner.course) > 5)
    panel.course_box.mark_event()
    assert not panel.grab().isNull()
    stop(qtbot, panel)


# -- layers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def warnings():
    """Texts of napari's notifications."""
    messages = []

    def note(notification):
        messages.append(str(notification.message))

    notification_manager.notification_ready.connect(note)
    yield messages
    notification_manager.notification_ready.disconnect(note)


def test_napari_does_not_warn_of_units(viewer, panel, qtbot, warnings):
    """A stack in micrometers is open; then a camera whose pixel size nobody knows, then the stack itself, live."""
    stack = add_stack(viewer, scale=(1, 2.5, 2.5), units=("pixel", "um", "um"))
    simulate(panel, SHAPE)
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    stop(qtbot, panel)
    panel.source_box.choose(StackPage)
    panel.source_box.stack.layer_box.choose(stack)
    run_live(qtbot, panel)
    assert [text for text in warnings if "nits" in text] == []


def test_a_unit_that_comes_later_is_taken_over(viewer, panel, qtbot):
    simulate(panel, SHAPE)
    run_live(qtbot, panel)
    add_stack(viewer, units=("pixel", "um", "um"))
    assert units_of(layer(viewer, LIVE_MAP)) == MICROMETERS
    viewer.layers.remove("frames")
    assert units_of(layer(viewer, LIVE_MAP)) == ["pixel", "pixel"]


def test_what_is_put_into_a_layer_reaches_the_screen(make_window):
    """It is not sliced again, so that what napari draws must be the layer's own memory."""
    viewer = make_window(show=True)

    def brightest():
        return viewer.screenshot(canvas_only=True, flash=False)[..., :3].max()

    one = viewer.add_image(np.zeros(SHAPE, np.float32), contrast_limits=(0, 1))
    assert brightest() == 0
    memory = one.data
    update_data(one, np.ones(SHAPE, np.float32))
    assert one.data is memory
    assert brightest() == 255
    one.visible = False
    update_data(one, np.zeros(SHAPE, np.float32))
    one.visible = True
    assert brightest() == 0, "a hidden layer is drawn anew when it is shown"


def test_the_slider_shows_the_name_of_its_axis(make_window, qtbot):
    """The stack names no axes, so that napari has made room for a number only."""
    viewer = make_window(proxied=True, show=True)
    panel = add_panel(viewer)
    add_stack(viewer, speckle(3))
    run(qtbot, panel)
    label = next(one for one in panel.window().findChildren(QLineEdit, "axis_label") if one.isVisible())
    assert label.text() == "frame"
    assert label.width() > label.fontMetrics().horizontalAdvance("frame")
    panel.teardown()


# -- the reference case -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("napari_in_tests")
def test_every_map_is_timed(qtbot):
    before = visible_windows()
    took = cases.setter_ms(CPU, frames=5, size=(320, 256))
    assert len(took) == 5
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)


def test_the_findings_are_of_the_maps(monkeypatch):
    monkeypatch.setattr(cases, "setter_ms", lambda _: (1.0, 9.0))
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]

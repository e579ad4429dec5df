"""Undo and redo in a window bring back all that was done, in every panel."""

import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
)

from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.panel import panels_of
from napari_gpubio.gui.window_state import changes, parts_of, take_state
from tests.dock_widgets import press_and_wait, wait_until
from tests.gui import sixth_engine
from tests.test_layers_that_change import EVERY, settled


@pytest.fixture(params=EVERY.values(), ids=EVERY)
def panel(request, viewer, qtbot):
    panel = request.param(viewer, qtbot)
    settled(qtbot)
    history_of(viewer).note_act()
    yield panel
    panel.teardown()


def done(qtbot, viewer, act):
    """Let a user do something, and wait until nothing follows from it any more."""
    history = history_of(viewer)
    history.note_act()
    act()
    settled(qtbot)
    wait_until(qtbot, lambda: not any(panel.is_busy for panel in panels_of(viewer)))
    assert history.can_undo
    return take_state(viewer, panels_of(viewer))


def shown(viewer, wanted):
    """What differs from a state."""
    return changes(wanted, take_state(viewer, panels_of(viewer)))


def test_a_run_is_undone_and_done_again(panel, viewer, qtbot, errors):
    before, history = take_state(viewer, [panel]), history_of(viewer)
    steps = len(history.done)
    after = done(qtbot, viewer, lambda: press_and_wait(qtbot, panel, panel.run_button))
    assert len(history.done) == steps + 1
    for go, wanted in ((history.undo, before), (history.redo, after), (history.undo, before)):
        go()
        assert shown(viewer, wanted) == []
        settled(qtbot)
        assert shown(viewer, wanted) == []
    assert errors() == []


def test_deleted_layers_come_back(panel, viewer, qtbot, errors):
    history = history_of(viewer)
    before = done(qtbot, viewer, lambda: press_and_wait(qtbot, panel, panel.run_button))
    steps = len(history.done)
    for layer in list(viewer.layers):
        if layer in viewer.layers:
            done(qtbot, viewer, lambda layer=layer: viewer.layers.remove(layer))
    while len(history.done) > steps:
        history.undo()
        settled(qtbot)
    assert shown(viewer, before) == []
    assert errors() == []


def other(control):
    """Give a control another value, if there is one, as a user would."""
    if isinstance(control, QComboBox):
        others = [row for row in range(control.count()) if row != control.currentIndex() and is_enabled(control, row)]
        if others:
            control.setCurrentIndex(others[0])
            control.activated.emit(others[0])
    elif isinstance(control, QAbstractButton):
        control.click()
    elif isinstance(control, QAbstractSpinBox | QAbstractSlider):
        value = control.value()
        control.setValue(value + 1 if value < control.maximum() else control.minimum())
    elif isinstance(control, QLineEdit):
        control.setText("1")
        control.editingFinished.emit()
    else:
        control.setPlainText("D95% > 1")


def is_enabled(box, row):
    return box.model().flags(box.model().index(row, 0)) & Qt.ItemFlag.ItemIsEnabled


def test_every_setting_comes_back(panel, viewer, qtbot, errors):
    history = history_of(viewer)
    before = done(qtbot, viewer, lambda: press_and_wait(qtbot, panel, panel.run_button))
    steps = len(history.done)
    plain = (QComboBox, QAbstractButton, QAbstractSpinBox, QAbstractSlider, QLineEdit, QPlainTextEdit)
    controls = [one for one in parts_of(panel) if isinstance(one, plain) and one.isEnabled() and one.isVisibleTo(panel)]
    assert len(controls) > 1
    for control in controls:
        if control.isEnabled() and control.isVisibleTo(panel):
            history.note_act()
            other(control)
    done(qtbot, viewer, lambda: None)
    assert shown(viewer, before) != []
    while len(history.done) > steps:
        wait_until(qtbot, lambda: not panel.is_busy)
        history.undo()
    settled(qtbot)
    wait_until(qtbot, lambda: not panel.is_busy)
    assert shown(viewer, before) == []
    assert errors() == []


def test_each_viewer_has_steps_of_its_own_and_a_closed_panel_forgets_them(qtbot):
    viewers = [ViewerModel() for _ in range(2)]
    panels = [sixth_engine.ThresholdPanel(viewer) for viewer in viewers]
    for panel, viewer in zip(panels, viewers, strict=True):
        qtbot.addWidget(panel)
        history_of(viewer).note_act()
        sixth_engine.add(viewer)
        assert history_of(viewer).can_undo
    history_of(viewers[0]).undo()
    assert [len(viewer.layers) for viewer in viewers] == [0, 1]
    history_of(viewers[0]).redo()
    assert [len(viewer.layers) for viewer in viewers] == [1, 1]
    for panel in panels:
        panel.teardown()
    assert not history_of(viewers[0]).done, "nothing holds layers that were deleted any more"
    history_of(viewers[0]).undo()
    assert len(viewers[0].layers) == 1

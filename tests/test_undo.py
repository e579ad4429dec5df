"""Undo and redo in a window bring back all that was done, in every panel."""

import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
)

from napari_gpubio.gui import turns
from napari_gpubio.gui.connections import Debouncer, is_held_up
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.panel import panels_of
from napari_gpubio.gui.window_state import changes, parts_of, take_state
from tests.dock_widgets import press_and_wait, undo, wait_until
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
    for by, wanted in ((-1, before), (1, after), (-1, before)):
        undo(viewer, by)
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
        undo(viewer)
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
        undo(viewer)
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
    undo(viewers[0])
    assert [len(viewer.layers) for viewer in viewers] == [0, 1]
    undo(viewers[0], 1)
    assert [len(viewer.layers) for viewer in viewers] == [1, 1]
    for panel in panels:
        panel.teardown()
    assert not history_of(viewers[0]).done, "nothing holds layers that were deleted any more"
    undo(viewers[0])
    assert len(viewers[0].layers) == 1


def test_the_first_run_is_undone_though_the_panel_was_at_work_when_it_was_opened(viewer, qtbot, monkeypatch):
    panel = sixth_engine.ThresholdPanel(viewer)
    qtbot.addWidget(panel)
    monkeypatch.setattr(sixth_engine.ThresholdPanel, "is_busy", True)
    history_of(viewer).note_act()
    sixth_engine.add(viewer)
    monkeypatch.undo()
    assert history_of(viewer).can_undo
    undo(viewer)
    assert len(viewer.layers) == 0
    panel.teardown()


@pytest.fixture
def many(viewer, qtbot, monkeypatch):
    """Eight layers that are taken away in a step, and brought back one in a turn."""
    monkeypatch.setattr(turns, "_TURN_S", 0.0)
    panel = sixth_engine.ThresholdPanel(viewer)
    history_of(viewer).note_act()
    for number in range(8):
        sixth_engine.add(viewer, name=f"layer {number}")
    history_of(viewer).note_act()
    viewer.layers.clear()
    assert history_of(viewer).can_undo
    yield panel
    panel.teardown()


def next_turns(viewer, until):
    """How many layers there are after each turn of the event loop, as far as it is another number."""
    counts = []
    while not until():
        QApplication.processEvents()
        counts += [len(viewer.layers)] if counts[-1:] != [len(viewer.layers)] else []
    return counts


def test_an_undo_of_much_takes_turns_and_is_one_step(viewer, many, errors):
    steps, followed = history_of(viewer), []
    names = [f"layer {number}" for number in range(8)]
    follower = Debouncer(lambda: followed.append(len(viewer.layers)))
    viewer.layers.events.inserted.connect(lambda _: follower.request())
    done_before = steps.done
    steps.undo()
    follower.request()
    steps.note_act()  # what is done meanwhile begins no step
    assert next_turns(viewer, lambda: not steps.is_undoing) == [*range(2, 9)], "a layer in each turn"
    assert [layer.name for layer in viewer.layers] == names
    assert (steps.done, len(steps.undone), steps.is_quiet) == (done_before[1:], 1, True)
    next_turns(viewer, lambda: followed)
    assert followed == [8], "what follows waits for the end"
    assert errors() == []


def test_more_undo_that_is_asked_for_meanwhile_is_done_afterwards(viewer, many):
    steps = history_of(viewer)
    steps.undo()
    steps.redo()
    assert steps.is_undoing
    counts = next_turns(viewer, lambda: not steps.is_undoing)
    assert (max(counts), len(viewer.layers), steps.undone) == (8, 0, [])


def test_a_window_that_is_closed_meanwhile_ends_the_undo(viewer, many, errors):
    steps = history_of(viewer)
    steps.undo()
    assert steps.is_undoing
    many.teardown()
    count = len(viewer.layers)
    QApplication.processEvents()
    assert (steps.is_undoing, is_held_up(), len(viewer.layers)) == (False, False, count)
    assert count < 8
    assert errors() == []

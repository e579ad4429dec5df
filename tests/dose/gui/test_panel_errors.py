"""The dock widget "Dose-volume histogram": what can go wrong, stopping, and the end."""

import weakref

import numpy as np
import pytest

from napari_gpubio.core.napari_io import carried
from tests.dock_widgets import MILLISECONDS, WAYS_TO_CLOSE, check_closing_ends_a_run, close, ended, hears_the_mouse
from tests.dose.gui.panel_samples import SHAPE, User, a_dose, add_panel, dose_values, label_values, organs
from tests.sentences import says


def test_a_unit_is_required_and_never_guessed(user, viewer, panel):
    viewer.add_image(dose_values().T, name="Gy dose")
    viewer.add_labels(label_values().T, name="organs")
    assert "the unit of the dose 'Gy dose' is not known" in user.error_after_run()
    assert panel.inputs_box.unit.text() == ""
    user.type_unit("Gy")
    user.run()
    for unit, curves in (("", 0), ("Gy", 2)):
        user.type_unit(unit)
        user.settle()
        assert len(panel.controller.curves) == curves
    assert panel.message == ""


GRAY, LOGARITHM = {"unit": "Gy"}, {"napari_gpubio": {"quantity": "log10 fluence", "unit": "1/mm²"}}


@pytest.mark.parametrize(
    ("metadata", "voxel", "labels", "words"),
    [
        (None, 1.0, None, "there is no dose; open a dose image"),
        (GRAY, 1.0, None, "tick a Labels or Shapes layer"),
        (GRAY, np.inf, label_values(), "not finite"),
        (GRAY, 1.0, np.zeros(SHAPE, np.uint8), "are empty"),
        (LOGARITHM, 1.0, label_values(), "too large for decimal logarithms; choose linear"),
    ],
    ids=["no dose", "no structures", "infinite dose", "empty labels", "logarithms"],
)
def test_bad_input_is_explained(user, viewer, metadata, voxel, labels, words):
    if metadata is not None:
        values = dose_values().T.copy()
        values[2, 2, 2] = voxel
        viewer.add_image(values, name="d", contrast_limits=(0, 1), metadata=metadata)
    if labels is not None:
        viewer.add_labels(labels.T, name="l")
    assert words in user.error_after_run()


def test_a_voxel_that_is_nan_is_noted(user, viewer, panel):
    values = dose_values().T.copy()
    values[2, 2, 2] = np.nan
    viewer.add_image(values, name="d", contrast_limits=(0, 1), metadata=GRAY)
    viewer.add_labels(label_values().T, name="l")
    user.run()
    assert says(panel.notes.text(), "1 of the 3840 voxels", "NaN", "count as 0")


def test_units_of_a_second_plan(user, viewer, panel):
    user.choose_two_plans(a_dose(unit="J/cm2"))
    assert "in Gy and J/cm², which cannot share an axis" in user.error_after_run()
    panel.inputs_box.second_box.choose(viewer.add_image(dose_values().T, name="unknown"))
    user.run()
    assert "unit of 'unknown' is not known" in panel.message
    assert "taken to be in Gy" in panel.message


def test_labels_outside_the_dose_are_noted(user, panel):
    user.add_dose()
    far = np.eye(4)
    far[:3, 3] = 1000
    user.add_organs(organs(affine=far))
    user.run()
    assert "lie outside the dose grid and are counted with no dose" in panel.notes.text()
    panel.form.widget("outside").value = "refuse"
    user.settle()
    assert "lie outside the dose grid; give a larger dose" in panel.message


def test_an_error_loses_no_curves(user, viewer, filled_panel):
    before = user.names
    data = viewer.layers["dose"].data.copy()
    data[0, 0, 0] = np.inf
    viewer.layers["dose"].data = data
    user.settle()
    assert "not finite" in filled_panel.message
    assert user.names == before


def test_another_dose_forgets_the_lines_and_no_structures_leave_an_empty_plot(user, viewer, filled_panel):
    user.draw_isodose()
    filled_panel.link.move_dose_line(3.0)
    user.add_dose(a_dose(unit="HU"), name="CT", metadata={"quantity": "CT"})
    box = filled_panel.inputs_box.dose_box
    assert [box.itemText(n) for n in range(box.count())] == ["dose", "CT (CT, not a dose)"]
    box.choose(user.add_dose(a_dose(scale=10.0), name="other"))
    user.settle()
    assert filled_panel.link.dose != 3.0
    viewer.layers.remove("organs")
    user.settle()
    assert user.names == ["lung", "heart"], "what was counted does not depend on its layers"
    filled_panel.inputs_box.structures.choose()
    user.settle()
    assert user.names == []
    assert filled_panel.highlight.layer is None
    assert not filled_panel.empty.isHidden()


def test_stop_keeps_what_was_counted(user, viewer, panel, qtbot, held, in_chunks_of):
    in_chunks_of(1)
    user.add_case()
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    assert "Stopped" in panel.message
    viewer.layers["organs"].paint((5, 6, 6), 2)  # is not followed
    user.settle()


def test_a_dose_may_go_while_it_is_counted(user, viewer, panel, qtbot, held):
    user.add_case()
    panel.run_button.click()
    held.wait(qtbot)
    viewer.layers.remove("dose")
    held.go.set()
    user.settle()


CHANGES = {
    "renamed": lambda viewer, name: setattr(viewer.layers[name], "name", f"{name} of a user"),
    "hidden": lambda viewer, name: setattr(viewer.layers[name], "visible", False),
    "locked": lambda viewer, name: setattr(viewer.layers[name], "editable", False),
    "deleted": lambda viewer, name: viewer.layers.remove(name),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["dose", "organs"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_layer_may_change_at_every_moment_of_a_run(user, viewer, panel, qtbot, held, errors, change, name, moment):
    user.add_case()
    if moment == "before":
        CHANGES[change](viewer, name)
    panel.run_button.click()
    if moment == "during":
        held.wait(qtbot)
        CHANGES[change](viewer, name)
    held.go.set()
    user.settle()
    if moment == "after":
        user.draw_isodose()
        CHANGES[change](viewer, name)
        user.settle()
    assert errors() == []
    if change == "deleted" and moment == "before":
        assert user.names == []
        assert name == "organs" or "was deleted" in panel.message
    elif change != "deleted" or moment != "during":
        assert user.names == ["lung", "heart"]
        assert panel.message == ""


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_window, qtbot, how):
    viewer = make_window(proxied=True)
    panel = add_panel(viewer)
    user = User(viewer, panel, qtbot)
    _, labels = user.add_case()
    user.run()
    user.draw_isodose()
    panel.link.mark_voxel((20.0, 5.0, 30.0))
    assert any(carried(layer, "panel") for layer in viewer.layers)
    before = len(labels.events.labels_update.callbacks)
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel, user
    assert ended(qtbot, gone)
    if how == "the dock":
        assert not any(carried(layer, "panel") for layer in viewer.layers)
        assert not hears_the_mouse(viewer)
        assert len(labels.events.labels_update.callbacks) < before


@pytest.mark.display
def test_closing_in_the_middle_of_a_run_ends_it(make_window, qtbot, held, errors):
    viewer = make_window(proxied=True)
    User(viewer, None, qtbot).add_case()
    check_closing_ends_a_run(qtbot, viewer, add_panel, held, "the viewer")
    assert errors() == []


def test_a_closed_panel_follows_nothing(user, viewer, filled_panel, qtbot):
    filled_panel.teardown()
    assert user.names == []
    viewer.layers["organs"].paint((5, 6, 6), 2)
    viewer.dims.set_point(0, 20.0)
    viewer.layers.clear()
    qtbot.wait(20)
    user.add_case()
    filled_panel.revive()  # it was not closed after all, and goes on
    user.settle()
    viewer.layers["organs"].paint((5, 6, 6), 2)
    user.settle()
    assert user.names == ["lung", "heart"]

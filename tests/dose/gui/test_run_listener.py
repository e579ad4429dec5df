"""Labels that are painted: curves and highlight follow."""

import numpy as np
import pytest

from napari_gpubio.dose.live import LiveDvh
from tests.dose.gui.panel_samples import (
    SAGITTAL,
    a_dose,
    check_same,
    dose_values,
    expected,
    highlighted,
    label_values,
    organs,
)


def painted(layer):
    """The labels as their file would have them."""
    return np.asarray(layer.data).T.copy()


def check_follows(user, layer, names=("lung", "heart")):
    for name in names:
        check_same(user.curve(name), expected(a_dose(), organs(painted(layer)), name))


def test_strokes_undo_redo_and_fill_are_followed(user, viewer, filled_panel, monkeypatch):
    layer = viewer.layers["organs"]
    layer.brush_size = 4
    runs, follow, compared = filled_panel.controller.live, LiveDvh.follow, []
    monkeypatch.setattr(LiveDvh, "follow", lambda *given, **more: compared.append(given) or follow(*given, **more))
    for z in (8.0, 11.0, 14.0):  # the slider alone changes nothing
        viewer.dims.set_point(0, z)
        user.settle()
    assert compared == []
    for act in (
        lambda: layer.paint((5, 6, 6), 2),
        lambda: layer.paint((6, 8, 12), 0),
        layer.undo,
        layer.undo,
        layer.redo,
        lambda: layer.fill((5, 6, 12), 1),
        lambda: layer.data_setitem((np.array([2, 9]), np.array([2, 9]), np.array([3, 15])), 2),
    ):
        before = painted(layer)
        act()
        user.settle()
        assert (painted(layer) != before).any()
        check_follows(user, layer)
    assert compared
    assert filled_panel.controller.live is runs  # there was no new run


def test_a_brush_in_three_dimensions_and_other_orders_of_axes(user, viewer, filled_panel):
    layer = viewer.layers["organs"]
    layer.brush_size = 4
    layer.n_edit_dimensions = 3
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0)):
        viewer.dims.order = order
        layer.paint((5, 6 + order[0], 8), 2)
        user.settle()
        check_follows(user, layer)


def test_a_sagittal_volume_is_painted_in_its_own_axes(user):
    _, layer = user.add_case(SAGITTAL)
    user.run()
    layer.brush_size = 3
    layer.paint((6, 5, 8), 2)
    user.settle()
    now = painted(layer).transpose(1, 2, 0)
    assert (now != label_values()).any()
    check_same(user.curve("heart"), expected(a_dose(SAGITTAL), organs(now, SAGITTAL), "heart"))


def test_new_labels_and_labels_that_are_set_from_outside_are_followed(user, viewer, filled_panel):
    layer = viewer.layers["organs"]
    layer.brush_size = 5
    layer.paint((5, 12, 14), 7)
    user.settle()
    assert user.names == ["lung", "heart", "label 7"]
    assert user.curve("label 7").volume_cc == pytest.approx(np.count_nonzero(layer.data == 7) * 0.012)
    layer.undo()
    user.settle()
    assert user.curve("label 7").is_empty
    layer.data[3:6] = 2
    layer.refresh()
    user.settle()
    check_follows(user, layer)
    layer.data = np.where(layer.data == 2, 1, layer.data).astype(np.uint8)
    user.settle()
    check_follows(user, layer, ("lung",))
    assert user.curve("heart").is_empty


def test_a_label_beyond_the_type_that_was_counted(user, viewer):
    user.add_dose()
    layer = viewer.add_labels(label_values().T.astype(np.int32), name="wide", metadata={})
    layer.affine = viewer.layers["dose"].affine
    user.run()
    layer.paint((5, 12, 14), 300)
    user.settle()
    assert "label 300" in user.names


def test_what_is_painted_during_a_run_is_taken_over(user, panel, qtbot, held):
    _, layer = user.add_case()
    panel.run_button.click()
    held.wait(qtbot)
    layer.paint((5, 6, 6), 2)
    held.go.set()
    user.settle()
    check_follows(user, layer)


def test_highlighted_voxels_follow_too(user, viewer, filled_panel):
    layer = viewer.layers["organs"]
    filled_panel.tools.dose.setChecked(True)
    filled_panel.tools.inside.setCurrentText("heart")
    user.settle()
    filled_panel.link.move_dose_line(10.0)
    layer.brush_size = 4
    layer.paint((5, 6, 6), 2)
    layer.paint((5, 8, 13), 0)
    user.settle()
    np.testing.assert_array_equal(
        highlighted(filled_panel.highlight.layer), (layer.data == 2) & (dose_values().T >= 10.0)
    )


def test_labels_with_the_axis_of_a_series(user, viewer):
    user.add_dose()
    data = np.stack([label_values().T] * 2)
    affine = np.eye(5)
    affine[1:, 1:] = np.asarray(viewer.layers["dose"].affine)
    layer = viewer.add_labels(data, affine=affine, name="over time")
    user.run()
    layer.data[1, 4, 4, 4] = 2
    layer.refresh()
    user.settle()
    now = organs(layer.data.max(axis=0).T)
    check_same(user.curve("label 2"), expected(a_dose(), now, "heart"))


def test_labels_of_two_layers_and_two_plans_are_followed(user, panel):
    first = user.choose_two_plans(a_dose(scale=0.5))
    second = user.add_organs(organs(), "second")
    panel.inputs_box.structures.choose(first, second)
    user.run()
    second.paint((5, 6, 6), 2)
    user.settle()
    for scale, is_second in ((1.0, False), (0.5, True)):
        for name, labels in (("second", painted(second)), ("organs", label_values())):
            reference = expected(a_dose(scale=scale), organs(labels), "heart")
            check_same(user.curve(f"heart ({name})", second=is_second), reference)

"""Isodose, lit voxels and clicks in the dose of either plan, in slices and in 3-D."""

import numpy as np
import pytest

from tests.dose.gui.panel_samples import (
    AFFINE,
    a_dose,
    add_case,
    add_dose,
    dose_values,
    label_values,
    lit,
    run,
    said,
    settle,
)


@pytest.fixture
def two(viewer, panel, qtbot):
    """The panel with two plans, of which the second has half the dose."""
    add_case(viewer)
    second = add_dose(viewer, a_dose(scale=0.5), name="B")
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.inputs_box.second_box.choose(second)
    run(qtbot, panel)
    return panel


def test_the_plan_is_chosen_where_there_are_two(viewer, two, qtbot):
    box = two.tools.of_plan
    assert not box.isHidden()
    assert [box.itemText(n) for n in range(box.count())] == ["dose", "B"]
    two.inputs_box.second_box.setCurrentIndex(0)
    settle(qtbot, two)
    assert box.parentWidget().isHidden()
    assert two.tools.plan == 0


@pytest.mark.parametrize("plan", [0, 1])
def test_isodose_and_lit_voxels_are_of_the_chosen_plan(viewer, two, qtbot, plan):
    values = dose_values(scale=(1.0, 0.5)[plan])
    two.tools.dose.setChecked(True)
    two.tools.of_plan.setCurrentIndex(plan)
    settle(qtbot, two)
    two.link.drag_dose(15.5)
    np.testing.assert_array_equal(lit(two.highlight.layer), ((label_values() > 0) & (values >= 15.5)).T)
    axis = viewer.dims.not_displayed[0]
    index = viewer.layers["dose"].world_to_data(viewer.dims.point)
    part = np.take(values.T, round(float(index[axis])), axis)
    np.testing.assert_array_equal(two.isodose.layer._slice.image.view > 0, part > 15.5)


def test_a_curve_and_a_row_choose_the_plan(two, qtbot):
    two.plot.curve_clicked.emit(3)  # the heart of the second plan
    assert (two.tools.plan, two.tools.inside.currentText()) == (1, "heart")
    two.table.table.setCurrentCell(0, 0)
    assert (two.tools.plan, two.tools.inside.currentText()) == (0, "lung")


def test_a_clicked_voxel_has_the_dose_of_the_chosen_plan(two, qtbot):
    place = (AFFINE @ [5, 6, 4, 1])[:3][::-1]
    two.tools.of_plan.setCurrentIndex(1)
    two.link.pick(place)
    assert two.link.voxel[0] == pytest.approx(0.5 * float(dose_values()[5, 6, 4]), rel=1e-5)
    assert "(2nd plan)" in said(two)
    assert len(two.plot.marks.data) == 2
    two.inputs_box.second_box.setCurrentIndex(0)
    settle(qtbot, two)
    assert two.link.voxel is None
    assert len(two.plot.marks.data) == 0


@pytest.mark.parametrize("plan", [0, 1])
def test_in_three_dimensions_the_isodose_is_a_surface(viewer, two, qtbot, plan):
    values = dose_values(scale=(1.0, 0.5)[plan])
    two.tools.of_plan.setCurrentIndex(plan)
    two.tools.dose.setChecked(True)
    settle(qtbot, two)
    two.link.drag_dose(12.0)
    flat = two.isodose.layer
    viewer.dims.ndisplay = 3
    surface = two.isodose.layer
    assert surface != flat
    assert surface.rendering == "iso"
    np.testing.assert_array_equal(surface.data, values.T)
    np.testing.assert_allclose(surface.extent.world, viewer.layers["dose"].extent.world)
    assert surface.iso_threshold == 12.0
    two.link.drag_dose(20.0)
    assert two.isodose.layer == surface  # nothing but the threshold is another
    assert surface.iso_threshold == 20.0
    viewer.dims.ndisplay = 2
    assert two.isodose.layer.data.level == 20.0
    two.tools.dose.setChecked(False)
    viewer.dims.ndisplay = 3
    assert two.isodose.layer is None
    viewer.dims.ndisplay = 2


def test_tools_tell_one_under_the_other(two, qtbot):
    two.tools.dose.setChecked(True)
    two.tools.volume.setChecked(True)
    settle(qtbot, two)
    assert "at least" in said(two)
    assert "D at 95 %" in said(two)
    two.link.drag_volume(50.0)
    assert "at least" in said(two)
    assert "D at 50 %" in said(two)

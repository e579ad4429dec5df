"""The link between plot and image, in the dose of either plan, in slices and in 3-D."""

import numpy as np
import pytest
from qtpy.QtCore import QPointF

from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.gui.isodose import isodose_distances
from tests.dock_widgets import Mouse, moved, show_slices_at
from tests.dose.gui.panel_samples import AFFINE, SAGITTAL, a_dose, dose_values, highlighted, label_values


def stored(layer, array):
    """What a layer shows, as its file has it."""
    affine = carried(layer, "affine")
    return array.T if np.allclose(affine, AFFINE) else array.T.transpose(1, 2, 0)


def slice_of(viewer, layer):
    """The values of a layer in the slice on screen."""
    (axis,) = viewer.dims.not_displayed
    index = [slice(None)] * layer.ndim
    index[axis] = round(float(layer.world_to_data(viewer.dims.point)[axis]))
    return np.asarray(layer.data[tuple(index)])


def highlight_of(user):
    user.settle()
    return user.panel.highlight.layer


def check_highlighted(layer, where, inside=None):
    """These voxels are drawn, of all labels if no others are given."""
    inside = label_values() > 0 if inside is None else inside
    np.testing.assert_array_equal(highlighted(layer), (inside & where).T)


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["LAS", "sagittal"])
def test_a_line_at_a_dose_highlights_the_voxels_above_it(user, panel, affine):
    _, labels = user.add_case(affine)
    user.run()
    panel.tools.dose.setChecked(True)
    layer = highlight_of(user)
    for name, label in (("lung", 1), ("heart", 2)):
        panel.tools.inside.setCurrentText(name)
        layer = highlight_of(user)
        np.testing.assert_allclose(layer.extent.world, labels.extent.world)
        for dose in (12.0, 20.5, 40.0):
            panel.plot.dose_line.setValue(dose)
            panel.plot.dose_line.sigDragged.emit(panel.plot.dose_line)
            reference = (label_values() == label) & (dose_values() >= dose)
            np.testing.assert_array_equal(stored(labels, highlighted(layer)), reference)
            assert f"at least {dose:.4g} Gy" in user.readout
            # the highlighted volume is that of the curve, as far as whole voxels can match it
            volume = reference.sum() * abs(np.linalg.det(affine[:3, :3])) / 1000
            assert volume == pytest.approx(user.curve(name).volume_at(dose), abs=0.12 * user.curve(name).volume_cc)


def test_all_of_a_layer_is_highlighted_at_first_however_doses_are_scaled(user, viewer, filled_panel):
    viewer.layers.selection.active = viewer.layers["organs"]
    filled_panel.tools.dose.setChecked(True)
    layer = highlight_of(user)
    assert viewer.layers.selection.active.name == "organs"
    for scale in (1.0, 2.0):
        user.scale_doses(scale)
        filled_panel.link.move_dose_line(20.0 * scale)
        check_highlighted(layer, dose_values() >= 20.0)


def test_an_interval_highlights_the_voxels_in_it_in_the_same_layer(user, viewer, filled_panel):
    filled_panel.tools.dose.setChecked(True)
    layer = highlight_of(user)
    filled_panel.tools.interval.setChecked(True)
    assert not filled_panel.tools.dose.isChecked()
    assert filled_panel.isodose.layer is None  # an interval has none
    user.settle()
    filled_panel.plot.interval.setRegion((14.0, 35.0))
    check_highlighted(layer, (dose_values() >= 14.0) & (dose_values() <= 35.0))
    assert f"{user.curve('lung').band_volume(14.0, 35.0):.4g} cc" in user.readout
    filled_panel.tools.inside.setCurrentText("heart")
    assert highlight_of(user) == layer
    assert len([one for one in viewer.layers if carried(one, "panel") == "dose highlight"]) == 1
    filled_panel.tools.interval.setChecked(False)
    assert highlight_of(user) is None


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["LAS", "sagittal"])
def test_the_isodose_crosses_the_slice_where_the_dose_has_that_value(user, viewer, panel, affine):
    dose, _ = user.add_case(affine)
    user.run()
    panel.tools.dose.setChecked(True)
    for reference in (12.3, 30.7):
        panel.link.move_dose_line(reference)
        layer = panel.isodose.layer
        np.testing.assert_allclose(layer.extent.world, dose.extent.world)
        part = slice_of(viewer, dose)
        shown = slice_of(viewer, layer)
        np.testing.assert_array_equal(shown > 0, part > reference)  # also outside the organs
        assert (np.abs(shown) < 1).any(axis=None) or not (part.min() < reference < part.max())
    panel.tools.dose.setChecked(False)
    assert panel.isodose.layer is None


def test_distances_from_an_isodose_are_in_voxels():
    x, y = np.indices((40, 50))
    plane = 2.0 * x + 1.5 * y
    np.testing.assert_allclose(isodose_distances(plane, 60.0), (plane - 60.0) / 2.5, rtol=1e-5, atol=1e-5)
    step = np.repeat([[0.0, 0.0, 90.0, 90.0]], 3, axis=0)  # nothing but the step itself is near
    np.testing.assert_allclose(isodose_distances(step, 80.0)[1, 1:3], [-80 / 90, 10 / 90], rtol=1e-6)
    assert (np.abs(isodose_distances(np.full((4, 4), 7.0), 7.0)) == 1000).all()


def test_inside_contours_voxels_of_the_dose_are_highlighted(user, viewer, panel):
    user.add_dose(a_dose(np.eye(4)))
    square = np.array([[5, 2.5, 2.5], [5, 2.5, 9.5], [5, 9.5, 9.5], [5, 9.5, 2.5]])
    viewer.add_shapes([square], shape_type="polygon", name="drawn")
    user.run()
    panel.tools.dose.setChecked(True)
    layer = highlight_of(user)
    panel.link.move_dose_line(20.0)
    reference = np.zeros(dose_values().shape, bool)
    reference[3:10, 3:10, 5] = True
    check_highlighted(layer, dose_values() >= 20.0, reference)


def test_a_line_at_a_volume_reads_doses(user, filled_panel):
    panel = filled_panel
    panel.tools.dose.setChecked(True)
    panel.tools.volume.setChecked(True)
    user.settle()
    assert "D at 95 %" in user.readout
    panel.plot.volume_line.setValue(50.0)
    panel.plot.volume_line.sigDragged.emit(panel.plot.volume_line)
    for text in ("at least", "D at 50 %", f"{user.curve('lung').dose_at_percent(50):.4g} Gy"):
        assert text in user.readout
    panel.axes_box.volume.setCurrentText("cc")
    user.settle()
    panel.link.move_volume_line(1.0)
    assert f"{user.curve('heart').dose_at(1.0):.4g} Gy" in user.readout


def test_a_clicked_voxel_is_marked_on_every_curve(user, viewer, filled_panel):
    """But not the end of a drag, a voxel beside the structures or the dose, or a stroke of the brush."""
    corner, lung = ((AFFINE @ [*index, 1])[:3][::-1] for index in ((0, 0, 0), (5, 6, 4)))
    mouse, marks = Mouse(viewer), filled_panel.plot.marks
    show_slices_at(viewer, lung)
    mouse.drag(lung, moved(lung, 0, 3, 3))
    assert len(marks.data) == 0
    mouse.click(corner)
    assert "in no structure" in user.readout
    mouse.click(moved(corner, 0, 500, 0))
    assert "outside the dose" in user.readout
    viewer.layers.selection.active = organs = viewer.layers["organs"]
    organs.mode = "paint"
    mouse.click(lung)
    assert len(marks.data) == 0
    organs.undo()
    organs.mode = "pan_zoom"
    mouse.click(lung)
    dose = float(dose_values()[5, 6, 4])
    doses, heights = marks.getData()
    np.testing.assert_allclose(doses, dose, rtol=1e-5)
    percents = [user.curve(name).percent_at(dose) for name in ("lung", "heart")]
    np.testing.assert_allclose(heights, percents, atol=1e-6)
    assert "voxel in lung" in user.readout
    assert f"{dose:.4g} Gy" in user.readout


def test_a_click_in_a_series(user, viewer, panel):
    user.add_series()
    user.add_case()
    viewer.layers.remove("dose")
    panel.inputs_box.dose_box.choose(viewer.layers["phases"])
    viewer.dims.set_point(0, 2)
    user.run()
    place = (AFFINE @ [5, 6, 4, 1])[:3][::-1]
    panel.link.mark_voxel((2.0, *place))
    assert panel.link.voxel[0] == pytest.approx(0.25 * float(dose_values()[5, 6, 4]), rel=1e-5)
    assert panel.link.voxel[1] == ("lung",)
    panel.tools.dose.setChecked(True)
    layer = highlight_of(user)
    panel.link.move_dose_line(5.0)
    check_highlighted(layer, dose_values(scale=0.25) >= 5.0)
    assert layer.ndim == 3


def test_the_curve_near_the_mouse_is_found_and_read(user, filled_panel):
    filled_panel.plot.resize(400, 270)
    filled_panel.plot.grab()
    box = filled_panel.plot.plotItem.vb
    for number, name in enumerate(("lung", "heart")):
        dose = float(user.curve(name).dose_at_percent(50))
        assert filled_panel.plot.curve_at(box.mapViewToScene(QPointF(dose, 50.0))) == number
        filled_panel.plot.mouse_moved.emit(number, 20.0)
        assert f"{name} {user.curve(name).percent_at(20.0):.4g} %" in user.readout
    assert filled_panel.plot.curve_at(box.mapViewToScene(QPointF(55.0, 95.0))) == -1
    filled_panel.plot.mouse_moved.emit(-1, 0.0)
    assert "Move the mouse" in user.readout


@pytest.fixture
def two(user, panel):
    """The panel with two plans, of which the second has half the dose."""
    user.choose_two_plans(a_dose(scale=0.5))
    user.run()
    return panel


def test_the_plan_is_chosen_where_there_are_two(user, two):
    """In the box, by a click at a curve, by a row of the table; a voxel is marked in the chosen one."""
    box = two.tools.of_plan
    assert box.isVisibleTo(two.tools)
    assert [box.itemText(n) for n in range(box.count())] == ["dose", "B"]
    two.plot.curve_clicked.emit(3)  # the heart of the second plan
    assert (two.tools.plan, two.tools.inside.currentText()) == (1, "heart")
    two.link.mark_voxel((AFFINE @ [5, 6, 4, 1])[:3][::-1])
    assert two.link.voxel[0] == pytest.approx(0.5 * float(dose_values()[5, 6, 4]), rel=1e-5)
    assert "(2nd plan)" in user.readout
    assert len(two.plot.marks.data) == 2
    two.table.table.setCurrentCell(0, 0)
    assert (two.tools.plan, two.tools.inside.currentText()) == (0, "lung")
    box.setCurrentIndex(1)
    two.inputs_box.second_box.setCurrentIndex(0)
    user.settle()
    assert not box.isVisibleTo(two.tools)
    assert two.tools.plan == 0
    assert two.link.voxel is None
    assert len(two.plot.marks.data) == 0


def test_the_isodose_of_the_chosen_plan_is_a_surface_in_three_dimensions(user, viewer, two):
    values = dose_values(scale=0.5)
    two.tools.dose.setChecked(True)
    two.tools.of_plan.setCurrentIndex(1)
    user.settle()
    two.link.move_dose_line(15.5)
    flat = two.isodose.layer
    check_highlighted(two.highlight.layer, values >= 15.5)
    np.testing.assert_array_equal(slice_of(viewer, flat) > 0, slice_of(viewer, viewer.layers["B"]) > 15.5)
    viewer.dims.ndisplay = 3
    surface = two.isodose.layer
    assert surface != flat
    assert (surface.rendering, surface.iso_threshold) == ("iso", 15.5)
    np.testing.assert_array_equal(surface.data, values.T)
    np.testing.assert_allclose(surface.extent.world, viewer.layers["dose"].extent.world)
    two.link.move_dose_line(20.0)
    assert two.isodose.layer == surface  # nothing but the threshold is another
    assert surface.iso_threshold == 20.0
    viewer.dims.ndisplay = 2
    assert two.isodose.layer.data.level == 20.0
    two.tools.dose.setChecked(False)
    viewer.dims.ndisplay = 3
    assert two.isodose.layer is None
    viewer.dims.ndisplay = 2


@pytest.mark.display
@pytest.mark.usefixtures("checked_draws")
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_isodose_and_highlight_are_drawn_inside_their_buffers_until_all_layers_go(user, viewer, filled_panel, ndisplay):
    viewer.dims.ndisplay = ndisplay
    for _ in range(2):
        filled_panel.tools.dose.setChecked(True)
        user.settle()
        for dose in (12.3, 1e6, 30.7):
            filled_panel.link.move_dose_line(dose)
            viewer.screenshot(flash=False)
        assert filled_panel.isodose.layer is not None
        assert filled_panel.highlight.layer is not None
        viewer.layers.clear()
        viewer.screenshot(flash=False)
        dose, _ = user.add_case()
        filled_panel.inputs_box.dose_box.choose(dose)
        user.run()

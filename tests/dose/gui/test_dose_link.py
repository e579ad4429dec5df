"""The link between plot and image: lines that light voxels, voxels that are marked on curves."""

import numpy as np
import pytest
from qtpy.QtCore import QPointF

from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.gui.isodose import FAR, distances
from tests.dock_widgets import Mouse, moved, show_slices_at
from tests.dose.gui.panel_samples import (
    AFFINE,
    SAGITTAL,
    a_dose,
    add_case,
    add_dose,
    add_series,
    curve,
    dose_values,
    label_values,
    lit,
    run,
    said,
    settle,
)


def stored(layer, array):
    """What a layer shows, as its file has it."""
    affine = carried(layer, "affine")
    return array.T if np.allclose(affine, AFFINE) else array.T.transpose(1, 2, 0)


def highlight_of(panel, qtbot):
    settle(qtbot, panel)
    return panel.highlight.layer


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["LAS", "sagittal"])
def test_a_line_at_a_dose_lights_the_voxels_above_it(viewer, panel, qtbot, affine):
    _, labels = add_case(viewer, affine)
    run(qtbot, panel)
    panel.tools.dose.setChecked(True)
    layer = highlight_of(panel, qtbot)
    for name, label in (("lung", 1), ("heart", 2)):
        panel.tools.choose(name)
        layer = highlight_of(panel, qtbot)
        np.testing.assert_allclose(layer.extent.world, labels.extent.world)
        for dose in (12.0, 20.5, 40.0):
            panel.plot.dose_line.setValue(dose)
            panel.plot.dose_line.sigDragged.emit(panel.plot.dose_line)
            wanted = (label_values() == label) & (dose_values() >= dose)
            np.testing.assert_array_equal(stored(labels, lit(layer)), wanted)
            assert f"at least {dose:.4g} Gy" in said(panel)
            # what is lit is what the curve says, as far as whole voxels can
            volume = wanted.sum() * abs(np.linalg.det(affine[:3, :3])) / 1000
            assert volume == pytest.approx(curve(panel, name).volume_at(dose), abs=0.12 * curve(panel, name).volume_cc)


def test_all_of_a_layer_is_lit_at_first(viewer, counted, qtbot):
    counted.tools.dose.setChecked(True)
    layer = highlight_of(counted, qtbot)
    counted.link.drag_dose(20.0)
    np.testing.assert_array_equal(lit(layer), ((label_values() > 0) & (dose_values() >= 20.0)).T)


def test_an_interval_lights_the_voxels_in_it(viewer, counted, qtbot):
    counted.tools.band.setChecked(True)
    layer = highlight_of(counted, qtbot)
    counted.plot.band.setRegion((14.0, 35.0))
    np.testing.assert_array_equal(
        lit(layer), ((label_values() > 0) & (dose_values() >= 14.0) & (dose_values() <= 35.0)).T
    )
    lung = curve(counted, "lung").band_volume(14.0, 35.0)
    assert f"{lung:.4g} cc" in said(counted)


def test_one_layer_is_used_again_and_taken_away(viewer, counted, qtbot):
    counted.tools.dose.setChecked(True)
    layer = highlight_of(counted, qtbot)
    counted.tools.band.setChecked(True)
    assert not counted.tools.dose.isChecked()
    counted.tools.choose("heart")
    assert highlight_of(counted, qtbot) == layer
    assert len([one for one in viewer.layers if carried(one, "panel") == "dose highlight"]) == 1
    assert counted.isodose.layer is None  # an interval has none
    counted.tools.band.setChecked(False)
    assert highlight_of(counted, qtbot) is None


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["LAS", "sagittal"])
def test_the_isodose_crosses_the_slice_where_the_dose_has_that_value(viewer, panel, qtbot, affine):
    dose, _ = add_case(viewer, affine)
    run(qtbot, panel)
    panel.tools.dose.setChecked(True)
    for wanted in (12.3, 30.7):
        panel.link.drag_dose(wanted)
        layer = panel.isodose.layer
        np.testing.assert_allclose(layer.extent.world, dose.extent.world)
        index = dose.world_to_data(viewer.dims.point)
        part = np.take(dose.data, round(float(index[viewer.dims.not_displayed[0]])), viewer.dims.not_displayed[0])
        shown = layer._slice.image.view
        np.testing.assert_array_equal(shown > 0, part > wanted)  # also outside the organs
        assert (np.abs(shown) < 1).any(axis=None) or not (part.min() < wanted < part.max())
    panel.tools.dose.setChecked(False)
    assert panel.isodose.layer is None


def test_distances_from_an_isodose_are_in_voxels():
    x, y = np.indices((40, 50))
    plane = 2.0 * x + 1.5 * y
    np.testing.assert_allclose(distances(plane, 60.0), (plane - 60.0) / 2.5, rtol=1e-5, atol=1e-5)
    step = np.repeat([[0.0, 0.0, 90.0, 90.0]], 3, axis=0)  # nothing but the step itself is near
    np.testing.assert_allclose(distances(step, 80.0)[1, 1:3], [-80 / 90, 10 / 90], rtol=1e-6)
    assert (np.abs(distances(np.full((4, 4), 7.0), 7.0)) == FAR).all()


def test_the_chosen_layer_stays_active(viewer, counted, qtbot):
    viewer.layers.selection.active = viewer.layers["organs"]
    counted.tools.dose.setChecked(True)
    highlight_of(counted, qtbot)
    assert viewer.layers.selection.active.name == "organs"


def test_scaled_doses_light_the_same_voxels(viewer, counted, qtbot):
    counted.tools.dose.setChecked(True)
    layer = highlight_of(counted, qtbot)
    counted.scale_box.scale.box.setValue(2.0)
    settle(qtbot, counted)
    counted.link.drag_dose(40.0)
    np.testing.assert_array_equal(lit(layer), ((label_values() > 0) & (dose_values() >= 20.0)).T)


def test_inside_contours_voxels_of_the_dose_are_lit(viewer, panel, qtbot):
    add_dose(viewer, a_dose(np.eye(4)))
    square = np.array([[5, 2.5, 2.5], [5, 2.5, 9.5], [5, 9.5, 9.5], [5, 9.5, 2.5]])
    viewer.add_shapes([square], shape_type="polygon", name="drawn")
    run(qtbot, panel)
    panel.tools.dose.setChecked(True)
    layer = highlight_of(panel, qtbot)
    panel.link.drag_dose(20.0)
    wanted = np.zeros(dose_values().shape, bool)
    wanted[3:10, 3:10, 5] = True
    np.testing.assert_array_equal(lit(layer), (wanted & (dose_values() >= 20.0)).T)


def test_a_line_at_a_volume_reads_doses(viewer, counted, qtbot):
    counted.tools.volume.setChecked(True)
    settle(qtbot, counted)
    counted.plot.volume_line.setValue(50.0)
    counted.plot.volume_line.sigDragged.emit(counted.plot.volume_line)
    assert "D at 50 %" in said(counted)
    assert f"{curve(counted, 'lung').dose_at_percent(50):.4g} Gy" in said(counted)
    counted.axes_box.volume.setCurrentText("cc")
    settle(qtbot, counted)
    counted.link.drag_volume(1.0)
    assert f"{curve(counted, 'heart').dose_at(1.0):.4g} Gy" in said(counted)


def test_a_clicked_voxel_is_marked_on_every_curve(viewer, counted, qtbot):
    show_slices_at(viewer, (20, 0, 30))
    i, j, k = 5, 6, 4  # in the lung
    place = (AFFINE @ [i, j, k, 1])[:3][::-1]
    show_slices_at(viewer, place)
    Mouse(viewer).click(place)
    dose = float(dose_values()[i, j, k])
    spots = counted.plot.marks.getData()
    np.testing.assert_allclose(spots[0], dose, rtol=1e-5)
    heights = [curve(counted, name).percent_at(dose) for name in ("lung", "heart")]
    np.testing.assert_allclose(spots[1], heights, atol=1e-6)
    assert "voxel in lung" in said(counted)
    assert f"{dose:.4g} Gy" in said(counted)


def test_a_click_beside_everything(viewer, counted, qtbot):
    place = (AFFINE @ [0, 0, 0, 1])[:3][::-1]
    Mouse(viewer).click(place)
    assert "in no structure" in said(counted)
    Mouse(viewer).click(moved(place, 0, 500, 0))
    assert "outside the dose" in said(counted)
    assert len(counted.plot.marks.data) == 0


def test_a_drag_of_the_view_marks_nothing(viewer, counted):
    place = (AFFINE @ [5, 6, 4, 1])[:3][::-1]
    Mouse(viewer).drag(place, moved(place, 0, 3, 3))
    assert len(counted.plot.marks.data) == 0


def test_painting_clicks_belong_to_the_layer(viewer, counted):
    viewer.layers.selection.active = viewer.layers["organs"]
    viewer.layers["organs"].mode = "paint"
    Mouse(viewer).click((AFFINE @ [5, 6, 4, 1])[:3][::-1])
    assert len(counted.plot.marks.data) == 0


def test_a_click_in_a_series(viewer, panel, qtbot):
    add_series(viewer)
    add_case(viewer)
    viewer.layers.remove("dose")
    panel.inputs_box.dose_box.choose(viewer.layers["phases"])
    viewer.dims.set_point(0, 2)
    run(qtbot, panel)
    place = (AFFINE @ [5, 6, 4, 1])[:3][::-1]
    panel.link.pick((2.0, *place))
    assert panel.link.voxel[0] == pytest.approx(0.25 * float(dose_values()[5, 6, 4]), rel=1e-5)
    assert panel.link.voxel[1] == ("lung",)
    panel.tools.dose.setChecked(True)
    layer = highlight_of(panel, qtbot)
    panel.link.drag_dose(5.0)
    np.testing.assert_array_equal(lit(layer), ((label_values() > 0) & (dose_values(scale=0.25) >= 5.0)).T)
    assert layer.ndim == 3


def test_hovering_reads_the_nearest_curve(viewer, counted):
    counted.plot.hovered.emit(0, 20.0)
    lung = curve(counted, "lung")
    assert f"{lung.percent_at(20.0):.4g} %" in said(counted)
    assert "lung" in said(counted)
    counted.plot.hovered.emit(-1, 0.0)
    assert "Move the mouse" in said(counted)


def test_the_curve_near_the_mouse_is_found(viewer, counted, qtbot):
    counted.plot.resize(400, 270)
    counted.plot.grab()
    box = counted.plot.plotItem.vb
    for number, name in enumerate(("lung", "heart")):
        dose = float(curve(counted, name).dose_at_percent(50))
        place = box.mapViewToScene(QPointF(dose, 50.0))
        assert counted.plot._curve_at(place) == number
    assert counted.plot._curve_at(box.mapViewToScene(QPointF(55.0, 95.0))) == -1


def test_a_row_of_the_table_and_a_curve_choose_the_structure(viewer, counted):
    counted.table.table.setCurrentCell(1, 0)
    assert counted.tools.inside.currentText() == "heart"
    counted.plot.curve_clicked.emit(0)
    assert counted.tools.inside.currentText() == "lung"

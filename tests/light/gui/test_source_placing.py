"""The dock widget "Light transport": the source with the mouse and by numbers."""

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.gui.views import camera_of
from napari_gpubio.light.surface import label_at
from tests.dock_widgets import MILLISECONDS, Mouse, button, moved
from tests.light.gui.panel_samples import (
    CENTER,
    FRONT,
    LEFT,
    RADIUS,
    TOP,
    ball,
    click,
    degrees_between,
    direction,
    fluence,
    go_to,
    lines,
    markers,
    on_screen,
    on_surface,
    outwards,
    position,
    result,
    settle,
    tick,
)


def test_a_click_in_a_slice_stays_in_the_slice(viewer, panel):
    panel.voxels.run_box.set_live(False)
    for height in (-10.0, 0.0, 15.0):
        target = moved(CENTER, -22.0, 6.0, height)
        click(viewer, target)
        assert position(panel)[2] == pytest.approx(target[2], abs=0.01)
        assert on_surface(position(panel))
        assert len(markers(viewer)) == 1


def test_the_arrow_ends_at_the_source_and_comes_from_outside(viewer, placed):
    viewer.dims.ndisplay = 3
    drawn, tip = lines(viewer), position(placed)
    assert np.allclose(drawn[:, 1], tip, atol=1e-3)  # the shaft and the head all end there
    shaft = drawn[np.argmax(np.linalg.norm(drawn[:, 1] - drawn[:, 0], axis=1))]
    assert degrees_between((shaft[1] - shaft[0]) / np.linalg.norm(shaft[1] - shaft[0]), direction(placed)) < 0.1
    assert np.linalg.norm(shaft[0] - CENTER) > RADIUS + 3.0


def test_the_arrow_is_drawn_only_in_slices_near_it(viewer, placed):
    assert len(lines(viewer))
    assert len(markers(viewer)) == 1
    viewer.dims.set_point(0, on_screen(CENTER)[0] + 12.0)
    assert not len(lines(viewer))
    assert not len(markers(viewer))
    go_to(viewer, position(placed))
    assert len(lines(viewer))
    viewer.dims.order = (2, 0, 1)  # sagittal
    go_to(viewer, position(placed))
    assert len(markers(viewer)) == 1


def test_dragging_slides_on_the_surface_with_the_normal(viewer, placed):
    start = on_screen(position(placed))
    mouse = Mouse(viewer)
    mouse.press(start)
    assert not camera_of(viewer).mouse_pan
    for angle in np.linspace(0, np.pi / 2, 10)[1:]:
        target = CENTER + 25.0 * np.array([-np.cos(angle), np.sin(angle), 0.0])
        mouse.move(on_screen(target))
        shown = placed.voxels.controller.shown.source
        assert on_surface(shown.position_mm)
        assert degrees_between(shown.direction, -outwards(shown.position_mm)) < 6.0
        assert np.allclose(markers(viewer), [shown.position_mm], atol=1e-3)
    before = placed.voxels.controller.optodes
    assert np.allclose(on_screen(before.source.position_mm), start)  # nothing is settled before the release
    mouse.release(on_screen(target))
    assert camera_of(viewer).mouse_pan
    assert placed.voxels.controller.optodes is not before
    assert degrees_between(outwards(position(placed)), (0.0, 1.0, 0.0)) < 8.0
    button(placed.voxels.place_bar, "Undo").click()
    assert np.allclose(on_screen(position(placed)), start)  # the whole drag is one step


def test_in_3d_dragging_follows_the_tissue_under_the_mouse(viewer, placed, qtbot):
    viewer.dims.ndisplay = 3
    placed.voxels.place_source(TOP)
    start = on_screen(position(placed))
    mouse = Mouse(viewer, view=(-1.0, 0.0, 0.0))
    away = np.array([50.0, 0.0, 0.0])  # the canvas plane is elsewhere along the line of sight
    mouse.drag(start + away, moved(start + away, 0.0, 3.0, 2.0), moved(start + away, 0.0, 8.0, -4.0))
    _, y, x = on_screen(position(placed))
    assert (y, x) == pytest.approx((start[1] + 8.0, start[2] - 4.0), abs=0.01)
    assert on_surface(position(placed))
    viewer.dims.ndisplay = 2  # and the slice shows where it went
    qtbot.waitUntil(lambda: len(markers(viewer)) == 1, timeout=MILLISECONDS)


def test_in_3d_a_drag_beside_the_tissue_stays_where_it_was_last(viewer, placed):
    viewer.dims.ndisplay = 3
    placed.voxels.place_source(TOP)
    start, mouse = on_screen(position(placed)), Mouse(viewer, view=(-1.0, 0.0, 0.0))
    mouse.drag(start, moved(start, 0.0, 6.0, 0.0), moved(start, 0.0, 600.0, 0.0))
    assert on_screen(position(placed))[1] == pytest.approx(start[1] + 6.0, abs=0.01)
    assert placed.message == ""


def test_a_click_on_the_marker_without_moving_changes_nothing(viewer, placed):
    before = placed.voxels.controller.optodes
    Mouse(viewer).click(moved(on_screen(position(placed)), 0.0, 0.5, 0.5))
    assert placed.voxels.controller.optodes is before


def test_flip_and_along_the_normal(viewer, placed, qtbot):
    inward = direction(placed)
    button(placed, "Flip").click()
    assert np.allclose(direction(placed), -inward)
    assert "points away" in placed.voxels.source_box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    assert "points away" in placed.message
    assert fluence(viewer) is None
    tick(placed, "inward normal")
    assert np.allclose(direction(placed), inward)
    assert placed.voxels.source_box.warning == ""


def test_a_typed_direction_stays_when_the_source_is_moved_and_when_zero_is_typed(viewer, placed):
    placed.voxels.source_box.direction_box.boxes[2].setValue(-2.0)
    turned = direction(placed)
    assert np.linalg.norm(turned) == pytest.approx(1.0)
    assert turned[2] < -0.8
    placed.voxels.place_source(TOP)
    assert np.allclose(direction(placed), turned)
    for box in placed.voxels.source_box.direction_box.boxes:
        box.setValue(0.0)
    assert "(0, 0, 0)" in placed.message
    assert np.linalg.norm(direction(placed)) == pytest.approx(1.0)


def test_an_implanted_fiber(viewer, placed, qtbot):
    entry = position(placed)
    placed.voxels.source_box.form.widget("kind").value = "fiber"
    placed.voxels.source_box.depth_box.setValue(7.5)
    assert np.allclose(position(placed), entry + 7.5 * direction(placed))
    assert label_at(ball().labels, ball().affine, position(placed)) == 1 + (
        np.linalg.norm(position(placed) - CENTER) < 12
    )
    go_to(viewer, position(placed))
    # its marker can be dragged although it is inside: the entry slides on the surface, the depth stays
    start = on_screen(position(placed))
    Mouse(viewer).drag(start, moved(start, 0.0, 4.0, 0.0))
    source = placed.voxels.controller.optodes.source
    assert source.depth_mm == 7.5
    assert on_surface(source.entry_mm)
    assert np.linalg.norm(np.subtract(source.entry_mm, entry)) == pytest.approx(4.0, abs=2.5)
    placed.voxels.run_box.photons.set_value(500)
    placed.run_button.click()
    settle(qtbot, placed)
    assert result(viewer).energy.specular.value == 0.0  # it starts inside


def test_numbers_put_the_source_exactly_there(viewer, placed):
    for box, value in zip(placed.voxels.source_box.position_box.boxes, (-40.25, -3.125, 4.5), strict=True):
        box.setValue(value)
    assert position(placed) == pytest.approx((-40.25, -3.125, 4.5))
    assert "mm away from the tissue" in placed.voxels.source_box.warning
    assert np.allclose(viewer.dims.point[:2], on_screen(position(placed))[:2])  # the slices follow, as far as they go


def test_all_round_sources_in_the_air_are_warned_of(viewer, placed, qtbot):
    placed.voxels.run_box.set_live(True)
    placed.voxels.source_box.form.widget("kind").value = "isotropic"
    settle(qtbot, placed)
    assert "Give it a depth" in placed.voxels.source_box.warning
    assert placed.message == ""  # it is said once
    placed.voxels.source_box.depth_box.setValue(3.0)
    settle(qtbot, placed)
    assert placed.voxels.source_box.warning == ""
    assert result(viewer).source.kind == "isotropic"


def test_only_a_left_click_that_neither_moves_nor_paints_places(viewer, panel):
    viewer.layers.selection.active = viewer.layers["ball"]
    viewer.layers["ball"].mode = "paint"
    click(viewer, LEFT)
    assert panel.voxels.controller.optodes.source is None
    viewer.layers["ball"].mode = "pan_zoom"
    go_to(viewer, LEFT)
    Mouse(viewer, button=2).click(on_screen(LEFT))
    Mouse(viewer).drag(on_screen(TOP), on_screen(TOP) + 4)
    panel.voxels.place_bar.choose("nothing")
    Mouse(viewer).click(on_screen(LEFT))
    assert panel.voxels.controller.optodes.source is None


def test_several_sources_one_shines(viewer, placed, qtbot):
    from napari_gpubio.light.gui.labels import Tissue
    from napari_gpubio.light.gui.optodes import Optodes, Placement

    tissue = Tissue.of(viewer.layers["ball"])
    sources = tuple(
        Placement(entry_mm=(0, 0, 0), direction=(0, 0, 1), name=f"S{n}").on_surface(tissue, np.array(point))
        for n, point in enumerate((LEFT, FRONT), 1)
    )
    placed.voxels.controller.load(Optodes(sources=sources))
    box = next(b for b in placed.voxels.source_box.findChildren(QComboBox) if b.findText("S2") >= 0)
    assert not box.isHidden()
    box.setCurrentIndex(1)
    assert placed.voxels.controller.optodes.active == 1
    assert np.allclose(position(placed), sources[1].position_mm)
    assert np.allclose(viewer.dims.point, on_screen(position(placed)))
    go_to(viewer, LEFT)
    Mouse(viewer).press(on_screen(sources[0].position_mm))  # grabbing another source lets it shine
    assert placed.voxels.controller.optodes.active == 0


def test_all_of_a_wide_beam_comes_from_outside(viewer, placed, qtbot):
    """Its specular loss is that of perpendicular incidence, at least: ((1.37 - 1) / (1.37 + 1))^2 on every photon."""
    placed.voxels.source_box.turned.emit((1.0, 0.6, 0.0))  # one edge of the disk dips into the ball
    placed.voxels.source_box.form.widget("kind").value = "disk"
    placed.voxels.source_box.form.widget("radius_mm").value = 5.0
    assert "before the surface" in placed.voxels.source_box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    shown = result(viewer)
    assert shown.energy.specular.value >= (0.37 / 2.37) ** 2 - 1e-6
    assert shown.energy.missed.value == 0.0
    assert np.allclose(
        [box.value() for box in placed.voxels.source_box.position_box.boxes], shown.source.position_mm, atol=1e-3
    )
    # at numbers of the user's it starts exactly there
    placed.voxels.place_source(LEFT, snap=False)
    assert placed.voxels.controller.source().position_mm == pytest.approx(LEFT)

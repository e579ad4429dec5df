"""The dock widget "Light transport": the source and detectors with the mouse, by numbers and in their list."""

import numpy as np
import pytest
from qtpy.QtWidgets import QTableWidget

from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.views import camera_of
from napari_gpubio.light.gui.labels import Tissue
from napari_gpubio.light.gui.optodes import Optodes, Placement
from napari_gpubio.optics.surface import label_at
from tests.dock_widgets import MILLISECONDS, Mouse, button, moved, undo
from tests.light.gui.panel_samples import (
    CENTER,
    CORE,
    FRONT,
    LEFT,
    RADIUS,
    RIGHT,
    TOP,
    ball,
    click,
    combo_with,
    degrees_between,
    detector_rows,
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


def test_the_arrow_ends_at_the_source_comes_from_outside_and_is_drawn_near_it(viewer, placed):
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
    viewer.dims.ndisplay = 3
    drawn = lines(viewer)
    assert np.allclose(drawn[:, 1], position(placed), atol=1e-3)  # the shaft and the head all end there
    along = drawn[:, 1] - drawn[:, 0]
    shaft = np.argmax(np.linalg.norm(along, axis=1))
    assert degrees_between(along[shaft] / np.linalg.norm(along[shaft]), direction(placed)) < 0.1
    assert np.linalg.norm(drawn[shaft, 0] - CENTER) > RADIUS + 3.0


def test_dragging_slides_on_the_surface_with_the_normal(viewer, placed):
    start = on_screen(position(placed))
    mouse = Mouse(viewer)
    history_of(viewer).note_act()
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
    undo(viewer)
    assert np.allclose(on_screen(position(placed)), start)  # the whole drag is one step


def test_in_3d_dragging_follows_the_tissue_under_the_mouse_as_far_as_there_is_some(viewer, placed, qtbot):
    viewer.dims.ndisplay = 3
    placed.voxels.place_source(TOP)
    start = on_screen(position(placed))
    mouse = Mouse(viewer, view=(-1.0, 0.0, 0.0))
    away = np.array([50.0, 0.0, 0.0])  # the canvas plane is elsewhere along the line of sight
    mouse.drag(start + away, moved(start + away, 0.0, 3.0, 2.0), moved(start + away, 0.0, 8.0, -4.0))
    _, y, x = on_screen(position(placed))
    assert (y, x) == pytest.approx((start[1] + 8.0, start[2] - 4.0), abs=0.01)
    assert on_surface(position(placed))
    start = on_screen(position(placed))
    mouse.drag(start, moved(start, 0.0, -6.0, 0.0), moved(start, 0.0, 600.0, 0.0))
    assert on_screen(position(placed))[1] == pytest.approx(start[1] - 6.0, abs=0.01)
    assert placed.message == ""
    viewer.dims.ndisplay = 2  # and the slice shows where it went
    qtbot.waitUntil(lambda: len(markers(viewer)) == 1, timeout=MILLISECONDS)


def test_a_click_on_the_marker_without_moving_changes_nothing(viewer, placed):
    before = placed.voxels.controller.optodes
    Mouse(viewer).click(moved(on_screen(position(placed)), 0.0, 0.5, 0.5))
    assert placed.voxels.controller.optodes is before


def test_the_direction_is_flipped_along_the_normal_or_typed(viewer, placed, qtbot):
    inward, box = direction(placed), placed.voxels.source_box
    button(placed, "Flip").click()
    assert np.allclose(direction(placed), -inward)
    assert "points away" in box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    assert "points away" in placed.message
    assert fluence(viewer) is None
    tick(placed, "inward normal")
    assert np.allclose(direction(placed), inward)
    assert box.warning == ""
    box.direction_box.boxes[2].setValue(-2.0)
    turned = direction(placed)
    assert np.linalg.norm(turned) == pytest.approx(1.0)
    assert turned[2] < -0.8
    placed.voxels.place_source(TOP)
    assert np.allclose(direction(placed), turned)
    for number in box.direction_box.boxes:
        number.setValue(0.0)
    assert "(0, 0, 0)" in placed.message
    assert np.linalg.norm(direction(placed)) == pytest.approx(1.0)


def test_light_enters_through_the_surface_that_its_source_was_put_on(placed):
    controller, box = placed.voxels.controller, placed.voxels.source_box
    assert controller.source().entry == "smooth"
    box.direction_box.boxes[2].setValue(-0.5)
    assert controller.source().entry == "smooth"
    box.position_box.boxes[0].setValue(-40.25)
    assert controller.source().entry == "auto"


def test_an_implanted_fiber(viewer, placed, qtbot):
    entry = position(placed)
    placed.voxels.source_box.form.widget("source").value = "fiber"
    placed.voxels.source_box.depth_box.setValue(7.5)
    assert np.allclose(position(placed), entry + 7.5 * direction(placed))
    in_core = np.linalg.norm(position(placed) - CENTER) < CORE
    assert label_at(ball().labels, ball().affine, position(placed)) == 1 + in_core
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
    at = np.subtract(viewer.dims.point, on_screen(position(placed)))[:2]  # the slices follow, as far as they go
    assert (np.abs(at) <= 0.5 * np.array(viewer.layers["ball"].scale[:2]) + 1e-6).all()


def test_all_round_sources_in_the_air_are_warned_of(viewer, placed, qtbot):
    placed.voxels.run_box.set_live(True)
    placed.voxels.source_box.form.widget("source").value = "isotropic"
    settle(qtbot, placed)
    assert "Move it into the tissue" in placed.voxels.source_box.warning
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
    panel.voxels.place_bar.choices.choose("nothing")
    Mouse(viewer).click(on_screen(LEFT))
    assert panel.voxels.controller.optodes.source is None


def test_one_of_several_sources_is_active(viewer, placed):
    tissue = Tissue.of(viewer.layers["ball"])
    sources = tuple(
        Placement(entry_mm=(0, 0, 0), direction=(0, 0, 1), name=f"S{n}").on_surface(tissue, np.array(point))
        for n, point in enumerate((LEFT, FRONT), 1)
    )
    placed.voxels.controller.load(Optodes(sources=sources))
    box = combo_with(placed.voxels.source_box, "S2")
    assert not box.isHidden()
    box.setCurrentIndex(1)
    assert placed.voxels.controller.optodes.active == 1
    assert np.allclose(position(placed), sources[1].position_mm)
    assert np.allclose(viewer.dims.point, on_screen(position(placed)))
    go_to(viewer, LEFT)
    Mouse(viewer).press(on_screen(sources[0].position_mm))  # grabbing another source makes it active
    assert placed.voxels.controller.optodes.active == 0


def test_all_of_a_wide_beam_comes_from_outside(viewer, placed, qtbot):
    """Its specular loss is that of perpendicular incidence, at least: ((1.37 - 1) / (1.37 + 1))^2 on every photon."""
    box = placed.voxels.source_box
    box.turned.emit((1.0, 0.6, 0.0))  # one edge of the disk dips into the ball
    box.form.widget("source").value = "disk"
    box.form.widget("radius_mm").value = 5.0
    assert "in front of the surface" in box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    shown = result(viewer)
    assert shown.energy.specular.value >= (0.37 / 2.37) ** 2 - 1e-6
    assert shown.energy.missed.value == 0.0
    assert np.allclose([number.value() for number in box.position_box.boxes], shown.source.position_mm, atol=1e-3)
    # at numbers of the user's it starts exactly there
    placed.voxels.place_source(LEFT, snap=False)
    assert placed.voxels.controller.source().position_mm == pytest.approx(LEFT)


# ------------------------------------------------------------------------------------------------------ detectors


def test_detectors_by_click(viewer, placed, qtbot):
    button(placed, "Detector").click()
    for target in (FRONT, RIGHT):
        click(viewer, target)
    assert [row[0] for row in detector_rows(placed)] == ["D1", "D2"]
    assert float(detector_rows(placed)[1][2]) == pytest.approx(2 * RADIUS, abs=2.5)
    assert all(on_surface(d.position_mm) for d in placed.voxels.controller.optodes.detectors)
    layer = viewer.layers["source and detectors"]
    assert list(layer.features["name"]) == ["", "D1", "D2"]
    assert len({tuple(color) for color in layer.border_color}) == 2
    assert not layer.face_color[:, 3].any()  # rings, in which what they mark is seen
    button(placed, "Source").click()
    click(viewer, TOP, "Shift")
    assert len(placed.voxels.controller.optodes.detectors) == 3
    placed.voxels.place_source(moved(placed.voxels.controller.optodes.detectors[2].position_mm, 4.0, 0.0, 0.0))
    placed.run_button.click()
    settle(qtbot, placed)
    assert len(result(viewer).detectors) == 3
    assert len(result(viewer).detected) > 0


def test_detectors_are_renamed_resized_and_removed_in_the_list(viewer, placed):
    controller = placed.voxels.controller
    for target in (FRONT, RIGHT, TOP):
        controller.add_detector(target)
    table = placed.voxels.detector_box.findChild(QTableWidget)
    table.item(1, 0).setText("right ear")
    table.item(1, 1).setText("2,5")
    assert (controller.optodes.detectors[1].name, controller.optodes.detectors[1].radius_mm) == ("right ear", 2.5)
    table.item(1, 1).setText("wide")
    assert "'wide'" in placed.message
    assert table.item(1, 1).text() == "2.5"
    table.item(1, 1).setText("-1")
    assert "greater than 0" in placed.message
    table.selectRow(0)
    history_of(viewer).note_act()
    button(placed, "Remove").click()
    assert [d.name for d in controller.optodes.detectors] == ["right ear", "D3"]
    undo(viewer)
    assert [d.name for d in controller.optodes.detectors] == ["D1", "right ear", "D3"]
    controller.add_detector(LEFT)
    assert controller.optodes.detectors[3].name == "D2"  # the first that is free


@pytest.mark.display
@pytest.mark.parametrize("name", ["source and detectors", "source beam"])
def test_what_is_drawn_may_become_fewer_while_it_is_hidden(viewer, placed, errors, name):
    placed.voxels.controller.add_detector(RIGHT)
    viewer.dims.ndisplay = 3  # which shows all detectors
    placed.voxels.controller.add_detector(FRONT)
    layer = viewer.layers[name]
    count, layer.visible = len(layer.data), False
    placed.voxels.detector_box.findChild(QTableWidget).selectRow(0)
    button(placed, "Remove").click()
    layer.visible = True
    assert 0 < len(layer.data) < count
    assert errors() == []


def test_a_detector_is_dragged_on_the_surface(viewer, placed):
    placed.voxels.controller.add_detector(FRONT)
    where = placed.voxels.controller.optodes.detectors[0].position_mm
    go_to(viewer, where)
    start, source = on_screen(where), position(placed)
    Mouse(viewer).drag(start, moved(start, 0.0, -1.0, 8.0), moved(start, 0.0, -4.0, 12.0))
    now = placed.voxels.controller.optodes.detectors[0].position_mm
    assert on_surface(now)
    assert now[0] > where[0] + 5.0
    assert np.array_equal(position(placed), source)


def test_the_outline_of_a_detector_has_its_radius(viewer, placed):
    controller = placed.voxels.controller
    controller.load(Optodes())
    controller.add_detector(TOP)
    viewer.dims.ndisplay = 3
    (detector,) = controller.optodes.detectors
    away = lines(viewer)[:, 0] - detector.position_mm
    assert np.allclose(np.linalg.norm(away, axis=1), detector.radius_mm, atol=1e-3)
    assert np.abs(away @ outwards(detector.position_mm)).max() < 0.1

"""The dock widget "Light transport": sources and detectors with the mouse and by numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QComboBox, QTableWidget

from napari_gpubio.light.surface import label_at
from napari_gpubio.light.widget.optode_layers import DETECTOR_COLOUR, SOURCE_COLOUR
from napari_gpubio.viewer.orientation import camera_of, set_view
from tests.light.light_panel_samples import (
    CENTRE,
    LEFT,
    MILLISECONDS,
    RADIUS,
    TOP,
    Mouse,
    add_ball,
    add_panel,
    ball,
    button,
    click,
    degrees_between,
    detector_rows,
    direction,
    fluence,
    go_to,
    lines,
    markers,
    moved,
    on_screen,
    outwards,
    result,
    settle,
    tick,
)

RIGHT = (CENTRE[0] + RADIUS, CENTRE[1], CENTRE[2])
FRONT = (CENTRE[0], CENTRE[1] + RADIUS, CENTRE[2])


@pytest.fixture
def placed(viewer, panel, qtbot):
    """A source on the left, shown in its slice, and nothing that runs by itself."""
    panel.run_box._live.setChecked(False)
    panel.place_source(LEFT)
    go_to(viewer, panel.desk.optodes.source.position_mm)
    return panel


def position(panel):
    return np.asarray(panel.desk.optodes.source.position_mm)


def on_surface(point):
    """On the outer face of a voxel at the surface of the ball."""
    away = np.asarray(point) - CENTRE
    inside, outside = np.asarray(point) - 0.01 * away, np.asarray(point)
    tissue = [label_at(ball().labels, ball().affine, p) for p in (inside, outside)]
    return tissue[0] > 0 and tissue[1] == 0 and abs(np.linalg.norm(away) - RADIUS) < 1.8


# ------------------------------------------------------------------------------------------------------- the source


def test_a_click_in_a_slice_stays_in_the_slice(viewer, panel):
    panel.run_box._live.setChecked(False)
    for height in (-10.0, 0.0, 15.0):
        target = moved(CENTRE, -22.0, 6.0, height)
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
    assert np.linalg.norm(shaft[0] - CENTRE) > RADIUS + 3.0


def test_the_arrow_is_drawn_only_in_slices_near_it(viewer, placed):
    assert len(lines(viewer))
    assert len(markers(viewer)) == 1
    viewer.dims.set_point(0, on_screen(CENTRE)[0] + 12.0)
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
        target = CENTRE + 25.0 * np.array([-np.cos(angle), np.sin(angle), 0.0])
        mouse.move(on_screen(target))
        shown = placed.desk.shown.source
        assert on_surface(shown.position_mm)
        assert degrees_between(shown.direction, -outwards(shown.position_mm)) < 6.0
        assert np.allclose(markers(viewer), [shown.position_mm], atol=1e-3)
    before = placed.desk.optodes
    assert np.allclose(on_screen(before.source.position_mm), start)  # nothing is settled before the release
    mouse.release(on_screen(target))
    assert camera_of(viewer).mouse_pan
    assert placed.desk.optodes is not before
    assert degrees_between(outwards(position(placed)), (0.0, 1.0, 0.0)) < 8.0
    button(placed.place_bar, "Undo").click()
    assert np.allclose(on_screen(position(placed)), start)  # the whole drag is one step


def test_in_3d_dragging_follows_the_tissue_under_the_mouse(viewer, placed, qtbot):
    viewer.dims.ndisplay = 3
    placed.place_source(TOP)
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
    placed.place_source(TOP)
    start = on_screen(position(placed))
    mouse = Mouse(viewer, view=(-1.0, 0.0, 0.0))
    mouse.drag(start, moved(start, 0.0, 6.0, 0.0), moved(start, 0.0, 600.0, 0.0))
    assert on_screen(position(placed))[1] == pytest.approx(start[1] + 6.0, abs=0.01)
    assert placed.message == ""


def test_a_click_on_the_marker_without_moving_changes_nothing(viewer, placed):
    before = placed.desk.optodes
    Mouse(viewer).click(moved(on_screen(position(placed)), 0.0, 0.5, 0.5))
    assert placed.desk.optodes is before


def test_flip_and_along_the_normal(viewer, placed, qtbot):
    inward = direction(placed)
    button(placed, "Flip").click()
    assert np.allclose(direction(placed), -inward)
    assert "points away" in placed.source_box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    assert "points away" in placed.message
    assert fluence(viewer) is None
    tick(placed, "inward normal")
    assert np.allclose(direction(placed), inward)
    assert placed.source_box.warning == ""


def test_a_typed_direction_stays_when_the_source_is_moved(viewer, placed):
    placed.source_box._direction.boxes[2].setValue(-2.0)
    turned = direction(placed)
    assert np.linalg.norm(turned) == pytest.approx(1.0)
    assert turned[2] < -0.8
    placed.place_source(TOP)
    assert np.allclose(direction(placed), turned)


def test_the_direction_zero_is_a_sentence(viewer, placed):
    for box in placed.source_box._direction.boxes:
        box.setValue(0.0)
    assert "(0, 0, 0)" in placed.message
    assert np.linalg.norm(direction(placed)) == pytest.approx(1.0)


def test_an_implanted_fibre(viewer, placed, qtbot):
    entry = position(placed)
    placed.source_box.form.widget("kind").value = "fibre"
    placed.source_box._depth.setValue(7.5)
    assert np.allclose(position(placed), entry + 7.5 * direction(placed))
    assert label_at(ball().labels, ball().affine, position(placed)) == 1 + (
        np.linalg.norm(position(placed) - CENTRE) < 12
    )
    go_to(viewer, position(placed))
    # its marker can be dragged although it is inside: the entry slides on the surface, the depth stays
    start = on_screen(position(placed))
    Mouse(viewer).drag(start, moved(start, 0.0, 4.0, 0.0))
    source = placed.desk.optodes.source
    assert source.depth_mm == 7.5
    assert on_surface(source.entry_mm)
    assert np.linalg.norm(np.subtract(source.entry_mm, entry)) == pytest.approx(4.0, abs=2.5)
    placed.run_box.photons.set_value(500)
    placed.run_button.click()
    settle(qtbot, placed)
    assert result(viewer).energy.specular.value == 0.0  # it starts inside


def test_numbers_put_the_source_exactly_there(viewer, placed):
    for box, value in zip(placed.source_box._position.boxes, (-40.25, -3.125, 4.5), strict=True):
        box.setValue(value)
    assert position(placed) == pytest.approx((-40.25, -3.125, 4.5))
    assert "mm away from the tissue" in placed.source_box.warning
    assert np.allclose(viewer.dims.point[:2], on_screen(position(placed))[:2])  # the slices follow, as far as they go


def test_all_round_sources_in_the_air_are_warned_of(viewer, placed, qtbot):
    placed.run_box._live.setChecked(True)
    placed.source_box.form.widget("kind").value = "isotropic"
    settle(qtbot, placed)
    assert "Give it a depth" in placed.source_box.warning
    assert placed.message == ""  # it is said once
    placed.source_box._depth.setValue(3.0)
    settle(qtbot, placed)
    assert placed.source_box.warning == ""
    assert result(viewer).source.kind == "isotropic"


def test_a_click_while_labels_are_painted_places_nothing(viewer, panel):
    viewer.layers.selection.active = viewer.layers["ball"]
    viewer.layers["ball"].mode = "paint"
    click(viewer, LEFT)
    assert panel.desk.optodes.source is None


def test_only_a_left_click_that_does_not_move_places(viewer, panel):
    go_to(viewer, LEFT)
    Mouse(viewer, button=2).click(on_screen(LEFT))
    Mouse(viewer).drag(on_screen(TOP), on_screen(TOP) + 4)
    panel.place_bar.choose("nothing")
    Mouse(viewer).click(on_screen(LEFT))
    assert panel.desk.optodes.source is None


# ----------------------------------------------------------------------------------------------------- the detectors


def test_detectors_by_click(viewer, placed, qtbot):
    button(placed, "Detector").click()
    for target in (FRONT, RIGHT):
        click(viewer, target)
    assert [row[0] for row in detector_rows(placed)] == ["D1", "D2"]
    assert float(detector_rows(placed)[1][2]) == pytest.approx(2 * RADIUS, abs=2.5)
    assert all(on_surface(d.position_mm) for d in placed.desk.optodes.detectors)
    layer = viewer.layers["source and detectors"]
    assert list(layer.features["name"]) == ["", "D1", "D2"]
    assert len({tuple(colour) for colour in layer.face_color}) == 2
    button(placed, "Source").click()
    click(viewer, TOP, "Shift")
    assert len(placed.desk.optodes.detectors) == 3
    placed.place_source(moved(placed.desk.optodes.detectors[2].position_mm, 4.0, 0.0, 0.0))
    placed.run_button.click()
    settle(qtbot, placed)
    assert len(result(viewer).detectors) == 3
    assert len(result(viewer).detected) > 0


def test_detectors_are_renamed_resized_and_removed_in_the_list(viewer, placed):
    for target in (FRONT, RIGHT, TOP):
        placed.desk.add_detector(target)
    table = placed.detector_box.findChild(QTableWidget)
    table.item(1, 0).setText("right ear")
    table.item(1, 1).setText("2,5")
    assert placed.desk.optodes.detectors[1].name == "right ear"
    assert placed.desk.optodes.detectors[1].radius_mm == 2.5
    table.item(1, 1).setText("wide")
    assert "'wide'" in placed.message
    assert table.item(1, 1).text() == "2.5"
    table.item(1, 1).setText("-1")
    assert "greater than 0" in placed.message
    table.selectRow(0)
    button(placed, "Remove").click()
    assert [d.name for d in placed.desk.optodes.detectors] == ["right ear", "D3"]
    button(placed.place_bar, "Undo").click()
    assert [d.name for d in placed.desk.optodes.detectors] == ["D1", "right ear", "D3"]
    placed.desk.add_detector(LEFT)
    assert placed.desk.optodes.detectors[3].name == "D2"  # the first that is free


def test_a_detector_is_dragged_on_the_surface(viewer, placed):
    placed.desk.add_detector(FRONT)
    where = placed.desk.optodes.detectors[0].position_mm
    go_to(viewer, where)
    start, source = on_screen(where), position(placed)
    Mouse(viewer).drag(start, moved(start, 0.0, -1.0, 8.0), moved(start, 0.0, -4.0, 12.0))
    now = placed.desk.optodes.detectors[0].position_mm
    assert on_surface(now)
    assert now[0] > where[0] + 5.0
    assert np.array_equal(position(placed), source)


def test_the_outline_of_a_detector_has_its_radius(viewer, placed):
    placed.desk.load(type(placed.desk.optodes)())
    placed.desk.add_detector(TOP)
    viewer.dims.ndisplay = 3
    centre = placed.desk.optodes.detectors[0].position_mm
    away = lines(viewer)[:, 0] - centre
    assert np.allclose(np.linalg.norm(away, axis=1), placed.desk.optodes.detectors[0].radius_mm, atol=1e-3)
    assert np.abs(away @ outwards(centre)).max() < 0.1


def test_colours_tell_sources_from_detectors():
    assert SOURCE_COLOUR != DETECTOR_COLOUR


# -------------------------------------------------------------------------------------------------- with a real mouse


@pytest.fixture
def window(make_napari_viewer, qtbot):
    """A viewer on screen with the ball and a panel, and the widget that the mouse goes to."""
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(1100, 800)
    panel = add_panel(viewer)
    panel.run_box._live.setChecked(False)
    add_ball(viewer)
    set_view(viewer, "neurological")
    viewer.reset_view()
    settle(qtbot, panel)
    yield SimpleNamespace(viewer=viewer, panel=panel, canvas=viewer.window._qt_viewer.canvas)
    panel.teardown()


def pixel_of(window, world):
    """Where a world position is drawn on the canvas."""
    QApplication.processEvents()
    window.canvas.native.grabFramebuffer()  # brings the camera's transform up to date
    dims = window.viewer.dims
    displayed = [axis - (dims.ndim - 3) for axis in dims.displayed]  # a time axis may come first
    place = [on_screen(world)[axis] for axis in displayed][::-1] + [0] * (len(displayed) == 2)
    x, y, _, w = (window.canvas.view.transform * window.canvas.view.scene.transform).map(place)
    return QPoint(round(x / w), round(y / w))


def press_and_release(window, pixel, modifier=Qt.KeyboardModifier.NoModifier):
    native = window.canvas.native
    QTest.mouseMove(native, pixel)
    QTest.mouseClick(native, Qt.MouseButton.LeftButton, modifier, pixel)


def drag(window, start, end, qtbot):
    native = window.canvas.native
    QTest.mousePress(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, start)
    for pixel in ((start + end) / 2, end):
        qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)


@pytest.mark.display
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_real_clicks_and_drags_in_every_plane(window, qtbot, order):
    viewer, panel = window.viewer, window.panel
    viewer.dims.order = order
    go_to(viewer, CENTRE)
    viewer.reset_view()
    world_axis = 2 - order[1]  # the vertical axis of the canvas
    target = np.array(CENTRE)
    target[world_axis] += RADIUS
    press_and_release(window, pixel_of(window, target))
    assert np.linalg.norm(position(panel) - target) < 2.6  # the largest voxel edge
    assert on_surface(position(panel))
    other = np.array(CENTRE)
    other[2 - order[2]] += RADIUS
    drag(window, pixel_of(window, position(panel)), pixel_of(window, other), qtbot)
    assert np.linalg.norm(position(panel) - other) < 2.6
    press_and_release(window, pixel_of(window, target), Qt.KeyboardModifier.ShiftModifier)
    assert np.linalg.norm(np.subtract(panel.desk.optodes.detectors[0].position_mm, target)) < 2.6


@pytest.mark.display
def test_real_click_and_drag_in_3d(window, qtbot):
    viewer, panel = window.viewer, window.panel
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    camera_of(viewer).angles = (20.0, 30.0, 60.0)
    pixel = pixel_of(window, CENTRE) + QPoint(25, -30)
    press_and_release(window, pixel)
    assert on_surface(position(panel))
    drawn = pixel_of(window, position(panel))
    assert abs(drawn.x() - pixel.x()) <= 1
    assert abs(drawn.y() - pixel.y()) <= 1
    towards_viewer = -np.asarray(camera_of(viewer).view_direction)[::-1]
    assert outwards(position(panel)) @ towards_viewer > 0.3  # the side that is seen
    angles, end = camera_of(viewer).angles, drawn + QPoint(-60, 40)
    drag(window, drawn, end, qtbot)
    drawn = pixel_of(window, position(panel))
    assert abs(drawn.x() - end.x()) <= 2
    assert abs(drawn.y() - end.y()) <= 2
    assert on_surface(position(panel))
    assert camera_of(viewer).angles == angles  # the view was not turned


@pytest.mark.display
def test_with_time_gates_clicks_still_find_the_surface(window, qtbot):
    viewer, panel = window.viewer, window.panel
    panel.run_box.set_gates(1.0, 4)
    panel.place_source(LEFT)
    panel.run_button.click()
    settle(qtbot, panel)
    assert viewer.dims.ndim == 4
    go_to(viewer, CENTRE)
    press_and_release(window, pixel_of(window, RIGHT))
    assert np.linalg.norm(position(panel) - RIGHT) < 2.6
    assert len(markers(viewer)) == 1
    qtbot.waitUntil(lambda: not panel.running, timeout=MILLISECONDS)


def test_several_sources_one_shines(viewer, placed, qtbot):
    from napari_gpubio.light.widget.optodes import Optodes, Placement
    from napari_gpubio.light.widget.tissue import Tissue

    tissue = Tissue.of(viewer.layers["ball"])
    sources = tuple(
        Placement(entry_mm=(0, 0, 0), direction=(0, 0, 1), name=f"S{n}").on_surface(tissue, np.array(point))
        for n, point in enumerate((LEFT, FRONT), 1)
    )
    placed.desk.load(Optodes(sources=sources))
    box = next(b for b in placed.source_box.findChildren(QComboBox) if b.findText("S2") >= 0)
    assert not box.isHidden()
    box.setCurrentIndex(1)
    assert placed.desk.optodes.active == 1
    assert np.allclose(position(placed), sources[1].position_mm)
    assert np.allclose(viewer.dims.point, on_screen(position(placed)))
    go_to(viewer, LEFT)
    Mouse(viewer).press(on_screen(sources[0].position_mm))  # grabbing another source lets it shine
    assert placed.desk.optodes.active == 0


def test_all_of_a_wide_beam_comes_from_outside(viewer, placed, qtbot):
    """Its specular loss is that of perpendicular incidence, at least: ((1.37 - 1) / (1.37 + 1))^2 on every photon."""
    placed.source_box.turned.emit((1.0, 0.6, 0.0))  # one edge of the disk dips into the ball
    placed.source_box.form.widget("kind").value = "disk"
    placed.source_box.form.widget("radius_mm").value = 5.0
    assert "before the surface" in placed.source_box.warning
    placed.run_button.click()
    settle(qtbot, placed)
    shown = result(viewer)
    assert shown.energy.specular.value >= (0.37 / 2.37) ** 2 - 1e-6
    assert shown.energy.missed.value == 0.0
    assert np.allclose([box.value() for box in placed.source_box._position.boxes], shown.source.position_mm, atol=1e-3)
    # at numbers of the user's it starts exactly there
    placed.place_source(LEFT, snap=False)
    assert placed.desk.source().position_mm == pytest.approx(LEFT)

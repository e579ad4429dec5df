"""The dock widget "Light transport": detectors with the mouse and in their list."""

import numpy as np
import pytest
from qtpy.QtWidgets import QTableWidget

from tests.dock_widgets import Mouse, button, moved
from tests.light.gui.panel_samples import (
    FRONT,
    LEFT,
    RADIUS,
    RIGHT,
    TOP,
    click,
    detector_rows,
    go_to,
    lines,
    on_screen,
    on_surface,
    outwards,
    position,
    result,
    settle,
)


def test_detectors_by_click(viewer, placed, qtbot):
    button(placed, "Detector").click()
    for target in (FRONT, RIGHT):
        click(viewer, target)
    assert [row[0] for row in detector_rows(placed)] == ["D1", "D2"]
    assert float(detector_rows(placed)[1][2]) == pytest.approx(2 * RADIUS, abs=2.5)
    assert all(on_surface(d.position_mm) for d in placed.voxels.controller.optodes.detectors)
    layer = viewer.layers["source and detectors"]
    assert list(layer.features["name"]) == ["", "D1", "D2"]
    assert len({tuple(color) for color in layer.face_color}) == 2
    button(placed, "Source").click()
    click(viewer, TOP, "Shift")
    assert len(placed.voxels.controller.optodes.detectors) == 3
    placed.voxels.place_source(moved(placed.voxels.controller.optodes.detectors[2].position_mm, 4.0, 0.0, 0.0))
    placed.run_button.click()
    settle(qtbot, placed)
    assert len(result(viewer).detectors) == 3
    assert len(result(viewer).detected) > 0


def test_detectors_are_renamed_resized_and_removed_in_the_list(viewer, placed):
    for target in (FRONT, RIGHT, TOP):
        placed.voxels.controller.add_detector(target)
    table = placed.voxels.detector_box.findChild(QTableWidget)
    table.item(1, 0).setText("right ear")
    table.item(1, 1).setText("2,5")
    assert placed.voxels.controller.optodes.detectors[1].name == "right ear"
    assert placed.voxels.controller.optodes.detectors[1].radius_mm == 2.5
    table.item(1, 1).setText("wide")
    assert "'wide'" in placed.message
    assert table.item(1, 1).text() == "2.5"
    table.item(1, 1).setText("-1")
    assert "greater than 0" in placed.message
    table.selectRow(0)
    button(placed, "Remove").click()
    assert [d.name for d in placed.voxels.controller.optodes.detectors] == ["right ear", "D3"]
    button(placed.voxels.place_bar, "Undo").click()
    assert [d.name for d in placed.voxels.controller.optodes.detectors] == ["D1", "right ear", "D3"]
    placed.voxels.controller.add_detector(LEFT)
    assert placed.voxels.controller.optodes.detectors[3].name == "D2"  # the first that is free


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
    placed.voxels.controller.load(type(placed.voxels.controller.optodes)())
    placed.voxels.controller.add_detector(TOP)
    viewer.dims.ndisplay = 3
    center = placed.voxels.controller.optodes.detectors[0].position_mm
    away = lines(viewer)[:, 0] - center
    assert np.allclose(np.linalg.norm(away, axis=1), placed.voxels.controller.optodes.detectors[0].radius_mm, atol=1e-3)
    assert np.abs(away @ outwards(center)).max() < 0.1

"""The dock widget "Light transport": what goes on with a result: more photons, a saved file, the sensitivity."""

import dataclasses

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.napari_io import labels_layer, read_layers
from napari_gpubio.light.run import simulate
from napari_gpubio.light.sensitivity import sensitivity
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.source import Source
from tests.dock_widgets import button, press_and_wait
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    TOP,
    add_panel,
    ball,
    detector_rows,
    fluence,
    held_run,
    outwards,
    result,
    run,
    settle,
)

BESIDE = tuple(np.asarray(CENTER) + 20.0 * np.array([-0.8, 0.6, 0.0]))


def judgment(panel):
    return panel.voxels.results.findings


def press(qtbot, panel, text):
    press_and_wait(qtbot, panel, button(panel, text))
    settle(qtbot, panel)


def numbers(panel):
    return [row for row in panel.voxels.results.rows if row.group.startswith("Sensitivity")]


@pytest.fixture
def ran(panel, qtbot):
    """A panel with a result, and no quick runs."""
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    return panel


@pytest.fixture
def saved(tmp_path):
    """A file with a stopped run of a ball, its detector unnamed."""
    source = Source(kind="fiber", radius_mm=0.8, position_mm=TOP, direction=tuple(-outwards(TOP)))
    settings = LightSettings(photons=FEW, seed=5, faces=("mirror", "escape", "cyclic", "cyclic", "default", "default"))
    stopped = simulate(ball(), source, settings, detectors=(Detector(position_mm=BESIDE, radius_mm=3.0),), device="cpu")
    stopped = dataclasses.replace(
        stopped, complete=False, settings=dataclasses.replace(stopped.settings, photons=2 * FEW)
    )
    path = tmp_path / "stopped.npz"
    save_result(path, stopped)
    return path


def open_file(viewer, path):
    """As napari opens it: one layer after the other."""
    for data, keywords, kind in read_layers(str(path)):
        getattr(viewer, f"add_{kind}")(data, **keywords)


# --------------------------------------------------------------------------------------------------------- running


def test_a_run_under_way_is_not_called_stopped(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    part = simulate(ball(), panel.voxels.controller.source(), LightSettings(photons=100), device="cpu")
    part = dataclasses.replace(part, complete=False, settings=dataclasses.replace(part.settings, photons=FEW))
    from napari_gpubio.light.gui.request import display_voxels

    panel.run_form.show_preview(display_voxels(part, panel.voxels.options))
    assert f"Running: 100 of {FEW:,} photons" in judgment(panel)
    assert "Stopped" not in judgment(panel)
    assert "batches" not in judgment(panel)
    assert not button(panel, "Continue").isEnabled()
    held.go.set()
    settle(qtbot, panel)
    assert "Running" not in judgment(panel)
    assert button(panel, "Continue").isEnabled()


def test_continue_adds_photons_to_a_whole_result(viewer, ran, qtbot):
    first = result(viewer)
    ran.voxels.run_box.photons.set_value(3000)
    press(qtbot, ran, "Continue")
    more = result(viewer)
    assert more.launched == FEW + 3000
    assert more.complete
    assert more.parameters["seconds"] > first.parameters["seconds"]  # of both runs
    once = simulate(first.domain, first.source, LightSettings(photons=FEW + 3000), device="cpu")
    # the same photons as in one run: but for the sizes of the batches, all is equal
    assert np.allclose(more.fluence, once.fluence, rtol=1e-6)
    assert more.energy.absorbed.value == pytest.approx(once.energy.absorbed.value, rel=1e-9)


# ----------------------------------------------------------------------------------------------------- saved files


def test_a_saved_result_is_shown_with_its_inputs_and_no_run(viewer, empty, qtbot, saved):
    open_file(viewer, saved)
    settle(qtbot, empty)
    assert empty.voxels.results.result.launched == FEW
    assert fluence(viewer).name.startswith("stopped")
    assert np.allclose(empty.voxels.controller.optodes.source.position_mm, TOP)
    assert detector_rows(empty)[0][:2] == ["D1", "3"]
    settings = empty.voxels.run_box.settings
    assert (settings.seed, settings.photons) == (5, 2 * FEW)
    assert settings.faces == ("mirror", "escape", "cyclic", "cyclic", "default", "default")
    assert empty.voxels.source_box.form.widget("kind").value == "fiber"
    assert f"Stopped after {FEW:,} of {2 * FEW:,}" in judgment(empty)


def test_a_saved_run_that_was_stopped_goes_on_to_its_end(viewer, empty, qtbot, saved):
    open_file(viewer, saved)
    settle(qtbot, empty)
    press(qtbot, empty, "Continue")
    whole, part = result(viewer), load_result(saved)
    assert (whole.launched, whole.complete) == (2 * FEW, True)
    once = simulate(ball(), part.source, part.settings, detectors=part.detectors, device="cpu")
    assert np.allclose(whole.fluence, once.fluence, rtol=1e-6)
    assert len(whole.detected) == len(once.detected)


def test_a_panel_opened_after_the_file_shows_it_too(viewer, qtbot, saved):
    open_file(viewer, saved)
    late = add_panel(viewer)
    if not hasattr(viewer, "window"):
        qtbot.addWidget(late)
    settle(qtbot, late)
    assert late.voxels.results.result.launched == FEW
    late.teardown()


def test_a_kept_picture_is_not_taken_again(viewer, empty, qtbot, saved):
    open_file(viewer, saved)
    settle(qtbot, empty)
    button(empty, "Keep these layers").click()
    viewer.add_image(np.zeros((4, 4)))
    settle(qtbot, empty)
    assert fluence(viewer) is None


def test_detectors_of_an_input_file_without_names_are_numbered(viewer, empty, qtbot):
    detectors = (Detector(position_mm=LEFT), Detector(position_mm=BESIDE))
    source = Source(position_mm=TOP, direction=(0.0, 0.0, -1.0))
    case = LightCase(
        domain=ball(), source=source, settings=LightSettings(photons=FEW), detectors=detectors, notes=(), name="ball"
    )
    data, keywords, _ = labels_layer(case.domain, "ball")
    keywords["metadata"][KEY]["case"] = case
    viewer.add_labels(data, **keywords)
    settle(qtbot, empty)
    assert [name for name, *_ in detector_rows(empty)] == ["D1", "D2"]


# ----------------------------------------------------------------------------------------------------- sensitivity


def test_the_sensitivity_is_that_of_two_runs(viewer, ran, qtbot):
    ran.voxels.controller.add_detector(BESIDE)
    press(qtbot, ran, "Sensitivity to D1")
    layer = next(layer for layer in viewer.layers if carried(layer, "panel") == "sensitivity D1")
    forward = result(viewer)
    place = ran.voxels.controller.optodes.detectors[0].position_mm
    # the ball's inward normal, and the next seed: an independent way to the same photons up to the normal's rounding
    assert np.allclose(np.linalg.norm(np.asarray(place) - CENTER), 20.0, atol=1.5)
    shares = {row.label: row.value for row in numbers(ran) if row.unit == "%"}
    assert sum(shares.values()) == pytest.approx(100.0)
    assert shares[1] > shares[2] > 0  # source and detector are in the rind
    paths = sum(row.value for row in numbers(ran) if row.unit == "mm")
    assert np.nansum(10.0**layer.data) == pytest.approx(paths, rel=1e-4)
    assert np.linalg.norm(np.subtract(place, forward.source.position_mm)) < paths  # longer than the straight line
    assert not fluence(viewer).visible
    run(qtbot, ran)
    assert fluence(viewer).visible
    assert numbers(ran) == []


def test_the_sensitivity_agrees_with_the_api(viewer, ran, qtbot):
    from napari_gpubio.light.gui.request import adjoint_source

    ran.voxels.controller.add_detector(BESIDE)
    press(qtbot, ran, "Sensitivity to D1")
    forward = result(viewer)
    adjoint = adjoint_source(forward, ran.voxels.controller.optodes.detectors[0])
    assert np.dot(adjoint.direction, -outwards(adjoint.position_mm)) > 0.9
    settings = dataclasses.replace(forward.settings, seed=forward.settings.seed + 1)
    expected = sensitivity(forward, simulate(forward.domain, adjoint, settings, device="cpu"))
    shares = {row.label: row.value / 100 for row in numbers(ran) if row.unit == "%"}
    assert shares == pytest.approx(expected.share_by_label())


def test_a_source_that_was_moved_since_is_a_sentence(viewer, ran, qtbot):
    ran.voxels.controller.add_detector(BESIDE)
    ran.voxels.place_source(TOP)
    button(ran, "Sensitivity to D1").click()
    assert "press Run first" in ran.message
    assert not ran.running


def test_a_sensitivity_needs_a_result(viewer, panel):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    assert not button(panel, "Sensitivity to a detector").isEnabled()
    panel.voxels.controller.add_detector(BESIDE)
    button(panel, "Sensitivity to D1").click()
    assert "no result yet" in panel.message


# ----------------------------------------------------------------------------------------------------- outer faces


def test_both_faces_of_an_axis_become_cyclic_together(panel):
    boxes = panel.voxels.run_box.faces.findChildren(QComboBox)
    boxes[0].setCurrentText("cyclic")
    assert panel.voxels.run_box.settings.faces == ("cyclic", "cyclic", "default", "default", "default", "default")
    boxes[1].setCurrentText("mirror")
    assert panel.voxels.run_box.settings.faces[:2] == ("mirror", "mirror")
    boxes[0].setCurrentText("escape")
    assert panel.voxels.run_box.settings.faces[:2] == ("escape", "mirror")


def test_an_image_that_is_opened_starts_no_run(viewer, panel, qtbot, held):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    panel.voxels.run_box.set_live(True)
    viewer.add_image(np.ones((4, 4)))  # the source is no pattern
    settle(qtbot, panel)
    assert held.runs == 0

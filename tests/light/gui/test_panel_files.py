"""The dock widget "Light transport": Copy as Python, files, and what a result is used for."""

import dataclasses

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.core.napari_io import carried, stored_array
from napari_gpubio.core.operations import STORE, from_graph, graph
from napari_gpubio.core.quantity import log10_of
from napari_gpubio.core.volumes import read_array, write_volume
from napari_gpubio.light.gui.sensitivity import adjoint_source
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.io.volumes import read_domain
from napari_gpubio.light.run import simulate
from napari_gpubio.light.sensitivity import sensitivity
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Cone, EmittingVolume, Fiber, Pattern, Pencil, Planar
from tests.dock_widgets import button, press_and_wait, run_script, save_scripts_as, script_of, shown_by_script
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    MEDIA,
    RADIUS,
    TOP,
    add_ball,
    add_panel,
    ball,
    detector_rows,
    fluence,
    open_file,
    outwards,
    result,
    run,
    set_gates,
    settle,
)


@pytest.mark.daily
def test_the_script_gives_the_same_numbers(viewer, empty, qtbot, tmp_path):
    path = tmp_path / "ball.nii.gz"
    write_volume(path, ball().labels, ball().affine, "ball")
    add_ball(viewer, read_domain(path, MEDIA, outside_n=1.1))
    settle(qtbot, empty)
    mode = empty.voxels
    mode.place_source(LEFT)
    mode.source_box.form.widget("source").value = "fiber"
    mode.source_box.form.widget("radius_mm").value = 0.75
    mode.source_box.depth_box.setValue(1.25)
    mode.controller.add_detector(LEFT + np.array([2.0, 6.0, 0.0]))
    mode.run_box.form.widget("seed").value = 11
    set_gates(mode.run_box, 2.0, 3)
    mode.display_box.power_box.setValue(7.5)
    run(qtbot, empty)
    text = script_of(empty)
    assert empty.message == ""
    run_script(text, tmp_path)
    made, shown = load_result(tmp_path / "ball.npz"), result(viewer)
    assert np.array_equal(made.gates, shown.gates)
    assert np.array_equal(made.fluence_error, shown.fluence_error)
    assert made.energy == shown.energy
    assert made.detected.detected_weight == shown.detected.detected_weight > 0
    assert made.domain.outside_n == 1.1
    on_screen = stored_array(fluence(viewer))  # three time gates, in mW/mm²
    assert on_screen.shape[3] == 3
    written, _ = read_array(tmp_path / "ball fluence.nii.gz")
    assert np.array_equal(log10_of(written), on_screen, equal_nan=True)


def test_the_script_hides_what_is_hidden(viewer, panel, qtbot, tmp_path, monkeypatch):
    panel.voxels.place_source(TOP)
    panel.voxels.display_box.form.widget("hide_uncertain").value = True
    run(qtbot, panel)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    written, _ = read_array(tmp_path / "ball fluence.nii.gz")
    assert np.isnan(written).any()
    assert np.array_equal(log10_of(written), stored_array(fluence(viewer)), equal_nan=True)


@pytest.mark.daily
def test_painted_labels_and_a_pattern_are_saved_beside_the_script(viewer, panel, qtbot, tmp_path, monkeypatch):
    image = np.outer(np.arange(4), np.ones(3))
    viewer.add_image(image, name="bright below")
    panel.voxels.place_source(TOP)
    panel.voxels.source_box.form.widget("source").value = "pattern"
    panel.voxels.source_box.turn_box.setValue(30.0)
    run(qtbot, panel)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(panel)
    assert any(np.array_equal(np.load(path), image) for path in tmp_path.glob("*.npy"))
    shown_by_script(text, tmp_path, monkeypatch)
    made, shown = load_result(tmp_path / "ball.npz"), result(viewer)
    assert np.array_equal(made.source.pattern, image)
    assert np.array_equal(made.source.width_axis, shown.source.width_axis)
    # a NIfTI file holds the affine in single precision, but the script has all of its digits
    assert np.array_equal(made.gates, shown.gates)
    assert made.energy == shown.energy


# ------------------------------------------------------------------------------------------------------------ SNIRF


@pytest.fixture
def snirf(tmp_path):
    """A montage some millimeters off the ball."""
    h5py = pytest.importorskip("h5py")
    directions = np.vstack([np.eye(3), -np.eye(3)])
    with h5py.File(tmp_path / "cap.snirf", "w") as file:
        file["formatVersion"] = "1.1"
        probe = file.create_group("nirs/probe")
        file["nirs/metaDataTags/LengthUnit"] = "mm"
        probe["sourcePos3D"] = CENTER + (RADIUS + 4.0) * directions[:2]
        probe["detectorPos3D"] = CENTER + (RADIUS - 3.0) * directions[2:]
        probe["wavelengths"] = [760.0, 850.0]
    return tmp_path / "cap.snirf"


def load_optodes(qtbot, panel, path):
    """Load a file and wait until it is read."""
    panel.voxels.load_optodes(path)
    qtbot.waitUntil(lambda: not panel.voxels.results.files.is_busy, timeout=20_000)


def test_optodes_of_a_snirf_file_are_put_on_the_surface(viewer, panel, qtbot, snirf):
    load_optodes(qtbot, panel, snirf)
    optodes = panel.voxels.controller.optodes
    assert [source.name for source in optodes.sources] == ["S1", "S2"]
    assert [detector.name for detector in optodes.detectors] == ["D1", "D2", "D3", "D4"]
    for position in optodes:
        assert abs(np.linalg.norm(np.subtract(position, CENTER)) - RADIUS) < 1.8
    assert "2 sources and 4 detectors" in panel.message
    assert "register" in panel.message
    settle(qtbot, panel)
    assert len(result(viewer).detectors) == 4
    assert result(viewer).source.position_mm == optodes.sources[0].position_mm


def test_optodes_that_are_far_away_are_warned_of(panel, qtbot, snirf):
    h5py = pytest.importorskip("h5py")
    with h5py.File(snirf, "a") as file:
        file["nirs/probe/sourcePos3D"][...] += 80.0
    load_optodes(qtbot, panel, snirf)
    assert "other coordinates" in panel.message


def test_optodes_that_cannot_be_loaded_are_a_sentence(viewer, empty, qtbot, tmp_path, snirf):
    load_optodes(qtbot, empty, snirf)
    assert "there are no labels" in empty.message
    add_ball(viewer)
    settle(qtbot, empty)
    (tmp_path / "broken.snirf").write_bytes(b"nonsense")
    for path in (tmp_path / "broken.snirf", tmp_path / "missing.snirf"):
        load_optodes(qtbot, empty, path)
        assert "could not be opened" in empty.message
        assert path.name in empty.message
    assert empty.voxels.controller.optodes.source is None


# -------------------------------------------------------------------------------------------------------------- MCX


def test_an_input_file_of_mcx_fills_everything(empty, open_mcx):
    source = Cone(position_mm=(-30.0, -4.0, 5.0), direction=(1.0, 0.25, 0.0), half_angle_deg=7.5)
    settings = LightSettings(
        photons=FEW, seed=5, time_gates_ns=(0.0, 0.2, 1.0), refraction=False, faces=("mirror",) * 6
    )
    shown = open_mcx(source, settings, (Detector(position_mm=LEFT), Detector(position_mm=TOP)))
    assert shown.source.kind == "cone"
    assert shown.source.half_angle_deg == 7.5
    assert shown.source.position_mm == source.position_mm
    assert np.allclose(shown.source.direction, source.frame()[2])
    assert shown.settings == settings
    assert [name for name, *_ in detector_rows(empty)] == ["D1", "D2"]  # they have no names in the file


def test_the_pattern_of_an_input_file_becomes_an_image(open_mcx):
    pattern = np.outer([1.0, 2.0, 4.0], [1.0, 0.0])
    direction, width = (0.0, 0.0, -1.0), (np.cos(0.4), np.sin(0.4), 0.0)
    source = Pattern(
        position_mm=(3.0, -4.0, 40.0), direction=direction, width_axis=width, width_mm=8.0,
        height_mm=5.0, pattern=pattern,
    )  # fmt: skip
    shown = open_mcx(source, LightSettings(photons=3000)).source
    assert np.array_equal(shown.pattern, pattern)
    assert np.allclose(shown.frame(), source.frame(), atol=2e-3)  # the turn is shown to a tenth of a degree
    assert (shown.width_mm, shown.height_mm) == (8.0, 5.0)


PAIR = (
    Cone(position_mm=(-30.0, -4.0, 5.0), direction=(1.0, 0.25, 0.0), half_angle_deg=7.5, weight=3.0),
    Pencil(position_mm=(30.0, 0.0, 0.0), direction=(-1.0, 0.0, 0.0)),
)


def test_all_sources_of_a_file_emit_until_one_is_changed(viewer, empty, open_mcx, qtbot):
    shown = open_mcx(PAIR, LightSettings(photons=FEW))
    assert [source.weight for source in shown.sources] == [3.0, 1.0]
    assert "There are 2 sources" in empty.message
    assert [place.name for place in empty.voxels.controller.shown.sources] == ["S1", "S2"]
    assert empty.voxels.draft().source == PAIR
    empty.voxels.place_source((-30.0, 0.0, 0.0))
    settle(qtbot, empty)
    assert empty.voxels.draft().source.kind == "cone"
    assert len(result(viewer).sources) == 1


def test_a_run_of_several_sources_is_one_of_its_records(open_mcx, empty):
    """With slanted edges and an image, too."""
    slanted = Planar(width_axis=(1.0, 0.0, 0.0), height_axis=(0.5, 1.0, 0.5))
    patterned = Pattern(direction=(0.0, 1.0, 0.0), pattern=np.outer([1.0, 2.0], [1.0, 0.0]))
    open_mcx((*PAIR, slanted, patterned), LightSettings(photons=FEW))
    operation = empty.voxels.operation()
    again = [*from_graph(graph(operation)).values()][-1]
    assert again == operation
    assert again.sources[:3] == (*PAIR, slanted)
    assert np.array_equal(STORE.array(again.patterns[0]), patterned.pattern)


def test_launch_angles_of_a_file_are_kept(open_mcx):
    source = dataclasses.replace(PAIR[1], launch_angles_deg=(0.0, 10.0, 30.0))
    assert open_mcx(source, LightSettings(photons=FEW)).source.launch_angles_deg == (0.0, 10.0, 30.0)


def test_a_volume_that_emits_becomes_a_point_and_says_so(empty, open_mcx):
    source = EmittingVolume(position_mm=CENTER, width_mm=4.0, height_mm=4.0, length_mm=4.0, pattern=np.ones((2, 2, 2)))
    shown = open_mcx(source, LightSettings(photons=FEW)).source
    assert (shown.kind, shown.position_mm) == ("isotropic", tuple(CENTER))
    assert "a volume whose cells emit" in empty.message


# -------------------------------------------------------------------------------------------------------------- results


BESIDE = tuple(np.asarray(CENTER) + 20.0 * np.array([-0.8, 0.6, 0.0]))


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
    source = Fiber(radius_mm=0.8, position_mm=TOP, direction=tuple(-outwards(TOP)))
    settings = LightSettings(photons=FEW, seed=5, faces=("mirror", "escape", "cyclic", "cyclic", "default", "default"))
    stopped = simulate(ball(), source, settings, detectors=(Detector(position_mm=BESIDE, radius_mm=3.0),), device="cpu")
    stopped = dataclasses.replace(
        stopped, complete=False, settings=dataclasses.replace(stopped.settings, photons=2 * FEW)
    )
    path = tmp_path / "stopped.npz"
    save_result(path, stopped)
    return path


# --------------------------------------------------------------------------------------------------------- running


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


@pytest.mark.daily
def test_a_saved_result_is_shown_with_its_inputs_and_goes_on_to_its_end(viewer, empty, qtbot, saved):
    open_file(viewer, saved)
    settle(qtbot, empty)
    assert empty.voxels.results.result.launched == FEW
    assert fluence(viewer).name.startswith("stopped")
    assert np.allclose(empty.voxels.controller.optodes.source.position_mm, TOP)
    assert detector_rows(empty)[0][:2] == ["D1", "3"]
    settings = empty.voxels.run_box.settings
    assert (settings.seed, settings.photons) == (5, 2 * FEW)
    assert settings.faces == ("mirror", "escape", "cyclic", "cyclic", "default", "default")
    assert empty.voxels.source_box.form.widget("source").value == "fiber"
    assert f"Stopped after {FEW:,} of {2 * FEW:,}" in empty.voxels.results.findings
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


# ----------------------------------------------------------------------------------------------------- sensitivity


def test_the_sensitivity_is_that_of_two_runs(viewer, ran, qtbot):
    ran.voxels.controller.add_detector(BESIDE)
    press(qtbot, ran, "Sensitivity to D1")
    layer = next(layer for layer in viewer.layers if carried(layer, "panel") == "sensitivity D1")
    forward, detector = result(viewer), ran.voxels.controller.optodes.detectors[0]
    shares = {row.label: row.value for row in numbers(ran) if row.unit == "%"}
    assert sum(shares.values()) == pytest.approx(100.0)
    assert shares[1] > shares[2] > 0  # source and detector are in the rind
    paths = sum(row.value for row in numbers(ran) if row.unit == "mm")
    assert np.nansum(10.0**layer.data) == pytest.approx(paths, rel=1e-4)
    apart = np.linalg.norm(np.subtract(detector.position_mm, forward.source.position_mm))
    assert apart < paths  # longer than the straight line
    adjoint = adjoint_source(forward, detector)
    assert np.dot(adjoint.direction, -outwards(adjoint.position_mm)) > 0.9
    settings = dataclasses.replace(forward.settings, seed=forward.settings.seed + 1)
    expected = sensitivity(forward, simulate(forward.domain, adjoint, settings, device="cpu"))
    by_label = {label: 100 * share for label, share in expected.share_by_label().items()}
    assert shares == pytest.approx(by_label)
    assert not fluence(viewer).visible
    run(qtbot, ran)
    assert fluence(viewer).visible
    assert numbers(ran) == []


def test_a_sensitivity_needs_a_result_of_the_source(panel, qtbot):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    assert not button(panel, "Sensitivity to a detector").isEnabled()
    panel.voxels.controller.add_detector(BESIDE)
    button(panel, "Sensitivity to D1").click()
    assert "no result yet" in panel.message
    run(qtbot, panel)
    panel.voxels.place_source(TOP)
    button(panel, "Sensitivity to D1").click()
    assert "press Run first" in panel.message
    assert not panel.running


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

"""The dock widget "Light transport": Copy as Python, optodes from SNIRF, input files of MCX."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.io.results import load_result
from napari_gpubio.light.io.volumes import read_domain
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.source import Source
from tests.dock_widgets import NOTHING_COPIED, run_script, save_scripts_as, script_of
from tests.light.gui.panel_samples import (
    CENTER,
    LEFT,
    MEDIA,
    RADIUS,
    TOP,
    add_ball,
    ball,
    fluence,
    result,
    run,
    settle,
)


@pytest.fixture
def from_file(viewer, empty, qtbot, tmp_path):
    """A panel with labels that came from a NIfTI file."""
    path = tmp_path / "ball.nii.gz"
    write_volume(path, ball().labels, ball().affine, "ball")
    add_ball(viewer, read_domain(path, MEDIA, outside_n=1.1))
    settle(qtbot, empty)
    return empty


def test_the_script_gives_the_same_numbers(viewer, from_file, qtbot, tmp_path):
    panel = from_file
    panel.voxels.place_source(LEFT)
    panel.voxels.source_box.form.widget("kind").value = "fiber"
    panel.voxels.source_box.form.widget("radius_mm").value = 0.75
    panel.voxels.source_box.depth_box.setValue(1.25)
    panel.voxels.controller.add_detector(LEFT + np.array([2.0, 6.0, 0.0]))
    panel.voxels.run_box.form.widget("seed").value = 11
    panel.voxels.run_box.set_gates(2.0, 3)
    panel.voxels.display_box.power_box.setValue(7.5)
    run(qtbot, panel)
    text = script_of(panel)
    assert panel.message == ""
    run_script(text, tmp_path)
    made, shown = load_result(tmp_path / "ball.npz"), result(viewer)
    assert np.array_equal(made.gates, shown.gates)
    assert np.array_equal(made.fluence_error, shown.fluence_error)
    assert made.energy == shown.energy
    assert made.detected.detected_weight == shown.detected.detected_weight > 0
    assert made.domain.outside_n == 1.1
    assert (tmp_path / "ball fluence.nii.gz").is_file()


def test_painted_labels_and_a_pattern_are_saved_beside_the_script(viewer, panel, qtbot, tmp_path, monkeypatch):
    image = np.outer(np.arange(4), np.ones(3))
    viewer.add_image(image, name="bright below")
    panel.voxels.place_source(TOP)
    panel.voxels.source_box.form.widget("kind").value = "pattern"
    panel.voxels.source_box.turn_box.setValue(30.0)
    run(qtbot, panel)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(panel)
    assert "SHA-256" in text
    assert np.array_equal(np.load(tmp_path / "bright below.npy"), image)
    run_script(text, tmp_path)
    made, shown = load_result(tmp_path / "ball.npz"), result(viewer)
    assert np.array_equal(made.source.pattern, image)
    assert np.array_equal(made.source.width_axis, shown.source.width_axis)
    # a NIfTI file holds the affine in single precision, so single photons may go another way
    assert made.energy.absorbed.value == pytest.approx(shown.energy.absorbed.value, rel=0.02)


def test_the_script_of_what_cannot_be_run_is_a_sentence(viewer, panel):
    assert script_of(panel) == NOTHING_COPIED
    assert "there is no source" in panel.message


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


def test_optodes_of_a_snirf_file_are_put_on_the_surface(viewer, panel, qtbot, snirf):
    panel.voxels.load_optodes(snirf)
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


def test_optodes_that_are_far_away_are_warned_of(panel, snirf):
    h5py = pytest.importorskip("h5py")
    with h5py.File(snirf, "a") as file:
        file["nirs/probe/sourcePos3D"][...] += 80.0
    panel.voxels.load_optodes(snirf)
    assert "other coordinates" in panel.message


def test_files_that_are_no_optodes_are_a_sentence(panel, tmp_path):
    (tmp_path / "broken.snirf").write_bytes(b"nonsense")
    for path in (tmp_path / "broken.snirf", tmp_path / "missing.snirf"):
        panel.voxels.load_optodes(path)
        assert "could not be loaded" in panel.message
        assert path.name in panel.message
    assert panel.voxels.controller.optodes.source is None


def test_optodes_without_labels_are_a_sentence(empty, snirf):
    empty.voxels.load_optodes(snirf)
    assert "there are no labels" in empty.message


# -------------------------------------------------------------------------------------------------------------- MCX


def mcx_layer(viewer, source, settings):
    layer = add_ball(viewer, name="case")
    viewer.layers.remove(layer)
    layer.metadata[KEY]["case"] = LightCase(
        domain=ball(), source=source, settings=settings, detectors=(), notes=("The note of the file.",), name="case"
    )
    viewer.add_layer(layer)


def test_an_input_file_of_mcx_fills_everything(viewer, empty, qtbot):
    source = Source(kind="cone", position_mm=(-30.0, -4.0, 5.0), direction=(1.0, 0.25, 0.0), half_angle_deg=7.5)
    settings = LightSettings(
        photons=3000, seed=5, time_gates_ns=(0.0, 0.2, 1.0), refraction=False, faces=("mirror",) * 6
    )
    mcx_layer(viewer, source, settings)
    settle(qtbot, empty)
    shown = result(viewer)  # the quick run of it
    assert shown.source.kind == "cone"
    assert shown.source.half_angle_deg == 7.5
    assert shown.source.position_mm == source.position_mm
    assert np.allclose(shown.source.direction, source.frame()[2])
    assert shown.settings == settings
    assert "The note of the file." in empty.message or shown is not None


def test_the_pattern_of_an_input_file_becomes_an_image(viewer, empty, qtbot):
    pattern = np.outer([1.0, 2.0, 4.0], [1.0, 0.0])
    direction, width = (0.0, 0.0, -1.0), (np.cos(0.4), np.sin(0.4), 0.0)
    source = Source(
        kind="pattern", position_mm=(3.0, -4.0, 40.0), direction=direction, width_axis=width, width_mm=8.0,
        height_mm=5.0, pattern=pattern,
    )  # fmt: skip
    mcx_layer(viewer, source, LightSettings(photons=3000))
    settle(qtbot, empty)
    shown = result(viewer).source
    assert np.array_equal(shown.pattern, pattern)
    assert np.allclose(shown.frame(), source.frame(), atol=2e-3)  # the turn is shown to a tenth of a degree
    assert (shown.width_mm, shown.height_mm) == (8.0, 5.0)
    assert fluence(viewer) is not None

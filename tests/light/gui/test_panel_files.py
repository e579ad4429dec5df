"""The dock widget "Light transport": Copy as Python, optodes from SNIRF, input files of MCX."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io.results import load_result
from napari_gpubio.light.io.volumes import read_domain
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.source import Source
from tests.dock_widgets import run_script, save_scripts_as, script_of
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    MEDIA,
    RADIUS,
    TOP,
    add_ball,
    ball,
    detector_rows,
    result,
    run,
    settle,
)


def test_the_script_gives_the_same_numbers(viewer, empty, qtbot, tmp_path):
    path = tmp_path / "ball.nii.gz"
    write_volume(path, ball().labels, ball().affine, "ball")
    add_ball(viewer, read_domain(path, MEDIA, outside_n=1.1))
    settle(qtbot, empty)
    mode = empty.voxels
    mode.place_source(LEFT)
    mode.source_box.form.widget("kind").value = "fiber"
    mode.source_box.form.widget("radius_mm").value = 0.75
    mode.source_box.depth_box.setValue(1.25)
    mode.controller.add_detector(LEFT + np.array([2.0, 6.0, 0.0]))
    mode.run_box.form.widget("seed").value = 11
    mode.run_box.set_gates(2.0, 3)
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


def test_optodes_that_cannot_be_loaded_are_a_sentence(viewer, empty, qtbot, tmp_path, snirf):
    empty.voxels.load_optodes(snirf)
    assert "there are no labels" in empty.message
    add_ball(viewer)
    settle(qtbot, empty)
    (tmp_path / "broken.snirf").write_bytes(b"nonsense")
    for path in (tmp_path / "broken.snirf", tmp_path / "missing.snirf"):
        empty.voxels.load_optodes(path)
        assert "could not be loaded" in empty.message
        assert path.name in empty.message
    assert empty.voxels.controller.optodes.source is None


# -------------------------------------------------------------------------------------------------------------- MCX


@pytest.fixture
def open_mcx(viewer, empty, qtbot):
    """A function that adds labels with a case of MCX, and returns the result of its quick run."""

    def opened(source, settings, detectors=()):
        case = LightCase(
            domain=ball(), source=source, settings=settings, detectors=detectors, notes=("A note.",), name="case"
        )
        data, keywords, _ = labels_layer(case.domain, "case")
        keywords["metadata"][KEY]["case"] = case
        viewer.add_labels(data, **keywords)
        settle(qtbot, empty)
        return result(viewer)

    return opened


def test_an_input_file_of_mcx_fills_everything(empty, open_mcx):
    source = Source(kind="cone", position_mm=(-30.0, -4.0, 5.0), direction=(1.0, 0.25, 0.0), half_angle_deg=7.5)
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
    source = Source(
        kind="pattern", position_mm=(3.0, -4.0, 40.0), direction=direction, width_axis=width, width_mm=8.0,
        height_mm=5.0, pattern=pattern,
    )  # fmt: skip
    shown = open_mcx(source, LightSettings(photons=3000)).source
    assert np.array_equal(shown.pattern, pattern)
    assert np.allclose(shown.frame(), source.frame(), atol=2e-3)  # the turn is shown to a tenth of a degree
    assert (shown.width_mm, shown.height_mm) == (8.0, 5.0)

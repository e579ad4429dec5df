"""Light in layers: runs, and their picture: its beam, its units and its borders."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.napari_io import carried
from napari_gpubio.layered import operations
from napari_gpubio.layered.beams import FlatBeam, GaussianBeam, convolved
from napari_gpubio.layered.napari_io import mirrored
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.gui.layer_mode import LayerMode
from tests.dock_widgets import button, press_and_wait
from tests.light.gui.layers.panel_samples import FEW, MEDIUM, MUA, SETTINGS, change, held_run, picture, result, set_beam
from tests.light.gui.panel_samples import run, set_strength, settle
from tests.sentences import says


def test_another_beam_needs_no_new_run(viewer, panel, qtbot, monkeypatch):
    run(qtbot, panel)
    layer, traced = picture(viewer), result(viewer)
    monkeypatch.setattr(operations, "simulate_steps", lambda *_, **__: pytest.fail("traced again"))
    beam = FlatBeam(radius_mm=0.5)
    set_beam(panel, beam)
    settle(qtbot, panel)
    assert picture(viewer) is layer
    expected = convolved(traced, beam)
    assert np.array_equal(result(viewer).Rd_r.value, expected.Rd_r.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)
    set_beam(panel, None)
    settle(qtbot, panel)
    assert result(viewer) is traced


def test_a_beam_wider_than_the_grid_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    set_beam(panel, GaussianBeam(radius_mm=5.0))
    run(qtbot, panel)
    assert says(panel.message, "pencil beam", "5 mm", "2 mm")
    assert result(viewer).launched == FEW
    set_beam(panel, GaussianBeam(radius_mm=0.5))
    settle(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).parameters["beam"] == {"kind": "gaussian", "radius_mm": 0.5}


def test_units_quantities_and_decades(viewer, panel, qtbot):
    run(qtbot, panel)
    layer, per_photon, box = picture(viewer), picture(viewer).data.copy(), panel.layers.display_box
    high = layer.contrast_limits[1]
    set_strength(box, power_mw=10.0)
    settle(qtbot, panel)
    assert picture(viewer) is layer
    assert layer.name == "fluence rate, log10 mW/mm²"
    assert np.allclose(layer.data, per_photon + 1.0, atol=1e-5, equal_nan=True)
    set_strength(box, energy_j=2.0)
    box.form.widget("quantity").value = "absorbed"
    settle(qtbot, panel)
    assert layer.name == "absorbed energy density, log10 J/cm³"
    absorbed = mirrored(result(viewer).A_rz.value)
    known = np.isfinite(layer.data)
    assert np.allclose(layer.data[known], np.log10(2000 * absorbed[known]), atol=1e-5)
    set_strength(box)
    box.form.widget("quantity").value = "fluence"
    box.form.widget("decades").value = 3
    settle(qtbot, panel)
    assert tuple(layer.contrast_limits) == (high - 3, high)
    # the user's limits follow the unit and stay with the next run
    layer.contrast_limits, layer.colormap = (-1.5, 0.25), "viridis"
    set_strength(box, power_mw=1000.0)
    settle(qtbot, panel)
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    run(qtbot, panel)
    assert picture(viewer) is layer
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    assert layer.colormap.name == "viridis"


def test_borders_can_be_drawn_and_left_out(viewer, panel, qtbot):
    run(qtbot, panel)
    assert {"layer borders", "layer names"} <= {layer.name for layer in viewer.layers}
    lines = viewer.layers["layer borders"]
    assert np.allclose(lines.data[:, 0, 0], [0.0, 0.4, 1.0])
    assert list(viewer.layers["layer names"].features["name"]) == ["top", "bottom"]
    panel.layers.display_box.borders_box.setChecked(False)
    assert "layer borders" not in viewer.layers
    panel.layers.display_box.borders_box.setChecked(True)
    panel.layers.table.model.remove([1])
    run(qtbot, panel)
    assert np.allclose(viewer.layers["layer borders"].data[:, 0, 0], [0.0, 0.4])
    assert sum(carried(layer, "panel") is not None for layer in viewer.layers) == 3


def test_another_grid_makes_another_layer_and_no_map_makes_none(viewer, panel, qtbot):
    run(qtbot, panel)
    first = picture(viewer)
    panel.layers.grid_box.boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert picture(viewer) is not first
    assert first not in viewer.layers
    assert picture(viewer).data.shape == (10, 80)
    center = viewer.scene.camera.center
    assert center[-2] == pytest.approx(0.25, abs=0.03)  # in view
    assert viewer.layers[0] is picture(viewer)  # below the borders
    absorption = panel.layers.run_box.form.widget("absorption")
    absorption.value = "off"
    run(qtbot, panel)
    assert picture(viewer) is None
    assert "layer borders" not in viewer.layers
    assert panel.layers.results.displayed.result.A_rz is None
    assert panel.layers.results.rows
    absorption.value = "collect"
    run(qtbot, panel)
    assert picture(viewer) is not None


def test_a_change_says_that_the_picture_is_older(panel, qtbot):
    run(qtbot, panel)
    was = panel.layers.table.medium()
    change(panel, MUA, "3")
    assert "predates this change" in panel.status
    panel.layers.table.set_medium(was)
    assert panel.status == ""
    panel.layers.run_box.photons.set_value(3 * FEW)  # more of the same
    assert f"Run adds {2 * FEW:,}" in panel.status


def test_other_layers_without_units_get_no_complaint(viewer, panel, qtbot):
    run(qtbot, panel)
    assert viewer.canvas.overlays.scale_bar.visible
    assert viewer.layers.extent.units is not None
    viewer.add_image(np.zeros((5, 6)), name="photo")
    assert viewer.layers.extent.units is not None  # the photo is shown in millimeters, too
    assert viewer.canvas.overlays.scale_bar.visible
    run(qtbot, panel)
    viewer.layers.remove("photo")
    panel.layers.grid_box.boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert str(viewer.layers.extent.units[0]) == "millimeter"


# ----------------------------------------------------------------------------------------------------------------- runs


def test_quick_runs_follow_every_change(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(LayerMode, "quick_photons", 500)
    panel.layers.run_box.set_live(True)
    settle(qtbot, panel)
    assert result(viewer).launched == 500
    for mua in ("2", "3", "4"):
        change(panel, MUA, mua)
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    change(panel, MUA, "-4")
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    assert "µa is -4" in panel.layers.table.message.text


def test_the_look_can_be_changed_while_it_runs(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    panel.layers.display_box.form.widget("quantity").value = "absorbed"
    set_beam(panel, FlatBeam(radius_mm=0.3))
    held.go.set()
    settle(qtbot, panel)
    assert "absorbed" in picture(viewer).name
    assert result(viewer).parameters["beam"]["radius_mm"] == 0.3


def test_a_result_is_gone_on_with(viewer, panel, qtbot):
    run(qtbot, panel)
    change(panel, MUA, "9")  # it goes on with its own inputs
    panel.layers.run_box.photons.set_value(3 * FEW)
    press_and_wait(qtbot, panel, button(panel, "Continue"))
    settle(qtbot, panel)
    whole = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=4 * FEW), device="cpu")
    np.testing.assert_allclose(result(viewer).A_rz.value, whole.A_rz.value, rtol=1e-12)  # other batches are summed
    assert result(viewer).launched == 4 * FEW


def test_run_adds_photons_to_a_result_of_the_same_layers(viewer, panel, qtbot):
    run(qtbot, panel)
    panel.layers.run_box.set_live(True)
    panel.layers.run_box.photons.set_value(3 * FEW)
    settle(qtbot, panel)
    assert result(viewer).launched == FEW
    for launched in (3 * FEW, 6 * FEW):  # those that it lacks, then so many again
        run(qtbot, panel)
        assert result(viewer).launched == launched
    panel.layers.run_box.set_live(False)
    change(panel, MUA, "3")
    run(qtbot, panel)
    assert result(viewer).launched == 3 * FEW


def test_a_stopped_result_is_gone_on_with_to_its_end(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    panel.run_button.click()
    settle(qtbot, panel)
    assert not result(viewer).complete
    held.go.set()
    press_and_wait(qtbot, panel, button(panel, "Continue"))
    settle(qtbot, panel)
    expected = simulate(MEDIUM, SETTINGS, device="cpu")
    assert np.array_equal(result(viewer).A_rz.value, expected.A_rz.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)

"""Light in layers: the picture, its beam, its units and its borders."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import carried
from napari_gpubio.light.gui import request
from napari_gpubio.light.gui.display import DecadeBar, Strength
from napari_gpubio.light.layers.beams import Beam, convolved
from napari_gpubio.light.layers.napari_io import mirrored
from tests.dock_widgets import button
from tests.light.gui.layers.panel_samples import FEW, MUA, change, picture, result
from tests.light.gui.panel_samples import run, settle


def test_another_beam_needs_no_new_run(viewer, panel, qtbot, monkeypatch):
    run(qtbot, panel)
    layer, traced = picture(viewer), result(viewer)
    monkeypatch.setattr(request, "simulate_layer_steps", lambda *_, **__: pytest.fail("traced again"))
    beam = Beam(kind="flat", radius_mm=0.5)
    panel.layers.beam_box.set_beam(beam)
    settle(qtbot, panel)
    assert picture(viewer) is layer
    expected = convolved(traced, beam)
    assert np.array_equal(result(viewer).Rd_r.value, expected.Rd_r.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)
    panel.layers.beam_box.set_beam(None)
    settle(qtbot, panel)
    assert result(viewer) is traced


def test_a_beam_wider_than_the_grid_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    panel.layers.beam_box.set_beam(Beam(kind="gaussian", radius_mm=5.0))
    run(qtbot, panel)
    assert "shown for a pencil beam, because the beam's radius is 5 mm and the grid ends at 2 mm" in panel.message
    assert result(viewer).launched == FEW
    panel.layers.beam_box.set_beam(Beam(kind="gaussian", radius_mm=0.5))
    settle(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).parameters["beam"] == {"kind": "gaussian", "radius_mm": 0.5}


def test_units_quantities_and_decades(viewer, panel, qtbot):
    run(qtbot, panel)
    layer, per_photon = picture(viewer), picture(viewer).data.copy()
    high = layer.contrast_limits[1]
    panel.layers.display_box.set_strength(Strength(power_mw=10.0))
    settle(qtbot, panel)
    assert picture(viewer) is layer
    assert layer.name == "fluence rate, log10 mW/mm²"
    assert np.allclose(layer.data, per_photon + 1.0, atol=1e-5, equal_nan=True)
    panel.layers.display_box.set_strength(Strength(energy_j=2.0))
    panel.layers.display_box.set_quantity("absorbed")
    settle(qtbot, panel)
    assert layer.name == "absorbed energy density, log10 J/cm³"
    absorbed = mirrored(result(viewer).A_rz.value)
    known = np.isfinite(layer.data)
    assert np.allclose(layer.data[known], np.log10(2000 * absorbed[known]), atol=1e-5)
    panel.layers.display_box.set_strength(Strength())
    panel.layers.display_box.set_quantity("fluence")
    panel.layers.display_box.decades_box.setValue(3)
    settle(qtbot, panel)
    assert tuple(layer.contrast_limits) == (high - 3, high)


def test_the_users_limits_follow_the_unit_and_stay_with_the_next_run(viewer, panel, qtbot):
    run(qtbot, panel)
    layer = picture(viewer)
    layer.contrast_limits, layer.colormap = (-1.5, 0.25), "viridis"
    panel.layers.display_box.set_strength(Strength(power_mw=1000.0))
    settle(qtbot, panel)
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    run(qtbot, panel)
    assert picture(viewer) is layer
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    assert layer.colormap.name == "viridis"


def test_the_legend_tells_powers_of_ten_and_the_unit(viewer, panel, qtbot):
    bar = panel.layers.display_box.findChild(DecadeBar)
    assert bar.isHidden()
    run(qtbot, panel)
    assert len(bar.texts) == 7
    assert "fluence, 1/mm² per launched photon" in bar.unit
    viewer.layers.remove(picture(viewer).name)
    assert bar.isHidden()
    run(qtbot, panel)
    assert not bar.isHidden()


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


def test_another_grid_makes_another_layer(viewer, panel, qtbot):
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


def test_a_picture_can_be_kept_to_compare(viewer, panel, qtbot):
    run(qtbot, panel)
    first, kept = picture(viewer), result(viewer)
    button(panel, "Keep these layers").click()
    change(panel, MUA, "3")
    run(qtbot, panel)
    assert first in viewer.layers
    assert carried(first, "result") is kept
    assert result(viewer).medium.layers[0].mua_per_mm == 3.0


def test_without_the_absorption_map_there_are_numbers_and_no_picture(viewer, panel, qtbot):
    run(qtbot, panel)
    panel.layers.run_box.form.widget("absorption").value = False
    run(qtbot, panel)
    assert picture(viewer) is None
    assert "layer borders" not in viewer.layers
    assert panel.layers.results.displayed.result.A_rz is None
    assert panel.layers.results.rows
    panel.layers.run_box.form.widget("absorption").value = True
    run(qtbot, panel)
    assert picture(viewer) is not None


def test_a_change_says_that_the_picture_is_older(panel, qtbot):
    run(qtbot, panel)
    change(panel, MUA, "3")
    assert "from before this change" in panel.status
    panel.layers.table.model.undo()
    assert panel.status == ""
    panel.layers.run_box.photons.set_value(3 * FEW)  # more of the same
    assert panel.status == ""


def test_other_layers_without_units_get_no_complaint(viewer, panel, qtbot):
    run(qtbot, panel)
    assert viewer.canvas.overlays.scale_bar.visible
    assert viewer.layers.extent.units is not None
    viewer.add_image(np.zeros((5, 6)), name="photo")
    assert viewer.layers.extent.units is not None  # all of them have none now
    assert not viewer.canvas.overlays.scale_bar.visible
    run(qtbot, panel)
    viewer.layers.remove("photo")
    panel.layers.grid_box.boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert str(viewer.layers.extent.units[0]) == "millimeter"

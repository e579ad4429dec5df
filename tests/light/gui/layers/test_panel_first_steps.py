"""Light in layers: presets, a first run that gives what the API gives, and wrong inputs."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.results import LayerResultBox
from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.layers.napari_io import mirrored
from napari_gpubio.light.layers.presets import preset as layered_preset
from napari_gpubio.light.layers.presets import preset_names
from napari_gpubio.light.layers.run import simulate
from tests.dock_widgets import button, texts
from tests.light.gui.layers.panel_samples import MEDIUM, MUA, SETTINGS, N, change, picture, result
from tests.light.gui.panel_samples import run


def test_a_new_panel_is_ready_to_run(viewer, qtbot):
    panel = LightPanel(viewer, mode="layers")
    qtbot.addWidget(panel)
    skin = layered_preset("seven-layer skin at 600 nm")
    assert panel.layers.table.medium() == skin.medium
    assert panel.layers.request().settings == skin.settings
    assert "Meglinski" in panel.layers.presets.citation
    assert LayerResultBox.empty_text in texts(panel.layers.results)
    assert not button(panel, "Plots…").isEnabled()
    assert not panel.layers.table.model.can_undo
    assert not len(viewer.layers)
    panel.teardown()


def test_a_preset_fills_everything(panel):
    for name in preset_names():
        panel.layers.presets.choose(name)
        preset, request = layered_preset(name), panel.layers.request()
        assert (request.medium, request.settings) == (preset.medium, preset.settings)
        assert panel.layers.presets.citation == preset.citation
        assert "Borders inside" not in panel.layers.grid_box.note
    change(panel, N, "1.6")
    assert panel.layers.presets.citation == f"Changed since; it was from {preset.citation}"


def test_a_run_gives_what_the_api_gives(viewer, panel, qtbot):
    run(qtbot, panel)
    expected = simulate(MEDIUM, SETTINGS, device="cpu")
    shown = result(viewer)
    assert np.array_equal(shown.A_rz.value, expected.A_rz.value)
    assert np.array_equal(shown.Rd_ra.error, expected.Rd_ra.error)
    assert shown.diffuse_reflectance == expected.diffuse_reflectance
    layer = picture(viewer)
    assert layer.name == "fluence, log10 1/mm²"
    with np.errstate(divide="ignore"):
        logarithm = np.log10(mirrored(expected.fluence_rz().value))
    known = np.isfinite(layer.data)
    assert np.allclose(layer.data[known], logarithm[known], atol=1e-5)
    assert known[:, 40].all()
    rows = {row.name: row for row in panel.layers.results.rows}
    assert rows["Diffuse reflectance Rd"].value == expected.diffuse_reflectance.value
    assert rows["bottom"].value == expected.A_l.value[1]
    assert viewer.layers.selection.active is layer


def test_what_is_wrong_with_the_inputs_is_a_sentence(viewer, panel):
    change(panel, MUA, "-1")
    panel.run_button.click()
    assert "layer 1 (top): µa is -1" in panel.message
    panel.layers.table.model.remove(range(2))
    for act in (
        panel.run_button.click,
        button(panel, "Copy as Python").click,
        button(panel, "Make voxel phantom").click,
    ):
        panel.clear_message()
        act()
        assert "there are no layers" in panel.message
    assert not panel.running
    assert not len(viewer.layers)


def _set_radius(box, radius_mm):
    box.set_beam(Beam(kind="flat", radius_mm=1.0))
    box.radius_box.setValue(radius_mm)


@pytest.mark.parametrize(
    ("set_up", "sentence"),
    [
        (lambda p: p.layers.run_box.photons.text_box.setText("many"), "photons is 'many'"),
        (
            lambda p: p.layers.run_box.photons.text_box.setText("1e12"),
            "photons is 1e+12; it must be at most 4.29497e+09",
        ),
        (lambda p: p.layers.grid_box.boxes["dz_mm"].setValue(0.0), "dz_mm is 0 mm; it must be greater than 0"),
        (lambda p: p.layers.grid_box.boxes["depth_bins"].setValue(100_000), ""),
        (
            lambda p: (
                p.layers.beam_box.set_beam(Beam(kind="flat", radius_mm=1.0)) or p.layers.beam_box.radius_box.setValue(0)
            ),
            "radius",
        ),
    ],
)
def test_numbers_that_cannot_be_run_are_a_sentence(panel, set_up, sentence):
    if not sentence:
        panel.layers.grid_box.boxes["radial_bins"].setValue(1000)
        sentence = "the grid has 100,000,000 bins"
    set_up(panel)
    panel.run_button.click()
    assert sentence in panel.message
    assert not panel.running


def test_the_grid_says_how_it_fits_the_layers(panel):
    assert "MB" in panel.layers.grid_box.note
    panel.layers.grid_box.boxes["dz_mm"].setValue(0.03)
    assert "The grid ends at 0.6 mm, the layers at 1 mm." in panel.layers.grid_box.note
    assert "Borders inside a depth bin" in panel.layers.grid_box.note
    assert "0.4" in panel.layers.grid_box.note
    button(panel.layers.grid_box, "Fit").click()
    settings = panel.layers.request().settings
    assert settings.dz_mm * settings.depth_bins == pytest.approx(1.0)
    assert 0.4 / settings.dz_mm == pytest.approx(round(0.4 / settings.dz_mm))
    assert "Borders" not in panel.layers.grid_box.note
    panel.layers.table.model.type_in({(1, 5): "inf"})
    assert not button(panel.layers.grid_box, "Fit").isEnabled()


def test_settings_stay_as_they_were_given(panel):
    """Numbers that the inputs cannot show in full are still what is simulated."""
    given = dataclasses.replace(SETTINGS, seed=11, edge="drop", roulette_threshold=1e-3, batches=5)
    panel.layers.run_box.set_settings(given)
    panel.layers.grid_box.set_settings(given)
    assert panel.layers.request().settings == given

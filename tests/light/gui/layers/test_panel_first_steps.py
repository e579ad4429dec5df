"""Light in layers: presets, a first run that gives what the API gives, wrong inputs, and voxel phantoms."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.layered.beams import FlatBeam, GaussianBeam
from napari_gpubio.layered.napari_io import mirrored
from napari_gpubio.layered.presets import preset as layered_preset
from napari_gpubio.layered.presets import preset_names
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.results import LayerResultBox
from napari_gpubio.light.layered_phantom import plan_phantom
from tests.dock_widgets import NOTHING_COPIED, button, script_of, texts
from tests.light.gui.layers.panel_samples import (
    FEW,
    MEDIUM,
    MUA,
    SETTINGS,
    N,
    change,
    picture,
    result,
    set_beam,
    set_sizes,
)
from tests.light.gui.panel_samples import run, settle


def test_a_new_panel_is_ready_to_run(viewer, qtbot):
    panel = LightPanel(viewer, mode="layers")
    qtbot.addWidget(panel)
    skin = layered_preset("seven-layer skin at 600 nm")
    assert panel.layers.table.medium() == skin.medium
    assert "Meglinski" in panel.layers.presets.citation
    assert LayerResultBox.empty_text in texts(panel.layers.results)
    assert not button(panel, "Plots…").isEnabled()
    assert not len(viewer.layers)
    panel.teardown()


def test_a_preset_fills_everything_and_its_voxels_fit_every_layer(panel):
    for name in preset_names():
        panel.layers.presets.choose(name)
        preset, draft = layered_preset(name), panel.layers.draft()
        assert (draft.medium, draft.settings) == (preset.medium, preset.settings)
        assert panel.layers.presets.citation == preset.citation
        assert "Layer boundaries inside" not in panel.layers.grid_box.note
        plan = plan_phantom(preset.medium, **panel.layers.phantom_box.sizes)
        assert "rounded" not in panel.layers.phantom_box.note
        assert plan.columns % 2 == 1  # the beam's axis is in the middle of a voxel
        width = 2 * preset.settings.radial_bins * preset.settings.dr_mm
        assert plan.columns * plan.across_mm == pytest.approx(width, rel=0.05)
        assert np.prod(plan.shape) < 2e7
    change(panel, N, "1.6")
    assert panel.layers.presets.citation == f"Edited since it was loaded from {preset.citation}"


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
    assert script_of(panel) == NOTHING_COPIED
    panel.layers.table.model.remove(range(2))
    for text in ("Run", "Copy as Python", "Make voxel phantom"):
        panel.clear_message()
        button(panel, text).click()
        assert "there are no layers" in panel.message
    assert not panel.running
    assert not len(viewer.layers)


@pytest.mark.parametrize(
    ("set_up", "sentence"),
    [
        (lambda layers: layers.run_box.photons.text_box.setText("many"), "photons is 'many'"),
        (
            lambda layers: layers.run_box.photons.text_box.setText("1e12"),
            "photons is 1e+12; it must be at most 4.29497e+09",
        ),
        (lambda layers: layers.grid_box.boxes["dz_mm"].setValue(0.0), "dz_mm is 0 mm; it must be greater than 0"),
        (lambda layers: layers.grid_box.boxes["depth_bins"].setValue(100_000), "the grid has 100,000,000 bins"),
        (lambda layers: layers.beam_box.radius_box.setValue(0), "radius"),
    ],
    ids=["photons", "too many photons", "bin size", "bins", "beam"],
)
def test_numbers_that_cannot_be_run_are_a_sentence(panel, set_up, sentence):
    panel.layers.grid_box.boxes["radial_bins"].setValue(1000)
    set_beam(panel, FlatBeam(radius_mm=1.0))
    set_up(panel.layers)
    panel.run_button.click()
    assert sentence in panel.message
    assert not panel.running


def test_the_grid_says_how_it_fits_the_layers(panel):
    assert "MB" in panel.layers.grid_box.note
    panel.layers.grid_box.boxes["dz_mm"].setValue(0.03)
    assert "The grid ends at 0.6 mm, the layers at 1 mm." in panel.layers.grid_box.note
    assert "Layer boundaries inside a depth bin" in panel.layers.grid_box.note
    assert "0.4" in panel.layers.grid_box.note
    button(panel.layers.grid_box, "Fit").click()
    settings = panel.layers.draft().settings
    assert settings.dz_mm * settings.depth_bins == pytest.approx(1.0)
    assert 0.4 / settings.dz_mm == pytest.approx(round(0.4 / settings.dz_mm))
    assert "boundaries" not in panel.layers.grid_box.note
    panel.layers.table.model.type_in({(1, 5): "inf"})
    assert not button(panel.layers.grid_box, "Fit").isEnabled()


def test_settings_stay_as_they_were_given(panel):
    """Numbers that the inputs cannot show in full are still what is simulated."""
    given = dataclasses.replace(SETTINGS, seed=11, absorption="drop", roulette_threshold=1e-3, batches=5)
    panel.layers.run_box.set_settings(given)
    panel.layers.grid_box.set_settings(given)
    assert panel.layers.draft().settings == given


# ------------------------------------------------------------------------------------------------------- voxel phantoms


def test_a_voxel_phantom_is_simulated_in_voxels_with_the_same_inputs(viewer, panel, qtbot):
    run(qtbot, panel)
    set_beam(panel, GaussianBeam(radius_mm=0.3))
    settle(qtbot, panel)
    set_sizes(panel, 0.2, 0.2, 1.0, cyclic=True)
    assert "5 × 5 × 5 voxels" in panel.layers.phantom_box.note
    button(panel, "Make voxel phantom").click()
    settle(qtbot, panel)
    layer = viewer.layers["two layers in voxels"]
    assert "Below the layers n is 1.33" in panel.message
    assert not picture(viewer).visible
    assert viewer.dims.order == (1, 0, 2)
    viewer.layers.remove(layer)
    panel.voxels.run_box.set_live(False)
    button(panel, "… and simulate it").click()
    settle(qtbot, panel)
    assert panel.mode == "voxels"
    assert panel.voxels.labels_box.layer is viewer.layers["two layers in voxels"]
    for ours, theirs in zip(panel.voxels.table.media(), MEDIUM.layers, strict=True):
        assert (ours.name, ours.n, ours.mua_per_mm, ours.mus_per_mm, ours.g) == (
            theirs.name, theirs.n, theirs.mua_per_mm, theirs.mus_per_mm, theirs.g,
        )  # fmt: skip
    source = panel.voxels.controller.source()
    assert (source.kind, source.radius_mm, source.position_mm) == ("gaussian", 0.3, (0.0, 0.0, 0.0))
    assert source.direction == (0.0, 0.0, 1.0)
    assert panel.voxels.run_box.settings.faces[:4] == ("cyclic",) * 4
    assert panel.voxels.run_box.settings.photons == FEW


def test_a_phantom_that_cannot_be_made_is_a_sentence(viewer, panel, qtbot):
    set_sizes(panel, 1.0, 1.0, 5.0)
    button(panel, "Make voxel phantom").click()
    settle(qtbot, panel)
    assert "top is 0.4 mm thick and gets no voxel of 1 mm" in panel.message
    assert "top is 0.4 mm thick" in panel.layers.phantom_box.note
    assert not len(viewer.layers)


def test_proposed_sizes_follow_the_grid_until_others_are_typed(panel):
    assert panel.layers.phantom_box.sizes["width_mm"] == pytest.approx(4.0, rel=0.02)
    panel.layers.grid_box.boxes["radial_bins"].setValue(80)
    assert panel.layers.phantom_box.sizes["width_mm"] == pytest.approx(8.0, rel=0.02)
    panel.layers.phantom_box.width_box.setValue(3.3)
    panel.layers.grid_box.boxes["radial_bins"].setValue(40)
    assert panel.layers.phantom_box.sizes["width_mm"] == 3.3
    panel.layers.table.model.type_in({(1, 5): "inf"})
    assert panel.layers.phantom_box.sizes["depth_mm"] == pytest.approx(1.0)
    assert "ends at 1 mm here" in panel.layers.phantom_box.note
    assert "rounded to whole voxels" not in panel.layers.phantom_box.note

"""Light in layers: voxel phantoms of the layers."""

import numpy as np
import pytest

from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.layers.phantom import plan_phantom
from napari_gpubio.light.layers.presets import preset, preset_names
from tests.dock_widgets import button
from tests.light.gui.layers.panel_samples import FEW, MEDIUM, picture
from tests.light.gui.panel_samples import run, settle


def test_a_voxel_phantom_is_simulated_in_voxels_with_the_same_inputs(viewer, panel, qtbot):
    run(qtbot, panel)
    panel.layers.beam_box.set_beam(Beam(kind="gaussian", radius_mm=0.3))
    settle(qtbot, panel)
    panel.layers.phantom_box.set_sizes(0.2, 0.2, 1.0, cyclic=True)
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
    panel.layers.phantom_box.set_sizes(1.0, 1.0, 5.0)
    button(panel, "Make voxel phantom").click()
    settle(qtbot, panel)
    assert "top is 0.4 mm thick and gets no voxel of 1 mm" in panel.message
    assert "top is 0.4 mm thick" in panel.layers.phantom_box.note
    assert not len(viewer.layers)


def test_proposed_voxels_fit_every_layer(panel):
    for name in preset_names():
        panel.layers.presets.choose(name)
        medium, settings = preset(name).medium, preset(name).settings
        plan = plan_phantom(medium, **panel.layers.phantom_box.sizes)
        assert "rounded" not in panel.layers.phantom_box.note
        assert plan.columns % 2 == 1  # the beam's axis is in the middle of a voxel
        assert plan.columns * plan.across_mm == pytest.approx(2 * settings.radial_bins * settings.dr_mm, rel=0.05)
        assert np.prod(plan.shape) < 2e7


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

"""Whole-brain seeds of the tracking panel, and fibers that go to a file as they come."""

import numpy as np
import pytest
from napari.layers import Image

from napari_gpubio import fibers, tractograms
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.diffusion.napari_io import scan_layers
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers.gui import TrackingPanel
from tests.diffusion.brain_samples import coarse_brain
from tests.dock_widgets import button, press_and_wait, until_the_end, wait_until


@pytest.fixture
def panel(viewer, qtbot):
    """A tracking panel over the coarse brain's scan."""
    for data, keywords, kind in scan_layers(coarse_brain(), "brain"):
        getattr(viewer, f"add_{kind}")(data, **keywords)
    made = TrackingPanel(viewer)
    made.directions_form.widget("directions").value = "principal"
    made.settings_form.widget("max_steps").value = 50
    made.choose_device("cpu")
    yield from until_the_end(qtbot, viewer, made)


@pytest.mark.daily
@pytest.mark.display
def test_white_matter_is_found_and_seeded(viewer, panel, qtbot, tmp_path):
    press_and_wait(qtbot, panel, button(panel, "Whole brain"))
    field = panel.field
    found = volume_of(viewer.layers["white matter"]) > 0
    np.testing.assert_array_equal(found, fibers.seeds.white_matter(field))
    assert (fa_map(field)[found] >= 0.2).all()
    assert panel.seed_box.label == 1
    assert not viewer.layers["white matter"].visible, "it would cover the fibers"
    assert isinstance(viewer.layers.selection.active, Image)
    voxels, launch = found.sum(), panel.seed_box.launch
    assert f"launches {voxels:,} fibers from {voxels:,} voxels, " in launch.text()
    memory = fibers.needed_memory(field, fibers.seeds.white_matter_points(field), device="cpu").total
    assert f"{memory / 2**20:.0f} MB of memory and the fibers" in launch.text()
    panel.seed_box.form.widget("per_voxel").value = 3
    assert f"launches {3 * voxels:,} fibers" in launch.text()
    panel.seed_box.form.widget("per_voxel").value = 1
    press_and_wait(qtbot, panel, panel.run_button)
    assert "voxels, about " in launch.text(), "after a run it is known how long one takes"
    panel.seed_box.form.widget("per_voxel").value = 2
    wait_until(qtbot, lambda: not panel.is_busy)  # it is followed
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.track_to_file(tmp_path / "brain.trx")
    written = tractograms.io.read_tractogram(tmp_path / "brain.trx")
    assert panel.status.startswith("done in")
    assert panel.status.endswith(f": {len(written):,} fibers in brain.trx")
    settings = panel.settings_form.value()
    seeds = fibers.seeds.white_matter_points(field, per_voxel=2)
    expected = fibers.track(field, seeds, panel.directions_form.value(), settings, device="cpu")
    assert len(written) == len(expected) > 1000
    np.testing.assert_array_equal(written.offsets, expected.offsets)
    assert carried(viewer.layers["white matter"], "tractogram") is None


def test_without_tensors_there_is_nothing_to_seed(viewer, qtbot):
    for panel in until_the_end(qtbot, viewer, TrackingPanel(viewer)):
        button(panel, "Whole brain").click()
        assert "no tensors" in panel.message
        panel.track_to_file("brain.trx")
        assert "no tensors" in panel.message

"""The dock widgets of tractography: what their inputs describe is an operation, which another panel shows again."""

import dataclasses

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import HeldVolume
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.volumes import OpenVolume
from napari_gpubio.diffusion import operations as diffusion_operations
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.diffusion.gui import FodPanel, TensorPanel
from napari_gpubio.diffusion.samples import brain_atlas_layers, brain_sample_layers
from napari_gpubio.fibers.gui import ConnectomePanel, ConnectPanel, TrackingPanel
from napari_gpubio.tractograms import operations as tractograms_operations
from napari_gpubio.tractograms.gui import DissectionPanel, ProfilesPanel
from napari_gpubio.tractograms.gui.dissection.rules import AND, NUMBER, OR, Rule
from napari_gpubio.tractograms.gui.fibers import fibers_of, read_tractogram_layers
from tests.dock_widgets import until_the_end, wait_until
from tests.fibers.gui.test_connect_panel import LEFT, RIGHT
from tests.fibers.gui.tracking_samples import CALLOSUM, add_labels, add_sample, add_scan

BUNDLES = sample_path("brain_phantom/bundles.trk")


def again(viewer, qtbot, panel):
    """The draft of a panel, and what another panel of its kind says of that after it was told to show it."""
    draft = panel.take_draft()()
    for other in until_the_end(qtbot, viewer, type(panel)(viewer)):
        assert other.show_draft(draft)
        assert not other.show_draft(diffusion_operations.SphereRegion(center_mm=(0.0, 0.0, 0.0)))
        shown = other.take_draft()()
    return draft, shown


def add_fods(viewer):
    amplitudes = np.ones((4, 4, 4, 6), np.float32)
    fods = diffusion.FodField(coefficients=amplitudes, mask=amplitudes[..., 0] > 0, affine=np.eye(4))
    data, keywords, _ = fod_layer(fods, "small")
    return viewer.add_image(data, **keywords)


@pytest.fixture
def opened(viewer, qtbot):
    """Returns a panel in the viewer."""
    panels = []

    def make(kind):
        panels.append(until_the_end(qtbot, viewer, kind(viewer)))
        return next(panels[-1])

    yield make
    for one in panels:
        next(one, None)


def test_a_fit_with_a_mask_and_one_shell(viewer, opened, qtbot):
    add_scan(viewer)
    panel = opened(TensorPanel)
    panel.mask_box.choose(add_labels(viewer, CALLOSUM, size=4)[0])
    panel.form.widget("iterations").value = 1
    draft, shown = again(viewer, qtbot, panel)
    assert isinstance(draft.mask.of, HeldVolume)
    assert draft == shown
    viewer.layers.clear()
    for other in until_the_end(qtbot, viewer, TensorPanel(viewer)):
        assert not other.show_draft(draft), "its scan is gone"


@pytest.mark.parametrize("text", ["one fiber: dominant peaks (tournier)", "two tissues: white matter, CSF"])
def test_a_deconvolution(viewer, opened, qtbot, text):
    add_scan(viewer)
    panel = opened(FodPanel)
    panel.response_box.box.setCurrentIndex(panel.response_box.box.findText(text))
    panel.response_box.normalize.setChecked(True)
    panel.form.widget("lmax").value = 4
    draft, shown = again(viewer, qtbot, panel)
    assert draft.settings.lmax == 4
    assert draft == shown


def test_tracking_from_a_seed(viewer, opened, qtbot):
    add_sample(viewer, brain_sample_layers)
    panel = opened(TrackingPanel)
    panel.bundles.add(CALLOSUM)
    panel.settings_form.set_value(fiber_tracking.EuDX(step_mm=0.7))
    panel.seed_box.form.widget("points").value = 7
    draft, shown = again(viewer, qtbot, panel)
    assert (draft.seeds.seed, draft.seeds.points, draft.method.step_mm) == ((CALLOSUM,), 7, 0.7)
    assert draft == shown


def test_connections_connectomes_and_profiles(viewer, opened, qtbot):
    add_sample(viewer, brain_sample_layers)
    ((labels, keywords, _),) = brain_atlas_layers()
    layer = viewer.add_labels(labels, **keywords)
    for fibers in read_tractogram_layers(str(BUNDLES)):
        viewer.add_layer(fibers)
    panel = opened(ConnectPanel)
    panel.start_box.choose(layer, LEFT)
    panel.end_box.choose(layer, RIGHT)
    draft, shown = again(viewer, qtbot, panel)
    assert draft == shown
    panel.fods_box.choose(add_fods(viewer))
    draft, shown = again(viewer, qtbot, panel)
    assert draft.fods is not None
    assert draft == shown
    draft, shown = again(viewer, qtbot, opened(ConnectomePanel))
    assert isinstance(draft, tractograms_operations.MakeConnectome)
    assert draft == shown
    draft, shown = again(viewer, qtbot, opened(ProfilesPanel))
    assert draft == shown


def test_rules_with_regions_that_no_session_has(viewer, opened, qtbot):
    """They become layers, as fibers of a file do; regions of an atlas are found in it."""
    tractograms.show(viewer, BUNDLES)
    data, keywords, _ = brain_atlas_layers()[0]
    atlas = viewer.add_labels(data, **keywords)
    panel = opened(DissectionPanel)
    panel.add_rule(Rule(layer=atlas, key=LEFT))
    panel.add_rule(Rule(AND, NUMBER, measure="length_mm", low=20.123456789, high=150.0))
    panel.add_sphere()
    panel.add_rule(Rule(OR, "not_ends", layer=add_labels(viewer, CALLOSUM, size=5)[0], key=1))
    viewer.dims.set_point(0, 20.0)
    panel.add_box()
    wait_until(qtbot, lambda: not panel.running)
    draft = panel.take_draft()()
    assert len(draft.include) == 2
    other = ViewerModel()
    data, keywords, _ = brain_atlas_layers()[0]
    about = keywords["metadata"][KEY]  # as a session opens it
    about[RECORD] = record_of_output(OpenVolume.at(about.pop("path")).output())
    other.add_labels(data, **keywords)
    made = until_the_end(qtbot, other, DissectionPanel(other))
    shows = next(made)
    few = tractograms_operations.HeldTractogram.of(fibers_of(viewer.layers["bundles"]).select(range(2)), "few")
    assert not shows.show_draft(dataclasses.replace(draft, fibers=tractograms_operations.FindClusters(fibers=few)))
    assert shows.show_draft(draft)
    assert {layer.name for layer in other.layers[1:]} == {"bundles", "sphere", "region 1", "box"}
    assert not shows.running
    assert shows.take_draft()() == draft
    shows.run()
    wait_until(qtbot, lambda: not shows.running)
    assert shows.operation() == draft
    np.testing.assert_array_equal(other.layers["bundles"].shown, viewer.layers["bundles"].shown)
    next(made, None)

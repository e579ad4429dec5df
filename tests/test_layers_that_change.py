"""Layers may be locked, hidden, renamed or deleted at every moment of a run, in every panel that takes them."""

import functools
import threading
from itertools import pairwise

import numpy as np
import pytest
from napari.layers import Image, Labels, Points, Vectors
from qtpy.QtWidgets import QCheckBox

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.arrays import array_checksum
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.diffusion.gui import FodPanel
from napari_gpubio.diffusion.napari_io import map_layer
from napari_gpubio.diffusion.samples import brain_atlas_layers
from napari_gpubio.fibers.gui import ConnectomePanel, ConnectPanel, UncertaintyPanel
from napari_gpubio.gui.jobs import Job
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.light.gui.quick_runs import QuickRuns
from napari_gpubio.tractograms.gui import DissectionPanel, ProfilesPanel
from napari_gpubio.tractograms.gui.dissection.rules import Rule
from tests.denoise.gui import panel_samples as denoise
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.gui import tensor_samples as tensors
from tests.dock_widgets import press_and_wait, wait_until
from tests.dose.gui import panel_samples as dose
from tests.fibers.gui import test_uncertainty_panel as uncertainty
from tests.fibers.gui import tracking_samples as tracking
from tests.gui import sixth_engine
from tests.light.gui import panel_samples as light
from tests.light.gui.layers import panel_samples as layered
from tests.light.gui.test_fibers import add_map
from tests.speckle.gui import panel_samples as speckle


def with_dose(viewer, qtbot):
    panel = dose.add_panel(viewer)
    dose.User(viewer, panel, qtbot).add_case()
    return panel


def with_volume(viewer, _):
    panel = denoise.add_panel(viewer)
    denoise.add_volume(viewer)
    return panel


def with_ball(viewer, qtbot):
    panel = light.add_panel(viewer)
    light.add_ball(viewer)
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(light.LEFT)
    light.settle(qtbot, panel)
    return panel


def with_layers(viewer, qtbot):
    panel = layered.add_panel(viewer)
    light.settle(qtbot, panel)
    return panel


def with_stack(viewer, _):
    panel = speckle.add_panel(viewer)
    speckle.add_stack(viewer)
    return panel


def with_scan(viewer, _):
    panel = tensors.add_panel(viewer)
    tensors.add_scan(viewer, tensors.sticks())
    return panel


def with_seed(viewer, qtbot):
    panel = tracking.add_panel(viewer)
    tracking.add_maps(viewer)
    tracking.User(viewer, panel, qtbot).click(tracking.CALLOSUM)
    return panel


PANELS = {
    "tensors": with_scan,
    "tracking": with_seed,
    "light": with_ball,
    "light in layers": with_layers,
    "denoise": with_volume,
    "dose": with_dose,
    "speckle": with_stack,
}
CHANGES = {
    "locked": lambda _, layer: setattr(layer, "locked", True),
    "not editable": lambda _, layer: setattr(layer, "editable", False),
    "hidden": lambda _, layer: setattr(layer, "visible", False),
    "renamed": lambda _, layer: setattr(layer, "name", f"{layer.name} of a user"),
    "deleted": lambda viewer, layer: viewer.layers.remove(layer),
    "renamed and deleted": lambda viewer, layer: (CHANGES["renamed"](viewer, layer), viewer.layers.remove(layer)),
}


def with_fibers(viewer):
    tractograms.show(viewer, sample_path("brain_phantom/bundles.trk"))
    return viewer.layers["bundles"]


def with_regions(viewer):
    data, keywords, _ = brain_atlas_layers()[0]
    return viewer.add_labels(data, **keywords)


def with_map(viewer):
    data, keywords, _ = map_layer(coarse_field(), "FA", "coarse")
    return viewer.add_image(data, **keywords)


@functools.cache
def coarse_field():
    return diffusion.fit_tensors(coarse_brain(), device="cpu")


def with_rules(viewer, qtbot):
    with_fibers(viewer)
    regions = with_regions(viewer)
    panel = DissectionPanel(viewer)
    for rule in (Rule(layer=regions, key=21), Rule(role="not_through", layer=regions, key=3)):
        with qtbot.waitSignal(panel.run_finished, timeout=60_000):
            panel.add_rule(rule)
    for add in (panel.add_sphere, panel.add_box):
        with qtbot.waitSignal(panel.run_finished, timeout=60_000):
            add()
    return panel


def with_bundle(viewer, _):
    with_fibers(viewer)
    with_map(viewer)
    return ProfilesPanel(viewer)


def with_ends(viewer, _):
    with_map(viewer)
    with_regions(viewer)
    amplitudes = np.zeros((*coarse_field().shape, 6), np.float32)
    fods = diffusion.FodField(coefficients=amplitudes, mask=coarse_field().mask, affine=coarse_field().affine)
    data, keywords, _ = fod_layer(fods, "coarse")
    viewer.add_image(data, **keywords)
    panel = ConnectPanel(viewer)
    panel.directions_form.widget("count").value = 12
    panel.directions_form.widget("half_angle_deg").value = 30.0
    return panel


def with_atlas(viewer, _):
    with_fibers(viewer)
    with_regions(viewer)
    return ConnectomePanel(viewer)


def with_shells(viewer, _):
    tensors.add_scan(viewer, coarse_brain())
    panel = FodPanel(viewer)
    panel.form.widget("lmax").value = 4
    panel.shows_glyphs.setChecked(False)  # which are drawn again where the slice is another one
    return panel


def with_noise(viewer, _):
    tensors.add_scan(viewer, coarse_brain())
    fibers = fiber_tracking.track(
        coarse_field(), [uncertainty.SEED], uncertainty.MADE.directions, uncertainty.MADE.method
    )
    about = {"settings": uncertainty.MADE, "seeds_mm": np.array([uncertainty.SEED])}
    tractograms.show(viewer, fibers, "bundle 1", metadata=about)
    panel = UncertaintyPanel(viewer)
    for name in ("repeats", "kept_repeats", "margin_mm"):
        panel.form.widget(name).value = getattr(uncertainty.FEW, name)
    return panel


def with_image(viewer, _):
    panel = sixth_engine.ThresholdPanel(viewer)
    for name in ("t1", "t2"):
        sixth_engine.add(viewer, name=name)
    panel.form.boxes["mask"].choose(viewer.add_labels(np.ones(sixth_engine.VALUES.T.shape, int), name="mask"))
    return panel


def with_layers(viewer, _):
    return layered.add_panel(viewer)


EVERY = PANELS | {
    "dissection": with_rules,
    "profiles": with_bundle,
    "connect": with_ends,
    "connectome": with_atlas,
    "orientations": with_shells,
    "uncertainty": with_noise,
    "light in layers": with_layers,
    "an operation": with_image,
}
LIVE = "live", "quick run after every change"


def settled(qtbot):
    """Wait longer than anything is put off, and until nothing runs."""
    qtbot.wait(250)
    wait_until(qtbot, lambda: not any(thread.name == "napari-gpubio job" for thread in threading.enumerate()))


class HeldForm:
    """Holds each run of a panel back after its first step until ``go`` is set."""

    def __init__(self, panel):
        self.go, self.waiting = threading.Event(), threading.Event()
        self._make = panel.run_form.make_steps
        panel.run_form.make_steps = self._steps

    def _steps(self, stop):
        return self._held(self._make(stop))

    def _held(self, steps):
        step = next(steps)
        self.waiting.set()
        self.go.wait(60)
        yield step
        return (yield from steps)


def change_all(viewer, change):
    for layer in list(viewer.layers):
        if layer in viewer.layers:  # what marks the source of light goes with its labels
            CHANGES[change](viewer, layer)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("panel_of", PANELS.values(), ids=PANELS)
def test_layers_may_change_while_a_run_computes_and_while_its_results_are_shown(
    viewer, qtbot, errors, panel_of, change
):
    panel = panel_of(viewer, qtbot)
    try:
        press_and_wait(qtbot, panel, panel.run_button)
        first = len(viewer.layers)
        held = HeldForm(panel)
        panel.run_button.click()
        qtbot.wait_until(held.waiting.is_set)
        change_all(viewer, change)  # the inputs, and the layers that will be written
        held.go.set()
        wait_until(qtbot, lambda: not panel.running)
        assert errors() == []
        if "deleted" in change:
            return
        change_all(viewer, change)
        press_and_wait(qtbot, panel, panel.run_button)
        assert panel.message == ""
        assert len(viewer.layers) >= first
        if change != "renamed" and panel_of is not with_scan:  # which keeps the maps of each fit
            assert len(viewer.layers) == first, "results are written into their layers"
    finally:
        panel.teardown()
    assert errors() == []


def hide_and_show(_, layers):
    for layer in 2 * layers:
        layer.visible = not layer.visible


def move_and_delete_half(viewer, layers):
    for layer in layers:
        viewer.layers.move(viewer.layers.index(layer), 0)
    delete(viewer, layers[::2])


def rename_and_delete(viewer, layers):
    for before, layer in pairwise(layers):
        layer.name = before.name
    delete(viewer, layers)


def delete(viewer, layers):
    for layer in layers:
        if layer in viewer.layers:  # the source of light goes with its labels
            viewer.layers.remove(layer)


def shown_by(layer):
    """What a layer shows, and what made it."""
    values = layer.data if isinstance(layer, Image | Labels | Points | Vectors) else ()
    return record_of(layer), array_checksum(np.asarray(values)), carried(layer, "tractogram")


def draft_of(panel):
    """What Run would do."""
    try:
        made = panel.run_form.take_draft()
        return None if made is None else made()
    except InvalidInput:
        return None


def boxes_of(panel):
    """The lists of layers of a panel, and what each says."""
    return {box: (box.layer, box.currentText()) for box in panel.findChildren(LayerBox)}


def choose_oldest(panel):
    """Choose a layer wherever one can be chosen: the oldest, which no list would suggest."""
    for box in panel.findChildren(LayerBox):
        if offered := [layer for layer in panel.viewer.layers if box._why_not(layer) is None]:
            box.choose(offered[0])
        box.settle()


@pytest.mark.parametrize("panel_of", EVERY.values(), ids=EVERY)
def test_nothing_that_happens_to_layers_chooses_runs_or_changes_anything(viewer, qtbot, monkeypatch, panel_of):
    """With live on where there is such a box, after a run, and with a layer chosen in each list."""
    panel, begun, start = panel_of(viewer, qtbot), [], Job.start
    try:
        press_and_wait(qtbot, panel, panel.run_button)
        assert panel.message == "" or panel_of is with_shells, "whose mask has voxels without a signal"
        for box in panel.findChildren(QCheckBox):
            if box.text() in LIVE:
                box.setChecked(True)
        choose_oldest(panel)
        settled(qtbot)
        wait_until(qtbot, lambda: not panel.stale_line.is_busy)
        comparing = panel.stale_line.children()  # runs nothing
        monkeypatch.setattr(Job, "start", lambda job: (job.parent() in comparing or begun.append(job), start(job)))
        layers = list(viewer.layers)
        before, draft, boxes, runs = [*map(shown_by, layers)], draft_of(panel), boxes_of(panel), STORE.runs
        for change in (hide_and_show, move_and_delete_half, rename_and_delete):
            change(viewer, layers)
            settled(qtbot)
            assert begun == []
        assert not viewer.layers
        assert STORE.runs == runs
        assert [*map(shown_by, layers)] == before
        for box, (layer, text) in boxes_of(panel).items():
            assert layer == boxes[box][0]
            assert text == boxes[box][1] if layer is None else f"deleted: {layer.name}"
        assert panel_of is with_bundle or draft_of(panel) == draft, "bundles are measured as they are on screen"
    finally:
        panel.teardown()


def test_no_change_of_layers_starts_a_run_of_light_or_changes_what_it_would_be_of(viewer, qtbot, monkeypatch):
    panel = with_ball(viewer, qtbot)
    try:
        tensors_of_fibers = add_map(viewer)
        viewer.add_image(np.ones((4, 4)), name="other")
        spots = viewer.add_image(np.outer([1.0, 2.0, 4.0], [1.0, 0.5]), name="spots")
        panel.voxels.fiber_box.choice.choose(tensors_of_fibers)
        panel.voxels.source_box.form.widget("source").value = "pattern"
        panel.voxels.source_box.pattern_box.choose(spots)
        drafts, runs = [], []
        for mode in ("voxels", "layers"):
            panel.set_mode(mode)
            panel.run_form.run_box.photons.set_value(light.FEW)
            panel.run_form.run_box.set_live(False)
            press_and_wait(qtbot, panel, panel.run_button)
            panel.run_form.run_box.set_live(True)
            light.settle(qtbot, panel)
            drafts.append(panel.take_draft()())
        monkeypatch.setattr(QuickRuns, "submit", lambda *_, **__: runs.append(1))
        for change in ("hidden", "renamed", "reversed", "deleted"):
            for draft, mode in zip(drafts, ("voxels", "layers"), strict=True):
                panel.set_mode(mode)
                if change == "reversed":
                    viewer.layers.move_multiple(range(len(viewer.layers))[::-1], 0)
                elif mode == "voxels" or change != "deleted":
                    change_all(viewer, change)
                light.settle(qtbot, panel)
                assert panel.take_draft()() == draft, (change, mode)
        assert not runs
        panel.set_mode("voxels")
        panel.voxels.place_source(light.TOP)
        assert "was deleted; choose another layer" in panel.message
        assert not runs
        monkeypatch.undo()
        panel.run_button.click()
        assert "was deleted; choose another layer" in panel.message
        assert panel.voxels.results.result.complete
    finally:
        panel.teardown()

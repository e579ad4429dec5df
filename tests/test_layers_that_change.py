"""Layers may be locked, hidden, renamed or deleted at every moment of a run, in every panel that takes them."""

import threading

import numpy as np
import pytest

from napari_gpubio.light.gui.mode import QuickRuns
from tests.denoise.gui import panel_samples as denoise
from tests.dock_widgets import press_and_wait, wait_until
from tests.dose.gui import panel_samples as dose
from tests.light.gui import panel_samples as light
from tests.light.gui.layers import panel_samples as layered
from tests.light.gui.test_fibers import add_map
from tests.speckle.gui import panel_samples as speckle
from tests.tracts.gui import tensor_samples as tensors
from tests.tracts.gui import tracking_samples as tracking


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
        if layer in viewer.layers:  # the source of light goes with its labels
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
        assert runs, "an edit of the inputs does"
        monkeypatch.undo()
        press_and_wait(qtbot, panel, panel.run_button)
        assert panel.message == ""
        assert panel.voxels.results.result.complete
    finally:
        panel.teardown()

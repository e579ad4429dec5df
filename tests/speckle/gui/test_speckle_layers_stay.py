"""Nothing that happens to layers starts a run or changes a result, with live imaging on."""

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.operations import Store, digest
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.speckle.gui.inputs import MESI
from napari_gpubio.speckle.gui.run import StackRun
from napari_gpubio.speckle.mesi import MesiRecipe
from napari_gpubio.speckle.pulsatility import PulsatilitySettings
from napari_gpubio.speckle.settings import ContrastSettings, NoiseModel
from tests.dock_widgets import save_scripts_as, script_of, shown_by_script, wait_until
from tests.speckle.gui.panel_samples import add_stack, box, choose_dark, draw, speckle, start
from tests.speckle.gui.panel_samples import run as run_stack
from tests.speckle.test_speckle_operations import leaves

FRAMES = speckle(8)


def hide(viewer, one):
    one.visible = not one.visible


def rename(viewer, one):
    one.name = f"{one.name} of another name"


def reorder(viewer, one):
    viewer.layers.move(viewer.layers.index(one), 0)


def remove(viewer, one):
    viewer.layers.remove(one)


def rename_then_remove(viewer, one):
    rename(viewer, one)
    reorder(viewer, one)
    remove(viewer, one)


@pytest.fixture
def made(viewer, panel, qtbot):
    """A panel after a run of a stack with dark frames and regions, which is live with the same stack."""
    other = add_stack(viewer, speckle(8)[::-1].copy(), "other frames")
    add_stack(viewer, np.random.default_rng(4).poisson(90, FRAMES.shape).astype(np.uint16), "other dark")
    add_stack(viewer, np.random.default_rng(3).poisson(100, FRAMES.shape).astype(np.uint16), "dark")
    add_stack(viewer, FRAMES)
    choose_dark(panel, qtbot)
    panel.source_box.stack.layer_box.setCurrentText("frames")
    run_stack(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 25))
    assert other in viewer.layers
    start(qtbot, panel)
    return panel


@pytest.mark.parametrize("act", [hide, rename, reorder, remove, rename_then_remove])
def test_nothing_that_happens_to_layers_runs_or_changes_anything(viewer, made, qtbot, act):
    panel, runs = made, STORE.runs
    operation, result = panel.result.operation, panel.result.made
    before = {name: digest(operation.result(result, name)) for name in operation.makes}
    recipe, source = panel.runner.process.recipe, panel.runner.loop.source
    chosen = panel.source_box.stack.layer_box.layer, panel.contrast_box.noise.layer
    draft = panel._read().operation(Store())
    live = panel.layers.map
    for one in [*viewer.layers]:
        if one != live and one != panel.regions.listener.layer:  # what is drawn says where curves are
            act(viewer, one)
    qtbot.wait(300)  # longer than anything is put off
    assert not panel.running
    assert STORE.runs == runs
    assert panel.result.operation is operation
    assert {name: digest(operation.result(panel.result.made, name)) for name in operation.makes} == before
    assert panel.runner.process.recipe.settings == recipe.settings
    assert panel.runner.process.recipe.has_same_k2(recipe)
    assert panel.runner.loop.source is source
    assert (panel.source_box.stack.layer_box.layer, panel.contrast_box.noise.layer) == chosen
    assert panel._read().operation(Store()) == draft
    assert panel.operation().dark == operation.dark


def test_the_script_of_a_result_does_not_follow_the_panel(viewer, panel, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    stack = add_stack(viewer, FRAMES)
    run_stack(qtbot, panel)
    shown = viewer.layers["SFI (1/s) of frames"]
    want, operation = shown.data.copy(), record_of(shown).of
    panel.contrast_box.form.widget("window").value = 9
    panel.contrast_box.choose_index("ict")
    stack.name = "another"
    viewer.layers.remove(stack)
    add_stack(viewer, FRAMES[:5].copy(), "new")
    assert panel.operation() == operation
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "sfi of frames.tif"), want)


def test_what_is_removed_stays_named_and_a_run_asks_for_another(viewer, panel, qtbot):
    stack = add_stack(viewer, FRAMES)
    add_stack(viewer, FRAMES[:5].copy(), "newer")
    panel.source_box.stack.layer_box.setCurrentText("frames")
    viewer.layers.remove(stack)
    assert panel.source_box.stack.layer_box.currentText() == "deleted: frames"
    panel.run()
    assert panel.message == "'frames' was deleted; choose another layer, or open it again"
    panel.source_box.stack.layer_box.setCurrentText("newer")
    wait_until(qtbot, lambda: panel.source_box.stack.layer.name == "newer")


def test_layers_of_a_fit_carry_what_they_show(viewer, panel, qtbot):
    add_stack(viewer, np.random.default_rng(0).gamma(9, 100, (6, 30, 30)).astype(np.uint16))
    panel.contrast_box.choose_index(MESI)
    panel.contrast_box.mesi.exposures.setText("1 2 4 8 16 32")
    run_stack(qtbot, panel)
    assert isinstance(panel.result.run, StackRun)
    for name, part in (("MESI τ (ms) of frames", "tau_ms"), ("MESI 1/τ (1/s) of frames", "ict")):
        record = record_of(viewer.layers[name])
        assert record == panel.result.operation.output(part)
        np.testing.assert_array_equal(run(record, device="cpu").array, viewer.layers[name].data)


@pytest.mark.parametrize(
    ("settings", "typed_elsewhere"),
    [
        (ContrastSettings(), {("index", "baseline")}),  # the box "Baseline (maps)"
        (NoiseModel(), set()),
        (MesiRecipe(exposures_ms=()), {("exposures_ms",)}),  # a line of text
        (PulsatilitySettings(), set()),
    ],
)
def test_every_setting_is_a_row(qtbot, settings, typed_elsewhere):
    form = ParamForm(settings)
    qtbot.addWidget(form)
    assert {*form._widgets} == {*leaves(type(settings))} - typed_elsewhere

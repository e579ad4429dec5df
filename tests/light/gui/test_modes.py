"""The dock widget "Light transport" and its two modes: who switches loses nothing, and what both modes do alike."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.scripts import names_of_held
from napari_gpubio.core.steps import drive
from napari_gpubio.gui.views import camera_of
from napari_gpubio.layered import operations
from napari_gpubio.layered.operations import SimulateLayers
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.display import DecadeBar
from napari_gpubio.light.gui.mode import LightMode
from napari_gpubio.light.operations import Simulate
from tests.dock_widgets import MILLISECONDS, Held, button, until_the_end
from tests.light.gui.layers import panel_samples as layer_samples
from tests.light.gui.layers.panel_samples import MEDIUM, MUA, SETTINGS, picture
from tests.light.gui.panel_samples import (
    FEW,
    LEFT,
    TOP,
    add_ball,
    add_panel,
    click,
    fluence,
    held_in_voxels,
    held_run,
    result,
    run,
    set_strength,
    settle,
)


@pytest.fixture
def quiet(panel):
    """A source on the left, and nothing that runs by itself."""
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    return panel


# ------------------------------------------------------------------------------------------------------- switching


def test_the_buttons_switch_and_nothing_typed_is_lost(quiet):
    quiet.voxels.table.model.type_in({(0, 2): "0.123"})
    media, settings = quiet.voxels.table.media(), quiet.voxels.run_box.settings
    button(quiet, "Layers").click()
    assert quiet.mode == "layers"
    assert quiet.voxels.isHidden()
    assert not quiet.layers.isHidden()
    quiet.layers.table.set_medium(MEDIUM)
    button(quiet, "Voxels").click()
    assert (quiet.voxels.table.media(), quiet.voxels.run_box.settings) == (media, settings)
    assert quiet.voxels.controller.optodes.source is not None
    button(quiet, "Layers").click()
    assert quiet.layers.table.medium() == MEDIUM


def test_the_other_mode_is_made_when_it_is_chosen(viewer, qtbot):
    panel = LightPanel(viewer)
    qtbot.addWidget(panel)
    assert len(panel.findChildren(LightMode)) == 1
    panel.set_mode("layers")
    assert len(panel.findChildren(LightMode)) == 2
    panel.teardown()


def test_results_of_each_mode_are_hidden_and_come_back(viewer, quiet, qtbot):
    run(qtbot, quiet)
    volume = fluence(viewer)
    quiet.set_mode("layers")
    qtbot.waitUntil(lambda: not quiet.stale_line.is_busy)
    assert quiet.stale_line.isHidden()  # the settings of layers say nothing of voxels
    assert not volume.visible
    quiet.layers.grid_box.set_settings(SETTINGS)
    quiet.layers.run_box.set_settings(SETTINGS)
    quiet.layers.table.set_medium(MEDIUM)
    run(qtbot, quiet)
    assert picture(viewer).visible
    assert quiet.layers.results.result.launched == SETTINGS.photons
    quiet.set_mode("voxels")
    assert volume.visible
    assert not picture(viewer).visible
    assert quiet.voxels.results.result is result(viewer)
    assert type(quiet.stale_line.made_with()) is Simulate


def run_layers(qtbot, panel):
    panel.set_mode("layers")
    panel.layers.grid_box.set_settings(SETTINGS)
    panel.layers.run_box.set_settings(SETTINGS)
    panel.layers.table.set_medium(MEDIUM)
    run(qtbot, panel)


def visible_names(viewer):
    return {layer.name for layer in viewer.layers if layer.visible}


def test_a_map_of_layers_lies_in_no_head(viewer, quiet, qtbot):
    """Volumes, sources and detectors are hidden while it is shown, and come back as they were seen."""
    run(qtbot, quiet)
    viewer.add_image(np.zeros((5, 6, 7)), name="hidden", visible=False)
    viewer.dims.order = (2, 0, 1)
    camera_of(viewer).zoom = 3.5
    before, order = visible_names(viewer), viewer.dims.order
    assert {"ball", "source and detectors", "source beam"} < before
    run_layers(qtbot, quiet)
    assert visible_names(viewer) == {picture(viewer).name, "layer borders", "layer names"}
    assert tuple(viewer.dims.order) == (0, 1, 2)
    center = picture(viewer).extent.world.mean(axis=0)
    assert np.allclose(camera_of(viewer).center[-2:], center, atol=0.1)
    quiet.set_mode("voxels")
    assert visible_names(viewer) == before
    assert viewer.dims.order == order
    assert camera_of(viewer).zoom == 3.5
    quiet.set_mode("layers")
    assert picture(viewer).visible
    assert not viewer.layers["ball"].visible
    viewer.layers.remove(picture(viewer))
    assert viewer.layers["ball"].visible


def test_a_head_that_is_opened_takes_the_place_of_the_map(viewer, panel, qtbot):
    run_layers(qtbot, panel)
    assert not viewer.layers["ball"].visible
    head = viewer.add_image(np.zeros((5, 6, 7)), name="head")
    assert head.visible
    assert viewer.layers["ball"].visible
    assert not picture(viewer).visible
    run(qtbot, panel)
    assert picture(viewer).visible
    assert not head.visible


def test_what_a_run_in_voxels_gives_stays_behind_the_map(viewer, quiet, qtbot, held):
    quiet.run_button.click()
    held.wait(qtbot)
    quiet.set_mode("layers")
    held.go.set()
    settle(qtbot, quiet)
    assert fluence(viewer) is not None
    assert not fluence(viewer).visible
    quiet.set_mode("voxels")
    assert fluence(viewer).visible


def test_a_click_places_no_source_while_layers_are_on_screen(viewer, panel):
    panel.voxels.run_box.set_live(False)
    panel.set_mode("layers")
    click(viewer, LEFT)
    assert panel.voxels.controller.optodes.source is None
    panel.set_mode("voxels")
    click(viewer, LEFT)
    assert panel.voxels.controller.optodes.source is not None


def test_a_run_shows_its_result_in_the_mode_that_began_it(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    panel.set_mode("layers")
    held.go.set()
    settle(qtbot, panel)
    assert panel.voxels.results.result.launched == FEW
    assert panel.layers.results.result is None


def test_there_is_one_set_of_plots_with_the_tabs_of_the_mode(viewer, panel):
    panel.plots.open()
    tabs = panel.plots.window.tabs

    def shown():
        return [tabs.tabText(index) for index in range(tabs.count()) if tabs.isTabVisible(index)]

    assert shown() == ["Profile", "Detectors"]
    panel.set_mode("layers")
    assert shown() == ["Inside", "Escaping"]
    tabs.setCurrentIndex(3)
    panel.set_mode("voxels")
    panel.set_mode("layers")
    assert tabs.currentIndex() == 3
    assert panel.plots.window is tabs.parentWidget()


def test_copy_as_python_is_of_the_mode_on_screen(quiet):
    assert names_of_held(quiet.run_form.operation()) == ["ball"]
    quiet.set_mode("layers")
    assert isinstance(quiet.run_form.operation(), SimulateLayers)


# ------------------------------------------------------------------------------------------------------ both modes


@pytest.fixture(params=["voxels", "layers"])
def ready(request, viewer, qtbot):
    """A panel in each mode, with everything that a run needs."""
    if request.param == "layers":
        panel = layer_samples.add_panel(viewer)
    else:
        panel = add_panel(viewer)
        add_ball(viewer)
        settle(qtbot, panel)
        panel.voxels.run_box.set_live(False)
        panel.voxels.place_source(LEFT)
    yield from until_the_end(qtbot, viewer, panel)


@pytest.fixture
def held_mode(monkeypatch, ready):
    """Holds every run of the mode back until ``go`` is set."""
    is_of_layers = ready.mode == "layers"
    held = Held(monkeypatch, operations, "simulate_steps") if is_of_layers else held_in_voxels(monkeypatch)
    yield from held.until_the_end()


def change(panel):
    """Change what is simulated."""
    if panel.mode == "voxels":
        panel.voxels.place_source(TOP)
    else:
        layer_samples.change(panel, MUA, "7")


def changed(panel, run):
    """What `change` changes, in a request or in a result."""
    return run.source.position_mm if panel.mode == "voxels" else run.medium


def test_while_it_runs_nothing_is_called_stopped_and_stop_keeps_what_was_done(ready, qtbot):
    mode, many = ready.run_form, 400_000_000
    mode.run_box.photons.set_value(many)
    ready.run_button.click()
    assert ready.run_button.text() == "Stop"
    qtbot.waitUntil(lambda: mode.results.displayed is not None, timeout=MILLISECONDS)
    assert ready.running
    assert mode.view.layer() is not None
    assert f" of {many:,} photons" in mode.results.findings
    assert "Running: " in mode.results.findings
    assert not any(word in mode.results.findings for word in ("Stopped", "batches"))
    assert not button(ready, "Continue").isEnabled()
    with qtbot.waitSignal(ready.run_finished, timeout=10_000):
        ready.run_button.click()
    settle(qtbot, ready)
    assert ready.run_button.text() == "Run"
    stopped = mode.results.result
    assert not stopped.complete
    assert 0 < stopped.launched < many
    total = stopped.energy.total if ready.mode == "voxels" else stopped.total
    assert total == pytest.approx(1.0, abs=1e-6)
    assert f"Stopped after {stopped.launched:,} of {many:,}" in mode.results.findings
    assert "Running" not in mode.results.findings
    assert button(ready, "Continue").isEnabled()
    if ready.mode == "voxels":
        assert ready.status == f"stopped after {stopped.launched:,} photons; Continue adds photons"


def test_a_change_during_a_run_lets_it_go_on_and_says_so(ready, qtbot, held_mode):
    mode = ready.run_form
    begun = changed(ready, mode.draft())
    ready.run_button.click()
    held_mode.wait(qtbot)
    mode.run_box.set_live(True)
    change(ready)
    assert "Press Stop, then Run" in ready.message
    held_mode.go.set()
    settle(qtbot, ready)
    assert changed(ready, mode.results.result) == begun
    run(qtbot, ready)
    assert changed(ready, mode.results.result) == changed(ready, mode.draft()) != begun


@pytest.mark.display
@pytest.mark.parametrize(
    ("ready", "what"),
    [
        *(("voxels", what) for what in ("ball", "source and detectors", "source beam", "fluence", "everything")),
        *(("layers", what) for what in ("fluence", "layer borders", "layer names", "everything")),
    ],
    indirect=["ready"],
)
def test_removing_layers_during_a_run_does_no_harm(viewer, ready, qtbot, held_mode, errors, what):
    held_mode.go.set()
    run(qtbot, ready)
    held_mode.again()
    STORE.clear()  # so that it is run again
    ready.run_button.click()
    held_mode.wait(qtbot)
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(ready.run_form.view.layer().name if what == "fluence" else what)
    held_mode.go.set()
    settle(qtbot, ready)
    assert not errors()
    assert ready.run_button.text() == "Run"
    assert carried(ready.run_form.view.layer(), "result").launched == 2 * FEW
    assert ("layer borders" in viewer.layers) == (ready.mode == "layers")


def test_a_picture_can_be_kept_to_compare(viewer, ready, qtbot):
    run(qtbot, ready)
    view = ready.run_form.view
    first, kept = view.layer(), ready.run_form.results.result
    button(ready, "Keep these layers").click()
    change(ready)
    run(qtbot, ready)
    assert first in viewer.layers
    assert carried(first, "result") is kept
    assert view.layer() is not first
    assert changed(ready, carried(view.layer(), "result")) == changed(ready, ready.run_form.draft())
    if ready.mode == "voxels":
        assert [layer.name for layer in viewer.layers][-2:] == ["source beam", "source and detectors"]


def test_the_legend_shows_powers_of_ten_and_the_unit(viewer, ready, qtbot):
    box = ready.run_form.display_box
    bar = box.findChild(DecadeBar)
    assert bar.isHidden()
    run(qtbot, ready)
    layer = ready.run_form.view.layer()
    high = round(layer.contrast_limits[1])
    assert len(bar.texts) == 7
    assert bar.texts[0] == "10" + str(high).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert "1/mm² per launched photon" in bar.unit
    drawn = bar.grab().toImage()
    layer.colormap = "viridis"
    assert bar.grab().toImage() != drawn
    layer.contrast_limits = (-2.5, -0.5)
    assert bar.texts == ["10⁻¹", "10⁻²"]
    set_strength(box, power_mw=10.0)
    settle(qtbot, ready)
    assert "mW/mm²" in bar.unit
    viewer.layers.remove(layer)
    assert bar.isHidden()
    run(qtbot, ready)
    assert not bar.isHidden()


def test_a_saved_result_is_opened_with_its_inputs(viewer, quiet, qtbot, tmp_path):
    run(qtbot, quiet)
    saved, path = result(viewer), tmp_path / "mine.npz"
    drive(quiet.voxels.results.save(path, quiet.voxels.results.displayed))
    viewer.layers.clear()
    settle(qtbot, quiet)
    quiet.voxels.results.open_result(path)
    qtbot.waitUntil(lambda: fluence(viewer) is not None, timeout=MILLISECONDS)
    settle(qtbot, quiet)
    assert np.array_equal(result(viewer).fluence, saved.fluence)
    assert quiet.voxels.results.result.launched == saved.launched
    assert quiet.voxels.controller.optodes.source.position_mm == saved.source.position_mm

"""The dock widget "Light transport" and its two modes: who switches loses nothing."""

import numpy as np
import pytest

from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.mode import Mode
from tests.dock_widgets import button
from tests.light.gui.layers.panel_samples import MEDIUM, SETTINGS, picture
from tests.light.gui.panel_samples import FEW, LEFT, click, fluence, held_run, result, run, settle


def test_the_buttons_switch_and_nothing_typed_is_lost(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    panel.voxels.table.model.type_in({(0, 2): "0.123"})
    media, settings = panel.voxels.table.media(), panel.voxels.run_box.settings
    button(panel, "Layers").click()
    assert panel.mode == "layers"
    assert panel.voxels.isHidden()
    assert not panel.layers.isHidden()
    panel.layers.table.set_medium(MEDIUM)
    button(panel, "Voxels").click()
    assert (panel.voxels.table.media(), panel.voxels.run_box.settings) == (media, settings)
    assert panel.voxels.controller.optodes.source is not None
    button(panel, "Layers").click()
    assert panel.layers.table.medium() == MEDIUM


def test_the_other_mode_is_made_when_it_is_chosen(viewer, qtbot):
    panel = LightPanel(viewer)
    qtbot.addWidget(panel)
    assert len(panel.findChildren(Mode)) == 1
    panel.set_mode("layers")
    assert len(panel.findChildren(Mode)) == 2
    panel.teardown()


def test_results_of_each_mode_are_hidden_and_come_back(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    volume = fluence(viewer)
    panel.set_mode("layers")
    assert not volume.visible
    panel.layers.grid_box.set_settings(SETTINGS)
    panel.layers.run_box.set_settings(SETTINGS)
    panel.layers.table.set_medium(MEDIUM)
    run(qtbot, panel)
    assert picture(viewer).visible
    assert panel.layers.results.result.launched == SETTINGS.photons
    panel.set_mode("voxels")
    assert volume.visible
    assert not picture(viewer).visible
    assert panel.voxels.results.result is result(viewer)


def test_a_click_places_no_source_while_layers_are_on_screen(viewer, panel, qtbot):
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


def test_there_is_one_set_of_plots_with_the_tabs_of_the_mode(viewer, panel, qtbot):
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


@pytest.mark.parametrize("mode", ["voxels", "layers"])
def test_copy_as_python_is_of_the_mode_on_screen(panel, mode):
    panel.set_mode(mode)
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    layered = "LayeredMedium(" in (panel.run_form.script({}) if mode == "layers" else "")
    assert layered is (mode == "layers")
    assert [layer.name for layer in panel.run_form.painted_layers()] == ([] if layered else ["ball"])


def test_a_saved_result_is_opened_with_its_inputs(viewer, panel, qtbot, tmp_path):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    saved, path = result(viewer), tmp_path / "mine.npz"
    panel.voxels.results.save(path, panel.voxels.results.displayed)
    viewer.layers.clear()
    settle(qtbot, panel)
    panel.voxels.results.open_result(path)
    qtbot.waitUntil(lambda: fluence(viewer) is not None, timeout=20_000)
    settle(qtbot, panel)
    assert np.array_equal(result(viewer).fluence, saved.fluence)
    assert panel.voxels.results.result.launched == saved.launched
    assert panel.voxels.controller.optodes.source.position_mm == saved.source.position_mm

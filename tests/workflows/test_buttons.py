"""Clean and Dose by region, the buttons of the light panel that join engines."""

import numpy as np
import pytest

from napari_gpubio import workflows
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.core.quantity import halves_of, quantity_of, standard_error_of, to_linear
from napari_gpubio.dose.gui import DosePanel
from tests.dock_widgets import MILLISECONDS, button, press_and_wait, wait_until
from tests.light.gui.panel_samples import LEFT, add_ball, fluence, result, run, settle, tick


def cleaned(viewer):
    return [layer for layer in viewer.layers if layer.name.startswith("cleaned")]


@pytest.fixture
def ran(viewer, panel, qtbot):
    """A panel with a result of the ball."""
    add_ball(viewer)
    settle(qtbot, panel)
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    return panel


def clean(qtbot, panel):
    press_and_wait(qtbot, panel, button(panel, "Clean"))
    settle(qtbot, panel)


def dose_panel(viewer, qtbot, panel):
    """The panel that Dose by region opens, when it has counted."""
    button(panel, "Dose by region").click()
    found = viewer.window._qt_window.findChildren(DosePanel)
    assert len(found) == 1
    found[0].choose_device("cpu")
    wait_until(qtbot, lambda: not found[0].is_busy)
    return found[0]


def test_nothing_can_be_cleaned_before_a_run(viewer, panel):
    assert button(panel, "Clean").parentWidget().isHidden()


def test_they_stay_in_sight_and_leave_with_the_mode_of_voxels(ran):
    bar = button(ran, "Clean").parentWidget()
    assert button(ran, "Dose by region").parentWidget() is bar
    assert not bar.isHidden()
    assert not ran.voxels.isAncestorOf(bar)  # which scrolls
    ran.set_mode("layers")
    assert bar.isHidden()
    ran.set_mode("voxels")
    assert not bar.isHidden()


def test_clean_gives_what_the_script_gives(viewer, ran, qtbot):
    run_result = result(viewer)
    assert run_result.half_fluences is not None
    assert halves_of(fluence(viewer)).shape == (2, *run_result.domain.shape)
    clean(qtbot, ran)
    (layer,) = cleaned(viewer)
    expected = workflows.clean_fluence(run_result, device="cpu")
    np.testing.assert_allclose(to_linear(volume_of(layer), quantity_of(layer)), expected.image, rtol=2e-5)
    np.testing.assert_array_equal(standard_error_of(layer), expected.noise)
    assert carried(layer, "structures") == {1: "rind", 2: "core"}
    assert layer.visible
    assert not fluence(viewer).visible
    assert ran.message == ""


def test_another_clean_replaces_its_layer_and_a_run_shows_the_new_fluence(viewer, ran, qtbot):
    clean(qtbot, ran)
    clean(qtbot, ran)
    assert len(cleaned(viewer)) == 1
    run(qtbot, ran)
    assert fluence(viewer).visible
    assert not cleaned(viewer)[0].visible


@pytest.mark.display
def test_curves_of_the_cleaned_fluence_are_two_presses_away(viewer, ran, qtbot):
    clean(qtbot, ran)
    panel = dose_panel(viewer, qtbot, ran)
    assert panel.message == ""
    assert panel.inputs_box.dose_box.layer == cleaned(viewer)[0]
    expected = workflows.dose_by_region(
        result(viewer), to_linear(volume_of(cleaned(viewer)[0]), quantity_of(cleaned(viewer)[0])), device="cpu"
    )
    shown = panel.controller.live.results()[0]
    for name in ("rind", "core"):
        assert shown[name].mean == pytest.approx(expected[name].mean, rel=1e-5)
        assert shown[name].unit == "1/mm²"
    panel.teardown()


@pytest.mark.display
def test_a_fluence_that_was_not_cleaned_is_counted_as_it_is(viewer, ran, qtbot):
    panel = dose_panel(viewer, qtbot, ran)
    assert panel.inputs_box.dose_box.layer == fluence(viewer)
    labels = result(viewer).domain.labels
    shown = panel.controller.live.results()[0]
    assert shown["core"].mean == pytest.approx(result(viewer).fluence[labels == 2].mean(dtype=float), rel=1e-4)
    panel.teardown()


@pytest.mark.display
def test_hidden_voxels_are_no_dose(viewer, ran, qtbot):
    tick(ran, "hide")
    settle(qtbot, ran)
    button(ran, "Dose by region").click()
    assert "hidden" in ran.message
    assert not viewer.window._qt_window.findChildren(DosePanel)


@pytest.mark.display
def test_layers_that_are_gone_are_named(viewer, ran, qtbot):
    viewer.layers.remove("ball")
    qtbot.waitUntil(lambda: not ran.running, timeout=MILLISECONDS)
    button(ran, "Dose by region").click()
    assert "was removed" in ran.message


def test_without_halves_it_says_how_to_clean_better(viewer, ran, qtbot):
    ran.voxels.run_box.form.widget("halves").value = False
    run(qtbot, ran)
    clean(qtbot, ran)
    assert "Half buffers" in ran.message
    assert standard_error_of(cleaned(viewer)[0]) is None


def test_clean_during_a_run_disturbs_nothing(viewer, ran, qtbot):
    ran.run()
    button(ran, "Clean").click()
    assert "A run is under way" in ran.message
    settle(qtbot, ran)
    assert not cleaned(viewer)

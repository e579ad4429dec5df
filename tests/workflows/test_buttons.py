"""Clean and Dose by region, the buttons of the light panel that join engines."""

import dataclasses
import sys

import numpy as np
import psutil
import pytest

from napari_gpubio import workflows
from napari_gpubio.core import warmup
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.layer_sources import layer_source
from napari_gpubio.core.quantity import guide_of, halves_of, log10_of, quantity_of, standard_error_of, to_linear
from napari_gpubio.core.volumes import read_array
from napari_gpubio.dose.gui import DosePanel
from napari_gpubio.dose.io import read_curves_csv
from napari_gpubio.gui import processors
from napari_gpubio.workflows import operations
from napari_gpubio.workflows.operations import CleanFluence
from tests.dock_widgets import (
    MILLISECONDS,
    Held,
    button,
    forget_choices,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    wait_until,
)
from tests.light.gui.panel_samples import LEFT, add_ball, ball, fluence, result, run, set_gates, settle


def cleaned(viewer):
    return [layer for layer in viewer.layers if layer.name.startswith("cleaned")]


def clean(qtbot, panel):
    press_and_wait(qtbot, panel, button(panel, "Clean"))
    settle(qtbot, panel)


def dose_panel(viewer, qtbot, panel):
    """The panel that Dose by region opens, when it has counted."""
    button(panel, "Dose by region").click()
    wait_until(qtbot, lambda: not panel.running)
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
    assert guide_of(fluence(viewer)).shape == run_result.domain.shape
    clean(qtbot, ran)
    (layer,) = cleaned(viewer)
    expected = workflows.clean_fluence(run_result, device="cpu")
    np.testing.assert_allclose(to_linear(volume_of(layer), quantity_of(layer)), expected.image, rtol=2e-5)
    np.testing.assert_array_equal(standard_error_of(layer), expected.noise)
    assert carried(layer, "structures") == {1: "rind", 2: "core"}
    made = layer_source(layer).output().of  # which sessions and other panels take it for
    assert isinstance(next(made.inputs())[1].of, CleanFluence)
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


OBLIQUE = ((0.9, -0.4, 0.1), (0.4, 0.9, 0.2), (-0.15, -0.15, 0.97))


def oblique_ball():
    affine = ball().affine.copy()
    turned, _ = np.linalg.qr(np.array(OBLIQUE))
    affine[:3, :3] = turned @ affine[:3, :3]
    return dataclasses.replace(ball(), affine=affine)


def script_with_files(panel, folder, monkeypatch):
    """The copied script, its inputs saved in a folder."""
    save_scripts_as(monkeypatch, folder / "script.py")
    return script_of(panel)


def copied_files(panel, folder, monkeypatch):
    """Run the copied script in a folder; returns the cleaned layer that it writes (or None), and its curves."""
    shown_by_script(script_with_files(panel, folder, monkeypatch), folder, monkeypatch)
    clean_file, curves = folder / "ball cleaned.nii.gz", folder / "ball curves.csv"
    layer = log10_of(read_array(clean_file)[0]) if clean_file.exists() else None
    return layer, {one.name: one for one in read_curves_csv(curves)} if curves.exists() else {}


def check_curves(found, panel):
    """The curves are those on screen, bit by bit."""
    shown = panel.controller.live.results()[0]
    assert list(found) == [one.name for one in shown] == ["rind", "core"]
    for one in shown:
        np.testing.assert_array_equal(found[one.name].doses, one.doses)
        np.testing.assert_array_equal(found[one.name].volumes_cc, one.volumes_cc)


@pytest.mark.daily
@pytest.mark.display
@pytest.mark.parametrize("domain", [ball, oblique_ball])
def test_the_copied_script_cleans_and_counts_as_on_screen(viewer, panel, qtbot, tmp_path, monkeypatch, domain):
    add_ball(viewer, domain())
    settle(qtbot, panel)
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    panel.voxels.display_box.power_box.setValue(7.5)
    run(qtbot, panel)
    assert "workflows" not in script_with_files(panel, tmp_path, monkeypatch)
    clean(qtbot, panel)
    dose = dose_panel(viewer, qtbot, panel)
    panel.voxels.display_box.power_box.setValue(3.0)  # which changes the fluence on display, and not what is cleaned
    settle(qtbot, panel)
    layer, curves = copied_files(panel, tmp_path, monkeypatch)
    np.testing.assert_array_equal(layer, volume_of(cleaned(viewer)[0]))
    check_curves(curves, dose)
    dose.teardown()
    run(qtbot, panel)  # another result, with which nothing was done yet
    assert "workflows" not in script_with_files(panel, tmp_path, monkeypatch)


@pytest.mark.daily
@pytest.mark.display
def test_the_copied_script_counts_the_time_gate_that_was_counted(viewer, ran, qtbot, tmp_path, monkeypatch):
    set_gates(ran.voxels.run_box, 2.0, 3)
    run(qtbot, ran)
    viewer.dims.set_current_step(0, 1)
    dose = dose_panel(viewer, qtbot, ran)
    layer, curves = copied_files(ran, tmp_path, monkeypatch)
    assert layer is None
    check_curves(curves, dose)
    dose.teardown()


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
    ran.voxels.display_box.form.widget("hide_uncertain").value = True
    settle(qtbot, ran)
    button(ran, "Dose by region").click()
    assert "hidden" in ran.message
    assert not viewer.window._qt_window.findChildren(DosePanel)


@pytest.mark.display
def test_layers_that_are_gone_are_named(viewer, ran, qtbot):
    viewer.layers.remove("ball")
    forget_choices(ran)
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


def test_stop_while_the_denoiser_is_compiled_cleans_nothing(viewer, ran, qtbot, monkeypatch):
    monkeypatch.delenv(processors.DISABLED, raising=False)
    monkeypatch.setattr(warmup, "is_warm", lambda name: name != "denoise/fluence")
    monkeypatch.setattr(warmup, "command", lambda *_: [sys.executable, "-c", "import sys; sys.stdin.read()"])
    button(ran, "Clean").click()
    assert ran.waiting
    process = ran.warmup_process
    assert process.waitForStarted(MILLISECONDS)
    number = process.processId()
    ran.run_button.click()
    assert ran.status == "cancelled"
    assert not psutil.pid_exists(number)
    before = result(viewer)
    STORE.clear()  # so that it is made anew
    run(qtbot, ran)  # Run is Run again
    assert result(viewer) is not before
    assert not cleaned(viewer)


@pytest.mark.display
def test_what_was_cleaned_in_part_says_so_and_is_in_no_script(viewer, ran, qtbot, tmp_path, monkeypatch):
    held = Held(monkeypatch, operations, "clean_volume_steps")
    button(ran, "Clean").click()
    held.wait(qtbot)
    with qtbot.waitSignal(ran.run_finished, timeout=MILLISECONDS):
        ran.run_button.click()
    assert "stopped" in ran.status
    assert len(cleaned(viewer)) == 1
    held.go.set()
    dose_panel(viewer, qtbot, ran).teardown()
    assert "workflows" not in script_with_files(ran, tmp_path, monkeypatch)

"""The dock widget "Light transport": what may happen while something runs, and how it is displayed."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.steps import Step
from napari_gpubio.light.gui import displayed, voxel_mode
from napari_gpubio.light.gui.display import DecadeBar
from napari_gpubio.light.gui.plots_profile import DRAWN
from napari_gpubio.light.gui.quick_runs import QuickRuns
from napari_gpubio.light.napari_io import result_of
from napari_gpubio.light.operations import runs
from napari_gpubio.optics.model import Domain, Medium
from tests.dock_widgets import (
    WAYS_TO_CLOSE,
    Mouse,
    button,
    check_closing_ends_a_run,
    check_nothing_is_left,
    forget_choices,
    hears_the_mouse,
    hide_and_show,
    moved,
    wait_until,
)
from tests.light.gui.layers.panel_samples import SETTINGS
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    FRONT,
    LEFT,
    RADIUS,
    TOP,
    add_ball,
    add_panel,
    click,
    fluence,
    go_to,
    markers,
    on_screen,
    result,
    run,
    set_gates,
    settle,
)

MANY = 100_000


# ------------------------------------------------------------------------------------------------- while it runs


@pytest.fixture
def shows(panel, monkeypatch):
    """Results on their way to the screen, with the fluence layer that shows each."""
    real, seen = panel.voxels.view.display, []

    def show(picture):
        real(picture)
        layer = panel.voxels.view.layer()
        if not seen:
            layer.colormap, layer.contrast_limits, layer.opacity = "viridis", (-4.0, -1.0), 0.4
        seen.append((picture.result, layer))

    monkeypatch.setattr(panel.voxels.view, "display", show)
    return seen


@pytest.fixture
def many(panel, monkeypatch, in_chunks_of):
    """A panel whose next run takes many photons, with a preview after each twentieth."""
    in_chunks_of(MANY // 20)  # more than the window shows, if it is slow
    monkeypatch.setattr(displayed, "PREVIEW_SECONDS", 0.0)
    panel.voxels.run_box.set_live(False)
    panel.voxels.run_box.photons.set_value(MANY)
    panel.voxels.place_source(LEFT)
    return panel


def test_the_picture_refines_and_keeps_what_the_user_set(many, qtbot, shows):
    run(qtbot, many)
    launched = [shown.launched for shown, _ in shows]
    assert len(launched) >= 2  # how many of them are seen depends on the speed of the window
    assert launched == sorted(launched)
    assert launched[0] < launched[-1] == MANY
    layer = shows[0][1]
    assert all(later is layer for _, later in shows)  # changed in place
    assert layer.colormap.name == "viridis"
    assert tuple(layer.contrast_limits) == (-4.0, -1.0)
    assert layer.opacity == 0.4


@pytest.mark.long
def test_a_preview_is_an_unbiased_look_at_the_whole(many, qtbot, shows):
    """Every preview is a result of its own: its absorbed share agrees with the final one within their errors."""
    run(qtbot, many)
    *previews, (final, _) = shows
    for preview, _ in previews:
        # from the error of all batches: that of the few batches of an early preview is itself uncertain
        error = final.energy.absorbed.error * np.sqrt(final.launched / preview.launched)
        assert abs(preview.energy.absorbed.value - final.energy.absorbed.value) < 5 * error
    assert previews


def test_a_quick_run_shows_something_however_fast_the_mouse_moves(viewer, panel, qtbot, monkeypatch, shows):
    panel.voxels.run_box.photons.set_value(10**9)
    monkeypatch.setattr(voxel_mode.VoxelMode, "quick_photons", 10**9)  # as slow as can be
    go_to(viewer, LEFT)
    panel.voxels.place_source(LEFT)
    mouse, start = Mouse(viewer), on_screen(panel.voxels.controller.optodes.source.position_mm)
    mouse.press(start)
    for step in range(250):
        mouse.move(moved(start, 0.0, 0.2 * (step % 20), 0.0))
        qtbot.wait(20)
        moves_shown = len({shown.source.position_mm for shown, _ in shows})
        if moves_shown >= 2:
            break
    mouse.release(moved(start, 0.0, 4.0, 0.0))
    panel.findChild(QuickRuns).cancel()
    settle(qtbot, panel)
    assert moves_shown >= 2


def test_a_quick_run_takes_no_place_of_a_run_with_more_photons(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(voxel_mode.VoxelMode, "quick_photons", FEW // 4)
    click(viewer, LEFT)
    settle(qtbot, panel)
    run(qtbot, panel)
    made = result(viewer)
    assert made.launched == FEW
    click(viewer, FRONT)
    settle(qtbot, panel)
    assert result(viewer) is made
    assert f"{FEW:,} photons, predates this change" in panel.status
    wait_until(qtbot, lambda: not panel.stale_line.is_busy)
    assert "Made with other inputs" in panel.stale_line.text()
    layer = viewer.layers["ball"]
    layer.paint(layer.world_to_data(on_screen(CENTER)), 1)
    settle(qtbot, panel)
    assert result(viewer) is made, "nor does a stroke of the brush"
    button(panel.voxels, "Keep these layers").click()
    click(viewer, TOP)
    settle(qtbot, panel)
    assert result(viewer).launched == FEW // 4, "beside it"
    assert any(result_of(layer) is made for layer in viewer.layers)
    run(qtbot, panel)
    assert result(viewer).launched == FEW


def test_a_quick_run_of_new_inputs_is_not_said_to_be_of_other_ones(viewer, panel, qtbot):
    click(viewer, LEFT)
    settle(qtbot, panel)
    run(qtbot, panel)
    panel.voxels.run_box.photons.set_value(result(viewer).launched)  # and fewer would leave it on show
    panel.voxels.place_source(TOP)
    settle(qtbot, panel)
    wait_until(qtbot, lambda: not panel.stale_line.is_busy)
    assert panel.voxels.view.displayed.is_quick
    assert panel.stale_line.isHidden()


def test_a_click_without_quick_runs_marks_the_result(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    click(viewer, LEFT)
    run(qtbot, panel)
    wait_until(qtbot, lambda: not panel.stale_line.is_busy)
    assert panel.stale_line.isHidden()
    click(viewer, TOP)
    wait_until(qtbot, lambda: not panel.stale_line.is_busy)
    assert "Position of" in panel.stale_line.text()
    assert not panel.stale_line.isHidden()


def test_without_the_preview_nothing_runs_by_itself(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    click(viewer, LEFT)
    settle(qtbot, panel)
    assert fluence(viewer) is None
    assert panel.voxels.controller.optodes.source is not None


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_that_fails_says_why_and_the_next_one_works(viewer, panel, qtbot, monkeypatch, quick):
    real, calls = runs.simulate_steps, []

    def failing_once(*args, **keywords):
        calls.append(1)
        if len(calls) == 1:
            yield Step(0, 1)
            raise InvalidInput("the simulation needs about 9 MB and 8 MB are free; take fewer time gates")
        return (yield from real(*args, **keywords))

    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    for module in (runs, voxel_mode):
        monkeypatch.setattr(module, "simulate_steps", failing_once)
    if quick:
        panel.voxels.run_box.set_live(True)
        panel.voxels.place_source(TOP)
        settle(qtbot, panel)
    else:
        run(qtbot, panel)
    assert "take fewer time gates" in panel.message
    run(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).complete


# ----------------------------------------------------------------------------------------- the world changes around it


def test_other_labels_start_anew(viewer, shown, qtbot):
    cube = Medium(label=1, name="cube", mua_per_mm=1.0)
    add_ball(viewer, Domain(labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4), media=(cube,)), "cube")
    old = fluence(viewer)
    shown.voxels.labels_box.choose(viewer.layers["cube"])
    settle(qtbot, shown)
    assert shown.voxels.table.media() == (cube,)
    shown.voxels.place_source((4.0, 4.0, 20.0))
    settle(qtbot, shown)
    assert result(viewer).domain.shape == (8, 8, 8)
    assert old in viewer.layers  # the picture of the ball stays with the user
    viewer.layers.remove("ball")
    viewer.layers.remove("cube")
    settle(qtbot, shown)
    assert shown.voxels.labels_box.layer.name == "cube"
    forget_choices(shown)
    settle(qtbot, shown)
    shown.run_button.click()
    assert "there are no labels" in shown.message
    assert "source and detectors" not in viewer.layers


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(make_window, qtbot, held, errors, how):
    def panel_with_a_source(viewer):
        panel = add_panel(viewer)
        add_ball(viewer)
        settle(qtbot, panel)
        panel.voxels.run_box.set_live(False)
        panel.voxels.place_source(LEFT)
        return panel

    viewer = make_window()
    check_closing_ends_a_run(qtbot, viewer, panel_with_a_source, held, how)
    assert not hears_the_mouse(viewer)
    assert not errors()


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_window, qtbot, how):
    """After a run in each mode, with the plots open."""

    def use_panel(viewer):
        panel = add_panel(viewer)
        add_ball(viewer)
        settle(qtbot, panel)
        click(viewer, LEFT)
        settle(qtbot, panel)
        panel.plots.open()
        panel.plots.window.profile.choose(DRAWN)
        panel.set_mode("layers")
        panel.layers.run_box.set_settings(SETTINGS)
        run(qtbot, panel)
        STORE.clear()  # which keeps results for other panels
        return panel, result(viewer), panel.layers.results.result

    viewer = make_window()
    check_nothing_is_left(qtbot, viewer, use_panel, how)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    hide_and_show(qtbot, panel)
    assert panel.voxels.labels_box.layer is viewer.layers["ball"]
    click(viewer, LEFT)
    settle(qtbot, panel)
    assert result(viewer).launched == FEW


def test_a_stale_marker_does_not_stay_when_a_layer_was_removed(viewer, shown, qtbot):
    viewer.layers.remove("source and detectors")
    shown.voxels.place_source(CENTER + np.array([RADIUS + 2.0, 0.0, 0.0]))
    settle(qtbot, shown)
    entry = shown.voxels.controller.optodes.source.position_mm
    go_to(viewer, entry)
    assert np.allclose(markers(viewer), [entry], atol=1e-4)


# -------------------------------------------------------------------------------------------------------------- display


def give(panel, qtbot, **amounts):
    for name, value in amounts.items():
        getattr(panel.voxels.display_box, f"{name}_box").setValue(value)
    settle(qtbot, panel)


def test_the_picture_is_the_logarithm_over_whole_decades(viewer, shown, qtbot):
    layer, values = fluence(viewer), result(viewer).fluence
    data = layer.data.T
    lit = values > 0
    assert np.allclose(data[lit], np.log10(values[lit]), atol=1e-6)
    assert np.isnan(data[~lit]).all()
    low, high = layer.contrast_limits
    assert high - low == 6
    assert high == np.ceil(np.log10(values.max()))
    shown.voxels.display_box.form.widget("decades").value = 3
    settle(qtbot, shown)
    assert tuple(layer.contrast_limits) == (high - 3, high)


def test_power_and_exposure_give_the_users_units(viewer, shown, qtbot):
    layer, per_photon = fluence(viewer), fluence(viewer).data.copy()

    def check_times(factor, unit):
        assert fluence(viewer) is layer
        assert unit in layer.name
        assert np.allclose(layer.data, per_photon + np.log10(factor), atol=1e-5, equal_nan=True)

    check_times(1, "1/mm²")
    give(shown, qtbot, power=10.0)
    check_times(10, "mW/mm²")
    give(shown, qtbot, exposure=50.0)
    assert shown.voxels.display_box.strength.energy_j == pytest.approx(0.5)
    unit = shown.voxels.results.unit_box
    unit.setCurrentIndex(unit.findData("J/cm²"))
    settle(qtbot, shown)
    check_times(50, "J/cm²")  # 0.5 J x fluence per mm^2
    give(shown, qtbot, energy=2.0)
    assert shown.voxels.display_box.exposure_box.value() == pytest.approx(200.0)
    check_times(200, "J/cm²")
    values = result(viewer).fluence_j_per_cm2(2.0)
    assert np.allclose(layer.data.T[values > 0], np.log10(values[values > 0]), atol=1e-5)


def test_a_power_that_was_given_first_counts_for_the_first_picture(viewer, panel, qtbot):
    give(panel, qtbot, power=10.0)
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    values = result(viewer).irradiance_mw_per_mm2(10.0)
    assert "mW/mm²" in fluence(viewer).name
    assert panel.voxels.results.unit.name == "mW/mm²"
    assert np.allclose(fluence(viewer).data.T[values > 0], np.log10(values[values > 0]), atol=1e-5)


def tick_both(panel, qtbot, *, checked):
    for name in ("hide_uncertain", "show_error"):
        panel.voxels.display_box.form.widget(name).value = checked
        settle(qtbot, panel)


def test_noisy_voxels_are_hidden_and_the_error_is_shown_on_request(viewer, shown, qtbot):
    every = np.isfinite(fluence(viewer).data).sum()
    tick_both(shown, qtbot, checked=True)
    data, error = fluence(viewer).data.T, result(viewer).relative_error
    assert np.array_equal(np.isfinite(data), error <= 0.5)
    assert 0 < np.isfinite(data).sum() < every
    layer, known = shown.voxels.view.layer("error"), np.isfinite(error)
    assert "%" in layer.name
    assert np.allclose(layer.data.T[known], 100 * error[known])
    tick_both(shown, qtbot, checked=False)
    assert np.isfinite(fluence(viewer).data).sum() == every
    assert shown.voxels.view.layer("error") is None


def test_time_gates_step_with_the_viewers_slider(viewer, shown, qtbot):
    set_gates(shown.voxels.run_box, 1.0, 4)
    settle(qtbot, shown)
    layer, gates = fluence(viewer), result(viewer).gates
    assert layer.ndim == viewer.dims.ndim == 4
    assert viewer.dims.axis_labels[0] == "time gate"
    assert result(viewer).settings.time_gates_ns == (0.0, 0.25, 0.5, 0.75, 1.0)
    for gate in range(4):
        lit = gates[..., gate] > 0
        assert np.allclose(layer.data[gate].T[lit], np.log10(gates[..., gate][lit]), atol=1e-5)
    viewer.dims.set_point(0, 2)
    legend = shown.voxels.display_box.findChild(DecadeBar)
    assert "0.5 to 0.75 ns" in legend.unit
    spatial = layer.affine.affine_matrix[1:, 1:]
    assert np.allclose(spatial, viewer.layers["ball"].affine.affine_matrix)
    set_gates(shown.voxels.run_box, 5.0, 1)
    settle(qtbot, shown)
    assert viewer.dims.ndim == 3
    assert "ns" not in legend.unit
    shown.voxels.run_box.set_live(False)
    set_gates(shown.voxels.run_box, 0.0, 1)
    shown.run_button.click()
    assert "ends at 0 ns" in shown.message

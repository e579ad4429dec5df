"""The dock widget "Light transport": what may happen while something runs."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.light.gui import request
from napari_gpubio.light.gui.mode import QuickRuns
from napari_gpubio.light.gui.plots_profile import DRAWN
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from tests.dock_widgets import (
    MILLISECONDS,
    WAYS_TO_CLOSE,
    Mouse,
    check_closing_ends_a_run,
    check_nothing_is_left,
    hears_the_mouse,
    hide_and_show,
    moved,
)
from tests.light.gui.layers.panel_samples import SETTINGS
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    RADIUS,
    TOP,
    add_ball,
    add_panel,
    ball,
    click,
    fluence,
    go_to,
    held_run,
    markers,
    on_screen,
    result,
    run,
    settle,
)

MANY = 400_000


# ------------------------------------------------------------------------------------------------- while it runs


def test_the_picture_refines_and_keeps_what_the_user_set(viewer, panel, qtbot, monkeypatch, in_chunks_of):
    in_chunks_of(MANY // 20)  # more than the window shows, if it is slow
    monkeypatch.setattr(request, "PREVIEW_SECONDS", 0.0)
    panel.voxels.run_box.set_live(False)
    panel.voxels.run_box.photons.set_value(MANY)
    panel.voxels.place_source(LEFT)
    seen = []
    real = panel.voxels.view.display

    def show(picture):
        real(picture)
        layer = fluence(viewer)
        if not seen:
            layer.colormap, layer.contrast_limits, layer.opacity = "viridis", (-4.0, -1.0), 0.4
        seen.append((picture.result.launched, layer))

    monkeypatch.setattr(panel.voxels.view, "display", show)
    run(qtbot, panel)
    launched = [count for count, _ in seen]
    assert len(launched) >= 2  # how many of them are seen depends on the speed of the window
    assert launched == sorted(launched)
    assert launched[0] < launched[-1] == MANY
    assert all(layer is seen[0][1] for _, layer in seen)  # the same layer, changed in place
    layer = seen[0][1]
    assert layer.colormap.name == "viridis"
    assert tuple(layer.contrast_limits) == (-4.0, -1.0)
    assert layer.opacity == 0.4


@pytest.mark.validate
def test_a_preview_is_an_unbiased_look_at_the_whole(viewer, panel, qtbot, monkeypatch, in_chunks_of):
    """Every preview is a result of its own: its absorbed share agrees with the final one within their errors."""
    in_chunks_of(MANY // 4)
    monkeypatch.setattr(request, "PREVIEW_SECONDS", 0.0)
    panel.voxels.run_box.set_live(False)
    panel.voxels.run_box.photons.set_value(MANY)
    panel.voxels.place_source(LEFT)
    previews = []
    monkeypatch.setattr(panel.run_form, "show_preview", lambda picture: previews.append(picture.result))
    run(qtbot, panel)
    final = result(viewer)
    for preview in previews:
        # from the error of all batches: that of the few batches of an early preview is itself uncertain
        error = final.energy.absorbed.error * np.sqrt(final.launched / preview.launched)
        assert abs(preview.energy.absorbed.value - final.energy.absorbed.value) < 5 * error
    assert previews


def test_stop_keeps_what_was_done_with_its_error(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    panel.voxels.run_box.photons.set_value(10**8)
    panel.voxels.place_source(LEFT)
    panel.run_button.click()
    assert panel.run_button.text() == "Stop"
    qtbot.waitUntil(lambda: fluence(viewer) is not None, timeout=MILLISECONDS)
    with qtbot.waitSignal(panel.run_finished, timeout=5000):
        panel.run_button.click()
    settle(qtbot, panel)
    assert panel.run_button.text() == "Run"
    stopped = result(viewer)
    assert not stopped.complete
    assert 0 < stopped.launched < 10**8
    assert stopped.energy.total == pytest.approx(1.0, abs=1e-6)
    assert panel.status == f"stopped after {stopped.launched:,} photons; Continue adds photons"
    again = simulate(ball(), stopped.source, LightSettings(photons=50_000, seed=7), device="cpu")
    assert abs(again.energy.absorbed.z_score(stopped.energy.absorbed.value)) < 5


def test_a_change_during_a_run_lets_it_go_on_and_says_so(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    begun = panel.voxels.controller.optodes.source
    panel.voxels.run_box.set_live(True)
    panel.voxels.place_source(TOP)
    assert "Press Stop, then Run" in panel.message
    held.go.set()
    settle(qtbot, panel)
    assert np.allclose(result(viewer).source.position_mm, begun.position_mm)
    run(qtbot, panel)
    assert np.allclose(result(viewer).source.position_mm, panel.voxels.controller.optodes.source.position_mm)


def test_a_quick_run_shows_something_however_fast_the_mouse_moves(viewer, panel, qtbot, monkeypatch):
    panel.voxels.run_box.photons.set_value(10**9)
    monkeypatch.setattr(request, "VOXEL_QUICK_PHOTONS", 10**9)  # as slow as can be
    shown = []
    real = panel.voxels.view.display
    monkeypatch.setattr(panel.voxels.view, "display", lambda picture: (shown.append(picture.result), real(picture)))
    go_to(viewer, LEFT)
    panel.voxels.place_source(LEFT)
    mouse, start = Mouse(viewer), on_screen(panel.voxels.controller.optodes.source.position_mm)
    mouse.press(start)
    for step in range(20):
        mouse.move(moved(start, 0.0, 0.2 * step, 0.0))
        qtbot.wait(20)
    moves_shown = len({r.source.position_mm for r in shown})
    mouse.release(moved(start, 0.0, 4.0, 0.0))
    panel.findChild(QuickRuns).cancel()
    settle(qtbot, panel)
    assert moves_shown >= 2


def test_without_the_preview_nothing_runs_by_itself(viewer, panel, qtbot):
    panel.voxels.run_box.set_live(False)
    click(viewer, LEFT)
    settle(qtbot, panel)
    assert fluence(viewer) is None
    assert panel.voxels.controller.optodes.source is not None


def test_a_run_that_fails_says_why_and_the_next_one_works(viewer, panel, qtbot, monkeypatch):
    real, calls = request.simulate_steps, []

    def failing_once(*args, **keywords):
        calls.append(1)
        if len(calls) == 1:
            yield Step(0, 1)
            raise InvalidInput("the simulation needs about 9 MB and 8 MB are free; take fewer time gates")
        return (yield from real(*args, **keywords))

    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    monkeypatch.setattr(request, "simulate_steps", failing_once)
    run(qtbot, panel)
    assert "take fewer time gates" in panel.message
    run(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).complete


# ----------------------------------------------------------------------------------------- the world changes around it


@pytest.mark.display
@pytest.mark.parametrize("what", ["ball", "source and detectors", "source beam", "fluence", "everything"])
def test_removing_layers_during_a_run_does_no_harm(viewer, panel, qtbot, held, errors, what):
    held.go.set()
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    held.again()
    held_run(qtbot, panel, held)
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(fluence(viewer).name if what == "fluence" else what)
    held.go.set()
    settle(qtbot, panel)
    assert not errors()
    assert panel.run_button.text() == "Run"
    assert result(viewer).launched == FEW


def test_other_labels_start_anew(viewer, panel, qtbot):
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    other = Domain(
        labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4), media=(Medium(label=1, name="cube", mua_per_mm=1.0),)
    )
    add_ball(viewer, other, "cube")
    old = fluence(viewer)
    panel.voxels.labels_box.choose(viewer.layers["cube"])
    settle(qtbot, panel)
    assert [medium.name for medium in panel.voxels.table.media()] == ["cube"]
    panel.voxels.place_source((4.0, 4.0, 20.0))
    settle(qtbot, panel)
    assert result(viewer).domain.shape == (8, 8, 8)
    assert old in viewer.layers  # the picture of the ball stays with the user
    viewer.layers.remove("ball")
    viewer.layers.remove("cube")
    settle(qtbot, panel)
    panel.run_button.click()
    assert "there are no labels" in panel.message
    assert "source and detectors" not in viewer.layers


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(make_napari_viewer, qtbot, held, errors, how):
    def panel_with_a_source(viewer):
        panel = add_panel(viewer)
        add_ball(viewer)
        settle(qtbot, panel)
        panel.voxels.run_box.set_live(False)
        panel.voxels.place_source(LEFT)
        return panel

    viewer = make_napari_viewer(strict_qt="raise")
    check_closing_ends_a_run(qtbot, viewer, panel_with_a_source, held, how)
    assert not hears_the_mouse(viewer)
    assert not errors()


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_napari_viewer, qtbot, how):
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
        return panel, result(viewer), panel.layers.results.result

    viewer = make_napari_viewer(strict_qt="raise")
    check_nothing_is_left(qtbot, viewer, use_panel, how)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    hide_and_show(qtbot, panel)
    assert panel.voxels.labels_box.layer is viewer.layers["ball"]
    click(viewer, LEFT)
    settle(qtbot, panel)
    assert result(viewer).launched == FEW


def test_a_stale_marker_does_not_stay_when_a_layer_was_removed(viewer, panel, qtbot):
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    viewer.layers.remove("source and detectors")
    panel.voxels.place_source(CENTER + np.array([RADIUS + 2.0, 0.0, 0.0]))
    settle(qtbot, panel)
    go_to(viewer, panel.voxels.controller.optodes.source.position_mm)
    assert np.allclose(markers(viewer), [panel.voxels.controller.optodes.source.position_mm], atol=1e-4)

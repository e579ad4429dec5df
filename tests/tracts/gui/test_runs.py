"""The dock widget "Fiber tracking": what may happen while something runs."""

import threading
import weakref

import numpy as np
import pytest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.gui import request
from tests.dock_widgets import (
    MILLISECONDS,
    WAYS_TO_CLOSE,
    Mouse,
    button,
    close,
    ended,
    hears_the_mouse,
    hide_and_show,
    moved,
)
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    HeldTracking,
    add_maps,
    add_panel,
    add_scan,
    assert_same,
    by_api,
    choose_in_list,
    click,
    fibers_layers,
    field,
    held_run,
    names_in_list,
    on_screen,
    rename_in_list,
    settle,
    shown_numbers,
    shown_texts,
    tractogram,
)

# -------------------------------------------------------------------------------------------- while something runs


def test_stop_keeps_what_was_traced_and_says_so(viewer, panel, qtbot, held):
    held_run(qtbot, panel, viewer, held)
    assert panel.run_button.text() == "Stop"
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.run_button.text() == "Track"
    fibers = tractogram(fibers_layers(viewer)["bundle 1"])
    assert not fibers.complete
    assert any("stopped early" in text for text in shown_texts(panel))


def test_a_click_while_it_runs_wins(viewer, panel, qtbot, held):
    held_run(qtbot, panel, viewer, held)
    click(viewer, moved(CALLOSUM, 0.0, -15.0, 0.0))
    held.go.set()
    settle(qtbot, panel)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(panel, panel.bundles.current.center_mm))
    assert panel.bundles.current.center_mm[1] == pytest.approx(-20.0, abs=1e-4)


def test_a_click_while_the_scan_is_fitted_does_not_leave_half_a_fit(viewer, empty, qtbot, monkeypatch):
    real, begun = request.fit_steps, threading.Event()

    def slow(scan, *args, stop, **keywords):
        inner = real(scan, *args, stop=stop, **keywords)
        yield next(inner)
        begun.set()
        if len(empty.bundles) < 2:
            stop.wait(0.5)
        return (yield from inner)

    monkeypatch.setattr(request, "fit_steps", slow)
    add_scan(viewer)
    click(viewer, CALLOSUM)
    qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, empty)
    assert np.array_equal(empty.field.mask, field().mask)
    assert np.array_equal(empty.field.tensors, field().tensors)
    assert_same(tractogram(fibers_layers(viewer)["bundle 2"]), by_api(empty, empty.bundles.current.center_mm))


def test_a_click_while_a_run_is_about_to_fail_is_not_lost(viewer, panel, qtbot, monkeypatch):
    real, begun, calls = request.track_steps, threading.Event(), []

    def failing_once(*args, stop, **keywords):
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            yield Step(0, 1)
            stop.wait(0.5)
            raise InvalidInput("the first run cannot be done")
        return (yield from real(*args, stop=stop, **keywords))

    monkeypatch.setattr(request, "track_steps", failing_once)
    click(viewer, CALLOSUM)
    qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    click(viewer, moved(CALLOSUM, 0.0, -15.0, 0.0))
    settle(qtbot, panel)
    assert "bundle 1" in fibers_layers(viewer)
    assert "the first run" not in panel.message
    # and nothing of it is left over for the next click
    count = len(calls)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert len(calls) == count + 1


@pytest.mark.display
@pytest.mark.parametrize("what", ["study FA", "bundle 1", "seeds", "everything"])
def test_removing_layers_during_a_run_does_no_harm(viewer, panel, qtbot, held, errors, what):
    held.go.set()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    held.again()
    held_run(qtbot, panel, viewer, held, moved(CALLOSUM, 0.0, -10.0, 0.0))
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(what)
    held.go.set()
    settle(qtbot, panel)
    assert not errors()
    assert panel.run_button.text() == "Track"


def test_removing_the_scan_while_it_is_fitted_does_no_harm(viewer, empty, qtbot, held, errors):
    scan = add_scan(viewer)
    held_run(qtbot, empty, viewer, held)
    viewer.layers.remove(scan)
    held.go.set()
    qtbot.waitUntil(lambda: not empty.running, timeout=MILLISECONDS)
    assert not errors()
    assert empty.run_button.text() == "Track"


@pytest.mark.parametrize("act", ["remove", "undo", "rename"])
def test_changing_the_bundles_during_a_run_leaves_no_stray_fibers(viewer, panel, qtbot, held, act):
    held_run(qtbot, panel, viewer, held)
    if act == "remove":
        button(panel, "Remove").click()
    elif act == "undo":
        button(panel, "Undo").click()
    else:
        rename_in_list(panel, "callosum")
    held.go.set()
    settle(qtbot, panel)
    assert sorted(fibers_layers(viewer)) == sorted(names_in_list(panel))


def test_a_late_result_does_not_change_what_the_panel_speaks_of(viewer, two, qtbot, monkeypatch):
    held = HeldTracking(monkeypatch)
    held_run(qtbot, two, viewer, held, moved(CORTICOSPINAL, 0.0, 4.0, 0.0))
    choose_in_list(two, 0)
    held.go.set()
    settle(qtbot, two)
    assert two.bundles.current.name == "bundle 1"
    assert two.results.layer.name == "bundle 1"
    assert shown_numbers(two)["number"].startswith(f"{len(tractogram(fibers_layers(viewer)['bundle 1']))} of ")


def test_a_preview_that_is_still_on_its_way_does_not_replace_the_full_set(viewer, panel, qtbot):
    panel.seed_box.form.widget("points").value = 100
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    for n in range(6):
        start = np.array(panel.bundles.current.center_mm)
        target = moved(start, 0.0, -1.5 if n % 2 else 1.5, 0.0)
        Mouse(viewer).drag(on_screen(start), on_screen((start + target) / 2), on_screen(target))
        settle(qtbot, panel)
        fibers = tractogram(fibers_layers(viewer)["bundle 1"])
        assert fibers.parameters["launched"] == 500
        assert np.linalg.norm(np.asarray(fibers.parameters["seeds_mm"]) - target, axis=1).max() < 3.01


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(make_napari_viewer, qtbot, held, errors, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    add_maps(viewer)
    held_run(qtbot, panel, viewer, held)
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel
    stopped = held.ended.wait(2)
    held.go.set()
    assert held.ended.wait(10)
    assert ended(qtbot, gone)
    assert stopped
    assert not hears_the_mouse(viewer)
    assert not errors()


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_napari_viewer, qtbot, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    add_maps(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    gone, fibers = weakref.ref(panel), weakref.ref(tractogram(fibers_layers(viewer)["bundle 1"]))
    close(viewer, panel, how)
    if how == "the dock":
        viewer.layers.clear()
    del panel
    assert ended(qtbot, gone, fibers)
    assert not hears_the_mouse(viewer)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    hide_and_show(qtbot, panel)
    assert panel.source_box.layer is viewer.layers["study FA"]
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert "bundle 1" in fibers_layers(viewer)


@pytest.mark.display
def test_a_closed_panel_takes_no_more_clicks(viewer, qtbot):
    panel = add_panel(viewer)
    add_maps(viewer)
    close(viewer, panel, "the dock")
    QApplication.processEvents()
    click(viewer, CALLOSUM)
    running = panel.running
    panel.teardown()
    assert not running
    assert not len(panel.bundles)

"""The dock widget "Fiber tracking": what may happen while something runs."""

import threading
import weakref

import numpy as np
import pytest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import notes_of
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.gui import records
from napari_gpubio.fibers.gui import tracing
from tests.dock_widgets import MILLISECONDS, WAYS_TO_CLOSE, close, ended, hears_the_mouse, hide_and_show, moved
from tests.fibers.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    User,
    add_maps,
    add_panel,
    add_scan,
    assert_same,
    field,
    tractogram,
)

BACK = moved(CALLOSUM, 0.0, -15.0, 0.0)

# -- while something runs ---------------------------------------------------------------------------------------------


def test_stop_keeps_what_was_traced_and_says_so(user, held):
    held.begin(user)
    assert user.panel.run_button.text() == "Stop"
    user.press("Stop")
    assert user.panel.run_button.text() == "Track"
    assert not user.fibers().complete
    assert any("stopped early" in text for text in user.texts)


def test_closing_the_panel_leaves_fibers_that_say_so(user, held, in_chunks_of):
    in_chunks_of(10)
    held.begin(user)
    user.panel.display.fibers_shown.connect(lambda layer: shown.append(tractogram(layer).complete))
    shown = []
    user.panel.show_step(Step(1, 2).showing(tracing.Traced(user.panel._draft(), field(), user.by_api())))
    user.panel.teardown()
    (layer,) = user.layers.values()
    assert len(shown) == 2, "a preview, and then what Stop shows"
    assert not tractogram(layer).complete
    assert any("did not finish" in note for note in notes_of(layer))


def test_a_preview_is_not_complete(user, monkeypatch, in_chunks_of):
    in_chunks_of(10)
    complete = []
    user.panel.display.fibers_shown.connect(lambda layer: complete.append(tractogram(layer).complete))
    user.click(CALLOSUM)
    assert complete[-1]
    assert not any(complete[:-1])
    (layer,) = user.layers.values()
    assert notes_of(layer) == ()


def test_a_long_run_shows_what_it_has_traced(user, monkeypatch, in_chunks_of):
    in_chunks_of(10)
    monkeypatch.setattr(tracing, "PREVIEW_FIBERS", 15)
    shown = []
    user.panel.display.fibers_shown.connect(lambda layer: shown.append(len(tractogram(layer))))
    user.click(CALLOSUM)
    *previews, whole = shown
    assert previews == sorted(previews)
    assert 0 < previews[0] < previews[-1] == 15 < whole


def after_the_first_step(monkeypatch, module, name, act):
    """Have ``act(stop)`` called in the worker after the first step of every run of an engine."""
    real = getattr(module, name)

    def steps(*args, stop, **keywords):
        inner = real(*args, stop=stop, **keywords)
        yield next(inner)
        act(stop)
        return (yield from inner)

    monkeypatch.setattr(module, name, steps)


def test_a_fit_that_is_stopped_leaves_no_tensors(viewer, empty, monkeypatch):
    after_the_first_step(monkeypatch, records, "fit_tensors_steps", lambda stop: stop.set())
    add_scan(viewer)
    empty.click(CALLOSUM)
    assert "stopped before it finished" in empty.message
    assert empty.panel.field is None
    assert not empty.layers


def test_a_click_while_it_runs_wins(user, held):
    held.begin(user)
    user.begin_at(BACK)
    held.go.set()
    user.settle()
    assert_same(user.fibers(), user.by_api())
    assert np.allclose(user.seed, BACK, atol=1e-4)


def test_a_click_while_the_scan_is_fitted_does_not_leave_half_a_fit(viewer, empty, monkeypatch):
    begun = threading.Event()

    def wait_for_the_click(stop):
        begun.set()
        if len(empty.panel.bundles) < 2:
            stop.wait(0.5)

    after_the_first_step(monkeypatch, records, "fit_tensors_steps", wait_for_the_click)
    add_scan(viewer)
    empty.begin_at(CALLOSUM)
    empty.qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    empty.click(CORTICOSPINAL, "Shift")
    assert np.array_equal(empty.panel.field.mask, field().mask)
    assert np.array_equal(empty.panel.field.tensors, field().tensors)
    assert_same(empty.fibers("bundle 2"), empty.by_api())


def test_a_click_while_a_run_is_about_to_fail_is_not_lost(user, monkeypatch):
    real, begun, calls = tracing.track_steps, threading.Event(), []

    def failing_once(*args, stop, **keywords):
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            yield Step(0, 1)
            stop.wait(0.5)
            raise InvalidInput("the first run cannot be done")
        return (yield from real(*args, stop=stop, **keywords))

    monkeypatch.setattr(tracing, "track_steps", failing_once)
    user.begin_at(CALLOSUM)
    user.qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    user.click(BACK)
    assert "bundle 1" in user.layers
    assert "the first run" not in user.message
    # and nothing of it is left over for the next click
    count = len(calls)
    user.click(CALLOSUM)
    assert len(calls) == count + 1


@pytest.mark.parametrize(
    "what", ["study FA", "bundle 1", "seeds", pytest.param("everything", marks=pytest.mark.display)]
)
def test_removing_layers_during_a_run_does_no_harm(viewer, user, held, errors, what):
    held.go.set()
    user.click(CALLOSUM)
    held.again()
    held.begin(user, BACK)
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(what)
    held.go.set()
    user.settle()
    assert not errors()
    assert user.panel.run_button.text() == "Track"


def test_removing_the_scan_while_it_is_fitted_does_no_harm(viewer, empty, held, errors):
    scan = add_scan(viewer)
    held.begin(empty)
    viewer.layers.remove(scan)
    held.go.set()
    empty.settle()
    assert not errors()
    assert empty.panel.run_button.text() == "Track"


@pytest.mark.parametrize("act", ["Remove", "rename"])
def test_changing_the_bundles_during_a_run_leaves_no_stray_fibers(user, held, act):
    held.begin(user)
    if act == "rename":
        user.list.currentItem().setText("callosum")
    else:
        user.button(act).click()
    held.go.set()
    user.settle()
    assert sorted(user.layers) == sorted(user.names)


def test_a_late_result_does_not_change_what_the_panel_speaks_of(two, request):
    held = request.getfixturevalue("held")  # only now: the bundles are not held back
    held.begin(two, moved(CORTICOSPINAL, 0.0, 4.0, 0.0))
    two.list.setCurrentRow(0)
    held.go.set()
    two.settle()
    assert two.bundle.name == two.panel.results.layer.name == "bundle 1"
    assert two.numbers["kept"].startswith(f"{len(two.fibers())} of ")


def test_a_preview_that_is_still_on_its_way_does_not_replace_the_full_set(user):
    user.panel.seed_box.form.widget("points").value = 100
    user.click(CALLOSUM)
    for n in range(3):
        start = user.seed
        target = moved(start, 0.0, -1.5 if n % 2 else 1.5, 0.0)
        user.drag(start, (start + target) / 2, target)
        assert user.fibers().parameters["launched"] == 500
        seeds = np.asarray(user.fibers().parameters["seeds_mm"])
        assert np.linalg.norm(seeds - target, axis=1).max() < 3.01


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict(make_window, qtbot):
    """The user of a panel in a window that must not leak; the test closes it."""
    viewer = make_window()
    user = User(viewer, add_panel(viewer), qtbot)
    add_maps(viewer)
    return user


def closed(user, how):
    """Close the user's panel; returns a weak reference to it."""
    gone = weakref.ref(user.panel)
    close(user.viewer, user.panel, how)
    user.panel = None
    return gone


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(strict, held, errors, how):
    held.begin(strict)
    gone = closed(strict, how)
    stopped = held.ended.wait(2)
    held.go.set()
    assert held.ended.wait(10)
    assert ended(strict.qtbot, gone)
    assert stopped
    assert not hears_the_mouse(strict.viewer)
    assert not errors()


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(strict, how):
    strict.click(CALLOSUM)
    fibers, gone = weakref.ref(strict.fibers()), closed(strict, how)
    if how == "the dock":
        strict.viewer.layers.clear()
    assert ended(strict.qtbot, gone, fibers)
    assert not hears_the_mouse(strict.viewer)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, user):
    hide_and_show(user.qtbot, user.panel)
    assert user.panel.source_box.layer is viewer.layers["study FA"]
    user.click(CALLOSUM)
    assert "bundle 1" in user.layers


@pytest.mark.display
def test_a_closed_panel_takes_no_more_clicks(viewer, qtbot):
    panel = add_panel(viewer)
    add_maps(viewer)
    close(viewer, panel, "the dock")
    QApplication.processEvents()
    User(viewer, panel, qtbot).begin_at(CALLOSUM)
    running = panel.running
    panel.teardown()
    assert not running
    assert not len(panel.bundles)

"""The dock widget "Laser speckle": layers that change, a second viewer, and the end of napari, while a run lasts."""

import numpy as np
import pytest

from napari_gpubio.speckle import ContrastSettings, contrast
from napari_gpubio.speckle import operations as engine
from tests.dock_widgets import MILLISECONDS, WAYS_TO_CLOSE, Held, check_closing_ends_a_run
from tests.speckle.gui.panel_samples import add_panel, add_stack, choose_dark, run, speckle

FRAMES = speckle()
K = contrast(FRAMES, ContrastSettings(), device="cpu").contrast


def rename(viewer, layer):
    layer.name = "renamed"
    viewer.add_image(np.zeros((6, 40, 56)), name="frames")  # another layer takes the name


def hide(_, layer):
    layer.visible = False


def lock(_, layer):
    layer.editable = False


def change(_, layer):
    layer.data = np.zeros_like(FRAMES)


def remove(viewer, layer):
    viewer.layers.remove(layer.name)


def clear(viewer, _):
    viewer.layers.clear()


@pytest.mark.parametrize("act", [rename, hide, lock, change, remove, clear])
def test_a_stack_that_is_changed_while_it_is_computed(viewer, panel, qtbot, held, act):
    stack = add_stack(viewer, FRAMES.copy())
    panel.contrast_box.choose_index("none")
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
        held.wait(qtbot)
        act(viewer, stack)
        held.go.set()
    assert panel.message == ""
    np.testing.assert_array_equal(viewer.layers["K of frames"].data, K)
    if act is rename:
        assert (stack.visible, viewer.layers["frames"].visible) == (False, True)


def test_dark_frames_that_are_renamed_while_maps_are_made(viewer, panel, qtbot, held):
    add_stack(viewer, FRAMES)
    dark = add_stack(viewer, np.random.default_rng(4).poisson(100, FRAMES.shape).astype(np.uint16), "dark")
    choose_dark(panel, qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
        held.wait(qtbot)
        dark.name = "another"
        held.go.set()
    assert not dark.visible


def test_two_viewers_know_nothing_of_each_other(make_window, viewer, panel, qtbot):
    second = make_window(proxied=True)
    other = add_panel(second)
    add_stack(viewer, FRAMES)
    add_stack(second, FRAMES[:, ::-1].copy())
    before = [layer.name for layer in second.layers]
    run(qtbot, panel)
    assert [layer.name for layer in second.layers] == before
    run(qtbot, other)
    for one, frames in ((viewer, FRAMES), (second, FRAMES[:, ::-1])):
        want = contrast(frames, ContrastSettings(), device="cpu").contrast
        np.testing.assert_array_equal(one.layers["K of frames"].data, want)
    other.teardown()


@pytest.mark.display
@WAYS_TO_CLOSE
def test_the_end_of_napari_while_a_stack_is_computed(make_window, qtbot, errors, monkeypatch, how):
    viewer = make_window(proxied=True)
    add_stack(viewer, FRAMES)
    held = Held(monkeypatch, engine, "contrast_steps")
    check_closing_ends_a_run(qtbot, viewer, add_panel, held, how)
    assert errors() == []

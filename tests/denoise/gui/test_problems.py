"""The dock widget "Denoise": what can go wrong, stopping, and the end."""

import weakref

import numpy as np
import pytest

from napari_gpubio.core.napari_io import volume_of
from tests.denoise.gui.panel_samples import (
    AFFINE,
    add_panel,
    add_series,
    add_volume,
    look,
    names,
    noisy,
    number,
    result_layers,
    run,
    use,
)
from tests.dock_widgets import MILLISECONDS, WAYS_TO_CLOSE, check_closing_ends_a_run, close, ended, error_after_run


def test_nothing_to_denoise(panel, qtbot):
    assert "there is no image; open a plane, a volume" in error_after_run(qtbot, panel)
    panel.preview_button.click()
    assert "there is no image" in panel.message


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (noisy((20, 1, 1)), "a line of voxels"),
        (np.full((9, 9, 9), np.nan, np.float32), "not finite"),
    ],
    ids=["a line", "nothing but NaN"],
)
def test_an_image_that_cannot_be_used_is_a_sentence(viewer, panel, qtbot, array, words):
    viewer.add_image(array.T, name="scan", contrast_limits=(0, 1))
    assert words in error_after_run(qtbot, panel)
    assert names(viewer) == ["scan"]


def test_volumes_in_the_wrong_order_are_a_sentence(viewer, panel, qtbot):
    add_series(viewer)
    panel.image_box.first.setValue(2)
    panel.image_box.last.setValue(1)
    assert "volumes 2 to 1" in error_after_run(qtbot, panel)


def test_a_noise_level_that_is_none_is_a_sentence(viewer, panel, qtbot):
    add_volume(viewer)
    panel.mode.level.setCurrentText("a number")
    for text in ("", "-3", "nan"):
        panel.mode.number.setText(text)
        assert f"the noise level is {text!r}" in error_after_run(qtbot, panel)
    panel.mode.level.setCurrentText("a map")
    panel.mode.map_box.choose(add_volume(viewer, -noisy(), name="negative"))
    assert "standard deviations" in error_after_run(qtbot, panel)
    panel.mode.map_box.setCurrentIndex(-1)
    assert "there is no noise map" in error_after_run(qtbot, panel)


@pytest.mark.parametrize("what", ["noise map", "mask"])
@pytest.mark.parametrize(
    ("shape", "affine"), [((5, 6, 7), AFFINE), ((20, 18, 16), np.eye(4))], ids=["another shape", "another place"]
)
def test_what_lies_on_another_grid_is_a_sentence(viewer, panel, qtbot, what, shape, affine):
    elsewhere = add_volume(viewer, np.ones(shape, np.float32), affine, name="elsewhere")
    panel.image_box.layer_box.choose(add_volume(viewer))
    if what == "mask":
        panel.image_box.mask_box.choose(elsewhere)
    else:
        panel.mode.level.setCurrentText("a map")
        panel.mode.map_box.choose(elsewhere)
    message = error_after_run(qtbot, panel)
    for part in (f"the {what} 'elsewhere' has shape {shape}", "(20, 18, 16)", "grid"):
        assert part in message


def test_an_error_loses_no_result(viewer, panel, qtbot):
    add_volume(viewer)
    run(qtbot, panel)
    shown = result_layers(viewer)[0].data.copy()
    use(panel, search_radius=15)
    viewer.layers["scan"].data = viewer.layers["scan"].data[:6]
    assert "search_radius is" in error_after_run(qtbot, panel)
    assert np.array_equal(result_layers(viewer)[0].data, shown)


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_stop_keeps_what_was_done(viewer, panel, qtbot, held):
    array = noisy((40, 40, 60))
    add_volume(viewer, array, affine=np.eye(4))
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    clean = volume_of(result_layers(viewer)[0])
    untouched = (clean == array).mean()
    assert 0.1 < untouched < 0.95
    assert "stopped" in panel.status
    assert number(panel, "Gain") == "not known"


def test_the_image_may_change_and_go_while_it_is_denoised(viewer, panel, qtbot, held):
    image = add_volume(viewer)
    extent = np.array(image.extent.world)
    use(panel, noise_from="patches")
    panel.run_button.click()
    held.wait(qtbot)
    image.data = image.data[:8]
    image.name = "renamed"
    viewer.layers.remove("renamed")
    held.go.set()
    qtbot.waitUntil(lambda: not panel.running, timeout=MILLISECONDS)
    assert names(viewer) == ["noise σ of scan", "residual scan", "denoised scan"]
    assert np.allclose(result_layers(viewer)[0].extent.world, extent)
    assert panel.message == ""


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_window, qtbot, how):
    viewer = make_window(proxied=True)
    add_volume(viewer)
    panel = add_panel(viewer)
    run(qtbot, panel)
    look(qtbot, panel)
    panel.preview.live = True
    listeners = [len(event.callbacks) for event in viewer.layers.events.emitters.values()]
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel
    assert ended(qtbot, gone)
    if how == "the dock":
        assert sum(len(e.callbacks) for e in viewer.layers.events.emitters.values()) < sum(listeners)
        assert "denoised preview" not in names(viewer)


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_in_the_middle_of_a_run_ends_it(make_window, qtbot, held, errors, how):
    viewer = make_window(proxied=True)
    add_volume(viewer)
    check_closing_ends_a_run(qtbot, viewer, add_panel, held, how)
    assert errors() == []


def test_a_closed_panel_hears_nothing(viewer, panel, qtbot):
    add_volume(viewer)
    panel.live_box.setChecked(True)
    panel.teardown()
    viewer.dims.set_point(0, 20.0)
    viewer.layers.clear()
    qtbot.wait(20)
    panel.revive()
    add_volume(viewer)
    assert panel.image_box.layer is not None
    run(qtbot, panel)

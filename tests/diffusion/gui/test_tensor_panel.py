"""The dock widget "Diffusion tensors": from a scan to maps, the mask, scripts, the end.

Most tests use napari's proxy model, without a window; what a window adds is tested in one, under the marker
``display``.
"""

import weakref

import numpy as np
import pytest
from qtpy.QtWidgets import QTabBar

from napari_gpubio import diffusion
from napari_gpubio.core.napari_io import KEY, volume_of
from napari_gpubio.core.space import apply_affine, world_to_viewer
from napari_gpubio.diffusion.gui import TensorPanel
from napari_gpubio.diffusion.napari_io import field_of, map_layer
from napari_gpubio.diffusion.tensors.settings import OrdinaryLeastSquares
from tests.diffusion.gui.tensor_samples import (
    add_map,
    add_panel,
    add_scan,
    fit,
    layer_named,
    names,
    phantom_field,
    saved,
    sticks,
)
from tests.dock_widgets import (
    button,
    close,
    ended,
    error_after_run,
    forget_choices,
    open_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
)

# -- from scan to maps ------------------------------------------------------------------------------------------------


@pytest.mark.daily
@pytest.mark.display
def test_from_the_sample_to_fa_and_dec(proxy, fit_panel, qtbot):
    proxy.open_sample("napari-gpubio", "brain_phantom")
    scan, mean = proxy.layers
    assert fit_panel.scan_box.layer is not None
    assert (scan.visible, mean.visible) == (False, True)
    fit(qtbot, fit_panel)
    assert names(proxy)[2:] == ["brain phantom FA", "brain phantom DEC"]
    assert (scan.visible, mean.visible) == (False, False)
    fa, dec = proxy.layers[2:]
    field = field_of(fa)
    assert field is field_of(dec)
    assert dec.rgb
    assert fa.contrast_limits == [0, 1]
    # GUI = API: the same numbers
    assert np.array_equal(field.tensors, phantom_field().tensors)
    assert np.array_equal(volume_of(fa), diffusion.tensors.scalar_map(phantom_field(), "FA"))
    # what belongs together lies together
    assert np.allclose(scan.extent.world[:, 1:], fa.extent.world)
    assert np.allclose(fa.extent.world, dec.extent.world)
    assert fit_panel.check_label.text() == diffusion.tensors.check_gradients(phantom_field()).message
    assert not fit_panel.check_label.isHidden()
    assert "without a usable signal" in fit_panel.message


def test_the_chosen_maps_are_made_with_their_units(proxy, fit_panel, qtbot):
    add_scan(proxy, diffusion.phantom.load_brain_phantom(), "brain")
    for name, box in fit_panel.map_boxes.items():
        box.setChecked(name in ("MD", "AD", "RD", "S0"))
    fit(qtbot, fit_panel)
    assert names(proxy)[1:] == ["brain MD (mm²/s)", "brain AD (mm²/s)", "brain RD (mm²/s)", "brain S0 (signal)"]
    md = layer_named(proxy, "MD (mm²/s)")
    assert np.array_equal(volume_of(md), diffusion.tensors.scalar_map(phantom_field(), "MD"))


def test_settings_reach_the_fit_and_travel_with_its_maps(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks())
    fit_panel.form.widget("estimator").value = "ols"
    fit_panel.choose_device("cpu")
    fit(qtbot, fit_panel)
    layer = layer_named(proxy, "FA")
    for word in ("ols", "cpu", "napari-gpubio", "seconds"):
        assert word in repr(layer.metadata[KEY])
    expected = diffusion.fit_tensors(
        sticks(), None, diffusion.FitSettings(estimator=OrdinaryLeastSquares()), device="cpu"
    )
    assert np.array_equal(field_of(layer).tensors, expected.tensors)


def test_shells(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks())
    boxes = fit_panel.shell_boxes
    assert list(boxes) == [0, 1000, 2000]
    assert [box.toolTip().split()[0] for box in boxes.values()] == ["2", "6", "6"]
    assert fit_panel.settings.shells == ()
    boxes[2000].setChecked(False)
    assert fit_panel.settings.shells == (0, 1000)
    fit(qtbot, fit_panel)
    found = field_of(layer_named(proxy, "FA")).tensors
    assert np.array_equal(found, diffusion.fit_tensors(sticks(), None, diffusion.FitSettings(shells=(0, 1000))).tensors)
    assert not np.array_equal(found, diffusion.fit_tensors(sticks()).tensors)
    for box in boxes.values():
        box.setChecked(False)
    assert "no b-value is chosen" in error_after_run(qtbot, fit_panel)
    boxes[1000].setChecked(True)
    assert "second b-value" in error_after_run(qtbot, fit_panel)
    # they follow the scan
    fit_panel.scan_box.choose(add_scan(proxy, diffusion.phantom.load_brain_phantom(), "brain"))
    assert list(fit_panel.shell_boxes) == [0, 1000]
    proxy.layers.clear()
    assert list(fit_panel.shell_boxes) == [0, 1000]
    forget_choices(fit_panel)
    assert not fit_panel.shell_boxes


# -- the mask ---------------------------------------------------------------------------------------------------------


def mask_layer(proxy, field, mask):
    _, keywords, _ = map_layer(field, "FA", "mask")
    return proxy.add_labels(mask.T.astype(int), name="mask", affine=keywords["affine"], metadata=keywords["metadata"])


def test_a_mask_of_ones_choice(proxy, fit_panel, qtbot):
    scan = diffusion.phantom.load_brain_phantom()
    add_scan(proxy, scan)
    mask = np.zeros(scan.shape, bool)
    layer = mask_layer(proxy, phantom_field(), mask)
    fit_panel.mask_box.choose(layer)
    assert "mask is empty" in error_after_run(qtbot, fit_panel)
    mask[20:30, 30:40, 25:30] = True
    layer.data = mask.T.astype(int)
    fit(qtbot, fit_panel)
    field = field_of(layer_named(proxy, "scan FA"))
    assert np.array_equal(field.mask, diffusion.fit_tensors(scan, mask).mask)
    assert field.mask.sum() == 500


@pytest.mark.parametrize(
    ("shape", "words"), [((5, 6, 7), ("(7, 6, 5)", "(40, 40, 40)", "grid")), ((40, 40, 40), ("(40, 40, 40)",))]
)
def test_a_mask_of_another_shape_or_place_is_a_sentence(proxy, fit_panel, qtbot, shape, words):
    add_scan(proxy, sticks())
    fit_panel.mask_box.choose(proxy.add_labels(np.ones(shape, int), name="elsewhere"))
    message = error_after_run(qtbot, fit_panel)
    for word in ("'elsewhere'", *words):
        assert word in message
    assert names(proxy) == ["scan", "elsewhere"]


def test_a_mask_can_be_drawn_with_naparis_own_button(proxy, fit_panel, qtbot):
    """The new-labels button makes a layer with all the proxy's axes, also that of the scan's volumes."""
    add_scan(proxy, diffusion.phantom.load_brain_phantom())
    proxy._new_labels()
    drawn, place = proxy.layers[-1], (0.0, -5.0, 22.0)
    center = world_to_viewer(place)
    at = np.round(drawn.world_to_data([0.0, *center])).astype(int)
    painted = np.zeros(drawn.data.shape, int)
    painted[(at[0], *(slice(n - 2, n + 3) for n in at[1:]))] = 1
    drawn.data = painted
    fit_panel.mask_box.choose(drawn)
    fit(qtbot, fit_panel)
    field = field_of(layer_named(proxy, "FA"))
    assert field.mask.sum() == 125
    middle = apply_affine(field.affine, np.argwhere(field.mask).mean(axis=0))
    assert np.abs(middle - place).max() < 1.5 * 2.75


# -- Copy as Python ---------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_the_script_gives_the_same_fa(proxy, fit_panel, qtbot, tmp_path, monkeypatch):
    add_scan(proxy, diffusion.phantom.load_brain_phantom())
    fit_panel.form.widget("iterations").value = 1
    fit(qtbot, fit_panel)
    text = script_of(fit_panel)
    assert "FitSettings(estimator=WeightedLeastSquares(iterations=1))" in text
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert np.array_equal(volume_of(layer_named(made, "FA")), volume_of(layer_named(proxy, "FA")))


@pytest.mark.daily
def test_the_script_with_a_painted_mask_and_one_shell(proxy, fit_panel, qtbot, tmp_path, monkeypatch):
    open_and_wait(qtbot, fit_panel.open_scan, str(saved(sticks(), tmp_path)))
    fit_panel.shell_boxes[2000].setChecked(False)
    mask = np.zeros((40, 40, 40), int)
    mask[10:30, 12:28, 5:35] = 1
    fit_panel.mask_box.choose(mask_layer(proxy, diffusion.fit_tensors(sticks()), mask))
    folder = tmp_path / "scripts"
    folder.mkdir()
    save_scripts_as(monkeypatch, folder / "script.py")
    before = shown_by_script(script_of(fit_panel), tmp_path, monkeypatch)
    fit(qtbot, fit_panel)
    text = script_of(fit_panel)
    assert (folder / "script.py").read_text(encoding="utf-8") == text
    assert "HeldVolume(" in text
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert np.array_equal(volume_of(layer_named(made, "dwi FA")), volume_of(layer_named(proxy, "dwi FA")))
    assert np.array_equal(volume_of(layer_named(before, "dwi FA")), volume_of(layer_named(proxy, "dwi FA")))


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.display
def test_nothing_is_left_when_it_is_closed(make_window, qtbot):
    proxy = make_window(proxied=True)
    add_map(proxy, phantom_field())
    emitters = proxy.layers.events.emitters.values()
    fit_panel = add_panel(proxy)
    listeners, gone = sum(len(event.callbacks) for event in emitters), weakref.ref(fit_panel)
    close(proxy, fit_panel, "the dock")
    del fit_panel
    assert ended(qtbot, gone)
    assert sum(len(event.callbacks) for event in emitters) < listeners


@pytest.mark.display
def test_the_manifest_opens_it_and_tracking_beside_it(make_window):
    viewer = make_window()
    _, fit_panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    assert isinstance(fit_panel, TensorPanel)
    add_map(viewer, phantom_field())
    button(fit_panel, "Track fibers…").click()
    _, tracking = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    assert field_of(tracking.source_box.layer) is phantom_field()


@pytest.mark.display
def test_tracking_that_is_open_already_comes_up_and_takes_the_tensors(make_window, qtbot):
    viewer = make_window()
    viewer.window._qt_window.show()
    _, fit_panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    add_scan(viewer, diffusion.phantom.load_brain_phantom())
    _, tracking = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking", tabify=True)
    dock, _ = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    qtbot.wait(50)  # until it has come up
    dock.raise_()
    tracking.source_box.settle()  # the user has chosen the scan
    add_map(viewer, phantom_field())

    def in_front():
        bars = viewer.window._qt_window.findChildren(QTabBar)
        return [bar.tabText(bar.currentIndex()).split(" (")[0] for bar in bars if bar.count() > 1]

    qtbot.waitUntil(lambda: in_front() == ["Diffusion tensors"], timeout=5_000)
    assert field_of(tracking.source_box.layer) is None
    button(fit_panel, "Track fibers…").click()
    assert field_of(tracking.source_box.layer) is phantom_field()
    assert in_front() == ["Fiber tracking"]


def test_a_volume_that_is_not_ours_is_no_scan(proxy, fit_panel):
    proxy.add_image(np.zeros((3, 4, 5, 6)), name="time series")
    assert fit_panel.scan_box.layer is None
    assert fit_panel.scan_box.itemText(0) == "time series (without b values)"
    assert fit_panel.mask_box.itemText(1) == "time series (4-D; a volume is needed)"

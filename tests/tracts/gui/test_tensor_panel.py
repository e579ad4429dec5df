"""The dock widget "Diffusion tensors": from a scan to maps, the mask, scripts, the end.

Most tests use napari's proxy model, without a window; what a window adds is tested in one, under the marker
``display``.
"""

import weakref

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Labels

from napari_gpubio import tracts
from napari_gpubio.core.napari_io import KEY, volume_of
from napari_gpubio.core.space import apply_affine, world_to_viewer
from napari_gpubio.tracts.gui import TensorPanel
from napari_gpubio.tracts.napari_io import field_of, map_layer
from tests.dock_widgets import (
    MILLISECONDS,
    NOTHING_COPIED,
    close,
    ended,
    run_script,
    save_scripts_as,
    script_of,
)
from tests.tracts.gui.tensor_samples import (
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

# ------------------------------------------------------------------------------------------------- from scan to maps


@pytest.mark.display
def test_from_the_sample_to_fa_and_dec(proxy, fit_panel, qtbot):
    proxy.open_sample("napari-gpubio", "brain_phantom")
    scan = proxy.layers[0]
    assert fit_panel.scan_box.layer is not None
    fit(qtbot, fit_panel)
    assert names(proxy) == ["brain phantom", "brain phantom FA", "brain phantom DEC"]
    assert not scan.visible
    fa, dec = proxy.layers[1], proxy.layers[2]
    field = field_of(fa)
    assert field is field_of(dec)
    assert dec.rgb
    assert fa.contrast_limits == [0, 1]
    # GUI = API: the same numbers
    assert np.array_equal(field.tensors, phantom_field().tensors)
    assert np.array_equal(volume_of(fa), tracts.tensors.scalar_map(phantom_field(), "FA"))
    # what belongs together lies together
    assert np.allclose(scan.extent.world[:, 1:], fa.extent.world)
    assert np.allclose(fa.extent.world, dec.extent.world)
    assert fit_panel.check_label.text() == tracts.tensors.check_gradients(phantom_field()).message
    assert not fit_panel.check_label.isHidden()
    assert "without a usable signal" in fit_panel.message


def test_the_chosen_maps_are_made_with_their_units(proxy, fit_panel, qtbot):
    add_scan(proxy, tracts.phantom.load_brain_phantom(), "brain")
    for name, box in fit_panel.map_boxes.items():
        box.setChecked(name in ("MD", "AD", "RD", "S0"))
    fit(qtbot, fit_panel)
    assert names(proxy)[1:] == ["brain MD (mm²/s)", "brain AD (mm²/s)", "brain RD (mm²/s)", "brain S0 (signal)"]
    md = layer_named(proxy, "MD (mm²/s)")
    assert np.array_equal(volume_of(md), tracts.tensors.scalar_map(phantom_field(), "MD"))


def test_settings_reach_the_fit_and_travel_with_its_maps(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks())
    fit_panel.form.widget("estimator").value = "ols"
    fit_panel.choose_device("cpu")
    fit(qtbot, fit_panel)
    layer = layer_named(proxy, "FA")
    for word in ("ols", "cpu", "napari-gpubio", "seconds"):
        assert word in repr(layer.metadata[KEY])
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(estimator="ols"), device="cpu")
    assert np.array_equal(field_of(layer).tensors, expected.tensors)


def test_shells(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks())
    boxes = fit_panel._shell_boxes
    assert list(boxes) == [0, 1000, 2000]
    assert [box.toolTip().split()[0] for box in boxes.values()] == ["2", "6", "6"]
    assert fit_panel.settings.shells == ()
    boxes[2000].setChecked(False)
    assert fit_panel.settings.shells == (0, 1000)
    fit(qtbot, fit_panel)
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(shells=(0, 1000)))
    field = field_of(layer_named(proxy, "FA"))
    assert np.array_equal(field.tensors, expected.tensors)
    assert not np.array_equal(field.tensors, tracts.fit_tensors(sticks()).tensors)
    for box in boxes.values():
        box.setChecked(False)
    fit_panel.run_button.click()
    assert "no b-value is chosen" in fit_panel.message
    assert not fit_panel.running
    boxes[1000].setChecked(True)
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        fit_panel.run_button.click()
    assert "second b-value" in fit_panel.message


def test_the_shells_follow_the_scan(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks())
    other = add_scan(proxy, tracts.phantom.load_brain_phantom(), "brain")
    fit_panel.scan_box.choose(other)
    assert list(fit_panel._shell_boxes) == [0, 1000]
    proxy.layers.remove(other.name)
    assert list(fit_panel._shell_boxes) == [0, 1000, 2000]
    proxy.layers.clear()
    assert not fit_panel._shell_boxes


# --------------------------------------------------------------------------------------------------------- the mask


def mask_layer(proxy, field, mask):
    _, keywords, _ = map_layer(field, "FA", "mask")
    return proxy.add_labels(mask.T.astype(int), name="mask", affine=keywords["affine"], metadata=keywords["metadata"])


def test_a_mask_of_ones_choice(proxy, fit_panel, qtbot):
    scan = tracts.phantom.load_brain_phantom()
    add_scan(proxy, scan)
    mask = np.zeros(scan.shape, bool)
    mask[20:30, 30:40, 25:30] = True
    fit_panel.mask_box.choose(mask_layer(proxy, phantom_field(), mask))
    fit(qtbot, fit_panel)
    field = field_of(layer_named(proxy, "scan FA"))
    assert np.array_equal(field.mask, tracts.fit_tensors(scan, mask).mask)
    assert field.mask.sum() == 500


@pytest.mark.parametrize(
    ("shape", "words"), [((5, 6, 7), ("(7, 6, 5)", "(40, 40, 40)", "grid")), ((40, 40, 40), ("(40, 40, 40)",))]
)
def test_a_mask_of_another_shape_or_place_is_a_sentence(proxy, fit_panel, shape, words):
    add_scan(proxy, sticks())
    fit_panel.mask_box.choose(proxy.add_labels(np.ones(shape, int), name="elsewhere"))
    fit_panel.run_button.click()
    assert not fit_panel.running
    for word in ("'elsewhere'", *words):
        assert word in fit_panel.message
    assert names(proxy) == ["scan", "elsewhere"]


def test_an_empty_mask_is_a_sentence(proxy, fit_panel, qtbot):
    add_scan(proxy, tracts.phantom.load_brain_phantom())
    fit_panel.mask_box.choose(mask_layer(proxy, phantom_field(), np.zeros(phantom_field().shape)))
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        fit_panel.run_button.click()
    assert "mask is empty" in fit_panel.message


def test_a_mask_can_be_drawn_with_naparis_own_button(proxy, fit_panel, qtbot):
    """The new-labels button makes a layer with all the proxy's axes, also that of the scan's volumes."""
    add_scan(proxy, tracts.phantom.load_brain_phantom())
    proxy._new_labels()
    drawn = proxy.layers[-1]
    assert isinstance(drawn, Labels)
    center = world_to_viewer((0.0, -5.0, 22.0))
    at = np.round(drawn.world_to_data([0.0, *center])).astype(int)
    painted = np.zeros(drawn.data.shape, int)
    painted[at[0], at[1] - 2 : at[1] + 3, at[2] - 2 : at[2] + 3, at[3] - 2 : at[3] + 3] = 1
    drawn.data = painted
    fit_panel.mask_box.choose(drawn)
    assert fit_panel.mask_box.layer is not None
    fit(qtbot, fit_panel)
    field = field_of(layer_named(proxy, "FA"))
    assert field.mask.sum() == 125
    middle = apply_affine(field.affine, np.argwhere(field.mask).mean(axis=0))
    assert np.abs(middle - (0.0, -5.0, 22.0)).max() < 1.5 * 2.75


# -------------------------------------------------------------------------------------------------- Copy as Python


def test_the_script_gives_the_same_fa(proxy, fit_panel, qtbot, tmp_path):
    add_scan(proxy, tracts.phantom.load_brain_phantom())
    fit_panel.form.widget("iterations").value = 1
    fit(qtbot, fit_panel)
    text = script_of(fit_panel)
    assert "FitSettings(iterations=1)" in text
    printed = run_script(text, tmp_path)
    assert fit_panel.check_label.text() in printed
    made = nib.load(tmp_path / "FA.nii.gz")
    shown = volume_of(layer_named(proxy, "FA"))
    assert np.abs(np.asarray(made.dataobj) - shown).max() < 1e-6
    assert np.allclose(made.affine, phantom_field().affine)


def test_the_script_with_a_painted_mask_and_one_shell(proxy, fit_panel, qtbot, tmp_path, monkeypatch):
    path = saved(sticks(), tmp_path)
    fit_panel.open_scan(str(path))
    fit_panel._shell_boxes[2000].setChecked(False)
    mask = np.zeros((40, 40, 40), int)
    mask[10:30, 12:28, 5:35] = 1
    fa = tracts.fit_tensors(sticks())
    fit_panel.mask_box.choose(mask_layer(proxy, fa, mask))
    fit(qtbot, fit_panel)
    folder = tmp_path / "scripts"
    folder.mkdir()
    save_scripts_as(monkeypatch, folder / "script.py")
    text = script_of(fit_panel)
    assert (folder / "script.py").read_text(encoding="utf-8") == text
    assert "SHA-256" in text
    run_script(text, tmp_path)
    made = np.asarray(nib.load(tmp_path / "FA.nii.gz").dataobj)
    assert np.abs(made - volume_of(layer_named(proxy, "dwi FA"))).max() < 1e-6


def test_a_script_for_a_scan_without_a_file_is_not_pretended(proxy, fit_panel):
    add_scan(proxy, sticks())
    assert script_of(fit_panel) == NOTHING_COPIED
    assert "file" in fit_panel.message


# ----------------------------------------------------------------------------------------------------------- the end


@pytest.mark.display
def test_nothing_is_left_when_it_is_closed(make_napari_viewer_proxy, qtbot):
    proxy = make_napari_viewer_proxy(strict_qt="raise")
    add_map(proxy, phantom_field())
    fit_panel = add_panel(proxy)
    listeners = [len(event.callbacks) for event in proxy.layers.events.emitters.values()]
    gone = weakref.ref(fit_panel)
    close(proxy, fit_panel, "the dock")
    del fit_panel
    assert ended(qtbot, gone)
    assert sum(len(e.callbacks) for e in proxy.layers.events.emitters.values()) < sum(listeners)


@pytest.mark.display
def test_the_manifest_opens_it(proxy):
    dock, fit_panel = proxy.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    assert isinstance(fit_panel, TensorPanel)
    assert dock is not None
    fit_panel.teardown()


def test_a_volume_that_is_not_ours_is_no_scan(proxy, fit_panel):
    proxy.add_image(np.zeros((3, 4, 5, 6)), name="time series")
    assert fit_panel.scan_box.layer is None
    assert isinstance(proxy.layers[0], Image)
    assert fit_panel.mask_box.count() == 1


@pytest.mark.display
def test_tracking_opens_beside_the_panel(make_napari_viewer):
    proxy = make_napari_viewer()
    _, fit_panel = proxy.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    fit_panel.open_tracking()
    assert any("Fiber tracking" in name for name in proxy.window.dock_widgets)

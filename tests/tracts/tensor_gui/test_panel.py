"""The dock widget "Diffusion tensors": from a scan to maps, the mask, scripts, the end.

Most tests use napari's viewer model, without a window; what a window adds is tested in one, under the marker
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
    WAYS_TO_CLOSE,
    close,
    ended,
    run_script,
    save_scripts_as,
    script_of,
)
from tests.tracts.tensor_gui.panel_samples import (
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
def test_from_the_sample_to_fa_and_dec(viewer, panel, qtbot):
    viewer.open_sample("napari-gpubio", "brain_phantom")
    scan = viewer.layers[0]
    assert panel.scan_box.layer is not None
    fit(qtbot, panel)
    assert names(viewer) == ["brain phantom", "brain phantom FA", "brain phantom DEC"]
    assert not scan.visible
    fa, dec = viewer.layers[1], viewer.layers[2]
    field = field_of(fa)
    assert field is field_of(dec)
    assert dec.rgb
    assert fa.contrast_limits == [0, 1]
    # GUI = API: the same numbers
    assert np.array_equal(field.tensors, phantom_field().tensors)
    assert np.array_equal(volume_of(fa), tracts.scalar_map(phantom_field(), "FA"))
    # what belongs together lies together
    assert np.allclose(scan.extent.world[:, 1:], fa.extent.world)
    assert np.allclose(fa.extent.world, dec.extent.world)
    assert panel.check_label.text() == tracts.check_gradients(phantom_field()).message
    assert not panel.check_label.isHidden()
    assert "without a usable signal" in panel.message


def test_the_chosen_maps_are_made_with_their_units(viewer, panel, qtbot):
    add_scan(viewer, tracts.load_brain_phantom(), "brain")
    for name, box in panel.map_boxes.items():
        box.setChecked(name in ("MD", "AD", "RD", "S0"))
    fit(qtbot, panel)
    assert names(viewer)[1:] == ["brain MD (mm²/s)", "brain AD (mm²/s)", "brain RD (mm²/s)", "brain S0 (signal)"]
    md = layer_named(viewer, "MD (mm²/s)")
    assert np.array_equal(volume_of(md), tracts.scalar_map(phantom_field(), "MD"))


def test_maps_say_how_they_were_made(viewer, panel, qtbot):
    """All parameters, version, device and seconds are to travel with a result."""
    add_scan(viewer, sticks())
    panel.form.widget("estimator").value = "ols"
    panel.choose_device("cpu")
    fit(qtbot, panel)
    said = repr(layer_named(viewer, "FA").metadata[KEY])
    for word in ("ols", "cpu", "napari-gpubio", "seconds"):
        assert word in said


def test_settings_reach_the_fit(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    panel.form.widget("estimator").value = "ols"
    fit(qtbot, panel)
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(estimator="ols"))
    assert np.array_equal(field_of(layer_named(viewer, "FA")).tensors, expected.tensors)


def test_shells(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    boxes = panel._shell_boxes
    assert list(boxes) == [0, 1000, 2000]
    assert [box.toolTip().split()[0] for box in boxes.values()] == ["2", "6", "6"]
    assert panel.settings.shells == ()
    boxes[2000].setChecked(False)
    assert panel.settings.shells == (0, 1000)
    fit(qtbot, panel)
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(shells=(0, 1000)))
    field = field_of(layer_named(viewer, "FA"))
    assert np.array_equal(field.tensors, expected.tensors)
    assert not np.array_equal(field.tensors, tracts.fit_tensors(sticks()).tensors)
    for box in boxes.values():
        box.setChecked(False)
    panel.run_button.click()
    assert "no b-value is chosen" in panel.message
    assert not panel.running
    boxes[1000].setChecked(True)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    assert "second b-value" in panel.message


def test_the_shells_follow_the_scan(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    other = add_scan(viewer, tracts.load_brain_phantom(), "brain")
    panel.scan_box.choose(other)
    assert list(panel._shell_boxes) == [0, 1000]
    viewer.layers.remove(other.name)
    assert list(panel._shell_boxes) == [0, 1000, 2000]
    viewer.layers.clear()
    assert not panel._shell_boxes


# --------------------------------------------------------------------------------------------------------- the mask


def mask_layer(viewer, field, mask):
    _, keywords, _ = map_layer(field, "FA", "mask")
    return viewer.add_labels(mask.T.astype(int), name="mask", affine=keywords["affine"], metadata=keywords["metadata"])


def test_a_mask_of_ones_choice(viewer, panel, qtbot):
    scan = tracts.load_brain_phantom()
    add_scan(viewer, scan)
    mask = np.zeros(scan.shape, bool)
    mask[20:30, 30:40, 25:30] = True
    panel.mask_box.choose(mask_layer(viewer, phantom_field(), mask))
    fit(qtbot, panel)
    field = field_of(layer_named(viewer, "scan FA"))
    assert np.array_equal(field.mask, tracts.fit_tensors(scan, mask).mask)
    assert field.mask.sum() == 500


def test_a_mask_of_another_shape_is_a_sentence(viewer, panel):
    add_scan(viewer, sticks())
    layer = viewer.add_labels(np.ones((5, 6, 7), int), name="too small")
    panel.mask_box.choose(layer)
    panel.run_button.click()
    assert not panel.running
    for word in ("'too small'", "(7, 6, 5)", "(40, 40, 40)", "grid"):
        assert word in panel.message
    assert names(viewer) == ["scan", "too small"]


def test_a_mask_in_another_place_is_a_sentence(viewer, panel):
    add_scan(viewer, sticks())
    panel.mask_box.choose(viewer.add_labels(np.ones((40, 40, 40), int), name="elsewhere"))
    panel.run_button.click()
    assert not panel.running
    assert "'elsewhere'" in panel.message


def test_an_empty_mask_is_a_sentence(viewer, panel, qtbot):
    add_scan(viewer, tracts.load_brain_phantom())
    panel.mask_box.choose(mask_layer(viewer, phantom_field(), np.zeros(phantom_field().shape)))
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    assert "mask is empty" in panel.message


def test_a_mask_can_be_drawn_with_naparis_own_button(viewer, panel, qtbot):
    """The new-labels button makes a layer with all the viewer's axes, also that of the scan's volumes."""
    add_scan(viewer, tracts.load_brain_phantom())
    viewer._new_labels()
    drawn = viewer.layers[-1]
    assert isinstance(drawn, Labels)
    center = world_to_viewer((0.0, -5.0, 22.0), phantom_field().affine, phantom_field().shape)
    at = np.round(drawn.world_to_data([0.0, *center])).astype(int)
    painted = np.zeros(drawn.data.shape, int)
    painted[at[0], at[1] - 2 : at[1] + 3, at[2] - 2 : at[2] + 3, at[3] - 2 : at[3] + 3] = 1
    drawn.data = painted
    panel.mask_box.choose(drawn)
    assert panel.mask_box.layer is not None
    fit(qtbot, panel)
    field = field_of(layer_named(viewer, "FA"))
    assert field.mask.sum() == 125
    middle = apply_affine(field.affine, np.argwhere(field.mask).mean(axis=0))
    assert np.abs(middle - (0.0, -5.0, 22.0)).max() < 1.5 * 2.75


# -------------------------------------------------------------------------------------------------- Copy as Python


def test_the_script_gives_the_same_fa(viewer, panel, qtbot, tmp_path):
    add_scan(viewer, tracts.load_brain_phantom())
    panel.form.widget("iterations").value = 1
    fit(qtbot, panel)
    text = script_of(panel)
    assert "FitSettings(iterations=1)" in text
    printed = run_script(text, tmp_path)
    assert panel.check_label.text() in printed
    made = nib.load(tmp_path / "FA.nii.gz")
    shown = volume_of(layer_named(viewer, "FA"))
    assert np.abs(np.asarray(made.dataobj) - shown).max() < 1e-6
    assert np.allclose(made.affine, phantom_field().affine)


def test_the_script_with_a_painted_mask_and_one_shell(viewer, panel, qtbot, tmp_path, monkeypatch):
    path = saved(sticks(), tmp_path)
    panel.open_scan(str(path))
    panel._shell_boxes[2000].setChecked(False)
    mask = np.zeros((40, 40, 40), int)
    mask[10:30, 12:28, 5:35] = 1
    fa = tracts.fit_tensors(sticks())
    panel.mask_box.choose(mask_layer(viewer, fa, mask))
    fit(qtbot, panel)
    folder = tmp_path / "scripts"
    folder.mkdir()
    save_scripts_as(monkeypatch, folder / "script.py")
    text = script_of(panel)
    assert (folder / "script.py").read_text(encoding="utf-8") == text
    assert "SHA-256" in text
    run_script(text, tmp_path)
    made = np.asarray(nib.load(tmp_path / "FA.nii.gz").dataobj)
    assert np.abs(made - volume_of(layer_named(viewer, "dwi FA"))).max() < 1e-6


def test_a_script_for_a_scan_without_a_file_is_not_pretended(viewer, panel):
    add_scan(viewer, sticks())
    assert script_of(panel) == NOTHING_COPIED
    assert "file" in panel.message


# ----------------------------------------------------------------------------------------------------------- the end


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_napari_viewer_proxy, qtbot, how):
    viewer = make_napari_viewer_proxy(strict_qt="raise")
    add_map(viewer, phantom_field())
    panel = add_panel(viewer)
    listeners = [len(event.callbacks) for event in viewer.layers.events.emitters.values()]
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel
    assert ended(qtbot, gone)
    if how == "the dock":
        assert sum(len(e.callbacks) for e in viewer.layers.events.emitters.values()) < sum(listeners)


@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    assert isinstance(panel, TensorPanel)
    assert dock is not None
    panel.teardown()


def test_a_volume_that_is_not_ours_is_no_scan(viewer, panel):
    viewer.add_image(np.zeros((3, 4, 5, 6)), name="time series")
    assert panel.scan_box.layer is None
    assert isinstance(viewer.layers[0], Image)
    assert panel.mask_box.count() == 1


@pytest.mark.display
def test_tracking_opens_beside_the_panel(make_napari_viewer):
    viewer = make_napari_viewer()
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    panel.open_tracking()
    assert any("Fiber tracking" in name for name in viewer.window.dock_widgets)

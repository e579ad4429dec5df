"""The dock widget "Denoise": Copy as Python, which proves each input beside the API, too; and another mode."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core import operations
from napari_gpubio.core.napari_io import carried, stored_array
from napari_gpubio.core.operations import OpenVolume, from_graph
from napari_gpubio.denoise.operations import Denoise
from tests.denoise.gui.panel_samples import (
    AFFINE,
    SAGITTAL,
    add_series,
    add_volume,
    noisy,
    result_layers,
    run,
    run_script_here,
    series,
    use,
)
from tests.dock_widgets import run_script, script_of


def saved(array, path, affine=AFFINE):
    """Write a NIfTI file with a header that says more than the affine."""
    image = nib.Nifti1Image(array, affine)
    image.header.set_xyzt_units("mm", "sec")
    image.set_sform(affine, code="mni")
    nib.save(image, path)
    return {"path": str(path)}


def written(folder, name="scan"):
    """What a script has written: the denoised image and the noise."""
    return [nib.load(folder / f"{title} {name}.nii.gz") for title in ("denoised", "noise of")]


def same(image, layer):
    """Whether a file holds what a layer shows."""
    return np.array_equal(np.asarray(image.dataobj), stored_array(layer), equal_nan=True)


@pytest.mark.daily
def test_the_script_gives_the_same_and_keeps_the_header(viewer, panel, qtbot, tmp_path):
    add_volume(viewer, affine=SAGITTAL, metadata=saved(noisy(), tmp_path / "scan.nii.gz", SAGITTAL))
    panel.mode.level.setCurrentText("a number")
    panel.mode.number.setText("3.5")
    run(qtbot, panel, patches="small", noise_model="rician")
    text = script_of(panel)
    assert "DenoiseSettings(patches=Small(), noise_model='rician')" in text
    assert "sigma=3.5" in text
    run_script(text, tmp_path)
    clean, noise = written(tmp_path)
    assert same(clean, result_layers(viewer)[0])
    assert same(noise, result_layers(viewer)[2])
    assert np.all(np.asarray(noise.dataobj) == 3.5)
    assert np.allclose(clean.affine, SAGITTAL)
    assert clean.header["sform_code"] == 4
    assert clean.header.get_xyzt_units() == ("mm", "sec")


@pytest.mark.daily
def test_inputs_without_a_file_are_saved_beside_the_script(viewer, panel, qtbot, tmp_path, monkeypatch):
    """A series of which some volumes are denoised, its gaps, a mask and a noise map."""
    array = series()
    array[5, 5, 5, 1], array[8, 9, 10, 2] = np.nan, np.inf
    image = add_series(viewer, array, SAGITTAL)
    mask = np.zeros((20, 18, 16), np.float32)
    mask[3:15, 4:14, 3:13] = 1
    add_volume(viewer, mask, SAGITTAL, name="mask")
    levels = add_volume(viewer, 2 + mask, SAGITTAL, name="levels")
    panel.image_box.layer_box.choose(image)
    panel.image_box.mask_box.choose(viewer.layers["mask"])
    panel.mode.level.setCurrentText("a map")
    panel.mode.map_box.choose(levels)
    panel.image_box.first.setValue(1)
    panel.image_box.gaps.setChecked(True)
    run(qtbot, panel, patches="small")
    text = run_script_here(panel, tmp_path, monkeypatch)
    for part in ("noise=levels", "mask=mask", "volumes=(1, 2)", "skip_gaps=True"):
        assert part in text
    clean, noise = written(tmp_path, "series")
    layer, _, noise_layer = result_layers(viewer, "series")
    assert same(clean, layer)
    assert same(noise, noise_layer)
    kept = (mask == 0) | ~np.isfinite(array).all(axis=3)
    assert np.array_equal(stored_array(layer)[kept], array[kept], equal_nan=True)


@pytest.mark.daily
def test_the_script_of_logarithms(viewer, panel, qtbot, tmp_path, monkeypatch):
    shown = np.log10(1e-9 * noisy())
    shown[0] = np.nan
    add_volume(viewer, shown, metadata={**saved(shown, tmp_path / "a.nii"), "quantity": "log10 fluence"})
    run(qtbot, panel, patches="small")
    run_script_here(panel, tmp_path, monkeypatch)
    clean, noise = written(tmp_path)
    assert same(clean, result_layers(viewer)[0])
    assert same(noise, result_layers(viewer)[2])


def test_a_script_without_an_image_is_a_sentence(panel):
    script_of(panel)
    assert "there is no image" in panel.message


def test_the_script_is_that_of_the_result_whatever_happens_to_the_panel_and_its_layers(
    viewer, panel, qtbot, tmp_path, monkeypatch
):
    image = add_volume(viewer)
    mask = viewer.add_labels(np.ones(image.data.shape, int), name="mask", scale=image.scale, affine=image.affine)
    panel.image_box.mask_box.choose(mask)
    run(qtbot, panel, patches="small")
    shown = stored_array(result_layers(viewer)[0]).copy()
    use(panel, patches="large")
    mask.data[:5] = 0
    mask.refresh()
    text = run_script_here(panel, tmp_path, monkeypatch)
    assert "patches=Small()" in text
    np.testing.assert_array_equal(np.asarray(written(tmp_path)[0].dataobj), shown)
    viewer.layers.remove("mask")
    assert script_of(panel).splitlines()[-1] == text.splitlines()[-1]


def test_layers_carry_the_record_of_what_they_are(viewer, panel, qtbot, tmp_path):
    add_volume(viewer, metadata=saved(noisy(), tmp_path / "scan.nii.gz"))
    run(qtbot, panel, patches="small")
    clean, residual, _ = (carried(layer, "record") for layer in result_layers(viewer))
    (opened, found) = from_graph({name: clean[name] for name in clean if name != "output"}).values()
    assert (clean["output"], residual["output"]) == ("denoised", "residual")
    assert opened == OpenVolume.at(tmp_path / "scan.nii.gz")
    assert found == Denoise(image=opened, settings=denoise.DenoiseSettings(patches=denoise.Small()), log10=False)
    made = operations.run(found, device="cpu", store=operations.Store()).denoised
    assert np.array_equal(made.array, stored_array(result_layers(viewer)[0]))

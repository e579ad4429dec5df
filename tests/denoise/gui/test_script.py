"""The dock widget "Denoise": Copy as Python, which proves each input beside the API, too; and another mode."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core.napari_io import stored_array
from napari_gpubio.denoise.gui import panel as panel_module
from napari_gpubio.denoise.gui.modes import MODES, AnlmMode
from napari_gpubio.denoise.gui.request import AnlmRecipe
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
    assert "DenoiseSettings(patches='small', noise_model='rician'), noise=3.5" in text
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
    text, _ = run_script_here(panel, tmp_path, monkeypatch)
    for part in ("SHA-256", "noise=noise", "mask=mask", "without_gaps"):
        assert part in text
    clean, noise = written(tmp_path, "series")
    layer, _, noise_layer = result_layers(viewer, "series")
    assert same(clean, layer)
    assert np.array_equal(np.asarray(noise.dataobj), stored_array(noise_layer)[..., 1:])
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


# -- modes ------------------------------------------------------------------------------------------------------------


class HalvedRecipe(AnlmRecipe):
    """Denoises, and halves."""

    def steps(self, values, **known):
        result = yield from super().steps(values, **known)
        result.image[:] *= 0.5
        return result


class Halved(AnlmMode):
    """A mode of another kind."""

    title, recipe = "halves", HalvedRecipe


def test_another_mode_is_one_more_class(viewer, qtbot, monkeypatch, request):
    monkeypatch.setattr(panel_module, "MODES", (*MODES, Halved))
    panel = request.getfixturevalue("panel")
    add_volume(viewer, affine=np.eye(4))
    assert panel.mode is panel.modes[0]
    panel.mode_box.setCurrentText("halves")
    assert isinstance(panel.mode, Halved)
    assert panel.modes[0].isHidden()
    assert not panel.mode.isHidden()
    run(qtbot, panel, patches="small")
    plain = denoise.denoise(noisy(), denoise.DenoiseSettings(patches="small"), device="cpu").image
    assert np.array_equal(stored_array(result_layers(viewer)[0]), 0.5 * plain)

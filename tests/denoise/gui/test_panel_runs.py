"""The dock widget "Denoise": from a layer to its denoised image, residual and noise."""

import numpy as np
import pytest
from napari.layers import Image

from napari_gpubio import denoise
from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import KEY, stored_array, volume_of
from napari_gpubio.core.quantity import Quantity, quantity_of
from napari_gpubio.core.volumes import read_array
from napari_gpubio.denoise.gui import DenoisePanel
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.napari_io import scan_layer, scan_of
from tests.denoise.gui.panel_samples import (
    AFFINE,
    SAGITTAL,
    add_series,
    add_volume,
    names,
    noisy,
    number,
    part_button,
    result_layers,
    run,
    series,
)
from tests.dock_widgets import button
from tests.sentences import says

SMALL = denoise.DenoiseSettings(patches=denoise.Small())


@pytest.mark.daily
@pytest.mark.display
def test_from_the_sample_to_a_clean_head(viewer, qtbot):
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Denoise")
    assert isinstance(panel, DenoisePanel)
    panel.choose_device("cpu")
    viewer.open_sample("napari-gpubio", "noisy_head")
    head = denoise.samples.noisy_head()
    run(qtbot, panel, noise_model="rician", patches="small")
    image, clean = viewer.layers["head (MRI, Rician noise)"], viewer.layers["denoised head (MRI, Rician noise)"]
    assert not image.visible
    assert clean.visible
    body = head.truth > 50
    before, after = ((x - head.truth)[body].std() for x in (head.noisy, volume_of(clean)))
    assert 20 * np.log10(before / after) > 6
    assert number(panel, "Gain") != "not known"
    panel.teardown()
    assert image.visible, "nothing says any more why it was hidden"
    assert clean.visible


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["anisotropic, from right to left", "sagittal"])
def test_the_gui_gives_what_the_api_gives(viewer, panel, qtbot, tmp_path, affine):
    image = add_volume(viewer, affine=affine, colormap="bop blue", contrast_limits=(20, 150))
    run(qtbot, panel, patches="small")
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    expected = denoise.denoise(noisy(), SMALL, voxel_size_mm=sizes, device="cpu")
    clean, residual, noise = result_layers(viewer)
    assert np.array_equal(volume_of(clean), expected.image)
    assert np.array_equal(volume_of(noise), expected.noise)
    assert np.array_equal(volume_of(residual), noisy() - expected.image)
    # what belongs together lies together, looks alike, says how it was made, and is saved where the image lay
    for layer in (clean, residual, noise):
        assert np.allclose(layer.extent.world, image.extent.world)
        assert layer.units == image.units
        provenance = repr(layer.metadata[KEY])
        for word in ("'search_radius': 3", "'small'", "cpu", "napari-gpubio", "seconds"):
            assert word in provenance
    data, attributes, _ = clean.as_layer_data_tuple()
    array, saved_affine = read_array(*write_image(str(tmp_path / "clean.nii.gz"), data, attributes))
    assert np.array_equal(array, expected.image)
    assert np.allclose(saved_affine, affine)
    assert clean.colormap.name == "bop blue"
    assert clean.contrast_limits == [20, 150]
    low, high = residual.contrast_limits
    assert low == -high < 0
    assert [layer.visible for layer in (image, clean, residual, noise)] == [False, True, False, False]


def test_a_layer_that_is_not_ours_is_taken_by_its_own_transform(viewer, panel, qtbot):
    array = noisy().astype(np.int16)
    image = viewer.add_image(array.T, translate=(5, 6, 7), name="scan")
    assert "20 × 18 × 16 voxels of 1 mm" in panel.image_box.sizes.text()
    image.scale = (3, 1, 1)
    assert "voxels of 1 × 1 × 3 mm" in panel.image_box.sizes.text()
    run(qtbot, panel, patches="small")
    expected = denoise.denoise(array, SMALL, voxel_size_mm=(1, 1, 3), device="cpu")
    clean = result_layers(viewer)[0]
    assert np.array_equal(clean.data.T, expected.image)
    assert np.allclose(clean.extent.world, image.extent.world)
    assert says(panel.message, "int16", "float32")


# -- logarithms -------------------------------------------------------------------------------------------------------


def test_fluence_is_filtered_as_it_is_and_shown_as_its_logarithm(viewer, panel, qtbot):
    linear = 1e-12 * noisy()
    linear[:3] = 0
    shown = denoise.values.to_log10(linear)
    add_volume(viewer, shown, metadata={"quantity": "log10 fluence", "unit": "1/mm²"}, contrast_limits=(-14, -9))
    assert panel.image_box.log.isChecked()
    run(qtbot, panel, patches="small")
    expected = denoise.denoise(denoise.values.from_log10(shown), SMALL, voxel_size_mm=(1, 1, 2), device="cpu")
    clean, residual, noise = result_layers(viewer)
    assert np.array_equal(volume_of(clean), denoise.values.to_log10(expected.image), equal_nan=True)
    assert np.array_equal(volume_of(noise), denoise.values.to_log10(expected.noise), equal_nan=True)
    assert clean.contrast_limits == [-14, -9]
    assert quantity_of(clean) == Quantity("fluence", "1/mm²", "log10", "denoised: scan")
    assert np.isnan(volume_of(residual)[0]).all()
    relative = np.median((expected.noise / expected.image)[(expected.image > expected.noise) & (expected.noise > 0)])
    assert number(panel, "Noise") == f"{100 * relative:.3g} %"


def test_logarithms_can_be_filtered_as_they_are(viewer, panel, qtbot):
    array = np.log10(noisy())
    viewer.add_image(array.T, name="log10 of something")
    assert panel.image_box.log.isChecked()
    panel.image_box.log.setChecked(False)
    run(qtbot, panel, patches="small")
    clean = result_layers(viewer, "log10 of something")[0]
    assert np.array_equal(clean.data.T, denoise.denoise(array, SMALL, device="cpu").image)


# -- series -----------------------------------------------------------------------------------------------------------


def test_some_volumes_of_a_series(viewer, panel, qtbot):
    array, image = series(), add_series(viewer)
    assert (panel.image_box.first.value(), panel.image_box.last.value()) == (0, 2)
    panel.image_box.first.setValue(1)
    panel.image_box.last.setValue(1)
    run(qtbot, panel, patches="small")
    expected = denoise.denoise(array[..., 1], SMALL, voxel_size_mm=(1, 1, 2), device="cpu")
    clean, residual, noise = (stored_array(layer) for layer in result_layers(viewer, "series"))
    assert np.array_equal(clean[..., 1], expected.image)
    assert np.array_equal(clean[..., ::2], array[..., ::2])
    assert np.array_equal(noise[..., 1], expected.noise)
    assert not residual[..., ::2].any()
    assert not noise[..., ::2].any()
    assert np.allclose(viewer.layers["denoised series"].extent.world, image.extent.world)


def test_a_denoised_diffusion_scan_is_a_diffusion_scan(viewer, panel, qtbot):
    """So that tensors can be fitted to it; but it is not what its file holds."""
    array = series(4)
    directions = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    scan = DiffusionScan(data=array, bvals=np.array([0, 1e3, 1e3, 1e3]), directions=directions, affine=AFFINE)
    data, keywords, _ = scan_layer(scan, "scan")
    viewer.add_image(data, **keywords)
    run(qtbot, panel, patches="small")
    clean, residual, noise = result_layers(viewer)
    assert np.array_equal(scan_of(clean).data, stored_array(clean))
    assert not np.array_equal(scan_of(clean).data, array)
    assert np.array_equal(scan_of(clean).bvals, scan.bvals)
    assert scan_of(clean).path is None
    assert scan_of(residual) is scan_of(noise) is None


# -- more runs --------------------------------------------------------------------------------------------------------


def test_another_run_changes_the_layers_in_place_whatever_the_name_of_the_image(viewer, panel, qtbot):
    image = add_volume(viewer)
    run(qtbot, panel)
    clean = result_layers(viewer)[0]
    clean.contrast_limits = (90, 145)
    first = clean.data.copy()
    image.name = "another name"
    panel.show_only("before")
    assert image.visible
    run(qtbot, panel, patches="small")
    assert len(viewer.layers) == 4
    assert not np.array_equal(clean.data, first)
    assert clean.contrast_limits == [90, 145]  # the user's own
    assert not image.visible


def test_kept_layers_are_left_alone(viewer, panel, qtbot):
    add_volume(viewer)
    run(qtbot, panel)
    clean = result_layers(viewer)[0]
    first = clean.data.copy()
    button(panel.result_box, "Keep these layers").click()
    assert panel.result_box.isHidden()
    run(qtbot, panel, patches="small")
    assert len(viewer.layers) == 7
    assert np.array_equal(clean.data, first)


def test_each_image_has_results_of_its_own(viewer, panel, qtbot):
    first = add_volume(viewer, name="first")
    run(qtbot, panel)
    panel.image_box.layer_box.choose(add_volume(viewer, noisy(seed=5), name="second"))
    assert panel.result_box.isHidden()
    run(qtbot, panel)
    assert {"denoised first", "denoised second"} <= set(names(viewer))
    panel.show_only("before")
    assert viewer.layers["second"].visible
    assert not first.visible  # what belongs to the other image stays as it was


def test_before_and_after(viewer, panel, qtbot):
    image = add_volume(viewer)
    run(qtbot, panel)
    layers = [image, *result_layers(viewer)]
    for shown, part in enumerate(("before", "after", "residual", "noise")):
        part_button(panel, part).click()
        assert [layer.visible for layer in layers] == [n == shown for n in range(4)]
        assert part_button(panel, part).isChecked()
    for part in ("before", "after", "before"):
        panel.toggle_before_after()
        assert panel.results.visible_part() == part
        assert part_button(panel, part).isChecked()


def test_only_images_that_are_no_results_are_denoised_preferably_those_that_are_seen(viewer, panel, qtbot):
    add_volume(viewer)
    run(qtbot, panel)
    viewer.add_image(np.zeros((2, 2, 4, 5, 6)), name="hyperstack")
    viewer.add_image(np.zeros((4, 5, 6, 3)), rgb=True, name="colors")
    box = panel.image_box.layer_box
    assert [box.itemText(row) for row in range(box.count()) if box.model().item(row).isEnabled()] == ["scan"]
    assert isinstance(panel.image_box.layer, Image)


def test_an_image_that_is_seen_is_suggested(viewer, panel):
    add_volume(viewer, name="truth", visible=False)
    add_volume(viewer, name="noisy")
    assert panel.image_box.layer.name == "noisy"

"""The dock widget "Denoise": images of two dimensions, and the noise of a volume of which a preview sees a part."""

import numpy as np
import pytest

from napari_gpubio import denoise
from tests.denoise.gui.panel_samples import add_volume, look, noisy, result_layers, run, run_script_here

SHAPE, PLACE = (60, 44), {"scale": (0.5, 0.5), "translate": (3.0, 4.0)}


@pytest.fixture
def plane(viewer):
    return viewer.add_image(noisy((*SHAPE, 1))[..., 0].T, name="scan", **PLACE)


def expected_of(plane, **more):
    return denoise.denoise(plane.data.T, voxel_size_mm=(0.5, 0.5), device="cpu", **more).image.T


def test_a_run_and_its_layers(viewer, panel, qtbot, plane):
    assert "60 × 44 voxels of 0.5 mm" in panel.image_box.sizes.text()
    run(qtbot, panel)
    for layer in result_layers(viewer):
        assert layer.data.shape == plane.data.shape
        np.testing.assert_allclose(layer.extent.world, plane.extent.world)
    np.testing.assert_allclose(result_layers(viewer)[0].data, expected_of(plane), rtol=1e-4)


def test_a_mask_and_a_map_of_the_noise(viewer, panel, qtbot, plane):
    inside = np.zeros(plane.data.shape, np.uint8)
    inside[10:30, 12:50] = 1
    mask = viewer.add_labels(inside, name="mask", **PLACE)
    levels = viewer.add_image(np.full(plane.data.shape, 4.0), name="levels", **PLACE)
    panel.image_box.layer_box.choose(plane)
    panel.image_box.mask_box.choose(mask)
    panel.mode.level.setCurrentText("a map")
    panel.mode.map_box.choose(levels)
    run(qtbot, panel)
    expected = expected_of(plane, mask=inside.T, noise=4.0)
    np.testing.assert_allclose(result_layers(viewer)[0].data, expected, rtol=1e-4)


def test_the_preview_is_the_plane(panel, qtbot, plane):
    shown = look(qtbot, panel)
    np.testing.assert_allclose(shown.data, expected_of(plane), rtol=1e-4)
    np.testing.assert_allclose(shown.extent.world, plane.extent.world)


def test_the_script(viewer, panel, plane, tmp_path, monkeypatch):
    inside = np.ones(plane.data.shape, np.uint8)
    inside[:9] = 0
    panel.image_box.mask_box.choose(viewer.add_labels(inside, name="mask", **PLACE))
    panel.image_box.layer_box.choose(plane)
    run_script_here(panel, tmp_path, monkeypatch)
    (made,) = tmp_path.glob("denoised *.nii.gz")
    np.testing.assert_allclose(
        np.squeeze(denoise.open_volume(made).array), expected_of(plane, mask=inside.T).T, rtol=1e-4
    )


def test_the_preview_of_a_volume_has_the_noise_of_all_of_it(viewer, panel, qtbot):
    """A slice and what is around it are too few voxels to find it in, or other ones."""
    image = add_volume(viewer, noisy((40, 36, 40)), affine=np.eye(4))
    viewer.dims.set_current_step(0, 20)
    shown = look(qtbot, panel).data
    run(qtbot, panel)
    np.testing.assert_allclose(np.squeeze(shown), result_layers(viewer)[0].data[20], rtol=1e-3)
    assert image.data.shape == (40, 36, 40)

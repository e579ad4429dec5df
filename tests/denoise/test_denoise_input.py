"""Everything that cannot be denoised is refused with a sentence."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise import DenoiseSettings, denoise
from napari_gpubio.denoise.settings import Small

GOOD = np.random.default_rng(0).random((8, 9, 10)) + 1.0


def altered(value):
    image = GOOD.copy()
    image[1, 2, 3] = value
    return image


SERIES = np.stack([GOOD, 0 * GOOD], axis=-1)
BAD = {
    "NaN": (altered(np.nan), {}, r"1 of the image's 720 voxels are not finite; check .*skip_gaps=True"),
    "infinite": (altered(-np.inf), {}, r"1 of the image's 720 voxels are not finite"),
    "complex": (GOOD + 1j, {}, r"complex128 values; give real numbers"),
    "text": (np.full((8, 8, 8), "a"), {}, r"<U1 values; give real numbers"),
    "1-D": (GOOD[0, 0], {}, r"shape \(10,\); give a plane"),
    "5-D": (GOOD.reshape(2, 4, 9, 5, 2), {}, r"shape \(2, 4, 9, 5, 2\); give a plane \(x, y\), a volume"),
    "no voxels": (GOOD[:0], {}, r"shape \(0, 9, 10\) and no voxels"),
    "no volumes": (SERIES[..., :0], {}, r"shape \(8, 9, 10, 0\) and no voxels"),
    "one line": (GOOD[:, :1, :1], {}, r"shape \(8, 1, 1\), a line of voxels; give a plane"),
    "a plane of one line": (GOOD[:1, 0], {}, r"shape \(1, 10\), a line of voxels"),
    "a plane smaller than the patch": (GOOD[0, :3], {}, r"3 voxels along x and a patch 5"),
    "zero": (0 * GOOD, {}, r"the image is zero everywhere"),
    "a zero volume": (SERIES, {}, r"volume 1 of the image is zero everywhere"),
    "negative magnitudes": (
        altered(-0.25),
        {"settings": DenoiseSettings(noise_model="rician")},
        r"negative values \(the least is -0.25\).*noise_model='gaussian'",
    ),
    "smaller than the patch": (GOOD[:4], {}, r"4 voxels along x and a patch 5; .*patches=Small\(\)"),
    "smaller than the box": (
        GOOD[:2],
        {"settings": DenoiseSettings(patches=Small())},
        r"2 voxels along x and a patch 3",
    ),
    "search too wide": (
        GOOD,
        {"settings": DenoiseSettings(search_radius=9)},
        r"search_radius is 9 voxels along x, where the image has 8; it must be at most 7",
    ),
    "mask of another shape": (GOOD, {"mask": np.ones((8, 9, 9))}, r"mask has shape \(8, 9, 9\).*\(8, 9, 10\)"),
    "mask of the series": (SERIES + 1, {"mask": SERIES}, r"mask has shape \(8, 9, 10, 2\)"),
    "empty mask": (GOOD, {"mask": 0 * GOOD}, r"the mask is empty"),
    "mask of text": (GOOD, {"mask": np.full(GOOD.shape, "x")}, r"the mask holds <U1 values"),
    "noise of another shape": (GOOD, {"noise": np.ones(3)}, r"noise has shape \(3,\) and the image \(8, 9, 10\)"),
    "negative noise": (GOOD, {"noise": -1.0}, r"negative or not finite"),
    "NaN noise": (GOOD, {"noise": altered(np.nan)}, r"negative or not finite"),
    "no noise": (GOOD, {"noise": 0.0}, r"the noise is zero everywhere; give noise=None"),
    "noise of text": (GOOD, {"noise": "loud"}, r"the noise map holds <U4 values"),
    "two voxel sizes": (GOOD, {"voxel_size_mm": (1, 1)}, r"voxel_size_mm is \(1, 1\); give three positive lengths"),
    "negative voxel size": (GOOD, {"voxel_size_mm": (1, -1, 1)}, r"give three positive lengths"),
    "voxel size of text": (GOOD, {"voxel_size_mm": ("a", 1, 1)}, r"give three positive lengths"),
}


@pytest.mark.parametrize(("image", "options", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_sentence(image, options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        denoise(image, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"patches": "huge"}, r"patches is 'huge'; give Mixed or Small or Large"),
        ({"search_radius": 0}, r"search_radius is 0 voxels; it must be at least 1 voxels"),
        ({"search_radius": 2.5}, r"search_radius is 2.5; give an integer"),
        ({"noise_model": "poisson"}, r"noise_model is 'poisson'"),
        ({"preselection": "mine"}, r"preselection is 'mine'"),
        ({"cutoff": -1.0}, r"cutoff is -1; it must be at least 0"),
        ({"center": "two"}, r"center is 'two'"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        DenoiseSettings(**options)


def test_known_noise_of_every_kind_is_taken():
    series = np.stack([GOOD, 2 * GOOD], axis=-1)
    for noise in (0.3, np.array([0.3, 0.6]), np.full(GOOD.shape, 0.3), np.full(series.shape, 0.3), 1):
        assert denoise(series, DenoiseSettings(search_radius=1), noise=noise, device="cpu").complete

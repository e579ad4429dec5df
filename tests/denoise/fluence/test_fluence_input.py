"""Everything that is no fluence is refused with a sentence."""

import re

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise.fluence import FluenceSettings, denoise_fluence
from tests.denoise.fluence.samples import SHORT, diffuse, poisson_halves
from tests.sentences import says

FIRST, SECOND = poisson_halves(diffuse((8, 9, 10)), 100)
GATES = np.stack([FIRST, SECOND], axis=-1)
FULL = np.ones(FIRST.shape)


def altered(value, of=FIRST):
    image = of.copy()
    image[1, 2, 3] = value
    return image


BAD = {
    "NaN": (altered(np.nan), SECOND, {}, r"1 of the first buffer's 720 voxels are not finite; check .*skip_gaps=True"),
    "infinite second": (FIRST, altered(np.inf), {}, r"1 of the second buffer's 720 voxels are not finite"),
    "negative": (altered(-0.5), SECOND, {}, r"first buffer has negative values \(the least is -0.5\).*use anlm"),
    "negative second": (FIRST, altered(-0.5), {}, r"second buffer has negative values"),
    "complex": (FIRST + 1j, SECOND, {}, r"first buffer holds complex128 values; give real numbers"),
    "2-D": (FIRST[0], SECOND[0], {}, r"shape \(9, 10\); give a volume"),
    "5-D": (GATES[..., None], GATES[..., None], {}, r"give a volume \(x, y, z\) or gates"),
    "guide of another shape": (FIRST, SECOND, {"guide": FULL[1:]}, r"guide has shape \(7, 9, 10\) and the fluence"),
    "negative guide": (FIRST, SECOND, {"guide": -FULL}, r"guide has values that are negative, not finite"),
    "no guide": (FIRST, SECOND, {"guide": 0 * FULL}, r"guide is zero everywhere"),
    "index of another shape": (FIRST, SECOND, {"refractive_index": FULL[1:]}, r"refractive indices have shape"),
    "too small": (FIRST[:, :3], SECOND[:, :3], {}, r"3 voxels along y and at least 5 are needed"),
    "no gates": (GATES[..., :0], GATES[..., :0], {}, r"no gates; give at least one"),
    "zero": (0 * FIRST, SECOND, {}, r"first buffer is zero everywhere"),
    "zero second": (FIRST, 0 * SECOND, {}, r"second buffer is zero everywhere"),
    "second of another shape": (
        FIRST,
        SECOND[:7],
        {},
        r"second buffer has shape \(7, 9, 10\) and the first \(8, 9, 10\)",
    ),
    "the same twice": (FIRST, FIRST, {}, r"both buffers are the same; .*or only one buffer"),
    "labels of another shape": (FIRST, SECOND, {"labels": FULL[:7]}, r"labels have shape \(7, 9, 10\)"),
    "labels of text": (FIRST, SECOND, {"labels": np.full(FIRST.shape, "a")}, r"labels hold <U1 values"),
    "NaN labels": (FIRST, SECOND, {"labels": altered(np.nan)}, r"give integers"),
    "mu_eff of zero": (
        FIRST,
        SECOND,
        {"mueff_per_mm": altered(0.0, FULL)},
        r"greater than 0 everywhere \(the least is 0",
    ),
    "mu_eff below zero": (FIRST, SECOND, {"mueff_per_mm": -0.1}, r"the least is -0.1 1/mm"),
    "mu_eff of another shape": (FIRST, SECOND, {"mueff_per_mm": FULL[0]}, r"mueff_per_mm has shape \(9, 10\)"),
    "mu_eff of text": (FIRST, SECOND, {"mueff_per_mm": "high"}, r"mueff_per_mm holds <U4 values"),
    "mask of another shape": (FIRST, SECOND, {"mask": FULL[0]}, r"mask has shape \(9, 10\)"),
    "empty mask": (FIRST, SECOND, {"mask": 0 * FULL}, r"the mask is empty"),
    "noise with two": (FIRST, SECOND, {"noise": 0.1}, r"follows from the two buffers"),
    "negative noise": (FIRST, None, {"noise": -0.1}, r"negative or not finite"),
    "noise of another shape": (FIRST, None, {"noise": FULL[0]}, r"noise has shape \(9, 10\)"),
    "voxel size": (FIRST, SECOND, {"voxel_size_mm": (1, 1, 0)}, r"give three positive lengths"),
}


@pytest.mark.parametrize(("first", "second", "options", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_sentence(first, second, options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        denoise_fluence(first, second, SHORT, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"largest_scale": 0.1}, r"largest_scale is 0.1 voxels; it must be at least 0.8"),
        ({"smoothness": 0.5}, r"smoothness is 0.5; it must be at least 1"),
        ({"cap": -1.0}, r"cap is -1; it must be at least 0"),
        ({"seed": -1}, r"seed is -1"),
        ({"flat": "yes"}, r"flat is 'yes'; give True or False"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        FluenceSettings(**options)


def test_counts_are_converted_and_unlike_halves_are_reported():
    counts = np.random.default_rng(0).poisson(20, (8, 9, 10))
    result = denoise_fluence(counts, 2.0 * counts + 1, SHORT, device="cpu")
    assert says(result.notes[0], "first", "int64", "float32")
    assert re.search(r"2\.\d+ times as much as the first", result.notes[1])


def test_every_mask_and_label_that_counts_something_is_taken():
    labels = (np.indices(FIRST.shape)[0] > 3) * 7
    for used in (labels, labels.astype(np.uint8), labels.astype(float), labels > 0):
        found = denoise_fluence(FIRST, SECOND, SHORT, labels=used, mask=FULL, device="cpu").image
        np.testing.assert_array_equal(found, denoise_fluence(FIRST, SECOND, SHORT, labels=labels, device="cpu").image)

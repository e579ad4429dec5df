"""The error that is reported of the result is the error there is, also where a guide is wrong within a voxel or two."""

import functools

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.denoise.fluence.inputs import split_in_two
from napari_gpubio.denoise.kernels.fluence.errors import (
    MARGIN,
    Evidence,
    Part,
    Windows,
    bounded,
    reported_error,
    squared_bias,
)
from tests.denoise.fluence.samples import poisson_halves

SHAPE = (32, 32, 32)
X, Y, Z = np.indices(SHAPE) - 15.5
WINDOWS = Windows.of([1.0, 1.0, 1.0])


def beside_a_source():
    """Truth, guide, labels and place: the truth is up to three times the guide within two voxels of a source."""
    distance = np.sqrt(X**2 + Y**2 + (Z + 8) ** 2)
    guide = np.exp(-0.3 * distance) / (distance + 0.3)
    return guide * (1 + 2 * np.exp(-distance / 1.5)), guide, np.ones(SHAPE, int), distance <= 2.5


def around_an_absorber():
    """The same for the voxels around a rod that the guide has darker, and whose shadow it does not have."""
    light = np.exp(-0.2 * np.sqrt(X**2 + Y**2 + (Z + 16) ** 2)) / np.sqrt(X**2 + Y**2 + (Z + 16) ** 2)
    depth = 3.5 - np.hypot(X - 3, Z + 6)
    guide = light * np.exp(-1.3 * np.maximum(depth, 0))
    shadow = 1 - 0.4 * np.exp(-np.maximum(-depth, 0) / 2.5)
    rod = depth > 0
    around = ndimage.binary_dilation(rod, iterations=2) & ~rod
    return light * np.exp(-np.maximum(depth, 0)) * shadow, guide, rod.astype(int), around


@functools.cache
def cleaned(scene):
    """Truth, place, and four runs of a scene: what is left of the fluence, and the fluence itself."""
    truth, guide, labels, place = scene()
    pairs = [poisson_halves(truth, 3000, seed) for seed in range(4)]
    runs = [denoise_fluence(*pair, labels=labels, guide=guide, device="cpu") for pair in pairs]
    return truth, place, runs, [(first + second) / 2 for first, second in pairs]


def relative(errors, truth, where):
    """Root mean square of errors over the truth."""
    return np.sqrt(np.mean([np.square(error / truth)[where] for error in errors]))


@pytest.mark.parametrize("scene", [beside_a_source, around_an_absorber])
def test_near_sources_and_absorbers_the_error_is_reported(scene):
    truth, place, runs, _ = cleaned(scene)
    where = place & (truth * 6000 / truth.max() > 1)
    reported = relative([run.noise for run in runs], truth, where)
    assert 0.85 < reported / relative([run.image - truth for run in runs], truth, where) < 1.3


def test_where_there_is_light_enough_nothing_is_made_worse():
    truth, place, runs, raw = cleaned(beside_a_source)
    where = place & (truth * 6000 / truth.max() > 400)  # noise below 5 %
    before = relative([fluence - truth for fluence in raw], truth, where)
    assert relative([run.image - truth for run in runs], truth, where) < 1.1 * before


def test_what_is_left_as_it_was_has_the_error_that_it_had():
    """The guide has nothing of a checkered truth, and there is light enough to see it."""
    truth = np.exp(-0.05 * Z) * np.where((X + Y + Z - 0.5).astype(int) % 2, 1.0, 3.0)
    pairs = [poisson_halves(truth, 20_000, seed) for seed in range(2)]
    runs = [denoise_fluence(*pair, guide=np.exp(-0.05 * Z), device="cpu") for pair in pairs]
    for run, pair in zip(runs, pairs, strict=True):
        kept = run.scale_mm == 0
        assert kept.mean() > 0.99
        np.testing.assert_allclose(run.image[kept], np.mean(pair, axis=0)[kept], rtol=1e-6)
    inner = (slice(4, -4),) * 3
    reported, there = ([getattr(run, name)[inner] for run in runs] for name in ("noise", "image"))
    true = np.sqrt(np.mean(np.square(np.array(there) - truth[inner])))
    assert np.sqrt(np.mean(np.square(reported))) == pytest.approx(true, rel=0.1)


def mean(values, window):
    """Means over the windows of `WINDOWS`."""
    return ndimage.gaussian_filter(values, 3.0 if window is WINDOWS.around else 1.2, truncate=3.5)


def bias_of(product, noise, *, share=1.0, is_shrunk=True, is_bright=False):
    """The squared bias that products tell where the noise is even."""
    even = np.ones(SHAPE, np.float32)
    evidence = Evidence(bounded(product), share * even, noise * even, noise * even, is_bright * even > 0)
    return squared_bias(evidence, iter([Part(even, is_shrunk)]), WINDOWS, mean)


def test_noise_is_taken_for_little_bias():
    """Products of independent noise, whose variance in the whole is 1."""
    first, second = np.sqrt(2) * np.random.default_rng(0).normal(size=(2, *SHAPE)).astype(np.float32)
    found, clipped = (bias_of(first * second, noise).mean() for noise in (1.0, 0.0))
    assert found < 0.02
    assert clipped > 5 * found


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_bias_is_found_though_it_is_in_few_voxels(share):
    product = np.zeros(SHAPE, np.float32)
    product[15:17, 15:17, 15:17] = 50.0
    near = mean(product, WINDOWS.close)[15, 15, 15] / share
    assert 0.85 * near < bias_of(product, 1.0, share=share)[15, 15, 15] / share < near
    assert bias_of(product, 1.0, share=share, is_bright=True)[15, 15, 15] > 45
    assert bias_of(product, 1e-3, share=share)[3, 3, 3] == 0


def test_what_was_not_changed_has_no_bias():
    assert not bias_of(np.ones(SHAPE, np.float32), 0.1, share=0.0).any()


@pytest.mark.parametrize(("share", "is_noticed"), [(1.0, True), (0.0, False)])
def test_next_to_where_a_guide_is_steep_it_is_wrong_too(share, is_noticed):
    """The guide is steep up to the 12th plane; the bias of the 13th, 14th and farther ones is nothing but products."""
    even, steep = np.ones(SHAPE, np.float32), (np.indices(SHAPE)[0] < 12).astype(np.float32)
    product = np.where(np.indices(SHAPE)[0] == 12, np.float32(2.0), np.float32(0.0))
    evidence = Evidence(product, share * even, even, even, even < 0)
    parts = iter([Part(steep, is_shrunk=False), Part(0 * even), Part(even - steep)])
    reported = reported_error(0.5 * even, 0 * even, evidence, parts, WINDOWS, mean)[:, 16, 16]
    expected = np.full(SHAPE[0], 0.5)
    if is_noticed:
        expected[:12] *= MARGIN
        expected[12] = MARGIN * (0.5 + 2.0)
    np.testing.assert_allclose(reported, expected, rtol=1e-5)


def test_halves_of_one_buffer_are_as_alike_as_photons_make_neighbors():
    """Noise of Monte Carlo at 1 to 4 mm in tissue of mu_s' 1 / mm."""
    first, second = split_in_two(np.zeros((64, 64, 64)), 1, np.ones((64, 64, 64)))
    noise = (first - second) / 2
    assert noise.var() == pytest.approx(1.0, rel=0.03)
    alike = [np.mean(noise * np.roll(noise, lag, axis=axis)) for lag in (1, 2, 3, 4) for axis in range(3)]
    np.testing.assert_allclose(np.mean(np.reshape(alike, (4, 3)), axis=1), [0.31, 0.11, 0.06, 0.03], atol=0.04)

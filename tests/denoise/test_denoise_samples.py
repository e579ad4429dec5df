"""The samples: a head with Rician noise, and the fluence of few photons."""

import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import grid_of, volume_of
from napari_gpubio.core.quantity import quantity_of
from napari_gpubio.denoise import samples

MUA_PER_MM = np.array([0.0, 0.01, 0.1])  # of the labels of the fluence


@pytest.fixture(scope="module")
def head():
    return denoise.samples.noisy_head()


@pytest.fixture(scope="module")
def pair():
    return denoise.samples.fluence_pair()


def layers_of(contribution):
    """Layers as napari makes them."""
    layer = pytest.importorskip("napari.layers").Layer
    return [layer.create(*given) for given in contribution()]


# -- the head ---------------------------------------------------------------------------------------------------------


def test_the_noise_of_the_head_is_rician_and_varies_in_space(head):
    """The mean square of a Rician magnitude is A^2 + 2 sigma^2, its variance 4 A^2 sigma^2 + 4 sigma^4."""
    truth, variance = head.truth.astype(float), np.square(head.noise.astype(float))
    expected, spread = np.square(truth) + 2 * variance, 4 * np.square(truth) * variance + 4 * np.square(variance)
    deviation = np.square(head.noisy.astype(float)) - expected
    for where in (truth < 1, (truth > 100) & (truth < 300), truth > 600):
        assert where.sum() > 10_000
        z = deviation[where].sum() / np.sqrt(spread[where].sum())
        assert abs(z) < 4
        assert (np.square(deviation[where]) / spread[where]).mean() == pytest.approx(1.0, abs=0.05)
    middle = tuple(n // 2 for n in head.noise.shape)
    assert head.noise[middle] == pytest.approx(samples.NOISE_IN_MIDDLE, rel=0.01)
    assert head.noise[0, 0, 0] == pytest.approx(samples.NOISE_AT_RIM, rel=0.01)


def test_the_head_has_its_tissues(head):
    """Gray and white matter differ, and both sides are there."""
    x = np.indices(head.truth.shape)[0] - (head.truth.shape[0] - 1) / 2
    for low, high in ((90, 130), (480, 560), (700, 820)):
        where = (head.truth > low) & (head.truth < high)
        assert 0.02 < where.mean() < 0.4
        assert abs(x[where].mean()) < 2


def test_the_head_depends_on_the_seed_alone(head):
    again, other = denoise.samples.noisy_head(), denoise.samples.noisy_head(seed=2)
    assert np.array_equal(head.noisy, again.noisy)
    assert np.array_equal(head.truth, other.truth)
    assert not np.array_equal(head.noisy, other.noisy)


def test_the_layers_of_the_head(head):
    noise, truth, noisy = layers_of(samples.head_layers)
    assert [layer.visible for layer in (noise, truth, noisy)] == [False, False, True]
    assert np.array_equal(volume_of(noisy), head.noisy)
    assert np.allclose(grid_of(noisy)[0], head.affine)
    assert noisy.contrast_limits == truth.contrast_limits
    assert np.allclose(noisy.extent.world, truth.extent.world)


# -- fluence ----------------------------------------------------------------------------------------------------------


def absorbed(fluence, labels):
    """Share of the energy that is absorbed; the voxels have 1 mm^3."""
    return float((fluence.astype(float) * MUA_PER_MM[labels]).sum())


def test_the_halves_have_the_energy_of_the_truth(pair):
    """The share of N photons that is absorbed has a variance of at most p (1 - p) / N, if each is absorbed at once."""
    share = absorbed(pair.truth, pair.labels)
    assert 0.2 < share < 0.9
    error = np.sqrt(share * (1 - share) / samples.HALF_PHOTONS)
    for half in (pair.half_a, pair.half_b):
        assert abs(absorbed(half, pair.labels) - share) < 4 * error


def test_the_halves_are_independent_and_unbiased(pair):
    """Relative errors, in voxels with some light: no correlation between halves, and a mean of zero."""
    bright = pair.truth > 1e-4
    errors = [(half[bright] / pair.truth[bright] - 1).astype(float) for half in (pair.half_a, pair.half_b)]
    near = 8  # voxels that share a photon's path count as one
    for error in errors:
        assert abs(error.mean()) < 4 * error.std() * np.sqrt(near / error.size)
    correlation = np.corrcoef(errors)[0, 1]
    assert abs(correlation) < 4 * np.sqrt(near / bright.sum())
    assert 0.05 < errors[0].std() < 1


def test_the_truth_has_the_symmetry_of_the_cube(pair):
    for other in (pair.truth[::-1], pair.truth[:, ::-1], pair.truth.transpose(1, 0, 2)):
        np.testing.assert_allclose(other, pair.truth, rtol=1e-6)


def test_the_absorber_is_where_the_light_is_not(pair):
    """On the axis light falls faster inside the absorber than behind it, and than beside it at the same depth."""
    assert sample_path("fluence_pair.nii.gz").stat().st_size <= 300_000
    assert set(np.unique(pair.labels)) == {1, 2}
    volume = 4 / 3 * np.pi * samples.ABSORBER_RADIUS_MM**3
    assert (pair.labels == 2).sum() == pytest.approx(volume, rel=0.05)
    axis, beside = (np.log(pair.truth[part, 19:21].mean(axis=(0, 1))) for part in (slice(19, 21), slice(6, 8)))
    inside = -np.diff(axis)[12:18].mean()
    assert inside > 2 * -np.diff(beside)[12:18].mean()
    assert inside > 2 * -np.diff(axis)[24:30].mean()
    assert inside == pytest.approx(np.sqrt(3 * 0.1 * 1.1), rel=0.2)  # effective attenuation, 1/mm


def test_the_layers_of_the_fluence(pair):
    labels, truth, half_b, half_a = layers_of(samples.fluence_layers)
    assert [layer.visible for layer in (labels, truth, half_b, half_a)] == [False, False, False, True]
    assert np.array_equal(volume_of(labels), pair.labels)
    for layer, values in ((half_a, pair.half_a), (half_b, pair.half_b), (truth, pair.truth)):
        assert layer.name.endswith("log10 1/mm²")
        assert quantity_of(layer).text == "log10 fluence (1/mm²)"
        np.testing.assert_allclose(denoise.values.from_log10(volume_of(layer)), values, rtol=1e-5)

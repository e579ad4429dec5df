"""The correlation of noise between neighbors: zero in raw scans, and that of a kernel after interpolation."""

import dataclasses

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.diffusion import noise, phantom
from napari_gpubio.diffusion.noise.correlation import neighbor_correlations
from tests.diffusion.noise.samples import noisy, scan_of

SHAPE, VOLUMES = (30, 28, 26), 30


def everywhere(shape=SHAPE):
    return np.ones(shape, bool)


def changed(data, change):
    return np.stack([change(data[..., n]) for n in range(data.shape[3])], axis=-1)


@pytest.mark.parametrize("components", [3, 8])
def test_white_noise_of_neighbors_is_independent(components):
    data = noisy(SHAPE, VOLUMES, components)[1]
    assert np.abs(neighbor_correlations(data, everywhere())).max() < 0.02


def test_a_kernel_along_an_axis_gives_its_own_correlation():
    data = noisy(SHAPE, VOLUMES, 4)[1]
    for axis, weight in ((0, 0.5), (2, 0.3)):
        mixed = (1 - weight) * data + weight * np.roll(data, 1, axis)
        expected = weight * (1 - weight) / (weight**2 + (1 - weight) ** 2)
        found = neighbor_correlations(mixed, everywhere())
        assert found[axis] == pytest.approx(expected, abs=0.03)
        assert np.abs(np.delete(found, axis)).max() < 0.03


def test_few_voxels_and_no_noise_say_nothing():
    data = noisy(SHAPE, VOLUMES, 4)[1]
    few = np.zeros(SHAPE, bool)
    few[:9, :9, :9] = True
    assert np.isnan(neighbor_correlations(data, few)).all()
    assert np.isnan(neighbor_correlations(np.zeros((*SHAPE, 8)), everywhere())).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda v: ndimage.shift(v, 0.5, order=1),
        lambda v: ndimage.shift(v, (0.5, 0.0, 0.0), order=3),
        lambda v: ndimage.rotate(v, 7, reshape=False, order=3),
        lambda v: ndimage.gaussian_filter(v, 0.6),
    ],
)
def test_interpolated_scans_are_called_out(change):
    scan = scan_of(noisy(SHAPE, VOLUMES, 4)[1])
    inner = np.zeros(SHAPE, bool)
    inner[4:-4, 4:-4, 4:-4] = True
    for data, is_raw in ((scan.data, True), (changed(scan.data, change), False)):
        result = noise.denoise_scan(dataclasses.replace(scan, data=data), inner, device="cpu")
        assert any("of neighboring voxels is correlated" in note for note in result.notes) is not is_raw


def test_the_sample_brain_is_raw():
    scan = phantom.load_brain_phantom()
    assert np.abs(neighbor_correlations(scan.data, scan.data[..., 0] > 0)).max() < 0.02

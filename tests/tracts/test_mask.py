"""The brain mask, on ellipsoids, without a skull, and on a real brain; masks and volumes as files."""

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.io.dwi import read_array, read_mask
from napari_gpubio.tracts.tensors.mask import brain_mask, otsu_threshold
from tests.tracts.tensor_samples import AFFINES

SHAPE = (48, 56, 44)


def ellipsoid(*radii):
    grid = np.indices(SHAPE) - (np.array(SHAPE)[:, None, None, None] - 1) / 2
    return (grid**2 / np.array(radii)[:, None, None, None] ** 2).sum(axis=0) < 1


BRAIN = ellipsoid(17, 21, 15)
OBLIQUE = AFFINES["sheared left-handed"]


def head(noise, seed=0):
    """Brain with bright ventricles and a dark pore, a dark skull, a thin scalp with a bridge to the brain, air."""
    signal = 1000.0 * BRAIN + 1500.0 * ellipsoid(3, 7, 3)
    signal[24, 28, 30] = 0
    signal += 400.0 * (ellipsoid(22, 26, 20) & ~ellipsoid(20.5, 24.5, 18.5))
    signal[24, 48:54, 22] = 900
    rng = np.random.default_rng(seed)
    return np.hypot(signal + rng.normal(0, noise, SHAPE), rng.normal(0, noise, SHAPE)) if noise else signal


def dice(a, b):
    return 2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b))


@pytest.mark.parametrize("noise", [0, 20, 80, 150])
def test_head(noise):
    mask = brain_mask(head(noise))
    assert mask.dtype == bool
    assert mask.shape == SHAPE
    assert dice(mask, BRAIN) > 0.97
    assert ndimage.label(mask)[1] == 1
    assert ndimage.binary_fill_holes(mask).sum() == mask.sum()


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float64])
def test_without_skull(dtype):
    """Zeros outside: every voxel of the brain is kept, also where tissue is much darker than fluid."""
    signal = np.where(BRAIN, np.where(ellipsoid(9, 11, 8), 4000, 1500), 0) + BRAIN * head(20) * 0.1
    assert dice(brain_mask(signal.astype(dtype)), BRAIN) > 0.99


def test_values_that_are_not_finite_and_a_brain_at_the_edge_of_the_volume():
    assert dice(brain_mask(head(20)[:, :, :22]), BRAIN[:, :, :22]) > 0.97
    signal = head(20)
    signal[::7, ::5, ::6] = np.nan
    signal[0, 0, 0] = np.inf
    assert dice(brain_mask(signal), BRAIN) > 0.97


@pytest.mark.parametrize(
    ("volume", "sentence"),
    [
        (np.zeros((5, 5, 5)), "has the value 0 nearly everywhere"),
        (np.ones((5, 5, 5, 2)), r"one volume \(x, y, z\)"),
        (np.ones((0, 5, 5)), r"one volume \(x, y, z\)"),
        (np.full((5, 5, 5), np.nan), "nearly everywhere"),
    ],
)
def test_refused(volume, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        brain_mask(volume)


def test_otsu_parts_two_classes():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(1, 0.2, 4000), rng.normal(4, 0.3, 1000)])
    threshold = otsu_threshold(values)
    assert (values[:4000] < threshold).mean() > 0.999
    assert (values[4000:] > threshold).all()


def test_masks_must_lie_on_the_grid(tmp_path):
    array = np.zeros((2, 3, 4), np.float32)
    array[0, 1, 2], array[1, 1, 1] = 0.5, np.nan
    write_volume(tmp_path / "m.nii.gz", array, OBLIQUE)
    mask = read_mask(tmp_path / "m.nii.gz", (2, 3, 4, 15), OBLIQUE)
    assert mask.dtype == bool
    assert np.argwhere(mask).tolist() == [[0, 1, 2]]
    with pytest.raises(InvalidInput, match=r"shape \(2, 3, 4\) and the image \(2, 3, 5\)"):
        read_mask(tmp_path / "m.nii.gz", (2, 3, 5), OBLIQUE)
    with pytest.raises(InvalidInput, match="lies elsewhere"):
        read_mask(tmp_path / "m.nii.gz", (2, 3, 4), np.eye(4))
    write_volume(tmp_path / "m.nii.gz", array * 0, OBLIQUE)
    with pytest.raises(InvalidInput, match="is empty"):
        read_mask(tmp_path / "m.nii.gz", (2, 3, 4), OBLIQUE)


def test_real_brain(shared_data):
    folder = shared_data / "dwi" / "whole_brain_b1000"
    data, affine = read_array(folder / "dwi.nii.gz")
    reference = read_mask(folder / "nodif_brain_mask.nii.gz", data.shape, affine)
    b0 = data[..., 0]
    assert dice(brain_mask(b0), reference) > 0.95
    assert dice(brain_mask(b0 * reference), reference) > 0.99
    rng = np.random.default_rng(0)
    noisy = np.hypot(b0 + rng.normal(0, 300, b0.shape), rng.normal(0, 300, b0.shape))
    assert dice(brain_mask(noisy), reference) > 0.94

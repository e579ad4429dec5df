"""The brain mask: heads of known answer, without a skull, in a scalp, a real brain; masks as files."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.tensors.mask import brain_mask, otsu_threshold
from tests.diffusion.head_samples import Head, dice, with_scalp
from tests.diffusion.tensor_samples import AFFINES

SHAPE = (48, 56, 44)
SIZES = (2.0, 2.0, 2.0)


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


@pytest.mark.parametrize("noise", [0, 20, 80, 150])
def test_head(noise):
    mask = brain_mask(head(noise), SIZES)
    assert mask.dtype == bool
    assert mask.shape == SHAPE
    assert dice(mask, BRAIN) > 0.97
    assert ndimage.label(mask)[1] == 1
    assert ndimage.binary_fill_holes(mask).sum() == mask.sum()


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float64])
def test_without_skull(dtype):
    """Zeros outside: every voxel of the brain is kept, also where tissue is much darker than fluid."""
    signal = np.where(BRAIN, np.where(ellipsoid(9, 11, 8), 4000, 1500), 0) + BRAIN * head(20) * 0.1
    assert dice(brain_mask(signal.astype(dtype), SIZES), BRAIN) > 0.99


def test_block_from_within_a_brain():
    """No air and no zeros: nothing tells one tissue from outside."""
    rng = np.random.default_rng(0)
    block = np.where(np.indices((7, 8, 6))[0] < 4, 700.0, 1000.0) + rng.normal(0, 30, (7, 8, 6))
    assert brain_mask(block, SIZES).all()


def test_values_that_are_not_finite_and_a_brain_at_the_edge_of_the_volume():
    assert dice(brain_mask(head(20)[:, :, :22], SIZES), BRAIN[:, :, :22]) > 0.97
    signal = head(20)
    signal[::7, ::5, ::6] = np.nan
    signal[0, 0, 0] = np.inf
    assert dice(brain_mask(signal, SIZES), BRAIN) > 0.97


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
        brain_mask(volume, SIZES)


@pytest.mark.parametrize("sizes", [2.0, (2, 2), (2, 2, 0), (2, 2, np.nan), (2, -2, 2)])
def test_refused_voxels(sizes):
    with pytest.raises(InvalidInput, match="three edges of positive length"):
        brain_mask(head(0), sizes)


# -- scalp ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"sizes": (2.0, 2.0, 4.0)},
        {"sizes": (2.0, 2.0, 2.0), "noise": 150.0},
        {"bias": 0.5},
        {"bias": -1.0},
        {"eyes": True},
    ],
    ids=["plain", "long voxels", "noise", "weak coil", "weaker coil", "eyes"],
)
def test_scalp_stays_outside(made):
    made = Head(**made)
    mask = brain_mask(made.signal, made.sizes)
    overlap, scalp = made.judged(mask)
    assert overlap > 0.97
    assert scalp < 0.01
    assert ndimage.label(mask)[1] == 1
    assert not (ndimage.binary_fill_holes(mask) & ~mask).any()


def test_small_heads_have_thin_scalps():
    """The same head, of an animal: lengths follow the size of the head below that of a grown person's."""
    made = Head()
    overlap, scalp = made.judged(brain_mask(made.signal, made.sizes / 8))
    assert overlap > 0.97
    assert scalp < 0.01


@pytest.mark.parametrize("part", [np.s_[:, :, 20:], np.s_[:, :, :36], np.s_[30:], np.s_[:, :, 26:32]])
def test_scalp_stays_outside_where_the_volume_cuts_the_head(part):
    made = Head()
    made.brain, made.scalp = made.brain[part], made.scalp[part]
    overlap, scalp = made.judged(brain_mask(made.signal[part], made.sizes))
    assert overlap > 0.97
    assert scalp < 0.01


def test_mask_does_not_depend_on_the_order_of_the_axes():
    made = Head(sizes=(2.0, 2.5, 3.0))
    expected = brain_mask(made.signal, made.sizes)
    for order in itertools.permutations(range(3)):
        turned = np.transpose(made.signal, order)[::-1, :, ::-1]
        found = brain_mask(turned, made.sizes[list(order)])
        np.testing.assert_array_equal(found, np.transpose(expected, order)[::-1, :, ::-1])


# -- thresholds, files, a real brain ----------------------------------------------------------------------------------


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


@pytest.fixture
def real(shared_data):
    """Mean b0, reference mask and voxel sizes of the real brain, with 20 mm around it."""
    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    reference = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    return np.pad(scan.b0_mean(), 8), np.pad(reference, 8), voxel_sizes_mm(scan.affine)


@pytest.mark.parametrize("bridges", [False, True], ids=["gap", "bridges"])
@pytest.mark.parametrize("gap_mm", [3.0, 5.0])
def test_real_brain_with_a_scalp(real, gap_mm, bridges):
    b0, reference, sizes = real
    signal, scalp = with_scalp(b0, reference, sizes, gap_mm, bridges=bridges)
    mask = brain_mask(signal, sizes)
    assert dice(mask, reference) >= 0.955
    assert np.count_nonzero(mask & scalp) < 0.005 * np.count_nonzero(mask)
    assert not (ndimage.binary_fill_holes(mask) & ~mask).any()


def test_real_brain(real):
    b0, reference, sizes = (part[8:-8, 8:-8, 8:-8] if part.ndim == 3 else part for part in real)
    assert dice(brain_mask(b0, sizes), reference) >= 0.958
    assert dice(brain_mask(b0 * reference, sizes), reference) > 0.99
    rng = np.random.default_rng(0)
    noisy = np.hypot(b0 + rng.normal(0, 300, b0.shape), rng.normal(0, 300, b0.shape))
    assert dice(brain_mask(noisy, sizes), reference) > 0.94

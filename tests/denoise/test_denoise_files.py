"""NIfTI in and out with the header kept, and what is done to values around a filter."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.volumes import array_on_grid
from napari_gpubio.denoise.volumes import mask_on_grid

AFFINE = np.array([[-2.0, 0.1, 0, 30], [0.1, 2, 0, -20], [0, 0, 3, 10], [0, 0, 0, 1]])


def write(path, array, kind=nib.Nifti1Image):
    """A file with a header that says more than the affine."""
    image = kind(array, AFFINE)
    image.set_sform(AFFINE, code="mni")
    image.set_qform(None, code="unknown")
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_intent("estimate", name="T1")
    if array.ndim == 4:
        image.header["pixdim"][4] = 2.5
    nib.save(image, path)
    return path


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_the_header_is_kept(tmp_path, kind, ending):
    array = np.random.default_rng(0).integers(0, 900, (5, 6, 7, 3)).astype(np.int16)
    image = denoise.open_volume(write(tmp_path / f"in{ending}", array, kind))
    assert np.array_equal(image.array, array)
    assert image.voxel_size_mm == pytest.approx((2.0025, 2.0025, 3), rel=1e-4)
    out = tmp_path / f"out{ending}"
    denoise.save_volume(image.like(image.array.astype(np.float32) / 3), out)
    before, after = nib.load(tmp_path / f"in{ending}").header, nib.load(out).header
    assert np.allclose(np.asarray(nib.load(out).dataobj), array / 3)
    assert after.get_data_dtype() == np.float32
    for field in ("pixdim", "sform_code", "qform_code", "srow_x", "xyzt_units", "intent_code", "intent_name"):
        assert np.array_equal(before[field], after[field]), field
    assert isinstance(nib.load(out), kind)


def test_a_scaled_file_is_written_in_its_own_unit(tmp_path):
    image = nib.Nifti1Image(np.arange(24, dtype=np.float32).reshape(2, 3, 4, 1) / 100, np.eye(4))
    image.header.set_data_dtype(np.int16)
    nib.save(image, tmp_path / "in.nii")
    read = denoise.open_volume(tmp_path / "in.nii")
    assert read.array.shape == (2, 3, 4)  # axes of length 1 are dropped
    denoise.save_volume(read, tmp_path / "out.nii")
    assert np.array_equal(denoise.open_volume(tmp_path / "out.nii").array, read.array)


def test_masks_and_maps_must_lie_on_the_grid(tmp_path):
    image = denoise.open_volume(write(tmp_path / "in.nii", np.ones((5, 6, 7), np.float32)))
    mask = np.zeros((5, 6, 7), np.uint8)
    mask[2] = 3
    assert np.array_equal(mask_on_grid(denoise.open_volume(write(tmp_path / "mask.nii", mask)), image), mask != 0)
    levels = np.random.default_rng(0).random((5, 6, 7), np.float32)
    assert np.array_equal(array_on_grid(denoise.open_volume(write(tmp_path / "levels.nii", levels)), image), levels)
    with pytest.raises(InvalidInput, match=r"small.nii has shape \(4, 6, 7\) and in.nii \(5, 6, 7\)"):
        mask_on_grid(denoise.open_volume(write(tmp_path / "small.nii", mask[:4])), image)
    nib.save(nib.Nifti1Image(mask, np.eye(4)), tmp_path / "elsewhere.nii")
    with pytest.raises(InvalidInput, match="lies elsewhere"):
        array_on_grid(denoise.open_volume(tmp_path / "elsewhere.nii"), image)


def test_a_wrong_name_a_missing_folder_and_a_damaged_file_are_sentences(tmp_path):
    path = write(tmp_path / "in.nii.gz", np.random.default_rng(0).random((9, 9, 9), np.float32))
    image = denoise.open_volume(path)
    with pytest.raises(InvalidInput, match=r"out.mgz does not end in .nii, .nii.gz or .ome.zarr"):
        denoise.save_volume(image, tmp_path / "out.mgz")
    with pytest.raises(InvalidInput, match="the folder"):
        denoise.save_volume(image, tmp_path / "no" / "out.nii")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InvalidInput, match=r"in\.nii\.gz"):
        denoise.open_volume(path)


def test_logarithms_there_and_back():
    values = np.array([[0.0, 1e-20, 3.0], [-1.0, 1e4, 1.0]], np.float32)
    shown = denoise.values.to_log10(values)
    assert np.isnan(shown[0, 0])
    assert np.isnan(shown[1, 0])
    np.testing.assert_allclose(denoise.values.from_log10(shown), np.maximum(values, 0), rtol=1e-5)


def test_values_that_cannot_be_logarithms_are_a_sentence():
    with pytest.raises(InvalidInput, match="largest value is 900, which is too large for a decimal logarithm"):
        denoise.values.from_log10(np.array([1.0, np.nan, 900.0]))
    assert not denoise.values.from_log10(np.full((2, 2), np.nan)).any()


def test_gaps_are_left_out():
    image = np.ones((3, 4, 5, 2), np.float32)
    image[1, 1, 1, 0], image[2, 0, 0, 1] = np.nan, -np.inf
    values, mask = denoise.values.without_gaps(image)
    assert np.array_equal(values, np.where(np.isfinite(image), image, 0))
    assert sorted(map(tuple, np.argwhere(~mask).tolist())) == [(1, 1, 1), (2, 0, 0)]
    given = np.zeros((3, 4, 5))
    given[1] = 2
    assert np.array_equal(denoise.values.without_gaps(image, given)[1], (given != 0) & mask)
    for whole in (np.ones((3, 4, 5)), np.ones((3, 4, 5), int)):
        same, none = denoise.values.without_gaps(whole)
        assert same is whole
        assert none is None

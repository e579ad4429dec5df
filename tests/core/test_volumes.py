"""Volumes as NIfTI files, out and in."""

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import read_volume, write_volume

OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix() @ [
    [-2, 0.3, 0],
    [0, 2, 0],
    [0, 0, 3],
]


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.float64, np.float16])
def test_volumes_round_trip(dtype, tmp_path):
    array = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    write_volume(tmp_path / "v.nii.gz", array, OBLIQUE, "a test")
    back, affine = read_volume(tmp_path / "v.nii.gz")
    np.testing.assert_array_equal(back, array)
    np.testing.assert_allclose(affine, OBLIQUE, atol=1e-5)
    header = nib.load(tmp_path / "v.nii.gz").header
    assert header["descrip"] == b"a test"
    assert header.get_xyzt_units()[0] == "mm"
    assert [p.name for p in tmp_path.iterdir()] == ["v.nii.gz"]


def test_large_integers_are_kept(tmp_path):
    array = np.array([2**31 - 1, -(2**31) + 1, 0, 2**40]).reshape(1, 2, 2)
    for values in (array, array[:, :, :1]):
        write_volume(tmp_path / "v.nii", values, np.eye(4))
        np.testing.assert_array_equal(read_volume(tmp_path / "v.nii")[0], values)


def test_what_is_no_volume(tmp_path):
    with pytest.raises(InvalidInput, match=r"has shape \(2, 2\)"):
        write_volume(tmp_path / "v.nii", np.ones((2, 2)), np.eye(4))
    with pytest.raises(InvalidInput, match="does not end in"):
        write_volume(tmp_path / "v.img", np.ones((2, 2, 2)), np.eye(4))
    with pytest.raises(InvalidInput, match="type complex128"):
        write_volume(tmp_path / "v.nii", np.ones((2, 2, 2), complex), np.eye(4))
    nib.save(nib.Nifti1Image(np.ones((2, 2, 2, 3), np.float32), np.eye(4)), tmp_path / "series.nii")
    with pytest.raises(InvalidInput, match="take one out of a series"):
        read_volume(tmp_path / "series.nii")
    nib.save(nib.Nifti1Image(np.ones((2, 3, 4, 1, 1), np.float32), np.eye(4)), tmp_path / "long.nii")
    assert read_volume(tmp_path / "long.nii")[0].shape == (2, 3, 4)

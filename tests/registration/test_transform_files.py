"""Transforms as files: there and back, and what others write."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.registration import Transform
from napari_gpubio.registration.io import read_transform, write_transform
from tests.registration.samples import needs_sitk, turned

POINTS = np.random.default_rng(0).uniform(-20, 20, (50, 3))
AFFINE = Transform(matrix=turned((5, -9, 20), zoom=(1.1, 1, 0.9)))


def points_of(transform):
    return apply_affine(transform.matrix, POINTS)


@pytest.mark.parametrize("ending", [".tfm", ".txt"])
def test_there_and_back(tmp_path, ending):
    needs_sitk()
    write_transform(AFFINE, tmp_path / f"a{ending}")
    found = read_transform(tmp_path / f"a{ending}")
    np.testing.assert_allclose(points_of(found), points_of(AFFINE), atol=1e-6)
    with pytest.raises(InvalidInput, match="does not end in"):
        write_transform(AFFINE, tmp_path / "a.xfm")


def test_itk_takes_points_where_this_package_does(tmp_path):
    library = needs_sitk()
    write_transform(AFFINE, tmp_path / "a.tfm")
    lps, itk = np.array([-1.0, -1, 1]), library.ReadTransform(str(tmp_path / "a.tfm"))
    theirs = [np.array(itk.TransformPoint((one * lps).tolist())) * lps for one in POINTS]
    np.testing.assert_allclose(points_of(AFFINE), theirs, atol=1e-6)


def test_flirt_takes_voxels_times_sizes_of_both_images(tmp_path):
    """Where both images lie is as FSL has it: x is reversed in one of them only."""
    right, left = turned((0, 0, 0), (3, 4, 5)) @ np.diag([2.0, 2, 2, 1]), np.diag([-1.0, 1, 1, 1])
    write_volume(tmp_path / "in.nii.gz", np.ones((10, 8, 6), np.float32), right)
    write_volume(tmp_path / "ref.nii.gz", np.ones((12, 8, 6), np.float32), left)
    np.savetxt(tmp_path / "flirt.mat", np.eye(4))
    with pytest.raises(InvalidInput, match="-ref"):
        read_transform(tmp_path / "flirt.mat")
    found = read_transform(tmp_path / "flirt.mat", moving=tmp_path / "in.nii.gz", fixed=tmp_path / "ref.nii.gz")
    voxel = np.array([4.0, 2, 2])  # of the reference: 4, 2, 2 mm in FLIRT's axes
    of_input = [9 - 4 / 2, 1, 1]
    np.testing.assert_allclose(
        apply_affine(found.matrix, left[:3, :3] @ voxel), right[:3, :3] @ of_input + right[:3, 3]
    )


def test_what_is_none_is_refused_and_a_bare_matrix_noted(tmp_path):
    needs_sitk()
    for name, text in (("a.tfm", "no transform"), ("b.txt", "1 2 3\n4 5 6\n"), ("c.h5", "\x89HDF\r\n"), ("d.mat", "")):
        (tmp_path / name).write_text(text, encoding="latin-1")
        with pytest.raises(InvalidInput, match=name):
            read_transform(tmp_path / name)
    np.savetxt(tmp_path / "m.txt", np.eye(4))
    with noted() as notes:
        read_transform(tmp_path / "m.txt")
    assert "RAS" in notes[0]

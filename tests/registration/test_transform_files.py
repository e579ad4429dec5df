"""Transforms as files: there and back, and what others write."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.registration import Transform
from napari_gpubio.registration.io import read_transform, write_transform
from tests.registration.samples import needs_sitk, turned

POINTS = np.random.default_rng(0).uniform(-20, 20, (50, 3))
AFFINE = Transform(matrix=turned((5, -9, 20), zoom=(1.1, 1, 0.9)))
FIELD = Transform(
    matrix=AFFINE.matrix,
    displacement=np.random.default_rng(1).normal(size=(12, 11, 10, 3)),
    grid=turned((0, 0, 30), (-25, -20, -20)) @ np.diag([-5.0, 5, 6, 1]),
)


@pytest.mark.parametrize("ending", [".tfm", ".txt", ".h5"])
def test_there_and_back(tmp_path, ending):
    needs_sitk()
    write_transform(AFFINE, tmp_path / f"a{ending}")
    found = read_transform(tmp_path / f"a{ending}")
    np.testing.assert_allclose(found.apply(POINTS), AFFINE.apply(POINTS), atol=1e-6)


def test_a_displacement_goes_with_it_and_itk_reads_it_so(tmp_path):
    library = needs_sitk()
    write_transform(FIELD, tmp_path / "a.h5")
    np.testing.assert_allclose(read_transform(tmp_path / "a.h5").apply(POINTS), FIELD.apply(POINTS), atol=1e-4)
    lps = np.array([-1.0, -1, 1])
    itk = library.ReadTransform(str(tmp_path / "a.h5"))
    inside = POINTS[:20] * 0.3
    theirs = [np.array(itk.TransformPoint((one * lps).tolist())) * lps for one in inside]
    np.testing.assert_allclose(FIELD.apply(inside), theirs, atol=1e-4)
    with pytest.raises(InvalidInput, match=r"\.h5"):
        write_transform(FIELD, tmp_path / "a.tfm")


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
    np.testing.assert_allclose(found.apply(left[:3, :3] @ voxel), right[:3, :3] @ of_input + right[:3, 3])


def test_a_warp_of_ants_is_in_lps(tmp_path):
    import nibabel as nib

    warp = np.zeros((4, 4, 4, 1, 3), np.float32)
    warp[..., 0] = 2.0
    nib.save(nib.Nifti1Image(warp, np.diag([5.0, 5, 5, 1])), tmp_path / "1Warp.nii.gz")
    np.testing.assert_allclose(read_transform(tmp_path / "1Warp.nii.gz").apply([5.0, 5, 5]), [3, 5, 5])


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

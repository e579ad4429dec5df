"""Transforms as files: there and back, and what others write."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.registration import Transform, Warp, resampled
from napari_gpubio.registration.io import read_transform, write_transform
from tests.registration.samples import needs_sitk, turned

POINTS = np.random.default_rng(0).uniform(-20, 20, (50, 3))
AFFINE = Transform(matrix=turned((5, -9, 20), zoom=(1.1, 1, 0.9)))

GRID = turned((3, 4, -5), (-22, -21, -24)) @ np.diag([4.0, 5.0, 6.0, 1.0])
FIELD = np.random.default_rng(1).normal(0, 3, (12, 10, 9, 3)).astype(np.float32)
WARP = Transform(matrix=AFFINE.matrix, warps=(Warp(displacements=FIELD, affine=GRID),))


def points_of(transform):
    return transform.moved(POINTS)


@pytest.mark.parametrize("ending", [".tfm", ".txt"])
def test_there_and_back(tmp_path, ending):
    needs_sitk()
    write_transform(AFFINE, tmp_path / f"a{ending}")
    found = read_transform(tmp_path / f"a{ending}")
    np.testing.assert_allclose(points_of(found), points_of(AFFINE), atol=1e-6)
    with pytest.raises(InvalidInput, match="does not end in"):
        write_transform(AFFINE, tmp_path / "a.xfm")


SHEARED = Transform.of_parts((AFFINE.matrix, WARP.warps[0]))  # its grid has voxels that are no boxes


@pytest.mark.parametrize(
    ("transform", "name"), [(AFFINE, "a.tfm"), (AFFINE, "a.h5"), (WARP, "a.h5"), (SHEARED, "a.h5")]
)
def test_itk_takes_points_where_this_package_does(tmp_path, transform, name):
    library = needs_sitk()
    write_transform(transform, tmp_path / name)
    lps, itk = np.array([-1.0, -1, 1]), library.ReadTransform(str(tmp_path / name))
    theirs = [np.array(itk.TransformPoint((one * lps).tolist())) * lps for one in POINTS]
    np.testing.assert_allclose(points_of(transform), theirs, atol=1e-4)
    np.testing.assert_allclose(points_of(transform), points_of(read_transform(tmp_path / name)), atol=1e-4)


def test_a_warp_of_ants_has_displacements_to_the_left_and_back(tmp_path):
    image = nib.Nifti1Image((FIELD * [-1, -1, 1])[:, :, :, None].astype(np.float32), GRID)
    image.header.set_intent("vector")
    nib.save(image, tmp_path / "t1_1Warp.nii.gz")
    found = read_transform(tmp_path / "t1_1Warp.nii.gz")
    np.testing.assert_allclose(found.moved(POINTS), WARP.warps[0].moved(POINTS), atol=1e-4)
    voxel = apply_affine(GRID, [3, 4, 5])
    np.testing.assert_allclose(found.moved(voxel), voxel + FIELD[3, 4, 5], atol=1e-5)
    outside = apply_affine(GRID, [-0.6, 4, 5])
    np.testing.assert_array_equal(found.moved(outside), outside)


def test_a_whole_transform_is_written_as_displacements_on_the_grid_of_its_warp(tmp_path):
    needs_sitk()
    write_transform(WARP, tmp_path / "to_scan_warp.nii.gz")
    header = nib.load(tmp_path / "to_scan_warp.nii.gz").header
    assert header.get_data_shape() == (12, 10, 9, 1, 3)
    assert header.get_intent()[0] == "vector"
    found, inside = read_transform(tmp_path / "to_scan_warp.nii.gz"), apply_affine(GRID, [[3.3, 4.2, 5.1], [0, 9, 8]])
    np.testing.assert_allclose(found.moved(inside), WARP.moved(inside), atol=1e-4)
    for transform, name, words in (
        (WARP, "a.tfm", "cannot hold a warp"),
        (AFFINE, "a_warp.nii.gz", "linear"),
        (SHEARED, "a_warp.nii.gz", "sheared"),
    ):
        with pytest.raises(InvalidInput, match=words):
            write_transform(transform, tmp_path / name)


def test_labels_go_through_a_warp_and_a_matrix_in_one_step():
    """As through each voxel by hand."""
    labels = np.random.default_rng(2).integers(1, 50, (20, 20, 20)).astype(np.int16)
    place = turned((0, 0, 0), (-30, -30, -25)) @ np.diag([3.0, 3.0, 3.0, 1.0])
    other = Transform(matrix=np.linalg.inv(AFFINE.matrix))
    found = resampled(labels, place, [other, WARP], FIELD.shape[:3], GRID, linear=False)
    at = apply_affine(np.linalg.inv(place), other.moved(WARP.moved(apply_affine(GRID, [5, 5, 4]))))
    i, j, k = np.floor(at + 0.5).astype(int)
    assert found[5, 5, 4] == labels[i, j, k]


def test_what_is_no_displacement_is_refused(tmp_path):
    library = needs_sitk()
    with pytest.raises(InvalidInput, match="not finite in 1 voxels"):
        Warp(displacements=np.where(np.arange(81).reshape(3, 3, 3, 3) == 4, np.nan, 0), affine=GRID)
    with pytest.raises(InvalidInput, match="read the file of the inverse"):
        WARP.inverse()
    for name, shape in (("fnirt.nii.gz", (4, 4, 4, 3)), ("image.nii.gz", (4, 4, 4))):
        nib.save(nib.Nifti1Image(np.zeros(shape, np.float32), GRID), tmp_path / name)
        with pytest.raises(InvalidInput, match="FNIRT"):
            read_transform(tmp_path / name)
    library.WriteTransform(library.BSplineTransform(3), str(tmp_path / "spline.tfm"))
    with pytest.raises(InvalidInput, match="BSpline"):
        read_transform(tmp_path / "spline.tfm")


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

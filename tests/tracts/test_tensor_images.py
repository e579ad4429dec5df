"""Tensor images of MRtrix, FSL and DIPY: order, axes and units are found; an unclear order is an error."""

import dataclasses
import itertools

import nibabel as nib
import numpy as np
import pytest
from dipy.io.utils import nifti1_symmat
from dipy.reconst.dti import lower_triangular
from scipy.linalg import polar
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.io.tensor_images import positive_definite, read_tensors, rotate_tensors, write_tensors
from napari_gpubio.tracts.model import TensorField

SHAPE = (4, 5, 6)
TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()
MATRICES = {
    "isotropic": np.diag([2.0, 2.0, 2.0]),
    "left-handed": np.diag([-2.0, 2.0, 2.0]),
    "rotated anisotropic": TURN @ np.diag([1.0, 2.0, 5.0]),
    "sheared left-handed": TURN @ np.array([[-2.0, 0.3, 0], [0, 2.0, 0.2], [0, 0, 2.5]]),
}
AFFINES = {name: np.block([[np.float32(m), np.ones((3, 1))], [np.zeros((1, 3)), 1]]) for name, m in MATRICES.items()}


def matrices(scale=1e-3):
    """Tensors of tissue in random orientations, shape (X, Y, Z, 3, 3)."""
    turns = Rotation.random(np.prod(SHAPE), random_state=1).as_matrix()
    return (turns * (scale * np.array([1.7, 0.4, 0.2])) @ turns.transpose(0, 2, 1)).reshape(*SHAPE, 3, 3)


def six(full):
    return np.stack([full[..., i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], axis=-1)


def axes_of(affine, frame):
    """Axes of a frame as columns, by the polar decomposition: another way than the package's."""
    if frame == "world":
        return np.eye(3)
    rotation = polar(affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0))[0]
    flip = frame == "fsl" and np.linalg.det(rotation) > 0
    return rotation * [-1 if flip else 1, 1, 1]


def in_frame(world, affine, frame):
    """World tensors as another program would have fitted them."""
    q = axes_of(affine, frame)
    return q.T @ world @ q


def save(path, values, affine=AFFINES["isotropic"]):
    nib.save(nib.Nifti1Image(values, affine), path)
    return path


ORDERS = {
    "mrtrix": ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)),
    "fsl": ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)),
    "dipy": ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)),
    "full": tuple(itertools.product(range(3), repeat=2)),
}
HABITS = {"mrtrix": "world", "fsl": "fsl", "dipy": "fsl", "full": "world"}


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("order", ORDERS)
def test_files_of_other_programs(order, name, tmp_path):
    """Recognized without being told, and turned into world axes."""
    own = in_frame(matrices(), AFFINES[name], HABITS[order])
    values = np.stack([own[..., i, j] for i, j in ORDERS[order]], axis=-1)
    field = read_tensors(save(tmp_path / "t.nii.gz", values, AFFINES[name]))
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-12)
    assert field.mask.all()
    assert field.repaired_count == 0
    assert ("3 x 3" if order == "full" else order) in field.notes[0]
    assert f"components refer to {HABITS[order]} axes" in field.notes[0]


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("frame", ["world", "voxel", "fsl"])
def test_frames(frame, name, tmp_path):
    own = in_frame(matrices(), AFFINES[name], frame)
    path = save(tmp_path / "t.nii.gz", six(own), AFFINES[name])
    field = read_tensors(path, order="mrtrix", frame=frame)
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-12)


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(order, name, dtype, tmp_path):
    mask = np.ones(SHAPE, bool)
    mask[0] = False
    tensors = np.where(mask[..., None], six(matrices()), 0).astype(dtype)
    field = TensorField(tensors=tensors, mask=mask, affine=AFFINES[name])
    write_tensors(tmp_path / "t.nii.gz", field, order=order)
    back = read_tensors(tmp_path / "t.nii.gz")
    assert back.tensors.dtype == dtype
    np.testing.assert_allclose(back.tensors, tensors, atol=1e-9 if dtype == np.float32 else 1e-16)
    np.testing.assert_array_equal(back.mask, mask)
    np.testing.assert_allclose(back.affine, AFFINES[name], atol=1e-6)


def test_dipy_files_both_ways(tmp_path):
    """DIPY writes its fit with `nifti1_symmat`: five dimensions and the intent of symmetric matrices."""
    affine = AFFINES["rotated anisotropic"]
    own = in_frame(matrices(), affine, "fsl")
    nib.save(nifti1_symmat(lower_triangular(own), affine), tmp_path / "dipy.nii.gz")
    field = read_tensors(tmp_path / "dipy.nii.gz")
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-12)
    assert "dipy order, by the kind of the file" in field.notes[0]
    write_tensors(tmp_path / "ours.nii.gz", field, order="dipy")
    ours, theirs = nib.load(tmp_path / "ours.nii.gz"), nib.load(tmp_path / "dipy.nii.gz")
    assert ours.shape == theirs.shape == (*SHAPE, 1, 6)
    assert ours.header.get_intent()[0] == theirs.header.get_intent()[0] == "symmetric matrix"
    np.testing.assert_allclose(ours.get_fdata(), theirs.get_fdata(), atol=1e-12)


def test_five_dimensions_of_full_matrices(tmp_path):
    field = read_tensors(save(tmp_path / "t.nii", matrices()))
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-15)


def test_the_intent_decides_before_definiteness(tmp_path):
    """A file of symmetric matrices whose tensors would be definite in another order too is still DIPY's."""
    diagonal = np.zeros((*SHAPE, 1, 6))
    diagonal[..., :] = [1e-3, 0, 2e-3, 0, 0, 3e-3]
    image = nib.Nifti1Image(diagonal, np.eye(4))
    image.header.set_intent("symmetric matrix", (3,))
    nib.save(image, tmp_path / "t.nii")
    np.testing.assert_allclose(read_tensors(tmp_path / "t.nii").tensors[0, 0, 0], [1e-3, 2e-3, 3e-3, 0, 0, 0])


def test_an_unclear_order_must_be_given(tmp_path):
    values = np.zeros((*SHAPE, 6))
    values[:] = [3e-3, 2e-3, 2e-3, 2e-3, 1e-4, 3e-3]  # no order makes it definite
    path = save(tmp_path / "t.nii", values)
    with pytest.raises(InvalidInput, match=r"mrtrix 0.0 %, fsl .*give order='mrtrix', 'fsl' or 'dipy'"):
        read_tensors(path)
    values[:] = [3e-3, 1e-4, 2e-3, 1e-3, 1e-4, 3e-3]  # both fsl's and dipy's do
    path = save(tmp_path / "t.nii", values)
    with pytest.raises(InvalidInput, match=r"fsl 100.0 %, dipy 100.0 %"):
        read_tensors(path)
    fsl = read_tensors(path, order="fsl", frame="world").tensors[0, 0, 0]
    np.testing.assert_allclose(fsl, [3e-3, 1e-3, 3e-3, 1e-4, 2e-3, 1e-4])
    dipy = read_tensors(path, order="dipy", frame="world").tensors[0, 0, 0]
    np.testing.assert_allclose(dipy, [3e-3, 2e-3, 3e-3, 1e-4, 1e-3, 1e-4])


def test_units(tmp_path):
    field = read_tensors(save(tmp_path / "t.nii", six(matrices(scale=1.0))))
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-15)
    assert any("um^2/ms were taken" in note for note in field.notes)
    field = read_tensors(save(tmp_path / "t.nii", six(matrices(scale=1e-9))), order="mrtrix")
    assert any("check the unit" in note for note in field.notes)


def test_tensors_that_are_not_positive_definite_are_mended(tmp_path):
    values = six(matrices())
    values[0, 0, 0] = [-1e-4, 1e-3, 1e-3, 0, 0, 0]
    values[1, 1, 1] = [1e-3, 1e-3, 1e-3, 2e-3, 0, 0]
    field = read_tensors(save(tmp_path / "t.nii", values))
    assert field.repaired_count == 2
    assert field.repaired[0, 0, 0]
    assert field.repaired[1, 1, 1]
    assert positive_definite(field.tensors).all()
    assert "2 of 120 tensors had an eigenvalue below 1e-06 mm^2/s (2 were not positive definite)" in field.notes[-1]
    np.testing.assert_allclose(field.tensors[~field.repaired], values[~field.repaired], atol=1e-15)


def test_masks(tmp_path):
    values = six(matrices())
    values[0] = 0
    values[1, 0, 0] = np.nan
    path = save(tmp_path / "t.nii", values)
    field = read_tensors(path)
    assert field.mask.sum() == 3 * 30 - 1
    assert "1 tensors are not finite; they were left out" in field.notes
    assert np.isfinite(field.tensors).all()
    wanted = np.zeros(SHAPE, bool)
    wanted[:3, :, 2] = True
    field = read_tensors(path, mask=wanted)
    assert (field.mask == (wanted & (np.arange(4) > 0)[:, None, None])).all()
    assert "5 voxels of the mask have a zero tensor; they were left out" in field.notes
    assert (field.tensors[~field.mask] == 0).all()
    write_volume(tmp_path / "m.nii", wanted, AFFINES["isotropic"])
    np.testing.assert_array_equal(read_tensors(path, mask=tmp_path / "m.nii").mask, field.mask)
    with pytest.raises(InvalidInput, match=r"the mask has shape \(2, 2, 2\)"):
        read_tensors(path, mask=np.ones((2, 2, 2)))
    with pytest.raises(InvalidInput, match="no tensor in the mask"):
        read_tensors(path, mask=np.zeros(SHAPE))


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        ((3, 3, 3), {}, r"has shape \(3, 3, 3\); a tensor image has 6 or 9 volumes"),
        ((3, 3, 3, 7), {}, "has 6 or 9 volumes"),
        ((3, 3, 3, 2, 6), {}, "has 6 or 9 volumes"),
        ((3, 3, 3, 6), {"order": "slicer"}, "order is 'slicer'; choose one of 'auto', 'mrtrix'"),
        ((3, 3, 3, 6), {"frame": "lps"}, "frame is 'lps'; choose one of"),
        ((3, 3, 3, 6), {"order": "full"}, "has 6 components, which order='full' does not"),
        ((3, 3, 3, 9), {"order": "fsl"}, "has 9 components, which order='fsl' does not"),
        ((3, 3, 3, 9), {}, "are not symmetric"),
    ],
)
def test_refused(shape, options, sentence, tmp_path):
    path = save(tmp_path / "t.nii", np.arange(1, 1 + np.prod(shape), dtype=float).reshape(shape))
    with pytest.raises(InvalidInput, match=sentence):
        read_tensors(path, **options)


def test_mif(tmp_path):
    values = six(matrices()).astype("<f4")
    header = "mrtrix image\ndim: 4,5,6,6\nvox: 2,2,2,nan\nlayout: +0,+1,+2,+3\ndatatype: Float32LE\nfile: . 256\nEND\n"
    (tmp_path / "t.mif").write_bytes(header.encode().ljust(256) + values.tobytes(order="F"))
    field = read_tensors(tmp_path / "t.mif")
    np.testing.assert_allclose(field.tensors, six(matrices()), atol=1e-9)
    assert "mrtrix order, by the kind of the file" in field.notes[0]


def test_rotation_of_tensors():
    full = matrices(1.0)
    np.testing.assert_allclose(rotate_tensors(six(full), TURN), six(TURN @ full @ TURN.T), atol=1e-14)
    anything = np.random.default_rng(0).normal(size=(3, 3))
    np.testing.assert_allclose(rotate_tensors(six(full), anything), six(anything @ full @ anything.T), atol=1e-13)
    assert rotate_tensors(six(full).astype(np.float32), TURN).dtype == np.float32


def test_positive_definite_agrees_with_the_eigenvalues():
    full = np.random.default_rng(0).normal(size=(2000, 3, 3))
    full = full + full.transpose(0, 2, 1) + 2 * np.eye(3)
    np.testing.assert_array_equal(positive_definite(six(full)), np.linalg.eigvalsh(full)[:, 0] > 0)


def test_real_tensors_of_mrtrix(shared_data):
    folder = shared_data / "dwi" / "mrtrix_small"
    field = read_tensors(folder / "mrtrix_dwi2tensor_mask.nii.gz")
    assert "taken in mrtrix order" in field.notes[0]
    raw = nib.load(folder / "mrtrix_dwi2tensor_mask.nii.gz").get_fdata()
    good = field.mask & ~field.repaired
    np.testing.assert_allclose(field.tensors[good], raw[good], atol=1e-10)


def test_unknown_order_for_writing(tmp_path):
    field = TensorField(tensors=six(matrices()), mask=np.ones(SHAPE, bool), affine=np.eye(4))
    with pytest.raises(InvalidInput, match="order is 'auto'"):
        write_tensors(tmp_path / "t.nii", field, order="auto")
    with pytest.raises(InvalidInput, match="does not end in"):
        write_tensors(tmp_path / "t.mif", dataclasses.replace(field))

"""Tensor images of MRtrix, FSL and DIPY: order, axes and units are found; an unclear order is an error."""

import itertools

import nibabel as nib
import numpy as np
import pytest
from dipy.io.utils import nifti1_symmat
from dipy.reconst.dti import lower_triangular

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import positive_definite
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io.tensor_images import read_tensors, write_tensors
from napari_gpubio.diffusion.model import TensorField
from tests.diffusion.tensor_samples import AFFINES, TURNS, axes_of, six, turned
from tests.sentences import says

SHAPE = (4, 5, 6)
WORLD = turned((1.7e-3, 0.4e-3, 0.2e-3), TURNS[:120]).reshape(*SHAPE, 3, 3)
EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)


def in_frame(affine, frame):
    """World tensors as another program would have fitted them."""
    q = axes_of(affine, frame)
    return q.T @ WORLD @ q


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


@EVERY_AFFINE
@pytest.mark.parametrize("order", ORDERS)
def test_files_of_other_programs(order, affine, tmp_path):
    """Recognized without a hint, and turned into world axes."""
    own = in_frame(affine, HABITS[order])
    values = np.stack([own[..., i, j] for i, j in ORDERS[order]], axis=-1)
    field = read_tensors(save(tmp_path / "t.nii.gz", values, affine))
    np.testing.assert_allclose(field.tensors, six(WORLD), atol=1e-12)
    assert field.mask.all()
    assert field.repaired_count == 0
    assert ("3 x 3" if order == "full" else order) in field.notes[0]
    assert f"components refer to {HABITS[order]} axes" in field.notes[0]


@EVERY_AFFINE
@pytest.mark.parametrize("frame", ["world", "voxel", "fsl"])
def test_frames(frame, affine, tmp_path):
    path = save(tmp_path / "t.nii.gz", six(in_frame(affine, frame)), affine)
    np.testing.assert_allclose(read_tensors(path, order="mrtrix", frame=frame).tensors, six(WORLD), atol=1e-12)


@EVERY_AFFINE
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(order, affine, dtype, tmp_path):
    mask = np.ones(SHAPE, bool)
    mask[0] = False
    tensors = np.where(mask[..., None], six(WORLD), 0).astype(dtype)
    field = TensorField(tensors=tensors, mask=mask, affine=affine)
    write_tensors(tmp_path / "t.nii.gz", field, order=order)
    back = read_tensors(tmp_path / "t.nii.gz")
    assert back.tensors.dtype == dtype
    np.testing.assert_allclose(back.tensors, tensors, atol=1e-9 if dtype == np.float32 else 1e-16)
    np.testing.assert_array_equal(back.mask, mask)
    np.testing.assert_allclose(back.affine, affine, atol=1e-6)


def test_dipy_files_both_ways(tmp_path):
    """DIPY writes its fit with `nifti1_symmat`: five dimensions and the intent of symmetric matrices."""
    affine = AFFINES["rotated"]
    own = in_frame(affine, "fsl")
    nib.save(nifti1_symmat(lower_triangular(own), affine), tmp_path / "dipy.nii.gz")
    field = read_tensors(tmp_path / "dipy.nii.gz")
    np.testing.assert_allclose(field.tensors, six(WORLD), atol=1e-12)
    assert "dipy order, by the kind of the file" in field.notes[0]
    write_tensors(tmp_path / "ours.nii.gz", field, order="dipy")
    ours, theirs = nib.load(tmp_path / "ours.nii.gz"), nib.load(tmp_path / "dipy.nii.gz")
    assert ours.shape == theirs.shape == (*SHAPE, 1, 6)
    assert ours.header.get_intent()[0] == theirs.header.get_intent()[0] == "symmetric matrix"
    np.testing.assert_allclose(ours.get_fdata(), theirs.get_fdata(), atol=1e-12)


def test_files_of_five_dimensions(tmp_path):
    full = read_tensors(save(tmp_path / "full.nii", WORLD))
    np.testing.assert_allclose(full.tensors, six(WORLD), atol=1e-15)
    diagonal = np.zeros((*SHAPE, 1, 6))
    diagonal[..., :] = [1e-3, 0, 2e-3, 0, 0, 3e-3]  # definite in another order too, but the intent is DIPY's
    image = nib.Nifti1Image(diagonal, np.eye(4))
    image.header.set_intent("symmetric matrix", (3,))
    nib.save(image, tmp_path / "t.nii")
    np.testing.assert_allclose(read_tensors(tmp_path / "t.nii").tensors[0, 0, 0], [1e-3, 2e-3, 3e-3, 0, 0, 0])


def test_an_unclear_order_must_be_given(tmp_path):
    values = np.tile([3e-3, 2e-3, 2e-3, 2e-3, 1e-4, 3e-3], (*SHAPE, 1))  # no order makes it definite
    with pytest.raises(InvalidInput, match=r"mrtrix 0.0 %, fsl .*give order='mrtrix', 'fsl' or 'dipy'"):
        read_tensors(save(tmp_path / "t.nii", values))
    values[:] = [3e-3, 1e-4, 2e-3, 1e-3, 1e-4, 3e-3]  # both fsl's and dipy's do
    path = save(tmp_path / "t.nii", values)
    with pytest.raises(InvalidInput, match=r"fsl 100.0 %, dipy 100.0 %"):
        read_tensors(path)
    expected = {"fsl": [3e-3, 1e-3, 3e-3, 1e-4, 2e-3, 1e-4], "dipy": [3e-3, 2e-3, 3e-3, 1e-4, 1e-3, 1e-4]}
    for order, tensor in expected.items():
        np.testing.assert_allclose(read_tensors(path, order=order, frame="world").tensors[0, 0, 0], tensor)


def test_units(tmp_path):
    field = read_tensors(save(tmp_path / "t.nii", six(1e3 * WORLD)))
    np.testing.assert_allclose(field.tensors, six(WORLD), atol=1e-15)
    assert any("um^2/ms were taken" in note for note in field.notes)
    field = read_tensors(save(tmp_path / "t.nii", six(1e-6 * WORLD)), order="mrtrix")
    assert any("check the unit" in note for note in field.notes)


def test_tensors_that_are_not_positive_definite_are_mended(tmp_path):
    values = six(WORLD)
    values[0, 0, 0] = [-1e-4, 1e-3, 1e-3, 0, 0, 0]
    values[1, 1, 1] = [1e-3, 1e-3, 1e-3, 2e-3, 0, 0]
    field = read_tensors(save(tmp_path / "t.nii", values))
    assert field.repaired_count == 2
    assert field.repaired[0, 0, 0]
    assert field.repaired[1, 1, 1]
    assert positive_definite(field.tensors).all()
    assert says(field.notes[-1], "2 of 120", "1e-06 mm^2/s", "2 were not positive definite")
    np.testing.assert_allclose(field.tensors[~field.repaired], values[~field.repaired], atol=1e-15)


def test_masks(tmp_path):
    values = six(WORLD)
    values[0] = 0
    values[1, 0, 0] = np.nan
    path = save(tmp_path / "t.nii", values)
    field = read_tensors(path)
    assert field.mask.sum() == 3 * 30 - 1
    assert "1 tensors are not finite, or beyond 1e30; they were left out" in field.notes
    assert np.isfinite(field.tensors).all()
    chosen = np.zeros(SHAPE, bool)
    chosen[:3, :, 2] = True
    field = read_tensors(path, mask=chosen)
    assert (field.mask == (chosen & (np.arange(4) > 0)[:, None, None])).all()
    assert "5 voxels of the mask have a zero tensor; they were left out" in field.notes
    assert (field.tensors[~field.mask] == 0).all()
    write_volume(tmp_path / "m.nii", chosen, AFFINES["isotropic"])
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


@pytest.mark.parametrize(
    ("name", "order", "sentence"), [("t.nii", "auto", "order is"), ("t.mif", "full", "not end in")]
)
def test_refused_for_writing(name, order, sentence, tmp_path):
    field = TensorField(tensors=six(WORLD), mask=np.ones(SHAPE, bool), affine=np.eye(4))
    with pytest.raises(InvalidInput, match=sentence):
        write_tensors(tmp_path / name, field, order=order)


def test_mif(tmp_path):
    values = six(WORLD).astype("<f4")
    header = "mrtrix image\ndim: 4,5,6,6\nvox: 2,2,2,nan\nlayout: +0,+1,+2,+3\ndatatype: Float32LE\nfile: . 256\nEND\n"
    (tmp_path / "t.mif").write_bytes(header.encode().ljust(256) + values.tobytes(order="F"))
    field = read_tensors(tmp_path / "t.mif")
    np.testing.assert_allclose(field.tensors, six(WORLD), atol=1e-9)
    assert "mrtrix order, by the kind of the file" in field.notes[0]


def test_real_tensors_of_mrtrix(shared_data):
    folder = shared_data / "dwi" / "mrtrix_small"
    field = read_tensors(folder / "mrtrix_dwi2tensor_mask.nii.gz")
    assert "taken in mrtrix order" in field.notes[0]
    raw = nib.load(folder / "mrtrix_dwi2tensor_mask.nii.gz").get_fdata()
    good = field.mask & ~field.repaired
    np.testing.assert_allclose(field.tensors[good], raw[good], atol=1e-10)

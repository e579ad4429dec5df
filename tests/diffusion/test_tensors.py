"""Tensor fits against MRtrix, DIPY, Slicer and noise-free signals; what is refused."""

import dataclasses
import threading

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion import DiffusionScan, FitSettings, Unrepaired, fit_tensors, fit_tensors_steps
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.kernels.tensors.problem import fit_problem
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.phantom.brain import spread_directions
from napari_gpubio.diffusion.tensors.mask import brain_mask
from napari_gpubio.diffusion.tensors.settings import OrdinaryLeastSquares, WeightedLeastSquares
from tests.diffusion.tensor_samples import AFFINES, axes_of, matrices, six, turned

# -- golden fits ------------------------------------------------------------------------------------------------------


def volume(path):
    return np.asarray(nib.load(path).dataobj)


@pytest.mark.parametrize(
    ("reference", "settings"),
    [
        ("mrtrix_dwi2tensor_ols", FitSettings(estimator=OrdinaryLeastSquares(), repair=Unrepaired())),
        ("mrtrix_dwi2tensor_wls_it0", FitSettings(estimator=WeightedLeastSquares(iterations=0), repair=Unrepaired())),
        ("mrtrix_dwi2tensor_mask", FitSettings(estimator=WeightedLeastSquares(iterations=2), repair=Unrepaired())),
        ("mrtrix_dwi2tensor", FitSettings(estimator=WeightedLeastSquares(iterations=2), repair=Unrepaired())),
    ],
)
def test_mrtrix_gets_the_same_tensors(shared_data, device, reference, settings):
    folder = shared_data / "dwi" / "mrtrix_small"
    scan, expected = read_dwi(folder / "dwi.nii.gz"), volume(folder / f"{reference}.nii.gz")
    there = expected.any(axis=-1)  # the files hold zeros outside their mask
    if reference == "mrtrix_dwi2tensor":
        assert there.all()
        there &= (scan.data > 0).all(axis=-1)  # MRtrix treats signals of zero a little differently
    else:
        np.testing.assert_array_equal(there, volume(folder / "mask.nii.gz") > 0)
    field = fit_tensors(scan, there, settings, device=device)
    assert field.mask[there].all()
    assert np.abs(field.tensors - expected)[there].max() < 1e-10


def test_dipy_gets_the_same_tensors(shared_data, device):
    gradients = pytest.importorskip("dipy.core.gradients", reason="DIPY is not installed")
    dti = pytest.importorskip("dipy.reconst.dti", reason="DIPY is not installed")
    folder = shared_data / "dwi" / "mrtrix_small"
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = (volume(folder / "mask.nii.gz") > 0) & (scan.data > 0).all(axis=-1)
    table = gradients.gradient_table(scan.bvals, bvecs=scan.directions)
    theirs = dti.TensorModel(table, fit_method="OLS").fit(scan.data[mask].astype(float)).quadratic_form
    assert np.linalg.eigvalsh(theirs).min() > 1e-5  # where DIPY repairs nothing
    ours = fit_tensors(scan, mask, FitSettings(estimator=OrdinaryLeastSquares(), repair=Unrepaired()), device=device)
    assert mask.sum() > 100
    assert np.abs(ours.tensors[mask] - six(theirs)).max() < 1e-10


@pytest.mark.parametrize("estimator", [OrdinaryLeastSquares(), WeightedLeastSquares()], ids=["ols", "wls"])
def test_slicer_gets_the_same_tensors_in_world_axes(shared_data, device, estimator):
    """A helix with long voxels and a rotated frame; seven volumes, so every estimator has the same answer."""
    folder = shared_data / "dwi" / "helix"
    with np.load(folder / "helix_tensor_world.npz") as baseline:
        expected, mask, affine = six(baseline["T"]), baseline["mask"], baseline["affine"]
    scan = read_dwi(folder / "dwi.nii.gz")
    np.testing.assert_allclose(scan.affine, affine, atol=1e-5)
    field = fit_tensors(scan, mask, FitSettings(estimator=estimator, repair=Unrepaired()), device=device)
    assert np.abs(field.tensors - expected)[mask].max() < 1e-8


def test_tensors_of_a_real_brain_that_need_repair_are_counted(shared_data, device):
    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    field = fit_tensors(scan, mask, device=device)
    count = field.repaired_count
    left_out = [int(note.split()[0]) for note in field.notes if "left out" in note]
    assert mask.sum() - field.mask.sum() == sum(left_out)
    assert mask.sum() == 105_252
    assert abs(count - 1335) <= (0 if device == "cpu" else 2)  # a GPU rounds otherwise
    assert any(f"{count} of {field.mask.sum()} tensors were not positive definite" in note for note in field.notes)
    assert field.eigen.values[field.mask].min() > 0.999e-6
    raw = fit_tensors(scan, mask, FitSettings(repair=Unrepaired()), device=device)
    assert (raw.eigen.values[..., 2][raw.mask] < 1e-6).sum() == count
    np.testing.assert_array_equal(raw.tensors[~field.repaired], field.tensors[~field.repaired])


# -- exact recovery ---------------------------------------------------------------------------------------------------

B = np.array([0.0, 0.0] + [700.0] * 12 + [2000.0] * 12)
GRADIENTS = Rotation.random(len(B), random_state=4).as_matrix()[:, 0]
GRADIENTS[:2] = 0
TRUE = six(turned((1.7e-3, 0.4e-3, 0.2e-3))[:48]).reshape(4, 3, 4, 6)


def signals(tensors=TRUE, b=B, gradients=GRADIENTS, s0=1000.0):
    return s0 * np.exp(-b * np.einsum("ni,...ij,nj->...n", gradients, matrices(tensors), gradients))


def scan_of(data, b=B, gradients=GRADIENTS):
    return DiffusionScan(data=data, bvals=b, directions=gradients, affine=np.eye(4))


EVERYWHERE = np.ones((4, 3, 4), bool)


@pytest.mark.parametrize("estimator", [OrdinaryLeastSquares(), WeightedLeastSquares()], ids=["ols", "wls"])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_noise_free_tensors_come_back_from_files_in_every_frame(tmp_path, device, affine, estimator):
    nib.save(nib.Nifti1Image(signals().astype(np.float32), affine), tmp_path / "dwi.nii.gz")
    np.savetxt(tmp_path / "dwi.bval", B[None])
    np.savetxt(tmp_path / "dwi.bvec", (GRADIENTS @ axes_of(affine, "fsl")).T)
    field = fit_tensors(read_dwi(tmp_path / "dwi.nii.gz"), EVERYWHERE, FitSettings(estimator=estimator), device=device)
    assert np.abs(field.tensors - TRUE).max() < 5e-10  # signals in single precision
    np.testing.assert_allclose(field.s0, 1000, rtol=1e-6)
    assert (field.repaired_count, field.mask.all()) == (0, True)


def test_only_the_chosen_shells_are_fitted():
    slow, fast = (np.zeros((*EVERYWHERE.shape, 6)) + six(d * np.eye(3)) for d in (0.8e-3, 1.4e-3))
    scan = scan_of(np.where(B == 2000, signals(slow), signals(fast)))
    for shells, expected in (((0, 700), fast), ((0, 2000), slow)):
        field = fit_tensors(scan, EVERYWHERE, FitSettings(shells=shells), device="cpu")
        np.testing.assert_allclose(field.tensors, expected, atol=1e-9)
    both = fit_tensors(scan, EVERYWHERE, device="cpu")
    assert 0.85e-3 < both.tensors[..., :3].mean() < 1.35e-3
    with pytest.raises(InvalidInput, match="no shell b = 1000 s/mm²; this scan has 0, 700, 2000"):
        fit_tensors(scan, EVERYWHERE, FitSettings(shells=(0, 1000)), device="cpu")


# -- bad and odd input ------------------------------------------------------------------------------------------------


def test_masks():
    with pytest.raises(InvalidInput, match=r"the mask has shape \(4, 3, 5\) and the scan \(4, 3, 4\)"):
        fit_tensors(scan_of(signals()), np.ones((4, 3, 5), bool), device="cpu")
    with pytest.raises(InvalidInput, match="the mask is empty"):
        fit_tensors(scan_of(signals()), np.zeros((4, 3, 4), bool), device="cpu")
    mask = np.zeros((4, 3, 4), np.uint8)
    mask[1:3] = 7
    field = fit_tensors(dataclasses.replace(scan_of(signals()), notes=("from a file",)), mask, device="cpu")
    assert field.notes == ("from a file",)
    np.testing.assert_array_equal(field.mask, mask > 0)
    assert mask.max() == 7
    assert not field.tensors[mask == 0].any()
    scan = load_brain_phantom()
    found = brain_mask(np.asarray(scan.data[..., 0], np.float32), voxel_sizes_mm(scan.affine))
    np.testing.assert_array_equal(fit_tensors(scan, device="cpu").mask, found & (scan.data.max(axis=-1) > 0))


def test_voxels_without_a_usable_signal_are_left_out_and_counted(device):
    data = signals()
    data[0, 0, 0, 5], data[0, 0, 1, 0], data[0, 0, 2], data[0, 0, 3] = np.nan, np.inf, 0, -3
    field = fit_tensors(scan_of(data), EVERYWHERE, device=device)
    assert not field.mask[0, 0].any()
    assert field.mask.sum() == 44
    assert "4 voxels of the mask without a usable signal (zero or not finite) were left out" in field.notes
    np.testing.assert_allclose(field.tensors[field.mask], TRUE[field.mask], atol=5e-10)
    assert not field.tensors[~field.mask].any()


def test_single_signals_at_or_below_zero_are_raised_and_counted(device):
    data, lowest, settings = signals(), signals(), FitSettings(repair=Unrepaired())
    data[2, 1, 0, 9], data[2, 1, 1, 20] = 0, -5
    lowest[2, 1, 0, 9], lowest[2, 1, 1, 20] = 1e-3, 1e-3  # a millionth of the largest
    field, same = (fit_tensors(scan_of(d), EVERYWHERE, settings, device=device) for d in (data, lowest))
    assert "2 voxels had signals at or below zero; these were raised before the logarithm" in field.notes
    assert field.mask.all()
    np.testing.assert_allclose(field.tensors, same.tensors, atol=1e-9)


SIX = spread_directions(6)


@pytest.mark.parametrize(
    ("b", "gradients", "rank"),
    [
        ([0] + [1000] * 8, np.tile([[0, 0, 0]] + [[1, 0, 0]] * 8, 1), 2),
        ([1000] * 12, GRADIENTS[2:14], 6),  # one shell and no b = 0: size and S0 cannot be separated
        ([0] + [1000] * 5, np.concatenate([np.zeros((1, 3)), SIX[:5]]), 6),
        ([0] * 7, np.zeros((7, 3)), 1),
    ],
    ids=["one direction", "one shell", "five directions", "no weighting"],
)
def test_a_table_that_determines_no_tensor_is_refused(b, gradients, rank):
    b, gradients = np.array(b, float), np.array(gradients, float)
    data = np.full((4, 3, 4, len(b)), 100.0)
    with pytest.raises(InvalidInput, match=rf"{len(b)} volumes .* determine {rank} of the 7 unknowns") as caught:
        fit_tensors(scan_of(data, b, gradients), EVERYWHERE, device="cpu")
    assert "use at least 6 different directions" in str(caught.value)


def test_the_least_table_is_enough():
    b, gradients = np.array([0.0] + [1000.0] * 6), np.concatenate([np.zeros((1, 3)), SIX])
    scan = scan_of(signals(b=b, gradients=gradients), b, gradients)
    np.testing.assert_allclose(fit_tensors(scan, EVERYWHERE, device="cpu").tensors, TRUE, atol=5e-9)


# -- stop and progress ------------------------------------------------------------------------------------------------


def test_a_stopped_fit_keeps_what_was_done(device):
    scan, stop = load_brain_phantom(), threading.Event()
    whole = fit_tensors(scan, device=device)
    work = fit_tensors_steps(scan, device=device, stop=stop)
    first = next(work)
    stop.set()
    part = drive(work)
    assert first.total == whole.mask.sum()
    assert 0 < first.done == part.mask.sum() < first.total
    np.testing.assert_array_equal(np.flatnonzero(part.mask), np.flatnonzero(whole.mask)[: first.done])
    np.testing.assert_array_equal(part.tensors[part.mask], whole.tensors[part.mask])


def test_progress_ends_with_all_voxels_and_chunks_change_nothing(in_chunks_of):
    scan, steps = load_brain_phantom(), []
    mask = np.zeros(scan.shape, bool)
    mask[20:24, 20:40, 20:40] = True
    whole = fit_tensors(scan, mask, device="cpu", progress=steps.append)
    assert steps[-1].done == steps[-1].total == whole.mask.sum()
    in_chunks_of(37)
    again = fit_tensors(scan, mask, device="cpu", progress=steps.append)
    assert len(steps) > 40
    np.testing.assert_array_equal(again.tensors, whole.tensors)


@pytest.mark.parametrize(
    "bvals", [[995, 1000, 1005] * 10, 1000 + 10 * np.sin(np.arange(64))], ids=["rounded", "jitter"]
)
def test_one_shell_of_rounded_b_values_is_no_tensor(bvals):
    directions = spread_directions(len(bvals))
    with pytest.raises(InvalidInput, match=r"hardly determine a tensor.*second b-value farther away"):
        fit_problem(np.ones((1, len(bvals))), np.array(bvals), directions, FitSettings())
    fit_problem(np.ones((1, len(bvals))), np.where(np.arange(len(bvals)) % 9, bvals, 0), directions, FitSettings())

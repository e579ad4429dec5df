"""The check for flipped and swapped axes: finds every wrong table where fibers show it, and raises no false alarm."""

import functools
import time

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.io.gradients import fsl_to_world, world_to_fsl, write_fsl_gradients
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.gradient_check import (
    CHANGES,
    UNCHANGED,
    AxisChange,
    check_gradients,
    coherence_scores,
    corrected_scan,
    evaluate_directions,
)
from tests.diffusion.tensor_samples import directions_and_fa, fitted, sticks

TURN = Rotation.from_euler("xyz", [10, -15, 20], degrees=True).as_matrix()
MATRICES = {
    "isotropic": np.diag([2.0, 2.0, 2.0]),
    "left-handed": np.diag([-2.0, 2.0, 2.0]),
    "long voxels": TURN @ np.diag([2.0, 2.0, 5.0]),
    "swapped axes": np.array([[0, 0, 2.0], [-2.0, 0, 0], [0, 2.5, 0]]),
    "sheared left-handed": TURN @ np.array([[-2.0, 0.2, 0], [0, 2.0, 0.2], [0, 0, 2.5]]),
}
AFFINES = {name: np.block([[m, np.ones((3, 1))], [np.zeros((1, 3)), 1]]) for name, m in MATRICES.items()}


@functools.cache
def bundles(name):
    """Straight bundles through an 80 mm box: directions (world), FA and affine."""
    affine = AFFINES[name]
    shape = tuple(int(n) for n in np.ceil(80 / np.linalg.norm(affine[:3, :3], axis=0)))
    center = affine[:3, :3] @ ((np.array(shape) - 1) / 2)
    v1 = sticks(np.moveaxis(np.indices(shape), 0, -1) @ affine[:3, :3].T - center)
    return v1, np.where(v1.any(axis=-1), 0.7, 0.0), affine


def changed(v1, change, affine):
    """Directions as a table with the rows changed in this way would give them."""
    as_rows = world_to_fsl(v1.reshape(-1, 3), affine).T
    rows = np.array([as_rows[p] * (-1 if f else 1) for p, f in zip(change.permutation, change.flips, strict=True)])
    return fsl_to_world(rows.T, affine).reshape(v1.shape)


def undoes(correction, change):
    product = correction.matrix @ change.matrix
    return np.allclose(product, np.eye(3)) or np.allclose(product, -np.eye(3))


def test_the_24_changes():
    assert len(CHANGES) == len({tuple(np.abs(np.kron(c.matrix, c.matrix) - 2).ravel()) for c in CHANGES}) == 24
    assert UNCHANGED in CHANGES
    change = AxisChange((2, 0, 1), (False, True, False))
    np.testing.assert_array_equal(change.matrix @ [1, 2, 3], [3, -1, 2])
    assert change.rows == "z, -x, y"


@pytest.mark.parametrize("name", AFFINES)
def test_every_wrong_table_is_found(name):
    v1, fa, affine = bundles(name)
    right = evaluate_directions(v1, fa, affine)
    assert right.ok
    assert right.sure
    assert right.best == UNCHANGED
    for change in CHANGES:
        found = evaluate_directions(changed(v1, change, affine), fa, affine)
        assert found.ok == (change == UNCHANGED)
        assert undoes(found.best, change)
        assert found.score_best == pytest.approx(right.score_given, rel=1e-3)


def test_scores():
    v1, fa, affine = bundles("isotropic")
    scores = coherence_scores(v1, fa, affine)
    assert set(scores) == set(CHANGES)
    assert max(scores, key=lambda change: scores[change]) == UNCHANGED
    assert 0 < min(scores.values()) < max(scores.values()) < 1
    assert evaluate_directions(v1, fa, affine).score_given == scores[UNCHANGED]
    assert coherence_scores(v1, fa, affine) == scores  # threads do not change the sums
    mirrored = affine @ np.array([[-1.0, 0, 0, fa.shape[0] - 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    theirs = coherence_scores(v1[::-1], fa[::-1], mirrored)  # the same world, an axis stored backwards
    assert all(theirs[change] == pytest.approx(scores[change], rel=1e-6) for change in CHANGES)


def test_scores_by_a_slow_count():
    """The definition, pair by pair, for the table as given."""
    v1, fa, affine = bundles("isotropic")
    v1, fa = v1[20:30, 20:30, 20:30], fa[20:30, 20:30, 20:30] + np.linspace(0, 0.2, 1000).reshape(10, 10, 10)
    agree = possible = 0.0
    for voxel in np.argwhere(fa > 0.2):
        for step in np.argwhere(np.ones((3, 3, 3))) - 1:
            other = voxel + step
            if tuple(step) <= (0, 0, 0) or (other < 0).any() or (other > 9).any() or not fa[tuple(other)] > 0.2:
                continue
            weight = fa[tuple(voxel)] * fa[tuple(other)]
            line = step / np.linalg.norm(step)
            possible += weight
            agree += weight * all(abs(v1[tuple(n)] @ line) > np.cos(np.pi / 6) for n in (voxel, other))
    assert agree > 0
    assert coherence_scores(v1, fa, affine)[UNCHANGED] == pytest.approx(agree / possible, rel=1e-6)


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_no_alarm_on_noise(name, seed):
    """Directions that are smooth but random: nothing can be found, and nothing is claimed."""
    rng = np.random.default_rng(seed)
    v1 = ndimage.gaussian_filter(rng.normal(size=(30, 30, 30, 3)), (2, 2, 2, 0))
    v1 /= np.linalg.norm(v1, axis=-1, keepdims=True)
    check = evaluate_directions(v1, rng.uniform(0, 0.6, v1.shape[:3]), AFFINES[name])
    assert check.ok
    assert not check.sure
    assert "does not show" in check.message


@pytest.mark.parametrize("direction", np.eye(3).tolist())
def test_long_voxels_do_not_draw_directions(direction):
    """A ball of parallel fibers looks alike from everywhere: the neighbors along a long edge must not decide."""
    affine = np.diag([2.0, 2.0, 8.0, 1.0])
    points = np.moveaxis(np.indices((40, 40, 10)), 0, -1) * [2, 2, 8] - [39, 39, 36]
    fa = np.where(np.linalg.norm(points, axis=-1) < 36, 0.6, 0.0)
    assert evaluate_directions(np.broadcast_to(direction, (*fa.shape, 3)), fa, affine).ok


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 5, 1), (3, 3, 3)])
def test_small_volumes(shape):
    v1 = np.broadcast_to([0, 0, 1.0], (*shape, 3))
    for fa in (np.zeros(shape), np.ones(shape), np.full(shape, np.nan)):
        check = evaluate_directions(v1, fa, np.eye(4))
        assert check.ok
        assert np.isfinite([check.score_given, check.score_best]).all()


def test_volumes_that_do_not_fit_together_are_refused():
    with pytest.raises(InvalidInput, match="do not fit"):
        evaluate_directions(np.zeros((3, 3, 3, 3)), np.zeros((3, 3, 4)), np.eye(4))


def test_message():
    v1, fa, affine = bundles("swapped axes")  # x runs front-back, y up-down, z left-right
    flip = AxisChange((0, 1, 2), (False, True, False))
    message = evaluate_directions(changed(v1, flip, affine), fa, affine).message
    assert message.startswith("The gradient table looks wrong: y (up-down) is flipped. ")
    assert "has the rows (x, -y, z) of this one" in message
    swap = AxisChange((2, 1, 0), (False, False, False))
    message = evaluate_directions(changed(v1, swap, affine), fa, affine).message
    assert "x (front-back) and z (left-right) are swapped" in message


@pytest.fixture(scope="module")
def brain(tmp_path_factory):
    """Scan, mask, principal directions and FA of the whole brain."""
    from tests.conftest import NO_SHARED_DATA, SHARED_DATA

    folder = SHARED_DATA / "dwi" / "whole_brain_b1000"
    if not folder.is_dir():
        pytest.skip(NO_SHARED_DATA)
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    return scan, mask, *directions_and_fa(scan, mask)


def test_real_brain(brain):
    scan, mask, v1, fa = brain
    scores = coherence_scores(v1, fa, scan.affine)
    first, second = sorted(scores, key=lambda change: -scores[change])[:2]
    assert first == UNCHANGED
    assert scores[first] > 1.2 * scores[second]
    seconds = []
    for change in CHANGES[::5]:
        wrong, begun = changed(v1, change, scan.affine), time.perf_counter()
        check = evaluate_directions(wrong, fa, scan.affine)
        seconds.append(time.perf_counter() - begun)
        assert check.ok == (change == UNCHANGED)
        assert check.sure
        assert undoes(check.best, change)
    assert min(seconds) < 0.5
    tensors = np.zeros((*mask.shape, 6), np.float32)
    tensors[mask] = fitted(scan.data[mask], scan.bvals, scan.directions)
    check = check_gradients(TensorField(tensors=tensors, mask=mask, affine=scan.affine))
    assert check.ok
    assert check.sure
    assert check.score_given == pytest.approx(scores[UNCHANGED], rel=1e-3)


@pytest.mark.parametrize("change", [CHANGES[1], CHANGES[10], CHANGES[23]], ids=lambda change: change.rows)
def test_real_brain_with_a_wrong_bvec_file(brain, change, tmp_path):
    """From the file to the corrected file: read a wrong one, fit, check, correct, write."""
    scan, mask, *_ = brain
    wrong = changed(scan.directions, change, scan.affine)
    bad = DiffusionScan(data=scan.data, bvals=scan.bvals, directions=wrong, affine=scan.affine)
    check = evaluate_directions(*directions_and_fa(bad, mask), scan.affine)
    assert not check.ok
    good = corrected_scan(bad, check)
    assert "gradient table corrected" in good.notes[-1]
    write_fsl_gradients(tmp_path / "x.bval", tmp_path / "x.bvec", good.bvals, good.directions, good.affine)
    again = read_dwi(scan.path, bval=tmp_path / "x.bval", bvec=tmp_path / "x.bvec").directions
    assert min(np.abs(again - scan.directions).max(), np.abs(again + scan.directions).max()) < 1e-12
    assert corrected_scan(scan, evaluate_directions(*brain[2:], scan.affine)).notes == scan.notes


def test_no_alarm_on_crops_of_the_real_brain(brain):
    scan, _, v1, fa = brain
    rng = np.random.default_rng(0)
    for size in [(8, 8, 8), (16, 16, 16), (73, 87, 4), (4, 87, 73), (24, 24, 24)]:
        for _ in range(20):
            begin = [rng.integers(0, n - s + 1) for n, s in zip(fa.shape, size, strict=True)]
            part = tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))
            assert evaluate_directions(v1[part], fa[part], scan.affine).ok


@pytest.mark.parametrize("name", ["helix", "mrtrix_small"])
def test_no_alarm_on_small_real_data(name, shared_data):
    scan = read_dwi(shared_data / "dwi" / name / "dwi.nii.gz")
    check = evaluate_directions(*directions_and_fa(scan, (scan.data > 0).all(axis=3)), scan.affine)
    assert check.ok
    assert check.best == UNCHANGED

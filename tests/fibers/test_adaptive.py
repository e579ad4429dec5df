"""The adaptive metric: its factor on closed forms, and geodesics that keep to bent fibers."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.diffusion import TensorField, fit_tensors
from napari_gpubio.diffusion.io import read_dwi, read_mask
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.phantom.brain import voxel_centers
from napari_gpubio.diffusion.phantom.closed_forms import ring, ring_field
from napari_gpubio.diffusion.tensors.adaptive import log_factor
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers import Principal, track
from napari_gpubio.fibers.kernels.rays import cpu, gpu
from napari_gpubio.fibers.kernels.rays import problem as problem_module
from napari_gpubio.fibers.metrics import Adaptive, Inverse
from napari_gpubio.fibers.settings import VanAart2011
from tests.diffusion.tensor_samples import matrices
from tests.fibers.ray_samples import CALLOSUM, DOUBLE, GRIDS, brain, changed, fresh, on_grid, problem, rod
from tests.fibers.test_rays_numerics import stored_otherwise

ADAPTIVE = changed(DOUBLE, metric=Adaptive(), interpolation="smoothing", fa_stop=0.0, min_length_mm=0.0)
RADII = (12.0, 16.0, 20.0, 25.0)


def alpha_of(field):
    return log_factor(field.eigen.values, field.eigen.vectors, field.mask, field.affine)


def radii_of(field):
    return np.linalg.norm(voxel_centers(field.affine, field.shape)[..., :2], axis=-1)


@functools.cache
def thin_ring():
    """A ring bundle of five slices."""
    whole, slices = ring_field(), slice(10, 15)
    affine = whole.affine.copy()
    affine[2, 3] += 10
    return TensorField(tensors=whole.tensors[:, :, slices], mask=whole.mask[:, :, slices], affine=affine)


@functools.cache
def noisy_ring():
    """The same, fitted to 32 directions at b = 1000 s/mm^2 with Rician noise, SNR 30 at b = 0."""
    rng, field = np.random.default_rng(1), thin_ring()
    z, turn = 1 - np.arange(0.5, 35) / 35, np.pi * (1 + np.sqrt(5)) * np.arange(35)
    directions = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    bvals = np.where(np.arange(35) % 12 == 6, 0.0, 1000.0)
    exponents = np.einsum("na,xyzab,nb->xyzn", directions, matrices(field.tensors), directions)
    signals = 1000.0 * np.exp(-bvals * exponents)
    noise = 1000.0 / 30.0 * rng.normal(size=(2, *signals.shape))
    data = np.hypot(signals + noise[0], noise[1]).astype(np.float32)
    scan = DiffusionScan(data=data, bvals=bvals, directions=directions, affine=field.affine)
    return fit_tensors(scan, field.mask, device="cpu")


def departures(field, metric):
    """How far from their circle rays of 120 degrees get at most, mm, shape (radii, angles of launch)."""
    angles = np.deg2rad([0, 90, 180, 270])
    seeds = np.array([[r * np.cos(t), r * np.sin(t), 0.5] for r in RADII for t in angles])
    settings = changed(ADAPTIVE, metric=metric, precision="single", max_length_mm=60.0, step_mm=0.5)
    fibers = track(field, seeds, Principal(both_ways=False), settings, device="cpu")
    worst = np.zeros(len(seeds))
    for seed, path in zip(fibers.per_fiber["seed"], fibers, strict=True):
        radius = np.linalg.norm(seeds[seed, :2])
        within = np.linalg.norm(np.diff(path, axis=0), axis=1).cumsum() <= radius * np.deg2rad(120)
        worst[seed] = np.abs(np.linalg.norm(path[1:, :2], axis=1) - radius)[within].max()
    return worst.reshape(len(RADII), len(angles))


def test_the_factor_of_a_ring_is_the_inverse_square_of_the_radius():
    """T9: alpha = -2 ln r."""
    field = thin_ring()
    radius = radii_of(field)[field.mask]
    error = alpha_of(field)[field.mask] + 2 * np.log(radius)
    assert np.abs(error - error.mean())[radius > 12].max() < 0.005


@pytest.mark.parametrize("grid", GRIDS)
def test_the_factor_of_a_ring_does_not_depend_on_the_voxels(grid):
    field = on_grid(lambda x: ring().tensor_at(x + 1e-6), GRIDS[grid], 12.0)
    radius = radii_of(field)
    field = dataclasses.replace(field, mask=radius > 7)
    error = (alpha_of(field) + 2 * np.log(radius))[radius > 9]
    assert (error - error.mean()).std() < 0.03


def test_straight_fibers_and_round_tensors_have_none():
    assert np.abs(alpha_of(rod((12, 6, 5)))).max() < 1e-9
    assert not alpha_of(rod((12, 6, 5), isotropic_from=0)).any()
    assert not alpha_of(rod((1, 1, 1))).any()


def test_it_is_zero_outside_the_mask_and_its_mean_is_zero_over_each_part():
    mask = noisy_ring().mask.copy()
    mask[30:33] = False
    mask[31, 50, 2] = True  # has no neighbor
    alpha = alpha_of(dataclasses.replace(noisy_ring(), mask=mask))
    assert np.isfinite(alpha).all()
    assert not alpha[~mask].any()
    assert abs(alpha[31, 50, 2]) < 1e-9
    for half in (slice(0, 30), slice(33, None)):
        assert abs(alpha[half][mask[half]].mean()) < 1e-5
        assert alpha[half].std() > 0.1


def test_a_principal_direction_has_no_sign():
    field, signs = noisy_ring(), np.random.default_rng(0).choice([-1, 1], (*noisy_ring().shape, 3, 1))
    again = log_factor(field.eigen.values, signs * field.eigen.vectors, field.mask, field.affine)
    np.testing.assert_allclose(again, alpha_of(field), atol=1e-8)


def test_geodesics_keep_to_a_ring_that_those_of_the_inverse_leave():
    assert departures(thin_ring(), Inverse()).min() > 3
    assert departures(thin_ring(), Adaptive()).max() < 0.05


def test_geodesics_keep_to_a_noisy_ring():
    assert departures(noisy_ring(), Inverse()).min() > 3
    adaptive = departures(noisy_ring(), Adaptive())
    assert adaptive.mean() < 0.3
    assert adaptive.max() < 0.75


@pytest.mark.parametrize(
    ("scan", "order", "flips"), [("ring", (0, 1, 2), (1, 0, 1)), ("brain", (1, 2, 0), (0, 1, 0))], ids=["ring", "brain"]
)
def test_how_the_volume_is_stored_does_not_matter(scan, order, flips, request):
    field = noisy_ring() if scan == "ring" else real_brain(request.getfixturevalue("shared_data"))
    voxels = np.argwhere(field.mask & (fa_map(field) > 0.3))
    voxels = voxels[np.random.default_rng(0).choice(len(voxels), 40, replace=False)] + 0.1
    seeds = voxels @ field.affine[:3, :3].T + field.affine[:3, 3]
    settings, ahead = changed(ADAPTIVE, max_length_mm=60.0, fa_stop=0.1), Principal()
    expected, found = (
        track(f, seeds, ahead, settings, device="cpu") for f in (field, stored_otherwise(field, order, flips))
    )
    assert len(expected) > 30
    np.testing.assert_array_equal(found.per_fiber["seed"], expected.per_fiber["seed"])
    for one, other in zip(found, expected, strict=True):
        assert min(np.abs(one - other).max(), np.abs(one - other[::-1]).max()) < 1e-5


@functools.cache
def real_brain(folder):
    """A box of the real brain, in which its mask has a border."""
    whole = read_dwi(folder / "dwi" / "whole_brain_b1000" / "dwi.nii.gz")
    mask = read_mask(folder / "dwi" / "whole_brain_b1000" / "nodif_brain_mask.nii.gz", whole.shape, whole.affine)
    box = (slice(5, 45), slice(20, 60), slice(20, 45))
    affine = whole.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [s.start for s in box]
    return fit_tensors(dataclasses.replace(whole, data=whole.data[box], affine=affine), mask[box], device="cpu")


def test_the_ceiling_of_the_eigenvalues_does_not_cut_the_factor():
    field = thin_ring()
    p = problem(field, [(20.0, 0.0, 0.5)], changed(ADAPTIVE, eigenvalue_ceiling_mm2_per_s=1e-3))
    dual = p.dual_eigenvalues(1e3 * field.eigen.values)[field.mask]
    assert dual.max() > 2  # 1e-3 mm^2/s
    np.testing.assert_allclose(dual[:, 0] / dual[:, 1], 1.0 / 0.3)  # 1.7 was lowered to 1


@pytest.mark.parametrize("changes", [{"precision": "single"}, {"method": VanAart2011}], ids=str)
def test_a_gpu_prepares_the_same_field(fake_gpu, changes):
    cupy = fake_gpu().module
    p = problem(fresh(brain()), [CALLOSUM], changed(ADAPTIVE, **changes))
    np.testing.assert_array_equal(cupy.asnumpy(gpu.prepare_field(p)), cpu.prepare_field(p))


def test_it_is_computed_once_for_a_field(monkeypatch):
    made = []
    monkeypatch.setattr(problem_module, "log_factor", lambda *a: made.append(a) or np.zeros(a[2].shape))
    field = fresh(brain())
    for changes in ({}, {"precision": "single"}, {"method": VanAart2011}):
        cpu.Run(problem(field, [CALLOSUM], changed(ADAPTIVE, **changes)), device=CPU)
    assert len(made) == 1

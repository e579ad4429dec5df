"""Rays on a real GPU: CUDA rounds as the CPU does where it fuses no product with a sum, so they are the same.

Rays in a noisy metric part exponentially: with products and sums fused, a tenth of the fibers of a real brain were more
than 1e-3 voxel away after 300 steps.
"""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.diffusion import fit_tensors
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.phantom.closed_forms import half_space, pull_back
from napari_gpubio.fibers import Cone, Hamiltonian, Isotropic, track
from napari_gpubio.fibers.checks import EXACT, SEED_SCHEME
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.kernels.rays import cpu, gpu
from napari_gpubio.fibers.metrics import Adaptive, Adjugate, Inverse
from napari_gpubio.fibers.seeds import ball
from tests.fibers.ray_samples import (
    BOTH_KINDS,
    BOTH_REALS,
    CALLOSUM,
    FAN,
    KINDS,
    SEEDS,
    TRACK,
    brain,
    fresh,
    known_of,
    problem,
    settings_of,
)
from tests.tractograms.tractogram_samples import check_same_fibers


def voxel_distances(found, expected, affine):
    """Largest distance (voxels) of each pair of fibers, over the points that both have."""
    to_voxel = np.linalg.inv(affine[:3, :3])
    distances = []
    for a, b in zip(found, expected, strict=True):
        n = min(len(a), len(b))
        distances.append(np.linalg.norm((a[:n] - b[:n]).astype(float) @ to_voxel.T, axis=1).max())
    return np.array(distances)


def on_both(field, seeds, directions, settings):
    found, expected = (track(field, seeds, directions, settings, device=d) for d in ("cuda", "cpu"))
    assert len(found) == len(expected)
    return found, expected


def launched_by(kind, directions):
    """EuDX takes the principal direction."""
    return Principal(both_ways=directions.both_ways) if kind.startswith("eudx") else directions


def shares_near(field, seeds, kind, precision):
    """Shares of fibers within 1e-3 voxel, and of those that end within a step of each other."""
    directions = launched_by(kind, Cone(count=10, both_ways=False))
    step = 0.2 * float(field.voxel_sizes_mm.min())
    limits = {"step_mm": step, "max_steps": 300, "fa_stop": 0.1, "min_length_mm": 0.0}
    settings = settings_of(kind, precision, max_length_mm=250.0, **limits)
    found, expected = on_both(field, seeds, directions, settings)
    assert len(found) > (150 if kind.startswith("eudx") else 1000)  # of 200 seeds
    near = voxel_distances(found, expected, field.affine) < 1e-3
    return near.mean(), (np.abs(found.counts - expected.counts) <= 1).mean()


@pytest.mark.gpu
@BOTH_KINDS
def test_a_real_gpu_follows_the_closed_field_to_a_thousandth_of_a_voxel(kind):
    """T10 over 300 steps."""
    field = fresh(pull_back().sample())
    directions = launched_by(kind, Isotropic(count=200, both_ways=False))
    wanted = {one.name: getattr(EXACT, one.name) for one in dataclasses.fields(EXACT)} | KINDS[kind]
    settings = known_of(wanted.pop("method", type(EXACT)), wanted | {"step_mm": 0.05, "max_steps": 300})
    found, expected = on_both(field, [(0, 0, 0), (3, -4, 5)], directions, settings)
    np.testing.assert_array_equal(found.counts, 301)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    assert voxel_distances(found, expected, field.affine).max() < 1e-3
    np.testing.assert_allclose(found.per_fiber["length_mm"], expected.per_fiber["length_mm"], rtol=1e-4)
    np.testing.assert_allclose(found.per_fiber["mean_fa"], expected.per_fiber["mean_fa"], atol=1e-3)
    double = dataclasses.replace(settings, precision="double")
    found, expected = on_both(field, [(0, 0, 0)], directions, double)
    assert voxel_distances(found, expected, field.affine).max() < 2e-5  # points are packed in single precision


@pytest.mark.gpu
@BOTH_KINDS
@BOTH_REALS
def test_a_real_gpu_follows_the_brain_phantom(kind, precision):
    field = fit_tensors(load_brain_phantom(), device="cpu")
    near, same_end = shares_near(field, ball(CALLOSUM, 5.0, 200), kind, precision)
    assert min(near, same_end) >= 0.999


@pytest.mark.gpu
@BOTH_KINDS
@BOTH_REALS
def test_a_real_gpu_follows_a_real_brain(shared_data, kind, precision):
    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    bundle = read_mask(folder / "bundle_masks" / "CC.nii.gz", scan.shape, scan.affine)
    voxels = np.argwhere(bundle)[:: max(1, bundle.sum() // 200)]
    seeds = voxels @ scan.affine[:3, :3].T + scan.affine[:3, 3]
    near, same_end = shares_near(fit_tensors(scan, mask, device="cpu"), seeds, kind, precision)
    assert min(near, same_end) >= 0.999


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [*KINDS, "interpolating"])
@pytest.mark.parametrize(("precision", "tolerance"), [("single", 2e-5), ("double", 1e-12)])
def test_a_real_gpu_prepares_the_same_field(kind, precision, tolerance):
    import cupy

    changes = {"interpolation": kind} if kind == "interpolating" else KINDS[kind]
    for metric in (Inverse(), Adjugate(), Adaptive()):
        settings = known_of(Hamiltonian, {"precision": precision, "metric": metric} | changes)
        p = problem(brain(), [CALLOSUM], settings)
        expected = cpu.prepare_field(p)
        found = cupy.asnumpy(gpu.prepare_field(p))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=tolerance * scale)


@pytest.mark.gpu
def test_chunks_change_no_bit_on_a_real_gpu(in_chunks_of):
    whole = track(brain(), SEEDS, FAN, TRACK, device="cuda")
    in_chunks_of(13)
    check_same_fibers(track(brain(), SEEDS, FAN, TRACK, device="cuda"), whole)


@pytest.mark.gpu
def test_textures_follow_the_software_interpolation():
    """Their weights have 9 bits: 0.05 voxel over 200 steps on a smooth field."""
    field = half_space().sample()
    directions = Isotropic(count=100, both_ways=False)
    settings = dataclasses.replace(SEED_SCHEME, max_steps=200, max_length_mm=1000.0)
    start = [(-1.0, 45.0, 2.0)]
    software = track(field, start, directions, settings, device="cuda")
    hardware = track(field, start, directions, dataclasses.replace(settings, texture=True), device="cuda")
    assert len(software) == len(hardware) == 100
    distances = voxel_distances(hardware, software, field.affine)
    assert 0 < distances.max() < 0.05  # not the same kernel

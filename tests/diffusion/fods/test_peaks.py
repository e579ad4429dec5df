"""Peaks of FODs: deltas, crossings with noise, and a real brain's tensors."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import CsdSettings, FodField, PeakSettings, deconvolve, estimate_response, find_peaks
from napari_gpubio.diffusion.fods import Tournier, check_axes
from napari_gpubio.diffusion.fods.harmonics import half_sphere, harmonics
from tests.diffusion.fods.scan_samples import crossing_axes, everywhere, fiber_signals, noisy, one_shell, scan_of


def field_of(coefficients):
    coefficients = np.asarray(coefficients, np.float32)[:, None, None, :]
    return FodField(coefficients=coefficients, mask=np.ones(coefficients.shape[:3], bool), affine=np.eye(4))


def angles_deg(a, b):
    """Between lines."""
    sines = np.linalg.norm(np.cross(a, b), axis=-1)
    return np.degrees(np.arctan2(sines, np.abs((a * b).sum(axis=-1))))


@pytest.mark.parametrize("lmax", [4, 8, 12])
def test_the_peak_of_a_delta_is_its_direction(lmax, device):
    axes = np.concatenate([half_sphere(60), np.eye(3), [[0, 1e-9, 1]]])
    peaks = find_peaks(field_of(harmonics(axes, lmax)), PeakSettings(most=1), device=device)
    found = peaks.dense(1)[0][:, 0, 0, 0]
    assert angles_deg(found.astype(np.float64), axes).max() < 1e-3
    expected = (harmonics(axes, lmax) ** 2).sum(axis=1)
    np.testing.assert_allclose(peaks.amplitudes, expected, rtol=1e-5)


def test_two_deltas_are_told_apart_from_some_angle_on(device):
    """At lmax 8 their sum has one maximum up to 28 degrees, and two that are 25 degrees apart from 30 degrees on."""
    for angle, count in ((20.0, 1), (27.0, 1), (34.0, 2), (50.0, 2), (90.0, 2)):
        axes = crossing_axes(40, angle)
        fods = field_of(harmonics(axes.reshape(-1, 3), 8).reshape(40, 2, -1).sum(axis=1))
        settings = PeakSettings(most=2, least_fraction=0.5, least_angle_deg=10.0)
        peaks = find_peaks(fods, settings, device=device)
        assert (peaks.counts == count).all(), angle
        if angle == 90.0:
            found = peaks.dense(2)[0][:, 0, 0].astype(np.float64)
            errors = angles_deg(found[:, :, None], axes[:, None]).min(axis=2)
            assert errors.max() < 1.0


@pytest.mark.parametrize(("angle", "most"), [(90.0, 2.0), (60.0, 3.0), (45.0, 5.0)])
def test_crossings_with_noise_are_found(angle, most, device):
    bvals, table = one_shell(64)
    single = np.random.default_rng(2).normal(size=(400, 1, 3))
    known = scan_of(noisy(fiber_signals(single, bvals, table), 30.0), bvals, table)
    response = estimate_response(known, everywhere(known), Tournier(), device=device)
    axes = crossing_axes(200, angle, seed=3)
    scan = scan_of(noisy(fiber_signals(axes, bvals, table), 30.0, seed=4), bvals, table)
    fods = deconvolve(scan, response, everywhere(scan), CsdSettings(lmax=8), device=device)
    peaks = find_peaks(fods, PeakSettings(most=2, least_fraction=0.3), device=device)
    two = peaks.counts[:, 0, 0] == 2
    assert np.mean(two) > 0.9
    found = peaks.dense(2)[0][two, 0, 0].astype(np.float64)
    errors = angles_deg(found[:, :, None], axes[two][:, None]).min(axis=2)
    assert np.median(errors) < most


def test_no_peak_is_found_twice_even_if_none_is_too_near(device):
    fods = np.random.default_rng(1).normal(size=(300, 45))
    settings = PeakSettings(most=10, least_fraction=0.0, least_angle_deg=0.0)
    peaks = find_peaks(field_of(fods), settings, device=device)
    for first, count in zip(peaks.first.ravel(), peaks.counts.ravel(), strict=True):
        cosines = np.abs(peaks.directions[first : first + count] @ peaks.directions[first : first + count].T)
        assert (cosines[~np.eye(count, dtype=bool)] < 0.9999).all()


def test_a_peak_near_one_that_is_left_out_itself_counts(device):
    """Along 0, 50 and 95 degrees, the middle one is too near the highest, and not that far from the last one."""
    angles, heights = np.deg2rad([0.0, 50.0, 95.0]), np.array([1.0, 0.8, 0.6])
    axes = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    turned = np.stack([axes @ Rotation.random(rng=n).as_matrix().T for n in range(60)])
    fods = np.einsum("f,vfn->vn", heights, harmonics(turned.reshape(-1, 3), 12).reshape(60, 3, -1))
    peaks = find_peaks(field_of(fods), PeakSettings(most=3, least_fraction=0.3, least_angle_deg=60.0), device=device)
    assert (peaks.counts == 2).all()
    found = peaks.dense(2)[0][:, 0, 0].astype(np.float64)
    assert angles_deg(found, turned[:, [0, 2]]).max() < 2.0


def test_settings_decide_which_peaks_count(device):
    axes = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    fods = field_of((np.array([1.0, 0.6, 0.3])[:, None] * harmonics(axes, 8)).sum(axis=0, keepdims=True))
    top = find_peaks(fods, PeakSettings(most=10, least_fraction=0.2), device=device).amplitudes
    assert len(top) == 3
    assert (np.diff(top) < 0).all()
    for settings, count in (
        (PeakSettings(most=2), 2),
        (PeakSettings(least_fraction=0.5), 2),
        (PeakSettings(least_fraction=0.0, least_amplitude=float(top[0]) * 0.9), 1),
        (PeakSettings(most=10, least_fraction=0.2, least_angle_deg=90.0), 1),
    ):
        assert len(find_peaks(fods, settings, device=device).amplitudes) == count
    with pytest.raises(InvalidInput, match="most"):
        PeakSettings(most=0)


def test_peaks_of_a_real_brain_lie_along_its_tensors(shared_data):
    from napari_gpubio.diffusion import fit_tensors
    from napari_gpubio.diffusion.io import read_dwi
    from napari_gpubio.diffusion.io.dwi import read_mask
    from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    tensors = fit_tensors(scan, read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine), device="cpu")
    response = estimate_response(scan, field=tensors, device="cpu")
    chosen = (fa_map(tensors) > 0.5) & (np.arange(tensors.mask.size).reshape(tensors.shape) % 7 == 0)
    peaks = find_peaks(deconvolve(scan, response, chosen, device="cpu"), device="cpu")
    check = check_axes(peaks, tensors)
    assert check.ok, check.message
    assert check.voxels > 1000
    assert check.median_angle_deg < 10.0

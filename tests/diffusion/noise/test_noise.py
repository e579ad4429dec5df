"""Marchenko-Pastur PCA: beside plain NumPy, against a known truth, at borders and on bad input."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.kernels.mppca import projection
from napari_gpubio.diffusion.noise import (
    NoiseSettings,
    denoise_scan,
    denoise_scan_steps,
    gaussian_noise,
    rician_corrected,
)
from napari_gpubio.diffusion.noise.rician import mean_of_magnitudes
from tests.diffusion.noise.samples import all_by_hand, low_rank, noisy, scan_of
from tests.runs import check_threads_change_nothing, stopped

DOUBLE = NoiseSettings(precision="double")
CASES = {  # shape, volumes, settings, window that follows
    "more voxels": ((7, 6, 8), 20, {}, (3, 3, 3)),
    "more volumes": ((6, 5, 4), 40, {"window": 3}, (3, 3, 3)),
    "as many": ((5, 5, 5), 27, {}, (3, 3, 3)),
    "first estimator": ((5, 6, 4), 20, {"estimator": "exp1"}, (3, 3, 3)),
    "thin": ((6, 7, 2), 33, {}, (5, 5, 2)),
    "one plane": ((9, 8, 1), 14, {"window": 5}, (5, 5, 1)),
    "large window": ((8, 8, 8), 12, {"window": 7}, (7, 7, 7)),
}


def denoised(data, mask=None, **changes):
    return denoise_scan(scan_of(data), mask, NoiseSettings(**changes), device="cpu")


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("case", CASES)
def test_voxels_are_as_by_hand(case, precision):
    shape, volumes, changes, window = CASES[case]
    data = noisy(shape, volumes, 3)[1]
    result = denoised(data, **changes, precision=precision)
    assert result.parameters["window"] == list(window)
    some = np.random.default_rng(0).permutation(list(np.ndindex(shape)))[:60]  # at all borders, and inside
    signals, sigma, rank = all_by_hand(data, some, window, changes.get("estimator", "exp2"))
    at = tuple(np.transpose(some))
    double = precision == "double"
    np.testing.assert_array_equal(result.rank[at], rank)
    np.testing.assert_allclose(result.noise[at], sigma, rtol=2e-7 if double else 2e-3)
    np.testing.assert_allclose(result.denoised.data[at], signals, rtol=0, atol=3e-4 if double else 0.3)
    assert result.mask.all()


def test_a_known_truth():
    """Tolerances are some four standard errors, and what a component too many in some windows takes."""
    shape, volumes, components, sigma = (20, 20, 20), 40, 4, 20.0
    truth, data = noisy(shape, volumes, components, sigma)
    result = denoised(data)
    voxels = 125
    assert (result.rank == components).mean() > 0.9  # the largest eigenvalue of noise exceeds the limit at times
    assert set(np.unique(result.rank)) <= {4, 5, 6}
    windows = 4**3
    error = 1 / np.sqrt(2 * volumes * voxels * windows)  # relative, of a standard deviation
    assert error < 0.002
    expected = sigma * np.sqrt(1 - components / voxels)
    assert np.abs(np.mean(result.noise, dtype=np.float64) / expected - 1) < 0.01
    residual = result.residual(scan_of(data)).astype(np.float64)
    left = (1 - components / volumes) * (1 - components / voxels)
    independent = residual.size
    assert np.abs(residual.std() / (sigma * np.sqrt(left)) - 1) < 0.008
    assert np.abs(residual.mean()) < 4 * sigma / np.sqrt(independent)
    assert np.abs(np.corrcoef(residual.ravel(), truth.ravel())[0, 1]) < 0.01
    lost = (result.denoised.data - truth).std() / sigma
    assert np.abs(lost / np.sqrt(1 - left) - 1) < 0.02
    ratios = result.residual_ratio_histogram(scan_of(data), bins=50)
    assert np.abs(ratios.standard_deviation / np.sqrt(1 - components / volumes) - 1) < 0.01
    assert ratios.counts.sum() == data.size
    assert ratios.counts.shape == (50,)
    assert ratios.edges[[0, -1]].tolist() == [-5, 5]
    assert np.abs(ratios.mean) < 0.005
    assert not result.notes


def test_noise_alone_has_no_component():
    data = np.random.default_rng(3).normal(0, 5, (10, 10, 10, 30)).astype(np.float32)
    result = denoised(data)
    assert (result.rank <= 1).mean() > 0.98
    assert np.abs(np.median(result.noise) / 5 - 1) < 0.02
    assert np.abs(result.denoised.data).mean() < 1


@pytest.mark.parametrize(("snr", "bias"), [(1, 0.5), (2, 0.2), (5, 0.09)])
def test_correcting_magnitudes_takes_their_bias_and_that_of_the_noise(snr, bias):
    sigma, rng = 100.0, np.random.default_rng(5)
    truth = np.full((12, 12, 12, 40), snr * sigma)
    data = np.hypot(truth + rng.normal(0, sigma, truth.shape), rng.normal(0, sigma, truth.shape)).astype(np.float32)
    result = denoised(data, rician=True)
    assert result.denoised.data.mean() - snr * sigma > bias * sigma
    assert result.scan.data.mean() == pytest.approx(snr * sigma, abs=0.05 * sigma)
    assert np.median(result.noise) == pytest.approx(sigma, rel=0.02)
    assert any("signal-to-noise ratio below 2" in note for note in result.notes) == (snr <= 2)
    again = rician_corrected(result.denoised, result.noise)
    np.testing.assert_array_equal(again.data, result.scan.data)
    assert result.scan is result.scan
    assert denoised(data).scan.data.mean() == pytest.approx(result.denoised.data.mean(), rel=1e-6)


def test_the_correction_keeps_what_has_no_known_noise():
    data = np.full((4, 4, 4, 12), -3.0, np.float32)
    data[1:] = 5
    noise = np.zeros((4, 4, 4))
    noise[2], noise[3] = 3, 6
    found = rician_corrected(scan_of(data), noise).data
    assert set(np.unique(found[[0, 1, 3]])) == {-3, 5, 0}  # 5 is less than noise of 6 alone gives
    np.testing.assert_allclose(3 * mean_of_magnitudes(found[2] / 3), 5, rtol=1e-4)
    with pytest.raises(InvalidInput, match=r"\(4, 4\) and the scan \(4, 4, 4\)"):
        rician_corrected(scan_of(data), noise[0])


def test_the_mean_of_magnitudes_and_its_inverse():
    """Against draws, and back again, from no signal to one where the tables end."""
    rng = np.random.default_rng(4)
    for theta in (0.0, 0.3, 1.0, 4.0):
        x, y = rng.normal(size=(2, 200_000))
        assert mean_of_magnitudes(theta) == pytest.approx(np.hypot(theta + x, y).mean(), abs=0.01)
    signals = np.linspace(0, 40, 16 * 12).reshape(4, 4, 1, 12)
    found = rician_corrected(
        scan_of((2.5 * mean_of_magnitudes(signals / 2.5)).astype(np.float32)), np.full((4, 4, 1), 2.5)
    )
    np.testing.assert_allclose(found.data, signals, atol=0.05)


def test_noise_of_dark_magnitudes_is_that_of_both_channels():
    magnitudes = scan_of(np.full((6, 6, 6, 12), np.sqrt(np.pi / 2) * 4, np.float32))
    noise = np.full((6, 6, 6), np.sqrt(2 - np.pi / 2) * 4)
    noise[0] = 0
    found = gaussian_noise(magnitudes, noise)
    np.testing.assert_allclose(found[1:], 4, rtol=0.01)
    assert (found[0] == 0).all()


def test_outside_the_mask_nothing_changes():
    data = noisy((9, 8, 7), 20, 3)[1]
    mask = np.random.default_rng(1).random((9, 8, 7)) < 0.4
    whole, part = denoised(data), denoised(data, mask)
    np.testing.assert_array_equal(part.mask, mask)
    np.testing.assert_array_equal(part.denoised.data[~mask], data[~mask])
    np.testing.assert_array_equal(part.denoised.data[mask], whole.denoised.data[mask])
    for name in ("noise", "rank"):
        np.testing.assert_array_equal(getattr(part, name), np.where(mask, getattr(whole, name), 0))
    assert not part.residual(scan_of(data))[~mask].any()


def test_integers_become_real_and_empty_voxels_stay():
    data = noisy((8, 8, 8), 20, 3)[1].round().astype(np.int16)
    data[:3] = 0
    result = denoised(data)
    assert result.scan.data.dtype == np.float32
    assert not result.scan.data[:3].any()
    np.testing.assert_array_equal(result.mask, (data != 0).any(axis=-1))
    np.testing.assert_array_equal(result.scan.data, denoised(data.astype(np.float64)).scan.data)


def test_signals_that_are_not_finite_stay_and_count_as_zero():
    data = noisy((7, 7, 7), 20, 3)[1]
    clean = data.copy()
    data[3, 3, 3, 4], data[5, 2, 1] = np.inf, np.nan
    clean[3, 3, 3, 4] = clean[5, 2, 1] = 0
    result, expected = denoised(data), denoised(clean)
    bad = np.zeros((7, 7, 7), bool)
    bad[3, 3, 3] = bad[5, 2, 1] = True
    np.testing.assert_array_equal(result.mask, ~bad)
    np.testing.assert_array_equal(result.denoised.data[bad], data[bad])
    np.testing.assert_array_equal(result.denoised.data[~bad], expected.denoised.data[~bad])
    assert result.notes[0].endswith("as they are: 2")
    assert result.denoised.notes[-len(result.notes) :] == result.notes


@pytest.mark.parametrize("factor", [1e-20, 1e-6, 1e12])
def test_the_unit_of_the_signal_does_not_matter(factor):
    data = noisy((6, 6, 6), 20, 3)[1]
    result, expected = (denoised(d) for d in (data * np.float32(factor), data))
    np.testing.assert_array_equal(result.rank, expected.rank)
    np.testing.assert_allclose(result.noise / factor, expected.noise, rtol=2e-3)


@pytest.mark.parametrize("volumes", [20, 40])
def test_chunks_change_nothing(in_chunks_of, volumes):
    data = noisy((6, 7, 5), volumes, 3)[1]
    whole = denoised(data, window=3)
    in_chunks_of(17)
    parts = denoised(data, window=3)
    for name in ("noise", "rank"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_array_equal(parts.scan.data, whole.scan.data)


def test_threads_change_nothing(request):
    data = noisy((12, 12, 12), 20, 3)[1]

    def check(one, two):
        np.testing.assert_array_equal(one.scan.data, two.scan.data)
        np.testing.assert_array_equal(one.noise, two.noise)

    check_threads_change_nothing(request, lambda: denoised(data), check)


def test_a_stopped_run_keeps_what_was_done(in_chunks_of):
    in_chunks_of(50)
    data, stop = noisy((8, 8, 8), 20, 3)[1], threading.Event()
    result = stopped(denoise_scan_steps(scan_of(data), device="cpu", stop=stop), stop, after=2)
    assert not result.complete
    assert 100 <= result.mask.sum() <= 200
    np.testing.assert_array_equal(result.scan.data[~result.mask], data[~result.mask])
    np.testing.assert_array_equal(result.scan.data[result.mask], denoised(data).scan.data[result.mask])


def test_eigenvalues_that_are_not_found_leave_signals_as_they_are(monkeypatch):
    monkeypatch.setattr(projection, "sweep_room", lambda _: 27)
    data = noisy((6, 6, 6), 20, 3)[1]
    result = denoised(data, precision="single")
    assert 0 < result.mask.mean() < 1
    np.testing.assert_array_equal(result.scan.data[~result.mask], data[~result.mask])
    assert not result.noise[~result.mask].any()
    assert result.notes[0].endswith(f"as they are: {(~result.mask).sum()}")


def test_a_noise_level_that_varies_is_reported():
    truth = low_rank((20, 8, 8), 20, 3)
    level = np.linspace(5, 40, 20)[:, None, None, None]
    data = (truth + level * np.random.default_rng(2).normal(size=truth.shape)).astype(np.float32)
    assert any("resampled" in note for note in denoised(data).notes)
    assert not denoised(noisy((20, 8, 8), 20, 3)[1]).notes


def test_a_scan_without_noise_is_left_as_it_is():
    data = low_rank((6, 6, 6), 20, 3).astype(np.float32)
    result = denoised(data, precision="double")
    np.testing.assert_allclose(result.scan.data, data, rtol=1e-5, atol=1e-3)
    np.testing.assert_array_less(result.noise, 1e-3)


def test_bad_input_is_refused():
    data = noisy((6, 6, 6), 20, 3)[1]
    scan = scan_of(data)
    with pytest.raises(InvalidInput, match="9 volumes"):
        denoised(data[..., :9])
    with pytest.raises(InvalidInput, match="3 x 3 x 1 voxels"):
        denoised(data[:, :, :1])
    for window in (1, 4):
        with pytest.raises(InvalidInput, match=f"window is {window}"):
            NoiseSettings(window=window)
    with pytest.raises(InvalidInput, match=r"\(5, 6, 6\)"):
        denoised(data, np.ones((5, 6, 6), bool))
    with pytest.raises(InvalidInput, match="empty"):
        denoised(data, np.zeros((6, 6, 6), bool))
    with pytest.raises(InvalidInput, match="nothing to denoise"):
        denoised(data * 0)
    result = denoise_scan(scan, device="cpu")
    other = dataclasses.replace(scan, data=data[1:])
    with pytest.raises(InvalidInput, match=r"\(5, 6, 6, 20\)"):
        result.residual(other)
    with pytest.raises(InvalidInput, match="0 bins"):
        result.residual_ratio_histogram(scan, bins=0)


@pytest.mark.parametrize(("volumes", "edge"), [(10, 3), (27, 3), (28, 5), (125, 5), (126, 7), (343, 7), (344, 9)])
def test_the_window_has_as_many_voxels_as_there_are_volumes(volumes, edge):
    assert NoiseSettings().edges((50, 60, 40), volumes) == (edge, edge, edge)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_real_brain(shared_data, precision):
    """A block, of which some voxels are done by hand, and its border."""
    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    data = scan.data[20:40, 30:46, 20:36]
    chosen = np.zeros(mask.shape, bool)[20:40, 30:46, 20:36]
    chosen[::3, ::3, ::3] = True
    chosen &= mask[20:40, 30:46, 20:36]
    assert chosen.sum() > 150
    result = denoised(data, chosen, precision=precision)
    signals, sigma, rank = all_by_hand(data, np.argwhere(chosen), (5, 5, 5))
    assert (result.rank[chosen] == rank).mean() >= 0.99
    assert (np.abs(result.noise[chosen] / sigma - 1) < 1e-4).mean() >= 0.99
    assert (np.abs(result.denoised.data[chosen] - signals).max(axis=1) < 0.2).mean() >= 0.99


def test_real_shells_of_more_volumes_than_voxels(shared_data):
    scan = read_dwi(shared_data / "dwi" / "hcph_multishell" / "hcph_multishell.nii.gz")
    assert scan.data.shape == (5, 5, 5, 280)
    some = np.arange(125).reshape(5, 5, 5) % 31 == 0
    result = denoise_scan(scan, some, DOUBLE, device="cpu")
    assert result.parameters["window"] == [5, 5, 5]
    assert any("5 x 5 x 5" in note for note in result.notes)
    voxels = np.argwhere(some)
    signals, sigma, rank = all_by_hand(scan.data, voxels, (5, 5, 5))
    at = tuple(voxels.T)
    np.testing.assert_array_equal(result.rank[at], rank)
    np.testing.assert_allclose(result.noise[at], sigma, rtol=1e-6)
    np.testing.assert_allclose(result.denoised.data[at], signals, rtol=1e-5, atol=1e-3)


@pytest.mark.gpu
def test_a_gpu_agrees_with_the_cpu():
    data = noisy((30, 30, 30), 33, 4)[1]
    here, there = (denoise_scan(scan_of(data), settings=DOUBLE, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(there.rank, here.rank)
    np.testing.assert_allclose(there.noise, here.noise, rtol=1e-6)

"""What a bootstrap draws: refits with signs, spreads and intervals beside those of simulated noise."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion import DiffusionScan, FitSettings, Unrepaired, fit_tensors
from napari_gpubio.diffusion.kernels.tensors.problem import design_matrix
from napari_gpubio.diffusion.phantom.brain import rician, spread_directions
from napari_gpubio.diffusion.tensors.settings import OrdinaryLeastSquares, WeightedLeastSquares
from napari_gpubio.fibers.kernels.bootstrap import cpu
from napari_gpubio.fibers.uncertainty.residuals import draw_problem

TENSOR = np.array([1.4, 0.5, 0.4, 0.25, 0.1, -0.05]) * 1e-3  # mm^2/s
BVALS = np.concatenate([np.zeros(4), np.full(32, 1000.0)])
DIRECTIONS = np.concatenate([np.zeros((4, 3)), spread_directions(32)])
WHOLE = (slice(0, 20), slice(0, 20), slice(0, 1))


def fa(tensors):
    full = tensors[..., [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(*tensors.shape[:-1], 3, 3)
    return fractional_anisotropy(np.linalg.eigvalsh(full))


def noisy_scan(seed, snr=25.0, b0s=4):
    """Four hundred voxels of one tensor, each with noise of its own."""
    bvals, directions = BVALS[4 - b0s :], DIRECTIONS[4 - b0s :]
    clean = 1000.0 * np.exp(design_matrix(bvals, directions) @ [*TENSOR * 1e3, 0.0])
    data = rician(np.tile(clean, (400, 1)), 1000.0 / snr, seed).reshape(20, 20, 1, -1)
    return DiffusionScan(data=data, bvals=bvals, directions=directions, affine=np.eye(4))


def drawn(scan, fit, leverage="hc2"):
    problem, inside = draw_problem(scan, np.ones(scan.shape, bool), WHOLE, fit, leverage=leverage, seed=5)
    assert inside.all()
    return problem


def signs(problem, repeat):
    """The signs of a repeat, shape (M, N), from draws in which six residuals at a time shift one component each."""
    (m, n), found = problem.shifts.shape[:2], []
    for first in range(0, n, 6):
        shifts = np.zeros((m, n, 6), np.float32)
        some = np.arange(first, min(first + 6, n))
        shifts[:, some, some - first] = 1.0
        unit = dataclasses.replace(problem, tensors=np.zeros((m, 6)), shifts=shifts)
        found.append(cpu.Run(unit).draw(repeat)[:, : len(some)])
    return np.concatenate(found, axis=1)


@pytest.fixture(scope="module")
def spread():
    """FA of the fit, shape (400,), and of 400 repeats of each voxel, shape (400, 400)."""
    problem = drawn(noisy_scan(1), FitSettings())
    run = cpu.Run(problem)
    return fa(problem.tensors), np.stack([fa(run.draw(n)) for n in range(400)])


@pytest.mark.parametrize("estimator", [WeightedLeastSquares(), OrdinaryLeastSquares()], ids=["wls", "ols"])
@pytest.mark.parametrize(("leverage", "power"), [("hc2", 0.5), ("hc3", 1.0)])
def test_a_repeat_is_a_fit_of_the_prediction_with_signed_residuals(estimator, leverage, power):
    scan, fit = noisy_scan(2), FitSettings(estimator=estimator, repair=Unrepaired())
    problem, field = drawn(scan, fit, leverage), fit_tensors(scan, np.ones(scan.shape, bool), fit)
    design = design_matrix(BVALS, DIRECTIONS)
    repeat, sign = cpu.Run(problem).draw(3), signs(problem, 3)
    for n in (0, 17, 399):
        predicted = design @ [*field.tensors.reshape(-1, 6)[n] * 1e3, np.log(field.s0.ravel()[n])]
        weights = (
            np.exp(predicted - predicted.max()) if isinstance(estimator, WeightedLeastSquares) else np.ones(len(design))
        )
        q, _ = np.linalg.qr(weights[:, None] * design)
        residuals = (np.log(scan.data.reshape(400, -1)[n]) - predicted) / (1 - (q**2).sum(axis=1)) ** power
        data = weights * (predicted + sign[n] * residuals)
        expected = np.linalg.lstsq(weights[:, None] * design, data)[0]
        np.testing.assert_allclose(repeat[n] * 1e3, expected[:6], atol=2e-6)


def test_signs_are_fair_and_belong_to_seed_repeat_and_voxel():
    problem = drawn(noisy_scan(2), FitSettings())
    sign = signs(problem, 3)
    assert set(np.unique(sign)) == {-1.0, 1.0}
    assert abs(sign.mean()) * np.sqrt(sign.size) < 4  # a z-score
    np.testing.assert_array_equal(signs(problem, 3), sign)
    for other in (signs(problem, 4), signs(dataclasses.replace(problem, seed=6), 3), sign[::-1]):
        assert abs((other * sign).mean()) * np.sqrt(sign.size) < 4
    voxels = dataclasses.replace(problem, voxels=problem.voxels[::-1].copy())
    np.testing.assert_array_equal(signs(voxels, 3), sign[::-1])


def test_the_spread_of_repeats_is_that_of_the_noise(spread):
    """HC2 makes the variance of a repeat that of the errors; the ratio has a standard error of about 4 %."""
    fits, repeats = spread
    assert repeats.var(axis=0).mean() / fits.var() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("b0s", [1, 4])
def test_intervals_cover_the_truth(b0s):
    """95 % intervals of FA; with 400 voxels the standard error of the share is 1.1 %.

    A single b = 0 volume is fitted exactly; were it drawn without an error, 82 % would hold the truth.
    """
    problem = drawn(noisy_scan(1, b0s=b0s), FitSettings(), "hc3")
    run = cpu.Run(problem)
    low, high = np.quantile([fa(run.draw(n)) for n in range(400)], [0.025, 0.975], axis=0)
    truth = fa(TENSOR)
    assert 0.91 <= ((low <= truth) & (truth <= high)).mean() <= 0.98


def test_weights_that_stay_spread_as_those_of_a_full_refit(spread):
    """The same bootstrap with every repeat fitted anew to its signals, reweightings and all; 30 voxels."""
    scan, design = noisy_scan(1), design_matrix(BVALS, DIRECTIONS)
    problem, some = drawn(scan, FitSettings()), slice(0, 30)
    fit = fit_tensors(scan, np.ones(scan.shape, bool), FitSettings(repair=Unrepaired()))
    predicted = (np.column_stack([fit.tensors.reshape(-1, 6) * 1e3, np.log(fit.s0.ravel())]) @ design.T)[some]
    weights = np.exp(predicted - predicted.max(axis=1, keepdims=True))
    q, _ = np.linalg.qr(weights[..., None] * design)
    residuals = (np.log(scan.data.reshape(400, -1)[some]) - predicted) / np.sqrt(1 - (q**2).sum(axis=2))
    sign = np.stack([signs(problem, n)[some] for n in range(200)], axis=1)  # (30, 200, N)
    signals = np.exp(predicted[:, None] + sign * residuals[:, None])[:, :, None]
    again = dataclasses.replace(scan, data=signals)
    refits = fa(fit_tensors(again, np.ones(again.shape, bool), FitSettings(repair=Unrepaired())).tensors[:, :, 0])
    ratio = spread[1][:200, some].std(axis=0) / refits.std(axis=1)
    assert ratio.mean() == pytest.approx(1.0, abs=0.03)
    np.testing.assert_allclose(spread[1][:200, some].mean(axis=0), refits.mean(axis=1), atol=0.01)


def test_an_exact_fit_has_no_spread():
    clean = np.exp(design_matrix(BVALS, DIRECTIONS) @ [*TENSOR * 1e3, 7.0])
    scan = DiffusionScan(data=np.tile(clean, (20, 20, 1, 1)), bvals=BVALS, directions=DIRECTIONS, affine=np.eye(4))
    problem = drawn(scan, FitSettings())
    np.testing.assert_allclose(cpu.Run(problem).draw(0), np.tile(TENSOR, (400, 1)), atol=1e-8)


def test_signals_of_zero_leave_every_draw_finite():
    scan = noisy_scan(1)
    data = scan.data.copy()
    data[0, 0, 0, 1:], data[0, 1, 0, 4:], data[0, 2, 0, :4], data[0, 3, 0, 7] = 0, 0, 0, 0
    problem = drawn(dataclasses.replace(scan, data=data), FitSettings())
    assert np.isfinite(problem.tensors).all()
    assert np.isfinite(problem.shifts).all()
    assert np.abs(problem.shifts).max() <= 1e-2  # mm^2/s


def test_seven_volumes_leave_nothing_to_draw_from():
    scan = noisy_scan(1)
    few = dataclasses.replace(scan, data=scan.data[..., 3:10], bvals=scan.bvals[3:10], directions=scan.directions[3:10])
    with pytest.raises(InvalidInput, match="7 volumes"):
        drawn(few, FitSettings())

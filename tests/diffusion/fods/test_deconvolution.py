"""Spherical deconvolution against a plain NumPy form of it, optimality conditions, and known densities."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import CsdSettings, Response, deconvolve
from napari_gpubio.diffusion.fods.harmonics import convolution_factors, half_sphere, harmonics, orders
from tests.diffusion.fods.scan_samples import (
    S0,
    TISSUES,
    crossing_axes,
    everywhere,
    fiber_signals,
    noisy,
    one_shell,
    scan_of,
    several_shells,
    tissue_matrix,
    tissue_mixture,
)  # fmt: skip

SINGLE = np.array([640.0, -520.0, 250.0, -82.0, 20.0])  # about that of `fiber_signals` at b = 3000 s/mm^2
RESPONSES = [Response(coefficients=np.array(table)) for table in TISSUES]


def plain_csd(signals, directions, response, lmax):
    """Constrained spherical deconvolution with dwi2fod's weights: all voxels at once, by dense matrices."""
    order = orders(lmax)[:, 0] // 2
    factors = np.zeros(lmax // 2 + 1)
    known = convolution_factors(response)[: len(factors)]
    factors[: len(known)] = known
    forward = harmonics(directions, lmax) * factors[order]
    gram = forward.T @ forward
    gram += 2e-4 * gram[0, 0] * np.eye(len(gram))
    penalty = harmonics(half_sphere(300), lmax) * (50.0 * response[0] / 300)
    products = np.einsum("ki,kj->kij", penalty, penalty).reshape(len(penalty), -1)
    first = max(k for k in (2, 4, 6, 8) if (k + 1) * (k + 2) // 2 <= len(directions) and k <= lmax)
    plain = harmonics(directions, first)
    plain[np.diag_indices(plain.shape[1])] += 1e-2
    kept = min(15, plain.shape[1])
    fod = np.zeros((len(signals), len(order)))
    fod[:, :kept] = (signals @ np.linalg.pinv(plain).T)[:, :kept] / factors[order[:kept]]
    before = None
    for _ in range(50):
        negative = fod @ penalty.T < 0
        if before is not None and (negative == before).all():
            return fod
        before = negative
        systems = gram + (negative.astype(float) @ products).reshape(-1, *gram.shape)
        fod = np.linalg.solve(systems, (signals @ forward)[..., None])[..., 0]
    return fod


@pytest.mark.parametrize(("lmax", "directions"), [(4, 30), (6, 45), (8, 60), (8, 32), (10, 60)])
@pytest.mark.parametrize(("precision", "most"), [("double", 1e-6), ("single", 1e-4)])
def test_fods_of_one_tissue_are_those_of_dense_matrices(lmax, directions, precision, most, device):
    bvals, table = one_shell(directions)
    scan = scan_of(noisy(fiber_signals(crossing_axes(60, 60.0), bvals, table), 30.0), bvals, table)
    settings = CsdSettings(lmax=lmax, precision=precision)
    fods = deconvolve(scan, Response(coefficients=SINGLE), everywhere(scan), settings, device=device)
    expected = plain_csd(scan.data[:, 0, 0, 1:].astype(np.float64), table[1:], SINGLE, lmax)
    apart = np.abs(fods.coefficients[:, 0, 0] - expected).max(axis=1) / np.abs(expected).max()
    assert np.quantile(apart, 1.0 if precision == "double" else 0.98) < most
    assert fods.complete


def test_the_mask_and_what_has_no_signal_are_left_out_with_a_note(device):
    bvals, table = one_shell(45)
    signals = noisy(fiber_signals(crossing_axes(12, 90.0), bvals, table), 30.0)
    signals[3, 7], signals[5] = np.nan, 0.0
    scan = scan_of(signals, bvals, table)
    mask = everywhere(scan)
    mask[9:] = False
    fods = deconvolve(scan, Response(coefficients=SINGLE), mask, device=device)
    assert np.flatnonzero(fods.mask).tolist() == [0, 1, 2, 4, 6, 7, 8]
    assert not fods.coefficients[~fods.mask].any()
    assert any("2 voxels" in note for note in fods.notes)
    alone = deconvolve(scan, Response(coefficients=SINGLE), mask & (np.arange(12) == 8)[:, None, None], device=device)
    np.testing.assert_array_equal(alone.coefficients[8], fods.coefficients[8])


def test_super_resolution_is_reported():
    bvals, table = one_shell(30)
    scan = scan_of(fiber_signals(crossing_axes(4, 90.0), bvals, table), bvals, table)
    fods = deconvolve(scan, Response(coefficients=SINGLE), everywhere(scan), device="cpu")
    assert any("super-resolution" in note for note in fods.notes)


def mixture_scan(responses, count=40, noise=0.02, blur=0.0):
    """A scan of tissues with noise; its coefficients without; and the matrix that makes signals of them."""
    bvals, table = several_shells()
    matrix = tissue_matrix(bvals, table, [r.coefficients for r in responses], 8)
    known = tissue_mixture(count, responses, blur=blur)
    signals = known @ matrix.T
    signals = signals + np.random.default_rng(5).normal(0.0, noise * signals[:, 0].mean(), signals.shape)
    return scan_of(signals, bvals, table), known, matrix


def solution_of(fods):
    """Coefficients and densities of each voxel, in the order of the unknowns."""
    others = [fods.tissues[name][:, 0, 0, None] for name in ("gm", "csf") if name in fods.tissues]
    return np.concatenate([fods.coefficients[:, 0, 0], *others], axis=1).astype(np.float64)


def conditions(count, others):
    """Rows whose products with the unknowns must not be negative."""
    rows = np.zeros((300 + others, count + others))
    rows[:300, :count] = harmonics(half_sphere(300), 8)
    rows[300:, count:] = np.eye(others)
    return rows


@pytest.mark.parametrize("which", [[0, 1, 2], [0, 2]])
def test_several_tissues_fulfill_the_conditions_of_an_optimum(which, device):
    from scipy.optimize import nnls

    responses = [RESPONSES[n] for n in which]
    scan, _, matrix = mixture_scan(responses)
    found = solution_of(deconvolve(scan, responses, everywhere(scan), device=device))
    rows = conditions(45, len(which) - 1)
    gram, right = matrix.T @ matrix, scan.data[:, 0, 0].astype(np.float64) @ matrix
    gram += 1e-10 * np.trace(gram) / len(gram) * np.eye(len(gram))
    for solution, toward in zip(found, right, strict=True):
        values = rows @ solution
        assert values.min() > -1e-6 * values.max()
        active = values < 1e-5 * values.max()
        assert active.any()
        _, rest = nnls(rows[active].T, gram @ solution - toward)  # the gradient is a sum of outward normals
        assert rest < 1e-5 * np.linalg.norm(toward)


def test_several_tissues_are_those_of_scipys_least_squares(device):
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    scan, _, matrix = mixture_scan(RESPONSES, count=12)
    found = solution_of(deconvolve(scan, RESPONSES, everywhere(scan), device=device))
    gram = matrix.T @ matrix
    upper = np.linalg.cholesky(gram + 1e-10 * np.trace(gram) / len(gram) * np.eye(len(gram))).T
    back = solve_triangular(upper, np.eye(len(upper)))
    normals = conditions(45, 2) @ back
    for solution, signals in zip(found, scan.data[:, 0, 0].astype(np.float64), strict=True):
        start = back.T @ (matrix.T @ signals)
        multipliers, _ = nnls(normals.T, -start, maxiter=10_000)
        expected = back @ (start + normals.T @ multipliers)
        np.testing.assert_allclose(solution, expected, atol=1e-5 * np.abs(expected).max())


def test_densities_of_a_mixture_are_found(device):
    scan, known, _ = mixture_scan(RESPONSES, count=100, noise=0.0, blur=0.06)
    found = solution_of(deconvolve(scan, RESPONSES, everywhere(scan), device=device))
    np.testing.assert_allclose(found, known, atol=0.005 * known.max())


def test_a_shell_may_be_chosen():
    scan, _, _ = mixture_scan(RESPONSES, count=5)
    one = Response(coefficients=RESPONSES[0].coefficients[2:3], bvals=(1400,))
    fods = deconvolve(scan, one, everywhere(scan), CsdSettings(shell=1400), device="cpu")
    assert fods.mask.all()
    whole = deconvolve(scan, RESPONSES[0], everywhere(scan), CsdSettings(shell=1400), device="cpu")
    np.testing.assert_array_equal(whole.coefficients, fods.coefficients)


def small_scan(directions=45, b0=1):
    bvals, table = one_shell(directions, b0=b0)
    return scan_of(fiber_signals(crossing_axes(4, 90.0), bvals, table), bvals, table)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: (small_scan(12), Response(coefficients=SINGLE), {"lmax": 8}), r"12 directions.*lmax 4 or less"),
        (lambda: (small_scan(), Response(coefficients=1e4 * SINGLE), {}), "another scan"),
        (lambda: (small_scan(), Response(coefficients=-SINGLE), {}), "positive"),
        (lambda: (small_scan(), Response(coefficients=np.tile(SINGLE, (3, 1))), {}), "this scan"),
        (lambda: (small_scan(), Response(coefficients=SINGLE, bvals=(1000,)), {}), "b = 3000 is missing"),
        (lambda: (small_scan(), RESPONSES, {}), r"3 tissues.*0, 3000"),
        (lambda: (small_scan(b0=0), RESPONSES[::2], {}), "2 tissues"),
        (lambda: (mixture_scan(RESPONSES)[0], [RESPONSES[0], RESPONSES[1], Response(coefficients=[[2.0], [0.1]])], {}),
         "2 shells"),
        (lambda: (mixture_scan(RESPONSES)[0], [RESPONSES[0], RESPONSES[2], RESPONSES[1]], {}), "swap them"),
        (lambda: (mixture_scan(RESPONSES)[0], [RESPONSES[2], RESPONSES[0]], {}), "first must be that of white matter"),
        (lambda: (small_scan(), [], {}), "give a Response"),
        (lambda: (small_scan(), "wm.txt", {}), "'wm.txt'; give a Response"),
        (lambda: (small_scan(), None, {"shell": 1000}), r"b = 1000.*3000"),
    ],
)  # fmt: skip
def test_what_cannot_be_deconvolved_is_reported(make, problem):
    scan, responses, settings = make()
    with pytest.raises(InvalidInput, match=problem):
        deconvolve(scan, responses, everywhere(scan), CsdSettings(**settings) if settings else None, device="cpu")


def test_scans_without_weighting_odd_orders_and_wrong_masks_are_reported():
    flat = scan_of(np.full((4, 3), S0), np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(InvalidInput, match="no diffusion-weighted"):
        deconvolve(flat, Response(coefficients=SINGLE), everywhere(flat), device="cpu")
    with pytest.raises(InvalidInput, match="lmax is 7"):
        CsdSettings(lmax=7)
    scan = small_scan()
    for mask, problem in ((np.zeros(scan.shape, bool), "empty"), (np.ones((2, 2, 2), bool), "shape")):
        with pytest.raises(InvalidInput, match=problem):
            deconvolve(scan, Response(coefficients=SINGLE), mask, device="cpu")


def test_settings_that_a_deconvolution_uses_are_recorded_and_voxels_that_did_not_settle_counted():
    bvals, table = one_shell(60)
    scan = scan_of(noisy(fiber_signals(crossing_axes(40, 60.0), bvals, table), 20.0), bvals, table)
    response = Response(coefficients=SINGLE)
    settings = CsdSettings(lmax=8, iterations=1)
    hurried = deconvolve(scan, response, everywhere(scan), settings, device="cpu")
    assert hurried.parameters["deconvolution"] == dataclasses.asdict(settings)
    assert any("40 voxels did not settle within 1 iterations" in note for note in hurried.notes)
    assert not any("settle" in note for note in deconvolve(scan, response, everywhere(scan), device="cpu").notes)


def test_scans_are_deconvolved_on_a_gpu_as_on_the_cpu(fake_gpu):
    bvals, table = one_shell(60)
    one = scan_of(noisy(fiber_signals(crossing_axes(8, 60.0), bvals, table), 20.0), bvals, table)
    bvals, table = several_shells()
    several = scan_of(tissue_mixture(6, TISSUES, blur=0.06) @ tissue_matrix(bvals, table, TISSUES, 8).T, bvals, table)
    fake_gpu()
    for scan, responses in ((one, Response(coefficients=SINGLE)), (several, RESPONSES)):
        found = [deconvolve(scan, responses, everywhere(scan), device=device) for device in ("cpu", "cuda:0")]
        assert "Fake GPU" in found[1].parameters["device"]
        np.testing.assert_array_equal(found[0].coefficients, found[1].coefficients)
        for name, density in found[0].tissues.items():
            np.testing.assert_array_equal(density, found[1].tissues[name])

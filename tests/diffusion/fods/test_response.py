"""Responses of single fibers and of tissues, from known scans and from brains; their files; normalized densities."""

import dataclasses
import threading
from contextlib import nullcontext

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion import (
    FodField,
    HighestFa,
    Response,
    ThreeTissues,
    Tournier,
    TwoTissues,
    deconvolve,
    estimate_response,
    estimate_response_steps,
    estimate_tissue_responses,
    estimate_tissue_responses_steps,
    fit_tensors,
    normalize_tissues,
)
from napari_gpubio.diffusion.fods import CsdSettings, read_response, write_response
from napari_gpubio.diffusion.fods.estimate import fit_zonal, lobe_axes, supported_shell
from napari_gpubio.diffusion.fods.harmonics import half_sphere, harmonics
from napari_gpubio.diffusion.fods.normalize import REFERENCE
from napari_gpubio.diffusion.fods.run import deconvolve_steps
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.fods.scan_samples import (
    ACROSS,
    ALONG,
    S0,
    THREE_SHELLS,
    TISSUES,
    everywhere,
    fiber_signals,
    noisy,
    one_shell,
    scan_of,
    several_shells,
    tissue_matrix,
)  # fmt: skip

TOURNIER = [7167.16, -2418.77, 548.423, -76.154, 9.303, -10.556]  # of dwi2response (MRtrix 3.0.3) on the real brain


def exact_zonal(b, lmax):
    """Zonal coefficients of the fibers of `fiber_signals`, by quadrature."""
    x, weights = np.polynomial.legendre.leggauss(100)
    directions = np.stack([np.sqrt(1 - x**2), 0 * x, x], axis=1)
    columns = [order * (order + 1) // 2 for order in range(0, lmax + 1, 2)]
    values = harmonics(directions, lmax)[:, columns]
    return 2 * np.pi * (S0 * np.exp(-b * (ACROSS + (ALONG - ACROSS) * x**2)) * weights) @ values


@pytest.mark.parametrize("method", [HighestFa, Tournier])
def test_the_response_of_known_fibers_is_found(method, device):
    bvals, table = one_shell(64)
    axes = np.random.default_rng(0).normal(size=(500, 1, 3))
    scan = scan_of(noisy(fiber_signals(axes, bvals, table), 100.0), bvals, table)
    settings = method(voxels=200, lmax=8)
    response = estimate_response(scan, everywhere(scan), settings, device=device)
    exact = exact_zonal(3000.0, 8)
    assert response.bvals == (3000,)
    assert len(response.parameters["voxels"]) == 200
    np.testing.assert_allclose(response.coefficients[0], exact, atol=0.03 * exact[0])


def test_a_zonal_series_is_fitted_and_held_to_its_conditions():
    _, table = one_shell(64, b0=0)
    axes = np.random.default_rng(0).normal(size=(30, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    signals = fiber_signals(axes[:, None], np.full(64, 1000.0), table)
    np.testing.assert_allclose(fit_zonal(signals, table, axes, 8), exact_zonal(1000.0, 8), rtol=1e-3, atol=1e-2)
    upside_down = fit_zonal(signals.max() - signals, table, axes, 8)  # falls from the fiber to the plane across it
    elevations = np.linspace(0, np.pi / 2, 60)
    turned = np.stack([np.sin(elevations), 0 * elevations, np.cos(elevations)], axis=1)
    columns = [order * (order + 1) // 2 for order in range(0, 9, 2)]
    curve = harmonics(turned, 8)[:, columns] @ upside_down
    assert (curve > -1e-6 * curve.max()).all()
    assert (np.diff(curve) > -1e-6 * curve.max()).all()


def test_the_mean_of_a_lobe_is_that_of_its_fibers():
    axes = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    fods = 2 * harmonics(axes[:1], 8) + harmonics(axes[1:], 8)
    found = lobe_axes(np.repeat(fods, 3, axis=0), np.repeat(axes[:1], 3, axis=0), np.repeat(axes[1:], 3, axis=0))
    assert np.degrees(np.arccos(found @ axes[0])).max() < 1.0
    none = lobe_axes(np.zeros((1, 45), np.float32), np.zeros((1, 3)), np.zeros((1, 3)))
    assert np.isfinite(none).all()


@pytest.mark.parametrize("method", [HighestFa, Tournier])
def test_the_response_of_the_brain_phantom_is_that_of_one_fiber(method):
    scan = coarse_brain()
    response = estimate_response(scan, settings=method(voxels=100, lmax=6), device="cpu")
    zonal = response.coefficients[0]
    assert zonal[0] > 0 > zonal[1]
    assert 0.25 < -zonal[1] / zonal[0] < 0.6
    fa = fit_tensors(scan, device="cpu")
    from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

    chosen = np.array(response.parameters["voxels"])
    assert np.median(fa_map(fa)[tuple(chosen.T)]) > 0.6


@pytest.mark.parametrize(
    ("method", "most", "most_first"),
    # the quicker tests above search in the way of Tournier, too
    [pytest.param(Tournier, 0.01, 0.01, marks=pytest.mark.long), (HighestFa, 0.05, 0.08)],
)
def test_the_response_of_a_real_brain_is_near_that_of_mrtrix(method, most, most_first, shared_data):
    from napari_gpubio.diffusion.io import read_dwi
    from napari_gpubio.diffusion.io.dwi import read_mask

    folder = shared_data / "dwi" / "whole_brain_b1000"
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    zonal = estimate_response(scan, mask, method(), device="cpu").coefficients[0]
    assert abs(zonal[0] / TOURNIER[0] - 1) < most_first
    assert abs(zonal[1] / TOURNIER[1] - 1) < most
    np.testing.assert_allclose(zonal[2:], TOURNIER[2:], atol=0.003 * TOURNIER[0])


@pytest.mark.parametrize(("method", "steps"), [(HighestFa, 1), (Tournier, 1), (Tournier, 4)])
def test_a_stopped_search_gives_the_response_of_its_last_whole_round(method, steps):
    """Some voxels of the round that was stopped have no FODs, and would be as good as any."""
    scan = coarse_brain()
    field = fit_tensors(scan, device="cpu")
    settings, stop = method(voxels=60, lmax=4), threading.Event()
    whole = estimate_response(scan, settings=settings, field=field, device="cpu")
    search = estimate_response_steps(scan, settings=settings, field=field, device="cpu", stop=stop)
    for _ in range(steps):
        next(search)
    stop.set()
    found = drive(search)
    assert whole.complete
    assert not found.complete
    assert found.parameters["rounds"] < whole.parameters["rounds"]
    np.testing.assert_allclose(found.coefficients, whole.coefficients, atol=0.1 * whole.coefficients[0, 0])


def test_a_response_needs_all_tensors_and_a_mask_that_fits():
    scan, stop = coarse_brain(), threading.Event()
    stop.set()
    for steps in (
        estimate_response_steps(scan, device="cpu", stop=stop),
        estimate_tissue_responses_steps(scan, settings=TwoTissues(), device="cpu", stop=stop),
    ):
        with pytest.raises(InvalidInput, match="fit was stopped"):
            drive(steps)
    nothing = drive(deconvolve_steps(scan, device="cpu", stop=stop))
    assert not nothing.complete
    assert not nothing.mask.any()
    field = fit_tensors(scan, device="cpu")
    for shape in ((3, 3, 3), (1, 1, 1), (4,)):
        with pytest.raises(InvalidInput, match="the mask has shape"):
            estimate_response(scan, np.ones(shape, bool), field=field, device="cpu")


def test_what_has_no_response_is_reported():
    bvals, table = one_shell(45)
    scan = scan_of(fiber_signals(np.ones((20, 1, 3)), bvals, table), bvals, table)
    with pytest.raises(InvalidInput, match="300 voxels and the mask has 20"):
        estimate_response(scan, everywhere(scan), device="cpu")
    with pytest.raises(InvalidInput, match=r"b = 1000.*3000"):
        estimate_response(scan, everywhere(scan), shell=1000, device="cpu")


# -- tissues ----------------------------------------------------------------------------------------------------------


def tissue_scan(shells=THREE_SHELLS, size=20):
    """A ball of white matter of many directions, gray matter around it, and fluid around that, with noise."""
    bvals, table = several_shells(each=32, b0=3)
    chosen = np.isin(bvals, shells)
    bvals, table = bvals[chosen], table[chosen]
    rows = [THREE_SHELLS.index(b) for b in np.unique(bvals)]
    responses = [np.asarray(tissue, float)[rows] for tissue in TISSUES]
    shape = (size, size, size)
    radius = np.linalg.norm(np.indices(shape) - (size - 1) / 2, axis=0) * 26 / size
    random = np.random.default_rng(4)
    unknowns = np.zeros((*shape, 47))
    axes = random.normal(size=(*shape, 3))
    white, gray, fluid = radius < 7.5, (radius >= 7.5) & (radius < 10), (radius >= 10) & (radius < 12.5)
    unknowns[white, :45] = harmonics(axes[white], 8)
    unknowns[gray, 45] = unknowns[fluid, 46] = REFERENCE
    signals = unknowns @ tissue_matrix(bvals, table, responses, 8).T
    signals = np.hypot(signals + random.normal(0, 8, signals.shape), random.normal(0, 8, signals.shape))
    scan = dataclasses.replace(scan_of(signals.reshape(-1, len(bvals)), bvals, table), data=signals.astype(np.float32))
    return scan, (white, gray, fluid), responses


@pytest.mark.parametrize(("tissues", "shells"), [(3, THREE_SHELLS), (2, (0, 2800))])
def test_the_responses_of_known_tissues_are_found(tissues, shells, device):
    scan, places, responses = tissue_scan(shells)
    mask = np.logical_or.reduce(places)
    settings = (ThreeTissues if tissues == 3 else TwoTissues)(shrink=1, lmax=8, white_percent=5.0)
    found = estimate_tissue_responses(scan, mask, settings, device=device)
    assert len(found) == tissues
    which = range(3) if tissues == 3 else (0, 2)
    for response, number in zip(found, which, strict=True):
        assert response.bvals == tuple(shells)
        np.testing.assert_allclose(response.coefficients, responses[number], atol=0.02 * responses[number].max())
        voxels = np.array(response.parameters["voxels"])
        assert places[number][tuple(voxels.T)].all()
    some = mask & (np.arange(mask.size).reshape(mask.shape) % 7 == 0)
    np.testing.assert_array_equal(deconvolve(scan, found, some, device=device).mask, some)


def test_a_mask_without_fluid_is_reported():
    scan, (white, gray, fluid), _ = tissue_scan(size=16)
    settings = TwoTissues(shrink=0, white_percent=5.0)
    for mask, notes in ((white | gray | fluid, 0), (white | gray, 1)):
        found = estimate_tissue_responses(scan, mask, settings, device="cpu")
        assert [len(one.notes) for one in found] == [0, notes]
    some = white & (np.arange(white.size).reshape(white.shape) % 40 == 0)
    assert found[1].notes[0] in deconvolve(scan, found, some, device="cpu").notes
    assert "0.8" in found[1].notes[0]


@pytest.mark.parametrize(("directions", "lmax"), [(12, 4), (20, 6), (24, 8), (64, 8)])
def test_the_order_fits_the_directions_unless_it_is_chosen(directions, lmax):
    bvals, table = one_shell(directions)
    scan = scan_of(fiber_signals(np.random.default_rng(0).normal(size=(40, 1, 3)), bvals, table), bvals, table)
    response = estimate_response(scan, everywhere(scan), HighestFa(voxels=20, lmax=4), device="cpu")
    fods = deconvolve(scan, response, everywhere(scan), device="cpu")
    assert fods.lmax == lmax
    assert any(f"{directions} directions allow" in note for note in fods.notes) == (lmax < 8)
    if lmax < 8:
        with pytest.raises(InvalidInput, match=f"choose lmax {lmax}"):
            deconvolve(scan, response, everywhere(scan), CsdSettings(lmax=8), device="cpu")


def test_what_has_no_tissues_is_reported():
    scan, places, _ = tissue_scan((0, 2800))
    mask = np.logical_or.reduce(places)
    weighted = dataclasses.replace(scan, data=scan.data[..., 3:], bvals=scan.bvals[3:], directions=scan.directions[3:])
    for given, words, problem in (
        (scan, {}, "take TwoTissues"), (weighted, {"settings": TwoTissues()}, "no b0"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=problem):
            estimate_tissue_responses(given, mask, device="cpu", **words)
    with pytest.raises(InvalidInput, match="both kinds are needed"):
        estimate_tissue_responses(scan, places[0], TwoTissues(), device="cpu")


# -- normalized densities ---------------------------------------------------------------------------------------------


def test_a_smooth_field_is_taken_out_of_densities():
    shape, random = (24, 26, 22), np.random.default_rng(0)
    shares = random.dirichlet([0.6, 0.5, 0.4], size=shape) * REFERENCE
    x, y, z = np.indices(shape) / np.reshape(shape, (3, 1, 1, 1)) - 0.5
    field = 1.7 * np.exp(0.8 * x - 0.5 * y * y + 0.6 * x * z + 0.4 * z**3)
    mask = (x**2 + y**2 + z**2) < 0.23
    coefficients = np.zeros((*shape, 6), np.float32)
    coefficients[..., 0], coefficients[..., 3] = shares[..., 0] * field, 0.1 * field
    coefficients *= mask[..., None]
    odd = mask & (random.random(shape) < 0.03)
    others = {name: (shares[..., n] * field * mask).astype(np.float32) for n, name in ((1, "gm"), (2, "csf"))}
    others["csf"][odd] *= 5.0  # outliers, as vessels
    fods = FodField(coefficients=coefficients, mask=mask, affine=np.diag([2.0, 2.0, 3.0, 1.0]), tissues=others)
    done = normalize_tissues(fods)
    usual = mask & ~odd
    total = done.coefficients[..., 0] + done.tissues["gm"] + done.tissues["csf"]
    np.testing.assert_allclose(total[usual], REFERENCE, rtol=0.03)
    np.testing.assert_allclose(done.coefficients[usual][:, 3], 0.1, rtol=0.03)
    np.testing.assert_allclose(done.tissues["gm"][usual], shares[usual][:, 1], rtol=0.03, atol=1e-6)
    assert not done.coefficients[~mask].any()
    assert any("smooth field" in note for note in done.notes)
    facts = done.parameters["normalization"]
    assert 0.01 < facts["voxels_left_out"] < 0.2
    assert all(abs(factor - 1) < 0.05 for factor in facts["factors"].values())
    again = normalize_tissues(done)
    np.testing.assert_allclose(again.coefficients[usual], done.coefficients[usual], rtol=0.01, atol=1e-6)


def test_factors_make_up_for_responses_of_the_wrong_size():
    shape = (20, 20, 20)
    shares = np.random.default_rng(1).dirichlet([0.5, 0.5], size=shape) * REFERENCE
    coefficients = np.zeros((*shape, 6), np.float32)
    coefficients[..., 0] = 1.5 * shares[..., 0]
    fods = FodField(
        coefficients=coefficients, mask=np.ones(shape, bool), affine=np.eye(4),
        tissues={"csf": shares[..., 1].astype(np.float32)},
    )  # fmt: skip
    done = normalize_tissues(fods, balanced=True)
    np.testing.assert_allclose(done.coefficients[..., 0] + done.tissues["csf"], REFERENCE, rtol=0.02)
    factors = done.parameters["normalization"]["factors"]
    assert factors["csf"] / factors["wm"] == pytest.approx(1.5, rel=0.02)


def test_what_cannot_be_normalized_is_reported():
    fods = FodField(coefficients=np.ones((3, 3, 3, 6)), mask=np.ones((3, 3, 3), bool), affine=np.eye(4))
    with pytest.raises(InvalidInput, match="one tissue only"):
        normalize_tissues(fods)
    with pytest.raises(InvalidInput, match="27 voxels"):
        normalize_tissues(dataclasses.replace(fods, tissues={"csf": np.ones((3, 3, 3))}))
    with pytest.raises(InvalidInput, match="density of csf has shape"):
        dataclasses.replace(fods, tissues={"csf": np.ones((3, 3, 4))})


# -- files ------------------------------------------------------------------------------------------------------------


def test_responses_are_written_and_read(tmp_path):
    response = Response(coefficients=np.array(TISSUES[0], float), bvals=THREE_SHELLS)
    write_response(tmp_path / "wm.txt", response)
    again = read_response(tmp_path / "wm.txt")
    np.testing.assert_allclose(again.coefficients, response.coefficients)
    assert again.bvals == response.bvals
    (tmp_path / "mrtrix.txt").write_text("# Shells: 0,999\n# command_history: amp2response a b\n1 0\n3, -1\n")
    other = read_response(tmp_path / "mrtrix.txt")
    assert other.bvals == (0, 999)
    assert other.lmax == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Shells: 0\n", "0 rows"),
        ("1 2\n3\n", "same number"),
        ("1 -1 x\n", "^line 1 of wm.txt has 'x', which is no finite number"),
        ("# Shells: 0,1000\n1 0\n2 inf\n", "^line 3 of wm.txt has 'inf'"),
        ("1 nan\n", "^line 1 of wm.txt has 'nan'"),
        ("\n1 -1e999\n", "^line 2 of wm.txt has '-1e999'"),
        ("# Shells: 0,inf\n1 0\n2 1\n", "^line 1 of wm.txt has 'inf'"),
        ("# Shells: 1e400\n1 0\n", "^line 1 of wm.txt has '1e400'"),
        ("# Shells: nan\n1 0\n", "^line 1 of wm.txt has 'nan'"),
        ("# Shells: 0 b\n1 0\n", "^line 1 of wm.txt has 'b'"),
    ],
)
def test_files_that_hold_no_response_are_reported(tmp_path, text, problem):
    (tmp_path / "wm.txt").write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        read_response(tmp_path / "wm.txt")


@pytest.mark.parametrize(
    ("shells", "found"),
    [
        ([(1000, 32)], 1000),
        ([(1000, 64), (3000, 12)], 1000),  # the largest has too few
        ([(700, 28), (500, 90)], 700),
        ([(1000, 27)], "27 directions; FODs need 28"),
        ([(600, 60)], "b = 600 s/mm²; FODs need 700"),
        ([(1000, 20), (1000, 20)], "20 directions"),  # each twice
        ([], "no diffusion-weighted volume"),
    ],
)
def test_fods_are_made_of_a_shell_that_supports_them(shells, found):
    bvals = np.concatenate([[0.0], *(np.full(count, b) for b, count in shells)])
    directions = np.concatenate(
        [np.zeros((1, 3)), *((-1) ** n * half_sphere(count) for n, (_, count) in enumerate(shells))]
    )
    scan = scan_of(np.ones((2, len(bvals))), bvals, directions)
    with nullcontext() if isinstance(found, int) else pytest.raises(InvalidInput, match=found):
        assert supported_shell(scan) == found


def test_b_values_that_are_almost_those_of_the_scan_are_those():
    """MRtrix writes the mean of the b-values of a shell; a scan's shells are rounded to 100."""
    zonal = np.array([[100.0, 0.0], [60.0, -20.0]])
    response = Response(coefficients=zonal, bvals=(0, 999))
    np.testing.assert_array_equal(response.of_shell(1000, [0, 1000]), zonal[1])
    np.testing.assert_array_equal(response.of_shell(0, [0, 1000]), zonal[0])
    with pytest.raises(InvalidInput, match="b = 2000 is missing"):
        response.of_shell(2000, [0, 2000])

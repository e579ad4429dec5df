"""Multi-exposure fits that know what they cannot tell: standard errors, intervals, masks, and notes."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings
from napari_gpubio.speckle.checks import EXPOSURES_MS
from napari_gpubio.speckle.mesi import FittedBeta, GivenBeta, MesiSettings, fit_mesi, measure_beta, squared_contrast
from napari_gpubio.speckle.mesi.result import DEGENERATE, LONG_TAU, SHORT_TAU, UNCERTAIN
from napari_gpubio.speckle.samples import SpeckleField, window_share
from napari_gpubio.speckle.settings import Spatial

PARTS = ("tau_ms", "rho", "beta")
ERRORS = ("tau_error_ms", "rho_error", "beta_error")


def noisy(beta, rho, tau, pixels=400, noise=0.01, nu=0.0, seed=0):
    """K of pixels that differ in the noise of K² only."""
    k2 = squared_contrast(EXPOSURES_MS, tau, beta=beta, rho=rho, noise=nu)[:, None]
    return np.sqrt(k2 * (1 + noise * np.random.default_rng(seed).standard_normal((len(k2), pixels))))


def settings_of(beta=None, beta_error=0.0, **settings):
    """Settings with a β that is given, if one is."""
    given = FittedBeta() if beta is None else GivenBeta(static_k2=beta, static_k2_error=beta_error)
    return MesiSettings(beta=given, **settings)


def fitted(*truth, exposures=EXPOSURES_MS, noise=0.01, pixels=400, **settings):
    return fit_mesi(noisy(*truth, noise=noise, pixels=pixels), exposures, settings_of(**settings))


# -- errors and intervals ---------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_and_medians_are_near_it():
    truth = [(b, r, t) for b in (0.1, 0.2, 0.3, 0.5, 0.8) for r in (0.7, 0.9) for t in (0.1, 0.5, 3.0)]
    k = np.stack([noisy(*one, seed=n) for n, one in enumerate(truth)], axis=1)
    found = fit_mesi(k, EXPOSURES_MS)
    beta, rho, tau = np.array(truth).T[..., None]
    for part, want, most in zip(PARTS, (tau, rho, beta), (0.015, 0.005, 0.01), strict=True):
        assert np.median(np.abs(getattr(found, part) / want - 1), axis=1).max() < most
        low, high = found.interval(part)
        held = ((low <= want) & (want <= high)).mean()
        assert held == pytest.approx(0.95, abs=0.008), part
    assert not found.notes


@pytest.mark.parametrize("settings", [{}, {"contrast_error": 0.005}, {"beta": 0.3, "fit_noise": True}])
def test_standard_errors_are_the_scatter_of_fits(settings):
    k = noisy(0.3, 0.8, 0.5, pixels=2000, nu=0.02 if "beta" in settings else 0.0)
    found = fit_mesi(k, EXPOSURES_MS, settings_of(**settings))
    parts = dict(zip(PARTS, ERRORS, strict=True)) | {"noise": "noise_error"}
    free = [*PARTS[:2], "noise" if "beta" in settings else "beta"]
    for part in free:
        root = np.sqrt(np.mean(np.square(getattr(found, parts[part]), dtype=float)))
        assert root == pytest.approx(getattr(found, part).std(dtype=float), rel=0.08), part
    assert found.freedom == (np.inf if "contrast_error" in settings else 12)
    np.testing.assert_allclose(found.ict_error / found.ict, found.tau_error_ms / found.tau_ms, rtol=1e-5)


def test_the_error_of_a_measured_beta_counts():
    known = fitted(0.3, 0.9, 0.5, beta=0.3)
    measured = fitted(0.3, 0.9, 0.5, beta=0.3, beta_error=0.006)
    np.testing.assert_array_equal(known.tau_ms, measured.tau_ms)
    assert (known.beta_error == 0).all()
    np.testing.assert_allclose(measured.beta_error, 0.006, rtol=1e-6)
    shifts = [fitted(0.3, 0.9, 0.5, beta=beta, noise=0.0, pixels=1).tau_ms[0] for beta in (0.297, 0.303)]
    want = np.hypot(known.tau_error_ms, abs(shifts[1] - shifts[0]))
    np.testing.assert_allclose(measured.tau_error_ms, want, rtol=0.03)


def test_intervals_of_other_levels_and_their_ends():
    found = fitted(0.3, 0.9, 0.5)
    low, high = found.interval("tau_ms", 0.5)
    assert ((low <= 0.5) & (high >= 0.5)).mean() == pytest.approx(0.5, abs=0.08)
    assert fitted(0.3, 0.999, 0.5).interval("rho")[1].max() == 1, "not more than all light"
    with pytest.raises(InvalidInput, match="part is 'tau'; choose 'tau_ms', 'rho', 'beta', 'noise'"):
        found.interval("tau")
    with pytest.raises(InvalidInput, match="level is 95; give a share between 0 and 1"):
        found.interval("rho", 95)


# -- masks and notes --------------------------------------------------------------------------------------------------


def test_a_wrong_beta_is_reported():
    wrong = fitted(0.3, 0.9, 10.0, beta=1.0)
    assert np.median(wrong.tau_ms) < 0.1, "what the note is for"
    assert "the contrast contradicts β = 1, so τ and ρ are wrong" in wrong.notes[0]
    assert "them, β is 0.3" in wrong.notes[0]
    assert "contradicts" in fitted(0.3, 0.9, 10.0, beta=1.0, noise=0.1).notes[0]
    assert "contradicts" in fitted(0.3, 0.9, 10.0, beta=0.31).notes[0]
    assert not fitted(0.3, 0.9, 10.0, beta=0.3).notes
    assert not fitted(0.3, 0.9, 10.0, beta=0.3, noise=0.0, pixels=3).notes
    assert not fitted(0.3, 0.9, 10.0, beta=0.31, beta_error=0.01).notes, "it is as right as it claims"


@pytest.mark.parametrize(
    ("tau", "settings", "bit", "words"),
    [
        (40.0, {}, LONG_TAU, r"τ is longer than a third of the longest exposure \(80 ms\)"),
        (0.01, {}, SHORT_TAU, "so τ and β are poorly determined; add shorter exposures, or measure β"),
        (0.01, {"beta": 0.3}, SHORT_TAU, "τ is only as right as the β that was given"),
        (200.0, {}, UNCERTAIN, r"the standard error of τ is more than 25 % of it"),
        (0.01, {"noise": 0.1}, DEGENERATE, "ρ and β are known together rather than each"),
    ],
)
def test_exposures_that_do_not_suffice(tau, settings, bit, words):
    found = fitted(0.3, 0.9, tau, **settings)
    share = (found.mask & bit > 0).mean()
    assert share > 0.5
    notes = [note for note in found.notes if f"in {100 * share:.3g} % of the fitted pixels " in note]
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(" ".join(notes))


def test_noise_beyond_what_was_stated_is_reported():
    assert (
        "residuals of K are 0.48 % where an error of 0.1 % was stated"
        in fitted(0.3, 0.9, 1, contrast_error=1e-3).notes[0]
    )
    assert not fitted(0.3, 0.9, 1.0, contrast_error=0.005).notes


def test_pixels_that_are_lost_have_no_errors():
    k = noisy(0.3, 0.9, 0.5, pixels=3)
    k[2, 0] = np.nan
    found = fit_mesi(k, EXPOSURES_MS)
    for part in (*PARTS, *ERRORS):
        assert np.isfinite(getattr(found, part)).tolist() == [False, True, True]
    assert found.mask[0] == 0


def test_an_error_needs_its_beta():
    with pytest.raises(TypeError, match="static_k2_error"):
        FittedBeta(static_k2_error=0.01)
    with pytest.raises(InvalidInput, match=r"beta is 0\.3; give FittedBeta or GivenBeta"):
        MesiSettings(beta=0.3)


# -- static targets ---------------------------------------------------------------------------------------------------


CUTOFF, PATTERNS = 0.25, 4


def target(frames=3):
    """Return frames of a pattern at rest whose β is a quarter of what a window holds: it is the sum of four."""
    field = SpeckleField((140, 160), CUTOFF, np.random.default_rng(5))
    light = sum(np.abs(field.draw()) ** 2 for _ in range(PATTERNS))
    return np.repeat(125.0 * light[None], frames, axis=0)


def share(window):
    return window_share(window, CUTOFF) / PATTERNS


@pytest.mark.parametrize("window", [5, 7])
def test_beta_of_a_static_target(window):
    found = measure_beta(target(), ContrastSettings(mode=Spatial(window=window)), device="cpu")
    want = share(window)
    assert abs(found.beta - want) < 3 * found.error
    assert 0.005 < found.error / want < 0.05
    assert not found.notes


def test_beta_of_a_region():
    frames = target()
    region = np.zeros(frames.shape[1:], bool)
    region[:, 90:] = True
    frames[:, :, :80] = 500.0
    assert measure_beta(frames, device="cpu").beta < 0.7 * share(ContrastSettings().width)
    found = measure_beta(frames, region=region, device="cpu")
    assert found.beta == pytest.approx(share(ContrastSettings().width), rel=0.06)
    small = np.zeros_like(region)
    small[70:75, 100:105] = True
    assert "so the error of β is unknown" in measure_beta(frames, region=small, device="cpu").notes[0]
    with pytest.raises(InvalidInput, match="the region of the target has shape"):
        measure_beta(frames, region=region[1:], device="cpu")


def test_a_target_that_is_none():
    moving = np.random.default_rng(1).exponential(500.0, (4, 60, 60))
    assert (
        "% of the static target's K² is the same in all frames: it moves" in measure_beta(moving, device="cpu").notes[0]
    )
    with pytest.raises(InvalidInput, match="no pixel of the static target has a contrast"):
        measure_beta(np.zeros((2, 40, 40)), device="cpu")
    with pytest.raises(InvalidInput, match="K² of the static target is 0 and β must be above 0"):
        measure_beta(np.ones((2, 40, 40)), device="cpu")

"""Contrast from its definition, in double precision and two passes, with every way to treat borders."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows_of(frames, window, depth, step, edges):
    """Samples of every window, (maps, Y, X, samples); NaN where there is none."""
    radius = window // 2
    margins = [(0, 0), (radius, radius), (radius, radius)]
    if edges == "reflect":
        padded = np.pad(frames.astype(float), margins, mode="symmetric")
    else:
        padded = np.pad(frames.astype(float), margins, constant_values=0.0 if edges == "zero" else np.nan)
    view = sliding_window_view(padded, (depth, window, window))[::step]
    return view.reshape(*view.shape[:3], -1)


def contrast_of(frames, window=1, depth=1, step=1, edges="valid"):
    """K of every window, (maps, Y, X)."""
    samples = windows_of(frames, window, depth, step, edges)
    if edges == "valid":
        mean, deviation = samples.mean(-1), samples.std(-1, ddof=1)
    else:
        mean, deviation = np.nanmean(samples, -1), np.nanstd(samples, -1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(mean > 0, deviation / mean, np.nan)


def check_close(found, expected, tolerance):
    """Equal but for a relative error, and NaN in the same places."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = np.isfinite(expected) & (expected != 0)
    assert known.any()
    assert np.abs(found[known] / expected[known] - 1).max() <= tolerance
    np.testing.assert_array_equal(found[~known], expected[~known].astype(np.float32))


def error_of_k2(k2, pixels, cutoff):
    """Relative standard error of K² = ⟨δ²⟩, δ = I/⟨I⟩ - 1, of so many pixels of speckle with a round pupil.

    Integrated speckle is close to a gamma distribution (Goodman) of variance K², whose δ² has the variance
    (2 + 6 K²) K⁴; between pixels whose fields have the correlation μ, the covariance ((2 + 2 K²) |μ|⁴ + 4 K² |μ|²) K⁴.
    """
    frequency = np.fft.fftfreq(256)
    pupil = (frequency[:, None] ** 2 + frequency**2 <= cutoff**2).astype(float)
    correlation = np.abs(np.fft.ifft2(pupil)) ** 2
    correlation /= correlation[0, 0]
    sums = (2 + 2 * k2) * (correlation**2).sum() + 4 * k2 * correlation.sum()
    return float(np.sqrt(sums / pixels))


def ulps(found, expected):
    """Largest distance in units in the last place; what is not finite must be equal."""
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    known = np.isfinite(expected)
    np.testing.assert_array_equal(found[~known], expected[~known])
    apart = np.abs(found[known].astype(float) - expected[known]) / np.spacing(np.abs(expected[known]))
    return float(apart.max(initial=0.0))

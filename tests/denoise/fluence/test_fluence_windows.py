"""Windows: what they leave as it is, in closed form."""

import numpy as np
import pytest

from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.kernels.fluence import cpu
from napari_gpubio.denoise.kernels.fluence.problem import (
    make_candidates,
    make_window,
    measure_segments,
    scales_of,
)
from napari_gpubio.denoise.kernels.fluence.scale_selection import Pass
from tests.denoise.fluence.samples import diffuse, problem_of

SHAPE = (30, 26, 34)


def smoothed(values, scale, *, labels=None, is_sloped=False, twice=False, voxel_size_mm=(1.0, 1.0, 1.0), flat=None):
    """One volume through a window, as a run does it."""
    run = cpu.Run(problem_of((values, values), labels=labels, voxel_size_mm=voxel_size_mm))
    window = make_window(scale, run.problem.steps, is_sloped=is_sloped, flat_along=flat)
    found, *rooms = run.pilot(run.halves[0], window, [run.empty() for _ in range(3)], run._segments)
    if twice:
        found = run.smooth(found, window, tuple(rooms), None, Pass("correct", (found,)))
    return found * run.problem.scale


def direct(values, scale, labels, *, is_sloped):
    """The same in float64 and by the definition, along one axis after another."""
    out = np.array(values, np.float64)
    for axis in range(3):
        lines, names = np.moveaxis(out, axis, 0), np.moveaxis(labels, axis, 0)
        done, reach = np.empty_like(lines), int(np.ceil(3.5 * scale))
        for place in np.ndindex(lines.shape[1:]):
            line, name = lines[(slice(None), *place)], names[(slice(None), *place)]
            for i in range(len(line)):
                below = above = i
                while below > 0 and name[below - 1] == name[i] and i - below < reach:
                    below -= 1
                while above < len(line) - 1 and name[above + 1] == name[i] and above - i < reach:
                    above += 1
                below, above = max(below, i - (above - i) - 2), min(above, i + (i - below) + 2)  # both as they were
                d = np.arange(below, above + 1) - i
                g = np.exp(-0.5 * (d / scale) ** 2)
                if is_sloped and len(d) > 2:
                    m0, m1, m2 = g.sum(), (g * d).sum(), (g * d * d).sum()
                    g = g * (m2 - m1 * d) / (m0 * m2 - m1 * m1)
                done[(i, *place)] = (g * line[below : above + 1]).sum() / g.sum()
        out = np.moveaxis(done, 0, axis)
    return out


@pytest.mark.parametrize(("scale", "is_sloped"), [(0.8, True), (1.6, False), (1.6, True), (3.2, False)])
@pytest.mark.parametrize("labeled", [False, True])
def test_smoothing_is_what_its_definition_says(scale, is_sloped, labeled):
    rng = np.random.default_rng(0)
    values = rng.random((13, 11, 21))
    labels = np.zeros(values.shape, np.int64)
    if labeled:
        labels[3:8, 2:, 5:15] = 1
        labels[5, 5, 5] = 2
    found = smoothed(values, scale, labels=labels, is_sloped=is_sloped)
    np.testing.assert_allclose(found, direct(values, scale, labels, is_sloped=is_sloped), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("is_sloped", [False, True])
def test_an_exponential_stays_itself_away_from_faces(is_sloped):
    """Of exp(k x) any even window makes a multiple, so the quotient is exact, whatever k."""
    x, y, z = np.indices(SHAPE)
    values = np.exp(0.2 * x - 0.1 * y - 0.3 * z)
    found = smoothed(values, 1.3, twice=True, is_sloped=is_sloped)
    inner = (slice(10, -10),) * 3  # twice the reach
    np.testing.assert_allclose(found[inner], values[inner], rtol=5e-6)
    plain = smoothed(values, 1.3)
    expected = values * np.exp(0.5 * 1.3**2 * (0.2**2 + 0.1**2 + 0.3**2))  # a Gaussian alone
    np.testing.assert_allclose(plain[inner], expected[inner], rtol=2e-3)


@pytest.mark.parametrize(
    ("k", "voxel_size_mm"), [(0.1, (1.0, 1.0, 1.0)), (0.3, (1.0, 1.0, 1.0)), (0.2, (1.0, 0.8, 1.5))]
)
def test_diffusion_stays_itself_without_its_k_being_known(k, voxel_size_mm):
    """exp(-k r) / r obeys Helmholtz' equation: smoothed twice it has no bias, and a plain Gaussian has."""
    values = diffuse((40, 40, 40), k, distance=12.0, voxel_size_mm=voxel_size_mm)
    inner = (slice(15, -15),) * 3
    twice, plain = (smoothed(values, 2.0, twice=t, voxel_size_mm=voxel_size_mm) for t in (True, False))
    in_mm = 2.0 * min(voxel_size_mm)
    assert np.abs(twice[inner] / values[inner] - 1).max() < 2e-3
    np.testing.assert_allclose(plain[inner] / values[inner], np.exp(0.5 * (in_mm * k) ** 2), rtol=3e-3)


def test_slopes_are_not_bent_at_faces():
    values = 10.0 + np.indices(SHAPE)[2] + 0.5 * np.indices(SHAPE)[0]
    sloped, straight = (smoothed(values, 2.1, is_sloped=is_sloped) for is_sloped in (True, False))
    np.testing.assert_allclose(sloped, values, rtol=5e-6)
    assert np.abs(straight - values)[:, :, 0].min() > 0.3


@pytest.mark.parametrize("scale", [3.2, 4.0, 5.0])
def test_wide_windows_have_little_bias_at_faces(scale):
    """Of exp(-x / 4): windows that reached as far inside as they could would take off 20 to 31 % and add 27 to 47 %."""
    values = np.exp(-0.25 * np.indices((60, 8, 8))[0])
    found = smoothed(values, scale, twice=True, flat=1)
    assert np.abs(found / values - 1)[[0, -1]].max() < 0.07


def test_labels_stop_what_would_blend_across_a_step():
    labels = (np.indices(SHAPE)[2] > 15).astype(np.int64)
    values = np.where(labels, 1.0, 50.0)
    np.testing.assert_allclose(smoothed(values, 2.1, labels=labels), values, rtol=3e-6)
    blended = smoothed(values, 2.1)
    assert blended[5, 5, 16] > 10.0


def test_a_flat_window_leaves_its_axis_alone():
    values = 1.0 + np.random.default_rng(1).random(SHAPE[2]) * np.ones(SHAPE)
    np.testing.assert_allclose(smoothed(values, 2.1, flat=2), values, rtol=3e-6)
    assert np.abs(smoothed(values, 2.1, flat=0) - values).max() > 0.1


def test_scales_rise_in_equal_ratios():
    scales = scales_of(FluenceSettings())
    assert scales[0] == 0.8
    assert scales[-1] == pytest.approx(5.0)
    ratio = (5.0 / 0.8) ** 0.25
    np.testing.assert_allclose(np.divide(scales[1:], scales[:-1]), [ratio] * 4)
    assert scales_of(FluenceSettings(largest_scale=0.8)) == pytest.approx([0.8] * 2)
    tried = make_candidates(FluenceSettings(), (1, 1, 1))
    assert len(tried) == 2 + 3 * 4
    assert [c.scale_mm for c in tried if c.is_flat] == pytest.approx(np.repeat(scales[1:4], 3))
    assert len(make_candidates(FluenceSettings(flat=False), (1, 1, 1))) == 5
    assert [c.scale_mm for c in tried] == sorted(c.scale_mm for c in tried)


def test_windows_are_as_long_in_mm_along_every_axis():
    window = make_candidates(FluenceSettings(), (0.5, 1.0, 2.0))[-1].window
    deviations = []
    for taps, size in zip(window, (0.5, 1.0, 2.0), strict=True):
        d = np.arange(taps.reach + 1)
        deviations.append(size * np.sqrt(2 * (taps.weights * d**2).sum()))
    np.testing.assert_allclose(deviations, 5.0 * 0.5, rtol=0.02)


def test_segments():
    labels = np.array([[[0, 0, 1, 1, 1, 0]]])
    reach = measure_segments(labels)
    assert reach[2, 0].ravel().tolist() == [0, 1, 0, 1, 2, 0]
    assert reach[2, 1].ravel().tolist() == [1, 0, 2, 1, 0, 0]
    assert not reach[:2].any()
    assert measure_segments(np.zeros((400, 1, 1), np.int64))[0, 0].max() == 255

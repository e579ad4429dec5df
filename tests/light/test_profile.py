"""Fluence along a line: against fields whose values are known everywhere, and against diffusion theory."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.light.profile import (
    depth_profile,
    detector_profile,
    entry_point,
    line_profile,
    sample_fluence,
    theory_curve,
)
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Isotropic, Line, Pencil
from tests.light.result_samples import sample_result

MEDIUM = Medium(label=1, name="A", mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.37)


def rotated(*, sizes=(0.5, 1.0, 2.0), angle=0.4, shift=(3.0, -7.0, 11.0), mirrored=False):
    """An oblique, anisotropic affine."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    affine = np.eye(4)
    affine[:3, :3] = turn * sizes * ((-1, 1, 1) if mirrored else (1, 1, 1))
    affine[:3, 3] = shift
    return affine


def made(labels, affine, field, *, media=(MEDIUM,), error=0.1, **settings):
    """A result whose fluence is a function of the world position of each voxel's center."""
    domain = Domain(labels=labels, affine=affine, media=media)
    index = np.stack(np.meshgrid(*map(np.arange, labels.shape), indexing="ij"), -1)
    fluence = field(apply_affine(affine, index)).astype(np.float32)
    return dataclasses.replace(
        sample_result((2, 2, 2), detectors=()),
        domain=domain,
        source=Pencil(position_mm=tuple(affine[:3, 3])),
        settings=LightSettings(**settings),
        gates=fluence[..., None],
        fluence_error=(error * fluence).astype(np.float32),
    )


def inside(affine, shape, *fractions):
    """World positions at fractions of the grid."""
    return apply_affine(affine, np.asarray(fractions) * (np.array(shape) - 1))


# -------------------------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("mirrored", [False, True])
def test_an_exponential_in_any_direction_is_met_exactly(mirrored):
    shape, slope = (20, 21, 12), np.array([0.31, -0.17, 0.23])
    affine = rotated(mirrored=mirrored)
    result = made(np.ones(shape, int), affine, lambda at: np.exp(-at @ slope))
    profile = line_profile(result, *inside(affine, shape, (0.1, 0.2, 0.15), (0.9, 0.7, 0.95)))
    assert np.allclose(profile.fluence, np.exp(-profile.points_mm @ slope), rtol=2e-6, atol=0)
    assert np.allclose(profile.error, 0.1 * profile.fluence, rtol=1e-5)
    assert (profile.labels == 1).all()


def test_at_the_center_of_a_voxel_it_is_that_voxel():
    random = np.random.default_rng(1)
    values = random.exponential(1.0, (5, 6, 7)).astype(np.float32)
    result = made(np.ones((5, 6, 7), int), rotated(), lambda at: values, error=0.3)
    centers = np.array([[0, 0, 0], [2, 3, 4], [4, 5, 6]])
    label, fluence, error = sample_fluence(
        result, centers @ result.domain.affine[:3, :3].T + result.domain.affine[:3, 3]
    )
    assert np.allclose(fluence, values[tuple(centers.T)], rtol=1e-5)
    assert np.allclose(error, 0.3 * fluence, rtol=1e-5)
    assert list(label) == [1, 1, 1]


def test_the_error_is_not_less_than_that_of_voxels_that_vary_by_themselves():
    shape = (2, 2, 2)
    result = made(np.ones(shape, int), np.eye(4), lambda at: np.ones(shape), error=0.1)
    _, _, error = sample_fluence(result, [[0.5, 0.5, 0.5]])
    assert 0.1 / np.sqrt(8) < error[0] <= 0.1 + 1e-6


def two_halves(inner_n, **settings):
    labels = np.ones((10, 4, 4), int)
    labels[5:] = 2
    media = (MEDIUM, dataclasses.replace(MEDIUM, label=2, n=inner_n))
    return made(labels, np.eye(4), lambda at: np.where(at[..., 0] < 4.5, 1.0, 100.0), media=media, **settings)


def test_across_a_step_of_the_refractive_index_nothing_is_mixed():
    points = [[4.4, 1.5, 1.5], [4.6, 1.5, 1.5]]
    assert sample_fluence(two_halves(1.5), points)[1] == pytest.approx([1.0, 100.0])
    assert sample_fluence(two_halves(1.37), points)[1] == pytest.approx([100**0.4, 100**0.6])
    unnoticed = two_halves(1.5, refraction=False)
    assert sample_fluence(unnoticed, points)[1] == pytest.approx([100**0.4, 100**0.6])


def test_outside_there_is_none_and_it_pulls_nothing_down():
    labels = np.ones((6, 6, 6), int)
    labels[:, :, :2] = 0
    result = made(labels, np.eye(4), lambda at: np.where(at[..., 2] < 1.5, 0.0, 7.0))
    label, fluence, _ = sample_fluence(result, [[2, 2, 1.4], [2, 2, 1.6], [2, 2, -3], [2, 2, 5.49], [2, 2, 5.51]])
    assert list(label) == [0, 1, 0, 1, 0]
    assert fluence == pytest.approx([0, 7, 0, 7, 0])


def test_voxels_that_no_light_reached_give_zero_where_there_is_nothing_else():
    result = made(np.ones((6, 3, 3), int), np.eye(4), lambda at: np.where(at[..., 0] < 2.5, 5.0, 0.0))
    _, fluence, error = sample_fluence(result, [[1, 1, 1], [2.2, 1, 1], [3.0, 1, 1], [4, 1, 1]])
    assert fluence == pytest.approx([5, 5, 0, 0])
    assert np.isfinite(error).all()


def test_time_gates_are_summed():
    result = sample_result((12, 12, 12), gates=(0.0, 0.2, 0.5, 5.0))
    one = dataclasses.replace(result, gates=result.fluence[..., None])
    ends = (-3.2, 1.0, -1.0), (4.0, 2.0, -9.0)
    assert np.allclose(line_profile(result, *ends).fluence, line_profile(one, *ends).fluence, rtol=1e-5)


# ----------------------------------------------------------------------------------------------------------- lines


def test_a_line_runs_from_end_to_end_in_steps_of_half_a_voxel():
    profile = line_profile(sample_result((20, 20, 20)), (-5.0, 0.0, -3.0), (5.0, 0.0, -3.0))
    assert np.allclose(profile.points_mm[[0, -1]], [(-5, 0, -3), (5, 0, -3)])
    assert profile.distance_mm[-1] == pytest.approx(10.0)
    assert np.diff(profile.distance_mm).max() <= 0.5 + 1e-9


def test_a_long_line_has_an_end_of_samples():
    profile = line_profile(sample_result((4, 4, 4)), (0.0, 0.0, 0.0), (1e6, 0.0, 0.0))
    assert len(profile.distance_mm) == 2000


@pytest.mark.parametrize("end", [(1.0, 2.0, 3.0), (np.nan, 0.0, 0.0), (np.inf, 0.0, 0.0)])
def test_a_line_needs_two_points(end):
    with pytest.raises(InvalidInput, match="two different points"):
        line_profile(sample_result((4, 4, 4)), (1.0, 2.0, 3.0), end)


def test_depth_is_counted_from_where_the_axis_enters():
    result = sample_result((20, 20, 20))
    tilted = dataclasses.replace(result, source=Pencil(position_mm=(0.0, 0.0, 4.0), direction=(0.5, 0.0, -1.0)))
    assert entry_point(tilted) == pytest.approx([2.0, 0.0, 0.0])
    profile = depth_profile(tilted)
    assert profile.points_mm[0] == pytest.approx([2.0, 0.0, 0.0])
    assert (profile.labels[1:] > 0).all()
    bottom_or_side = min(20 * np.hypot(0.5, 1.0), 8 * np.hypot(0.5, 1.0) / 0.5)
    assert profile.distance_mm[-1] == pytest.approx(bottom_or_side, abs=0.5)
    away = dataclasses.replace(result, source=Pencil(position_mm=(0.0, 0.0, 4.0), direction=(0.0, 0.0, 1.0)))
    with pytest.raises(InvalidInput, match="hits no tissue"):
        depth_profile(away)


def test_the_line_to_a_detector():
    result = sample_result((40, 20, 20), detectors=(5.0, 12.0))
    profile = detector_profile(result, 1)
    assert profile.points_mm[-1] == pytest.approx([12.0, 0.0, 0.0])
    result = dataclasses.replace(result, detectors=(Detector(position_mm=(0.0, 0.0, 0.0)),))
    with pytest.raises(InvalidInput, match="two different points"):
        detector_profile(result, 0)


# ---------------------------------------------------------------------------------------------------------- theory


def block(source, *, outside_n=1.0, medium=MEDIUM, **settings):
    domain = Domain(labels=np.ones((60, 60, 60), np.uint8), affine=np.eye(4), media=(medium,), outside_n=outside_n)
    return dataclasses.replace(
        sample_result((2, 2, 2), detectors=()), domain=domain, source=source, settings=LightSettings(**settings)
    )


def dipole(rho, z, reflection):
    """Continuous wave, semi-infinite medium A, by hand; `reflection` is the effective one."""
    d = 1 / (3 * (0.005 + 0.99))
    z0, zb, mu = 3 * d, 2 * d * (1 + reflection) / (1 - reflection), np.sqrt(0.005 / d)
    r1, r2 = np.hypot(rho, z - z0), np.hypot(rho, z + z0 + 2 * zb)
    return (np.exp(-mu * r1) / r1 - np.exp(-mu * r2) / r2) / (4 * np.pi * d)


@pytest.mark.parametrize(("refraction", "reflection", "tolerance"), [(True, 0.468, 2e-3), (False, 0.0, 1e-6)])
def test_theory_is_laid_along_the_beam(refraction, reflection, tolerance):
    """A beam from the side and from a distance: depth is along it, and rho across."""
    source = Pencil(position_mm=(-5.5, 20.0, 30.0), direction=(2.0, 0.0, 0.0))
    result = block(source, refraction=refraction)
    points = np.array([[9.5, 20.0, 30.0], [4.5, 26.0, 38.0], [-3.0, 20.0, 30.0], [0.0, 20.0, 30.0]])
    curve = theory_curve(result, points)
    entered = 1 - result.energy.specular.value
    expected = entered * dipole(np.array([0.0, 10.0]), np.array([10.0, 5.0]), reflection)
    assert np.allclose(curve.fluence[:2], expected, rtol=tolerance)
    assert np.isnan(curve.fluence[2])  # before the surface
    assert list(curve.valid) == [True, True, False, False]  # the last one is too near
    assert curve.valid_from_mm == pytest.approx(3 / 0.995)
    assert "A alone" in curve.text
    assert "3 mm" in curve.text


def test_theory_around_a_point_source_has_no_surface():
    result = block(Isotropic(position_mm=(30.0, 30.0, 30.0)))
    points = np.array([[30.0, 30.0, 20.0], [37.0, 30.0, 30.0]])
    curve, d = theory_curve(result, points), 1 / (3 * 0.995)
    r = np.array([10.0, 7.0])
    expected = np.exp(-np.sqrt(0.005 / d) * r) / (4 * np.pi * d * r) * (1 - result.energy.specular.value)
    assert np.allclose(curve.fluence, expected)
    assert curve.valid.all()
    assert "surface" not in curve.text


def test_coefficients_voxel_by_voxel_count_where_the_light_begins():
    source = Pencil(position_mm=(30.0, 30.0, -0.5))
    plain = block(source)
    mua = np.full((60, 60, 60), 0.3)
    mua[30, 30, 0] = 0.02
    given = dataclasses.replace(plain, domain=dataclasses.replace(plain.domain, mua_per_mm=mua))
    assert theory_curve(given, [[30, 30, 10.0]]).medium.mua_per_mm == pytest.approx(0.02)


def test_where_there_is_no_theory_a_sentence_says_why():
    points = [[30.0, 30.0, 10.0]]
    with pytest.raises(InvalidInput, match="'line'"):
        theory_curve(block(Line(position_mm=(30.0, 30.0, 30.0))), points)
    water = dataclasses.replace(MEDIUM, mus_per_mm=0.0)
    with pytest.raises(InvalidInput, match="scatter"):
        theory_curve(block(Pencil(position_mm=(30.0, 30.0, -0.5)), medium=water), points)


def test_a_simulation_follows_the_curve():
    """Far from source and sides, theory and simulation agree within 4 %; mean over four lines on each side."""
    domain = Domain(labels=np.ones((60, 60, 60), np.uint8), affine=np.eye(4), media=(MEDIUM,))
    source = Pencil(position_mm=(29.5, 29.5, -0.5), direction=(0.0, 0.0, 1.0))
    result = simulate(domain, source, LightSettings(photons=50_000, seed=5), device="cpu")
    ratios = []
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        for rho in (9.0, 11.0, 13.0):
            at = (29.5 + dx * rho, 29.5 + dy * rho)
            profile = line_profile(result, (*at, 2.0), (*at, 14.0))
            curve = theory_curve(result, profile.points_mm)
            assert curve.valid.all()
            ratios.append((profile.fluence / curve.fluence).mean())
    assert np.std(ratios, ddof=1) / np.sqrt(len(ratios)) < 0.012  # the mean is known well enough
    assert abs(np.mean(ratios) - 1) < 0.04, ratios

"""Where photons of each kind of source start, and in which direction: seen by detectors all around a clear medium.

A photon in a clear medium goes straight, so where it leaves, its direction and its path give its start.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Medium
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import KINDS, Source
from tests.light.voxel_samples import check_z, make_domain, turned_affine

PHOTONS = 20_000
EDGE = 20.0  # mm
CENTER = np.full(3, EDGE / 2)
DIRECTIONS = [(0.0, 0.0, 1.0), (1.0, 2.0, -2.0)]
LEAST_P = 1e-4  # of a test of Kolmogorov and Smirnov, one chance in 10 000
TINY = 2e-5  # mm, of positions in single precision
A_HAIR = 4.1e-3  # mm, a thousandth of a voxel: by so much rays are kept off faces along which they run


class Start(NamedTuple):
    """Positions from the source's, along its frame (width, height, direction), and directions in it; shape (N, 3)."""

    position: np.ndarray
    direction: np.ndarray


def starts(device, source, *, photons=PHOTONS, n=1.0, seed=5):
    """Launch from the middle of a clear cube."""
    domain = make_domain((5, 5, 5), Medium(label=1, n=n), voxel_mm=EDGE / 5, outside_n=n)
    everywhere = Detector(position_mm=CENTER, radius_mm=10 * EDGE)
    source = dataclasses.replace(source, position_mm=CENTER)
    settings = LightSettings(photons=photons, seed=seed)
    detected = simulate(domain, source, settings, detectors=[everywhere], device=device).detected
    assert len(detected) == photons
    began = detected.position_mm - detected.direction * detected.path_mm
    frame = source.frame()
    return Start((began - CENTER) @ frame.T, detected.direction @ frame.T)


def check_uniform(values, low, high, tolerance=TINY):
    """Uniformly distributed, and not beyond the limits."""
    assert low - tolerance <= values.min() <= values.max() <= high + tolerance
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > LEAST_P


def check_round(x, y):
    """The azimuth is uniform."""
    check_uniform(np.arctan2(y, x), -np.pi, np.pi)


def check_independent(*values):
    """No two of these are correlated."""
    correlation = np.corrcoef(values)[np.triu_indices(len(values), 1)]
    check_z(correlation, np.full(len(correlation), 1 / np.sqrt(len(values[0]))))


def check_collimated(start):
    np.testing.assert_allclose(start.direction, np.tile([0.0, 0.0, 1.0], (len(start.direction), 1)), atol=1e-6)
    np.testing.assert_allclose(start.position[:, 2], 0.0, atol=TINY)


def check_at_a_point(start):
    np.testing.assert_allclose(start.position, 0.0, atol=2 * TINY)


def check_disk(start, radius):
    r = np.hypot(*start.position[:, :2].T)
    check_uniform((r / radius) ** 2, 0, 1)
    check_round(*start.position[:, :2].T)
    np.testing.assert_allclose(start.position[:, 2], 0.0, atol=TINY)
    assert r.mean() == pytest.approx(2 / 3 * radius, rel=0.02)


ALONG = pytest.mark.parametrize("direction", DIRECTIONS)


@ALONG
def test_pencil(device, direction):
    start = starts(device, Source(direction=direction), photons=160)
    check_collimated(start)
    check_at_a_point(start)


def test_isotropic(device):
    start = starts(device, Source(kind="isotropic"))
    check_at_a_point(start)
    x, y, z = start.direction.T
    for component in (x, y, z):  # Archimedes: every component is uniform
        check_uniform(component, -1, 1)
    check_round(x, y)
    check_independent(x * y, y * z, z * x)


@ALONG
@pytest.mark.parametrize("half_angle", [5.0, 20.0, 90.0, 180.0])
def test_cone(device, direction, half_angle):
    start = starts(device, Source(kind="cone", direction=direction, half_angle_deg=half_angle))
    check_at_a_point(start)
    cosine = np.cos(np.radians(half_angle))
    check_uniform((start.direction[:, 2] - cosine) / (1 - cosine), 0, 1)  # per solid angle
    check_round(*start.direction[:, :2].T)


@ALONG
@pytest.mark.parametrize("n", [1.0, 1.4])
def test_fiber(device, direction, n):
    """A disk that shines into the cone of its numerical aperture in the medium."""
    fiber = Source(kind="fiber", direction=direction, radius_mm=0.8, numerical_aperture=0.5)
    start = starts(device, fiber, n=n)
    check_disk(start, 0.8)
    cosine = np.sqrt(1 - (0.5 / n) ** 2)
    check_uniform((start.direction[:, 2] - cosine) / (1 - cosine), 0, 1)
    check_round(*start.direction[:, :2].T)
    check_independent(start.position[:, 0], start.position[:, 1], start.direction[:, 0], start.direction[:, 1])


@ALONG
def test_gaussian(device, direction):
    """Irradiance exp(-2 r^2 / w^2): 2 r^2 / w^2 is exponential, and 1 - exp(-2) of the light lies within w."""
    start = starts(device, Source(kind="gaussian", direction=direction, radius_mm=1.3))
    check_collimated(start)
    x, y = start.position[:, :2].T
    check_round(x, y)
    r2 = x**2 + y**2
    assert stats.kstest(2 * r2 / 1.3**2, "expon").pvalue > LEAST_P
    within = 1 - np.exp(-2)
    check_z((r2 < 1.3**2).mean() - within, np.sqrt(within * (1 - within) / PHOTONS))
    for side in (x, y):
        check_z(side.var() - 1.3**2 / 4, 1.3**2 / 4 * np.sqrt(2 / PHOTONS))
    check_independent(x, y)


@ALONG
def test_disk(device, direction):
    start = starts(device, Source(kind="disk", direction=direction, radius_mm=2.2))
    check_collimated(start)
    check_disk(start, 2.2)


@ALONG
@pytest.mark.parametrize("width_axis", [None, (1.0, 0.5, 0.2)])
def test_planar(device, direction, width_axis):
    source = Source(kind="planar", direction=direction, width_mm=3.0, height_mm=5.0, width_axis=width_axis)
    start = starts(device, source)
    check_collimated(start)
    check_uniform(start.position[:, 0], -1.5, 1.5, A_HAIR)
    check_uniform(start.position[:, 1], -2.5, 2.5, A_HAIR)
    check_independent(start.position[:, 0], start.position[:, 1])


@ALONG
def test_pattern(device, direction):
    """Each pixel gets its share, at its place: columns along the width, rows along the height."""
    image = np.array([[0.0, 1.0, 4.0, 0.0], [3.0, 0.0, 0.5, 2.0], [0.0, 0.0, 0.0, 6.0]])
    source = Source(kind="pattern", direction=direction, width_mm=4.0, height_mm=6.0, pattern=image)
    start = starts(device, source)
    check_collimated(start)
    column, row = (start.position[:, 0] + 2.0) / 1.0, (start.position[:, 1] + 3.0) / 2.0
    counts, *_ = np.histogram2d(row, column, bins=(3, 4), range=((0, 3), (0, 4)))
    assert counts.sum() == PHOTONS
    assert not counts[image == 0].any()
    lit = image > 0
    expected = PHOTONS * image[lit] / image.sum()
    assert stats.chisquare(counts[lit], expected).pvalue > LEAST_P
    check_uniform(column % 1, 0, 1)
    check_uniform(row % 1, 0, 1)


def test_pattern_of_a_large_image(device):
    """A beam profile of many pixels keeps its moments."""
    y, x = np.mgrid[-1:1:301j, -1:1:201j]
    image = np.exp(-8 * (x - 0.2) ** 2 - 4 * y**2)
    start = starts(device, Source(kind="pattern", width_mm=6.0, height_mm=4.0, pattern=image))
    for values, coordinate, size in ((start.position[:, 0], x, 6.0), (start.position[:, 1], y, 4.0)):
        centers = coordinate * size / 2 * (1 - 1 / image.shape[0 if size == 4.0 else 1])
        mean = (image * centers).sum() / image.sum()
        spread = np.sqrt((image * (centers - mean) ** 2).sum() / image.sum())
        check_z(values.mean() - mean, spread / np.sqrt(PHOTONS))
        check_z(values.std() - spread, spread / np.sqrt(2 * PHOTONS))


@ALONG
def test_line(device, direction):
    start = starts(device, Source(kind="line", direction=direction, length_mm=6.0))
    np.testing.assert_allclose(start.position[:, :2], 0.0, atol=2 * TINY)
    check_uniform(start.position[:, 2], -3, 3)
    for component in start.direction.T:
        check_uniform(component, -1, 1)
    check_independent(start.position[:, 2], *start.direction.T)


@ALONG
def test_cylinder(device, direction):
    """A diffuser: everywhere on its side, outwards, with the cosine law around the normal there."""
    start = starts(device, Source(kind="cylinder", direction=direction, radius_mm=1.5, length_mm=6.0))
    x, y, z = start.position.T
    np.testing.assert_allclose(np.hypot(x, y), 1.5, atol=2 * TINY)
    check_round(x, y)
    check_uniform(z, -3, 3)
    normal = np.column_stack([x / 1.5, y / 1.5, 0 * x])
    cosine = (start.direction * normal).sum(axis=1)
    check_uniform(cosine**2, 0, 1)
    around = np.column_stack([-normal[:, 1], normal[:, 0]])
    across = (start.direction[:, :2] * around).sum(axis=1)
    check_round(across, start.direction[:, 2])
    check_independent(z, cosine, across, start.direction[:, 2])


@ALONG
def test_lambertian(device, direction):
    start = starts(device, Source(kind="lambertian", direction=direction, radius_mm=2.0))
    check_disk(start, 2.0)
    check_uniform(start.direction[:, 2] ** 2, 0, 1)  # the cosine law: P(cos < c) = c^2
    check_round(*start.direction[:, :2].T)
    assert start.direction[:, 2].mean() == pytest.approx(2 / 3, abs=0.01)
    check_independent(*start.position[:, :2].T, *start.direction[:, :2].T)


@pytest.mark.parametrize("kind", KINDS)
def test_sources_in_turned_volumes(device, kind):
    """A left-handed, rotated volume: the same light in the world."""
    image = np.array([[1.0, 2.0], [3.0, 4.0]])
    source = Source(
        kind=kind, direction=(0.3, -1, 2), radius_mm=1.0, width_mm=2.0, height_mm=3.0, length_mm=4.0,
        pattern=image if kind == "pattern" else None,
    )  # fmt: skip
    domain = make_domain((24, 12, 8), Medium(label=1, n=1.0), affine=turned_affine())
    center = domain.grid_to_world((12, 12, 12))
    everywhere = Detector(position_mm=center, radius_mm=200.0)
    source = dataclasses.replace(source, position_mm=center)
    detected = simulate(
        domain, source, LightSettings(photons=160, seed=5), detectors=[everywhere], device=device
    ).detected
    began = (detected.position_mm - detected.direction * detected.path_mm - center) @ source.frame().T
    plain = starts(device, source, photons=160)
    np.testing.assert_allclose(began, plain.position, atol=1e-4)
    np.testing.assert_allclose(detected.direction @ source.frame().T, plain.direction, atol=2e-6)


def test_photons_of_neighboring_indices_and_seeds_have_nothing_in_common(device):
    source = Source(kind="isotropic")
    z = starts(device, source).direction[:, 2]
    other = starts(device, source, seed=6).direction[:, 2]
    check_independent(z[:-1], z[1:], other[:-1])
    assert len(np.unique(z)) > 0.99 * PHOTONS

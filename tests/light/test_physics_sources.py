"""Where photons of each kind of source start, and in which direction: seen by detectors all around a clear medium.

A photon in a clear medium goes straight, so where it leaves, its direction and its path give its start.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import (
    KINDS,
    Cone,
    Cylinder,
    Disk,
    EvenCone,
    Fiber,
    Gaussian,
    Hyperboloid,
    Isotropic,
    Lambertian,
    Line,
    Pattern,
    Pencil,
    PencilArray,
    Planar,
    RadialLine,
    Slit,
)
from tests.light.voxel_samples import check_z, make_domain, source_of, turned_affine

PHOTONS, MANY = 20_000, 100_000
EDGE = 20.0  # mm
CENTER = np.full(3, EDGE / 2)
DIRECTIONS = [(0.0, 0.0, 1.0), (1.0, 2.0, -2.0)]
MIN_P = 1e-4  # of a test of Kolmogorov and Smirnov, one chance in 10 000
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
    assert stats.kstest(values, "uniform", (low, high - low)).pvalue > MIN_P


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
    start = starts(device, Pencil(direction=direction), photons=160)
    check_collimated(start)
    check_at_a_point(start)


def test_isotropic(device):
    start = starts(device, Isotropic())
    check_at_a_point(start)
    x, y, z = start.direction.T
    for component in (x, y, z):  # Archimedes: every component is uniform
        check_uniform(component, -1, 1)
    check_round(x, y)
    check_independent(x * y, y * z, z * x)


@ALONG
@pytest.mark.parametrize("half_angle", [5.0, 20.0, 90.0, 180.0])
def test_cone(device, direction, half_angle):
    start = starts(device, Cone(direction=direction, half_angle_deg=half_angle))
    check_at_a_point(start)
    cosine = np.cos(np.radians(half_angle))
    check_uniform((start.direction[:, 2] - cosine) / (1 - cosine), 0, 1)  # per solid angle
    check_round(*start.direction[:, :2].T)


@ALONG
@pytest.mark.parametrize("n", [1.0, 1.4])
def test_fiber(device, direction, n):
    """A disk that emits into the cone of its numerical aperture in the medium."""
    fiber = Fiber(direction=direction, radius_mm=0.8, numerical_aperture=0.5)
    start = starts(device, fiber, n=n)
    check_disk(start, 0.8)
    cosine = np.sqrt(1 - (0.5 / n) ** 2)
    check_uniform((start.direction[:, 2] - cosine) / (1 - cosine), 0, 1)
    check_round(*start.direction[:, :2].T)
    check_independent(start.position[:, 0], start.position[:, 1], start.direction[:, 0], start.direction[:, 1])


@ALONG
def test_gaussian(device, direction):
    """Irradiance exp(-2 r^2 / w^2): 2 r^2 / w^2 is exponential, and 1 - exp(-2) of the light lies within w."""
    start = starts(device, Gaussian(direction=direction, radius_mm=1.3))
    check_collimated(start)
    x, y = start.position[:, :2].T
    check_round(x, y)
    r2 = x**2 + y**2
    assert stats.kstest(2 * r2 / 1.3**2, "expon").pvalue > MIN_P
    within = 1 - np.exp(-2)
    check_z((r2 < 1.3**2).mean() - within, np.sqrt(within * (1 - within) / PHOTONS))
    for side in (x, y):
        check_z(side.var() - 1.3**2 / 4, 1.3**2 / 4 * np.sqrt(2 / PHOTONS))
    check_independent(x, y)


@ALONG
def test_disk(device, direction):
    start = starts(device, Disk(direction=direction, radius_mm=2.2))
    check_collimated(start)
    check_disk(start, 2.2)


@ALONG
@pytest.mark.parametrize("width_axis", [None, (1.0, 0.5, 0.2)])
def test_planar(device, direction, width_axis):
    source = Planar(direction=direction, width_mm=3.0, height_mm=5.0, width_axis=width_axis)
    start = starts(device, source)
    check_collimated(start)
    check_uniform(start.position[:, 0], -1.5, 1.5, A_HAIR)
    check_uniform(start.position[:, 1], -2.5, 2.5, A_HAIR)
    check_independent(start.position[:, 0], start.position[:, 1])


@ALONG
def test_pattern(device, direction):
    """Each pixel gets its share, at its place: columns along the width, rows along the height."""
    image = np.array([[0.0, 1.0, 4.0, 0.0], [3.0, 0.0, 0.5, 2.0], [0.0, 0.0, 0.0, 6.0]])
    source = Pattern(direction=direction, width_mm=4.0, height_mm=6.0, pattern=image)
    start = starts(device, source)
    check_collimated(start)
    column, row = (start.position[:, 0] + 2.0) / 1.0, (start.position[:, 1] + 3.0) / 2.0
    counts, *_ = np.histogram2d(row, column, bins=(3, 4), range=((0, 3), (0, 4)))
    assert counts.sum() == PHOTONS
    assert not counts[image == 0].any()
    lit = image > 0
    expected = PHOTONS * image[lit] / image.sum()
    assert stats.chisquare(counts[lit], expected).pvalue > MIN_P
    check_uniform(column % 1, 0, 1)
    check_uniform(row % 1, 0, 1)


def test_pattern_of_a_large_image(device):
    """A beam profile of many pixels keeps its moments."""
    y, x = np.mgrid[-1:1:301j, -1:1:201j]
    image = np.exp(-8 * (x - 0.2) ** 2 - 4 * y**2)
    start = starts(device, Pattern(width_mm=6.0, height_mm=4.0, pattern=image))
    for values, coordinate, size in ((start.position[:, 0], x, 6.0), (start.position[:, 1], y, 4.0)):
        centers = coordinate * size / 2 * (1 - 1 / image.shape[0 if size == 4.0 else 1])
        mean = (image * centers).sum() / image.sum()
        spread = np.sqrt((image * (centers - mean) ** 2).sum() / image.sum())
        check_z(values.mean() - mean, spread / np.sqrt(PHOTONS))
        check_z(values.std() - spread, spread / np.sqrt(2 * PHOTONS))


@ALONG
def test_line(device, direction):
    start = starts(device, Line(direction=direction, length_mm=6.0))
    np.testing.assert_allclose(start.position[:, :2], 0.0, atol=2 * TINY)
    check_uniform(start.position[:, 2], -3, 3)
    for component in start.direction.T:
        check_uniform(component, -1, 1)
    check_independent(start.position[:, 2], *start.direction.T)


@ALONG
def test_cylinder(device, direction):
    """A diffuser: everywhere on its side, outwards, with the cosine law around the normal there."""
    start = starts(device, Cylinder(direction=direction, radius_mm=1.5, length_mm=6.0))
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
    start = starts(device, Lambertian(direction=direction, radius_mm=2.0))
    check_disk(start, 2.0)
    check_uniform(start.direction[:, 2] ** 2, 0, 1)  # the cosine law: P(cos < c) = c^2
    check_round(*start.direction[:, :2].T)
    assert start.direction[:, 2].mean() == pytest.approx(2 / 3, abs=0.01)
    check_independent(*start.position[:, :2].T, *start.direction[:, :2].T)


@ALONG
@pytest.mark.parametrize("kind", ["disk", "lambertian"])
def test_ring_and_sector(device, direction, kind):
    """Uniform in area between two radii and two azimuths."""
    ring = KINDS[kind](direction=direction, radius_mm=2.0, inner_radius_mm=1.5, sector_deg=(-30.0, 200.0))
    x, y = starts(device, ring).position[:, :2].T
    check_uniform(x**2 + y**2, 1.5**2, 2.0**2, 1e-3)
    check_uniform(np.degrees(np.arctan2(y, x) + np.pi / 6) % 360, 0, 230, 0.1)
    check_independent(x**2 + y**2, (np.arctan2(y, x) + np.pi / 6) % (2 * np.pi))


@ALONG
def test_slit(device, direction):
    start = starts(device, Slit(direction=direction, width_mm=3.0))
    check_collimated(start)
    check_uniform(start.position[:, 0], -1.5, 1.5, A_HAIR)
    np.testing.assert_allclose(start.position[:, 1], 0.0, atol=A_HAIR)


@ALONG
@pytest.mark.parametrize(("along", "across"), [(0.0, 0.3), (0.5, 0.1), (1.5, 0.0)])
def test_slit_with_spread(device, direction, along, across):
    """Slopes along and across the slit are normally distributed and independent."""
    slit = Slit(direction=direction, width_mm=3.0, spread_along=along, spread_across=across)
    start = starts(device, slit, photons=MANY)
    check_uniform(start.position[:, 0], -1.5, 1.5, A_HAIR)
    np.testing.assert_allclose(start.position[:, 1], 0.0, atol=A_HAIR)
    slopes = start.direction[:, :2] / start.direction[:, 2:]
    for values, spread in zip(slopes.T, (along, across), strict=True):
        if spread:
            assert stats.kstest(values / spread, "norm").pvalue > MIN_P
        else:
            np.testing.assert_allclose(values, 0.0, atol=1e-6)
    if along and across:
        check_independent(start.position[:, 0], *slopes.T)


@ALONG
@pytest.mark.parametrize("sector", [None, (-30.0, 30.0), (100.0, 350.0)])
def test_radial_line(device, direction, sector):
    """At right angles to the segment, evenly around it or into a sector."""
    line = RadialLine(direction=direction, length_mm=6.0, sector_deg=sector)
    start = starts(device, line, photons=MANY)
    np.testing.assert_allclose(start.position[:, :2], 0.0, atol=2 * TINY)
    np.testing.assert_allclose(start.direction[:, 2], 0.0, atol=1e-6)
    check_uniform(start.position[:, 2], -3, 3, A_HAIR)
    first, last = sector or (0.0, 360.0)
    azimuth = (np.degrees(np.arctan2(start.direction[:, 1], start.direction[:, 0])) - first + 0.01) % 360 - 0.01
    check_uniform(azimuth, 0, last - first, 0.02)
    check_independent(start.position[:, 2], azimuth)


@ALONG
@pytest.mark.parametrize(("columns", "rows"), [(4, 3), (5, 1), (1, 2)])
def test_pencil_array(device, direction, columns, rows):
    """Every beam has its share; the outer ones lie on the edges, a single one in the middle."""
    array = PencilArray(direction=direction, width_mm=3.0, height_mm=5.0, columns=columns, rows=rows)
    start = starts(device, array)
    check_collimated(start)
    places = [np.linspace(-size / 2, size / 2, count) if count > 1 else np.zeros(1)
              for size, count in ((3.0, columns), (5.0, rows))]  # fmt: skip
    nearest = [np.abs(start.position[:, axis, None] - places[axis]).argmin(axis=1) for axis in (0, 1)]
    for axis in (0, 1):
        np.testing.assert_allclose(start.position[:, axis], places[axis][nearest[axis]], atol=A_HAIR)
    counts = np.bincount(nearest[0] * rows + nearest[1], minlength=columns * rows)
    assert stats.chisquare(counts).pvalue > MIN_P


@pytest.mark.parametrize("kind", ["fourier", "fourier_2d"])
@pytest.mark.parametrize(("cycles", "phase", "modulation"), [
    ((3.0, 0.0), 0.0, 1.0), ((2.5, 1.0), 70.0, 0.6), ((0.0, 2.0), -90.0, 0.0), ((1.5, 3.0), 180.0, 1.0)
])  # fmt: skip
def test_fourier(device, kind, cycles, phase, modulation):
    """The integral of the irradiance over each of 20 x 20 fields, and nothing beyond the rectangle."""
    fringes = source_of(
            kind, width_mm=3.0, height_mm=5.0, cycles_across=cycles[0], cycles_up=cycles[1], phase_deg=phase,
        phase_up_deg=90.0, modulation=modulation,
    )  # fmt: skip
    start = starts(device, fringes, photons=MANY)
    check_collimated(start)
    u, v = start.position[:, 0] / 3.0 + 0.5, start.position[:, 1] / 5.0 + 0.5
    counts, *_ = np.histogram2d(u, v, bins=20, range=((-1e-3, 1 + 1e-3), (-1e-3, 1 + 1e-3)))
    assert counts.sum() == MANY
    fine = (np.arange(400) + 0.5) / 400
    across, up = (2 * np.pi * np.multiply(fine, n) for n in cycles)
    if kind == "fourier":
        wave = np.cos(across[:, None] + up + np.radians(phase))
    else:
        wave = np.sin(across[:, None] + np.radians(phase)) * np.sin(up + np.pi / 2)
    expected = (1 + modulation * wave).reshape(20, 20, 20, 20).sum(axis=(1, 3))
    expected *= MANY / expected.sum()
    enough = expected > 5  # the other fields are taken together
    groups = np.where(enough, np.arange(enough.size).reshape(enough.shape), enough.size).ravel()
    sums = [np.bincount(groups, values.ravel()) for values in (counts, expected)]
    assert stats.chisquare(*(values[sums[1] > 0] for values in sums)).pvalue > MIN_P


@pytest.mark.parametrize(("width", "height", "direction"), [
    ((1.0, 0.0, 0.0), (0.6, 0.8, 0.0), (0.0, 0.0, 1.0)),  # a parallelogram
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, 0.0, 0.8)),  # light at an angle
    ((1.0, 0.2, 0.0), (0.5, 1.0, 0.3), (0.1, -0.2, 1.0)),
])  # fmt: skip
def test_parallelogram(device, width, height, direction):
    """Evenly over both edges, all along one direction that need not be at right angles to them."""
    source = Planar(direction=direction, width_axis=width, height_axis=height, width_mm=3.0, height_mm=5.0)
    frame = source.frame()
    start = starts(device, source, photons=MANY)
    world_direction = start.direction @ np.linalg.inv(frame.T)
    np.testing.assert_allclose(world_direction, np.tile(frame[2], (MANY, 1)), atol=2e-6)
    along = (start.position @ np.linalg.inv(frame.T)) @ np.linalg.inv(frame)  # parts of both edges and of the ray
    np.testing.assert_allclose(along[:, 2], 0.0, atol=A_HAIR)
    check_uniform(along[:, 0], -1.5, 1.5, 2 * A_HAIR)
    check_uniform(along[:, 1], -2.5, 2.5, 2 * A_HAIR)
    check_independent(along[:, 0], along[:, 1])


@ALONG
@pytest.mark.parametrize("kind", ["gaussian", "disk", "planar", "slit", "pencil_array", "fourier"])
@pytest.mark.parametrize("focus", [4.0, -2.0])
def test_focus(device, direction, kind, focus):
    """All rays pass through one point of the axis, ahead or behind; where they start does not change."""
    sizes = {"radius_mm": 0.7, "width_mm": 2.0, "height_mm": 1.0, "focus_mm": focus}
    source = source_of(kind, direction=direction, **sizes)
    start = starts(device, source, photons=4000)
    reach = (focus - start.position[:, 2]) / start.direction[:, 2]
    np.testing.assert_allclose(start.position + reach[:, None] * start.direction, [[0, 0, focus]] * 4000, atol=4e-3)
    assert (start.direction[:, 2] > 0).all()
    plain = starts(device, dataclasses.replace(source, focus_mm=0.0), photons=4000)
    np.testing.assert_allclose(start.position, plain.position, atol=2 * A_HAIR)


@pytest.mark.parametrize("focus", [4.0, -2.0])
def test_focus_of_a_parallelogram(device, focus):
    """Rays from oblique edges pass through the point on the direction from the middle, too, and have length 1."""
    source = Planar(
        direction=(0.0, 0.3, 1.0), width_axis=(1.0, 0.2, 0.1), height_axis=(0.5, 1.0, 0.0),
        width_mm=2.0, height_mm=1.0, focus_mm=focus,
    )  # fmt: skip
    start, to_world = starts(device, source, photons=2000), np.linalg.inv(source.frame().T)
    position, direction = start.position @ to_world, start.direction @ to_world
    point = focus * source.frame()[2]
    reach = ((point - position) * direction).sum(axis=1)
    passed = position + reach[:, None] * direction
    np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(passed, np.broadcast_to(point, passed.shape), atol=4e-3)
    assert (np.sign(reach) == np.sign(focus)).all()


@ALONG
@pytest.mark.parametrize("waist_at", [0.0, 5.0, -3.0])
def test_hyperboloid(device, direction, waist_at):
    """At every distance the irradiance is Gaussian, with the 1/e^2 radius w sqrt(1 + ((z - f) / z_R)^2)."""
    beam = Hyperboloid(direction=direction, radius_mm=0.4, focus_mm=waist_at, rayleigh_mm=4.0)
    start = starts(device, beam)
    for z in (0.0, 3.0, 8.0):
        at = start.position + start.direction * ((z - start.position[:, 2]) / start.direction[:, 2])[:, None]
        radius = 0.4 * np.hypot(1.0, (z - waist_at) / 4.0)
        assert stats.kstest(2 * (at[:, 0] ** 2 + at[:, 1] ** 2) / radius**2, "expon").pvalue > MIN_P
        check_round(at[:, 0], at[:, 1])


@ALONG
@pytest.mark.parametrize("half_angle", [15.0, 180.0])
def test_even_cone(device, direction, half_angle):
    start = starts(device, EvenCone(direction=direction, half_angle_deg=half_angle))
    check_at_a_point(start)
    polar = np.degrees(np.arctan2(np.hypot(*start.direction[:, :2].T), start.direction[:, 2]))
    check_uniform(polar, 0, half_angle, 1e-3)
    check_round(*start.direction[:, :2].T)


@ALONG
def test_normal_cones(device, direction):
    """Polar angles: size of a normal number; of MCX's, that of sqrt(2 E) (1 - 2 U), with 2/3 of its variance."""
    random = np.random.default_rng(3)
    copy = np.sqrt(2 * random.exponential(size=100_000)) * (1 - 2 * random.random(100_000))
    for kind, expected in (("normal_cone", stats.halfnorm.cdf), ("zgaussian", np.abs(copy))):
        start = starts(device, KINDS[kind](direction=direction, angle_sd_deg=12.0))
        check_at_a_point(start)
        polar = np.degrees(np.arctan2(np.hypot(*start.direction[:, :2].T), start.direction[:, 2])) / 12.0
        assert stats.kstest(polar, expected).pvalue > MIN_P
        assert np.mean(polar**2) == pytest.approx(1.0 if kind == "normal_cone" else 2 / 3, rel=0.05)
        check_round(*start.direction[:, :2].T)


@ALONG
@pytest.mark.parametrize("kind", ["pencil", "disk", "pencil_array"])
def test_launch_angles(device, direction, kind):
    """Angles at equal steps of the distribution function, linear between them."""
    table = (0.0, 5.0, 5.0, 20.0, 170.0)
    start = starts(device, source_of(kind, direction=direction, launch_angles_deg=table, radius_mm=1.2))
    if kind == "disk":
        check_disk(start, 1.2)
    angle = np.degrees(np.arccos(np.clip(start.direction[:, 2], -1, 1)))
    share = np.interp(angle, table, np.linspace(0, 1, 5))
    at_five = np.abs(angle - 5.0) < 1e-3  # a quarter of the photons
    check_z(at_five.mean() - 0.25, np.sqrt(0.25 * 0.75 / len(angle)))
    check_uniform(np.where(share < 0.5, share, share - 0.25)[~at_five] / 0.75, 0, 1, tolerance=1e-4)
    check_round(*start.direction[angle > 1.0, :2].T)


def test_discrete_launch_angles(device):
    table = (10.0, 20.0, 20.0, 60.0)
    start = starts(device, Pencil(launch_angles_deg=table, launch_angles_are_discrete=True))
    check_at_a_point(start)
    angle = np.degrees(np.arccos(start.direction[:, 2]))
    counts = [np.count_nonzero(np.abs(angle - one) < 1e-3) for one in (10.0, 20.0, 60.0)]
    assert sum(counts) == len(angle)
    assert stats.chisquare(counts, len(angle) * np.array([0.25, 0.5, 0.25])).pvalue > MIN_P
    check_round(*start.direction[:, :2].T)


@pytest.mark.parametrize("kind", KINDS)
def test_sources_in_turned_volumes(device, kind):
    """A left-handed, rotated volume: the same light in the world."""
    image = np.array([[1.0, 2.0], [3.0, 4.0]])
    source = source_of(
            kind, direction=(0.3, -1, 2), radius_mm=1.0, width_mm=2.0, height_mm=3.0, length_mm=4.0,
        pattern={"pattern": image, "volume": image[:, :, None]}.get(kind),
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
    source = Isotropic()
    z = starts(device, source).direction[:, 2]
    other = starts(device, source, seed=6).direction[:, 2]
    check_independent(z[:-1], z[1:], other[:-1])
    assert len(np.unique(z)) > 0.99 * PHOTONS

"""Scattering: the moments of Henyey and Greenstein's function, free paths, directions that stay unit vectors."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.jit import kernel
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.kernels import physics
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from tests.light.voxel_samples import TISSUE, check_z, make_domain

ANISOTROPIES = [-1.0, -0.9, -0.3, 0.0, 1e-4, 9.9e-4, 1.1e-3, 0.3, 0.75, 0.9, 0.95, 0.99, 1.0]


def run(device, domain, source, detectors=(), **settings):
    return simulate(domain, source, LightSettings(**settings), detectors=detectors, device=device)


@kernel
def cosines(g, count):
    out = np.empty(count)
    for i in range(count):
        out[i] = physics.scattering_cosine(g, np.float32((i + 0.5) / count))
    return out


@kernel
def turn_often(times, ct, phi):
    """Directions after many turns by the same angle and ever another azimuth."""
    x, y, z = np.float32(0.0), np.float32(0.0), np.float32(1.0)
    out = np.empty((times, 3), np.float32)
    for i in range(times):
        x, y, z = physics.turned(x, y, z, ct, np.float32(np.cos(phi * i)), np.float32(np.sin(phi * i)))
        out[i, 0], out[i, 1], out[i, 2] = x, y, z
    return out


@pytest.mark.parametrize("g", ANISOTROPIES)
def test_moments_of_the_scattering_angle(g):
    """The mean of the n-th Legendre polynomial is g^n; over evenly spaced random numbers, so without noise."""
    mu = cosines(np.float32(g), 1_000_000)
    assert np.abs(mu).max() <= 1.0 + 1e-4  # `turned` brings the length back to 1
    legendre = [mu, 1.5 * mu**2 - 0.5, 2.5 * mu**3 - 1.5 * mu]
    # near |g| = 1, and just above the switch to the series, the cosine comes from small differences
    single = 3e-5 if abs(g) > 0.98 or 0 < abs(g) < 0.01 else 2e-6
    np.testing.assert_allclose([p.mean() for p in legendre], [g, g**2, g**3], atol=single)


@pytest.mark.parametrize("g", [-0.9, 0.5, 0.9])
def test_distribution_of_the_scattering_angle(g):
    """The cumulative distribution of the phase function, at every tenth part of it."""
    mu = np.sort(cosines(np.float32(g), 1_000_000))
    at = mu[99_999::100_000]
    cumulative = (1 - g**2) / (2 * g) * (1 / np.sqrt(1 + g**2 - 2 * g * at) - 1 / (1 + g))
    np.testing.assert_allclose(cumulative, np.arange(1, 11) / 10, atol=5e-6)


@pytest.mark.parametrize(("cosine", "most"), [(0.999, 1e-5), (0.5, 5e-7), (-0.9, 5e-7), (-1.0, 3e-7), (1.0, 3e-7)])
def test_directions_stay_unit_vectors(cosine, most):
    """After a hundred thousand turns in single precision; and each turn is by its angle.

    What is wrong with a length shrinks by the squared sine of the angle, on average by half of it, at every turn.
    """
    directions = turn_often(100_000, np.float32(cosine), 2.4).astype(np.float64)
    assert np.abs(np.linalg.norm(directions, axis=1) - 1.0).max() < most
    turned_by = (directions[1:] * directions[:-1]).sum(axis=1)
    np.testing.assert_allclose(turned_by, cosine, atol=1e-6 + 2 * most)


@kernel
def turn_from(directions, ct, cp, sp):
    out = np.empty_like(directions)
    for i in range(len(directions)):
        x, y, z = physics.turned(directions[i, 0], directions[i, 1], directions[i, 2], ct, cp, sp)
        out[i, 0], out[i, 1], out[i, 2] = x, y, z
    return out


def test_turning_works_at_the_poles():
    """Straight up, straight down, and just beside it: no division by nothing."""
    hair = 1e-7
    poles = np.array(
        [[0, 0, 1], [0, 0, -1], [hair, 0, 1], [0, hair, -1], [1, 0, 0.0], [1, 0, -0.0], [0.6, 0.8, -1e-8]], np.float32
    )
    for phi in (0.0, 1.0, 4.0):
        turned = turn_from(poles, np.float32(0.6), np.float32(np.cos(phi)), np.float32(np.sin(phi))).astype(float)
        np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1.0, atol=3e-7)
        np.testing.assert_allclose((turned * poles).sum(axis=1), 0.6, atol=1e-6)


# -- in the engine ----------------------------------------------------------------------------------------------------

THIN = 4.0  # mm
STEEP = 0.5  # least cosine to the plate's normal
EVERYWHERE = Detector(position_mm=(20, 20, 2), radius_mm=100.0)


def scattered_once(device, g, axis, photons=60_000):
    """Cosines of the scattering angle of photons that scattered once in a thin plate, with their weights.

    A photon that scattered once has not scattered again on its way out, which depends on the angle; the weight undoes
    that. Behind the scattering, the lateral distance over the sine is the path.
    """
    mus = 0.4
    shape = np.roll([20, 20, 4], axis - 2)
    sizes = np.roll([2.0, 2.0, 1.0], axis - 2)
    domain = make_domain(tuple(shape), Medium(label=1, mus_per_mm=mus, g=g, n=1.0), voxel_mm=sizes)
    start = np.full(3, 20.0)
    start[axis] = 0.0
    source = Pencil(position_mm=start, direction=np.eye(3)[axis])
    middle = dataclasses.replace(EVERYWHERE, position_mm=start)
    detected = run(device, domain, source, [middle], photons=photons, seed=3).detected
    once = detected.scatterings == 1
    direction, position = detected.direction[once], detected.position_mm[once] - start
    cosine = direction[:, axis]
    sine = np.sqrt(np.maximum(1 - cosine**2, 1e-12))
    lateral = np.linalg.norm(np.delete(position, axis, axis=1), axis=1)
    behind = np.minimum(lateral / sine, detected.path_mm[once, 0])
    return cosine, np.exp(mus * behind), np.delete(direction, axis, axis=1), len(detected)


def moments_away_from_the_side(g):
    """Means of the first two Legendre polynomials over the phase function, without directions beside the plate."""
    mu = np.linspace(-1.0, 1.0, 400_001)[:-1] + 2.5e-6
    density = (1 + g**2 - 2 * g * mu) ** -1.5 * (np.abs(mu) > STEEP)
    return [(density * p).sum() / density.sum() for p in (mu, 1.5 * mu**2 - 0.5)]


@pytest.mark.parametrize(("g", "axis"), [(-0.9, 2), (0.0, 0), (1e-4, 1), (0.6, 2), (0.95, 0)])
def test_light_that_scattered_once(device, g, axis):
    cosine, weight, lateral, detected = scattered_once(device, g, axis)
    assert len(cosine) > 10_000
    weight = weight * (np.abs(cosine) > STEEP)  # beside the plane, few escape and stand for hundreds
    for values, expected in zip((cosine, 1.5 * cosine**2 - 0.5), moments_away_from_the_side(g), strict=True):
        mean = (weight * values).sum() / weight.sum()
        error = np.sqrt((weight**2 * (values - mean) ** 2).sum()) / weight.sum()
        check_z(mean - expected, error)
    # no side is preferred
    check_z(lateral.mean(axis=0), lateral.std(axis=0) / np.sqrt(len(lateral)))
    product = lateral[:, 0] * lateral[:, 1]
    check_z(product.mean(), product.std() / np.sqrt(len(lateral)))
    assert detected == 60_000


def test_light_that_scatters_forward_only_goes_straight(device):
    """g = 1 is as good as no scattering."""
    forward = dataclasses.replace(TISSUE, g=1.0, mus_per_mm=20.0)
    source = Pencil(position_mm=(1.5, 1.5, 0.0))
    found, expected = (
        run(device, make_domain((3, 3, 9), medium, outside_n=medium.n), source, photons=1600)
        for medium in (forward, dataclasses.replace(forward, mus_per_mm=0.0))
    )
    np.testing.assert_allclose(found.fluence, expected.fluence, rtol=2e-5)


@pytest.mark.parametrize("mus", [0.05, 0.4, 3.0])
def test_number_of_scatterings(device, mus):
    """Poisson along a path that scattering does not bend: mean and variance mus L."""
    length, photons = 6.0, 20_000
    domain = make_domain((3, 3, 6), Medium(label=1, mus_per_mm=mus, g=1.0, n=1.0))
    everywhere = Detector(position_mm=(1.5, 1.5, 3.0), radius_mm=50.0)
    result = run(device, domain, Pencil(position_mm=(1.5, 1.5, 0.0)), [everywhere], photons=photons)
    counts = result.detected.scatterings.astype(float)
    assert len(counts) == photons
    expected = mus * length
    check_z(counts.mean() - expected, np.sqrt(expected / photons))
    spread = np.sqrt((expected + 2 * expected**2) / photons)  # of the variance of a Poisson distribution
    check_z(counts.var() - expected, spread)
    check_z((counts == 0).mean() - np.exp(-expected), np.sqrt(np.exp(-expected) / photons))


def test_free_paths_do_not_see_faces_of_voxels(device):
    """Light that did not scatter: exp(-mus z) at every depth, in voxels of very different edges."""
    mus, photons = 0.8, 40_000
    medium = Medium(label=1, mus_per_mm=mus, g=0.0, n=1.0)
    back_to_back = make_domain((1, 1, 40), medium, voxel_mm=(30.0, 30.0, 0.05))
    far = Detector(position_mm=(15, 15, 2.0), radius_mm=0.02, normal=(0, 0, 1))
    result = run(device, back_to_back, Pencil(position_mm=(15, 15, 0.0)), [far], photons=photons)
    unscattered = (result.detected.scatterings == 0).sum() / photons
    expected = np.exp(-mus * 2.0)
    check_z(unscattered - expected, np.sqrt(expected * (1 - expected) / photons))


def test_an_isotropic_source_prefers_no_side(device):
    """A point in the middle of a cube: the eight octants absorb the same, and mirror images agree."""
    labels = np.ones((11, 11, 11), np.uint8)
    sides = (np.arange(11) > 5).astype(np.uint8)
    labels += sides[:, None, None] + 2 * sides[:, None] + 4 * sides
    labels[5], labels[:, 5], labels[:, :, 5] = 9, 9, 9
    media = tuple(dataclasses.replace(TISSUE, label=label, mua_per_mm=0.1) for label in range(1, 10))
    source = Isotropic(position_mm=(5.5, 5.5, 5.5))
    result = run(device, make_domain(labels, *media), source, photons=32_000)
    octants = np.array([result.absorbed[label] for label in range(1, 9)])
    check_z(octants[:, 0] - octants[:, 0].mean(), octants[:, 1])
    for axis in range(3):
        half = (slice(None),) * axis + (slice(0, 5),)
        difference = (result.fluence - np.flip(result.fluence, axis))[half]
        error = np.hypot(result.fluence_error, np.flip(result.fluence_error, axis))[half]
        z = difference / error
        assert np.abs(z).max() < 6.0  # 16 batches: Student's t, and 605 voxels
        assert (z**2).mean() == pytest.approx(1.0, abs=0.35)


def test_light_spreads_along_all_axes_alike(device):
    """A cube seen from its six sides: the same absorbed and escaped fractions."""
    domain = make_domain((8, 8, 8), dataclasses.replace(TISSUE, mua_per_mm=0.05))
    results = []
    for side in range(6):
        direction = np.eye(3)[side // 2] * (1 - 2 * (side % 2))
        source = Pencil(position_mm=4 - 4 * direction, direction=direction)
        results.append(run(device, domain, source, photons=16_000, seed=side).energy)
    for name in ("absorbed", "escaped"):
        parts = np.array([getattr(energy, name) for energy in results])
        check_z(parts[:, 0] - parts[:, 0].mean(), parts[:, 1])

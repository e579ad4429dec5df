"""Strongly scattered light against diffusion theory, in space and in time."""

import numpy as np
import pytest

from napari_gpubio.light.model import Medium
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from napari_gpubio.light.theory import fluence_rate_semi_infinite, fluence_semi_infinite
from tests.light.voxel_samples import make_domain, sliced

MEDIUM = Medium(label=1, mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.37)
RHO_MM, DEPTH_MM = (8.0, 10.0, 12.0, 14.0), (2.0, 6.0, 10.0, 15.0)
TOLERANCE = 0.04


def rings():
    """A cube of 60 mm with a label for each ring around the beam, and the theory's sum over the ring."""
    x, y, z = np.meshgrid(*[np.arange(60) + 0.5] * 3, indexing="ij")
    rho = np.hypot(x - 30.0, y - 30.0)
    ring, depth = np.digitize(rho, RHO_MM), np.digitize(z, DEPTH_MM)
    inside = (ring > 0) & (ring < 4) & (depth > 0) & (depth < 4)
    return np.where(inside, 3 * ring + depth - 1, 1), rho, z


@pytest.mark.parametrize("refraction", [True, False])
def test_fluence_is_that_of_diffusion_theory(device, refraction):
    """8 < rho < 14 mm and 2 < z < 15 mm under a pencil beam: the mean ratio, and each of nine rings."""
    labels, rho, z = rings()
    medium = MEDIUM if refraction else Medium(label=1, mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.0)
    media = sliced(medium, 11)
    domain = make_domain(labels, *media)
    settings = LightSettings(photons=48_000 if device == "cpu" else 10_000_000, specular=False)
    result = simulate(domain, Source(position_mm=(30, 30, 0)), settings, device=device)
    expected = 0.005 * fluence_semi_infinite(rho, z, medium)
    ratios = []
    for label in range(3, 12):
        value, error = result.absorbed[label]
        theory = expected[labels == label].sum()
        ratios.append((value / theory, error / theory))
    ratio, error = np.array(ratios).T
    assert error.max() < 0.04
    assert np.abs(ratio.mean() - 1.0) < TOLERANCE, ratios
    assert (np.abs(ratio - 1.0) < TOLERANCE + 3 * error).all(), ratios


def test_pulses_are_those_of_diffusion_theory(device):
    """Fluence rate of all rings in gates of 0.1 ns, while most of the light is there."""
    labels, rho, z = rings()
    there = labels > 1
    edges = np.arange(17) / 10
    settings = LightSettings(
        photons=48_000 if device == "cpu" else 10_000_000, specular=False, time_gates_ns=(*edges, 5.0)
    )
    source = Source(position_mm=(30, 30, 0))
    result = simulate(make_domain(labels, *sliced(MEDIUM, 11)), source, settings, device=device)
    found = result.fluence_rate[there].sum(axis=0)[2:16]
    fine = ((np.arange(160) + 0.5) / 100)[20:]
    rates = [fluence_rate_semi_infinite(rho[there], z[there], t, MEDIUM).sum() for t in fine]
    expected = np.mean(np.reshape(rates, (14, 10)), axis=1)
    ratio = found / expected
    assert abs(ratio[1:].mean() - 1.0) < TOLERANCE, ratio
    assert np.abs(ratio - 1.0).max() < 0.07, ratio

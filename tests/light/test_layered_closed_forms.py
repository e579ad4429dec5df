"""Light in layers against closed forms: absorption, plates, total reflection; directions stay of length one."""

import itertools

import numpy as np
import pytest

from napari_gpubio.core.fastmath import turn
from napari_gpubio.core.jit import kernel
from napari_gpubio.core.xoshiro import next_bits, stream, uniform
from napari_gpubio.light.kernels import physics
from tests.light.layered_samples import GLASS, medium, run
from tests.light.layered_truth import COARSE, check_within
from tests.light.voxel_samples import check_z


def test_beer_and_lambert(device):
    """Without scattering, a packet ends where it first interacts."""
    result = run(device, medium((1.0, 1.0, 0.0, 0.0, 4.0)), 200_000, dz_mm=0.1, depth_bins=50, radial_bins=3)
    edges = 0.1 * np.arange(51)
    expected = np.where(edges[1:] < 4.05, -np.diff(np.exp(-edges)) / 0.1, 0)
    inside = expected > 0
    check_z((result.A_z.value - expected)[inside], result.A_z.error[inside])
    assert not result.A_z.value[~inside].any()
    assert not result.A_rz.value[1:].any()
    check_within(result.transmittance, np.exp(-4))
    assert result.diffuse_reflectance.value == 0.0


@pytest.mark.parametrize("mua", [0.0, 0.5])
def test_a_clear_plate_reflects_and_transmits_by_fresnel(device, mua):
    """Multiple reflections in a plate that may absorb and does not scatter, all reflected light taken together."""
    result = run(device, medium((1.8, mua, 0.0, 0.0, 2.0)), 100_000, **COARSE)
    r, left = (0.8 / 2.8) ** 2, np.exp(-2 * mua)
    many = 1 - (r * left) ** 2
    reflected = result.diffuse_reflectance
    check_within(reflected._replace(value=reflected.value + result.specular), r + (1 - r) ** 2 * r * left**2 / many)
    check_within(result.transmittance, (1 - r) ** 2 * left / many)


def test_glass_above_a_clear_plate(device):
    """Three faces, light going back and forth between them: transfer of intensities, layer by layer."""
    result = run(device, medium(GLASS, (1.2, 0.3, 0.0, 0.0, 1.0), (1.7, *GLASS[1:])), 100_000, **COARSE)
    n = (1.0, 1.5, 1.2, 1.7, 1.0)
    faces = [((a - b) / (a + b)) ** 2 for a, b in itertools.pairwise(n)]
    below, through = faces[-1], 1 - faces[-1]  # of all faces from one on, from the last one upwards
    for r, left in zip(faces[-2::-1], (1.0, np.exp(-0.3), 1.0), strict=True):
        many = 1 - r * below * left**2
        below, through = r + (1 - r) ** 2 * below * left**2 / many, (1 - r) * left * through / many
    check_within(result.transmittance, through)
    diffuse = result.diffuse_reflectance
    check_within(diffuse._replace(value=diffuse.value + result.specular), below)


def test_total_reflection(device):
    """Refraction into air fills all angles; into a medium of twice the index only those below 30 degrees."""
    row = (1.5, 0.0, 3.0, 0.0, 2.0)
    into_air = run(device, medium(row), 50_000, angle_bins=30, **COARSE)
    assert into_air.absorbed.value == 0.0
    into_glass = run(device, medium(row, n_above=3.0, n_below=3.0), 50_000, angle_bins=30, **COARSE)
    for name in ("Rd_a", "Tt_a"):
        assert (getattr(into_air, name).value > 0).all()
        escaped = getattr(into_glass, name).value
        assert (escaped[:10] > 0).all()
        assert not escaped[10:].any()


@kernel
def farthest_from_unit_length(g, steps):
    """Largest difference to 1 of a direction's length, over so many scatterings."""
    ux, uy, uz = np.float32(0.0), np.float32(0.0), np.float32(1.0)
    worst = 0.0
    state = stream(np.uint64(1), np.uint64(0))
    for _ in range(steps):
        chance, state = uniform(state)
        bits, state = next_bits(state)
        cp, sp = turn(bits)
        ux, uy, uz = physics.turned(ux, uy, uz, physics.scattering_cosine(g, chance), cp, sp)
        length = np.sqrt(np.float64(ux) ** 2 + np.float64(uy) ** 2 + np.float64(uz) ** 2)
        worst = max(worst, abs(length - 1.0))
    return worst


@pytest.mark.parametrize("g", [-0.9, 0.0, 0.9, 0.999])
def test_directions_stay_of_length_one(g):
    """Float32 would let them drift, which once made a published GPU code's reflectance 3.5e-4 too small."""
    assert 0 < farthest_from_unit_length(np.float32(g), 100_000) < 1e-6

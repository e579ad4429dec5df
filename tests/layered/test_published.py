"""Light in slabs, half-spaces and skin against published numbers and adding-doubling, by standard errors."""

import dataclasses
import functools
import json

import numpy as np
import pytest

from napari_gpubio.layered.settings import ring_area_mm2, solid_angle_sr
from napari_gpubio.light.benchmarks import benchmark
from napari_gpubio.light.run import simulate
from tests.layered.samples import (
    COARSE,
    ENDLESS_MM,
    GIOVANELLI,
    GPU_FACTOR,
    SKIN,
    VAN_DE_HULST,
    adding_doubling,
    at,
    check_within,
    medium,
    run,
)
from tests.light.voxel_samples import check_z


def test_van_de_hulst(device):
    """Slab of albedo 0.9, depth 2, g 0.75 (van de Hulst 1980); transmittance includes the unscattered e^-2."""
    result = run(device, VAN_DE_HULST, 1_000_000, **COARSE)
    check_within(result.diffuse_reflectance, 0.09739, 5e-6)
    check_within(result.transmittance, 0.66096, 5e-6)
    check_within(result.absorbed, 1 - 0.09739 - 0.66096, 7e-6)


def test_giovanelli(device):
    """Half-space of albedo 0.9 that scatters isotropically, n 1.5 (Giovanelli 1955); 0.04 of it is specular."""
    result = run(device, GIOVANELLI, 200_000, **COARSE)
    assert result.specular == pytest.approx(0.04)
    check_within(result.diffuse_reflectance, 0.26 - 0.04, 5e-5)
    assert result.transmittance.value == 0.0


SLABS = (  # albedo, optical depth, g, n, n of the slides
    (0.5, 1.0, 0.0, 1.0, 1.0),
    (0.99, 2.0, 0.0, 1.0, 1.0),
    (0.7, 1.0, -0.5, 1.0, 1.0),
    (0.999, 10.0, 0.9, 1.0, 1.0),
    (0.9, 1.0, 0.9, 1.4, 1.0),
    (0.99, 5.0, 0.8, 1.4, 1.0),
    (0.95, 8.0, 0.9, 1.33, 1.0),
    (0.8, 0.5, 0.5, 1.5, 1.0),
    (0.9, 2.0, -0.5, 1.4, 1.0),
    (0.9, 2.0, 0.75, 1.37, 1.5),
    (0.99, 4.0, 0.5, 1.33, 1.52),
)


@pytest.mark.parametrize("slab", SLABS, ids=str)
def test_adding_doubling(device, slab):
    """Prahl's iadpython; the difference between 16 and 24 quadrature points stands for its error (64 are garbage)."""
    albedo, depth, g, n, slide = slab
    tissue = (n, (1 - albedo) * depth, albedo * depth, g, 1.0)  # 1 mm of it
    glass = [(slide, 0.0, 0.0, 0.0, 1.0)] if slide != 1 else []
    result = run(device, medium(*glass, tissue, *glass), 200_000, absorption="off")
    expected = adding_doubling(24, *slab)
    errors = np.abs(expected - adding_doubling(16, *slab)) + 1e-6
    diffuse, specular = result.diffuse_reflectance, result.specular
    check_within(diffuse, expected[0] - specular, errors[0])
    check_within(result.transmittance, expected[1], errors[1])


def test_angles_of_light_from_the_van_de_hulst_slab(device, shared_data):
    """Against 1e7 photons of MCML's method with another generator: with our errors, but for the photons' number."""
    published = json.loads((shared_data / "light" / "anchors.json").read_text(encoding="utf-8"))["vdh_angular"]
    result = run(device, VAN_DE_HULST, 1_000_000, angle_bins=30, **COARSE)
    np.testing.assert_allclose(result.angle_rad, published["alpha_rad"])
    for name in ("Rd_a", "Tt_a"):
        found, expected = getattr(result, name), np.array(published[name])
        theirs = found.error * np.sqrt(result.launched / 1e7) + 5e-5 * expected  # five digits
        check_z(found.value - expected, np.hypot(found.error, theirs))


def test_unscattered_light_goes_straight_on(device):
    """Transmitted into the first bins: e^-2, and next to nothing of what is scattered, since they end at 10 nm."""
    result = run(device, VAN_DE_HULST, 200_000, dr_mm=1e-5, **COARSE)
    first = at(result.Tt_ra, 0, 0)
    unit = ring_area_mm2(result.settings)[0] * solid_angle_sr(result.settings)[0] * np.cos(result.angle_rad[0])
    check_z(first.value * unit - np.exp(-2), first.error * unit)


# Decay of the fluence by MCML's method, 1e6 photons (1/mm); fluence in the first five bins of 0.05 mm, and at 5.025 mm.
DECAY = {
    1.0: (0.1734, (2.546, 2.797, 2.981, 3.133, 3.251), 1.907),
    1.37: (0.1731, (5.255, 5.278, 5.298, 5.317, 5.338), 2.635),
}


@pytest.mark.parametrize("n", [pytest.param(1.0, marks=pytest.mark.long), 1.37])
def test_fluence_in_depth(device, n):
    """Half-space of MCML's manual, fig. 6.4; errors from the spread of runs, since depths go up and down together."""
    layers = medium((n, 0.01, 10.0, 0.9, ENDLESS_MM))
    grid = {"dz_mm": 0.05, "depth_bins": 200, "radial_bins": 1, "dr_mm": 1e6, "angle_bins": 1}
    runs = [run(device, layers, 1500, seed=seed, **grid) for seed in range(10)]
    fluence = np.array([result.fluence_z().value for result in runs])
    z = runs[0].z_mm
    deep = (z > 2) & (z < 8)
    slopes = -np.polyfit(z[deep], np.log(fluence[:, deep].T), 1)[0]
    decay, near, at_5_mm = DECAY[n]

    def check(numbers, expected, relative_error):
        error = np.std(numbers, axis=0, ddof=1) / np.sqrt(len(numbers))
        check_z(np.mean(numbers, axis=0) - expected, np.hypot(error, relative_error * np.array(expected)))

    check(slopes, decay, 3e-3)
    check(fluence[:, :5], near, 2e-3)
    check(fluence[:, 100], at_5_mm, 3e-3)


def test_similar_media_look_the_same_from_afar(device):
    """mu_s 10, g 0.9 against mu_s 1, g 0 per mm (MCML's manual, fig. 6.3); in all, as adding-doubling says."""
    grid = {"dr_mm": 0.5, "radial_bins": 25, "depth_bins": 1}
    rows = [(1.0, 0.01, mus, g, ENDLESS_MM) for mus, g in ((10.0, 0.9), (1.0, 0.0))]
    forward, isotropic = (run(device, medium(row), 40_000, **grid) for row in rows)
    for result, (_, mua, mus, g, _) in zip((forward, isotropic), rows, strict=True):
        expected = adding_doubling(24, mus / (mua + mus), np.inf, g, 1.0, 1.0)
        check_within(result.diffuse_reflectance, expected[0], 1e-5)
    area = ring_area_mm2(forward.settings)
    near, far = ((result.Rd_r.value * area)[[[0], [1], [2]]].sum() for result in (forward, isotropic)), slice(10, 24)
    mine, theirs = near
    assert mine < 0.9 * theirs
    ratio = (forward.Rd_r.value * area)[far].sum() / (isotropic.Rd_r.value * area)[far].sum()
    assert 1.0 < ratio < 1.15


@functools.cache
def skin(device):
    """Skin on the grid of the reference."""
    return run(device, SKIN, 60_000, seed=2, dr_mm=0.1, dz_mm=0.02, radial_bins=200, depth_bins=500, batches=64)


@pytest.fixture
def reference(shared_data):
    """8e8 photons of CPU-MCML with a Mersenne Twister, by the authors of GPU-MCML; lengths in cm."""
    return np.load(shared_data / "light" / "skin7_600nm_MTref_8e8.npz")


def test_totals_of_skin(device, reference):
    result = skin(device)
    assert result.specular == pytest.approx(float(reference["Rsp"]), abs=1e-7)
    fractions = {"Rd": result.diffuse_reflectance, "A": result.absorbed, "T": result.transmittance}
    for name, found in fractions.items():
        check_within(found, float(reference[name]), float(reference[f"{name}_sem"]))
    check_z(result.A_l.value - reference["A_l"], np.hypot(result.A_l.error, reference["A_l_sem"]))


BINNED = (  # what; 1/cm, 1/cm^2 ... of 1/mm, 1/mm^2 ...; the largest relative error that is looked at, in how many bins
    ("A_z", 10, 0.07, 350),
    ("A_rz", 1000, 0.07, 7000),
    ("Rd_r", 100, 0.07, 25),
    ("Rd_a", 1, 0.07, 25),
    ("Tt_r", 100, 0.2, 15),
    ("Tt_a", 1, 0.2, 20),
)


@pytest.mark.parametrize(("name", "unit", "largest_error", "bins"), BINNED)
def test_maps_and_profiles_of_skin(device, reference, name, unit, largest_error, bins):
    """Within three standard errors in 99 % of the bins, or in all but two."""
    value, error = (unit * array for array in getattr(skin(device), name))
    good = (value > 0) & (error < largest_error * value)
    assert good.sum() > bins
    z = (value - reference[name])[good] / np.hypot(error, reference[f"{name}_sem"])[good]
    assert (np.abs(z) >= 3).sum() <= max(2, 0.01 * good.sum())
    assert np.abs(z).max() < 6


def test_skin_in_layers_is_skin_in_voxels(device):
    """Two engines: collision and path-length estimators; voxels repeat themselves across i and j."""
    case = benchmark("skin7")
    chosen = dataclasses.replace(case.settings, photons=4000 * (GPU_FACTOR if device == "cuda" else 1), seed=3)
    voxels = simulate(case.domain, case.source, chosen, device=device)
    layers = run(device, SKIN, 20_000, absorption="off", batches=32)
    entered = 1 - layers.specular
    for index, theirs in enumerate(voxels.absorbed.values()):
        mine = at(layers.A_l, index)
        check_z(mine.value / entered - theirs.value, np.hypot(mine.error / entered, theirs.error))

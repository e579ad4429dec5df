"""Light in seven layers of skin against a reference run and the voxel engine, by standard errors."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.light.phantom.benchmarks import benchmark
from napari_gpubio.light.run import simulate
from tests.light.layered_samples import GPU_FACTOR, SKIN, at, run
from tests.light.layered_truth import check_within
from tests.light.voxel_samples import check_z


@functools.cache
def skin(device):
    """Skin on the grid of the reference."""
    return run(device, SKIN, 200_000, seed=2, dr_mm=0.1, dz_mm=0.02, radial_bins=200, depth_bins=500, batches=64)


@pytest.fixture
def reference(shared_data):
    """8e8 photons of CPU-MCML with a Mersenne Twister, by the authors of GPU-MCML; lengths in cm."""
    return np.load(shared_data / "light" / "skin7_600nm_MTref_8e8.npz")


def reference_fraction(reference, name):
    return float(reference[name]), float(reference[f"{name}_sem"])


def test_totals_of_skin(device, reference):
    result = skin(device)
    assert result.specular == pytest.approx(float(reference["Rsp"]), abs=1e-7)
    check_within(result.diffuse_reflectance, *reference_fraction(reference, "Rd"))
    check_within(result.absorbed, *reference_fraction(reference, "A"))
    check_within(result.transmittance, *reference_fraction(reference, "T"))


def test_absorption_by_layer_of_skin(device, reference):
    found = skin(device).A_l
    check_z(found.value - reference["A_l"], np.hypot(found.error, reference["A_l_sem"]))


BINNED = (  # what; 1/cm, 1/cm^2 ... of 1/mm, 1/mm^2 ...; the largest relative error that is looked at, in how many bins
    ("A_z", 10, 0.05, 350),
    ("A_rz", 1000, 0.05, 10_000),
    ("Rd_r", 100, 0.05, 30),
    ("Rd_a", 1, 0.05, 28),
    ("Tt_r", 100, 0.2, 60),
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
    chosen = dataclasses.replace(case.settings, photons=10_000 * (GPU_FACTOR if device == "cuda" else 1), seed=3)
    voxels = simulate(case.domain, case.source, chosen, device=device)
    layers = run(device, SKIN, 50_000, absorption=False, batches=32)
    entered = 1 - layers.specular
    for index, theirs in enumerate(voxels.absorbed.values()):
        mine = at(layers.A_l, index)
        check_z(mine.value / entered - theirs.value, np.hypot(mine.error / entered, theirs.error))

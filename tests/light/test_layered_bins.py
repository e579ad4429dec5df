"""The bins of light in layers: sums, edges, units, and standard errors that are those of repeated runs."""

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.light.layers.settings import angle_centers, ring_area_mm2, solid_angle_sr
from tests.light.layered_samples import ARRAYS, GLASS, NUMBERS, SKIN, TISSUE, VAN_DE_HULST, check_same_bits, medium, run
from tests.light.layered_truth import COARSE, check_within
from tests.light.voxel_samples import MOST_Z, check_z


@pytest.mark.parametrize("edge", ["collect", "drop"])
def test_maps_add_up(device, edge):
    """Over volumes, areas and solid angles; what lies beyond the grid is in its last bins, or missing."""
    grid = {"dr_mm": 0.2, "dz_mm": 0.1, "radial_bins": 15, "depth_bins": 20, "angle_bins": 12, "edge": edge}
    result = run(device, medium(TISSUE, TISSUE), 20_000, **grid)
    area, solid = ring_area_mm2(result.settings), solid_angle_sr(result.settings)
    cosine = np.cos(angle_centers(result.settings))
    in_grid = (result.A_rz.value * area[:, None] * 0.1).sum()
    assert (result.A_z.value * 0.1).sum() == pytest.approx(in_grid, rel=1e-12)
    assert result.A_l.value.sum() == pytest.approx(result.absorbed.value, rel=1e-12)
    if edge == "collect":
        assert in_grid == pytest.approx(result.absorbed.value, rel=1e-6)
    else:
        assert in_grid < 0.99 * result.absorbed.value
    for name, total in (("Rd", result.diffuse_reflectance), ("Tt", result.transmittance)):
        by_r, by_angle, by_both = (getattr(result, f"{name}_{by}").value for by in ("r", "a", "ra"))
        sums = (by_r * area).sum(), (by_angle * solid).sum(), (by_both * area[:, None] * solid * cosine).sum()
        np.testing.assert_allclose(sums, total.value, rtol=1e-12)


def test_both_edges_agree_within_the_grid(device):
    grid = {"dr_mm": 0.2, "dz_mm": 0.1, "radial_bins": 8, "depth_bins": 9}
    collected, dropped = (run(device, medium(TISSUE), 5000, edge=edge, **grid) for edge in ("collect", "drop"))
    np.testing.assert_array_equal(collected.A_rz.value[:-1, :-1], dropped.A_rz.value[:-1, :-1])
    assert (collected.A_rz.value[-1] > dropped.A_rz.value[-1]).all()
    assert (collected.A_rz.value[:, -1] > dropped.A_rz.value[:, -1]).all()
    assert [repr(getattr(collected, name)) for name in NUMBERS] == [repr(getattr(dropped, name)) for name in NUMBERS]


def test_without_the_map_the_rest_is_the_same(device):
    """Bit for bit: the same photons."""
    whole, without = (run(device, SKIN, 2000, absorption=absorption, **COARSE) for absorption in (True, False))
    if device == "cuda":  # two builds, which may round differently
        for name in NUMBERS[:3]:
            check_within(getattr(without, name), *getattr(whole, name))
        return
    for name in (*NUMBERS, *ARRAYS):
        if name not in ("A_rz", "A_z"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(without, name), err_msg=name)


def test_lengths_are_relative(device):
    """Twice as large, with half the coefficients: the same photons in the same bins, bit for bit."""
    grid = {"radial_bins": 20, "depth_bins": 30}
    small = run(device, medium(TISSUE, GLASS, TISSUE), 2000, dr_mm=0.1, dz_mm=0.25, **grid)
    large = run(
        device,
        medium(*((n, mua / 2, mus / 2, g, 2 * d) for n, mua, mus, g, d in (TISSUE, GLASS, TISSUE))),
        2000, dr_mm=0.2, dz_mm=0.5, **grid,
    )  # fmt: skip
    for name, power in (("A_l", 0), ("Rd_a", 0), ("A_z", 1), ("Rd_r", 2), ("Tt_ra", 2), ("A_rz", 3)):
        np.testing.assert_array_equal(getattr(small, name).value, 2**power * getattr(large, name).value, err_msg=name)


def test_a_medium_cut_into_layers_is_the_same_medium(device):
    """Faces between equal layers are no faces."""
    grid = {"dz_mm": 0.1, "depth_bins": 20, "radial_bins": 20}
    whole = run(device, medium((1.4, 0.05, 5.0, 0.8, 2.0)), 50_000, seed=1, **grid)
    cut = run(device, medium(*[(1.4, 0.05, 5.0, 0.8, 0.1)] * 20), 50_000, seed=2, **grid)
    for name in NUMBERS[:3]:
        check_within(getattr(cut, name), *getattr(whole, name))
    check_z(cut.A_l.value - whole.A_z.value * 0.1, np.hypot(cut.A_l.error, whole.A_z.error * 0.1))
    np.testing.assert_allclose(cut.A_l.value, cut.A_z.value * 0.1, rtol=1e-4)


def test_standard_errors_are_those_of_repeated_runs(device):
    """Chi-square of the spread of 30 runs over the errors that they claim."""
    layers = medium((1.4, 0.1, 3.0, 0.8, 0.5), (1.5, 0.3, 2.0, 0.5, 1.0))
    grid = {"dr_mm": 0.5, "dz_mm": 0.1, "radial_bins": 6, "depth_bins": 15, "angle_bins": 6, "batches": 32}
    results = [run(device, layers, 3200, seed=seed, **grid) for seed in range(30)]

    def check(values, errors):
        chi_square = np.var(values, axis=0, ddof=1) * 29 / np.mean(np.square(errors), axis=0)
        chance = stats.chi2.cdf(chi_square, 29)
        assert ((chance > 1e-4) & (chance < 1 - 1e-4)).all(), chance
        # together: as many above as below, and a mean near 29
        assert abs(chi_square.mean() / 29 - 1) < 4 * np.sqrt(2 / 29) / np.sqrt(min(np.size(chi_square), 8))

    for name in NUMBERS[:3]:
        found = np.array([getattr(result, name) for result in results])
        check(found[:, :1], found[:, 1:])
    for name in ("A_l", "A_z", "Rd_r", "Rd_a", "Tt_a", "A_rz"):
        values, errors = (np.array([getattr(r, name)[part] for r in results]) for part in (0, 1))
        frequent = np.mean(values, axis=0) > 3 * np.mean(errors, axis=0)  # enough photons for a normal spread
        check(values[:, frequent], errors[:, frequent])


def test_errors_fall_with_the_root_of_the_photons(device):
    few, many = (run(device, SKIN, photons, batches=64, **COARSE) for photons in (1000, 16_000))
    for name in ("diffuse_reflectance", "absorbed"):
        ratio = getattr(few, name).error / getattr(many, name).error
        assert abs(ratio / 4 - 1) < 4 * np.sqrt(2 * 0.5 / 63)


def test_the_same_seed_gives_the_same_result(device):
    first, again, other = (run(device, VAN_DE_HULST, 2000, seed=seed, **COARSE) for seed in (5, 5, 6))
    check_same_bits(again, first)
    assert other.diffuse_reflectance.value != first.diffuse_reflectance.value
    assert abs(other.diffuse_reflectance.z_score(*first.diffuse_reflectance)) < MOST_Z

"""Integer tallies of layers: what is missing, merging, saving; and the means and errors that are made of them."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import BatchTally, LayerTally
from napari_gpubio.layered.run import assemble
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.batches import joined, mean_error
from napari_gpubio.optics.estimates import Estimates
from tests.layered.samples import ARRAYS, GLASS, NUMBERS, TISSUE, medium

GRID = {"radial_bins": 3, "depth_bins": 4, "angle_bins": 2, "dr_mm": 0.5, "dz_mm": 0.25}
RINGS_MM2 = np.pi * np.array([0.25, 0.75, 1.25])


def problem(photons=100, batches=4, **more):
    return LayeredProblem(medium(TISSUE, TISSUE), LayeredSettings(photons=photons, batches=batches, **GRID, **more))


def tally(p, ranges, seed):
    """Random numbers of the right size for some photons; the roulette's is negative half of the time."""
    random = np.random.default_rng(seed)
    photons = sum(stop - start for start, stop in ranges)
    numbers = (random.random(p.tally_size) * photons * SCALE).astype(np.int64)
    numbers[-1] = random.integers(-(10**9), 10**9)
    return BatchTally(list(ranges), numbers.view(np.uint64))


def holding(p, **batches):
    """A partial with tallies of the ranges of each batch, as ``b0=[(0, 25)]``."""
    part = LayerTally.empty(p)
    for name, ranges in batches.items():
        part.batches[int(name[1:])] = tally(p, ranges, seed=hash(tuple(ranges)) % 1000)
    return part


def test_ranges_are_joined_in_order():
    assert joined([(7, 9), (0, 3), (9, 10), (3, 5)]) == [(0, 5), (7, 10)]
    assert joined([]) == []


def test_what_is_missing():
    p = problem(photons=102)  # batches of 25, and one of 2
    part = holding(p, b1=[(25, 50)], b2=[(55, 60), (70, 75)], b3=[(75, 80)])
    assert part.missing(p) == [(0, 25), (50, 55), (60, 70), (80, 100), (100, 102)]
    assert (part.photons, part.photons_up_to) == (25 + 10 + 5, 80)
    assert LayerTally.empty(p).missing(p) == [(0, 25), (25, 50), (50, 75), (75, 100), (100, 102)]
    assert (LayerTally.empty(p).photons, LayerTally.empty(p).photons_up_to) == (0, 0)


def test_parts_of_a_batch_add_up_in_any_order():
    p = problem()
    parts = [holding(p, b1=[r]) for r in ((25, 30), (40, 50), (30, 40))] + [holding(p, b3=[(75, 80)])]
    expected = sum(part.batches[1].numbers for part in parts[:3])
    for order in ((0, 1, 2, 3), (3, 2, 0, 1)):
        whole = LayerTally.empty(p)
        for i in order:
            whole.merge(parts[i], p)
        assert (whole.batches[1].done, whole.batches[3].done) == ([(25, 50)], [(75, 80)])
        np.testing.assert_array_equal(whole.batches[1].numbers, expected)
    assert parts[0].batches[1].done == [(25, 30)]  # what was added is as it was


def test_arrays_and_copies_make_the_same_part_again():
    p = problem()
    part = holding(p, b0=[(0, 25)], b2=[(50, 60), (65, 70)])
    arrays, copy = part.to_arrays(), part.copy()
    part.merge(holding(p, b1=[(25, 30)], b2=[(70, 75)]), p)  # which changes neither
    for again in (LayerTally.from_arrays(arrays), copy):
        assert (again.key, again.batch_size, again.photons) == (p.key, 25, 40)
        assert (list(again.batches), again.batches[2].done) == ([0, 2], [(50, 60), (65, 70)])
        for name, array in again.to_arrays().items():
            np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize("name", ["key", "batch_size", "numbers_2"])
def test_a_saved_state_that_lacks_something_is_refused(name):
    arrays = holding(problem(), b2=[(50, 60)]).to_arrays()
    del arrays[name]
    with pytest.raises(InvalidInput, match=f"the saved state lacks '{name}'; it was not written by this version"):
        LayerTally.from_arrays(arrays)


def weights(part):
    """Weight in each place of a tally for each batch, as signed numbers."""
    return {i: batch.numbers.view(np.int64) / SCALE for i, batch in part.batches.items()}


def test_values_are_sums_over_all_photons():
    """Also of the batches that are not whole; in MCML's units."""
    p = problem(photons=110)
    part = holding(p, b0=[(0, 27)], b1=[(27, 54)], b2=[(60, 70)], b4=[(108, 110)])
    result = assemble(p, part, {})
    total = sum(weights(part).values()) / 66
    a_rz, rd, tt = total[:12].reshape(3, 4), total[12:18].reshape(3, 2), total[18:24].reshape(3, 2)
    solid = 2 * np.pi * np.array([1 - np.sqrt(0.5), np.sqrt(0.5)])
    cosine = np.cos(np.pi * np.array([0.125, 0.375]))
    expected = {
        "A_rz": a_rz / RINGS_MM2[:, None] / 0.25,
        "A_z": a_rz.sum(axis=0) / 0.25,
        "A_l": total[24:26],
        "Rd_ra": rd / RINGS_MM2[:, None] / (solid * cosine),
        "Rd_r": rd.sum(axis=1) / RINGS_MM2,
        "Rd_a": rd.sum(axis=0) / solid,
        "Tt_ra": tt / RINGS_MM2[:, None] / (solid * cosine),
        "Tt_r": tt.sum(axis=1) / RINGS_MM2,
        "Tt_a": tt.sum(axis=0) / solid,
    }
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(result, name).value, expected[name], rtol=1e-12, err_msg=name)
    found = [getattr(result, name).value for name in NUMBERS]
    np.testing.assert_allclose(found, [rd.sum(), tt.sum(), total[24:26].sum(), total[26]], rtol=1e-12)
    assert (result.launched, result.complete, result.specular) == (66, False, p.specular)


def helped(weight, error, inner=None):
    """Errors of weights in bins, up to half of whose variance is of the bins around; the outermost stay."""
    expected, (rows, columns) = error.copy(), (weight.shape[0] - 1, inner or weight.shape[1] - 1)

    def near(values, i, j, reach):
        numbers = [
            values[min(max(i + a, 0), rows - 1), min(max(j + b, 0), columns - 1)]
            for a in range(-reach[0], reach[0] + 1)
            for b in range(-reach[1], reach[1] + 1)
        ]
        return np.array(numbers)

    curved = np.outer([-0.1, 0.4, 0.4, 0.4, -0.1], [-0.1, 0.4, 0.4, 0.4, -0.1]).ravel()

    for i in range(rows):
        for j in range(columns):
            of_weight = near(error**2, i, j, (2, 4)).mean() / near(weight, i, j, (2, 4)).mean()
            share = 0.5 * min(1.0, 100.0 * (error[i, j] / weight[i, j]) ** 2)
            plain = near(weight, i, j, (1, 1)).mean()
            shared = of_weight * max(0.5 * plain, curved @ near(weight, i, j, (2, 2)))
            expected[i, j] = np.sqrt((1.0 - share) * error[i, j] ** 2 + share * shared)
    return expected


@pytest.mark.parametrize("left", [[], [(60, 70)], [(54, 80)]], ids=str)
def test_errors_come_from_the_spread_of_batches(left):
    """That of the mean of n photons: sqrt(variance of one / n); see `napari_gpubio.optics.batches`."""
    p = problem(photons=110)
    part = holding(p, b0=[(0, 27)], b1=[(27, 54)], b3=[(81, 108)], **({"b2": left} if left else {}))
    result = assemble(p, part, {})
    whole = np.array([numbers for batch, numbers in weights(part).items() if batch != 2])
    rest = weights(part).get(2, np.zeros(p.tally_size))

    def error(of):
        numbers, last = of(whole), of(rest[None])[0]
        return mean_error(numbers, last, 27, sum(stop - start for start, stop in left))

    def a_rz(w):
        return w[:, :12].reshape(-1, 3, 4)

    def rd(w):
        return w[:, 12:18].reshape(-1, 3, 2)

    unit = RINGS_MM2[:, None] * 0.25
    np.testing.assert_allclose(result.A_rz.error * unit, helped(result.A_rz.value * unit, error(a_rz)))
    np.testing.assert_allclose(result.A_z.error, error(lambda w: a_rz(w).sum(axis=1)) / 0.25)
    rd_r = error(lambda w: rd(w).sum(axis=2))
    np.testing.assert_allclose(
        result.Rd_r.error * RINGS_MM2, helped((result.Rd_r.value * RINGS_MM2)[:, None], rd_r[:, None], inner=1)[:, 0]
    )
    np.testing.assert_allclose(result.A_l.error, error(lambda w: w[:, 24:26]))
    assert result.diffuse_reflectance.error == pytest.approx(error(lambda w: rd(w).sum(axis=(1, 2))))
    assert result.absorbed.error == pytest.approx(error(lambda w: w[:, 24:26].sum(axis=1)))
    assert result.roulette.error == pytest.approx(error(lambda w: w[:, 26]))
    if not left:
        np.testing.assert_allclose(result.A_l.error, np.sqrt(np.var(whole[:, 24:26], axis=0, ddof=1) / 27 / 81))


@pytest.mark.parametrize("batches", [{}, {"b0": [(0, 25)]}, {"b0": [(0, 25)], "b1": [(25, 49)]}], ids=str)
def test_fewer_than_two_whole_batches_have_no_error(batches):
    p = problem()
    result = assemble(p, holding(p, **batches), {})
    assert all(np.isnan(getattr(result, name).error) for name in NUMBERS)
    for name in ARRAYS:
        value, error = getattr(result, name)
        assert np.isnan(error).all()
        assert error.shape == value.shape
        assert np.isfinite(value).all()


def test_without_the_map_there_is_none():
    p = problem(absorption="off")
    result = assemble(p, holding(p, b0=[(0, 25)]), {})
    assert result.A_rz is result.A_z is None
    assert result.Rd_ra.value.shape == (3, 2)
    for fluence in (result.fluence_rz, result.fluence_z):
        with pytest.raises(InvalidInput, match="the absorption map was not tallied; run again"):
            fluence()
    np.testing.assert_allclose(result.r_mm, [0.25, 0.75, 1.25])
    np.testing.assert_allclose(result.z_mm, [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_allclose(result.angle_rad, np.pi * np.array([0.125, 0.375]))


def test_fluence_is_absorption_over_mua():
    """That of the layer at the center of a bin; NaN in glass."""
    layers = medium((1.4, 0.05, 2.0, 0.8, 0.5), (*GLASS[:4], 0.25), (1.4, 0.2, 2.0, 0.8, 9.0))
    p = LayeredProblem(layers, LayeredSettings(photons=100, batches=4, **GRID))
    result = assemble(p, holding(p, b0=[(0, 25)], b1=[(25, 50)]), {})
    mua = np.array([0.05, 0.05, np.nan, 0.2])
    np.testing.assert_array_equal(result.mua_z, np.nan_to_num(mua))
    np.testing.assert_allclose(result.fluence_z().value, result.A_z.value / mua)
    np.testing.assert_allclose(result.fluence_rz().value, result.A_rz.value / mua)
    np.testing.assert_allclose(result.fluence_rz().error, result.A_rz.error / mua)


def test_what_is_no_more_than_noise_is_not_trusted():
    found = Estimates(np.array([4.0, 4.0, 0.0, 4.0, -4.0]), np.array([1.0, 2.1, 0.0, np.nan, 1.0]))
    assert found.trusted.tolist() == [True, False, False, False, True]
    np.testing.assert_allclose(found.effective_photons, [16.0, (4 / 2.1) ** 2, np.nan, np.nan, 16.0])

"""Finite beams against closed forms: the response to a pencil beam, spread over a Gaussian or a disk."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import integrate, stats

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.beams import BEAMS, RESOLVED_IN_R, FlatBeam, GaussianBeam, convolved, response_matrix
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import LayerTally
from napari_gpubio.layered.run import assemble
from napari_gpubio.layered.settings import LayeredSettings, ring_area_mm2
from napari_gpubio.optics.estimates import Estimates
from tests.layered.samples import ARRAYS, NUMBERS, TISSUE, medium, run

FINE = LayeredSettings(dr_mm=0.05, radial_bins=200, dz_mm=0.5, depth_bins=3, angle_bins=2)  # up to 10 mm
KINDS = pytest.mark.parametrize("kind", ["gaussian", "flat"])


def responding(settings, along_r, error=None):
    """A result whose maps are all the same function of r."""
    problem = LayeredProblem(medium(TISSUE), settings)
    empty = assemble(problem, LayerTally.empty(problem), {})
    error = np.zeros_like(along_r) if error is None else error

    def spread(shape):
        return Estimates(*(np.broadcast_to(a.reshape(-1, *[1] * (len(shape) - 1)), shape) for a in (along_r, error)))

    maps = {name: spread(getattr(empty, name).value.shape) for name in RESOLVED_IN_R}
    return dataclasses.replace(empty, **maps, state=None)


def first_bin(settings):
    """One photon in the first bin."""
    return np.eye(settings.radial_bins)[0] / ring_area_mm2(settings)[0]


def gauss(r, radius):
    """Irradiance of a Gaussian beam of one photon, 1/mm^2, with that 1/e^2 radius."""
    return 2 / (np.pi * radius**2) * np.exp(-2 * (r / radius) ** 2)


@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_a_response_in_one_place_shows_the_beam(radius):
    result = responding(FINE, first_bin(FINE))
    round_, flat = (convolved(result, BEAMS[kind](radius_mm=radius)).Rd_r.value for kind in ("gaussian", "flat"))
    np.testing.assert_allclose(round_, gauss(result.r_mm, radius), rtol=2e-2, atol=1e-2 * gauss(0, radius))
    np.testing.assert_allclose(flat[result.r_mm < radius - 2 * FINE.dr_mm], 1 / (np.pi * radius**2), rtol=1e-6)
    assert not flat[result.r_mm > radius + 2 * FINE.dr_mm].any()


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("response", [0.6, 1.0, 3.0])
def test_gaussians_add_their_variances(radius, response):
    result = responding(FINE, gauss((np.arange(200) + 0.5) * FINE.dr_mm, response))
    found = convolved(result, GaussianBeam(radius_mm=radius))
    expected = gauss(result.r_mm, np.hypot(radius, response))
    near = result.r_mm < 4  # the rest of the response must lie in the grid
    for name in RESOLVED_IN_R:
        values = getattr(found, name).value.reshape(200, -1)[near].T
        np.testing.assert_allclose(values - expected[near], 0, atol=3e-3 * expected[0], err_msg=name)


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_a_flat_beam_on_its_axis_is_the_response_integrated_over_the_disk(radius):
    """CONV's C(0), here at the center of the first bin, which is next to the axis."""
    result = responding(FINE, np.exp(-((np.arange(200) + 0.5) * FINE.dr_mm) / 0.7))
    found = convolved(result, FlatBeam(radius_mm=radius)).A_rz.value[0]
    disk, _ = integrate.quad(lambda r: np.exp(-r / 0.7) * 2 * np.pi * r, 0, radius)
    np.testing.assert_allclose(found, disk / (np.pi * radius**2), rtol=3e-3)


@KINDS
@pytest.mark.parametrize("radius", [0.005, 0.025, 0.05, 0.1, 0.5, 2.0])
def test_no_light_is_lost_and_an_even_response_stays_even(kind, radius):
    """Wherever it comes from: also of beams narrower than a bin, and close to the axis."""
    matrix, area = response_matrix(BEAMS[kind](radius_mm=radius), FINE), ring_area_mm2(FINE)
    assert matrix.min() > -1e-12
    np.testing.assert_allclose((area @ matrix / area)[:100], 1.0, atol=2e-3)
    if radius > 2 * FINE.dr_mm:
        inside = (np.arange(200) + 1) * FINE.dr_mm < 10 - 3 * radius  # where no light comes from beyond the grid
        np.testing.assert_allclose(matrix.sum(axis=1)[inside], 1.0, rtol=1e-4)


@KINDS
def test_a_very_narrow_beam_is_a_pencil_beam(kind):
    response = np.random.default_rng(1).random(200)
    found = convolved(responding(FINE, response), BEAMS[kind](radius_mm=1e-4)).Rd_r.value
    np.testing.assert_allclose(found, response, rtol=0.02)


@KINDS
def test_light_beyond_the_grid_is_missing(kind):
    """What a wide beam brings there is not put anywhere else."""
    result = responding(FINE, first_bin(FINE))
    wide = BEAMS[kind](radius_mm=9.9)
    found = convolved(result, wide).Rd_r.value @ ring_area_mm2(FINE)
    expected = 1.0 if kind == "flat" else 1 - np.exp(-2 * (10 / 9.9) ** 2)
    assert found == pytest.approx(expected, abs=2e-3)


@KINDS
def test_a_response_is_convolved_as_in_the_plane(kind):
    """Against the sum over a fine lattice of the beam's places, for a response that is not smooth."""
    settings = LayeredSettings(dr_mm=0.25, radial_bins=40, depth_bins=1)
    response = np.where(np.arange(40) % 7 < 3, 1.0, 0.2) * np.exp(-np.arange(40) / 10)
    beam = BEAMS[kind](radius_mm=1.6)
    found = convolved(responding(settings, response), beam).Rd_r.value
    x, y = np.meshgrid(*[np.arange(-3.99, 4, 0.02)] * 2)
    irradiance = gauss(np.hypot(x, y), 1.6) if kind == "gaussian" else (np.hypot(x, y) < 1.6) / (np.pi * 1.6**2)
    for row in (0, 1, 5, 13, 20):
        edges = (row + (np.arange(16) + 0.5) / 16) * 0.25  # over the ring, as a bin of a tally is
        means = [
            (irradiance * response[np.minimum((np.hypot(x - r, y) / 0.25).astype(int), 39)]).sum() * 0.02**2
            for r in edges
        ]
        assert found[row] == pytest.approx(np.average(means, weights=edges), rel=5e-3)


@KINDS
def test_totals_stay_and_maps_change(kind):
    pencil = run("cpu", medium(TISSUE), 2000, dr_mm=0.5, radial_bins=30, depth_bins=20, angle_bins=4)
    wide = convolved(pencil, BEAMS[kind](radius_mm=2.0))
    for name in NUMBERS:
        assert getattr(wide, name) == getattr(pencil, name)
    for name in ARRAYS:
        same = np.array_equal(getattr(wide, name).value, getattr(pencil, name).value)
        assert same == (name not in RESOLVED_IN_R), name
        assert getattr(wide, name).value.shape == getattr(pencil, name).value.shape
    assert json.loads(json.dumps(wide.parameters))["beam"] == {"kind": kind, "radius_mm": 2.0}
    assert "beam" not in pencil.parameters
    np.testing.assert_allclose(wide.fluence_rz().value, wide.A_rz.value / 0.05)
    area = ring_area_mm2(pencil.settings)
    in_all = (wide.A_rz.value * area[:, None]).sum(axis=0), pencil.A_z.value
    np.testing.assert_allclose(*in_all, rtol=0.02)  # but for what leaves the grid
    assert convolved(run("cpu", medium(TISSUE), 500, absorption="off"), GaussianBeam()).A_rz is None


@pytest.mark.long
def test_errors_are_those_of_repeated_runs():
    """Deposits of one photon lie in many bins, so the bins of A(r, z) are not independent."""
    layers = medium((1.4, 0.05, 5.0, 0.8, 1.0))
    grid = {"dr_mm": 0.1, "radial_bins": 40, "dz_mm": 0.1, "depth_bins": 10, "angle_bins": 3, "batches": 32}
    beam = FlatBeam(radius_mm=1.0)
    results = [convolved(run("cpu", layers, 1600, seed=seed, **grid), beam) for seed in range(20)]
    for name, index in (("A_rz", (0, 0)), ("A_rz", (0, 5)), ("A_rz", (8, 2)), ("Rd_r", (0,)), ("Rd_r", (9,))):
        values, errors = (np.array([getattr(r, name)[part][index] for r in results]) for part in (0, 1))
        chance = stats.chi2.cdf(np.var(values, ddof=1) * 19 / np.mean(errors**2), 19)
        assert 1e-3 < chance < 1 - 1e-3, (name, index)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"radius_mm": 0.0}, "radius_mm is 0 mm; it must be greater than 0 mm"),
        ({"radius_mm": np.nan}, "radius_mm is nan; give a finite number in mm"),
    ],
    ids=str,
)
def test_a_bad_beam_is_refused(numbers, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        GaussianBeam(**numbers)


def test_a_beam_wider_than_the_grid_or_a_second_one_is_refused():
    result = responding(FINE, first_bin(FINE))
    with pytest.raises(InvalidInput, match=r"the beam's radius is 10.1 mm and the grid ends at 10 mm; take"):
        convolved(result, GaussianBeam(radius_mm=10.1))
    with pytest.raises(InvalidInput, match="already for a finite beam"):
        convolved(convolved(result, GaussianBeam()), GaussianBeam())

"""Histograms against closed forms, which are compared with random points; the cases of Nelms et al. 2015."""

import functools
import json

import numpy as np
import pytest

from napari_gpubio.dose import ByAccuracy, Dose, DvhSettings, LabelStructures, closed_forms, contour_structure, dvh
from napari_gpubio.dose.closed_forms import (
    CASES,
    nelms_curve_errors_percent,
    nelms_dose,
    nelms_errors_percent,
    nelms_structure,
    nelms_truth,
)
from tests.dose.samples import ROTATION, affine_of, at, circle, linear_dose, stack

COUNT, HALF = 2_000_000, 13.5
POINTS = np.random.default_rng(0).uniform(-HALF, HALF, (COUNT, 3))
X, Y, Z = POINTS.T
OBLIQUE = np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])
CUTS = np.array([-11.0, -6.0, -1.0, 0.0, 3.3, 8.0, 12.5])
INSIDE_DISC = (X**2 + Y**2 <= 64) & (Z > -6) & (Z < 9)
INSIDE_CONE = (X**2 + Y**2 <= (12 * (Z + 12) / 24) ** 2) & (np.abs(Z) <= 12)
INSIDE_BOX = (np.abs(POINTS) <= (5, 9, 12)).all(axis=1)


def disc(n):
    return INSIDE_DISC, n, lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, n)


def box(n):
    return INSIDE_BOX, n, lambda t: closed_forms.box(t, (10, 18, 24), n)


SOLIDS = {
    "ball": (X**2 + Y**2 + Z**2 <= 144, OBLIQUE, lambda t: closed_forms.ball(t, 12.0)),
    "disc across": disc((0.6, 0.8, 0.0)),
    "disc along": disc((0, 0, 1)),
    "disc along, down": disc((0, 0, -1)),
    "disc oblique": disc(OBLIQUE),
    "disc oblique, down": disc(-OBLIQUE),
    "cone along": (INSIDE_CONE, (0, 0, 1), lambda t: closed_forms.cone_along(t, 12.0, 24.0)),
    "cone across": (INSIDE_CONE, (0, 1, 0), lambda t: closed_forms.cone_across(t, 12.0, 24.0)),
    "box": box(OBLIQUE),
    "box along": box((0, 0, 1)),
}
# More than 3 % off, of 195 parameters: Pinnacle 53, PlanIQ 18 (Nelms et al., tables I and II, without least and largest
# dose). What is left here is the slab convention on round solids.
MAX_OFF = 8
DIRECTIONS = {
    "LR": (1.0, 0.0, 0.0),
    "AP": (0.0, 1.0, 0.0),
    "SI": (0.0, 0.0, 1.0),
    "45 degrees": (0.0, np.sqrt(0.5), np.sqrt(0.5)),
    "oblique": tuple(OBLIQUE),
}
POSITIONS = np.arange(-19.5, 20, 3.0)
STACKS = {  # z, outer and inner radius, mm
    "sphere": [(z, np.sqrt(20**2 - z**2), 0.0) for z in POSITIONS],
    "cylinder": [(z, 20.0, 0.0) for z in POSITIONS],
    "ring": [(z, 20.0, 12.0) for z in POSITIONS],
}
DOSES = {name: linear_dose(n) for name, n in DIRECTIONS.items()}
LEVELS = np.linspace(10, 70, 3001)


def check(share, volume):
    expected = np.asarray(volume) / (2 * HALF) ** 3
    z = (share - expected) / np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / COUNT)
    assert np.abs(z).max() < 4


def ball_in_gaussian(dose, radius, top, width):
    """A ball around the center of a dose ``top`` exp(-r² / (2 width²)): volume above a dose."""
    r = width * np.sqrt(2 * np.log(np.maximum(top / dose, 1.0)))
    return 4 / 3 * np.pi * np.minimum(r, radius) ** 3


@pytest.mark.parametrize("name", SOLIDS)
def test_solids(name):
    inside, n, volume = SOLIDS[name]
    reach = POINTS @ np.asarray(n)
    check(np.array([(inside & (reach >= t)).mean() for t in CUTS]), volume(CUTS))


def test_balls():
    r = np.sqrt(X**2 + Y**2 + Z**2)
    gaussian, fluence = 60 * np.exp(-(r**2) / 128), 10 * np.exp(-0.3 * r) / r
    levels = np.array([15.0, 30.0, 50.0])
    share = np.array([((r <= 10) & (gaussian >= level)).mean() for level in levels])
    check(share, ball_in_gaussian(levels, 10.0, 60.0, 8.0))
    levels = np.array([0.05, 0.1, 1.0])
    share = np.array([((r <= 10) & (fluence >= level)).mean() for level in levels])
    check(share, closed_forms.ball_around_source(levels, 10.0, 10.0, 0.3))


class Found(dict):
    """The histogram of each case, counted when it is asked for the first time, with all solids in its dose."""

    def __missing__(self, case):
        _, gradient, spacing = case
        solids = [one for one, *where in CASES if where == [gradient, spacing]]
        found = dvh(nelms_dose(gradient, spacing), [solid_of(solid, spacing) for solid in solids], device="cpu")
        self.update({(solid, gradient, spacing): found[solid] for solid in solids})
        return self[case]


solid_of = functools.cache(nelms_structure)


@pytest.fixture(scope="module")
def found():
    return Found()


@pytest.mark.long  # the engine's own check counts the same; the curves of a few cases are compared in every run
def test_at_most_8_of_195_parameters_are_3_percent_off(found):
    errors = [error for case in CASES for error in nelms_errors_percent(case, found[case]).values()]
    assert len(errors) == 195
    assert (np.abs(errors) > 3).sum() <= MAX_OFF


@pytest.mark.parametrize(("spacing", "low", "high"), [(1.0, -1.0, 1.0), (2.0, -1.0, 1.0), (3.0, -2.2, 1.0)])
def test_curves_are_close(found, spacing, low, high):
    """Each solid's, and their mean.

    The mean of all five is the third test of the study: Pinnacle -11.2 to 7.9 % at 3 mm, PlanIQ -1.5 to 0.8 %.
    """
    for gradient in ("SI", "AP"):
        cases = [case for case in CASES if case[1:] == (gradient, spacing)]
        errors = {case[0]: nelms_curve_errors_percent(case, found[case]) for case in cases}
        assert len(errors) == 5
        mean = np.mean(list(errors.values()), axis=0)
        for values in (mean, *errors.values()):
            assert low <= np.min(values)
            assert np.max(values) <= high


@pytest.mark.parametrize(("spacing", "lacking"), [(1.0, 0.3), (2.0, 1.0), (3.0, 1.9)])
def test_the_ends_of_a_lying_cylinder_are_followed(found, spacing, lacking):
    """Rectangles under a half circle, first and last of no width; slabs alone lack 0.90, 2.53 and 4.64 % of it."""
    case = found["RtCylinder", "SI", spacing]
    solid = np.pi * 144 * 24 / 1000
    assert -0.1 < 100 * (1 - case.volume_cc / solid) < lacking
    assert case.least == pytest.approx(4.0, abs=0.05)  # the end itself
    assert any("2 ends" in note for note in case.notes)


@pytest.mark.parametrize("gradient", ["SI", "AP"])
@pytest.mark.parametrize("spacing", [1.0, 2.0, 3.0])
def test_a_solid_that_slabs_hold_exactly_has_no_error(found, gradient, spacing):
    case = ("Cylinder", gradient, spacing)
    assert max(map(abs, nelms_errors_percent(case, found[case]).values())) < 0.25
    assert np.abs(nelms_curve_errors_percent(case, found[case])).max() < 0.05
    if gradient == "SI" and spacing == 3.0:  # least and largest dose are those of the caps
        ends = found[case].least, found[case].largest
        assert ends == pytest.approx((16 - 13.5, 16 + 13.5), abs=0.02)


def test_published_values_of_the_truth():
    """Pinnacle's least and largest dose of the cylinder were reported as +60.0 and -5.1 %, its D99 as +44.4 %."""
    truth = nelms_truth(("Cylinder", "SI", 3.0))
    assert 100 * (4.0 / truth["D99"] - 1) == pytest.approx(44.4, abs=0.1)
    assert truth["volume_cc"] == pytest.approx(12.2145, abs=1e-4)


def test_another_table_of_the_truth_is_met(shared_data):
    table = json.loads((shared_data / "dose" / "nelms_truth.json").read_text(encoding="utf-8"))
    for solid, gradient, spacing in CASES:
        known = table[f"{solid}|{gradient}|{spacing}"]
        for name, value in nelms_truth((solid, gradient, spacing)).items():
            assert value == pytest.approx(known[name], abs=1e-4), (solid, gradient, spacing, name)


def drawn(discs):
    radii = [(z, radius) for z, outer, inner in discs for radius in (outer, inner) if radius > 0]
    return contour_structure("stack", [at(circle(radius, 1024), z) for z, radius in radii])


def truth(discs, n, thickness=3.0):
    """Volume above each of the levels, cc."""
    solids = [(z, radius, sign) for z, outer, inner in discs for radius, sign in ((outer, 1), (inner, -1)) if radius]
    parts = (
        sign * closed_forms.disc(LEVELS - 40, radius, z - thickness / 2, z + thickness / 2, n)
        for z, radius, sign in solids
    )
    return sum(parts) / 1000


def worst_percent(found, expected):
    return 100 * np.abs(found.volume_at(LEVELS) - expected).max() / expected[0]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_discs(name, direction):
    """Doses within 0.03 Gy in a gradient of 1 Gy/mm; clinical systems are accepted within 0.11."""
    found = dvh(DOSES[direction], drawn(STACKS[name]), device="cpu")["stack"]
    expected = truth(STACKS[name], DIRECTIONS[direction])
    assert worst_percent(found, expected) < ByAccuracy().accuracy_percent
    assert found.volume_cc == pytest.approx(expected[0], rel=1e-4)
    assert found.mean == pytest.approx(40.0, abs=1e-3)
    volumes = np.array([0.99, 0.95, 0.5, 0.05, 0.01, 0.03 / expected[0]]) * expected[0]
    levels = np.interp(-volumes, -expected, LEVELS)
    assert np.abs(found.dose_at(volumes) - levels).max() < 0.03


@pytest.mark.parametrize("direction", ["AP", "oblique"])
def test_the_accuracy_is_kept_and_costs_samples(direction):
    spacings = []
    structures = [drawn(discs) for discs in STACKS.values()]
    truths = [truth(discs, DIRECTIONS[direction]) for discs in STACKS.values()]
    for accuracy in (1.0, 0.2, 0.1, 0.01):
        settings = DvhSettings(sampling=ByAccuracy(accuracy_percent=accuracy))
        results = [dvh(DOSES[direction], structure, settings, device="cpu")["stack"] for structure in structures]
        for result, expected in zip(results, truths, strict=True):
            assert worst_percent(result, expected) < accuracy
        spacings.append(results[0].spacing_mm)  # of the sphere
    assert spacings == sorted(spacings, reverse=True)
    assert spacings[2] / spacings[3] == pytest.approx(np.sqrt(10), rel=1e-3)


def test_the_mean_in_a_linear_dose_is_that_of_the_centroid():
    rng = np.random.default_rng(1)
    for direction in DIRECTIONS.values():
        angles = np.sort(rng.random(30)) * 2 * np.pi
        star = (rng.random(30) * 8 + 4)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        x, y = star.T
        cross = x * np.roll(y, -1) - np.roll(x, -1) * y
        centroid = np.array([((x + np.roll(x, -1)) @ cross), ((y + np.roll(y, -1)) @ cross), 0.0]) / (3 * cross.sum())
        found = dvh(linear_dose(direction), stack([star], [-3.0, 0.0, 3.0]), device="cpu")["organ"]
        assert found.mean == pytest.approx(40 + centroid @ direction, rel=1e-4)
        assert found.volume_cc == pytest.approx(0.5 * cross.sum() * 9 / 1000, rel=2e-4)


@pytest.mark.parametrize("kind", ["contours", "labels"])
def test_an_oblique_box_on_an_oblique_dose(kind):
    """The box, the dose grid and the gradient have axes of their own."""
    sides, n = np.array([18.0, 24.0, 12.0]), np.array(DIRECTIONS["oblique"])
    dose_axes = ROTATION @ ROTATION
    cells = np.stack(np.meshgrid(*[np.arange(30)] * 3, indexing="ij"), axis=-1)
    affine = affine_of((2.0, 2.2, 1.8), axes=dose_axes)
    affine[:3, 3] = -affine[:3, :3] @ (14.5, 14.5, 14.5)
    world = cells @ affine[:3, :3].T + affine[:3, 3]
    dose = Dose(values=40 + world @ n, affine=affine, unit="Gy")
    if kind == "contours":
        corners = np.array([[-9.0, -12.0], [9.0, -12.0], [9.0, 12.0], [-9.0, 12.0]])
        box = contour_structure("box", [at(corners, z) @ ROTATION.T for z in (-4.0, 0.0, 4.0)])
    else:
        own = affine_of(3.0, axes=ROTATION)
        own[:3, 3] = -own[:3, :3] @ (sides / 3 - 1) / 2
        box = LabelStructures(labels=np.ones((6, 8, 4), np.uint8), affine=own, structures={1: "box"})
    found = dvh(dose, box, device="cpu")["box"]
    expected = closed_forms.box(LEVELS - 40, sides, ROTATION.T @ n) / 1000
    assert found.volume_cc == pytest.approx(np.prod(sides) / 1000, rel=2e-5)
    assert worst_percent(found, expected) < 0.05
    assert found.mean == pytest.approx(40.0, abs=2e-3)


def distances(half, spacing):
    axis = np.arange(-half, half + 1e-9, spacing)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
    return np.sqrt(x**2 + y**2 + z**2), affine_of(spacing, [-half] * 3)


def ball(radius, spacing=0.5):
    positions = np.arange(-radius + spacing / 2, radius, spacing)
    return contour_structure("ball", [at(circle(np.sqrt(radius**2 - z**2)), z) for z in positions])


def test_a_ball_in_a_gaussian():
    r, affine = distances(25.0, 0.5)
    dose = Dose(values=60 * np.exp(-(r**2) / (2 * 10.0**2)), affine=affine, unit="Gy")
    found = dvh(dose, ball(15.0), device="cpu")["ball"]
    levels = np.array([30.0, 40.0, 50.0, 55.0])
    expected = ball_in_gaussian(levels, 15.0, 60.0, 10.0) / 1000
    np.testing.assert_allclose(found.volume_at(levels), expected, atol=2e-3 * found.volume_cc)


@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
def test_a_ball_around_a_light_source(bin_scale):
    """Isotropic source in a diffuse medium: the fluence spans decades, and its isosurfaces are known by Lambert's W."""
    amplitude, mu_eff = 10.0, 0.3
    r, affine = distances(16.0, 0.4)
    fluence = amplitude * np.exp(-mu_eff * r) / np.maximum(r, 0.5)
    dose = Dose(values=fluence, affine=affine, unit="J/cm2")
    settings = DvhSettings(bin_scale=bin_scale, within_voxels="interpolated")  # values at points, not means of voxels
    found = dvh(dose, ball(15.0, 0.4), settings, device="cpu")["ball"]
    levels = np.array([0.02, 0.05, 0.1, 0.3, 1.0, 3.0])
    expected = closed_forms.ball_around_source(levels, 15.0, amplitude, mu_eff) / 1000
    np.testing.assert_allclose(found.volume_at(levels), expected, rtol=0.015)
    assert found.unit == "J/cm²"

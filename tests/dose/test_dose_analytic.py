"""Histograms against closed forms: stacks of discs, oblique boxes, a Gaussian, light from a point."""

import numpy as np
import pytest

from napari_gpubio.dose import Dose, DvhSettings, LabelStructures, closed_forms, contour_structure, dvh
from tests.dose.samples import ROTATION, affine_of, at, circle, linear_dose, stack

DIRECTIONS = {
    "LR": (1.0, 0.0, 0.0),
    "AP": (0.0, 1.0, 0.0),
    "SI": (0.0, 0.0, 1.0),
    "45 degrees": (0.0, np.sqrt(0.5), np.sqrt(0.5)),
    "oblique": tuple(np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])),
}
POSITIONS = np.arange(-19.5, 20, 3.0)
STACKS = {  # z, outer and inner radius, mm
    "sphere": [(z, np.sqrt(20**2 - z**2), 0.0) for z in POSITIONS],
    "cylinder": [(z, 20.0, 0.0) for z in POSITIONS],
    "ring": [(z, 20.0, 12.0) for z in POSITIONS],
}
DOSES = {name: linear_dose(n) for name, n in DIRECTIONS.items()}
LEVELS = np.linspace(10, 70, 3001)


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
    """Doses within 0.03 Gy in a gradient of 1 Gy/mm; clinical systems are judged by 0.11."""
    found = dvh(DOSES[direction], drawn(STACKS[name]), device="cpu")["stack"]
    expected = truth(STACKS[name], DIRECTIONS[direction])
    assert worst_percent(found, expected) < DvhSettings().accuracy_percent
    assert found.volume_cc == pytest.approx(expected[0], rel=1e-4)
    assert found.mean == pytest.approx(40.0, abs=1e-3)
    volumes = np.array([0.99, 0.95, 0.5, 0.05, 0.01, 0.03 / expected[0]]) * expected[0]
    levels = np.interp(-volumes, -expected, LEVELS)
    assert np.abs(found.dose_at(volumes) - levels).max() < 0.03


@pytest.mark.parametrize("accuracy", [1.0, 0.2, 0.01])
@pytest.mark.parametrize("direction", ["AP", "oblique"])
def test_the_wanted_accuracy_is_kept(accuracy, direction):
    settings = DvhSettings(accuracy_percent=accuracy)
    for discs in STACKS.values():
        found = dvh(DOSES[direction], drawn(discs), settings, device="cpu")["stack"]
        assert worst_percent(found, truth(discs, DIRECTIONS[direction])) < accuracy


def test_accuracy_costs_samples():
    spacings = [
        dvh(DOSES["AP"], drawn(STACKS["sphere"]), DvhSettings(accuracy_percent=accuracy), device="cpu")[
            "stack"
        ].spacing_mm
        for accuracy in (1.0, 0.1, 0.01)
    ]
    assert spacings == sorted(spacings, reverse=True)
    assert spacings[1] / spacings[2] == pytest.approx(np.sqrt(10), rel=1e-3)


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
    return stack_of_circles([(z, np.sqrt(radius**2 - z**2)) for z in positions])


def stack_of_circles(circles):
    return contour_structure("ball", [at(circle(radius), z) for z, radius in circles])


def test_a_ball_in_a_gaussian():
    r, affine = distances(25.0, 0.5)
    dose = Dose(values=60 * np.exp(-(r**2) / (2 * 10.0**2)), affine=affine, unit="Gy")
    found = dvh(dose, ball(15.0), device="cpu")["ball"]
    levels = np.array([30.0, 40.0, 50.0, 55.0])
    expected = closed_forms.ball_in_gaussian(levels, 15.0, 60.0, 10.0) / 1000
    np.testing.assert_allclose(found.volume_at(levels), expected, atol=2e-3 * found.volume_cc)


@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
def test_a_ball_around_a_light_source(bin_scale):
    """Isotropic source in a diffuse medium: the fluence spans decades, and its isosurfaces are known by Lambert's W."""
    amplitude, mu_eff = 10.0, 0.3
    r, affine = distances(16.0, 0.4)
    fluence = amplitude * np.exp(-mu_eff * r) / np.maximum(r, 0.5)
    dose = Dose(values=fluence, affine=affine, unit="J/cm2")
    found = dvh(dose, ball(15.0, 0.4), DvhSettings(bin_scale=bin_scale), device="cpu")["ball"]
    levels = np.array([0.02, 0.05, 0.1, 0.3, 1.0, 3.0])
    expected = closed_forms.ball_around_source(levels, 15.0, amplitude, mu_eff) / 1000
    np.testing.assert_allclose(found.volume_at(levels), expected, rtol=0.015)
    assert found.unit == "J/cm2"

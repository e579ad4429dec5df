"""Dose-surface histograms against closed forms: balls, cubes, tubes; outside of the dose; what has no surface."""

import csv
import functools

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import LabelStructures, PointStructure, SurfaceSettings, contour_structure, surface_histograms
from napari_gpubio.dose.io import write_surfaces_csv
from tests.dose.samples import affine_of, at, circle, linear_dose, stack, uniform_dose

DOSE = linear_dose((0, 0, 1.0))  # 40 Gy at the origin
RADIUS = 12.0
AREA = 4 * np.pi * RADIUS**2 / 100


@functools.cache
def ball_of_contours(spacing=1.0):
    positions = np.arange(-RADIUS + spacing / 2, RADIUS, spacing)
    return contour_structure("ball", [at(circle(np.sqrt(RADIUS**2 - z**2)), z) for z in positions])


@functools.cache
def ball_of_labels(spacing=1.0):
    affine = affine_of((spacing, spacing, 1.5 * spacing), (-15.1, -15.2, -15.3))
    shape = np.ceil(31 / np.diag(affine)[:3]).astype(int)
    places = np.moveaxis(np.indices(shape), 0, -1) @ affine[:3, :3].T + affine[:3, 3]
    labels = ((places**2).sum(axis=-1) < RADIUS**2).astype(np.uint8)
    return LabelStructures(labels=labels, affine=affine, structures={1: "ball"})


@pytest.mark.parametrize("structure", [ball_of_contours(), ball_of_labels()], ids=["contours", "labels"])
def test_the_surface_of_a_ball(structure):
    """Its area is evenly spread along any axis (Archimedes), so the curve is a straight line."""
    (found,) = surface_histograms(DOSE, structure)
    assert found.area_cm2 == pytest.approx(AREA, rel=0.02)
    assert found.mean == pytest.approx(40.0, abs=0.1)
    percents = np.array([90.0, 75.0, 50.0, 25.0, 10.0])
    expected = 40 + RADIUS * (1 - percents / 50)
    np.testing.assert_allclose(found.dose_at_percent(percents), expected, atol=0.03 * RADIUS)
    assert found.percent_at(40.0) == pytest.approx(50.0, abs=1.5)
    assert found.area_at(0.0) == pytest.approx(found.area_cm2)
    assert (found.least, found.largest) == pytest.approx((28.0, 52.0), abs=0.5)


def test_a_tube_has_an_inner_surface():
    planes = np.arange(-10.5, 11, 3.0)
    (found,) = surface_histograms(DOSE, stack([circle(12.0), circle(8.0)], planes, "tube"))
    walls, ends = 2 * np.pi * 20 * 24, 2 * np.pi * (144 - 64)
    assert found.area_cm2 == pytest.approx((walls + ends) / 100, rel=0.02)


def test_oblique_and_uniform():
    turned = linear_dose((0.6, 0.0, 0.8))
    (found,) = surface_histograms(turned, ball_of_contours())
    assert found.percent_at(40.0) == pytest.approx(50.0, abs=1.5)
    (found,) = surface_histograms(uniform_dose(7.0), ball_of_labels(2.0), SurfaceSettings(outside="exclude"))
    assert (found.least, found.largest, found.mean) == pytest.approx((7.0, 7.0, 7.0))


def test_outside_of_the_dose():
    small = linear_dose((0, 0, 1.0), half=5.0)  # and half a voxel
    (zero,) = surface_histograms(small, ball_of_labels())
    (excluded,) = surface_histograms(small, ball_of_labels(), SurfaceSettings(outside="exclude"))
    assert zero.outside_cm2 == excluded.outside_cm2 > 0
    assert zero.area_cm2 == pytest.approx(excluded.area_cm2 + zero.outside_cm2)
    assert "counted with no dose" in zero.notes[0]
    assert "left out" in excluded.notes[0]
    with pytest.raises(InvalidInput, match="of the surface of 'ball' lie outside the dose grid"):
        surface_histograms(small, ball_of_labels(), SurfaceSettings(outside="refuse"))


def test_what_has_no_surface():
    (empty,) = surface_histograms(DOSE, contour_structure("none", []))
    assert (empty.area_cm2, empty.notes) == (0.0, ("'none' is empty",))
    labels = LabelStructures(labels=np.zeros((4, 4, 4), np.uint8), affine=np.eye(4), structures={1: "none"})
    (empty,) = surface_histograms(DOSE, labels)
    assert np.isnan(empty.mean)
    points = PointStructure(name="points", points=np.zeros((1, 3)), volume_cc=1.0)
    with pytest.raises(InvalidInput, match="'points' is made of points, which have no surface"):
        surface_histograms(DOSE, points)


def test_curves_in_a_file(tmp_path):
    found = surface_histograms(DOSE, ball_of_labels(2.0))
    write_surfaces_csv(tmp_path / "s.csv", found)
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["dose_Gy"]) for row in rows] == found[0].doses.tolist()
    assert [float(row["area_cm2"]) for row in rows] == found[0].areas_cm2.tolist()

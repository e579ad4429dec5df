"""Rays against closed-form geodesics: position, length and drift, and two routes between two points."""

import numpy as np
import pytest

from napari_gpubio.core.device import CPU, choose_device
from napari_gpubio.tracts.checks import BEYOND_VANAART, EXACT, HAMILTONIAN, SEED_SCHEME, SHARP, VANAART, ray_errors
from napari_gpubio.tracts.phantom.closed_forms import (
    ACROSS,
    ALONG,
    RING_RADIUS,
    analytic_fields,
    constant,
    fish_eye,
    half_space,
    pull_back,
    ring,
)
from tests.tracts.ray_samples import DOUBLE, changed, one_ray, passing, sampled

FIELDS = {field.name: field for field in analytic_fields()}
SINGLE_AND_DOUBLE = pytest.mark.parametrize("precision", ["single", "double"])


def check_errors(errors, limits):
    for what, error in errors.items():
        assert error <= limits[what], f"{what}: {error:.2g} > {limits[what]:g}"


@SINGLE_AND_DOUBLE
@pytest.mark.parametrize("name", FIELDS)
def test_hamiltonian_rays_follow_the_closed_form(name, precision, device):
    errors = ray_errors(FIELDS[name], changed(EXACT, precision=precision), choose_device(device))
    assert "position" in errors or name == "helix"
    check_errors(errors, SHARP if name == "ring, power 3" else HAMILTONIAN)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in BEYOND_VANAART])
def test_rays_of_the_paper_follow_the_closed_form_to_its_own_error(name, device):
    check_errors(ray_errors(FIELDS[name], SEED_SCHEME, choose_device(device)), VANAART)


@pytest.mark.parametrize("make", [constant, half_space, pull_back, ring])
def test_double_precision_comes_nearer(make):
    """The position of a point is packed in single precision, which is why it is not nearer still."""
    errors = ray_errors(make(), DOUBLE, CPU)
    assert errors["position"] < 5e-5
    assert errors["drift"] < 1e-7


def test_all_rays_of_the_fish_eye_meet_at_the_antipode(device):
    """T3: every route to the antipode (-16, 0, 0) has length 16 pi."""
    field, a = sampled(fish_eye), 16.0
    for degrees in (-30, -10, 10, 30):
        t = np.deg2rad(degrees)
        direction = (np.sin(t), 0.8 * np.cos(t), 0.6 * np.cos(t))
        distance, length = passing(field, (a, 0, 0), direction, (-a, 0, 0), changed(EXACT, max_length_mm=110), device)
        assert distance < 2e-3
        assert length == pytest.approx(np.pi * a, abs=2e-3)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_tangential_rays_leave_the_ring_as_on_a_cone(power, device):
    """T7: r(90 deg)/r0 = 1/cos(k^p 90 deg): how badly geodesics follow a bent bundle."""
    expected = {1: 1.26570, 2: 1.03969, 3: 1.00682}[power]
    field = sampled(ring)
    settings = changed(EXACT, max_length_mm=36, metric="sharpened", sharpening=float(power))
    path = one_ray(field, (RING_RADIUS, 0, 0), (0, 1, 0), settings, device)[0]
    n = np.searchsorted(-path[:, 0], 0.0)
    share = path[n - 1, 0] / (path[n - 1, 0] - path[n, 0])
    crossing = path[n - 1] + share * (path[n] - path[n - 1])
    assert crossing[1] / RING_RADIUS == pytest.approx(expected, abs=3e-4)


@pytest.mark.parametrize(
    ("winding", "length", "degrees", "nearest"), [(0, 31.1003373, 11.18, 18.10), (-1, 56.2785224, 153.07, 12.75)]
)
def test_two_routes_join_two_points_of_the_ring(winding, length, degrees, nearest, device):
    k, apart = np.sqrt(ACROSS / ALONG), np.deg2rad(120)
    opened = k * (apart + 2 * np.pi * winding)  # the angle between the points on the cone, cut open
    off = np.arctan(k * np.tan(abs(opened) / 2))  # chord against circle on the cone; circles there are k times as long
    direction = np.array([-np.sin(off), np.sign(opened) * np.cos(off), 0])
    assert np.rad2deg(np.arccos(direction[1])) == pytest.approx(degrees, abs=0.005)
    assert 2 * RING_RADIUS * np.sin(abs(opened) / 2) / np.sqrt(ACROSS) == pytest.approx(length, abs=1e-7)

    target = RING_RADIUS * np.array([np.cos(apart), np.sin(apart), 0])
    settings = changed(DOUBLE, max_length_mm=80)
    distance, found = passing(sampled(ring), (RING_RADIUS, 0, 0), direction, target, settings, device)
    assert distance < 0.02
    assert found == pytest.approx(length, abs=1e-3)
    path = one_ray(sampled(ring), (RING_RADIUS, 0, 0), direction, settings, device)[0]
    assert np.linalg.norm(path[:, :2], axis=1).min() == pytest.approx(nearest, abs=0.01)

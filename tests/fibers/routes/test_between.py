"""Geodesics between two points against closed forms."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio import diffusion, fibers
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.phantom import closed_forms
from napari_gpubio.diffusion.phantom.brain import voxel_centers
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers.routes import geodesics_between
from napari_gpubio.fibers.settings import EuDX, Hamiltonian
from tests.fibers.ray_samples import changed

EXACT = Hamiltonian(
    fa_stop=0.0,
    step_mm=0.5,
    max_length_mm=80.0,
    interpolation="interpolating",
    eigenvalue_floor_mm2_per_s=1e-9,
    eigenvalue_ceiling_mm2_per_s=1e6,
)


@pytest.fixture(scope="module")
def pull_back() -> TensorField:
    return closed_forms.pull_back().sample()


def unbent(x: tuple[float, float, float]) -> np.ndarray:
    """Straight coordinates of the pull-back field."""
    wave = closed_forms.WAVE_HEIGHT * np.sin(closed_forms.WAVE_NUMBER * x[0])
    return np.array([x[0], x[1] + wave, x[2] + closed_forms.BOWL * x[0] ** 2])


@pytest.mark.parametrize(("a", "b"), [((-20, -5, -5), (15, 5, 5)), ((-12, 8, 3), (14, -9, -12))])
def test_distances_in_the_pull_back_field(a, b, pull_back):
    found = geodesics_between(pull_back, a, b, EXACT, directions=300)
    assert len(found) == 1
    assert found.per_fiber["riemannian_length_mm"][0] == pytest.approx(np.linalg.norm(unbent(a) - unbent(b)), abs=1e-4)
    np.testing.assert_allclose(found[0][[0, -1]], [a, b], atol=1e-5)


def test_two_ways_around_the_ring():
    field = closed_forms.ring(shape=(64, 64, 16), origin=(-31.5, -31.5, -7.5)).sample()
    off_axis = np.linalg.norm(voxel_centers(field.affine, field.shape)[..., :2], axis=-1) > 5.0  # D is singular there
    field = dataclasses.replace(field, mask=off_axis)
    angle = 2 * np.pi / 3
    end = 20 * np.array([np.cos(angle), np.sin(angle), 0.0])
    found = geodesics_between(field, (20, 0, 0), end, EXACT)
    np.testing.assert_allclose(found.per_fiber["riemannian_length_mm"], [31.1003373, 56.2785224], atol=1e-4)
    turns = [np.diff(np.unwrap(np.arctan2(fiber[:, 1], fiber[:, 0]))).sum() for fiber in found]
    np.testing.assert_allclose(turns, [angle, angle - 2 * np.pi], atol=1e-3)  # windings 0 and -1
    launched = np.rad2deg(np.arccos(found.per_fiber["launch"][:, 1]))
    np.testing.assert_allclose(launched, [11.18, 153.07], atol=0.01)


def test_all_directions_of_the_fish_eye_meet():
    found = geodesics_between(closed_forms.fish_eye().sample(), (16, 0, 0), (-16, 0, 0), EXACT, directions=200)
    assert len(found) > 30
    np.testing.assert_allclose(found.per_fiber["riemannian_length_mm"], 16 * np.pi, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "changes", "what"),
    [
        ((0, 0, 0), (0, 0, 0.1), {}, "apart"),
        ((0, 0, 0), (900, 0, 0), {}, "900"),
        ((0, 0, 0), [(1, 2, 3), (4, 5, 6)], {}, "3 points"),
        ((0, 0, 0), (9, 0, 0), {"method": EuDX}, "eudx"),
    ],
)
def test_points_that_cannot_be_joined_are_refused(a, b, changes, what, pull_back):
    with pytest.raises(InvalidInput, match=what):
        geodesics_between(pull_back, a, b, changed(EXACT, **changes))


def test_a_point_that_no_ray_reaches(pull_back):
    found = geodesics_between(
        pull_back, (-20, -5, -5), (15, 5, 5), dataclasses.replace(EXACT, max_length_mm=5.0), directions=50
    )
    assert len(found) == 0


@pytest.mark.parametrize("run", [
    lambda field: geodesics_between(field, (0, 0, 0), (5, 5, 5)),
    lambda field: fibers.geodesic_connectome(
        field, Atlas(labels=np.arange(64).reshape(4, 4, 4) % 3, affine=np.eye(4), names={})
    ),
])  # fmt: skip
def test_fods_are_no_tensors(run):
    coefficients = np.zeros((4, 4, 4, 6), np.float32)
    fods = diffusion.FodField(coefficients=coefficients, mask=np.ones((4, 4, 4), bool), affine=np.eye(4))
    with pytest.raises(InvalidInput, match=r"take a TensorField, and a FodField was given; fit tensors"):
        run(fods)

"""Settings of tracking and their limits; Riemannian metrics: their formulas, a new one, and rays in each."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info, replaced
from napari_gpubio.tracts import Directions, FitSettings, TrackSettings
from napari_gpubio.tracts.phantom.closed_forms import ACROSS, ALONG, RING_RADIUS, pull_back, ring
from napari_gpubio.tracts.settings import METRICS, adjugate, inverse, sharpened
from tests.tracts.ray_samples import DOUBLE, EUDX, changed, on_grid, one_ray, sampled

NAN, INF = float("nan"), float("inf")


def bad_values():
    """Every parameter of every settings class just beyond each of its limits, and what the message must contain."""
    for settings in (Directions, TrackSettings, FitSettings):
        for field in dataclasses.fields(settings):
            info = param_info(field)
            if info is None or isinstance(field.default, bool):
                continue
            if info.choices:
                yield settings, field.name, "nonsense", info.choices
                continue
            whole = isinstance(field.default, int)
            yield settings, field.name, NAN, ("finite",)
            yield settings, field.name, INF, ("finite",)
            if info.above is not None:
                yield settings, field.name, info.above, (f"greater than {info.above:g}",)
                yield settings, field.name, info.above - 1, (f"greater than {info.above:g}",)
            if info.minimum is not None:
                below = info.minimum - 1 if whole else info.minimum - 1e-3
                yield settings, field.name, below, (f"at least {info.minimum:g}",)
            assert info.maximum is not None, f"{field.name} has no upper limit"
            over = info.maximum + 1 if whole else 1.001 * info.maximum
            yield settings, field.name, over, (f"at most {info.maximum:g}",)


@pytest.mark.parametrize(
    ("settings", "name", "value", "allowed"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[1]}-{case[2]}") for case in bad_values()],
)
def test_a_value_beyond_a_limit_is_refused_with_what_is_allowed(settings, name, value, allowed):
    with pytest.raises(InvalidInput) as caught:
        settings(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is ")
    assert (repr(value) if isinstance(value, str) else f"{value:g}") in message
    for word in allowed:
        assert word in message


@pytest.mark.parametrize("settings", [Directions, TrackSettings, FitSettings])
def test_defaults_and_limits_themselves_are_allowed(settings):
    settings()
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
            continue
        for value in (info.minimum, info.maximum, *(info.choices or ())):
            if value is not None:
                for condition in info.where[:1]:  # as far as the others say that it counts
                    wanted = {name: values[-1] for name, values in condition.items()}
                    assert getattr(replaced(settings(), **wanted, **{field.name: value}), field.name) == value
                if not info.where:
                    assert getattr(settings(**{field.name: value}), field.name) == value


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (TrackSettings, "step_mm", np.float32(0.0)),
        (TrackSettings, "step_mm", np.float32(NAN)),
        (TrackSettings, "max_steps", np.int64(0)),
        (Directions, "count", np.int32(0)),
        (TrackSettings, "step_mm", "0.5"),
        (TrackSettings, "step_mm", None),
        (Directions, "count", 2.5),
        (TrackSettings, "points_every", 1.5),
    ],
)
def test_numbers_of_numpy_are_checked_and_other_kinds_of_values_refused(settings, name, value):
    with pytest.raises(InvalidInput, match=name):
        settings(**{name: value})


def test_a_replaced_value_is_checked():
    with pytest.raises(InvalidInput, match="step_mm is 0 mm; it must be greater than 0 mm"):
        dataclasses.replace(TrackSettings(), step_mm=0.0)


def test_how_many_steps_and_points_a_ray_may_have():
    settings = TrackSettings(step_mm=0.5, max_length_mm=250)
    assert (settings.ray_steps, settings.ray_points) == (502, 503)
    assert dataclasses.replace(settings, max_steps=100).ray_steps == 100
    assert dataclasses.replace(settings, points_every=10).ray_points == 51


# -- metrics ---------------------------------------------------------------------------------------------------------

EIGENVALUES = np.array([[[1.7, 0.5, 0.2]], [[1.0, 1.0, 1.0]], [[3.0, 2.9, 0.1]]])


def test_metrics_follow_their_formulas():
    assert list(METRICS) == ["inverse", "sharpened", "adjugate", "adaptive"]
    np.testing.assert_array_equal(inverse(EIGENVALUES, 3.0), EIGENVALUES)
    for power in (1.0, 2.0, 2.5):
        np.testing.assert_allclose(sharpened(EIGENVALUES, power), EIGENVALUES**power, rtol=1e-14)
    for values, dual in zip(EIGENVALUES[:, 0], adjugate(EIGENVALUES, 2.0)[:, 0], strict=True):
        cofactors = np.linalg.det(np.diag(values)) * np.linalg.inv(np.diag(values))  # adj D = det(D) D^-1
        np.testing.assert_allclose(np.diag(1 / dual), cofactors, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_metrics_keep_the_order_of_axes_and_the_type(metric):
    for real in (np.float32, np.float64):
        dual = metric(EIGENVALUES.astype(real), 2.0)
        assert dual.dtype == real
        assert (np.diff(dual, axis=-1) <= 0).all()
        assert (dual > 0).all()


NEW_METRIC = """
import importlib.util, sys
import napari_gpubio, numpy as np
from pathlib import Path

path = Path(napari_gpubio.__file__).parent / "tracts" / "settings.py"
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("napari_gpubio.tracts.settings", path))
sys.modules[module.__name__] = module
added = '''

@_metric
def cubed(eigenvalues, power):
    return eigenvalues * eigenvalues * eigenvalues

'''
exec(path.read_text().replace("\\nclass StopReason", added + "\\nclass StopReason", 1), module.__dict__)

from napari_gpubio import tracts
from napari_gpubio.tracts.phantom.closed_forms import ring

field = ring(origin=(-31.5, -31.5, -3.5), shape=(64, 64, 8)).sample()
common = dict(max_length_mm=40.0, precision="double")
seed, ahead = [(20.0, 0.0, 0.0)], tracts.Directions(kind="principal")
new = tracts.track(field, seed, ahead, tracts.TrackSettings(metric="cubed", **common), device="cpu")
known = tracts.TrackSettings(metric="sharpened", sharpening=3.0, **common)
old = tracts.track(field, seed, ahead, known, device="cpu")
assert len(new.points) > 50
np.testing.assert_allclose(new.points, old.points, atol=1e-5)
plain = tracts.track(field, seed, ahead, tracts.TrackSettings(**common), device="cpu")
assert np.abs(new[0][-1] - plain[0][-1]).max() > 0.1
"""


@pytest.mark.long  # it compiles everything anew
def test_a_new_metric_is_one_more_function_in_the_file():
    done = subprocess.run([sys.executable, "-c", NEW_METRIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("make", "determinant"), [(ring, ALONG * ACROSS**2), (pull_back, 1.0)])
def test_with_a_constant_determinant_the_adjugate_metric_has_the_same_curves(make, determinant, device):
    launch = make().launches[0]
    inverse, adjugate = (
        one_ray(sampled(make), launch.start, launch.direction, changed(DOUBLE, metric=m, max_length_mm=30), device)
        for m in ("inverse", "adjugate")
    )
    np.testing.assert_allclose(adjugate[0], inverse[0], atol=1e-4)
    ratio = adjugate.per_fiber["riemannian_length_mm"] / inverse.per_fiber["riemannian_length_mm"]
    np.testing.assert_allclose(ratio, np.sqrt(determinant), rtol=1e-5)


def test_sharpening_by_one_changes_nothing_and_by_three_is_the_cube(device):
    def ray(field, **changes):
        return one_ray(field, (20, 0, 0), (-0.2, 1, 0.1), changed(DOUBLE, max_length_mm=25, **changes), device)[0]

    one, three = (ray(sampled(ring), metric="sharpened", sharpening=power) for power in (1.0, 3.0))
    np.testing.assert_allclose(one, ray(sampled(ring)), atol=1e-5)
    np.testing.assert_allclose(three, ray(sampled(ring, 3)), atol=1e-4)


def test_eigenvalues_below_the_floor_are_raised(device):
    settings = changed(DOUBLE, eigenvalue_floor_mm2_per_s=1e-4, max_length_mm=8)
    fields = (
        on_grid(lambda x, low=low: 0 * x[..., :1] + [1.7, 0.3, low, 0, 0, 0], np.eye(3), 10.0) for low in (0.1, 0)
    )
    expected, found = (one_ray(field, (0, 0, 0), (1, 2, 3), settings, device) for field in fields)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    lengths = (fibers.per_fiber["riemannian_length_mm"] for fibers in (found, expected))
    np.testing.assert_allclose(*lengths, rtol=1e-6)


def test_streamlines_stay_on_the_ring(device):
    fiber = one_ray(sampled(ring), (RING_RADIUS, 0, 0), (0, 1, 0), changed(EUDX, max_length_mm=130), device)
    radius = np.linalg.norm(fiber[0][:, :2], axis=1)
    assert fiber.per_fiber["length_mm"][0] > 125.6  # once around
    assert np.abs(radius - RING_RADIUS).max() < 0.05
    assert fiber.per_fiber["alignment"][0] > 0.9999
    anisotropy = np.sqrt(1 / 2) * np.hypot(*[ALONG - ACROSS] * 2) / np.linalg.norm([ALONG, ACROSS, ACROSS])
    assert fiber.per_fiber["mean_fa"][0] == pytest.approx(anisotropy, rel=1e-5)

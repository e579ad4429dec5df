"""Settings of tracking and their limits; Riemannian metrics: their formulas, a new one, and rays in each."""

import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.cli import main
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import hints, kind_of
from napari_gpubio.diffusion import FitSettings
from napari_gpubio.diffusion.phantom.closed_forms import ACROSS, ALONG, RING_RADIUS, pull_back, ring
from napari_gpubio.fibers import Hamiltonian
from napari_gpubio.fibers.directions import Cone, Directions, FromFod, Principal, Usual
from napari_gpubio.fibers.metrics import Adjugate, AnyMetric, Inverse, Sharpened
from napari_gpubio.fibers.settings import IFOD2, METHODS, EuDX, LiftedGeodesic, SDStream, VanAart2011, as_method
from tests.fibers.ray_samples import DOUBLE, EUDX, changed, on_grid, one_ray, sampled

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "tracking_methods.md"
NAN, INF = float("nan"), float("inf")
DIRECTIONS, METRICS = typing.get_args(Directions), typing.get_args(AnyMetric)
UNIT = (1.0, 1.0, 1.0)
CLASSES = [*DIRECTIONS, *METRICS, *METHODS.values(), FitSettings]


def test_methods_say_what_they_are_for_in_help_and_docs(capsys):
    told = ""
    for verb in ("track", "track-fods", "track-fixels"):
        with pytest.raises(SystemExit):
            main([verb, "--help-all"])
        told += " ".join(capsys.readouterr().out.split())
    page = PAGE.read_text(encoding="utf-8")
    for kind, method in METHODS.items():
        assert 20 < len(method.use) < 80, kind
        assert f"{kind} {method.use}" in told
        assert f"| `{kind}` | {method.use} |" in page


def bad_values():
    """Every parameter of every settings class just beyond each of its limits, and what the message must contain."""
    for settings in CLASSES:
        for field in dataclasses.fields(settings):
            info = param_info(field)
            if info is None or isinstance(field.default, bool):
                continue
            if info.choices:
                yield settings, field.name, "nonsense", info.choices
                continue
            whole = int in (hint := hints(settings)[field.name], *typing.get_args(hint))
            what = "finite" if field.default is not None or not whole else "an integer"
            yield settings, field.name, NAN, (what,)
            yield settings, field.name, INF, (what,)
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


@pytest.mark.parametrize("settings", CLASSES)
def test_defaults_and_limits_themselves_are_allowed(settings):
    settings()
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
            continue
        for value in (info.minimum, info.maximum, *(info.choices or ())):
            if value is not None:
                assert getattr(settings(**{field.name: value}), field.name) == value


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (Hamiltonian, "step_mm", np.float32(0.0)),
        (Hamiltonian, "step_mm", np.float32(NAN)),
        (Hamiltonian, "max_steps", np.int64(0)),
        (Cone, "count", np.int32(0)),
        (Hamiltonian, "step_mm", "0.5"),
        (Hamiltonian, "step_mm", None),
        (Cone, "count", 2.5),
        (Hamiltonian, "points_every", 1.5),
    ],
)
def test_numbers_of_numpy_are_checked_and_other_kinds_of_values_refused(settings, name, value):
    with pytest.raises(InvalidInput, match=name):
        settings(**{name: value})


def test_a_replaced_value_is_checked():
    with pytest.raises(InvalidInput, match="step_mm is 0 mm; it must be greater than 0 mm"):
        dataclasses.replace(Hamiltonian(), step_mm=0.0)


def test_how_many_steps_and_points_a_ray_may_have():
    settings = Hamiltonian(step_mm=0.5, max_length_mm=250)
    assert settings.lengths(UNIT)[3:] == (502, 503)
    assert dataclasses.replace(settings, max_steps=100).lengths(UNIT).ray_steps == 100
    assert dataclasses.replace(settings, points_every=10).lengths(UNIT).ray_points == 51
    for slow in (VanAart2011(step_mm=0.5, max_length_mm=250), LiftedGeodesic(step_mm=0.5, max_length_mm=250)):
        assert slow.lengths(UNIT).ray_steps == 2002


@pytest.mark.parametrize(
    ("kind", "step"),
    [("ifod2", 0.5), ("ifod1", 0.1), ("sd_stream", 0.1), ("lifted_geodesic", 0.25), ("fixel_geodesic", 0.25)],
)
def test_lengths_that_are_not_given_go_by_the_voxels(kind, step):
    method, voxel = METHODS[kind](), 2.0
    edges = (1.0, 2.0, 4.0)  # of a voxel as large as a cube of 2 mm
    assert method.lengths(edges)[:3] == pytest.approx((step * voxel, 5 * voxel, 100 * voxel))
    given = dataclasses.replace(method, step_mm=0.7, min_length_mm=0.0, max_length_mm=33.0)
    assert given.lengths(edges)[:3] == (0.7, 0.0, 33.0)


def test_the_usual_stiffness_goes_by_the_voxels():
    assert LiftedGeodesic().stiffness((2.0, 2.0, 2.0)) == pytest.approx(0.1)
    assert LiftedGeodesic(stiffness_per_mm=0.4).stiffness((2.0, 2.0, 2.0)) == 0.4


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_a_method_takes_its_own_directions_and_refuses_others(method):
    settings = method()
    assert isinstance(settings.directions(), method.takes)
    for fan in DIRECTIONS:
        one_way = fan(both_ways=False)
        if fan in method.takes:
            assert settings.directions(one_way) is one_way
        elif fan is Usual:
            usual = dataclasses.replace(method.usual_directions, both_ways=False)
            assert settings.directions(one_way) == usual
            if usual.per_seed > 1:
                assert settings.directions(Usual(count=7)).per_seed == 7
            else:
                with pytest.raises(InvalidInput, match="count is 7"):
                    settings.directions(Usual(count=7))
        else:
            with pytest.raises(InvalidInput, match=f"the method '{kind_of(method)}' has no directions"):
                settings.directions(one_way)


@pytest.mark.parametrize("kind", ["sd_stream", "lifted_geodesic", "fixel_geodesic"])
def test_a_random_seed_is_refused_where_nothing_is_drawn(kind):
    settings = METHODS[kind](random_seed=3)
    assert settings.directions(FromFod(count=2)) == FromFod(count=2)
    with pytest.raises(InvalidInput, match=f"random_seed is 3, which has no effect: {kind} draws nothing"):
        settings.directions(Principal())


def test_another_method_has_the_settings_that_both_have():
    made = as_method(EuDX, Hamiltonian(step_mm=0.3, fa_stop=0.1, interpolation="linear"))
    assert made == EuDX(step_mm=0.3, fa_stop=0.1)
    assert as_method(IFOD2, SDStream(trials=5)) == IFOD2(trials=5)


# -- metrics ---------------------------------------------------------------------------------------------------------

EIGENVALUES = np.array([[[1.7, 0.5, 0.2]], [[1.0, 1.0, 1.0]], [[3.0, 2.9, 0.1]]])


def test_metrics_follow_their_formulas():
    assert [kind_of(one) for one in METRICS] == ["inverse", "sharpened", "adjugate", "adaptive"]
    np.testing.assert_array_equal(Inverse().dual(EIGENVALUES), EIGENVALUES)
    for power in (1.0, 2.0, 2.5):
        np.testing.assert_allclose(Sharpened(power=power).dual(EIGENVALUES), EIGENVALUES**power, rtol=1e-14)
    for values, dual in zip(EIGENVALUES[:, 0], Adjugate().dual(EIGENVALUES)[:, 0], strict=True):
        cofactors = np.linalg.det(np.diag(values)) * np.linalg.inv(np.diag(values))  # adj D = det(D) D^-1
        np.testing.assert_allclose(np.diag(1 / dual), cofactors, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS, ids=kind_of)
def test_metrics_keep_the_order_of_axes_and_the_type(metric):
    for real in (np.float32, np.float64):
        dual = metric().dual(EIGENVALUES.astype(real))
        assert dual.dtype == real
        assert (np.diff(dual, axis=-1) <= 0).all()
        assert (dual > 0).all()


NEW_METRIC = """
import importlib.util, sys
import napari_gpubio, numpy as np
from pathlib import Path

name = "napari_gpubio.fibers.metrics"
path = Path(napari_gpubio.__file__).parent / "fibers" / "metrics.py"
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
sys.modules[name] = module
added = '''
@dataclass(frozen=True, kw_only=True)
class Cubed(Metric):
    def dual(self, eigenvalues):
        return eigenvalues * eigenvalues * eigenvalues


AnyMetric = Cubed | Inverse'''
exec(path.read_text().replace("\\nAnyMetric = Inverse", added, 1), module.__dict__)

from napari_gpubio import fibers
from napari_gpubio.diffusion.phantom.closed_forms import ring

field = ring(origin=(-31.5, -31.5, -3.5), shape=(64, 64, 8)).sample()
common = dict(max_length_mm=40.0, precision="double")
seed, ahead = [(20.0, 0.0, 0.0)], fibers.Principal()
new = fibers.track(field, seed, ahead, fibers.Hamiltonian(metric=module.Cubed(), **common), device="cpu")
known = fibers.Hamiltonian(metric=fibers.Sharpened(power=3.0), **common)
old = fibers.track(field, seed, ahead, known, device="cpu")
assert len(new.points) > 50
np.testing.assert_allclose(new.points, old.points, atol=1e-5)
plain = fibers.track(field, seed, ahead, fibers.Hamiltonian(**common), device="cpu")
assert np.abs(new[0][-1] - plain[0][-1]).max() > 0.1
"""


@pytest.mark.long  # it compiles everything anew
def test_a_new_metric_is_one_more_class_in_the_file():
    done = subprocess.run([sys.executable, "-c", NEW_METRIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("make", "determinant"), [(ring, ALONG * ACROSS**2), (pull_back, 1.0)])
def test_with_a_constant_determinant_the_adjugate_metric_has_the_same_curves(make, determinant, device):
    launch = make().launches[0]
    inverse, adjugate = (
        one_ray(sampled(make), launch.start, launch.direction, changed(DOUBLE, metric=m, max_length_mm=30), device)
        for m in (Inverse(), Adjugate())
    )
    np.testing.assert_allclose(adjugate[0], inverse[0], atol=1e-4)
    ratio = adjugate.per_fiber["riemannian_length_mm"] / inverse.per_fiber["riemannian_length_mm"]
    np.testing.assert_allclose(ratio, np.sqrt(determinant), rtol=1e-5)


def test_sharpening_by_one_changes_nothing_and_by_three_is_the_cube(device):
    def ray(field, **changes):
        return one_ray(field, (20, 0, 0), (-0.2, 1, 0.1), changed(DOUBLE, max_length_mm=25, **changes), device)[0]

    one, three = (ray(sampled(ring), metric=Sharpened(power=power)) for power in (1.0, 3.0))
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

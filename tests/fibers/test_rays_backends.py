"""CUDA ray tracing and its CPU backend, bit for bit, with g++ in place of a GPU."""

import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.fibers import Cone, Isotropic, Principal
from napari_gpubio.fibers.kernels.fibers.gpu import LAYOUTS
from napari_gpubio.fibers.kernels.rays import cpu, gpu
from napari_gpubio.fibers.kernels.rays.problem import RayProblem, RaySettings
from napari_gpubio.fibers.metrics import Adjugate, Inverse, Sharpened
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.tractograms import StopReason
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.fibers.ray_samples import (
    BOTH_KINDS,
    BOTH_REALS,
    CALLOSUM,
    FIELDS,
    KINDS,
    SEEDS,
    brain,
    fresh,
    problem,
    settings_of,
    waves,
)
from tests.runs import check_same_methods

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
LIMITS = [
    {},
    {"fa_stop": 0.25},
    {"min_radius_mm": 4.0},
    {"max_drift": 2e-3},
    {"points_every": 3, "fa_stop": 0.1},
    {"max_length_mm": 11.0, "metric": Adjugate()},
    {"max_steps": 13, "metric": Sharpened()},
]


def raw_rays(p):
    """What each backend's rays wrote, before it is packed, as arrays of the CPU."""
    rays = p.rays(0, len(p.launch))
    for run in (cpu.Run(p), gpu.Run(p, device=GPU)):
        placed, output = run.allocate(rays)
        run.trace(placed, output)
        yield [to_host(values) for values in output]


def check_backends(p):
    """Both backends' raw rays and packed fibers are the same to the last bit; returns the stop reasons."""
    (points, *expected), (found_points, *found) = raw_rays(p)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert points.dtype == found_points.dtype == p.real
    for ray, n in enumerate(expected[0]):
        np.testing.assert_array_equal(found_points[ray, :n], points[ray, :n])
    check_packed(p)
    return expected[1].reshape(len(p.launch), -1)


def check_packed(p):
    """Both backends' packed fibers are the same to the last bit; returns them."""
    runs = [cpu.Run(p), gpu.Run(p, device=GPU)]
    for run in runs:
        run.advance(0, len(p.launch))
    (fibers,), (found,) = (run.take() for run in runs)
    for name in ("start", "points", "values", "offsets", "reasons", "stats"):
        np.testing.assert_array_equal(getattr(found, name), getattr(fibers, name))
    return fibers


@BOTH_KINDS
@BOTH_REALS
@pytest.mark.parametrize("where", FIELDS)
def test_rays_have_the_bits_of_their_backend(fake_gpu, kind, precision, where):
    fake_gpu()
    make, seeds = FIELDS[where]
    field, points = fresh(make()), 0
    for integrator in ("rk4", "rk2", "euler"):
        p = problem(field, seeds, settings_of(kind, precision, integrator=integrator))
        check_backends(p)
        fibers = check_packed(p)
        assert np.isfinite(fibers.points).all()
        points += len(fibers.points)
    assert points > 1500


@BOTH_KINDS
@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: ",".join(limits) or "none")
def test_limits_end_the_same_rays_at_the_same_points(fake_gpu, kind, limits):
    fake_gpu()
    found = set()
    for make, seeds in FIELDS.values():
        found |= set(check_backends(problem(fresh(make()), seeds, settings_of(kind, **limits))).ravel())
    expected = {
        "fa_stop": StopReason.FA,
        "min_radius_mm": StopReason.CURVATURE,
        "max_drift": StopReason.DRIFT if kind in ("vanaart2011", "linear") else None,  # the others drift too little
        "max_length_mm": StopReason.LENGTH,
        "max_steps": StopReason.STEPS,
    }
    assert {reason for name, reason in expected.items() if name in limits and reason} <= found


@BOTH_KINDS
@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(fake_gpu, kind, order):
    fake_gpu()
    make, seeds = FIELDS["brain"]
    with loader.thread_order(order):
        check_backends(problem(fresh(make()), seeds, settings_of(kind, fa_stop=0.2)))


@pytest.mark.parametrize(("precision", "lanes", "kept"), [("single", 2, 2), ("single", 3, 1), ("double", 6, 0)])
def test_rays_that_several_lanes_trace_have_the_bits_of_the_cpu(fake_gpu, monkeypatch, precision, lanes, kept):
    """As on a GPU; elsewhere one lane traces a ray, since exchanges between lanes take long here."""
    fake_gpu()
    p = problem(
        fresh(brain()), SEEDS[:2], settings_of("cubic", precision, max_length_mm=24.0, fa_stop=0.3), Cone(count=3)
    )
    monkeypatch.setitem(gpu._LANES, np.dtype(p.real), (lanes, kept))
    monkeypatch.setattr(
        gpu, "kernel", lambda *a, defines, **how: kernels.kernel(*a, defines=(*defines, "EXCHANGE"), **how)
    )
    assert len(set(check_backends(p).ravel())) > 1  # rays that end while others of their warp go on


@BOTH_KINDS
@pytest.mark.parametrize("measure", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_rays_one_way_or_both_measured_or_not(fake_gpu, kind, measure, both_ways):
    fake_gpu()
    make, seeds = FIELDS["brain"]
    directions = Isotropic(count=7, both_ways=both_ways)
    p = problem(fresh(make()), seeds, settings_of(kind, "double"), directions, measure=measure)
    assert check_backends(p).shape == (35, 2 if both_ways else 1)
    if not measure:
        assert not check_packed(p).stats[..., 2:].any()


def test_rays_that_cannot_start_have_the_bits_of_their_backend(fake_gpu):
    fake_gpu()
    field = fresh(waves())
    for kind in KINDS:
        launch = make_launch(field, FIELDS["waves"][1], Principal())
        launch.points_mm[1] = 900.0
        launch.points_mm[2] = np.nan
        launch.axes[3] = 0.0
        launch.axes[4] = np.nan
        reasons = check_backends(RayProblem(field, launch, settings_of(kind, max_length_mm=5.0)))
        assert (reasons[1:3] == StopReason.INVALID).all()
        assert (reasons[0] == StopReason.LENGTH).all()


@pytest.mark.long  # another build of the kernels, whose bits are compared above
def test_the_kernels_have_no_undefined_behavior(fake_gpu, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    make, seeds = FIELDS["brain"]
    for kind in KINDS:
        check_backends(problem(fresh(make()), seeds, settings_of(kind, max_length_mm=20.0)))
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_structs_are_laid_out_as_the_kernels_read_them(real):
    """The texture kernel cannot run without a GPU, so at least its struct is compared."""
    text = kernels.source(gpu.SOURCE) + kernels.source(gpu.TEXTURE_SOURCE)
    for name, layout in {**gpu.layouts(real), **LAYOUTS}.items():
        assert struct_in(text, name, real=real, cudaTextureObject_t=np.uint64) == layout
    assert set(RaySettings._fields) - {"kind"} == set(gpu.layouts(real)["RaySettings"].names)


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


@pytest.mark.parametrize("kind", [*KINDS, "interpolating"])
@BOTH_REALS
def test_prepared_fields_have_the_bits_of_their_backend(fake_gpu, kind, precision):
    cupy = fake_gpu().module
    changes = {"interpolation": kind} if kind == "interpolating" else {}
    for metric in (Inverse(), Adjugate(), Sharpened()):
        settings = settings_of("cubic" if changes else kind, precision, metric=metric, **changes)
        p = problem(fresh(brain()), [CALLOSUM], settings)
        expected, found = cpu.prepare_field(p), cupy.asnumpy(gpu.prepare_field(p))
        assert (found.dtype, found.flags.c_contiguous) == (p.real, True)
        np.testing.assert_array_equal(found, expected)

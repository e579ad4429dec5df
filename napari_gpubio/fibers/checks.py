"""Reference and speed cases of fiber tracking, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp
from napari_gpubio.core.device import Device
from napari_gpubio.core.settings import kind_of
from napari_gpubio.diffusion.checks import small_field, small_fods
from napari_gpubio.diffusion.fods.run import deconvolve, find_peaks
from napari_gpubio.diffusion.phantom import AnalyticField, analytic_fields, load_brain_phantom
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.fibers import fod_checks
from napari_gpubio.fibers.directions import Cone, FromFod, Principal
from napari_gpubio.fibers.flow.between import routes
from napari_gpubio.fibers.run import problem_of, trace_problem, track
from napari_gpubio.fibers.seeds import Field, Launch, ball
from napari_gpubio.fibers.settings import (
    IFOD2,
    EuDX,
    Hamiltonian,
    InTensors,
    TensorMethod,
    TrackMethod,
    VanAart2011,
    as_method,
)
from napari_gpubio.tractograms.model import StopReason, Tractogram

Array = npt.NDArray[Any]

# Voxels are 1 mm, the step is 0.2 voxel. Position errors in mm and relative drifts of g(v, v); single precision, as on
# every device by default. The seed's own discretization has a floor that no step removes.
HAMILTONIAN = {"position": 1e-3, "drift": 1e-4}
SHARP = {"position": 5e-3, "drift": 1e-4}  # D^3 on the ring: its tensors vary by 1 : 180 within a voxel or two
VANAART = {"position": 0.15, "drift": 1e-2}
BEYOND_VANAART = ("adaptive ring", "ring, power 2", "ring, power 3")  # where the seed's discretization breaks down
EXACT = Hamiltonian(
    interpolation="interpolating",
    step_mm=0.2,
    fa_stop=0.0,
    min_length_mm=0.0,
    eigenvalue_floor_mm2_per_s=1e-9,
    eigenvalue_ceiling_mm2_per_s=1e6,
)
SEED_SCHEME = dataclasses.replace(as_method(VanAart2011, EXACT), integrator="rk2")


def shoot(
    field: Field, starts: npt.ArrayLike, directions: npt.ArrayLike, method: TrackMethod, device: Device
) -> Tractogram:
    """Trace rays forwards, one along each direction (R, 3) of any length, from one start or one each, world mm."""
    axes = np.atleast_2d(np.asarray(directions, np.float64))
    axes = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    points = np.broadcast_to(np.asarray(starts, np.float64), axes.shape)
    launch = Launch(points, axes, Principal(both_ways=False))
    return trace_problem(problem_of(method)(field, launch, method), device)


def ray_errors(field: AnalyticField, method: TensorMethod, device: Device) -> dict[str, float]:
    """Compare every launch of an analytic field with its closed form.

    ``position``: largest distance (mm) between the end of a ray and the exact point at its Riemannian length, where the
    field has a closed form; ``drift``: largest relative change of g(v, v).
    """
    sampled = field.sample()
    worst = {"drift": 0.0} if field.geodesic is None else {"position": 0.0, "drift": 0.0}
    for ray in field.launches:
        lengths = np.linspace(0.0, 0.98 * ray.length, 400)
        if field.geodesic is None:
            euclidean = 40.0
        else:
            exact = field.path(ray.start, ray.direction, lengths)
            euclidean = float(np.linalg.norm(np.diff(exact, axis=0), axis=1).sum())
        limited = dataclasses.replace(method, max_length_mm=euclidean)
        traced = shoot(sampled, ray.start, ray.direction, limited, device)
        worst["drift"] = max(worst["drift"], float(traced.per_fiber["drift"][0]))
        if field.geodesic is not None:
            end = field.path(ray.start, ray.direction, [float(traced.per_fiber["riemannian_length_mm"][0])])[0]
            worst["position"] = max(worst["position"], float(np.linalg.norm(traced[0][-1] - end)))
    return worst


def _analytic_check(field: AnalyticField, method: TensorMethod, limits: dict[str, float]) -> Check:
    def run(device: Device) -> list[Finding]:
        errors = ray_errors(field, method, device)
        what = {"position": "end point (mm)", "drift": "drift of g(v, v)"}
        return [
            Finding(quantity=what[k], reference=0.0, result=errors[k], error=errors[k], tolerance=limits[k])
            for k in errors
        ]

    return Check(name=f"{field.name}, {kind_of(method)}", source="closed form", run=run)


def _checks() -> tuple[Check, ...]:
    fields = analytic_fields()
    return (
        *(_analytic_check(f, EXACT, SHARP if f.name == "ring, power 3" else HAMILTONIAN) for f in fields),
        *(_analytic_check(f, SEED_SCHEME, VANAART) for f in fields if f.name not in BEYOND_VANAART),
    )


def _length_findings(device: Device) -> list[Finding]:
    """Fibers through the corpus callosum, most of which are longer than the limit until they are cut."""
    method = Hamiltonian(max_length_mm=40.0)
    field = fit_tensors(load_brain_phantom(), device=device)
    fibers = track(field, ball((0.0, -5.0, 22.0), 3.0, 50), Cone(count=20), method, device=device)
    left = method.max_length_mm - fibers.lengths_mm()
    cut = np.logical_or(*(fibers.per_fiber[name] == StopReason.LENGTH for name in ("stop_reason", "stop_reason_back")))
    errors = {
        "longest fiber, beyond 40 mm (mm)": (max(0.0, float(-left.min())), 1e-3),
        "shortest fiber that was cut, below 40 mm (mm)": (float(left[cut].max(initial=0.0)), 2.0 * method.step_mm),
    }
    return [
        Finding(quantity=name, reference=0.0, result=error, error=error, tolerance=tolerance)
        for name, (error, tolerance) in errors.items()
    ]


LENGTH_CHECK = Check(name="maximum length of whole fibers", source="definition", run=_length_findings)


def _tracking_speed(method: InTensors) -> Callable[[Device], Callable[[], float]]:
    def prepare(device: Device) -> Callable[[], float]:
        field = fit_tensors(load_brain_phantom(), device=device)
        directions = method.directions(None, Cone(half_angle_deg=20.0))
        seeds = ball((0.0, -5.0, 22.0), 2.0 if directions.per_seed == 1 else 0.0, 1000 // directions.per_seed)

        def work() -> float:
            return float(len(track(field, seeds, directions, method, device=device).points))

        return work

    return prepare


def _streamline_speed(device: Device) -> Callable[[], float]:
    fods = deconvolve(load_brain_phantom(), device=device)
    return lambda: float(len(track(fods, [(0.0, -5.0, 22.0)], FromFod(), IFOD2(), device=device).points))


CHECKS = (*_checks(), LENGTH_CHECK, *fod_checks.CHECKS)
SPEEDS = (
    Speed(
        name="1000 geodesics from a click (hamiltonian, cubic, RK4)",
        unit="points",
        prepare=_tracking_speed(Hamiltonian()),
    ),
    Speed(
        name="1000 geodesics from a click (vanaart2011, RK2)",
        unit="points",
        prepare=_tracking_speed(VanAart2011(integrator="rk2")),
    ),
    Speed(
        name="1000 streamlines from a click (EuDX)",
        unit="points",
        prepare=_tracking_speed(EuDX()),
    ),
    Speed(name="1000 streamlines in FODs from a click (iFOD2)", unit="points", prepare=_streamline_speed),
)


def _track_once() -> None:
    field = small_field()
    center = field.affine[:3, :3] @ np.full(3, 3.5) + field.affine[:3, 3]
    track(field, ball(center, 1.0, 2), Cone(count=1), device="cpu")


def _track_in_fods_once() -> None:
    fods = small_fods()
    center = fods.affine[:3, :3] @ np.full(3, 3.5) + fods.affine[:3, 3]
    track(fods, ball(center, 1.0, 2), FromFod(count=1), device="cpu")


def _flow_once() -> None:
    fixels = find_peaks(small_fods(), device="cpu")
    center = fixels.affine[:3, :3] @ np.full(3, 3.5) + fixels.affine[:3, 3]
    one, other = (Sphere(name="", center_mm=tuple(center + away), radius_mm=1.5) for away in (-2.0, 2.0))
    routes(fixels, one, other, device="cpu")


_FIT, _FODS = "diffusion/tensor fit", "diffusion/spherical deconvolution"
WARMUPS = (
    WarmUp(name="fiber tracking", run=_track_once, functions=42, needs=(_FIT,)),
    WarmUp(name="streamlines in FODs", run=_track_in_fods_once, functions=25, needs=(_FIT, _FODS)),
    WarmUp(name="flow along fixels", run=_flow_once, functions=59, needs=(_FIT, _FODS)),
)

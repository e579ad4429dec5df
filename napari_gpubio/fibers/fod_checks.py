"""Reference cases of FODs: directions that a deconvolution finds again, and fibers that keep to a ring."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding, difference_finding, error_finding
from napari_gpubio.core.device import Device
from napari_gpubio.diffusion.fods.estimate import fit_zonal
from napari_gpubio.diffusion.fods.harmonics import half_sphere
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.run import deconvolve, find_peaks
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.phantom.crossings import radius_after, ring_bundle
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.run import problem_of, trace_problem
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import METHODS

Floats = npt.NDArray[np.float64]
BVAL, DIRECTIONS, VOXELS = 3000.0, 60, 50
ALONG, ACROSS, S0 = 1.7e-3, 0.2e-3, 1000.0  # mm^2/s along and across a fiber, and the signal at b = 0
PEAK_ERRORS_DEG = {90: 0.3, 60: 0.6, 45: 1.8}  # of the crossing angle: twice to three times those of double precision
RING_MM, RING_ERROR = 20.0, 0.01
RING_METHODS = {"sd_stream": "fods", "fixel_geodesic": "fixels", "lifted_geodesic": "fods"}


def _signals(axes: Floats, directions: Floats) -> Floats:
    """Mean signals (M, V) of fibers along axes (M, F, 3), each an axially symmetric tensor."""
    return S0 * np.exp(-BVAL * (ACROSS + (ALONG - ACROSS) * (axes @ directions.T) ** 2)).mean(axis=1)


def _crossing_axes(angle_deg: float) -> Floats:
    """Pairs of axes at an angle, turned at random, shape (M, 2, 3)."""
    angle = np.deg2rad(angle_deg)
    first, other = np.random.default_rng(0).normal(size=(2, VOXELS, 3))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    across = np.cross(first, other)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.stack([first, np.cos(angle) * first + np.sin(angle) * across], axis=1)


def peak_errors_deg(angle_deg: float, device: Device) -> Floats:
    """Angle from each true direction to the nearest peak of a deconvolution, degrees, shape (M, 2)."""
    directions, axes = half_sphere(DIRECTIONS), _crossing_axes(angle_deg)
    along_z = np.array([[0.0, 0.0, 1.0]])
    zonal = fit_zonal(_signals(along_z[np.newaxis], directions), directions, along_z, 8)
    scan = DiffusionScan(
        data=np.insert(_signals(axes, directions), 0, S0, axis=1)[:, np.newaxis, np.newaxis].astype(np.float32),
        bvals=np.r_[0.0, np.full(DIRECTIONS, BVAL)],
        directions=np.insert(directions, 0, 0.0, axis=0),
        affine=np.eye(4),
    )
    response = Response(coefficients=zonal, bvals=(int(BVAL),))
    fods = deconvolve(scan, response, np.ones(scan.shape, bool), device=device)
    peaks = find_peaks(fods, device=device).dense(3)[0][:, 0, 0].astype(np.float64)
    cosines = np.abs(axes @ peaks.transpose(0, 2, 1)).max(axis=2)
    return np.asarray(np.rad2deg(np.arccos(np.clip(cosines, -1.0, 1.0))))


def _crossing_check(angle_deg: int) -> Check:
    def run(device: Device) -> list[Finding]:
        error = float(peak_errors_deg(angle_deg, device).mean())
        return [error_finding("mean error of the peaks (degrees)", error, PEAK_ERRORS_DEG[angle_deg])]

    return Check(name=f"fibers that cross at {angle_deg}°, deconvolution", source="known directions", run=run)


def ring_radius_mm(method: str, device: Device) -> float:
    """Radius of a fiber of a ring after a quarter turn, mm; it started at `RING_MM`."""
    settings = METHODS[method](min_length_mm=0.0, max_length_mm=40.0)
    launch = Launch(np.array([[RING_MM, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]]), Principal(both_ways=False))
    field = getattr(ring_bundle(RING_MM), RING_METHODS[method])
    return radius_after(trace_problem(problem_of(settings)(field, launch, settings), device)[0], 90.0)


def _ring_check(method: str) -> Check:
    def run(device: Device) -> list[Finding]:
        radius = ring_radius_mm(method, device)
        what = "radius after a quarter turn (mm)"
        return [difference_finding(what, RING_MM, radius, RING_ERROR, relative=True)]

    return Check(name=f"ring of fibers, {method}", source="circle", run=run)


CHECKS: tuple[Check, ...] = (*map(_crossing_check, PEAK_ERRORS_DEG), *map(_ring_check, RING_METHODS))

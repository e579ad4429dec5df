"""Fluence along a line, with its error, and diffusion theory at the same points.

Fluence falls by decades, nearly exponentially, so it is interpolated on its logarithm: the values of the eight voxel
centers around a point are averaged geometrically with trilinear weights, which is exact for an exponential in any
direction. (The nearest voxel alone would be off by half a voxel, a factor e^(mu_eff d / 2); a plain trilinear mean is
always too high. In return, the logarithm of a noisy value is low on average, by half the square of its relative
error.) Only voxels of the refractive index at the point take part: where it changes, fluence may jump, and outside
there is none.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, in_grid
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import OUTSIDE, Domain, Medium
from napari_gpubio.optics.sources import AllRound, Isotropic
from napari_gpubio.optics.surface import first_tissue
from napari_gpubio.optics.theory import fluence_infinite, fluence_semi_infinite, transport_mean_free_path_mm

Array = npt.NDArray[Any]
SAMPLES_PER_VOXEL = 2
MAX_SAMPLES = 2000
FAR_ENOUGH = 3.0  # transport mean free paths from the source, where diffusion theory begins to hold
_INWARD_MM = 1e-6  # so far inside, a point of the surface is surely in tissue
_CORNERS = np.stack(np.meshgrid((0, 1), (0, 1), (0, 1), indexing="ij"), -1).reshape(8, 3)


@dataclass(frozen=True, eq=False, kw_only=True)
class Profile(ShortRepr):
    """Fluence along a line.

    Parameters
    ----------
    distance_mm
        Distance from the beginning of the line, shape (N,).
    points_mm
        Where the samples are, world, shape (N, 3).
    labels
        Label of the voxel at each sample, shape (N,); 0 outside.
    fluence
        Fluence of all time gates per launched photon, 1/mm^2, shape (N,); 0 where no light came.
    error
        Its standard error, 1/mm^2, shape (N,); an upper bound, because neighboring voxels are taken to vary together.
    """

    distance_mm: npt.NDArray[np.float64]
    points_mm: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    fluence: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TheoryCurve(ShortRepr):
    """Fluence by diffusion theory at the points of a profile.

    Parameters
    ----------
    fluence
        Per launched photon, 1/mm^2, shape (N,); NaN above the surface.
    medium
        What the medium consists of.
    surface
        Whether it ends at a flat surface; else it is infinite.
    valid_from_mm
        Distance from the source within which diffusion theory does not hold.
    valid
        Whether a point is farther away than that, and below the surface, shape (N,).
    """

    fluence: npt.NDArray[np.float64]
    medium: Medium
    surface: bool
    valid_from_mm: float
    valid: npt.NDArray[np.bool_]

    @property
    def text(self) -> str:
        """What the curve is and where it holds, for a legend of three lines."""
        name = self.medium.name or f"label {self.medium.label}"
        where = "below a flat surface at the source" if self.surface else "on all sides of the source"
        return f"diffusion theory for {name} alone\n{where};\nvalid from {short_number(self.valid_from_mm, 2)} mm on"


def line_profile(result: LightResult, start_mm: npt.ArrayLike, end_mm: npt.ArrayLike) -> Profile:
    """Fluence along a straight line.

    Parameters
    ----------
    result
        What a simulation gave.
    start_mm, end_mm
        Ends of the line, world mm. Samples lie half a voxel apart.

    Raises
    ------
    InvalidInput
        If the ends are the same point or not finite.
    """
    start, end = np.asarray(start_mm, np.float64), np.asarray(end_mm, np.float64)
    length = float(np.linalg.norm(end - start))
    if not (np.isfinite(length) and length > 0):
        raise InvalidInput(f"the line runs from {start.tolist()} to {end.tolist()} mm; give two different points")
    spacing = float(result.domain.voxel_sizes_mm.min()) / SAMPLES_PER_VOXEL
    count = int(np.clip(np.ceil(length / spacing), 1, MAX_SAMPLES - 1)) + 1
    distance = np.linspace(0.0, length, count)
    points = start + (end - start) * (distance / length)[:, None]
    labels, fluence, error = sample_fluence(result, points)
    return Profile(distance_mm=distance, points_mm=points, labels=labels, fluence=fluence, error=error)


def depth_profile(result: LightResult) -> Profile:
    """Fluence from where the source's axis enters the tissue along its direction to the other side of the volume.

    Raises
    ------
    InvalidInput
        If the axis meets no tissue.
    """
    source = result.single_source("a profile along its direction")
    start, axis = entry_point(result), source.frame()[2]
    corners = _CORNERS * result.domain.shape - 0.5
    depths = (apply_affine(result.domain.affine, corners) - start) @ axis
    profile = line_profile(result, start, start + axis * depths.max())
    inside = np.flatnonzero(profile.labels != OUTSIDE)
    kept = slice(0, inside[-1] + 1)
    return replace(profile, **{name: getattr(profile, name)[kept] for name in Profile.__dataclass_fields__})


def detector_profile(result: LightResult, detector: int) -> Profile:
    """Fluence from the source straight to a detector; the argument is the detector's index.

    Raises
    ------
    InvalidInput
        If the detector is a whole face.
    """
    end = result.detectors[detector]
    if not isinstance(end, Detector):
        raise InvalidInput(f"detector {detector + 1} is the face {end.face} of the grid; take one that has a position")
    source = result.single_source("a profile from it to a detector")
    return line_profile(result, source.position_mm, end.position_mm)


def sample_fluence(
    result: LightResult, points_mm: npt.ArrayLike
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Label, fluence and its standard error at world positions; see the head of this file for how.

    Parameters
    ----------
    result
        What a simulation gave.
    points_mm
        World positions, shape (N, 3).
    """
    domain = result.domain
    place = apply_affine(np.linalg.inv(domain.affine), points_mm)
    label = _labels_at(domain, np.floor(place + 0.5).astype(np.int64))
    low = np.floor(place).astype(np.int64)
    voxels = low[:, None, :] + _CORNERS
    weights = np.where(_CORNERS, (place - low)[:, None, :], 1 - (place - low)[:, None, :]).prod(axis=2)
    own = _indices_at(result, np.floor(place + 0.5).astype(np.int64))
    counts = (_indices_at(result, voxels) == own[:, None]) & (label != OUTSIDE)[:, None]
    inside = tuple(np.moveaxis(np.clip(voxels, 0, np.array(domain.shape) - 1), 2, 0))
    values = result.gates[inside].sum(axis=2, dtype=np.float64)  # not `fluence`, which sums the whole volume
    weights = weights * (counts & (values > 0))
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(total[:, None] > 0, weights / total[:, None], 0.0)
        logarithm = (shares * np.where(values > 0, np.log(values), 0.0)).sum(axis=1)
        relative = (shares * np.where(values > 0, result.fluence_error[inside] / values, 0.0)).sum(axis=1)
    fluence = np.where(total > 0, np.exp(logarithm), 0.0)
    return label, fluence, fluence * relative


def _labels_at(domain: Domain, voxels: Array) -> npt.NDArray[np.int64]:
    """Labels of voxels, shape (..., 3); those beyond the grid are outside."""
    within = in_grid(voxels, domain.shape)
    inside = np.clip(voxels, 0, np.array(domain.shape) - 1)
    return np.where(within, domain.labels[tuple(np.moveaxis(inside, -1, 0))], OUTSIDE).astype(np.int64)


def _indices_at(result: LightResult, voxels: Array) -> npt.NDArray[np.float64]:
    """Refractive index that light is refracted by in voxels, shape (..., 3); 0 outside."""
    domain, labels = result.domain, _labels_at(result.domain, voxels)
    if not result.settings.refraction:
        return (labels != OUTSIDE).astype(np.float64)
    if domain.n is not None:
        inside = np.clip(voxels, 0, np.array(domain.shape) - 1)
        return np.where(labels != OUTSIDE, domain.n[tuple(np.moveaxis(inside, -1, 0))], 0.0)
    table = np.zeros(65536)
    for medium in domain.media:
        table[medium.label] = medium.n
    return table[labels]


# -- diffusion theory -------------------------------------------------------------------------------------------------


def entry_point(result: LightResult) -> npt.NDArray[np.float64]:
    """Where the source's axis first is in tissue, world mm.

    Raises
    ------
    InvalidInput
        If it never is.
    """
    domain, source = result.domain, result.single_source("the place where its axis enters the tissue")
    found = first_tissue(domain.labels, domain.affine, source.position_mm, source.direction)
    if found is None:
        raise InvalidInput("the source's axis hits no tissue; point it at the tissue")
    return found


def theory_curve(result: LightResult, points_mm: npt.ArrayLike) -> TheoryCurve:
    """Fluence at world positions by diffusion theory, if all tissue were the one in which the source's light begins.

    A beam is taken as a pencil beam into a semi-infinite medium, whose surface lies where the beam's axis enters the
    tissue, across the axis; a point source as one in an infinite medium. This is right for a homogeneous block, far
    from its sides and a few transport mean free paths from the source; elsewhere the difference shows what the other
    tissues do.

    Parameters
    ----------
    result
        What a simulation gave; its specular loss and what missed the tissue are left out here too.
    points_mm
        World positions, shape (N, 3).

    Raises
    ------
    InvalidInput
        If the source is a line, a cylinder or a volume, or its axis meets no tissue; if the tissue there does not
        scatter, or scattering depends on direction somewhere.
    """
    source = result.single_source("a curve by diffusion theory")
    beam = not isinstance(source, AllRound)
    if not beam and not isinstance(source, Isotropic):
        raise InvalidInput(f"there is no curve by diffusion theory for a source of kind {source.kind!r}")
    start, axis = entry_point(result), source.frame()[2]
    medium = result.domain.medium_at(start + _INWARD_MM * axis)
    if result.domain.is_anisotropic:
        raise InvalidInput("this diffusion theory is for tissue that scatters alike in all directions")
    offsets = np.asarray(points_mm, np.float64) - start
    distance, depth = np.linalg.norm(offsets, axis=1), offsets @ axis
    below = (depth >= -_INWARD_MM) if beam else np.ones(len(offsets), np.bool_)
    if beam:
        outside_n = result.domain.outside_n if result.settings.refraction else medium.n
        across = np.linalg.norm(offsets - depth[:, None] * axis, axis=1)
        fluence = fluence_semi_infinite(across, depth.clip(0.0), medium, outside_n)
    else:
        fluence = fluence_infinite(distance, medium)
    valid_from = FAR_ENOUGH * transport_mean_free_path_mm(medium)
    return TheoryCurve(
        fluence=np.where(below, result.energy.entered * fluence, np.nan),
        medium=medium,
        surface=beam,
        valid_from_mm=valid_from,
        valid=below & (distance >= valid_from),
    )

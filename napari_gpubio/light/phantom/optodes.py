"""A source and detectors on the left side of a head, so that a run needs no placing."""

from collections.abc import Sequence

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.phantom.shapes import Floats
from napari_gpubio.light.source import Source
from napari_gpubio.light.surface import above_surface, first_tissue, inward_normal

SEPARATIONS_MM = (10.0, 20.0, 30.0, 40.0)
RADIUS_MM = 2.0
_LEFT_OF_VERTEX_DEG = 38.0  # C3 lies 20 % of the way round the head from the vertex toward the left ear
_STEP_DEG = 0.5  # between the points with which the way along the scalp is measured


def default_source(domain: Domain) -> Source:
    """A pencil beam onto the scalp over the left motor cortex (near C3), along the inward normal.

    It starts a hair above the surface, so that specular reflection counts.

    Parameters
    ----------
    domain
        A head in world RAS; any tissue will do.
    """
    point = _surface_point(domain, _center(domain), _ray(0.0))
    normal = inward_normal(domain.labels, domain.affine, point)
    start = above_surface(domain.affine, point, normal)
    return Source(
        kind="pencil", position_mm=(start[0], start[1], start[2]), direction=(normal[0], normal[1], normal[2])
    )


def default_detectors(
    domain: Domain, separations_mm: Sequence[float] = SEPARATIONS_MM, radius_mm: float = RADIUS_MM
) -> tuple[Detector, ...]:
    """Detectors in front of `default_source`, in a row along the scalp toward the forehead.

    Parameters
    ----------
    domain
        A head in world RAS.
    separations_mm
        Distances from the source along the scalp, mm.
    radius_mm
        Radius of each detector, a sphere around its point of the scalp.

    Raises
    ------
    InvalidInput
        If a separation is not positive, or leads beyond the scalp in front of the source.
    """
    return tuple(
        Detector(position_mm=(place[0], place[1], place[2]), radius_mm=radius_mm, name=f"{separation:g} mm")
        for place, separation in zip(_places(domain, separations_mm), separations_mm, strict=True)
    )


def _places(domain: Domain, separations_mm: Sequence[float]) -> Floats:
    """Points of the surface at distances from the source along a great circle toward the front, shape (N, 3)."""
    center, angles = _center(domain), np.deg2rad(np.arange(0.0, 90.0, _STEP_DEG))
    radii = [np.linalg.norm(_surface_point(domain, center, _ray(angle)) - center) for angle in angles]
    smooth = np.polynomial.Polynomial.fit(angles, radii, 6)(angles)  # else the steps of the voxels lengthen the way
    line = center + smooth[:, None] * np.array([_ray(angle) for angle in angles])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    for separation in separations_mm:
        if not 0 < separation <= along[-1]:
            raise InvalidInput(f"a separation of {separation} mm; give one between 0 and {along[-1]:.0f} mm")
    at = np.interp(separations_mm, along, angles)
    return np.array([_surface_point(domain, center, _ray(angle)) for angle in at])


def _ray(angle: float) -> Floats:
    """Direction from the center of the head through the source, turned toward the front by an angle."""
    left = np.deg2rad(_LEFT_OF_VERTEX_DEG)
    source = np.array([-np.sin(left), 0.0, np.cos(left)])
    return np.cos(angle) * source + np.sin(angle) * np.array([0.0, 1.0, 0.0])


def _surface_point(domain: Domain, center: Floats, outward: Floats) -> Floats:
    """Where a ray from far outside toward the center meets the tissue."""
    far = float(np.linalg.norm(domain.voxel_sizes_mm * domain.shape))
    point = first_tissue(domain.labels, domain.affine, center + far * outward, -outward)
    if point is None:
        raise InvalidInput("the center of the volume is not in the tissue; place the source by hand")
    return point


def _center(domain: Domain) -> Floats:
    """Center of the tissue, world mm."""
    return apply_affine(domain.affine, np.argwhere(domain.labels != OUTSIDE).mean(axis=0))

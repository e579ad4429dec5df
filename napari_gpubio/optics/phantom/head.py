"""A head made of formulas, with a source and detectors on it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine, lengths_along
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.phantom.anatomy import (
    CORTEX_MM,
    LEAF_CORTEX_MM,
    brain_hull,
    cerebellar_depth_mm,
    cortex_depth_mm,
    deep_nuclei,
    soft_tissue,
    ventricles,
    white_core,
)
from napari_gpubio.optics.phantom.shapes import Floats, Lattice, blended_union
from napari_gpubio.optics.sources import Pencil, Source
from napari_gpubio.optics.surface import above_surface, first_tissue, inward_normal
from napari_gpubio.optics.tissue import head_media

SAMPLE = "head_phantom.nii.gz"
SCALP, SKULL, CSF, GRAY, WHITE = 1, 2, 3, 4, 5
WAVELENGTH_NM = 690.0
VOXEL_MM = 2.0
CSF_MM = 2.5  # between the hull of the brain and the skull
_LOWEST, _HIGHEST = (-80.0, -112.0, -70.0), (80.0, 82.0, 88.0)  # field of view
_MAX_POINTS_AT_ONCE = 2_000_000
_NOTE = "A phantom made of formulas; it looks like a head and is nobody's."


def head_phantom(voxel_mm: float = VOXEL_MM, wavelength_nm: float = WAVELENGTH_NM) -> Domain:
    """Make the head phantom, with the optical properties of its tissues filled in.

    Labels: 1 scalp (with the stump of face and neck), 2 skull, 3 CSF, 4 gray matter, 5 white matter; 0 outside. World
    axes are RAS, with the origin where the anterior commissure would be.

    Parameters
    ----------
    voxel_mm
        Edge of the cubic voxels, 0.25 to 5 mm. The anatomy is the same at every size; sulci are 2 to 4 mm wide and
        need voxels of 2 mm or less.
    wavelength_nm
        Wavelength for which `tissue.head_media` gives the properties.

    Raises
    ------
    InvalidInput
        If the voxel size is out of range, or the properties are not known at the wavelength.
    """
    media = head_media(wavelength_nm)
    labels, affine = head_labels(voxel_mm)
    return Domain(labels=labels, affine=affine, media=media, notes=(_NOTE,))


def load_head_phantom(wavelength_nm: float = WAVELENGTH_NM) -> Domain:
    """Read the phantom that comes with the package, in voxels of 2 mm, with the properties of its tissues filled in.

    Raises
    ------
    InvalidInput
        If the file is missing, or the properties are not known at the wavelength.
    """
    path = sample_path(SAMPLE)
    from napari_gpubio.core.volumes import read_volume  # nibabel, which a GPU machine may lack

    labels, affine = read_volume(path)
    return Domain(labels=labels, affine=affine, media=head_media(wavelength_nm), path=path, notes=(_NOTE,))


def write_head_phantom(path: str | Path, voxel_mm: float = VOXEL_MM) -> None:
    """Write the labels of the phantom as NIfTI."""
    labels, affine = head_labels(voxel_mm)
    from napari_gpubio.core.volumes import write_volume

    write_volume(path, labels, affine, "napari-gpubio head phantom")


def head_labels(voxel_mm: float) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Labels of the phantom, shape (X, Y, Z), and the affine, mm; errors as `head_phantom`.

    The planes x = 0, y = 0 and z = 0 go through voxel centers.
    """
    if not 0.25 <= voxel_mm <= 5.0:
        raise InvalidInput(f"voxel_mm is {voxel_mm}; the head phantom is made in voxels of 0.25 to 5 mm")
    first = np.ceil(np.asarray(_LOWEST) / voxel_mm).astype(int)
    last = np.floor(np.asarray(_HIGHEST) / voxel_mm).astype(int)
    affine = np.diag([voxel_mm, voxel_mm, voxel_mm, 1.0])
    affine[:3, 3] = voxel_mm * first
    labels = np.zeros(last - first + 1, np.uint8)
    slab = max(1, _MAX_POINTS_AT_ONCE // int(np.prod(labels.shape[:2])))
    for start in range(0, labels.shape[2], slab):
        part = labels[:, :, start : start + slab]
        index = np.moveaxis(np.indices(part.shape), 0, -1) + np.array([0, 0, start])
        part[...] = labels_at(apply_affine(affine, index))
    return labels, affine


def labels_at(points: Floats) -> npt.NDArray[np.uint8]:
    """Labels of world points, shape (...,)."""
    shells, labels = _shells(), np.zeros(points.shape[:-1], np.uint8)
    labels[shells.lattice.value(shells.scalp, points) < 0] = SCALP
    labels[shells.lattice.value(shells.skull, points) < 0] = SKULL
    inside = shells.lattice.value(shells.cavity, points) < 0
    labels[inside] = _labels_in_skull(points[inside])
    return labels


def _labels_in_skull(points: Floats) -> npt.NDArray[np.uint8]:
    """Labels of points within the skull, shape (N, 3) to (N,)."""
    cerebral, cerebellar, core = cortex_depth_mm(points), cerebellar_depth_mm(points), -white_core(points)
    # blended, so that cortex and core meet without a gap
    above_white = blended_union(CORTEX_MM - np.maximum(cerebral, 0.0), -core, 3.0)
    white = (above_white < 0) | (cerebellar > LEAF_CORTEX_MM) | (core > 0)
    labels = np.full(len(points), CSF, np.uint8)
    labels[(cerebral > 0) | (cerebellar > 0)] = GRAY
    labels[white & ((labels == GRAY) | (core > 0))] = WHITE
    labels[(labels == WHITE) & (deep_nuclei(points) < 0)] = GRAY
    labels[ventricles(points) < 0] = CSF
    return labels


class _Shells(NamedTuple):
    """Signed distances to the smooth surfaces, mm, on a lattice."""

    lattice: Lattice
    scalp: Floats  # outside of the head
    skull: Floats  # outside of the skull
    cavity: Floats  # inside of the skull


@cache
def _shells() -> _Shells:
    """The smooth surfaces; made once."""
    box = tuple(v - 4.0 for v in _LOWEST), tuple(v + 4.0 for v in _HIGHEST)  # the same left and right
    fine, lattice = Lattice(*box, 1.5), Lattice(*box, 3.0)
    points = lattice.points
    hull = lattice.distance(fine.surface(brain_hull(fine.points)), brain_hull(points))
    cavity = hull - CSF_MM
    skull = cavity - _skull_mm(points)
    return _Shells(lattice, soft_tissue(points, skull, _scalp_mm(points)), skull, cavity)


def _skull_mm(points: Floats) -> Floats:
    """Thickness of the skull: thick at forehead and occiput, thin at the temples."""
    x, y = points[..., 0] / 75.0, (points[..., 1] + 15.0) / 92.0
    return 7.0 + 0.8 * np.clip(y**2 - x**2, -1.0, 1.0)


def _scalp_mm(points: Floats) -> Floats:
    """Thickness of the scalp over the vault: thickest at the vertex."""
    return 6.0 + 0.6 * np.clip(points[..., 2] / 60.0, -1.0, 1.0)


SEPARATIONS_MM = (10.0, 20.0, 30.0, 40.0)
RADIUS_MM = 2.0
_LEFT_OF_VERTEX_DEG = 38.0  # C3 lies 20 % of the way round the head from the vertex toward the left ear
_STEP_DEG = 0.5  # between the points with which the way along the scalp is measured


def default_source(domain: Domain) -> Source:
    """A pencil beam onto the scalp over the left motor cortex (near C3), along the inward normal.

    It starts just above the surface, so that specular reflection counts.

    Parameters
    ----------
    domain
        A head in world RAS; any tissue will do.
    """
    point = _surface_point(domain, _center(domain), _ray(0.0))
    normal = inward_normal(domain.labels, domain.affine, point)
    start = above_surface(domain.affine, point, normal)
    return Pencil(position_mm=(start[0], start[1], start[2]), direction=(normal[0], normal[1], normal[2]))


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
    along = lengths_along(line)
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

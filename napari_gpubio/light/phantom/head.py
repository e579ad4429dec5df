"""A head with scalp, skull, CSF, gray and white matter: nested and folded surfaces made of formulas, no person's."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine
from napari_gpubio.light.model import Domain
from napari_gpubio.light.phantom.cortex import CORTEX_MM, LEAF_CORTEX_MM, cerebellar_depth_mm, cortex_depth_mm
from napari_gpubio.light.phantom.outlines import brain_hull, deep_nuclei, soft_tissue, ventricles, white_core
from napari_gpubio.light.phantom.shapes import Floats, Lattice, blended_union
from napari_gpubio.light.tissue import head_media

SAMPLE = "head_phantom.nii.gz"
SCALP, SKULL, CSF, GRAY, WHITE = 1, 2, 3, 4, 5
WAVELENGTH_NM = 690.0
VOXEL_MM = 2.0
CSF_MM = 2.5  # between the hull of the brain and the skull
_LOWEST, _HIGHEST = (-80.0, -112.0, -70.0), (80.0, 82.0, 88.0)  # field of view
_MOST_POINTS = 2_000_000  # at once
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
    slab = max(1, _MOST_POINTS // int(np.prod(labels.shape[:2])))
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

"""Dose-surface histograms: the area of a structure's surface that receives a dose, as it matters to walls and cavities.

The structure is drawn as voxels, and its indicator is smoothed with a Gaussian. By the coarea formula the area of its
surface is the sum of the lengths of that function's gradients times the volume of a voxel. So each voxel near the
surface stands for an area, and for the point of the surface next to it: a plane's distance follows from the value of
the smoothed function there. The dose is read at those points. Areas of balls of 12 voxels or more across are right to
2 %; edges are rounded, which takes about a width of the Gaussian in area from each mm of an edge.

Contours change their shape from plane to plane (``interpolation="shape"``), whatever the settings say: of slabs the
surface would be stairs.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.space import apply_affine, voxel_sizes_mm, voxel_volume_mm3
from napari_gpubio.dose.countable import countable
from napari_gpubio.dose.metrics.surface import SurfaceHistogram
from napari_gpubio.dose.model import Dose, Structures, listed
from napari_gpubio.dose.settings import CONSTANT, SurfaceSettings
from napari_gpubio.dose.structures.algebra import Region, label_region, regions_on_grid
from napari_gpubio.dose.structures.contours import Color, ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures

Array = npt.NDArray[np.float64]
_VOXELS = 160  # along the largest extent of a structure of contours
_MIN_VOXEL_MM = 0.2
_WIDTH = 0.8  # of the Gaussian, voxels: of less, gradients depend on where the surface lies between centers
_REACH_WIDTHS = 5  # of the Gaussian
_IRRATIONAL = np.array([0.8191725133961645, 0.6710436067037893, 0.5497004779019703])  # Roberts 2018
_BEYOND = 1e-4  # of the smoothed function and of 1 less it: what is farther from the surface stands for no area
_CURVE_POINTS = 4096
_MM2_PER_CM2 = 100.0


def surface_histograms(
    dose: Dose, structures: Structures | Iterable[Structures], settings: SurfaceSettings | None = None
) -> tuple[SurfaceHistogram, ...]:
    """Dose-surface histograms of structures.

    Parameters
    ----------
    dose
        On a grid of its own.
    structures
        Contours or labels, or several of them. Both ends of a structure of contours, half a slice beyond the first and
        last one, belong to its surface.
    settings
        Conventions; see `SurfaceSettings`.

    Raises
    ------
    InvalidInput
        If a structure has no surface (points), is of another frame of reference, or leaves the dose grid where that is
        refused.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, LabelStructures, surface_histograms
    >>> dose = Dose(values=np.full((16, 16, 16), 2.0), affine=np.eye(4), unit="Gy")
    >>> cube = np.zeros((16, 16, 16), np.uint8)
    >>> cube[3:13, 3:13, 3:13] = 1
    >>> (found,) = surface_histograms(dose, LabelStructures(labels=cube, affine=np.eye(4)))
    >>> round(found.mean, 6), round(found.area_cm2, 1)
    (2.0, 5.2)
    """
    chosen = (settings or SurfaceSettings()).resolved(dose)
    known = countable(listed(structures), dose, any_frame=chosen.any_frame)
    return tuple(one for structure in known for one in _of_structure(dose, structure, chosen))


def _of_structure(dose: Dose, structure: Structures, settings: SurfaceSettings) -> Iterable[SurfaceHistogram]:
    if isinstance(structure, LabelStructures):
        for name in structure.names:
            yield _histogram(dose, label_region(structure, name), settings)
    elif isinstance(structure, ContourStructure):
        yield _of_contours(dose, structure, settings)
    else:
        raise InvalidInput(f"{structure.name!r} is made of points, which have no surface; give contours or labels")


def _of_contours(dose: Dose, structure: ContourStructure, settings: SurfaceSettings) -> SurfaceHistogram:
    if not structure.planes:
        return _nothing(dose, structure.name, (*structure.notes, f"{structure.name!r} is empty"), structure.color)
    points = np.concatenate(structure.world_loops)
    edge = settings.resolution_mm or max(float(np.ptp(points, axis=0).max()) / _VOXELS, _MIN_VOXEL_MM)
    (region,) = regions_on_grid([structure], resolution_mm=edge, interpolation="shape", caps=settings.caps)
    return _histogram(dose, region, settings, structure.color, structure.notes)


def _histogram(
    dose: Dose, region: Region, settings: SurfaceSettings, color: Color | None = None, notes: Sequence[str] = ()
) -> SurfaceHistogram:
    width = _WIDTH * float(voxel_sizes_mm(region.affine).max())
    points, areas = _surface(region, width)
    if not len(points):
        return _nothing(dose, region.name, (*notes, f"{region.name!r} is empty"), color)
    doses, is_inside = _doses_at(dose, points, settings)
    outside = float(areas[~is_inside].sum()) / _MM2_PER_CM2
    if outside > 0 and settings.outside == "refuse":
        raise InvalidInput(
            f"{short_number(outside)} cm² of the surface of {region.name!r} lie outside the dose grid; give a larger "
            "dose, or choose outside='zero' or outside='exclude'"
        )
    if outside > 0:
        how = "counted with no dose" if settings.outside == "zero" else "left out"
        area = f"{short_number(outside)} cm² of the surface of {region.name!r}"
        notes = (*notes, f"{area} lie outside the dose grid and are {how}")
    if settings.outside == "exclude":
        doses, areas = doses[is_inside], areas[is_inside]
    curve = _curve(doses, areas / _MM2_PER_CM2)
    mean = float(doses @ areas / areas.sum()) if len(areas) else float("nan")
    return SurfaceHistogram(
        name=region.name, unit=dose.unit, doses=curve[0], areas_cm2=curve[1], mean=mean, outside_cm2=outside,
        color=color, resolution_mm=width, notes=tuple(notes),
    )  # fmt: skip


def _nothing(dose: Dose, name: str, notes: Sequence[str], color: Color | None) -> SurfaceHistogram:
    none = np.empty(0)
    return SurfaceHistogram(
        name=name, unit=dose.unit, doses=none, areas_cm2=none, mean=float("nan"), color=color, notes=tuple(notes)
    )


def _surface(region: Region, width: float) -> tuple[Array, Array]:
    """Points on the surface, world mm, shape (N, 3), and the area that each stands for, mm²."""
    from scipy.ndimage import find_objects, gaussian_filter
    from scipy.special import ndtri

    found = find_objects(region.mask.view(np.uint8))
    if not found or found[0] is None:
        return np.empty((0, 3)), np.empty(0)
    sizes = voxel_sizes_mm(region.affine)
    room = np.ceil(_REACH_WIDTHS * width / sizes).astype(int) + 1
    mask = np.pad(region.mask[found[0]].astype(np.float32), [(n, n) for n in room])
    smooth = gaussian_filter(mask, width / sizes, truncate=_REACH_WIDTHS)
    near = np.argwhere((smooth > _BEYOND) & (smooth < 1 - _BEYOND))
    i, j, k = near.T
    steps = [smooth[i + 1, j, k] - smooth[i - 1, j, k], smooth[i, j + 1, k] - smooth[i, j - 1, k]]
    steps.append(smooth[i, j, k + 1] - smooth[i, j, k - 1])
    gradients = 0.5 * np.stack(steps, axis=-1).astype(np.float64) @ np.linalg.inv(region.affine[:3, :3])
    lengths = np.linalg.norm(gradients, axis=1)
    first = [part.start - n for part, n in zip(found[0], room, strict=True)]
    centers = apply_affine(region.affine, near + first)
    depth = width * ndtri(smooth[i, j, k].astype(np.float64))  # below the surface
    normals = gradients / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]
    aside = _places_in_voxels(len(centers)) @ region.affine[:3, :3].T  # so that doses do not come in steps
    aside -= np.einsum("ij,ij->i", aside, normals)[:, None] * normals
    points = centers - depth[:, None] * normals + aside
    return points, lengths * voxel_volume_mm3(region.affine)


def _places_in_voxels(count: int) -> Array:
    """One place somewhere in each of so many voxels, from -0.5 to 0.5 along each axis, evenly spread over them."""
    return np.asarray(np.modf((np.arange(count)[:, None] + 0.5) * _IRRATIONAL)[0] - 0.5)


def _doses_at(dose: Dose, points: Array, settings: SurfaceSettings) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Dose at points, 0 outside the grid, and which lie inside."""
    from scipy.ndimage import map_coordinates

    places = apply_affine(np.linalg.inv(dose.affine), points)
    is_inside = np.all((places >= -0.5) & (places <= np.array(dose.values.shape) - 0.5), axis=1)
    order = 0 if settings.within_voxels == CONSTANT else 1
    values = map_coordinates(np.asarray(dose.values, np.float64), places.T, order=order, mode="nearest")
    return np.where(is_inside, values, 0.0), np.asarray(is_inside, np.bool_)


def _curve(doses: Array, areas: Array) -> tuple[Array, Array]:
    """Ascending doses and the area that receives at least each, at so many of them as a curve has."""
    if not len(doses):
        return np.empty(0), np.empty(0)
    order = np.argsort(doses, kind="stable")
    ascending, above = doses[order], np.cumsum(areas[order][::-1])[::-1]
    kept = np.unique(np.linspace(0, len(doses) - 1, min(len(doses), _CURVE_POINTS)).astype(int))
    return np.append(ascending[kept], ascending[-1]), np.append(above[kept], 0.0)

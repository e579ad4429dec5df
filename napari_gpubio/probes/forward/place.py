"""From a probe's own coordinates onto the scalp: registration by landmarks or a matrix, and the nearest surface.

Every optode moves to the nearest point of the outer surface and looks along the inward normal there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, checked_affine
from napari_gpubio.core.text import first_of
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.surface import inward_normal, nearest_surface
from napari_gpubio.probes.forward.model import Probe

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
FARTHEST_MM = 20.0  # from the scalp; what is farther is not where it was meant to be
WORST_LANDMARK_MM = 10.0
_UNITS = {10.0: "cm", 1000.0: "m", 0.1: "tenths of a millimeter", 1e-3: "micrometers"}
_MAX_LISTED = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Placement(ShortRepr):
    """A probe on a scalp.

    Parameters
    ----------
    probe
        With its positions on the surface, world mm.
    directions
        Inward normals at all optodes, sources first, world, shape (S + D, 3).
    moved_mm
        How far each optode was from the surface, shape (S + D,).
    """

    probe: Probe
    directions: npt.NDArray[np.float64]
    moved_mm: npt.NDArray[np.float64]


def register(
    probe: Probe,
    *,
    landmarks_mm: Mapping[str, Sequence[float]] | None = None,
    affine: npt.ArrayLike | None = None,
    scale: bool = False,
) -> Probe:
    """Take a probe to the world of a head.

    Parameters
    ----------
    probe
        In its own coordinate system.
    landmarks_mm
        Where landmarks of the probe are in the head, world mm, three at least (``Nz``, ``LPA``, ``RPA``); names are
        compared without their case. The best rotation and shift (least squares) take the probe's to these.
    affine
        The map from the probe's coordinates (mm) to the world, shape (4, 4), instead.
    scale
        Also fit one scale, for a template's probe on another head.

    Raises
    ------
    InvalidInput
        If both or neither are given, fewer than three landmarks have common names, they lie on a line, or do not fit
        within 10 mm.
    """
    if (landmarks_mm is None) == (affine is None):
        raise InvalidInput("a probe is registered by landmarks or by an affine; give one of both")
    if affine is not None:
        matrix = checked_affine(affine)
        notes = (*probe.notes, "Registered by a given matrix.")
    else:
        matrix, note = _matrix_of_landmarks(probe.landmarks_mm, dict(landmarks_mm or {}), scale=scale)
        notes = (*probe.notes, note)
    moved = {name: tuple(apply_affine(matrix, place).tolist()) for name, place in probe.landmarks_mm.items()}
    return probe.moved(apply_affine(matrix, probe.positions_mm), landmarks_mm=moved, notes=notes)


def _matrix_of_landmarks(
    own: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]], *, scale: bool
) -> tuple[Floats, str]:
    """The map from landmarks of the probe to those of the head, and a sentence about it."""
    mine = {name.casefold(): place for name, place in own.items()}
    given = {name.casefold(): place for name, place in theirs.items()}
    names = [name for name in mine if name in given]
    if len(names) < 3:
        raise InvalidInput(
            f"the probe has the landmarks {', '.join(own) or 'none'} and the head {', '.join(theirs) or 'none'}; three "
            "with the same names are needed, such as Nz, LPA and RPA: give them, or an affine"
        )
    if wrong := [name for name in names if not (_is_point(mine[name]) and _is_point(given[name]))]:
        raise InvalidInput(f"the landmark {wrong[0]} has no three finite numbers; give x, y, z in mm")
    source = np.array([mine[name] for name in names], np.float64)
    target = np.array([given[name] for name in names], np.float64)
    centers = source.mean(axis=0), target.mean(axis=0)
    u, sizes, vt = np.linalg.svd((target - centers[1]).T @ (source - centers[0]))
    if sizes[1] <= 1e-6 * sizes[0]:
        raise InvalidInput(f"the landmarks {', '.join(names)} lie on a line; give three that span a plane")
    turn = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    factor = np.trace(np.diag(sizes) @ turn) / np.square(source - centers[0]).sum() if scale else 1.0
    matrix = np.eye(4)
    matrix[:3, :3] = factor * (u @ turn @ vt)
    matrix[:3, 3] = centers[1] - matrix[:3, :3] @ centers[0]
    left = np.linalg.norm(apply_affine(matrix, source) - target, axis=1)
    if left.max() > WORST_LANDMARK_MM:
        spans = [float(np.linalg.norm(points - points.mean(axis=0), axis=1).max()) for points in (source, target)]
        raise InvalidInput(
            f"landmark {names[int(left.argmax())]} is {left.max():.1f} mm from its place after registration; the "
            f"probe's landmarks reach {short_number(spans[0], 3)} mm from their center and the head's "
            f"{short_number(spans[1], 3)} mm: check their unit and names, or fit a scale"
        )
    how = f"scale {factor:.3f}, " if scale else ""
    return matrix, f"Registered by {', '.join(names)} ({how}up to {left.max():.1f} mm off)."


def _is_point(place: Any) -> bool:
    return len(place) == 3 and all(math.isfinite(number) for number in place)


def place(probe: Probe, domain: Domain, *, farthest_mm: float = FARTHEST_MM, project: bool = False) -> Placement:
    """Move the optodes of a probe to the nearest points of the scalp.

    Parameters
    ----------
    probe
        In the world of the head.
    domain
        The head; cavities inside of it do not count as outside.
    farthest_mm
        Optodes that are farther from the scalp are refused.
    project
        Move them nevertheless.

    Raises
    ------
    InvalidInput
        If an optode is too far from the scalp; the sentence has its distance, and whether another unit would fit.
    """
    if not farthest_mm >= 0:
        raise InvalidInput(f"farthest_mm is {farthest_mm}; give how far optodes may be from the scalp, 0 mm or more")
    labels = domain.labels
    if domain.cavities.any():
        labels = np.where(domain.cavities, 1, labels).astype(labels.dtype)
    points = np.array([nearest_surface(labels, domain.affine, position) for position in probe.positions_mm])
    moved = np.linalg.norm(points - probe.positions_mm, axis=1)
    far = np.flatnonzero(moved > farthest_mm)
    if len(far) and not project:
        raise InvalidInput(_too_far(probe, labels, domain.affine, moved, far, farthest_mm))
    notes = list(probe.notes)
    if len(far):
        notes.append(f"{len(far)} optodes were more than {farthest_mm:g} mm from the scalp and were projected onto it.")
    elif moved.max() > 0.5:
        notes.append(f"Optodes moved to the scalp by up to {moved.max():.1f} mm.")
    directions = np.array([inward_normal(labels, domain.affine, point) for point in points])
    return Placement(probe=probe.moved(points, notes=tuple(notes)), directions=directions, moved_mm=moved)


def _too_far(
    probe: Probe, labels: Array, affine: Array, moved: Floats, far: npt.NDArray[np.intp], farthest_mm: float
) -> str:
    """Which optodes are too far away, and what may be the reason."""
    listed = first_of([f"{probe.names[i]} by {moved[i]:.1f} mm" for i in far], _MAX_LISTED)
    reason = "they seem to be in another coordinate system: register the probe by landmarks or an affine"
    for factor, unit in _UNITS.items():
        tried = [
            np.linalg.norm(nearest_surface(labels, affine, p * factor) - p * factor) for p in probe.positions_mm[:8]
        ]
        if max(tried) < min(farthest_mm, float(moved[:8].max()) / 2):
            reason = f"positions in {unit} would fit (within {max(tried):.1f} mm): give them in mm"
            break
    return (
        f"{len(far)} of {len(moved)} optodes are off the scalp: {listed} (up to {farthest_mm:g} mm are taken as "
        f"meant); {reason}. place(..., project=True) or --project moves them to the nearest point of the scalp"
    )

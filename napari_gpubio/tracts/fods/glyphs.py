"""FODs as meshes: in each direction as far from the voxel's center as the amplitude, colored by direction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts.fods.harmonics import harmonics
from napari_gpubio.tracts.fods.model import FodField

Array = npt.NDArray[Any]
Mesh = tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]
MOST_GLYPHS = 8000
_MOST_VERTICES = 100_000  # of all glyphs; many glyphs are coarser ones
_FINEST, _COARSEST = 8, 3  # rings of a dome
_LOUD = 90.0  # percentile of the voxels' largest amplitudes that fills a voxel
_LONGEST = 1.5
_DIM = 0.6  # brightness at the center of a glyph


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlane:
    """A plane across an axis of the world, which glyphs are flattened to.

    Parameters
    ----------
    axis
        0, 1 or 2 for x, y or z.
    position_mm
        Where it crosses the axis, world mm.
    """

    axis: int
    position_mm: float


def voxels_in_slice(
    fods: FodField, plane: SlicePlane, low_mm: npt.ArrayLike | None = None, high_mm: npt.ArrayLike | None = None
) -> npt.NDArray[np.int64]:
    """Return the voxels of the mask whose centers lie in a slice, shape (G, 3), thinned evenly to at most 8000.

    Parameters
    ----------
    fods
        The field.
    plane
        Middle of the slice, which is as thick as a voxel.
    low_mm, high_mm
        Corners of a box in world mm that the voxels lie in, shape (3,); None for no limit.
    """
    voxels = np.argwhere(fods.mask)
    at = apply_affine(fods.affine, voxels)
    half = 0.5 * np.abs(fods.affine[plane.axis, :3]).max()
    away = at[:, plane.axis] - plane.position_mm
    inside = (away >= -half) & (away < half)
    for limit, sign in ((low_mm, 1.0), (high_mm, -1.0)):
        if limit is not None:
            free = np.delete(np.arange(3), plane.axis)
            inside &= (sign * (at - np.asarray(limit))[:, free] >= 0).all(axis=1)
    voxels, step = voxels[inside], 1
    in_plane = np.delete(voxels, np.abs(fods.affine[plane.axis, :3]).argmax(), axis=1)
    while np.count_nonzero(kept := (in_plane % step == 0).all(axis=1)) > MOST_GLYPHS:
        step += 1
    return voxels[kept]


def fod_glyphs(
    fods: FodField, voxels: npt.ArrayLike, *, plane: SlicePlane | None = None, size: float = 1.0, same: bool = False
) -> Mesh:
    """Return the mesh of the FODs of some voxels.

    Parameters
    ----------
    fods
        The field.
    voxels
        Shape (G, 3); those outside of the mask are left out.
    plane
        Flatten the half of each glyph that looks along the axis to this plane, as a slice shows it; None for whole
        glyphs in space. Triangles come from the plane up, so that later ones cover earlier ones.
    size
        Of the largest glyphs but 10 %, in voxels; larger ones are cut off at 1.5 times that.
    same
        Whether all glyphs get that size.

    Returns
    -------
    vertices, faces, colors
        Vertices (V, 3) in world mm, triangles (F, 3), and RGBA (V, 4): red, green and blue along x, y and z.

    Raises
    ------
    InvalidInput
        If no voxel lies in the mask, or there are more than 8000.
    """
    at = np.atleast_2d(np.asarray(voxels, np.int64))
    at = at[((at >= 0) & (at < fods.shape)).all(axis=1)]
    at = at[fods.mask[tuple(at.T)]]
    if not len(at):
        raise InvalidInput("there are no FODs here; move to a place inside the brain")
    if len(at) > MOST_GLYPHS:
        raise InvalidInput(f"{len(at)} glyphs are too many to draw; choose at most {MOST_GLYPHS} voxels")
    directions, triangles = _dome(len(at)) if plane is not None else _ball(len(at))
    if plane is not None:
        directions = np.roll(directions, plane.axis + 1, axis=1)  # the dome's axis, z, becomes the plane's
    amplitudes = fods.coefficients[tuple(at.T)] @ harmonics(directions, fods.lmax).astype(np.float32).T
    lengths = _lengths(amplitudes, same=same)
    radius = 0.5 * size * fods.voxel_sizes_mm.min()
    vertices = radius * lengths[..., np.newaxis] * directions.astype(np.float32)
    vertices += apply_affine(fods.affine, at)[:, np.newaxis, :].astype(np.float32)
    if plane is not None:
        vertices[..., plane.axis] = plane.position_mm
    colors = np.ones((*lengths.shape, 4), np.float32)
    colors[..., :3] = np.abs(directions) * (_DIM + (1.0 - _DIM) * lengths[..., np.newaxis]).clip(0.0, 1.0)
    faces = triangles[np.newaxis] + (len(directions) * np.arange(len(at), dtype=np.int32))[:, np.newaxis, np.newaxis]
    return vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.int32), colors.reshape(-1, 4)


def _lengths(amplitudes: Array, *, same: bool) -> npt.NDArray[np.float32]:
    """Amplitudes (G, V) as shares of the length that fills a voxel."""
    largest = amplitudes.max(axis=1, keepdims=True)
    scale = largest if same else np.percentile(largest, _LOUD)
    return np.asarray(np.clip(amplitudes / np.maximum(scale, 1e-30), 0.0, _LONGEST), np.float32)


def _rings(glyphs: int, vertices_of_rings: Any) -> int:
    """Rings of a glyph, as many as the number of glyphs leaves room for."""
    fitting = (n for n in range(_FINEST, _COARSEST, -1) if glyphs * vertices_of_rings(n) <= _MOST_VERTICES)
    return next(fitting, _COARSEST)


def _dome(glyphs: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Directions (V, 3) of half a sphere around z, and triangles from its rim to its top."""
    rings = _rings(glyphs, lambda n: 4 * n * n + 1)
    around = 4 * rings
    polar = np.linspace(np.pi / 2, 0.0, rings + 1)[:-1]
    turn = 2 * np.pi * (np.arange(around) / around)
    grid = np.stack(
        [
            np.sin(polar)[:, None] * np.cos(turn),
            np.sin(polar)[:, None] * np.sin(turn),
            np.broadcast_to(np.cos(polar)[:, None], (rings, around)),
        ],
        axis=-1,
    )
    directions = np.concatenate([grid.reshape(-1, 3), [[0.0, 0.0, 1.0]]])
    return directions, _triangles(rings, around, top=rings * around)


def _triangles(rings: int, around: int, top: int) -> npt.NDArray[np.int32]:
    """Triangles between rings of vertices, from the first to the last, and from there to the top."""
    faces, number = [], np.arange(around)
    after = (number + 1) % around
    for ring in range(rings - 1):
        a, b = ring * around, (ring + 1) * around
        faces += [np.stack([a + number, a + after, b + number], axis=1)]
        faces += [np.stack([a + after, b + after, b + number], axis=1)]
    last = (rings - 1) * around
    faces += [np.stack([last + number, last + after, np.full(around, top)], axis=1)]
    return np.concatenate(faces).astype(np.int32)


def _ball(glyphs: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Directions (V, 3) of a whole sphere, and its triangles, counter-clockwise from outside."""
    upper, faces = _dome(2 * glyphs)
    return np.concatenate([upper, -upper]), np.concatenate([faces, faces[:, ::-1] + len(upper)])

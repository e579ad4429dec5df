"""FODs as meshes: in each direction as far from the voxel's center as the amplitude, colored by direction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.voxels import voxels_to_draw

Array = npt.NDArray[Any]
Mesh = tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]
MAX_GLYPHS = 8000
_MAX_VERTICES = 100_000  # of all glyphs; many glyphs are coarser ones
_FINEST, _COARSEST = 8, 3  # rings of a ball
_COARSEST_DOME = 5  # rings, 18 degrees apart; more glyphs are outlines, else lobes would fall between the vertices
_OUTLINE = (36, 24)  # vertices of an outline, by the number of glyphs
_ELEVATIONS = 4  # rings that an outline is found from
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
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the voxels of the mask whose centers lie in a slice, thinned evenly to at most 8000.

    Parameters
    ----------
    fods
        The field.
    plane
        Middle of the slice, which is as thick as a voxel.
    low_mm, high_mm
        Corners of a box in world mm that the voxels lie in, shape (3,); None for no limit.

    Returns
    -------
    voxels
        Shape (G, 3).
    step
        Of how many along each axis of the slice one was kept; glyphs may be as many times larger.
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
    while np.count_nonzero(kept := (in_plane % step == 0).all(axis=1)) > MAX_GLYPHS:
        step += 1
    return voxels[kept], step


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
        glyphs in space. Triangles come from the plane up, so that later ones cover earlier ones. About a thousand
        glyphs or more are their outlines.
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
    at = voxels_to_draw(voxels, fods.mask, MAX_GLYPHS, "FODs")
    rings = _rings(len(at))
    around = next((n for n in _OUTLINE if len(at) * (n + 1) <= _MAX_VERTICES), _OUTLINE[-1])
    is_outline = plane is not None and rings < _COARSEST_DOME
    if plane is None:
        directions, triangles = _ball(_rings(2 * len(at)))
    else:
        directions, triangles = _dome(_ELEVATIONS, around) if is_outline else _dome(rings, 4 * rings)
        directions = np.roll(directions, plane.axis + 1, axis=1)  # the dome's axis, z, becomes the plane's
    amplitudes = fods.coefficients[tuple(at.T)] @ harmonics(directions, fods.lmax).astype(np.float32).T
    lengths = _lengths(amplitudes, same=same)[..., np.newaxis]
    offsets = lengths * directions.astype(np.float32)
    colors = np.ones((*amplitudes.shape, 4), np.float32)
    colors[..., :3] = np.abs(directions) * (_DIM + (1.0 - _DIM) * lengths).clip(0.0, 1.0)
    if plane is not None:
        offsets[..., plane.axis] = 0.0
    if is_outline:
        offsets, colors, triangles = _outlines(offsets, colors, around)
    vertices = apply_affine(fods.affine, at)[:, np.newaxis, :].astype(np.float32)
    vertices = vertices + 0.5 * size * fods.voxel_sizes_mm.min() * offsets
    if plane is not None:
        vertices[..., plane.axis] = plane.position_mm
    first = offsets.shape[1] * np.arange(len(at), dtype=np.int32)
    faces = triangles[np.newaxis] + first[:, np.newaxis, np.newaxis]
    return vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.int32), colors.reshape(-1, 4)


def _outlines(offsets: Array, colors: Array, around: int) -> tuple[Array, Array, npt.NDArray[np.int32]]:
    """The outermost vertices of flattened domes (G, V, 3), each with its color, around one in the middle."""
    count = len(offsets)
    rings = offsets[:, :-1].reshape(count, _ELEVATIONS, around, 3)
    outermost = (rings**2).sum(axis=-1).argmax(axis=1)[:, np.newaxis, :, np.newaxis]
    edge = np.take_along_axis(rings, outermost, axis=1)[:, 0]
    shades = np.take_along_axis(colors[:, :-1].reshape(count, _ELEVATIONS, around, 4), outermost, axis=1)[:, 0]
    number = np.arange(around, dtype=np.int32)
    fan = np.stack([number, (number + 1) % around, np.full(around, around, np.int32)], axis=1)
    middle = np.zeros((count, 1, 3), np.float32)
    return np.concatenate([edge, middle], axis=1), np.concatenate([shades, colors[:, -1:]], axis=1), fan


def _lengths(amplitudes: Array, *, same: bool) -> npt.NDArray[np.float32]:
    """Amplitudes (G, V) as shares of the length that fills a voxel."""
    largest = amplitudes.max(axis=1, keepdims=True)
    scale = largest if same else np.percentile(largest, _LOUD)
    return np.asarray(np.clip(amplitudes / np.maximum(scale, 1e-30), 0.0, _LONGEST), np.float32)


def _rings(domes: int) -> int:
    """Rings of a dome, as many as the number of domes leaves room for."""
    fitting = (n for n in range(_FINEST, _COARSEST, -1) if domes * (4 * n * n + 1) <= _MAX_VERTICES)
    return next(fitting, _COARSEST)


def _dome(rings: int, around: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Directions (V, 3) of half a sphere around z, ring by ring, and triangles from its rim to its top."""
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


def _ball(rings: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Directions (V, 3) of a whole sphere, and its triangles, counter-clockwise from outside."""
    upper, faces = _dome(rings, 4 * rings)
    return np.concatenate([upper, -upper]), np.concatenate([faces, faces[:, ::-1] + len(upper)])

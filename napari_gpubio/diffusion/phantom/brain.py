"""The brain phantom: its anatomy on a voxel grid, and the diffusion signals that it gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

LOWEST_MM = np.array([-70.0, -105.0, -62.0])  # corner of the field of view
HIGHEST_MM = np.array([70.0, 72.0, 77.0])
ARCH_CENTER_YZ = np.array([-4.0, 5.0])  # the callosum's midline section follows this ellipse
ARCH_SEMI_AXES = np.array([36.0, 21.0])
CORTEX_MM = 3.0
_VENTRICLE = [  # center line of the right lateral ventricle, x, y, z, radius
    (7, 29, 4, 2.5), (8, 20, 11, 4), (8, 5, 16.5, 4.5), (9, -10, 18, 4.5), (13, -25, 16.5, 5), (20, -38, 9, 6),
    (24, -48, 5, 5.5), (25, -60, 4, 3), (26, -70, 4, 1),
]  # fmt: skip
_TEMPORAL_HORN = [(22, -42, 7, 4), (29, -36, -3, 3.5), (32, -24, -11, 3), (31, -12, -15, 2)]
# Brain stem: midbrain, a bulging pons, medulla.
_STEM = [(0, -16, -8, 12), (0, -20, -18, 14), (0, -24, -30, 16), (0, -29, -44, 11), (0, -33, -54, 9), (0, -36, -70, 8)]
_CEREBELLUM = ((19, -63, -36), (32, 28, 21))  # its right half: center, semi-axes
NUCLEI = [  # ellipsoids of the right side: center, semi-axes
    ((11, -19, 5), (9, 14, 9)),  # thalamus
    ((13, 15, 6), (5, 9, 8)),  # head of the caudate
    ((14, -2, 14), (3, 14, 4)),  # body of the caudate
    ((28, 3, 0), (5, 15, 10)),  # putamen
    ((27, -18, -18), (6, 16, 5)),  # hippocampus
]


@dataclass(frozen=True, eq=False, kw_only=True)
class Anatomy(ShortRepr):
    """Tissue fractions of every voxel; ``white + cortex + nuclei + fluid`` is 1.

    Parameters
    ----------
    inside
        Part of the voxel within the brain, shape (X, Y, Z).
    white, cortex, nuclei, fluid
        Parts of what is inside, shape (X, Y, Z).
    outward
        Unit direction from the depth to the surface (up and down in the brain stem), world axes, shape (X, Y, Z, 3).
    """

    inside: Floats
    white: Floats
    cortex: Floats
    nuclei: Floats
    fluid: Floats
    outward: Floats


def grid(voxel_mm: float) -> tuple[Floats, tuple[int, int, int]]:
    """Affine and dimensions of the phantom; the first axis runs to the left (LAS), as many scanners store it.

    The planes x = 0, y = 0 and z = 0 go through voxel centers.
    """
    first, last = np.ceil(LOWEST_MM / voxel_mm), np.floor(HIGHEST_MM / voxel_mm)
    affine = np.diag([-voxel_mm, voxel_mm, voxel_mm, 1.0])
    affine[:3, 3] = voxel_mm * np.array([last[0], first[1], first[2]])
    nx, ny, nz = (last - first + 1).astype(int)
    return affine, (int(nx), int(ny), int(nz))


def voxel_centers(affine: Floats, shape: tuple[int, int, int]) -> Floats:
    """World millimeters of all voxel centers, shape (X, Y, Z, 3)."""
    return apply_affine(affine, np.moveaxis(np.indices(shape), 0, -1))


def ellipsoid(points: Floats, center: npt.ArrayLike, semi_axes: npt.ArrayLike) -> Floats:
    """Signed distance to an ellipsoid (first order: the level function over the length of its gradient), mm."""
    scaled = (points - np.asarray(center, float)) / np.asarray(semi_axes, float)
    level = np.linalg.norm(scaled, axis=-1)
    slope = np.linalg.norm(scaled / np.asarray(semi_axes, float), axis=-1)
    return np.asarray(level * (level - 1.0) / np.maximum(slope, 1e-9))


def tube(points: Floats, line: Sequence[tuple[float, ...]]) -> Floats:
    """Signed distance to a bent tube through knots (x, y, z, radius), mm."""
    from scipy.interpolate import CubicSpline
    from scipy.spatial import cKDTree

    knots = np.asarray(line, float)
    path = CubicSpline(np.arange(len(knots)), knots)(np.linspace(0, len(knots) - 1, 20 * len(knots)))
    distance, nearest = cKDTree(path[:, :3]).query(points.reshape(-1, 3))
    return np.asarray((distance - path[nearest, 3]).reshape(points.shape[:-1]))


def cerebrum(points: Floats) -> Floats:
    """Signed distance to the smooth outline of both hemispheres with their temporal lobes, mm."""
    x, y, z = np.moveaxis(points, -1, 0)
    egg = np.stack([x * (1.0 + 0.0016 * (y + 25.0)), y, z], axis=-1)  # narrower in front
    floor = -19.0 + 0.16 * np.maximum(0.0, -35.0 - y) - z
    dome = _smooth_max(ellipsoid(egg, (0, -17, 14), (66, 85, 61)), floor, 12.0)
    temporal = ellipsoid(right_side(points), (43, -14, -16), (21, 39, 21))
    return _smooth_min(dome, temporal, 6.0)


def stem(points: Floats) -> Floats:
    """Signed distance to the brain stem, mm."""
    return tube(points, _STEM)


def cerebellum(points: Floats) -> Floats:
    """Signed distance to the cerebellum, mm."""
    return ellipsoid(right_side(points), *_CEREBELLUM)


def brain_anatomy(affine: Floats, shape: tuple[int, int, int]) -> Anatomy:
    """Tissue fractions of the brain on a grid of cubic voxels along the world axes."""
    points, voxel = voxel_centers(affine, shape), float(abs(affine[0, 0]))
    hind, low, hemispheres = cerebellum(points), stem(points), cerebrum(points)
    inside = _filled(-_smooth_min(_smooth_min(hemispheres, hind, 14.0), low, 14.0), voxel)
    below_pia = np.maximum(_gyri(points, -hemispheres), _folia(points, -hind))
    fluid = np.maximum(_filled(-np.maximum(below_pia, -low), voxel), _filled(-_ventricles(points), voxel))
    outer = _filled(CORTEX_MM - below_pia, voxel) * (1.0 - _filled(-low, voxel))
    cortex = np.clip(outer, 0.0, 1.0 - fluid)
    nuclei = np.clip(_filled(-_nuclei(points), voxel), 0.0, 1.0 - fluid - cortex)
    outward = np.where((low < -2.0)[..., None], (0.0, 0.0, 1.0), _unit_gradient(hemispheres, affine))
    white = 1.0 - fluid - cortex - nuclei
    return Anatomy(inside=inside, white=white, cortex=cortex, nuclei=nuclei, fluid=fluid, outward=outward)


def _filled(depth: Floats, voxel: float) -> Floats:
    """Fraction of a voxel inside a plane boundary that lies this depth (mm) beyond its center."""
    return np.clip(depth / voxel + 0.5, 0.0, 1.0)


def right_side(points: Floats) -> Floats:
    """Points of the left side mirrored to the right."""
    return np.concatenate([np.abs(points[..., :1]), points[..., 1:]], axis=-1)


def _smooth_min(a: Floats, b: Floats, width: float) -> Floats:
    """Union of two shapes with its crease filled over a width in mm (quadratic blend)."""
    blend = np.clip(0.5 + 0.5 * (b - a) / width, 0.0, 1.0)
    return np.asarray(b + (a - b) * blend - width * blend * (1.0 - blend))


def _smooth_max(a: Floats, b: Floats, width: float) -> Floats:
    """Intersection of two shapes with its edge rounded over a width in mm."""
    return -_smooth_min(-a, -b, width)


def _ventricles(points: Floats) -> Floats:
    """Lateral, third and fourth ventricles."""
    right = right_side(points)
    third = ellipsoid(points, (0, -12, 0), (2.2, 17, 11))
    fourth = ellipsoid(points, (0, -42, -33), (6, 4, 11))
    lateral = np.minimum(tube(right, _VENTRICLE), tube(right, _TEMPORAL_HORN))
    return np.minimum(lateral, np.minimum(third, fourth))


def _nuclei(points: Floats) -> Floats:
    right = right_side(points)
    return np.min([ellipsoid(right, center, semi_axes) for center, semi_axes in NUCLEI], axis=0)


def _gyri(points: Floats, depth: Floats) -> Floats:
    """Depth below the nearest surface of the hemispheres: outline, sulci, fissures; negative in the fluid, mm."""
    deepest = 12.0 + 4.0 * np.clip((points[..., 2] - 5.0) / 15.0, -1.0, 1.0)  # shallow at the base
    sulci = np.maximum(_folds(points, 29.0), depth - deepest) - 0.7
    return np.min([depth, sulci, _midline_fissure(points) - 0.8, _sylvian_fissure(points) - 1.0], axis=0)


def _folia(points: Floats, depth: Floats) -> Floats:
    """Depth below the nearest surface of the cerebellum, whose folia run from left to right, mm."""
    folia = np.maximum(_folds(points * [0.35, 1.0, 1.0], 24.0), depth - 11.0)
    return np.minimum(depth, folia - 0.3)


def _folds(points: Floats, wavelength: float) -> Floats:
    """Distance to the sheets of a warped gyroid, sin x cos y + sin y cos z + sin z cos x = 0, half a wave apart."""
    wave = 2.0 * np.pi / wavelength
    phase = wave * (points + 6.0 * np.sin(points[..., [1, 2, 0]] / 13.0))
    level = (np.sin(phase) * np.cos(phase[..., [1, 2, 0]])).sum(axis=-1)
    return np.asarray(np.abs(level) / (1.3 * wave))


def _midline_fissure(points: Floats) -> Floats:
    """Distance to the plane between the hemispheres; it stops at the callosum, which fills its ellipse."""
    yz = points[..., 1:] - ARCH_CENTER_YZ
    semi_axes = ARCH_SEMI_AXES + 8.0  # half of its thickness, and the cortex at the edge of the fissure
    flat = np.concatenate([np.zeros_like(yz[..., :1]), yz], axis=-1)
    core = ellipsoid(flat, (0, 0, 0), (1.0, *semi_axes))
    return np.maximum(np.abs(points[..., 0]), -core)


def _sylvian_fissure(points: Floats) -> Floats:
    """Distance to the rising sheet between the temporal lobe and the lobes above it."""
    x, y, z = np.moveaxis(points, -1, 0)
    across = np.abs(x) - 36.0
    sheet = np.abs(z + 8.0 + 0.42 * (y - 20.0) - 0.25 * across + 2.5 * np.sin(y / 8.0 + across / 6.0)) * 0.85
    return np.max([sheet, -across, -34.0 - y, y - 32.0], axis=0)


def _unit_gradient(level: Floats, affine: Floats) -> Floats:
    """Unit gradient of a volume in world axes, shape (X, Y, Z, 3)."""
    slope = np.stack(list(np.gradient(level)), axis=-1) @ np.linalg.inv(affine[:3, :3])
    return np.asarray(slope / np.maximum(np.linalg.norm(slope, axis=-1, keepdims=True), 1e-9))


B_VALUE = 1000.0  # s/mm^2
FIBER_PARALLEL, FIBER_ACROSS = 1.7e-3, 0.3e-3  # mm^2/s
LOOSE_PARALLEL, LOOSE_ACROSS = 1.00e-3, 0.72e-3  # white matter outside the bundles, FA = 0.20
GRAY_DIFFUSIVITY, FLUID_DIFFUSIVITY = 0.8e-3, 3.0e-3
S0_WHITE, S0_GRAY, S0_FLUID = 60.0, 75.0, 150.0  # T2-weighted: fluid is bright


def spread_directions(count: int) -> Floats:
    """Unit directions that repel each other as charges at both ends of rods do (Jones et al. 1999), shape (count, 3).

    Starts from a Fibonacci half sphere; rounded to six decimals, as a table in a file would be.
    """
    n = np.arange(count) + 0.5
    z, turn = n / count, n * np.pi * (3.0 - np.sqrt(5.0))
    rods = np.stack([np.sqrt(1 - z * z) * np.cos(turn), np.sqrt(1 - z * z) * np.sin(turn), z], axis=-1)
    for step in np.geomspace(0.3, 0.003, 150) / count:
        ends = np.concatenate([rods, -rods])
        apart = rods[:, None] - ends
        cubed = np.linalg.norm(apart, axis=-1) ** 3
        cubed[cubed < 1e-12] = np.inf
        rods = rods + step * (apart / cubed[..., None]).sum(axis=1)
        rods /= np.linalg.norm(rods, axis=1, keepdims=True)
    return np.round(rods, 6)


def attenuation(axes: Floats, gradients: Floats, b: Floats, parallel: float, across: float) -> Floats:
    """Signal over S0 of axially symmetric tensors, exp(-b g.D.g) with D = across I + (parallel - across) v v^T.

    Fiber directions v (V, 3), unit gradients g (N, 3) and b (N,) in s/mm^2, diffusivities in mm^2/s; shape (V, N).
    """
    cosines = axes @ gradients.T
    unit = np.linalg.norm(gradients, axis=1) ** 2
    return np.exp(-b * (across * unit + (parallel - across) * cosines**2))


def clean_signals(
    anatomy: Anatomy,
    fibers: list[tuple[Floats, Floats]],
    gradients: Floats,
    b: Floats,
    mask: npt.NDArray[np.bool_],
) -> Floats:
    """Signals without noise of the voxels of a mask, shape (V, N).

    ``S = sum over tissues of share * S0 * attenuation``; a bundle's share is taken from white matter and deep nuclei.
    ``fibers``: share (X, Y, Z) and direction (X, Y, Z, 3) of each bundle; the shares add up to less than 1.
    """
    share = sum(f[mask] for f, _ in fibers) + np.zeros(np.count_nonzero(mask))
    tissue = (anatomy.white + anatomy.nuclei)[mask]
    white = np.maximum(anatomy.white[mask] - share * tissue, 0.0)
    nuclei = np.maximum(tissue - share * tissue - white, 0.0)
    signal = white[:, None] * attenuation(anatomy.outward[mask], gradients, b, LOOSE_PARALLEL, LOOSE_ACROSS)
    for f, direction in fibers:
        filled = f[mask] > 0
        tensor = attenuation(direction[mask][filled], gradients, b, FIBER_PARALLEL, FIBER_ACROSS)
        signal[filled] += (tissue * f[mask])[filled, None] * tensor
    gray = (anatomy.cortex[mask] + nuclei)[:, None] * np.exp(-b * GRAY_DIFFUSIVITY)
    fluid = anatomy.fluid[mask][:, None] * np.exp(-b * FLUID_DIFFUSIVITY)
    return np.asarray(anatomy.inside[mask][:, None] * (S0_WHITE * signal + S0_GRAY * gray + S0_FLUID * fluid))


def rician(signals: Floats, sigma: float, seed: int) -> Array:
    """Magnitude of a signal with complex Gaussian noise of standard deviation ``sigma`` (Box-Muller over Philox).

    Row ``v`` of the signals, shape (V, N), depends on ``seed`` and ``v`` only.
    """
    from napari_gpubio.core.philox import uniform

    voxels, volumes = signals.shape
    draws = uniform(seed, 0, voxels, 2 * volumes).astype(np.float64)
    radius = sigma * np.sqrt(-2.0 * np.log(draws[:, :volumes]))
    turn = 2.0 * np.pi * draws[:, volumes:]
    return np.hypot(signals + radius * np.cos(turn), radius * np.sin(turn))

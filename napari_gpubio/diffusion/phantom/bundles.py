"""White-matter bundles of the phantom: families of smooth curves in mm, and their share of each voxel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, in_grid, lengths_along, voxel_volume_mm3
from napari_gpubio.diffusion.phantom.brain import ARCH_CENTER_YZ, ARCH_SEMI_AXES, Array, Floats, cerebrum

POINTS = 160  # on each curve
_CORTICOSPINAL = [(6, -33, -66), (7, -27, -46), (9, -21, -28), (14, -17, -12), (21, -13, 4), (24, -15, 20)]
_ARCUATE = [
    (49, 32, 16), (44, 17, 21), (38, -4, 27), (36, -24, 29), (38, -42, 22), (43, -49, 8), (46, -42, -5), (46, -26, -12),
    (45, -8, -16), (44, 6, -20),
]  # fmt: skip
_FRONTO_OCCIPITAL = [
    (22, 56, 4), (26, 38, 0), (31, 20, -4), (33, 2, -6), (35, -18, -4), (35, -38, 1), (31, -60, 4), (22, -88, 4),
]  # fmt: skip
_THALAMIC = [(10, -22, 6), (14, -9, 5), (20, 9, 6), (21, 28, 11), (18, 58, 18)]
_PEDUNCLE = [(27, -70, -38), (21, -52, -36), (14, -30, -33), (0, -14, -30)]
_PARAHIPPOCAMPAL = [(18, -42, -4), (23, -32, -12), (25, -18, -18), (25, -4, -20)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bundle(ShortRepr):
    """A family of curves, world mm, shape (F, n, 3), with the cross-section that each stands for, shape (F,)."""

    name: str
    curves: Floats
    areas_mm2: Floats


def brain_bundles() -> tuple[Bundle, ...]:
    """All bundles of the phantom: the callosum, the paired ones (left before right), the cerebellar peduncle."""
    paired = [
        ("corticospinal tract", corticospinal_tract()),
        ("cingulum", cingulum()),
        ("arcuate fasciculus", arcuate_fasciculus()),
        ("inferior fronto-occipital fasciculus", fronto_occipital_fasciculus()),
        ("anterior thalamic radiation", thalamic_radiation()),
    ]
    sides = [
        Bundle(name=f"{name}, {side}", curves=curves * [sign, 1.0, 1.0], areas_mm2=areas)
        for name, (curves, areas) in paired
        for side, sign in (("left", -1.0), ("right", 1.0))
    ]
    crossing = [("corpus callosum", corpus_callosum()), ("middle cerebellar peduncle", cerebellar_peduncle())]
    middle = [Bundle(name=name, curves=curves, areas_mm2=areas) for name, (curves, areas) in crossing]
    return (*middle[:1], *sides, *middle[1:])


def arch(angle: Floats, outset_mm: Floats | float = 0.0) -> Floats:
    """Points (0, y, z) of the callosal ellipse: 0 at the genu, pi/2 at the top, pi at the splenium; shape (..., 3)."""
    yz = ARCH_CENTER_YZ + (ARCH_SEMI_AXES + np.asarray(outset_mm)[..., None]) * _circle(angle)
    return np.concatenate([np.zeros_like(yz[..., :1]), yz], axis=-1)


def corpus_callosum() -> tuple[Floats, Floats]:
    """Return Bezier curves that cross the midline at right angles and fan out in both hemispheres, and their areas."""
    angles = np.deg2rad(np.linspace(-38.0, 198.0, 80))
    layers, fan = np.linspace(-0.5, 0.5, 5), np.deg2rad(np.linspace(8.0, 86.0, 16))
    angle, layer, spread = (a.ravel() for a in np.meshgrid(angles, layers, fan, indexing="ij"))
    thickness = 6.5 + 4.5 * np.cos(angle) ** 2
    middle = arch(angle, layer * thickness)
    lateral = np.array([1.0, 0.0, 0.0])
    front_back = np.abs(np.cos(angle)) ** 3
    spread = spread * (1.0 - 0.35 * front_back)  # forceps: genu and splenium bend forward and backward
    upward = np.pad(_circle(angle), ((0, 0), (1, 0)))
    heading = np.cos(spread)[:, None] * upward + np.sin(spread)[:, None] * lateral
    turn = middle + 16.0 * lateral
    end = turn + _distance_to_surface(turn, heading)[:, None] * heading
    knee = turn + 0.35 * (end - turn)
    right = _bezier(middle, turn, knee, end)
    left = right[:, :0:-1] * [-1.0, 1.0, 1.0]
    speed = np.linalg.norm(ARCH_SEMI_AXES * _circle(angle + np.pi / 2), axis=-1)
    areas = speed * np.ptp(angles) / len(angles) * thickness / len(layers) / len(fan)
    return np.concatenate([left, right], axis=1), areas


def corticospinal_tract() -> tuple[Floats, Floats]:
    """From the brain stem through the internal capsule, fanning to the upper cortex (right side)."""
    capsule = np.array(_CORTICOSPINAL, float)
    sideways, forward = np.meshgrid(np.deg2rad(np.linspace(-16, 52, 12)), np.deg2rad([-14, -6, 2, 10]))
    heading = np.stack([np.sin(sideways), np.sin(forward), np.cos(sideways) * np.cos(forward)], -1).reshape(-1, 3)
    heading /= np.linalg.norm(heading, axis=-1, keepdims=True)
    gate = capsule[-1] + [0.0, -2.0, 9.0]
    reach = _distance_to_surface(np.broadcast_to(gate, heading.shape), heading)
    lines = [np.vstack([capsule, gate + 0.45 * r * h, gate + r * h]) for h, r in zip(heading, reach, strict=True)]
    curves = np.concatenate([_tube_curves(line, 5.5, reference=(0, 1, 0), rings=3) for line in lines])
    return curves, np.full(len(curves), np.pi * 5.5**2 / len(curves))


def cingulum() -> tuple[Floats, Floats]:
    """A belt around the callosum and on to the temporal lobe (right side)."""
    belt = arch(np.deg2rad(np.linspace(-28.0, 178.0, 12)), 11.0) + np.array([8.0, 0.0, 0.0])
    curves = _tube_curves(np.vstack([belt, _PARAHIPPOCAMPAL]), 3.8, reference=(1, 0, 0), rings=4)
    return curves, np.full(len(curves), np.pi * 3.8**2 / len(curves))


def arcuate_fasciculus() -> tuple[Floats, Floats]:
    """From the frontal lobe around the end of the Sylvian fissure to the temporal lobe (right side)."""
    curves = _tube_curves(np.array(_ARCUATE, float), 6.0, reference=(1, 0, 0), rings=5)
    return curves, np.full(len(curves), np.pi * 6.0**2 / len(curves))


def fronto_occipital_fasciculus() -> tuple[Floats, Floats]:
    """From the frontal pole below the insula to the occipital pole (right side)."""
    curves = _tube_curves(np.array(_FRONTO_OCCIPITAL, float), 5.0, reference=(1, 0, 0), rings=5)
    return curves, np.full(len(curves), np.pi * 5.0**2 / len(curves))


def thalamic_radiation() -> tuple[Floats, Floats]:
    """From the thalamus between caudate and putamen to the frontal cortex (right side)."""
    curves = _tube_curves(np.array(_THALAMIC, float), 4.0, reference=(1, 0, 0), rings=4)
    return curves, np.full(len(curves), np.pi * 4.0**2 / len(curves))


def cerebellar_peduncle() -> tuple[Floats, Floats]:
    """From one half of the cerebellum around the front of the pons to the other."""
    half = np.array(_PEDUNCLE, float)
    knots = np.concatenate([half * [-1.0, 1.0, 1.0], half[-2::-1]])
    curves = _tube_curves(knots, 5.0, reference=(0, 0, 1), rings=4)
    return curves, np.full(len(curves), np.pi * 5.0**2 / len(curves))


def rasterize(bundle: Bundle, affine: Floats, shape: tuple[int, int, int]) -> tuple[Floats, Floats]:
    """Return share, shape (X, Y, Z), and mean direction, shape (X, Y, Z, 3), of a bundle in each voxel.

    The curves are added up as small pieces with volume (length times area) and axial direction (dyads t t^T), both
    blurred by half a voxel; the mean direction is the first eigenvector of the summed dyads. Share: 1 - exp(-3 v),
    where v is the bundle's volume in the voxel over the voxel's.
    """
    from scipy.ndimage import gaussian_filter

    pieces = np.diff(bundle.curves, axis=1)
    lengths = np.linalg.norm(pieces, axis=-1, keepdims=True)
    tangents = (pieces / np.maximum(lengths, 1e-12)).reshape(-1, 3)
    middles = ((bundle.curves[:, 1:] + bundle.curves[:, :-1]) / 2).reshape(-1, 3)
    volumes = (lengths[..., 0] * bundle.areas_mm2[:, None]).ravel() / voxel_volume_mm3(affine)
    index = np.rint(apply_affine(np.linalg.inv(affine), middles)).astype(np.int64)
    within = in_grid(index, shape)
    flat = np.ravel_multi_index(tuple(index[within].T), shape)

    def density(weights: Array) -> Floats:
        summed = np.bincount(flat, weights[within], minlength=int(np.prod(shape)))
        return np.asarray(gaussian_filter(summed.reshape(shape), 0.5, mode="constant"))

    share = 1.0 - np.exp(-3.0 * density(volumes))
    dyads = np.empty((*shape, 3, 3))
    for a in range(3):
        for b in range(a, 3):
            dyads[..., a, b] = dyads[..., b, a] = density(volumes * tangents[:, a] * tangents[:, b])
    direction = np.zeros((*shape, 3))
    filled = share > 1e-3
    direction[filled] = np.linalg.eigh(dyads[filled])[1][..., -1]
    return np.where(filled, share, 0.0), direction


def _circle(angle: Floats) -> Floats:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _distance_to_surface(start: Floats, heading: Floats) -> Floats:
    """Distance from each start along its heading to the outline of the hemispheres, mm, shape (F,)."""
    far = np.arange(0.0, 110.0, 0.5)
    outside = cerebrum(start[:, None] + far[:, None] * heading[:, None]) > -1.0
    return np.asarray(far[np.argmax(outside, axis=1)])


def _bezier(p0: Floats, p1: Floats, p2: Floats, p3: Floats) -> Floats:
    """Cubic Bezier curves, shape (F, n, 3)."""
    t = np.linspace(0.0, 1.0, POINTS)[:, None]
    p0, p1, p2, p3 = (p[:, None] for p in (p0, p1, p2, p3))
    return np.asarray((1 - t) ** 3 * p0 + 3 * (1 - t) ** 2 * t * p1 + 3 * (1 - t) * t**2 * p2 + t**3 * p3)


def _tube_curves(knots: Floats, radius_mm: float, *, reference: Sequence[float], rings: int) -> Floats:
    """Parallel curves that fill a tube: a spline through knots, set off in the frame of its tangent and a reference."""
    from scipy.interpolate import CubicSpline

    along = lengths_along(knots)
    spline = CubicSpline(along, knots)
    at = np.linspace(0.0, along[-1], POINTS)
    tangent = _unit(spline(at, 1))
    first = _unit(np.asarray(reference, float) - (tangent @ np.asarray(reference, float))[:, None] * tangent)
    second = np.cross(tangent, first)
    u, v = radius_mm * _sunflower(3 * rings * (rings + 1) + 1).T
    return np.asarray(spline(at) + u[:, None, None] * first + v[:, None, None] * second)


def _sunflower(count: int) -> Floats:
    """Points spread evenly over the unit disc, the first at its center; shape (count, 2)."""
    n = np.arange(count)
    return np.sqrt(n / count)[:, None] * _circle(n * np.pi * (3.0 - np.sqrt(5.0)))


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))

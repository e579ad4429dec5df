"""Closed forms of histograms: solids in a linear dose, balls in a Gaussian and around a light source.

Solids are centered at the origin, lengths in mm, volumes in mm³. In a dose D0 + g (p . n), n a unit vector, a dose D is
reached at p . n >= t with t = (D - D0) / g; the functions return V(t), the volume beyond the plane at t. Elementary
integration; the tests compare each with random points.

With them the five solids with which Nelms et al. 2015 (Med. Phys. 42:4435) compared planning systems: 24 mm large, 16
Gy in the middle, 1 Gy/mm along z (SI) or y (AP); contours and dose voxels 1, 2 or 3 mm apart. A solid holds half a
slice beyond its end planes where it has an area there. Made from the paper's description.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import lambertw

from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure

Array = npt.NDArray[np.float64]
Case = tuple[str, str, float]
RADIUS, HEIGHT, CENTER_GY = 12.0, 24.0, 16.0
SOLIDS = ("Sphere", "Cylinder", "RtCylinder", "Cone", "RtCone")  # Rt: the axis lies along AP
CASES: tuple[Case, ...] = tuple(
    (solid, gradient, spacing) for solid in SOLIDS for spacing in (1.0, 2.0, 3.0) for gradient in ("SI", "AP")
)
_TIP = 1e-3  # radius of what is drawn where a solid ends in a point or a line


def segment(t: npt.ArrayLike, radius: float) -> Array:
    """Area of a disc beyond a chord at offset t, mm²: R² acos(t / R) - t sqrt(R² - t²)."""
    t = np.clip(np.asarray(t, np.float64), -radius, radius)
    return np.asarray(radius**2 * np.arccos(t / radius) - t * np.sqrt(radius**2 - t**2))


def ball(t: npt.ArrayLike, radius: float) -> Array:
    """A ball."""
    t = np.clip(np.asarray(t, np.float64), -radius, radius)
    return np.asarray(np.pi * (2 * radius**3 / 3 - radius**2 * t + t**3 / 3))


def disc(t: npt.ArrayLike, radius: float, low: float, high: float, n: Sequence[float]) -> Array:
    """A cylinder along z from ``low`` to ``high``, in any direction n; stacks of them are contours in slabs."""
    t, across, along = np.asarray(t, np.float64), math.hypot(n[0], n[1]), float(n[2])
    if across < 1e-12:
        ends = (low, high) if along > 0 else (-high, -low)
        return np.asarray(np.pi * radius**2 * np.clip(ends[1] - np.maximum(t, ends[0]), 0, ends[1] - ends[0]))
    if abs(along) < 1e-12:
        return np.asarray((high - low) * segment(t, radius))
    at_low, at_high = (_segment_integral((t - along * z) / across, radius) for z in (low, high))
    return np.asarray(across / along * (at_low - at_high))


def _segment_integral(u: Array, radius: float) -> Array:
    """Antiderivative of `segment` that is 0 beyond the disc."""
    inner = np.clip(u, -radius, radius)
    within = inner * segment(inner, radius) - 2 / 3 * (radius**2 - inner**2) ** 1.5
    return np.where(u <= -radius, np.pi * radius**2 * u, np.where(u >= radius, 0.0, within))


def cone_along(t: npt.ArrayLike, radius: float, height: float) -> Array:
    """A cone along n with its tip at -height / 2, the cold end."""
    t = np.clip(np.asarray(t, np.float64), -height / 2, height / 2)
    return np.asarray(np.pi * radius**2 * height / 3 * (1 - ((t + height / 2) / height) ** 3))


def cone_across(t: npt.ArrayLike, radius: float, height: float) -> Array:
    """A cone whose axis lies across n; t from the axis."""
    t = np.clip(np.asarray(t, np.float64), -radius, radius)
    a = np.maximum(np.abs(t), 1e-12 * radius)
    w = np.sqrt(np.maximum(radius**2 - a**2, 0.0))
    arc, log = np.arccos(np.minimum(a / radius, 1.0)), np.log((radius + w) / a)
    beyond = height / radius * (radius**3 / 3 * arc - 2 / 3 * a * radius * w + a**3 / 3 * log)
    return np.where(t >= 0, beyond, np.pi * radius**2 * height / 3 - beyond)


def box(t: npt.ArrayLike, sides: Sequence[float], n: Sequence[float]) -> Array:
    """A box, n in its own axes: inclusion and exclusion of the corners that lie beyond the plane."""
    t = np.asarray(t, np.float64)
    pairs = [(abs(c), side) for c, side in zip(n, sides, strict=True) if abs(c) > 1e-12]
    total = np.zeros_like(t)
    for corner in range(2 ** len(pairs)):
        signs = [-1 if corner >> j & 1 else 1 for j in range(len(pairs))]
        reach = sum(sign * c * side / 2 for sign, (c, side) in zip(signs, pairs, strict=True))
        total = total + math.prod(signs) * np.maximum(reach - t, 0.0) ** len(pairs)
    rest = math.prod(sides) / math.prod(side for _, side in pairs)
    return np.asarray(rest * total / (math.factorial(len(pairs)) * math.prod(c for c, _ in pairs)))


def ball_around_source(fluence: npt.ArrayLike, radius: float, strength: float, mu_eff: float) -> Array:
    """A ball around an isotropic source in an infinite diffuse medium: volume above a fluence.

    The fluence ``strength`` exp(-mu_eff r) / r is reached at r = W(mu_eff strength / fluence) / mu_eff; W is Lambert's.
    """
    r = np.real(lambertw(mu_eff * strength / np.asarray(fluence, np.float64))) / mu_eff
    return np.asarray(4 / 3 * np.pi * np.minimum(r, radius) ** 3)


def nelms_structure(solid: str, spacing: float) -> ContourStructure:
    """Contours of a solid, first and last plane at its ends."""
    positions = -HEIGHT / 2 + spacing * np.arange(round(HEIGHT / spacing) + 1)
    return in_planes(solid, [(z, _section(solid, float(z))) for z in positions])


def _section(solid: str, z: float) -> Array:
    half = max(float(np.sqrt(max(RADIUS**2 - z**2, 0.0))), _TIP)
    if solid == "RtCylinder":
        return np.array([[-half, -RADIUS], [half, -RADIUS], [half, RADIUS], [-half, RADIUS]])
    if solid == "RtCone":
        return _section_beside_the_axis(z)
    radius = {"Sphere": half, "Cylinder": RADIUS, "Cone": max(RADIUS * (z + HEIGHT / 2) / HEIGHT, _TIP)}[solid]
    return ellipse(radius, radius)


def _section_beside_the_axis(z: float) -> Array:
    """A hyperbola and the base: a cone along y."""
    if abs(z) >= RADIUS - 1e-9:
        return ellipse(_TIP, _TIP, 16, (0.0, RADIUS))
    y = 2 * abs(z) - RADIUS + (HEIGHT - 2 * abs(z)) * np.linspace(0, 1, 128) ** 2
    x = np.sqrt(np.maximum((RADIUS * (y + RADIUS) / HEIGHT) ** 2 - z**2, 0.0))
    return np.concatenate([np.column_stack([x, y]), np.column_stack([-x[::-1], y[::-1]])[:-1]])


def nelms_dose(gradient: str, spacing: float) -> Dose:
    """The dose, with a voxel center in the middle."""
    n = int(np.ceil(15 / spacing))
    axis = spacing * np.arange(-n, n + 1)
    along = axis if gradient == "SI" else axis[None, :, None]
    values = np.maximum(CENTER_GY + np.zeros((len(axis),) * 3) + along, 0.0)
    return Dose(values=values, affine=grid_affine(spacing, [axis[0]] * 3), unit="Gy", name=f"linear {gradient}")


def nelms_volume(case: Case, t: npt.ArrayLike) -> Array:
    """Volume (mm³) beyond the plane at t."""
    solid, gradient, spacing = case
    cap, along = spacing / 2, gradient == "SI"
    n = (0, 0, 1) if along else (0, 1, 0)
    if solid == "Sphere":
        return ball(t, RADIUS)
    if solid == "Cylinder":
        return disc(t, RADIUS, -HEIGHT / 2 - cap, HEIGHT / 2 + cap, n)
    if solid == "RtCylinder":
        return disc(t, RADIUS, -HEIGHT / 2, HEIGHT / 2, (0, 1, 0) if along else (0, 0, 1))
    if solid == "Cone":
        base = disc(t, RADIUS, HEIGHT / 2, HEIGHT / 2 + cap, n)
        return base + (cone_along(t, RADIUS, HEIGHT) if along else cone_across(t, RADIUS, HEIGHT))
    return cone_across(t, RADIUS, HEIGHT) if along else cone_along(t, RADIUS, HEIGHT)


def nelms_truth(case: Case) -> dict[str, float]:
    """Volume (cc) and doses (Gy); volume only along SI, since it is the same along AP."""
    reach = HEIGHT / 2 + (case[2] / 2 if case[1] == "SI" else 0.0)
    total = float(nelms_volume(case, -99.0))

    def dose_of(volume: float) -> float:
        return CENTER_GY + float(brentq(lambda t: float(nelms_volume(case, t)) - volume, -reach - 1e-9, reach + 1e-9))

    steps = np.linspace(-reach, reach, 20001)
    mean = CENTER_GY - reach + float(np.trapezoid(nelms_volume(case, steps), steps)) / total
    volume = {"volume_cc": total / 1000} if case[1] == "SI" else {}
    return {
        **volume,
        "Dmean": mean,
        **{f"D{x}": dose_of(total * x / 100) for x in (99, 95, 5, 1)},
        "D0.03cc": dose_of(30),
    }


def nelms_errors_percent(case: Case, found: Dvh) -> dict[str, float]:
    """Errors of a histogram in % of the truth; 195 of them in all cases."""
    values = {"volume_cc": found.volume_cc, "Dmean": found.mean, "D0.03cc": float(found.dose_at(0.03))}
    values |= {f"D{x}": float(found.dose_at_percent(x)) for x in (99, 95, 5, 1)}
    return {name: 100 * (values[name] / true - 1) for name, true in nelms_truth(case).items()}


def nelms_curve_errors_percent(case: Case, found: Dvh) -> Array:
    """Errors of 301 points of the curve, every 0.1 Gy, in % of the volume."""
    doses = 0.1 * np.arange(301)
    truth = nelms_volume(case, doses - CENTER_GY) / 1000
    return np.asarray(100 * (found.volume_at(doses) - truth) / (float(nelms_volume(case, -99.0)) / 1000))


def ellipse(half_x: float, half_y: float, points: int = 256, center: tuple[float, float] = (0.0, 0.0)) -> Array:
    """A polygon with the area of an ellipse, shape (points, 2), mm."""
    angles = 2 * np.pi * np.arange(points) / points
    grown = np.sqrt(2 * np.pi / (points * np.sin(2 * np.pi / points)))
    return np.column_stack([center[0] + grown * half_x * np.cos(angles), center[1] + grown * half_y * np.sin(angles)])


def in_planes(name: str, loops: Iterable[tuple[float, Array]], **more: Any) -> ContourStructure:
    """A structure of loops (N, 2), each in a plane z, mm."""
    return contour_structure(name, [np.column_stack([loop, np.full(len(loop), z)]) for z, loop in loops], **more)


def grid_affine(spacing: float, first: npt.ArrayLike) -> Array:
    """Index to world of a straight grid with equal edges, mm; ``first`` is the center of the first voxel."""
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = first
    return affine

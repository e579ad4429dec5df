"""Closed forms of histograms, for checks: solids in a linear dose, balls in a Gaussian and around a light source.

Solids are centerd at the origin, lengths in mm, volumes in mm³. In a dose D0 + g (p . n), n a unit vector, a dose D is
reached at p . n >= t with t = (D - D0) / g; the functions give V(t), the volume beyond the plane at t. Elementary
integration; each is held against random points by the tests.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw

Array = npt.NDArray[np.float64]


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


def ball_in_gaussian(dose: npt.ArrayLike, radius: float, top: float, width: float) -> Array:
    """A ball around the center of a dose ``top`` exp(-r² / (2 width²)): volume above a dose."""
    r = width * np.sqrt(2 * np.log(np.maximum(top / np.asarray(dose, np.float64), 1.0)))
    return np.asarray(4 / 3 * np.pi * np.minimum(r, radius) ** 3)


def ball_around_source(fluence: npt.ArrayLike, radius: float, strength: float, mu_eff: float) -> Array:
    """A ball around an isotropic source in an infinite diffuse medium: volume above a fluence.

    The fluence ``strength`` exp(-mu_eff r) / r is reached at r = W(mu_eff strength / fluence) / mu_eff; W is Lambert's.
    """
    r = np.real(lambertw(mu_eff * strength / np.asarray(fluence, np.float64))) / mu_eff
    return np.asarray(4 / 3 * np.pi * np.minimum(r, radius) ** 3)

"""Fields with D = I / n(x)^2, whose geodesics are the light rays of an index n (Born & Wolf, Principles of Optics)."""

from collections.abc import Callable

import numpy as np

from napari_gpubio.tracts.phantom.analytic.field import AnalyticField, Launch, Path, half_plane, isotropic
from napari_gpubio.tracts.phantom.brain import Array, Floats

PLANE_Y = 40.0  # half space
EYE_RADIUS, EYE_INDEX = 16.0, 2.0  # fish-eye
LENS_RADIUS = 28.0  # Luneburg
SLOPE = np.array([0.02, 0.0, 0.0])  # linear index
GUIDE = 1.0 / 40.0  # parabolic index
LOWEST_INDEX = 0.1  # n^2 in the corners where a formula has no positive one any more


def half_space() -> AnalyticField:
    """T2: D = (y/L)^2 I, the hyperbolic half space; half circles that meet y = 0 at right angles."""

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        across = v * [1, 0, 1]
        run, height = half_plane(x0[1], float(np.hypot(v[0], v[2])), v[1], s / PLANE_Y)
        sideways = across / max(float(np.linalg.norm(across)), 1e-300)
        return x0 * [1, 0, 1] + run[:, None] * sideways + height[:, None] * [0, 1, 0]

    rays = ((0.0, 40.0), (30.0, 60.0), (60.0, 38.0), (-45.0, 20.0))
    return AnalyticField(
        name="half space",
        tensor_at=lambda x: isotropic((x[..., 1] / PLANE_Y) ** 2),
        geodesic=geodesic,
        launches=tuple(
            Launch(start=(-20.0, PLANE_Y, -16.0), direction=(0.8 * np.cos(t), np.sin(t), 0.6 * np.cos(t)), length=s)
            for t, s in ((np.deg2rad(degrees), length) for degrees, length in rays)
        ),
        origin=(-31.5, 20.0, -31.5),
        conserved=(0, 2),
    )


def fish_eye() -> AnalyticField:
    """T3: Maxwell's fish-eye, D = ((1 + r^2/a^2)/n)^2 I; great circles of a 3-sphere of radius n a / 2.

    Every ray from x0 meets the others at -a^2 x0 / |x0|^2, at Riemannian length n pi a / 2.
    """
    a, sphere = EYE_RADIUS, EYE_RADIUS * EYE_INDEX / 2.0

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        X, d = x0 / a, v / a
        q, slope = 1.0 + X @ X, 2.0 * (X @ d)
        point = np.array([*(2.0 * X / q), (X @ X - 1.0) / q])
        heading = np.array([*(2.0 * d / q - 2.0 * X * slope / q**2), 2.0 * slope / q**2])
        heading /= np.linalg.norm(heading)
        on_sphere = np.outer(np.cos(s / sphere), point) + np.outer(np.sin(s / sphere), heading)
        return np.asarray(a * on_sphere[:, :3] / (1.0 - on_sphere[:, 3:]))

    fan = [np.deg2rad(t) for t in (-30.0, -15.0, 0.0, 15.0, 30.0)]
    return AnalyticField(
        name="fish-eye",
        tensor_at=lambda x: isotropic(((1.0 + (x * x).sum(axis=-1) / a**2) / EYE_INDEX) ** 2),
        geodesic=geodesic,
        launches=tuple(
            Launch(start=(a, 0.0, 0.0), direction=(np.sin(t), np.cos(t) * 0.8, np.cos(t) * 0.6), length=np.pi * a)
            for t in fan
        ),
    )


def luneburg() -> AnalyticField:
    """T4: D = I / (2 - r^2/R^2); x0 cos(sig/R) + R w sin(sig/R), a parallel beam along d meets in R d."""
    R = LENS_RADIUS

    def position(x0: Floats, w: Floats, sig: Floats) -> Floats:
        return np.outer(np.cos(sig / R), x0) + np.outer(R * np.sin(sig / R), w)

    def length(x0: Floats, w: Floats, sig: Floats) -> Floats:
        bend = R / 4.0 * np.sin(2.0 * sig / R) * (w @ w - x0 @ x0 / R**2)
        return np.asarray(sig + bend - (x0 @ w) * np.sin(sig / R) ** 2)

    beams = [R * np.array([-np.sqrt(1.0 - b * b), 0.8 * b, 0.6 * b]) for b in (0.0, 0.3, 0.6, 0.9)]
    return _lens(
        "Luneburg lens",
        lambda x: 2.0 - (x * x).sum(axis=-1) / R**2,
        (position, length),
        tuple(
            Launch(start=tuple(x0), direction=(1, 0, 0), length=R * np.pi / 2 - x0[0])  # R sqrt(1 - b^2) = -x0_x
            for x0 in beams
        ),
    )


def linear_index() -> AnalyticField:
    """T5: D = I / (1 + b.x); parabolas x0 + sig w + sig^2 b/4."""
    b = SLOPE

    def position(x0: Floats, w: Floats, sig: Floats) -> Floats:
        return np.asarray(x0 + np.outer(sig, w) + np.outer(sig**2, b) / 4.0)

    def length(x0: Floats, w: Floats, sig: Floats) -> Floats:
        return np.asarray((1.0 + b @ x0) * sig + (w @ b) * sig**2 / 2.0 + (b @ b) * sig**3 / 12.0)

    rays = (((0.0, -25.0, -2.0), (-0.3, 0.8, 0.2), 45.0), ((-20.0, 3.0, -20.0), (0.5, 0.1, 0.9), 35.0))
    return _lens(
        "linear index",
        lambda x: 1.0 + x @ b,
        (position, length),
        tuple(Launch(start=x0, direction=d, length=s) for x0, d, s in rays),
        conserved=(1, 2),
    )


def parabolic_index() -> AnalyticField:
    """T6: D = I / (1 - al^2 (y^2 + z^2)), a light guide; y and z swing as cos(al sig), x grows evenly."""
    al = GUIDE

    def position(x0: Floats, w: Floats, sig: Floats) -> Floats:
        swing = np.outer(np.cos(al * sig), x0) + np.outer(np.sin(al * sig) / al, w)
        return np.where([True, False, False], x0 + np.outer(sig, w), swing)

    def length(x0: Floats, w: Floats, sig: Floats) -> Floats:
        q, u, wave = al * x0[1:], w[1:], np.sin(2.0 * al * sig) / (4.0 * al)
        spent = (q @ q) * (sig / 2 + wave) + (u @ u) * (sig / 2 - wave) + (q @ u) * np.sin(al * sig) ** 2 / al
        return np.asarray(sig - spent)

    rays = (((-29.0, 15.0, 0.0), (1, 0, 0), 48.0), ((-29.0, 10.0, -8.0), (1, -0.5, 0.4), 48.0))
    return _lens(
        "parabolic index",
        lambda x: 1.0 - al**2 * (x[..., 1] ** 2 + x[..., 2] ** 2),
        (position, length),
        tuple(Launch(start=x0, direction=d, length=s) for x0, d, s in rays),
        conserved=(0,),
    )


def _lens(
    name: str,
    index_squared: Callable[[Array], Array],
    ray: tuple[Path, Path],
    launches: tuple[Launch, ...],
    conserved: tuple[int, ...] = (),
) -> AnalyticField:
    """D = I / n^2; ``ray`` gives position and Riemannian length over sig: dx/dsig = w with |w| = n, dL = n^2 dsig."""
    position, length = ray

    def tensor_at(x: Array) -> Array:
        n2 = index_squared(x)
        return isotropic(1.0 / np.where(n2.real > LOWEST_INDEX, n2, LOWEST_INDEX))

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        w = v * index_squared(x0)
        return position(x0, w, _inverted(lambda sig: length(x0, w, sig), s))

    return AnalyticField(name=name, tensor_at=tensor_at, geodesic=geodesic, launches=launches, conserved=conserved)


def _inverted(growing: Callable[[Floats], Floats], wanted: Floats) -> Floats:
    """Arguments at which a function that grows from 0 at 0 takes wanted values, by bisection to the last bit."""
    reach = 1.0
    while (growing(np.full_like(wanted, reach)) < wanted).any() or (
        growing(np.full_like(wanted, -reach)) > wanted
    ).any():
        reach *= 2.0
    low, high = np.full_like(wanted, -reach), np.full_like(wanted, reach)
    for _ in range(80):
        middle = (low + high) / 2.0
        short = growing(middle) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return (low + high) / 2.0

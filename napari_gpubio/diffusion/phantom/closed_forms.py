"""Tensor fields whose geodesics are known in closed form: fibers (constant, rings, helical) and lenses."""

from collections.abc import Callable

import numpy as np

from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.phantom.analytic import CENTERD, AnalyticField, Launch, Path, half_plane, isotropic
from napari_gpubio.diffusion.phantom.brain import Array, Floats, voxel_centers

ALONG, ACROSS = 1.7, 0.3  # of the fiber-like fields
CONSTANT = np.array([1.7, 0.6, 0.4, 0.3, -0.2, 0.1])
RING_RADIUS = 20.0
WAVE_HEIGHT, WAVE_NUMBER, BOWL = 6.0, 2.0 * np.pi / 64.0, 0.004  # pull-back
TWIST, TILT = 2.0 * np.pi / 48.0, 0.5  # helix


def constant() -> AnalyticField:
    """T1: D constant; straight lines, also off the main eigenvector."""
    return AnalyticField(
        name="constant",
        tensor_at=lambda x: CONSTANT + 0.0 * x[..., :1],
        geodesic=lambda x0, v, s: x0 + s[:, None] * v,
        launches=(Launch(start=(-7.0, -15.0, -22.0), direction=(1, 2, 3), length=50.0),),
        conserved=(0, 1, 2),
    )


def ring(
    power: int = 1, *, origin: tuple[float, float, float] = CENTERD, shape: tuple[int, int, int] = (64, 64, 64)
) -> AnalyticField:
    """T7: fibers on circles around the z axis, with diffusivities to a power; g is a flat cone.

    With k = sqrt(across/along)^power, straight lines in the plane with polar angle k phi; Clairaut's p_phi and p_z are
    constant. Not defined on the z axis.
    """
    along, across = ALONG**power, ACROSS**power
    k = np.sqrt(across / along)

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        radius, outward, around = _polar(x0, v)
        opened = (radius + s * outward) + 1j * s * k * around
        angle = np.angle(opened) / k + np.arctan2(x0[1], x0[0])
        return _from_polar(np.abs(opened), angle, x0[2] + s * v[2])

    reach = RING_RADIUS / np.sqrt(across)
    return AnalyticField(
        name=f"ring, power {power}",
        tensor_at=lambda x: _circular(x, along, across),
        geodesic=geodesic,
        launches=(
            Launch(start=(RING_RADIUS, 0, 0), direction=(0, 1, 0), length=reach * np.tan(k * np.pi / 2)),
            Launch(start=(RING_RADIUS, 0, 0), direction=(-0.2, 1, 0.1), length=reach * np.tan(k * np.pi / 2)),
        ),
        origin=origin,
        shape=shape,
        conserved=(2,),
    )


def adaptive_ring() -> AnalyticField:
    """T9: r^2/r0^2 times the ring; g is the product of a line (k phi) and the hyperbolic plane (z, r).

    In a plane of constant z: logarithmic spirals with d ln r / d phi = v_r / v_t; tangential rays stay on the circle.
    """

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        radius, outward, around = _polar(x0, v)
        rise = abs(v[2])
        run, distance = half_plane(radius, rise, outward, s * np.hypot(rise, outward) / radius)
        angle = np.arctan2(x0[1], x0[0]) + s * around / radius
        return _from_polar(distance, angle, x0[2] + np.sign(v[2]) * run)

    directions = ((0, 1, 0), (0.2, 1, 0), (-0.15, 1, 0.2))
    return AnalyticField(
        name="adaptive ring",
        tensor_at=lambda x: _circular(x, ALONG, ACROSS) * ((x[..., :2] ** 2).sum(-1) / RING_RADIUS**2)[..., None],
        geodesic=geodesic,
        launches=tuple(
            Launch(start=(RING_RADIUS, 0, 0), direction=d, length=s)
            for d, s in zip(directions, (60.0, 30.0, 40.0), strict=True)
        ),
        conserved=(2,),
    )


def pull_back() -> AnalyticField:
    """T10: flat space seen through y = (x1, x2 + a sin(k x1), x3 + b x1^2), D = J^-1 J^-T; straight lines in y.

    All six components are at work; the distance of two points is abs(y_p - y_q).
    """

    def bent(x: Array) -> Array:
        """What y adds to x, shape (..., 3)."""
        return np.stack([0.0 * x[..., 0], WAVE_HEIGHT * np.sin(WAVE_NUMBER * x[..., 0]), BOWL * x[..., 0] ** 2], -1)

    def slopes(x: Array) -> tuple[Array, Array]:
        return WAVE_HEIGHT * WAVE_NUMBER * np.cos(WAVE_NUMBER * x[..., 0]), 2.0 * BOWL * x[..., 0]

    def tensor_at(x: Array) -> Array:
        c, d = slopes(x)
        return np.stack([1.0 + 0.0 * c, 1.0 + c * c, 1.0 + d * d, -c, -d, c * d], axis=-1)

    def geodesic(x0: Floats, v: Floats, s: Floats) -> Floats:
        c, d = slopes(x0)
        y = x0 + bent(x0) + np.outer(s, v + v[0] * np.array([0.0, c, d]))
        return np.asarray(y - bent(y))  # y1 is x1, and only it bends

    rays = (((-25.0, -10.0, -15.0), (1, 0.4, 0.5)), ((10.0, 5.0, 8.0), (-0.7, -0.6, 0.2)), ((0, 20, 0), (0.2, -1, 0.3)))
    return AnalyticField(
        name="pull-back",
        tensor_at=tensor_at,
        geodesic=geodesic,
        launches=tuple(Launch(start=x0, direction=d, length=35.0) for x0, d in rays),
        origin=(-32.0, -32.0, -32.0),
        conserved=(1, 2),
    )


def helical() -> AnalyticField:
    """T11: a tilted fiber direction that turns with z; p_x, p_y and the speed are constant."""

    def tensor_at(x: Array) -> Array:
        turn, o = TWIST * x[..., 2], 0.0 * x[..., 2]
        u = np.stack([np.cos(turn) * np.cos(TILT), np.sin(turn) * np.cos(TILT), o + np.sin(TILT)], axis=-1)
        return _fiber(u, ALONG, ACROSS)

    launch = Launch(start=(-12.0, 0.0, -20.0), direction=(1, 0.3, 0.6), length=40.0)
    return AnalyticField(name="helix", tensor_at=tensor_at, geodesic=None, launches=(launch,), conserved=(0, 1))


def _fiber(u: Array, along: float, across: float) -> Array:
    """Components of across I + (along - across) u u^T for vectors u with u.u = 1."""
    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    outer = np.stack([x * x, y * y, z * z, x * y, x * z, y * z], axis=-1)
    return across * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]) + (along - across) * outer


def _circular(x: Array, along: float, across: float) -> Array:
    """Fibers on circles around the z axis."""
    radius = np.sqrt(x[..., 0] ** 2 + x[..., 1] ** 2)
    return _fiber(np.stack([-x[..., 1], x[..., 0], 0.0 * radius], axis=-1) / radius[..., None], along, across)


def _polar(x0: Floats, v: Floats) -> tuple[float, float, float]:
    """Distance from the z axis, and the parts of a velocity away from it and around it."""
    radius = float(np.hypot(x0[0], x0[1]))
    return radius, float(x0[:2] @ v[:2]) / radius, float(x0[0] * v[1] - x0[1] * v[0]) / radius


def _from_polar(radius: Floats, angle: Floats, z: Floats) -> Floats:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=-1)


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
        return position(x0, w, _inverse(lambda sig: length(x0, w, sig), s))

    return AnalyticField(name=name, tensor_at=tensor_at, geodesic=geodesic, launches=launches, conserved=conserved)


def _inverse(increasing: Callable[[Floats], Floats], values: Floats) -> Floats:
    """Arguments at which an increasing function that is 0 at 0 has these values, by bisection to the last bit."""
    low, high = np.full_like(values, -1.0), np.full_like(values, 1.0)
    while (increasing(high) < values).any() or (increasing(low) > values).any():
        low, high = 2.0 * low, 2.0 * high
    for _ in range(80):
        middle = (low + high) / 2.0
        short = increasing(middle) < values
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return (low + high) / 2.0


def analytic_fields() -> tuple[AnalyticField, ...]:
    """All fields, the ring with diffusivities to the powers 1 to 3."""
    rings = tuple(ring(power) for power in (1, 2, 3))
    lenses = (half_space(), fish_eye(), luneburg(), linear_index(), parabolic_index())
    return (constant(), *lenses, *rings, adaptive_ring(), pull_back(), helical())


def ring_field(inner_mm: float = 7.0, outer_mm: float = 31.0) -> TensorField:
    """A ring bundle of 64 x 64 x 24 voxels to look at: the field of `ring` between two radii, zero elsewhere."""
    field = ring(shape=(64, 64, 24), origin=(-31.5, -31.5, -11.5))
    whole = field.sample()
    radius = np.linalg.norm(voxel_centers(field.affine, field.shape)[..., :2], axis=-1)
    mask = (radius > inner_mm) & (radius < outer_mm)
    return TensorField(tensors=np.where(mask[..., None], whole.tensors, 0.0), mask=mask, affine=whole.affine)

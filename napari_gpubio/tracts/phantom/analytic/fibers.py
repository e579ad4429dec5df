"""Fields with fibers: constant, on circles, bent by a change of coordinates, twisted."""

import numpy as np

from napari_gpubio.tracts.phantom.analytic.field import CENTERD, AnalyticField, Launch, half_plane
from napari_gpubio.tracts.phantom.brain import Array, Floats

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

"""Vectors, and weights of quadratic B-splines, in Numba; the counterpart of ``vectors.cuh``."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import leaf


@leaf
def dot(a, b):
    """Scalar product."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return multiply_add(a2, b2, multiply_add(a1, b1, a0 * b0))


@leaf
def added(y, t, k):
    """y + t k."""
    y0, y1, y2 = y
    k0, k1, k2 = k
    return multiply_add(t, k0, y0), multiply_add(t, k1, y1), multiply_add(t, k2, y2)


@leaf
def times(t, k):
    """t k."""
    k0, k1, k2 = k
    return t * k0, t * k1, t * k2


@leaf
def transformed(m, v):
    """A 3 x 3 matrix, row by row, times a vector."""
    a, b, c, d, e, f, g, h, i = m
    return dot((a, b, c), v), dot((d, e, f), v), dot((g, h, i), v)


@leaf
def transposed(m, v):
    """The transpose of a 3 x 3 matrix, which is given row by row, times a vector."""
    a, b, c, d, e, f, g, h, i = m
    return dot((a, d, g), v), dot((b, e, h), v), dot((c, f, i), v)


@leaf
def spline_weight(t):
    """Weight and slope of a quadratic B-spline, t voxels (at most 1.5) after its node."""
    real = type(t)
    s = abs(t)
    e = real(1.5) - s
    if s <= real(0.5):
        return multiply_add(-t, t, real(0.75)), real(-2) * t
    return real(0.5) * e * e, -e if t > 0 else e

"""Symmetric matrices of six components (xx, yy, zz, xy, xz, yz) in Numba, the counterpart of ``symmetric.cuh``."""

import numba as nb

_jit = nb.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def multiply(m, x, y, z):
    """Symmetric matrix (xx, yy, zz, xy, xz, yz) times a vector."""
    return m[0] * x + m[3] * y + m[4] * z, m[3] * x + m[1] * y + m[5] * z, m[4] * x + m[5] * y + m[2] * z


@_jit
def quadratic(m, x, y, z):
    """x.M x for a symmetric matrix of six components."""
    a, b, c = multiply(m, x, y, z)
    return x * a + y * b + z * c


@_jit
def solve_symmetric(m, x, y, z):
    """M^-1 times a vector, by cofactors."""
    c0 = m[1] * m[2] - m[5] * m[5]
    c1 = m[0] * m[2] - m[4] * m[4]
    c2 = m[0] * m[1] - m[3] * m[3]
    c3 = m[4] * m[5] - m[3] * m[2]
    c4 = m[3] * m[5] - m[4] * m[1]
    c5 = m[3] * m[4] - m[0] * m[5]
    d = m[0] * c0 + m[3] * c3 + m[4] * c4
    return (c0 * x + c3 * y + c4 * z) / d, (c3 * x + c1 * y + c5 * z) / d, (c4 * x + c5 * y + c2 * z) / d

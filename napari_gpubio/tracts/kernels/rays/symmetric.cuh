#pragma once
// Symmetric matrices of six components (xx, yy, zz, xy, xz, yz), the counterpart of symmetric.py. REAL is float or double.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

__device__ __forceinline__ void multiply(const real* m, real x, real y, real z, real* out)
{
    out[0] = m[0] * x + m[3] * y + m[4] * z;
    out[1] = m[3] * x + m[1] * y + m[5] * z;
    out[2] = m[4] * x + m[5] * y + m[2] * z;
}

__device__ __forceinline__ real quadratic(const real* m, real x, real y, real z)
{
    real a[3];
    multiply(m, x, y, z, a);
    return x * a[0] + y * a[1] + z * a[2];
}

// M^-1 times a vector, by cofactors.
__device__ __forceinline__ void solve_symmetric(const real* m, real x, real y, real z, real* out)
{
    const real c0 = m[1] * m[2] - m[5] * m[5];
    const real c1 = m[0] * m[2] - m[4] * m[4];
    const real c2 = m[0] * m[1] - m[3] * m[3];
    const real c3 = m[4] * m[5] - m[3] * m[2];
    const real c4 = m[3] * m[5] - m[4] * m[1];
    const real c5 = m[3] * m[4] - m[0] * m[5];
    const real d = m[0] * c0 + m[3] * c3 + m[4] * c4;
    out[0] = (c0 * x + c3 * y + c4 * z) / d;
    out[1] = (c3 * x + c1 * y + c5 * z) / d;
    out[2] = (c4 * x + c5 * y + c2 * z) / d;
}

#pragma once
// Vectors, and weights of quadratic B-splines; the counterpart of vectors.py, and of `solve_symmetric`. REAL is float or double.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

struct Vector {
    real x, y, z;
};

__device__ __forceinline__ real dot(Vector a, Vector b) { return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)); }

__device__ __forceinline__ Vector added(Vector y, real t, Vector k)
{
    return {fma(t, k.x, y.x), fma(t, k.y, y.y), fma(t, k.z, y.z)};
}

__device__ __forceinline__ Vector times(real t, Vector k) { return {t * k.x, t * k.y, t * k.z}; }

__device__ __forceinline__ Vector transformed(const real* m, Vector v)
{
    return {dot({m[0], m[1], m[2]}, v), dot({m[3], m[4], m[5]}, v), dot({m[6], m[7], m[8]}, v)};
}

__device__ __forceinline__ Vector transposed(const real* m, Vector v)
{
    return {dot({m[0], m[3], m[6]}, v), dot({m[1], m[4], m[7]}, v), dot({m[2], m[5], m[8]}, v)};
}

// M^-1 times a vector, by cofactors, for a symmetric matrix of six components (xx, yy, zz, xy, xz, yz).
__device__ __forceinline__ Vector solve_symmetric(const real* m, Vector v)
{
    const real c0 = m[1] * m[2] - m[5] * m[5];
    const real c1 = m[0] * m[2] - m[4] * m[4];
    const real c2 = m[0] * m[1] - m[3] * m[3];
    const real c3 = m[4] * m[5] - m[3] * m[2];
    const real c4 = m[3] * m[5] - m[4] * m[1];
    const real c5 = m[3] * m[4] - m[0] * m[5];
    const real d = m[0] * c0 + m[3] * c3 + m[4] * c4;
    return {(c0 * v.x + c3 * v.y + c4 * v.z) / d, (c3 * v.x + c1 * v.y + c5 * v.z) / d,
            (c4 * v.x + c5 * v.y + c2 * v.z) / d};
}

__device__ __forceinline__ bool finite_positive(real x) { return x > real(0) && x - x == real(0); }

// Weight and slope of a quadratic B-spline, t voxels (at most 1.5) after its node.
struct SplineWeight {
    real value, slope;

    __device__ __forceinline__ SplineWeight(real t)
    {
        const real s = fabs(t), e = real(1.5) - s;
        const bool near = s <= real(0.5);
        value = near ? fma(-t, t, real(0.75)) : real(0.5) * e * e;
        slope = near ? real(-2) * t : t > 0 ? -e : e;
    }
};

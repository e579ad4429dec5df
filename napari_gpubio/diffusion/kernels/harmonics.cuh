#pragma once
// Even spherical harmonics at a direction, the counterpart of harmonics.py: same names, same order of operations.
// Coefficients are pairs (f_lm, f_l-m) by m, then by even l >= m; `table` has the constants of the recurrence.
// LMAX is their largest order.
#ifndef REAL
#define REAL double
#endif
#ifndef LMAX
#define LMAX 8
#endif
#include "fibers/kernels/vectors.cuh"

template <class Pairs>
__device__ __forceinline__ real amplitude_at(const Pairs& pairs, const real* table, Vector u)
{
    real value = 0, c = 1, s = 0;
    int row = 0, pair = 0;
    for (int m = 0; m <= LMAX; ++m) {
        real before = 0, p = table[2 * row], along_c = 0, along_s = 0;
        ++row;
        for (int order = m; order <= LMAX; ++order) {
            if (order > m) {
                const real last = p;
                p = table[2 * row] * fma(u.z, p, -table[2 * row + 1] * before);
                before = last;
                ++row;
            }
            if (order % 2 == 0) {
                along_c = fma(p, (real)pairs[pair], along_c);
                along_s = fma(p, (real)pairs[pair + 1], along_s);
                pair += 2;
            }
        }
        value = fma(s, along_s, fma(c, along_c, value));
        const real next = fma(u.x, c, -u.y * s);
        s = fma(u.y, c, u.x * s);
        c = next;
    }
    return value;
}

// Derivatives, of which a thread computes many, are unrolled where registers hold what that takes.
constexpr int UNROLLED = LMAX <= 8 && sizeof(real) == 4 ? LMAX + 1 : 1;

struct Derivatives {
    real value, x, y, z, xx, yy, zz, xy, xz, yz;
};

template <class Pairs>
__device__ __forceinline__ Derivatives derivatives_at(const Pairs& pairs, const real* table, Vector u)
{
    Derivatives d = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    real c = 1, s = 0, c1 = 0, s1 = 0, c2 = 0, s2 = 0;  // powers m, m - 1 and m - 2 of x + i y
    int row = 0, pair = 0;
#pragma unroll UNROLLED
    for (int m = 0; m <= LMAX; ++m) {
        real p = table[2 * row], p1 = 0, p2 = 0, q = 0, q1 = 0, q2 = 0;
        ++row;
        real fc = 0, fs = 0, dc = 0, ds = 0, ec = 0, es = 0;
#pragma unroll UNROLLED
        for (int order = m; order <= LMAX; ++order) {
            if (order > m) {
                const real a = table[2 * row], b = table[2 * row + 1];
                ++row;
                const real next2 = a * fma(u.z, p2, fma(-b, q2, p1 + p1));
                const real next1 = a * fma(u.z, p1, fma(-b, q1, p));
                const real next = a * fma(u.z, p, -b * q);
                q2 = p2;
                q1 = p1;
                q = p;
                p = next;
                p1 = next1;
                p2 = next2;
            }
            if (order % 2 == 0) {
                const real f = pairs[pair], g = pairs[pair + 1];
                pair += 2;
                fc = fma(p, f, fc);
                fs = fma(p, g, fs);
                dc = fma(p1, f, dc);
                ds = fma(p1, g, ds);
                ec = fma(p2, f, ec);
                es = fma(p2, g, es);
            }
        }
        const real m1 = m, m2 = m * (m - 1);
        d.value = fma(s, fs, fma(c, fc, d.value));
        d.z = fma(s, ds, fma(c, dc, d.z));
        d.zz = fma(s, es, fma(c, ec, d.zz));
        d.x = fma(m1, fma(s1, fs, c1 * fc), d.x);
        d.y = fma(m1, fma(c1, fs, -s1 * fc), d.y);
        d.xz = fma(m1, fma(s1, ds, c1 * dc), d.xz);
        d.yz = fma(m1, fma(c1, ds, -s1 * dc), d.yz);
        d.xx = fma(m2, fma(s2, fs, c2 * fc), d.xx);
        d.xy = fma(m2, fma(c2, fs, -s2 * fc), d.xy);
        c2 = c1;
        s2 = s1;
        c1 = c;
        s1 = s;
        c = fma(u.x, c1, -u.y * s1);
        s = fma(u.y, c1, u.x * s1);
    }
    d.yy = -d.xx;
    return d;
}

// Two unit vectors that are orthogonal to a third and to each other (Duff et al. 2017).
__device__ __forceinline__ void tangents(Vector u, Vector* first, Vector* other)
{
    const real sign = u.z >= 0 ? real(1) : real(-1);
    const real a = real(-1) / (sign + u.z), b = u.x * u.y * a;
    *first = {fma(sign * u.x * u.x, a, real(1)), sign * b, -sign * u.x};
    *other = {b, fma(u.y * u.y, a, sign), -u.y};
}

// Go from u by a tangential step of a length (rad) along a great circle.
__device__ __forceinline__ Vector turned(Vector u, Vector step, real size)
{
    const real c = cos(size), s = sin(size) / size;
    const real x = fma(s, step.x, c * u.x), y = fma(s, step.y, c * u.y), z = fma(s, step.z, c * u.z);
    const real scale = real(1) / sqrt(fma(z, z, fma(y, y, x * x)));
    return {x * scale, y * scale, z * scale};
}

// Go uphill to a maximum; whether one was found.
template <bool NEWTON, class Pairs>
__device__ __forceinline__ bool climb(const Pairs& pairs, const real* table, Vector* u, real* value)
{
    const real longest = real(0.2), shortest = real(1e-4), least = real(1e-15);  // a slope below the least is none
    for (int n = 0; n < 50; ++n) {
        const Derivatives d = derivatives_at(pairs, table, *u);
        *value = d.value;
        Vector a, b;
        tangents(*u, &a, &b);
        const real ga = d.x * a.x + d.y * a.y + d.z * a.z, gb = d.x * b.x + d.y * b.y + d.z * b.z;
        const real radial = d.x * u->x + d.y * u->y + d.z * u->z;
        real h0 = d.xx * a.x + d.xy * a.y + d.xz * a.z;
        real h1 = d.xy * a.x + d.yy * a.y + d.yz * a.z;
        real h2 = d.xz * a.x + d.yz * a.y + d.zz * a.z;
        const real aa = h0 * a.x + h1 * a.y + h2 * a.z - radial, ab = h0 * b.x + h1 * b.y + h2 * b.z;
        h0 = d.xx * b.x + d.xy * b.y + d.xz * b.z;
        h1 = d.xy * b.x + d.yy * b.y + d.yz * b.z;
        h2 = d.xz * b.x + d.yz * b.y + d.zz * b.z;
        const real bb = h0 * b.x + h1 * b.y + h2 * b.z - radial;
        const real determinant = aa * bb - ab * ab;
        const real slope = sqrt(ga * ga + gb * gb);
        if (!(slope > least)) return aa < 0 && determinant > 0;
        const real ua = ga / slope, ub = gb / slope;
        const real bend = fabs(ua * (ua * aa + ub * ab) + ub * (ua * ab + ub * bb));
        real sa = ua * (slope / bend), sb = ub * (slope / bend);
        if (NEWTON && aa < 0 && determinant > 0) {
            sa = (ab * gb - bb * ga) / determinant;
            sb = (ab * ga - aa * gb) / determinant;
        }
        real size = sqrt(sa * sa + sb * sb);
        if (!(size <= longest)) {
            sa = ua * longest;
            sb = ub * longest;
            size = longest;
        }
        const Vector step = {fma(sb, b.x, sa * a.x), fma(sb, b.y, sa * a.y), fma(sb, b.z, sa * a.z)};
        *u = turned(*u, step, size);
        if (size < shortest) {
            *value = amplitude_at(pairs, table, *u);
            return true;
        }
    }
    return false;
}

"""Even spherical harmonics at a direction, in Numba; the counterpart of ``harmonics.cuh``: same order of operations.

A function ``f(u) = sum_lm f_lm Y_lm(u)`` is ``sum_m c_m(x, y) C_m(z) + s_m(x, y) S_m(z)`` with ``c_m + i s_m =
(x + i y)^m`` and polynomials C and S of z, which have no singularity at the poles. Polynomials follow from the
recurrence of the associated Legendre functions in l (Numerical Recipes 6.7), divided by ``sin^m``.

Coefficients come as `napari_gpubio.diffusion.fods.harmonics.paired` orders them, and constants of its `recurrence`.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper

NEWTON, GRADIENT = True, False  # of `climb`


@helper
def amplitude_at(pairs, table, lmax, x, y, z):
    """Value of a function at the unit vector (x, y, z)."""
    zero = type(x)(0)
    value, c, s = zero, type(x)(1), zero
    row = pair = 0
    for m in range(lmax + 1):
        before, p = zero, table[row, 0]
        row += 1
        along_c = along_s = zero
        for order in range(m, lmax + 1):
            if order > m:
                before, p = p, table[row, 0] * multiply_add(z, p, -table[row, 1] * before)
                row += 1
            if order % 2 == 0:
                along_c = multiply_add(p, pairs[pair], along_c)
                along_s = multiply_add(p, pairs[pair + 1], along_s)
                pair += 2
        value = multiply_add(s, along_s, multiply_add(c, along_c, value))
        c, s = multiply_add(x, c, -y * s), multiply_add(y, c, x * s)
    return value


@helper
def derivatives_at(pairs, table, lmax, x, y, z):
    """Value, gradient (x, y, z), and second derivatives (xx, yy, zz, xy, xz, yz) of the polynomial in x, y and z.

    On the sphere only their tangential parts have a meaning; see `climb`.
    """
    zero, one = type(x)(0), type(x)(1)
    value = gx = gy = gz = hxx = hzz = hxy = hxz = hyz = zero
    c, s, c1, s1, c2, s2 = one, zero, zero, zero, zero, zero  # powers m, m - 1 and m - 2 of x + i y
    row = pair = 0
    for m in range(lmax + 1):
        p, p1, p2, q, q1, q2 = table[row, 0], zero, zero, zero, zero, zero
        row += 1
        fc = fs = dc = ds = ec = es = zero
        for order in range(m, lmax + 1):
            if order > m:
                a, b = table[row, 0], table[row, 1]
                row += 1
                next2 = a * multiply_add(z, p2, multiply_add(-b, q2, p1 + p1))
                next1 = a * multiply_add(z, p1, multiply_add(-b, q1, p))
                q2, q1, q, p = p2, p1, p, a * multiply_add(z, p, -b * q)
                p1, p2 = next1, next2
            if order % 2 == 0:
                f, g = pairs[pair], pairs[pair + 1]
                pair += 2
                fc, fs = multiply_add(p, f, fc), multiply_add(p, g, fs)
                dc, ds = multiply_add(p1, f, dc), multiply_add(p1, g, ds)
                ec, es = multiply_add(p2, f, ec), multiply_add(p2, g, es)
        m1, m2 = type(x)(m), type(x)(m * (m - 1))
        value = multiply_add(s, fs, multiply_add(c, fc, value))
        gz = multiply_add(s, ds, multiply_add(c, dc, gz))
        hzz = multiply_add(s, es, multiply_add(c, ec, hzz))
        gx = multiply_add(m1, multiply_add(s1, fs, c1 * fc), gx)
        gy = multiply_add(m1, multiply_add(c1, fs, -s1 * fc), gy)
        hxz = multiply_add(m1, multiply_add(s1, ds, c1 * dc), hxz)
        hyz = multiply_add(m1, multiply_add(c1, ds, -s1 * dc), hyz)
        hxx = multiply_add(m2, multiply_add(s2, fs, c2 * fc), hxx)
        hxy = multiply_add(m2, multiply_add(c2, fs, -s2 * fc), hxy)
        c2, s2, c1, s1 = c1, s1, c, s
        c, s = multiply_add(x, c, -y * s), multiply_add(y, c, x * s)
    return value, (gx, gy, gz), (hxx, -hxx, hzz, hxy, hxz, hyz)


@helper
def tangents(x, y, z):
    """Two unit vectors that are orthogonal to a third and to each other (Duff et al. 2017)."""
    one = type(x)(1)
    sign = one if z >= 0 else -one
    a = -one / (sign + z)
    b = x * y * a
    return (multiply_add(sign * x * x, a, one), sign * b, -sign * x), (b, multiply_add(y * y, a, sign), -y)


@helper
def turned(u, step, size):
    """Go from u by a tangential step of a length (rad) along a great circle."""
    u0, u1, u2 = u
    t0, t1, t2 = step
    c, s = math.cos(size), math.sin(size) / size
    x, y, z = multiply_add(s, t0, c * u0), multiply_add(s, t1, c * u1), multiply_add(s, t2, c * u2)
    scale = type(x)(1) / math.sqrt(multiply_add(z, z, multiply_add(y, y, x * x)))
    return x * scale, y * scale, z * scale


@helper
def climb(pairs, table, lmax, u, newton):
    """Go from a unit vector uphill to a maximum; whether one was found, its amplitude, and where it is.

    A step goes along the gradient, by the ratio of first and second derivative, at most 0.2 rad; the last one is below
    1e-4 rad. ``newton``: by Newton's method in the tangential plane instead, where the function is concave, which finds
    the tops of ridges that 50 steps along the gradient do not get to.
    """
    x, y, z = u
    real = type(x)
    longest, shortest, least = real(0.2), real(1e-4), real(1e-15)  # rad; a slope below the least is none
    value = real(0)
    for _ in range(50):
        value, gradient, second = derivatives_at(pairs, table, lmax, x, y, z)
        g0, g1, g2 = gradient
        xx, yy, zz, xy, xz, yz = second
        first, other = tangents(x, y, z)
        a0, a1, a2 = first
        b0, b1, b2 = other
        ga, gb, radial = g0 * a0 + g1 * a1 + g2 * a2, g0 * b0 + g1 * b1 + g2 * b2, g0 * x + g1 * y + g2 * z
        h0, h1, h2 = xx * a0 + xy * a1 + xz * a2, xy * a0 + yy * a1 + yz * a2, xz * a0 + yz * a1 + zz * a2
        aa, ab = h0 * a0 + h1 * a1 + h2 * a2 - radial, h0 * b0 + h1 * b1 + h2 * b2
        h0, h1, h2 = xx * b0 + xy * b1 + xz * b2, xy * b0 + yy * b1 + yz * b2, xz * b0 + yz * b1 + zz * b2
        bb = h0 * b0 + h1 * b1 + h2 * b2 - radial
        determinant = aa * bb - ab * ab
        slope = math.sqrt(ga * ga + gb * gb)
        if not slope > least:
            return aa < 0 and determinant > 0, value, (x, y, z)
        ua, ub = ga / slope, gb / slope
        bend = abs(ua * (ua * aa + ub * ab) + ub * (ua * ab + ub * bb))
        sa, sb = ua * (slope / bend), ub * (slope / bend)
        if newton and aa < 0 and determinant > 0:
            sa, sb = (ab * gb - bb * ga) / determinant, (ab * ga - aa * gb) / determinant
        size = math.sqrt(sa * sa + sb * sb)
        if not size <= longest:
            sa, sb, size = ua * longest, ub * longest, longest
        step = multiply_add(sb, b0, sa * a0), multiply_add(sb, b1, sa * a1), multiply_add(sb, b2, sa * a2)
        x, y, z = turned((x, y, z), step, size)
        if size < shortest:
            return True, amplitude_at(pairs, table, lmax, x, y, z), (x, y, z)
    return False, value, (x, y, z)

#pragma once
// Ray tracing, the twin of cpu.py: same names, same operation order. REAL is float or double.
// Positions are in voxels; euclid (A^T A) measures voxel vectors in mm. Volumes are stored (x, y, z, component).
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

enum Kind { CUBIC = 0, LINEAR = 1, VANAART = 2, EUDX = 3 };
enum Reason { VOLUME = 1, MASK = 2, FA = 3, STEPS = 4, LENGTH = 5, CURVATURE = 6, DRIFT = 7, INVALID = 8 };
enum { STATS = 7 };

struct Shape { int x, y, z; };
struct Limits { real step, fa, length, bend, drift; };

// a * b + c, rounded once; the compiler is told to fuse nothing else, so that both twins round alike.
__device__ __forceinline__ real multiply_add(real a, real b, real c)
{
    if constexpr (sizeof(real) == sizeof(float)) return __fmaf_rn(a, b, c);
    else return __fma_rn(a, b, c);
}

// Weighted sum of four nodes.
__device__ __forceinline__ real weighted(const real* w, real f0, real f1, real f2, real f3)
{
    return multiply_add(w[3], f3, multiply_add(w[2], f2, multiply_add(w[1], f1, w[0] * f0)));
}

// Linear interpolation from f to g.
__device__ __forceinline__ real between(real f, real g, real t) { return multiply_add(g - f, t, f); }

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

// Between the outermost voxel centres; false for NaN.
__device__ __forceinline__ bool inside(Shape n, real x, real y, real z)
{
    return x >= 0 && y >= 0 && z >= 0 && x <= real(n.x - 1) && y <= real(n.y - 1) && z <= real(n.z - 1);
}

// N components of a node, in loads of two: nodes are aligned to a pair of reals.
template <int N> __device__ __forceinline__ void load(const real* __restrict__ node, real* out)
{
#pragma unroll
    for (int n = 0; n < N; n += 2) {
#if defined(GPUBIO_ON_CPU)
        out[n] = node[n];
        out[n + 1] = node[n + 1];
#else
        if (sizeof(real) == 4) {
            const float2 pair = __ldg(reinterpret_cast<const float2*>(node + n));
            out[n] = pair.x;
            out[n + 1] = pair.y;
        } else {
            const double2 pair = __ldg(reinterpret_cast<const double2*>(node + n));
            out[n] = pair.x;
            out[n + 1] = pair.y;
        }
#endif
    }
}

// Four components of a node of twenty-four, at once: these nodes are aligned to four floats.
__device__ __forceinline__ void load_four(const real* __restrict__ node, real* out)
{
#if !defined(GPUBIO_ON_CPU)
    if (sizeof(real) == 4) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(node));
        out[0] = four.x; out[1] = four.y; out[2] = four.z; out[3] = four.w;
        return;
    }
#endif
    load<4>(node, out);
}

__device__ __forceinline__ size_t node_index(int i, int j, int k, int ny, int nz)
{
    return ((size_t)i * ny + j) * nz + k;
}

// Weights of the four nodes of a cubic B-spline at fraction t, and their derivatives.
__device__ __forceinline__ void spline_weights(real t, real* w, real* d)
{
    const real u = real(1) - t, sixth = real(1) / real(6), half = real(0.5);
    w[0] = u * u * u * sixth;
    w[1] = (real(4) - real(6) * t * t + real(3) * t * t * t) * sixth;
    w[2] = (real(4) - real(6) * u * u + real(3) * u * u * u) * sixth;
    w[3] = t * t * t * sixth;
    d[0] = -u * u * half;
    d[1] = (real(3) * t * t - real(4) * t) * half;
    d[2] = (real(4) * u - real(3) * u * u) * half;
    d[3] = t * t * half;
}

// A volume in global memory, interpolated in the kernel.
struct GlobalField {
    enum { EAGER = 0 };  // not read ahead: the interpolation would wait for its loads then and there
    const real* __restrict__ data;

    // Value (s[0]) and gradient (s[1..3]) of the spline of six components; nodes are padded by one before, two behind.
    __device__ void cubic(Shape n, real x, real y, real z, real s[4][6]) const
    {
        const int i = (int)x, j = (int)y, k = (int)z, ny = n.y + 3, nz = n.z + 3;
        real wx[4], wy[4], wz[4], gx[4], gy[4], gz[4];
        spline_weights(x - real(i), wx, gx);
        spline_weights(y - real(j), wy, gy);
        spline_weights(z - real(k), wz, gz);
#pragma unroll
        for (int q = 0; q < 4; ++q)
#pragma unroll
            for (int c = 0; c < 6; ++c) s[q][c] = real(0);
#pragma unroll
        for (int a = 0; a < 4; ++a) {
#pragma unroll
            for (int b = 0; b < 4; ++b) {
                const real* row = data + 6 * node_index(i + a, j + b, k, ny, nz);
                const real wab = wx[a] * wy[b], dx = gx[a] * wy[b], dy = wx[a] * gy[b];
                real f0[6], f1[6], f2[6], f3[6];
                load<6>(row, f0);
                load<6>(row + 6, f1);
                load<6>(row + 12, f2);
                load<6>(row + 18, f3);
#pragma unroll
                for (int c = 0; c < 6; ++c) {
                    const real value = weighted(wz, f0[c], f1[c], f2[c], f3[c]);
                    const real slope = weighted(gz, f0[c], f1[c], f2[c], f3[c]);
                    s[0][c] = multiply_add(wab, value, s[0][c]);
                    s[1][c] = multiply_add(dx, value, s[1][c]);
                    s[2][c] = multiply_add(dy, value, s[2][c]);
                    s[3][c] = multiply_add(wab, slope, s[3][c]);
                }
            }
        }
    }

    // Value and gradient of the trilinear interpolant of six components.
    __device__ void linear(Shape n, real x, real y, real z, real s[4][6]) const
    {
        const int i = min((int)x, n.x - 2), j = min((int)y, n.y - 2), k = min((int)z, n.z - 2);
        const real a = x - real(i), b = y - real(j), c = z - real(k);
        const real* row00 = data + 6 * node_index(i, j, k, n.y, n.z);
        const real* row01 = row00 + 6 * (size_t)n.z;
        const real* row10 = row00 + 6 * (size_t)n.z * n.y;
        const real* row11 = row10 + 6 * (size_t)n.z;
        real f000[6], f001[6], f010[6], f011[6], f100[6], f101[6], f110[6], f111[6];
        load<6>(row00, f000); load<6>(row00 + 6, f001);
        load<6>(row01, f010); load<6>(row01 + 6, f011);
        load<6>(row10, f100); load<6>(row10 + 6, f101);
        load<6>(row11, f110); load<6>(row11 + 6, f111);
#pragma unroll
        for (int m = 0; m < 6; ++m) {
            const real x00 = between(f000[m], f100[m], a), x10 = between(f010[m], f110[m], a);
            const real x01 = between(f001[m], f101[m], a), x11 = between(f011[m], f111[m], a);
            const real y0 = between(x00, x10, b), y1 = between(x01, x11, b);
            const real g0 = between(f100[m] - f000[m], f110[m] - f010[m], b);
            const real g1 = between(f101[m] - f001[m], f111[m] - f011[m], b);
            const real h0 = x10 - x00, h1 = x11 - x01;
            s[0][m] = between(y0, y1, c);
            s[1][m] = between(g0, g1, c);
            s[2][m] = between(h0, h1, c);
            s[3][m] = y1 - y0;
        }
    }

    // Trilinear values of W and of the three differences of g.
    __device__ void four(Shape n, real x, real y, real z, real s[4][6]) const
    {
        const int i = min((int)x, n.x - 2), j = min((int)y, n.y - 2), k = min((int)z, n.z - 2);
        const real a = x - real(i), b = y - real(j), c = z - real(k);
        const real* row00 = data + 24 * node_index(i, j, k, n.y, n.z);
        const real* row01 = row00 + 24 * (size_t)n.z;
        const real* row10 = row00 + 24 * (size_t)n.z * n.y;
        const real* row11 = row10 + 24 * (size_t)n.z;
        real* out = &s[0][0];
#pragma unroll
        for (int t = 0; t < 24; t += 4) {
            real f000[4], f001[4], f010[4], f011[4], f100[4], f101[4], f110[4], f111[4];
            load_four(row00 + t, f000); load_four(row00 + 24 + t, f001);
            load_four(row01 + t, f010); load_four(row01 + 24 + t, f011);
            load_four(row10 + t, f100); load_four(row10 + 24 + t, f101);
            load_four(row11 + t, f110); load_four(row11 + 24 + t, f111);
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const real x00 = between(f000[m], f100[m], a), x10 = between(f010[m], f110[m], a);
                const real x01 = between(f001[m], f101[m], a), x11 = between(f011[m], f111[m], a);
                out[t + m] = between(between(x00, x10, b), between(x01, x11, b), c);
            }
        }
    }
};

// Trilinear principal direction (each voxel's sign made to agree with u) and FA.
__device__ __forceinline__ void sample_guide(
    const float* __restrict__ guide, Shape n, real x, real y, real z, real ux, real uy, real uz, const real* euclid,
    real out[4])
{
    const int i = min((int)x, n.x - 2), j = min((int)y, n.y - 2), k = min((int)z, n.z - 2);
    const real a = x - real(i), b = y - real(j), c = z - real(k);
    real m[3];
    multiply(euclid, ux, uy, uz, m);
    out[0] = out[1] = out[2] = out[3] = real(0);
#pragma unroll
    for (int corner = 0; corner < 8; ++corner) {
        const int di = corner >> 2, dj = (corner >> 1) & 1, dk = corner & 1;
        const real w = (di ? a : real(1) - a) * (dj ? b : real(1) - b) * (dk ? c : real(1) - c);
        const float4 e = __ldg(reinterpret_cast<const float4*>(guide) + node_index(i + di, j + dj, k + dk, n.y, n.z));
        const real along = real(e.x) * m[0] + real(e.y) * m[1] + real(e.z) * m[2];
        const real with_sign = along >= real(0) ? w : -w;
        out[0] += with_sign * real(e.x);
        out[1] += with_sign * real(e.y);
        out[2] += with_sign * real(e.z);
        out[3] += w * real(e.w);
    }
}

// Samples of the volume at y. Streamlines have none; they read the guide.
template <int KIND, class Field>
__device__ __forceinline__ void sample(const Field& field, Shape n, const real* y, real s[4][6])
{
    if constexpr (KIND == CUBIC) field.cubic(n, y[0], y[1], y[2], s);
    if constexpr (KIND == LINEAR) field.linear(n, y[0], y[1], y[2], s);
    if constexpr (KIND == VANAART) field.four(n, y[0], y[1], y[2], s);
}

// Right-hand side of the system at y, where the samples are s; false where it does not exist.
template <int KIND>
__device__ __forceinline__ bool sampled_derivative(
    const float* guide, const real* euclid, Shape n, const real* y, real s[4][6], real* dy)
{
    const real half = real(0.5);
    if constexpr (KIND == CUBIC || KIND == LINEAR) {
        multiply(s[0], y[3], y[4], y[5], dy);
        dy[3] = -half * quadratic(s[1], y[3], y[4], y[5]);
        dy[4] = -half * quadratic(s[2], y[3], y[4], y[5]);
        dy[5] = -half * quadratic(s[3], y[3], y[4], y[5]);
    } else if constexpr (KIND == VANAART) {
        real a[3], b[3], c[3], w[3];
        multiply(s[1], y[3], y[4], y[5], a);
        multiply(s[2], y[3], y[4], y[5], b);
        multiply(s[3], y[3], y[4], y[5], c);
        w[0] = y[3] * a[0] + y[4] * b[0] + y[5] * c[0] - half * (y[3] * a[0] + y[4] * a[1] + y[5] * a[2]);
        w[1] = y[3] * a[1] + y[4] * b[1] + y[5] * c[1] - half * (y[3] * b[0] + y[4] * b[1] + y[5] * b[2]);
        w[2] = y[3] * a[2] + y[4] * b[2] + y[5] * c[2] - half * (y[3] * c[0] + y[4] * c[1] + y[5] * c[2]);
        multiply(s[0], w[0], w[1], w[2], a);
        dy[0] = y[3]; dy[1] = y[4]; dy[2] = y[5];
        dy[3] = -a[0]; dy[4] = -a[1]; dy[5] = -a[2];
    } else {
        sample_guide(guide, n, y[0], y[1], y[2], y[3], y[4], y[5], euclid, s[0]);
        const real size = sqrt(quadratic(euclid, s[0][0], s[0][1], s[0][2]));
        if (!(size > real(1e-3))) return false;
        dy[0] = s[0][0] / size; dy[1] = s[0][1] / size; dy[2] = s[0][2] / size;
        dy[3] = dy[4] = dy[5] = real(0);
    }
    return true;
}

// The same where the samples are not known yet; s is left holding them.
template <int KIND, class Field>
__device__ __forceinline__ bool derivative(
    const Field& field, const float* guide, const real* euclid, Shape n, const real* y, real s[4][6], real* dy)
{
    if (!inside(n, y[0], y[1], y[2])) return false;
    sample<KIND>(field, n, y, s);
    return sampled_derivative<KIND>(guide, euclid, n, y, s, dy);
}

// g(v, v), constant along a geodesic: p.W p, or v.W^-1 v; 1 for streamlines.
template <int KIND>
__device__ __forceinline__ real squared_speed(const real* y, const real* dy, const real s[4][6])
{
    if constexpr (KIND == VANAART) {
        real a[3];
        solve_symmetric(s[0], y[3], y[4], y[5], a);
        return y[3] * a[0] + y[4] * a[1] + y[5] * a[2];
    }
    if constexpr (KIND == EUDX) return real(1);
    return y[3] * dy[0] + y[4] * dy[1] + y[5] * dy[2];
}

__device__ __forceinline__ bool finite_positive(real x) { return x > real(0) && x - x == real(0); }

template <int KIND, class Field>
__device__ __forceinline__ bool start_ray(
    const Field& field, const float* guide, const real* euclid, Shape n, const real* x, const real* direction,
    real sign, real s[4][6], real* y, real* dy)
{
    for (int a = 0; a < 3; ++a) {
        y[a] = x[a];
        y[3 + a] = sign * direction[a];
    }
    if (!derivative<KIND>(field, guide, euclid, n, y, s, dy)) return false;
    if constexpr (KIND == CUBIC || KIND == LINEAR) {
        const real vx = y[3], vy = y[4], vz = y[5];
        real p[3];
        solve_symmetric(s[0], vx, vy, vz, p);
        const real squared = p[0] * vx + p[1] * vy + p[2] * vz;
        if (!finite_positive(squared)) return false;
        const real unit = real(1) / sqrt(squared);
        y[3] = p[0] * unit; y[4] = p[1] * unit; y[5] = p[2] * unit;
        return derivative<KIND>(field, guide, euclid, n, y, s, dy);
    }
    return quadratic(euclid, dy[0], dy[1], dy[2]) > real(0);
}

// One step of Euler (1 stage), the midpoint rule (2) or classical Runge-Kutta (4) from y to out; k1 is given.
template <int KIND, class Field>
__device__ __forceinline__ bool runge_kutta(
    const Field& field, const float* guide, const real* euclid, Shape n, int stages, real dt, const real* y,
    const real* k1, real s[4][6], real* out)
{
    const real half = real(0.5);
    real kn[6], total[6];
    if (stages == 1) {
        for (int a = 0; a < 6; ++a) out[a] = y[a] + dt * k1[a];
        return true;
    }
    for (int a = 0; a < 6; ++a) out[a] = y[a] + half * dt * k1[a];
    if (!derivative<KIND>(field, guide, euclid, n, out, s, kn)) return false;
    if (stages == 2) {
        for (int a = 0; a < 6; ++a) out[a] = y[a] + dt * kn[a];
        return true;
    }
    for (int a = 0; a < 6; ++a) {
        total[a] = k1[a] + real(2) * kn[a];
        out[a] = y[a] + half * dt * kn[a];
    }
    if (!derivative<KIND>(field, guide, euclid, n, out, s, kn)) return false;
    for (int a = 0; a < 6; ++a) {
        total[a] += real(2) * kn[a];
        out[a] = y[a] + dt * kn[a];
    }
    if (!derivative<KIND>(field, guide, euclid, n, out, s, kn)) return false;
    for (int a = 0; a < 6; ++a) out[a] = y[a] + dt / real(6) * (total[a] + kn[a]);
    return true;
}

struct alignas(4 * sizeof(real)) Point { real x, y, z, fa; };  // aligned, so that it is stored at once

__device__ __forceinline__ void write_point(real* __restrict__ points, int at, const real* y, real fa)
{
    reinterpret_cast<Point*>(points)[at] = Point{y[0], y[1], y[2], fa};
}

// Trace one ray; the seed is not among its points. Returns the reason for the end.
template <int KIND, class Field>
__device__ int trace_ray(
    const Field& field, const float* __restrict__ guide, const unsigned char* __restrict__ mask, int masked,
    const real* euclid, Shape n, const real* x, const real* direction, real sign, Limits limits, int stages,
    int measure, int max_steps, int every, real* __restrict__ points, int* written, real* stats)
{
    real y[6], k1[6], out[6], s[4][6], g[4];
    real ux = sign * direction[0], uy = sign * direction[1], uz = sign * direction[2];
    real fa = real(0);
    int count = 0, reason = STEPS, until_kept = every;
    bool kept = true;
    *written = 0;
    if (!start_ray<KIND>(field, guide, euclid, n, x, direction, sign, s, y, k1)) return INVALID;
    const real first = measure ? squared_speed<KIND>(y, k1, s) : real(1);
    const real root = sqrt(first);
    real dt = limits.step / sqrt(quadratic(euclid, k1[0], k1[1], k1[2]));
    for (int step = 1; step <= max_steps; ++step) {
        if (step > 1) {
            if (!Field::EAGER) sample<KIND>(field, n, y, s);
            if (!sampled_derivative<KIND>(guide, euclid, n, y, s, k1)) { reason = FA; break; }  // streamlines only
            if (KIND != VANAART) dt = limits.step / sqrt(quadratic(euclid, k1[0], k1[1], k1[2]));
            if (measure) {
                const real drift = fabs(squared_speed<KIND>(y, k1, s) / first - real(1));
                stats[2] = stats[2] >= drift ? stats[2] : drift;
                if (limits.drift > real(0) && !(drift <= limits.drift)) { reason = DRIFT; break; }
            }
        }
        if (!runge_kutta<KIND>(field, guide, euclid, n, stages, dt, y, k1, s, out)) {
            reason = KIND == EUDX && inside(n, out[0], out[1], out[2]) ? FA : VOLUME;
            break;
        }
        if (Field::EAGER) sample<KIND>(field, n, out, s);  // for the next step; on its way while this one is judged
        real dx = out[0] - y[0], dy = out[1] - y[1], dz = out[2] - y[2];
        const real length = sqrt(quadratic(euclid, dx, dy, dz));
        if (!finite_positive(length)) { reason = INVALID; break; }
        if (!inside(n, out[0], out[1], out[2])) { reason = VOLUME; break; }
        const int i = (int)(out[0] + real(0.5)), j = (int)(out[1] + real(0.5)), k = (int)(out[2] + real(0.5));
        if (masked && !mask[node_index(i, j, k, n.y, n.z)]) { reason = MASK; break; }
        const bool now = --until_kept == 0, looks = limits.fa > real(0) || (measure && now);
        if (now) until_kept = every;
        if (KIND == EUDX || looks || limits.bend > real(0)) {  // else nobody asks for the direction
            dx = dx / length; dy = dy / length; dz = dz / length;
        }
        if (limits.bend > real(0)) {
            const real turn = sqrt(quadratic(euclid, dx - ux, dy - uy, dz - uz));
            if (turn > limits.bend * length) { reason = CURVATURE; break; }
        }
        if (looks) {
            sample_guide(guide, n, out[0], out[1], out[2], dx, dy, dz, euclid, g);
            fa = g[3];
            if (fa < limits.fa) { reason = FA; break; }
        }
        stats[0] += length;
        stats[1] += dt * root;
        for (int a = 0; a < 6; ++a) y[a] = out[a];
        ux = dx; uy = dy; uz = dz;
        if (KIND == EUDX) { y[3] = dx; y[4] = dy; y[5] = dz; }
        if (now) {
            write_point(points, count, y, fa);
            ++count;
            if (measure) {
                real m[3];
                const real size = sqrt(quadratic(euclid, g[0], g[1], g[2]));
                multiply(euclid, g[0], g[1], g[2], m);
                const real along = size > real(0) ? (m[0] * dx + m[1] * dy + m[2] * dz) / size : real(0);
                stats[3] += real(1);
                stats[4] += fa;
                stats[5] += along;
                stats[6] += fa * along;
            }
        }
        kept = now;
        if (stats[0] >= limits.length) { reason = LENGTH; break; }
    }
    if (!kept) {
        write_point(points, count, y, fa);
        ++count;
    }
    *written = count;
    return reason;
}

// One thread a ray, and masked = 0 where the mask is everywhere (a load a step less): with per_fiber = 2, ray 2f goes forwards and ray 2f + 1 backwards.
template <int KIND, class Field>
__device__ __forceinline__ void trace(
    const Field& field, const float* guide, const unsigned char* mask, int masked, const real* euclid, Shape n,
    const real* seeds, const real* directions, int rays, int per_fiber, const real* limits, int stages,
    int measure, int max_steps, int every, int ray_points, real* points, int* written, unsigned char* reasons,
    real* stats)
{
    const int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= rays) return;
    const int f = ray / per_fiber;
    const real sign = ray % per_fiber == 0 ? real(1) : real(-1);
    const Limits stops = {limits[0], limits[1], limits[2], limits[3], limits[4]};
    real metric[6], numbers[STATS];
    for (int a = 0; a < 6; ++a) metric[a] = euclid[a];
    for (int q = 0; q < STATS; ++q) numbers[q] = real(0);
    int count = 0;
    reasons[ray] = (unsigned char)trace_ray<KIND>(
        field, guide, mask, masked, metric, n, seeds + 3 * f, directions + 3 * f, sign, stops, stages, measure, max_steps,
        every, points + 4 * (size_t)ray * ray_points, &count, numbers);
    written[ray] = count;
    for (int q = 0; q < STATS; ++q) stats[STATS * (size_t)ray + q] = numbers[q];
}

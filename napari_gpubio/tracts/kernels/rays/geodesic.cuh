#pragma once
// Ray tracing, the counterpart of geodesic.py: same names, same operation order. Positions are in voxels; euclid (A^T A)
// measures voxel vectors in mm.
#include "interpolation.cuh"

enum Kind { CUBIC = 0, LINEAR = 1, VANAART = 2, EUDX = 3 };
enum Reason { VOLUME = 1, MASK = 2, FA = 3, STEPS = 4, LENGTH = 5, CURVATURE = 6, DRIFT = 7, INVALID = 8 };
enum { STATS = 7 };

struct Limits { real step, fa, length, bend, drift; };

// Between the outermost voxel centers; false for NaN.
__device__ __forceinline__ bool inside(Shape n, real x, real y, real z)
{
    return x >= 0 && y >= 0 && z >= 0 && x <= real(n.x - 1) && y <= real(n.y - 1) && z <= real(n.z - 1);
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

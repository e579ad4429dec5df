#pragma once
// Ray tracing, the counterpart of geodesic.py: same names, same operation order. Positions are in voxels; euclid (A^T A)
// measures voxel vectors in mm.
#include "packing.cuh"
#include "spline.cuh"

enum Kind { CUBIC = 0, LINEAR = 1, VANAART = 2, EUDX = 3 };

// The arguments of the kernels; problem.py describes them.
struct RayVolumes {
    const real* field;
    const float* guide;
    const unsigned char* mask;
    real euclid[6];
    int shape[3];
};

struct RaySettings {
    int stages, measure, max_steps, every;
    real step_mm, least_fa, max_bend, max_drift, least_cos, above_fa, least_weight;
};

// Between the outermost voxel centers; false for NaN.
__device__ __forceinline__ bool inside(Shape n, real x, real y, real z)
{
    return x >= 0 && y >= 0 && z >= 0 && x <= real(n.x - 1) && y <= real(n.y - 1) && z <= real(n.z - 1);
}

// Samples of the volume at y, where the ray is ok. Streamlines have none; they read the guide.
template <int KIND, class Field>
__device__ __forceinline__ void sample(Field& field, bool ok, Shape n, const real* y, real s[4][6])
{
    if constexpr (KIND == CUBIC) field.cubic(ok, n, y[0], y[1], y[2], s);
    if constexpr (KIND == LINEAR) field.linear(n, y[0], y[1], y[2], s);
    if constexpr (KIND == VANAART) field.four(n, y[0], y[1], y[2], s);
}

// Sum of the products of two symmetric matrices' components.
__device__ __forceinline__ real contracted(const real* m, const real* squares)
{
    const real diagonal = multiply_add(m[2], squares[2], multiply_add(m[1], squares[1], m[0] * squares[0]));
    return multiply_add(
        m[5], squares[5], multiply_add(m[4], squares[4], multiply_add(m[3], squares[3], diagonal)));
}

// x' = W p and p_k' = -1/2 p.(d_k W) p from W and its gradient.
__device__ __forceinline__ void hamilton(const real s[4][6], real u, real v, real w, real* dy)
{
    const real half = real(0.5), hu = -half * u, hv = -half * v, hw = -half * w;
    const real squares[6] = {hu * u, hv * v, hw * w, -u * v, -u * w, -v * w};
    const real* m = s[0];
    dy[0] = multiply_add(m[4], w, multiply_add(m[3], v, m[0] * u));
    dy[1] = multiply_add(m[5], w, multiply_add(m[1], v, m[3] * u));
    dy[2] = multiply_add(m[2], w, multiply_add(m[5], v, m[4] * u));
    dy[3] = contracted(s[1], squares);
    dy[4] = contracted(s[2], squares);
    dy[5] = contracted(s[3], squares);
}

// Right-hand side of the system at y, where the samples are s; false where it does not exist.
template <int KIND>
__device__ __forceinline__ bool sampled_derivative(const Space& space, const real* y, real s[4][6], real* dy)
{
    if constexpr (KIND == CUBIC || KIND == LINEAR) {
        hamilton(s, y[3], y[4], y[5], dy);
    } else if constexpr (KIND == VANAART) {
        const real half = real(0.5);
        real a[3], b[3], c[3], w[3];
        multiply(s[1], y[3], y[4], y[5], a);
        multiply(s[2], y[3], y[4], y[5], b);
        multiply(s[3], y[3], y[4], y[5], c);
        w[0] = y[3] * a[0] + y[4] * b[0] + y[5] * c[0] - half * (y[3] * a[0] + y[4] * a[1] + y[5] * a[2]);
        w[1] = y[3] * a[1] + y[4] * b[1] + y[5] * c[1] - half * (y[3] * b[0] + y[4] * b[1] + y[5] * b[2]);
        w[2] = y[3] * a[2] + y[4] * b[2] + y[5] * c[2] - half * (y[3] * c[0] + y[4] * c[1] + y[5] * c[2]);
        multiply(s[0], w[0], w[1], w[2], a);
        dy[0] = y[3];
        dy[1] = y[4];
        dy[2] = y[5];
        dy[3] = -a[0];
        dy[4] = -a[1];
        dy[5] = -a[2];
    } else {
        const real weight = sample_guide(space, y, y[3], y[4], y[5], space.least_cos, space.above_fa, s[0]);
        const real size = sqrt(quadratic(space.euclid, s[0][0], s[0][1], s[0][2]));
        if (!(size > real(1e-3)) || weight < space.least_weight) return false;
        dy[0] = s[0][0] / size;
        dy[1] = s[0][1] / size;
        dy[2] = s[0][2] / size;
        dy[3] = dy[4] = dy[5] = real(0);
    }
    return true;
}

// The same where the samples are not known yet and the ray is ok; s is left holding them.
template <int KIND, class Field>
__device__ __forceinline__ bool derivative(
    Field& field, const Space& space, bool ok, const real* y, real s[4][6], real* dy)
{
    ok = ok && inside(space.n, y[0], y[1], y[2]);
    if (!Field::Group::any(ok)) return false;
    sample<KIND>(field, ok, space.n, y, s);
    return sampled_derivative<KIND>(space, y, s, dy) && ok;
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

// State, derivatives and samples of a ray from x along a unit direction (voxels per mm); false where it cannot start.
template <int KIND, class Field>
__device__ __forceinline__ bool start_ray(
    Field& field, const Space& space, const real* x, const real* direction, real s[4][6], real* y, real* dy)
{
    for (int a = 0; a < 3; ++a) {
        y[a] = x[a];
        y[3 + a] = direction[a];
    }
    if (!derivative<KIND>(field, space, true, y, s, dy)) return false;
    if constexpr (KIND == CUBIC || KIND == LINEAR) {
        const real vx = y[3], vy = y[4], vz = y[5];
        real p[3];
        solve_symmetric(s[0], vx, vy, vz, p);
        const real squared = p[0] * vx + p[1] * vy + p[2] * vz;
        if (!finite_positive(squared)) return false;
        const real unit = real(1) / sqrt(squared);
        y[3] = p[0] * unit;
        y[4] = p[1] * unit;
        y[5] = p[2] * unit;
        return sampled_derivative<KIND>(space, y, s, dy);
    }
    return quadratic(space.euclid, dy[0], dy[1], dy[2]) > real(0);
}

// One step of Euler (1 stage), the midpoint rule (2) or classical Runge-Kutta (4) from y to out; k1 is given. Of a
// spline the samples at out are left in s, for the next step.
template <int KIND, class Field>
__device__ __forceinline__ bool runge_kutta(
    Field& field, const Space& space, int stages, bool ok, real dt, const real* y, const real* k1, real s[4][6],
    real* out)
{
    const real half = real(0.5);
    real kn[6], total[6];
    for (int a = 0; a < 6; ++a) kn[a] = total[a] = k1[a];
#pragma unroll(KIND == CUBIC ? 1 : 4)  // a spline's samples are much code
    for (int stage = 1; stage <= 4; ++stage) {
        const bool last = stage == 4 || stage == stages;
        if (stage < 4) {
            const real ahead = last || stage == 3 ? dt : half * dt;
            for (int a = 0; a < 6; ++a) out[a] = multiply_add(ahead, kn[a], y[a]);
        } else {
            for (int a = 0; a < 6; ++a) out[a] = multiply_add(dt / real(6), total[a] + kn[a], y[a]);
        }
        if (last && KIND != CUBIC) break;
        const bool here = ok && inside(space.n, out[0], out[1], out[2]);
        if (!last && !Field::Group::any(here)) return false;
        sample<KIND>(field, here, space.n, out, s);
        if (last) break;
        ok = sampled_derivative<KIND>(space, out, s, kn) && here;
        if (!Field::Group::any(ok)) return false;
        if (stage < 3)
            for (int a = 0; a < 6; ++a) total[a] = multiply_add(real(2), kn[a], total[a]);
    }
    return ok;
}

struct alignas(4 * sizeof(real)) Point {
    real x, y, z, fa;
};  // aligned, so that it is stored at once

// Nothing where points are not kept.
__device__ __forceinline__ void write_point(real* __restrict__ points, int at, const real* y, real fa)
{
    if (points) reinterpret_cast<Point*>(points)[at] = Point{y[0], y[1], y[2], fa};
}

// End a ray. A ray that is alone leaves the loop at once; others go on, for their lanes take part in every exchange.
#define END_RAY(WHY)                        \
    {                                       \
        reason = WHY;                       \
        if (Field::Group::count == 1) break; \
        continue;                           \
    }

// Trace one ray from x along u, up to a length; the seed is not among its points. Returns the reason for the end.
template <int KIND, class Field>
__device__ int trace_ray(
    Field& field, const Space& space, const RaySettings& settings, const real* x, real* u, real limit,
    real* __restrict__ points, int* written, real* stats)
{
    const Shape n = space.n;
    const real* euclid = space.euclid;
    real y[6], k1[6], out[6], s[4][6], g[4];
    real fa = real(0);
    int count = 0, until_kept = settings.every;
    bool kept = true;
    *written = 0;
    int reason = start_ray<KIND>(field, space, x, u, s, y, k1) ? STEPS : INVALID;
    if (!Field::Group::any(reason == STEPS)) return reason;
    const real first = settings.measure ? squared_speed<KIND>(y, k1, s) : real(1);
    const real root = sqrt(first);
    real dt = settings.step_mm / sqrt(quadratic(euclid, k1[0], k1[1], k1[2]));
    for (int step = 0; step < settings.max_steps && Field::Group::any(reason == STEPS); ++step) {
        if (step > 0) {
            if (!Field::EAGER) sample<KIND>(field, true, n, y, s);
            if (!sampled_derivative<KIND>(space, y, s, k1)) END_RAY(FA)  // streamlines only
            if (KIND != VANAART) dt = settings.step_mm / sqrt(quadratic(euclid, k1[0], k1[1], k1[2]));
            if (settings.measure && reason == STEPS) {
                const real drift = fabs(squared_speed<KIND>(y, k1, s) / first - real(1));
                if (drift > stats[2]) stats[2] = drift;
                if (settings.max_drift > real(0) && !(drift <= settings.max_drift)) {
                    reason = DRIFT;
                    if (Field::Group::count == 1) break;
                }
            }
        }
        if (!runge_kutta<KIND>(field, space, settings.stages, reason == STEPS, dt, y, k1, s, out)) {
            if (reason != STEPS) continue;
            END_RAY(KIND == EUDX && inside(n, out[0], out[1], out[2]) ? FA : VOLUME)
        }
        // For the next step; on its way while this one is checked.
        if (Field::EAGER && KIND != CUBIC) sample<KIND>(field, true, n, out, s);
        real dx = out[0] - y[0], dy = out[1] - y[1], dz = out[2] - y[2];
        const real moved = sqrt(quadratic(euclid, dx, dy, dz));
        if (!finite_positive(moved)) END_RAY(INVALID)
        if (!inside(n, out[0], out[1], out[2])) END_RAY(VOLUME)
        const int i = (int)(out[0] + real(0.5)), j = (int)(out[1] + real(0.5)), k = (int)(out[2] + real(0.5));
        const int mark = space.mask ? space.mask[node_index(i, j, k, n.y, n.z)] : (int)IN_MASK;
        if (mark == 0) END_RAY(MASK)
        if (stats[0] + moved > limit) END_RAY(LENGTH)
        const bool arrived = mark >= IN_TARGET;
        const bool now = --until_kept == 0;
        const bool reads_guide = settings.least_fa > real(0) || (settings.measure && now);
        if (now) until_kept = settings.every;
        if (KIND == EUDX || reads_guide || settings.max_bend > real(0)) {  // else the direction is not needed
            dx = dx / moved;
            dy = dy / moved;
            dz = dz / moved;
        }
        if (settings.max_bend > real(0)) {
            const real turn = sqrt(quadratic(euclid, dx - u[0], dy - u[1], dz - u[2]));
            if (turn > settings.max_bend * moved) END_RAY(CURVATURE)
        }
        if (reads_guide) {
            sample_guide(space, out, dx, dy, dz, real(0), real(-1), g);
            fa = g[3];
            if (fa < settings.least_fa && !arrived) END_RAY(FA)
        }
        stats[0] += moved;
        stats[1] += dt * root;
        for (int a = 0; a < 6; ++a) y[a] = out[a];
        u[0] = dx;
        u[1] = dy;
        u[2] = dz;
        if (KIND == EUDX) {
            y[3] = dx;
            y[4] = dy;
            y[5] = dz;
        }
        if (now) {
            write_point(points, count, y, fa);
            ++count;
            if (settings.measure) {
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
        if (arrived) END_RAY(TARGET)
    }
    if (!kept) {
        write_point(points, count, y, fa);
        ++count;
    }
    *written = count;
    return reason;
}

// One or several threads a ray; with per_fiber = 2, ray 2f goes forward and ray 2f + 1 backward.
template <int KIND, class Field>
__device__ __forceinline__ void trace(
    Field field, const RayVolumes& volumes, const RaySettings& settings, const Rays& rays, const RayOutput& output)
{
    using Group = typename Field::Group;
    const int ray = (blockIdx.x * blockDim.x + threadIdx.x) / Group::count;
    if (ray >= rays.count) return;
    const int f = ray / rays.per_fiber;
    const real sign = ray % rays.per_fiber == 0 ? real(1) : real(-1);
    const Shape n = {volumes.shape[0], volumes.shape[1], volumes.shape[2]};
    Space space = {volumes.guide, volumes.mask, {}, n, settings.least_cos, settings.above_fa, settings.least_weight};
    for (int a = 0; a < 6; ++a) space.euclid[a] = volumes.euclid[a];
    real numbers[STATS], x[3], u[3];
    for (int a = 0; a < 3; ++a) {
        x[a] = rays.seeds[3 * f + a];
        u[a] = sign * rays.directions[3 * f + a];
    }
    for (int q = 0; q < STATS; ++q) numbers[q] = real(0);
    int count = 0;
    const real limit = rays.limits[ray];  // where it is negative, the ray takes part in exchanges only
    const bool writes = Group::number() == 0 && limit >= 0;
    real* points = output.points && writes ? output.points + 4 * (size_t)ray * output.ray_points : nullptr;
    const int reason = trace_ray<KIND>(field, space, settings, x, u, limit, points, &count, numbers);
    if (!writes) return;
    output.reasons[ray] = (unsigned char)reason;
    output.written[ray] = count;
    for (int q = 0; q < STATS; ++q) output.stats[STATS * (size_t)ray + q] = numbers[q];
}

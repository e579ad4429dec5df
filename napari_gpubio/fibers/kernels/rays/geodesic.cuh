#pragma once
// Ray tracing, the counterpart of geodesic.py: same names, same operation order. Positions are in voxels; euclid (A^T A)
// measures voxel vectors in mm.
#include "spline.cuh"

enum Kind { CUBIC = 0, LINEAR = 1, VANAART = 2, EUDX = 3 };

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

// Between the outermost voxel centers; false for NaN.
__device__ __forceinline__ bool inside(Shape n, const real* y)
{
    const int shape[3] = {n.x, n.y, n.z};
    return inside(shape, Vector{y[0], y[1], y[2]});
}

// The same where the samples are not known yet and the ray is ok; s is left holding them.
template <int KIND, class Field>
__device__ __forceinline__ bool derivative(
    Field& field, const Space& space, bool ok, const real* y, real s[4][6], real* dy)
{
    ok = ok && inside(space.n, y);
    if (!Field::Group::any(ok)) return false;
    sample<KIND>(field, ok, space.n, y, s);
    return sampled_derivative<KIND>(space, y, s, dy) && ok;
}

// g(v, v), constant along a geodesic: p.W p, or v.W^-1 v; 1 for streamlines.
template <int KIND>
__device__ __forceinline__ real squared_speed(const real* y, const real* dy, const real s[4][6])
{
    if constexpr (KIND == VANAART) {
        const Vector a = solve_symmetric(s[0], {y[3], y[4], y[5]});
        return y[3] * a.x + y[4] * a.y + y[5] * a.z;
    }
    if constexpr (KIND == EUDX) return real(1);
    return y[3] * dy[0] + y[4] * dy[1] + y[5] * dy[2];
}

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
        const Vector p = solve_symmetric(s[0], {y[3], y[4], y[5]});
        const real squared = p.x * y[3] + p.y * y[4] + p.z * y[5];
        if (!finite_positive(squared)) return false;
        const real unit = real(1) / sqrt(squared);
        y[3] = p.x * unit;
        y[4] = p.y * unit;
        y[5] = p.z * unit;
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
        const bool here = ok && inside(space.n, out);
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

// A ray in a field of tensors; the methods of geodesic.py.
template <int KIND, class FieldKind>
struct TensorRay {
    using Field = FieldKind;
    using Group = typename Field::Group;
    Field& field;
    const Space space;
    const RaySettings settings;
    real y[6], k1[6], out[6], s[4][6], u[3];
    real moved, dt, first, root;

    __device__ TensorRay(Field& field_of, const RayVolumes& v, const RaySettings& how)
        : field(field_of), space(v, how), settings(how), moved(0), dt(0), first(1), root(1)
    {
    }

    __device__ __forceinline__ Vector place() const { return {y[0], y[1], y[2]}; }

    __device__ __forceinline__ int begin(const Rays& rays, int ray, real*)
    {
        const Start start = start_of(rays, ray);
        const real x[3] = {start.position.x, start.position.y, start.position.z};
        u[0] = start.direction.x;
        u[1] = start.direction.y;
        u[2] = start.direction.z;
        if (!start_ray<KIND>(field, space, x, u, s, y, k1)) return INVALID;
        first = settings.measure ? squared_speed<KIND>(y, k1, s) : real(1);
        root = sqrt(first);
        dt = settings.step_mm / sqrt(quadratic(space.euclid, k1[0], k1[1], k1[2]));
        return STEPS;
    }

    __device__ __forceinline__ int propose(Log& log, int step, bool goes_on, Vector* at, real* away)
    {
        bool drifts = false;
        if (step > 0) {
            if (!Field::EAGER) sample<KIND>(field, true, space.n, y, s);
            if (!sampled_derivative<KIND>(space, y, s, k1)) return FA;  // streamlines only
            if (KIND != VANAART) dt = settings.step_mm / sqrt(quadratic(space.euclid, k1[0], k1[1], k1[2]));
            drifts = settings.measure && goes_on &&
                log.drifted(squared_speed<KIND>(y, k1, s) / first, settings.max_drift);
            if (drifts && Group::count == 1) return DRIFT;
        }
        if (!runge_kutta<KIND>(field, space, settings.stages, goes_on && !drifts, dt, y, k1, s, out))
            return drifts ? DRIFT : KIND == EUDX && inside(space.n, out) ? FA : VOLUME;
        // For the next step; on its way while this one is checked.
        if (Field::EAGER && KIND != CUBIC) sample<KIND>(field, true, space.n, out, s);
        moved = sqrt(quadratic(space.euclid, out[0] - y[0], out[1] - y[1], out[2] - y[2]));
        if (!finite_positive(moved)) return INVALID;
        if (!inside(space.n, out)) return VOLUME;
        *at = {out[0], out[1], out[2]};
        *away = moved;
        return STEPS;
    }

    __device__ __forceinline__ int accept(Log& log, bool arrived, bool keep, real* value)
    {
        const real* euclid = space.euclid;
        real dx = out[0] - y[0], dy = out[1] - y[1], dz = out[2] - y[2], g[4];
        const bool reads_guide = settings.least_fa > real(0) || (settings.measure && keep);
        if (KIND == EUDX || reads_guide || settings.max_bend > real(0)) {  // else the direction is not needed
            dx = dx / moved;
            dy = dy / moved;
            dz = dz / moved;
        }
        if (settings.max_bend > real(0)) {
            const real turn = sqrt(quadratic(euclid, dx - u[0], dy - u[1], dz - u[2]));
            if (turn > settings.max_bend * moved) return CURVATURE;
        }
        if (reads_guide) {
            sample_guide(space, out, dx, dy, dz, real(0), real(-1), g);
            *value = g[3];
            if (g[3] < settings.least_fa && !arrived) return FA;
        }
        log.move(moved, dt * root);
        for (int a = 0; a < 6; ++a) y[a] = out[a];
        u[0] = dx;
        u[1] = dy;
        u[2] = dz;
        if (KIND == EUDX)
            for (int a = 0; a < 3; ++a) y[3 + a] = u[a];
        if (keep && settings.measure) {
            real m[3];
            const real size = sqrt(quadratic(euclid, g[0], g[1], g[2]));
            multiply(euclid, g[0], g[1], g[2], m);
            const real along = size > real(0) ? (m[0] * dx + m[1] * dy + m[2] * dz) / size : real(0);
            log.count(g[3], along);
            log.numbers[BOTH] += g[3] * along;
        }
        return STEPS;
    }
};

template <int KIND, class Field>
__device__ __forceinline__ void trace(
    Field field, const RayVolumes& volumes, const RaySettings& settings, const Rays& rays, const RayOutput& output)
{
    TensorRay<KIND, Field> ray(field, volumes, settings);
    trace_ray(ray, volumes.mask, volumes.shape, settings.max_steps, settings.every, rays, output);
}

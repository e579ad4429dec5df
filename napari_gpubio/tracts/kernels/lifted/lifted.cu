// Geodesics of positions and directions, the counterpart of geodesics.py: every number is made by the same operations
// in the same order. Positions are in voxels; directions, momenta and velocities in world axes (mm). A thread traces a
// ray. Compiled strictly.
#include "harmonics.cuh"
#include "vectors.cuh"

constexpr int PAIRS = 2 * ((LMAX / 2 + 1) * (LMAX / 2 + 1));  // numbers of an FOD
constexpr int TOGETHER = PAIRS * sizeof(real) > 128 ? 1 : PAIRS;  // four FODs of more do not fit into registers

// The arguments of the kernel; problem.py describes them.
struct LiftedVolumes {
    const real* fods;
    const real* table;
    const unsigned char* mask;
    real to_voxel[9];
    real to_world[9];
    int shape[3];
};

struct LiftedSettings {
    int max_steps, every, power, guiding;
    real step_mm, cutoff, max_bend, max_drift, over_largest, smoothing, delta, epsilon_2;
    real inverse_stiffness_2;
};

// Position (voxels), direction, and their momenta, or the rates of all.
struct State {
    Vector x, n, p, q;
};

// 1 / C^2, the gradients of ln C by position and direction, and the FOD.
struct Cost {
    real inverse;
    Vector by_x, by_n;
    real value;
};

__device__ __forceinline__ State advanced(const State& y, real t, const State& k)
{
    return {added(y.x, t, k.x), added(y.n, t, k.n), added(y.p, t, k.p), added(y.q, t, k.q)};
}

// Coefficients at a position, and their slopes along its three axes.
struct Coefficients {
    real value[PAIRS], by_x[PAIRS], by_y[PAIRS], by_z[PAIRS];

    __device__ __forceinline__ void interpolate(const LiftedVolumes& v, Vector at)
    {
        const real half = real(0.5);
        const int i = (int)(at.x + half), j = (int)(at.y + half), k = (int)(at.z + half);
#pragma unroll(TOGETHER)
        for (int p = 0; p < PAIRS; ++p) value[p] = by_x[p] = by_y[p] = by_z[p] = 0;
        for (int a = 0; a < 3; ++a) {
            const SplineWeight wx(at.x - real(i + a - 1));
            for (int b = 0; b < 3; ++b) {
                const SplineWeight wy(at.y - real(j + b - 1));
                for (int c = 0; c < 3; ++c) {
                    const SplineWeight wz(at.z - real(k + c - 1));
                    const real w = wx.value * wy.value * wz.value, gx = wx.slope * wy.value * wz.value;
                    const real gy = wx.value * wy.slope * wz.value, gz = wx.value * wy.value * wz.slope;
                    const size_t node = ((size_t)(i + a) * (v.shape[1] + 2) + (j + b)) * (v.shape[2] + 2) + (k + c);
                    const real* fod = v.fods + node * PAIRS;
#pragma unroll(TOGETHER)
                    for (int p = 0; p < PAIRS; ++p) {
                        value[p] = fma(w, fod[p], value[p]);
                        by_x[p] = fma(gx, fod[p], by_x[p]);
                        by_y[p] = fma(gy, fod[p], by_y[p]);
                        by_z[p] = fma(gz, fod[p], by_z[p]);
                    }
                }
            }
        }
    }
};

__device__ __noinline__ Cost cost(const LiftedVolumes& v, const LiftedSettings& settings, Vector position, Vector n)
{
    Coefficients fod;
    fod.interpolate(v, position);
    const Direction u = {n.x, n.y, n.z};
    const Derivatives d = derivatives_at(fod.value, v.table, u);
    const Vector by_n = {d.x, d.y, d.z};
    const Vector by_x = {amplitude_at(fod.by_x, v.table, u), amplitude_at(fod.by_y, v.table, u),
                         amplitude_at(fod.by_z, v.table, u)};
    const real share = d.value * settings.over_largest;
    const real root = sqrt(fma(share, share, settings.smoothing * settings.smoothing));
    const real clipped = real(0.5) * (share + root);
    real raised = clipped, slope = 1;
    for (int m = 2; m <= settings.power; ++m) {
        slope = real(m) * raised;
        raised *= clipped;
    }
    const real sharpness = settings.delta + raised;
    real change = slope * (clipped / root) * settings.over_largest / sharpness;
    real inverse = sharpness * sharpness;
    if (settings.guiding)
        inverse = real(1) / inverse;
    else
        change = -change;
    const Vector tangential = added(by_n, -dot(by_n, n), n);
    return {inverse, times(change, transposed(v.to_voxel, by_x)), times(change, tangential), d.value};
}

// 2 H, and the velocity in world axes (mm).
__device__ __forceinline__ real hamiltonian(
    const LiftedSettings& settings, const Cost& here, const State& y, Vector* velocity)
{
    const real along = dot(y.p, y.n);
    const Vector aside = added(y.p, -along, y.n);
    const real scale = here.inverse * settings.inverse_stiffness_2;
    *velocity = times(scale, added(times(along, y.n), settings.epsilon_2, aside));
    return scale * fma(settings.epsilon_2, dot(aside, aside), along * along) + here.inverse * dot(y.q, y.q);
}

// Derivatives of position (voxels), direction, and both momenta.
__device__ __forceinline__ State rates(
    const LiftedVolumes& v, const LiftedSettings& settings, const Cost& here, const State& y)
{
    const real along = dot(y.p, y.n);
    const Vector aside = added(y.p, -along, y.n);
    const real scale = here.inverse * settings.inverse_stiffness_2;
    Vector velocity;
    const real twice = hamiltonian(settings, here, y, &velocity);
    Vector turning = times(-(scale * (real(1) - settings.epsilon_2) * along), aside);
    turning = added(added(turning, twice, here.by_n), -(here.inverse * dot(y.q, y.q)), y.n);
    return {transformed(v.to_voxel, velocity), times(here.inverse, y.q), times(twice, here.by_x), turning};
}

// The state with a direction of length 1, and its momentum tangential.
__device__ __forceinline__ State on_sphere(const State& y)
{
    const Vector n = times(real(1) / sqrt(dot(y.n, y.n)), y.n);
    return {y.x, n, y.p, added(y.q, -dot(y.q, n), n)};
}

// One step of classical Runge-Kutta, where the ray stays inside the volume; `at` is where it came to.
__device__ __forceinline__ bool runge_kutta(
    const LiftedVolumes& v, const LiftedSettings& settings, const State& y, const State& k1, real dt, State* at)
{
    State k = k1, sums = k1;
    for (int stage = 1; stage < 4; ++stage) {
        *at = on_sphere(advanced(y, stage == 3 ? dt : real(0.5) * dt, k));
        if (!inside(v.shape, at->x)) return false;
        k = rates(v, settings, cost(v, settings, at->x, at->n), *at);
        if (stage < 3) sums = advanced(sums, real(2), k);
    }
    *at = on_sphere(advanced(y, dt / real(6), advanced(sums, real(1), k)));
    return inside(v.shape, at->x);
}

extern "C" __global__ void __launch_bounds__(64)
    trace(LiftedVolumes v, LiftedSettings s, Rays rays, RayOutput output)
{
    const int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= rays.count) return;
    const real limit = rays.limits[ray];
    if (limit < 0) return;
    const int f = ray / rays.per_fiber;
    const real sign = ray % rays.per_fiber == 0 ? real(1) : real(-1);
    Vector u = {sign * rays.directions[3 * f], sign * rays.directions[3 * f + 1], sign * rays.directions[3 * f + 2]};
    State y = {{rays.seeds[3 * f], rays.seeds[3 * f + 1], rays.seeds[3 * f + 2]}, u, {0, 0, 0}, {0, 0, 0}}, k1 = y;
    Cost here = {1, {0, 0, 0}, {0, 0, 0}, 0};
    Log log(output, ray, s.every);
    Vector velocity;
    real first = 1, amplitude = 0;
    int reason = STEPS;
    if (!inside(v.shape, y.x)) {
        reason = VOLUME;
    } else if (!(dot(u, u) > real(0.5))) {
        reason = INVALID;
    } else {
        here = cost(v, s, y.x, u);
        amplitude = here.value;
        y.p = times(real(1) / sqrt(here.inverse * s.inverse_stiffness_2), u);
        first = hamiltonian(s, here, y, &velocity);
        k1 = rates(v, s, here, y);
        if (!(amplitude >= s.cutoff)) reason = FOD;
    }
    log.at_seed = amplitude;
    for (int step = 0; reason == STEPS && step < s.max_steps; ++step) {
        const real dt = s.step_mm / sqrt(here.inverse * s.inverse_stiffness_2);
        State at = y;
        if (!runge_kutta(v, s, y, k1, dt, &at)) {
            reason = VOLUME;
            break;
        }
        Vector d = transformed(v.to_world, {at.x.x - y.x.x, at.x.y - y.x.y, at.x.z - y.x.z});
        const real moved = sqrt(dot(d, d));
        if (!finite_positive(moved)) {
            reason = INVALID;
            break;
        }
        const int mark = mark_at(v.mask, v.shape, at.x);
        if (mark == 0) {
            reason = MASK;
            break;
        }
        if (log.length + moved > limit) {
            reason = LENGTH;
            break;
        }
        const bool arrived = mark >= IN_TARGET;
        d = times(real(1) / moved, d);
        const Vector bend = added(d, real(-1), u);
        if (!(dot(at.p, at.n) > 0) || sqrt(dot(bend, bend)) > s.max_bend * moved) {
            reason = CURVATURE;
            break;
        }
        here = cost(v, s, at.x, at.n);
        if (!(here.value >= s.cutoff) && !arrived) {
            reason = FOD;
            break;
        }
        const real drift = fabs(hamiltonian(s, here, at, &velocity) / first - real(1));
        if (drift > log.drift) log.drift = drift;
        if (s.max_drift > 0 && !(drift <= s.max_drift)) {
            reason = DRIFT;
            break;
        }
        y = at;
        k1 = rates(v, s, here, y);
        u = d;
        amplitude = here.value;
        log.length += moved;
        log.riemannian += dt;
        log.aligned += fabs(dot(d, y.n));
        log.add(y.x, amplitude);
        if (arrived) reason = TARGET;
    }
    log.end(output, ray, reason, y.x, amplitude);
}

// Geodesics of positions and directions, the counterpart of geodesics.py: every number is made by the same operations
// in the same order. Positions are in voxels; directions, momenta and velocities in world axes (mm). A thread traces a
// ray. Compiled strictly.
#include "diffusion/kernels/harmonics.cuh"
#include "loop.cuh"

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
    const Derivatives d = derivatives_at(fod.value, v.table, n);
    const Vector by_n = {d.x, d.y, d.z};
    const Vector by_x = {amplitude_at(fod.by_x, v.table, n), amplitude_at(fod.by_y, v.table, n),
                         amplitude_at(fod.by_z, v.table, n)};
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

// A ray of positions and directions; the methods of geodesics.py.
struct LiftedRay {
    using Group = Lanes<1>;
    const LiftedVolumes v;
    const LiftedSettings s;
    State y = {}, k1 = {}, next = {};
    Vector u = {}, d = {};
    real first = 1, inverse = 1, moved = 0, dt = 0;

    __device__ __forceinline__ Vector place() const { return y.x; }

    __device__ __forceinline__ int slope(const State& state, State* k) const
    {
        const State at = on_sphere(state);
        if (!inside(v.shape, at.x)) return VOLUME;
        *k = rates(v, s, cost(v, s, at.x, at.n), at);
        return STEPS;
    }

    __device__ __forceinline__ int begin(const Rays& rays, int ray, real* amplitude)
    {
        const Start start = start_of(rays, ray);
        u = start.direction;
        if (!inside(v.shape, start.position)) return VOLUME;
        if (!(dot(u, u) > real(0.5))) return INVALID;
        const Cost here = cost(v, s, start.position, u);
        inverse = here.inverse;
        *amplitude = here.value;
        y = {start.position, u, times(real(1) / sqrt(inverse * s.inverse_stiffness_2), u), {0, 0, 0}};
        Vector velocity;
        first = hamiltonian(s, here, y, &velocity);
        k1 = rates(v, s, here, y);
        return here.value >= s.cutoff ? STEPS : FOD;
    }

    __device__ __forceinline__ int propose(Log&, int, bool, Vector* at, real* away)
    {
        dt = s.step_mm / sqrt(inverse * s.inverse_stiffness_2);
        if (runge_kutta(*this, dt, y, k1, &next) != STEPS) return VOLUME;
        next = on_sphere(next);
        if (!inside(v.shape, next.x)) return VOLUME;
        d = transformed(v.to_world, added(next.x, real(-1), y.x));
        moved = sqrt(dot(d, d));
        *at = next.x;
        *away = moved;
        return finite_positive(moved) ? STEPS : INVALID;
    }

    __device__ __forceinline__ int accept(Log& log, bool arrived, bool, real* amplitude)
    {
        d = times(real(1) / moved, d);
        const Vector bend = added(d, real(-1), u);
        if (!(dot(next.p, next.n) > 0) || sqrt(dot(bend, bend)) > s.max_bend * moved) return CURVATURE;
        const Cost there = cost(v, s, next.x, next.n);
        if (!(there.value >= s.cutoff) && !arrived) return FOD;
        Vector velocity;
        if (log.drifted(hamiltonian(s, there, next, &velocity) / first, s.max_drift)) return DRIFT;
        y = next;
        k1 = rates(v, s, there, y);
        u = d;
        inverse = there.inverse;
        *amplitude = there.value;
        log.move(moved, dt);
        log.count(there.value, fabs(dot(d, y.n)));
        return STEPS;
    }
};

extern "C" __global__ void __launch_bounds__(64)
    trace(LiftedVolumes v, LiftedSettings s, Rays rays, RayOutput output)
{
    LiftedRay ray = {v, s};
    trace_ray(ray, v.mask, v.shape, s.max_steps, s.every, rays, output);
}

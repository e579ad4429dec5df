// Geodesics in fields of fixels, the counterpart of geodesics.py: every number is made by the same operations in the
// same order. Positions are in voxels; momenta, velocities and directions in world axes (mm). A thread traces a ray.
// Compiled strictly.
#include "loop.cuh"

// The arguments of the kernel; problem.py describes them.
struct FixelVolumes {
    const real* fixels;
    const unsigned char* mask;
    real to_voxel[9];
    real to_world[9];
    int shape[3];
    int most;
};

struct FixelSettings {
    int max_steps, every;
    real step_mm, cutoff, max_bend, max_drift, least_cos, least_weight, across, excess;
};

// Position (voxels) and momentum of a ray, or their rates.
struct State {
    real value[6];

    __device__ __forceinline__ Vector position() const { return {value[0], value[1], value[2]}; }
    __device__ __forceinline__ Vector momentum() const { return {value[3], value[4], value[5]}; }
};

// What a ray follows; see `sample` of geodesics.py.
struct Sample {
    Vector velocity, force;
    real weight, amplitude;
    Vector following;
};

__device__ __forceinline__ State advanced(const State& y, real t, const State& k)
{
    State out;
    for (int a = 0; a < 6; ++a) out.value[a] = fma(t, k.value[a], y.value[a]);
    return out;
}

__device__ __noinline__ Sample sample(
    const FixelVolumes& v, const FixelSettings& settings, Vector position, Vector momentum, Vector reference)
{
    const real half = real(0.5);
    const int i = (int)(position.x + half), j = (int)(position.y + half), k = (int)(position.z + half);
    real weight = 0, weight_x = 0, weight_y = 0, weight_z = 0, amplitude = 0;
    real square = 0, square_x = 0, square_y = 0, square_z = 0;
    Vector sum = {0, 0, 0}, mean_direction = {0, 0, 0};
    for (int a = 0; a < 3; ++a) {
        const SplineWeight wx(position.x - real(i + a - 1));
        for (int b = 0; b < 3; ++b) {
            const SplineWeight wy(position.y - real(j + b - 1));
            for (int c = 0; c < 3; ++c) {
                const SplineWeight wz(position.z - real(k + c - 1));
                const size_t node = ((size_t)(i + a) * (v.shape[1] + 2) + (j + b)) * (v.shape[2] + 2) + (k + c);
                const real* fixels = v.fixels + 4 * node * v.most;
                real largest = 0;
                int chosen = -1;
                bool turned = false;
                for (int n = 0; n < v.most; ++n) {
                    const real* f = fixels + 4 * n;
                    if (!(f[3] > 0)) break;
                    const real cosine = dot({f[0], f[1], f[2]}, reference);
                    if (fabs(cosine) > largest) {
                        largest = fabs(cosine);
                        chosen = n;
                        turned = cosine < 0;
                    }
                }
                if (chosen < 0 || !(largest >= settings.least_cos)) continue;
                const real* f = fixels + 4 * chosen;
                const Vector d = {f[0], f[1], f[2]};
                real w = wx.value * wy.value * wz.value;
                const real gx = wx.slope * wy.value * wz.value, gy = wx.value * wy.slope * wz.value;
                const real gz = wx.value * wy.value * wz.slope;
                const real along = dot(d, momentum), along_w = along * w, along_2 = along * along;
                weight += w;
                weight_x += gx;
                weight_y += gy;
                weight_z += gz;
                amplitude = fma(w, f[3], amplitude);
                square = fma(w, along_2, square);
                square_x = fma(gx, along_2, square_x);
                square_y = fma(gy, along_2, square_y);
                square_z = fma(gz, along_2, square_z);
                sum = {fma(along_w, d.x, sum.x), fma(along_w, d.y, sum.y), fma(along_w, d.z, sum.z)};
                if (turned) w = -w;
                mean_direction = {fma(w, d.x, mean_direction.x), fma(w, d.y, mean_direction.y),
                                  fma(w, d.z, mean_direction.z)};
            }
        }
    }
    if (!(weight > 0)) return {{0, 0, 0}, {0, 0, 0}, real(0), real(0), {0, 0, 0}};
    const real scale = settings.excess / weight, mean = square / weight;
    const real across = settings.across, fall = -half * scale;
    const Vector velocity = {fma(scale, sum.x, across * momentum.x), fma(scale, sum.y, across * momentum.y),
                             fma(scale, sum.z, across * momentum.z)};
    const Vector force = {fall * fma(-mean, weight_x, square_x), fall * fma(-mean, weight_y, square_y),
                          fall * fma(-mean, weight_z, square_z)};
    return {velocity, transposed(v.to_voxel, force), weight, amplitude / weight, mean_direction};
}

// Derivatives of position (voxels) and momentum.
__device__ __forceinline__ State rates(const FixelVolumes& v, const Sample& s)
{
    const Vector a = transformed(v.to_voxel, s.velocity);
    return {{a.x, a.y, a.z, s.force.x, s.force.y, s.force.z}};
}

// Whether a ray can leave along a unit direction, and its momentum.
__device__ bool unit_momentum(
    const FixelVolumes& v, const FixelSettings& settings, Vector position, Vector direction, Vector* momentum)
{
    const Vector x = sample(v, settings, position, {1, 0, 0}, direction).velocity;
    const Vector y = sample(v, settings, position, {0, 1, 0}, direction).velocity;
    const Vector z = sample(v, settings, position, {0, 0, 1}, direction).velocity;
    const real dual[6] = {x.x, y.y, z.z, x.y, x.z, y.z};
    const Vector p = solve_symmetric(dual, direction);
    const real squared = dot(p, direction);
    *momentum = {0, 0, 0};
    if (!finite_positive(squared)) return false;
    const real unit = real(1) / sqrt(squared);
    *momentum = {p.x * unit, p.y * unit, p.z * unit};
    return true;
}

// A ray in a field of fixels; the methods of geodesics.py.
struct FixelRay {
    using Group = Lanes<1>;
    const FixelVolumes v;
    const FixelSettings s;
    State y = {}, k1 = {}, next = {};
    Sample here = {};
    Vector direction = {}, reference = {}, d = {};
    real first = 1, root = 1, moved = 0, dt = 0;

    __device__ __forceinline__ Vector place() const { return y.position(); }

    __device__ __forceinline__ int slope(const State& at, State* k) const
    {
        if (!inside(v.shape, at.position())) return VOLUME;
        const Sample there = sample(v, s, at.position(), at.momentum(), reference);
        *k = rates(v, there);
        return there.weight == 0 ? FOD : STEPS;
    }

    __device__ __forceinline__ int begin(const Rays& rays, int ray, real* amplitude)
    {
        const Start start = start_of(rays, ray);
        const Vector x = start.position;
        reference = direction = start.direction;
        if (!inside(v.shape, x)) return VOLUME;
        Vector p;
        const bool found = unit_momentum(v, s, x, direction, &p);
        here = sample(v, s, x, p, reference);
        *amplitude = here.amplitude;
        y = {{x.x, x.y, x.z, p.x, p.y, p.z}};
        k1 = rates(v, here);
        first = dot(p, here.velocity);
        root = sqrt(first);
        if (!found) return here.weight == 0 ? FOD : INVALID;
        return here.weight >= s.least_weight && here.amplitude >= s.cutoff ? STEPS : FOD;
    }

    __device__ __forceinline__ int propose(Log&, int, bool, Vector* at, real* away)
    {
        dt = s.step_mm / sqrt(dot(here.velocity, here.velocity));
        const int reason = runge_kutta(*this, dt, y, k1, &next);
        const Vector q = next.position();
        if (!inside(v.shape, q)) return VOLUME;
        if (reason != STEPS) return reason;
        d = transformed(v.to_world, added(q, real(-1), y.position()));
        moved = sqrt(dot(d, d));
        *at = q;
        *away = moved;
        return finite_positive(moved) ? STEPS : INVALID;
    }

    __device__ __forceinline__ int accept(Log& log, bool arrived, bool, real* amplitude)
    {
        d = {d.x / moved, d.y / moved, d.z / moved};
        if (s.max_bend > 0) {
            const Vector turn = added(d, real(-1), direction);
            if (sqrt(dot(turn, turn)) > s.max_bend * moved) return CURVATURE;
        }
        real size = sqrt(dot(here.following, here.following));
        if (size > 0) reference = {here.following.x / size, here.following.y / size, here.following.z / size};
        const Vector p = next.momentum();
        here = sample(v, s, next.position(), p, reference);
        if (!(here.weight >= s.least_weight && here.amplitude >= s.cutoff) && !arrived) return FOD;
        if (here.weight > 0 && log.drifted(dot(p, here.velocity) / first, s.max_drift)) return DRIFT;
        y = next;
        k1 = rates(v, here);
        direction = d;
        *amplitude = here.amplitude;
        size = sqrt(dot(here.following, here.following));
        log.move(moved, dt * root);
        log.count(*amplitude, size > 0 ? fabs(dot(d, here.following)) / size : real(0));
        return STEPS;
    }
};

extern "C" __global__ void __launch_bounds__(64)
    trace(FixelVolumes v, FixelSettings s, Rays rays, RayOutput output)
{
    FixelRay ray = {v, s};
    trace_ray(ray, v.mask, v.shape, s.max_steps, s.every, rays, output);
}

#pragma once
// The loop that traces rays by any method, the counterpart of loop.py: same names, same order of operations. Positions
// are in voxels.
#include "packing.cuh"

enum Reason {
    VOLUME = 1, MASK = 2, FA = 3, STEPS = 4, LENGTH = 5, CURVATURE = 6, DRIFT = 7, INVALID = 8, TARGET = 9, FOD = 10
};
enum Mark { IN_MASK = 1, IN_TARGET = 2 };  // bits of a voxel
enum Number { PATH, RIEMANNIAN, DRIFTED, SAMPLES, TOTAL, ALIGNED, BOTH, AT_SEED, STATS };  // of a ray; see tally.py

// The lanes of a warp that trace one ray together: all do the same but where they sample the field. A block is a warp at
// most, and no lane of it may leave a loop before the others, for each takes part in every exchange.
template <int COUNT>
struct Lanes {
    enum { count = COUNT, leaves = COUNT == 1 };  // the lanes of a ray; whether they may leave a loop

    // Number of this lane among its ray's.
    static __device__ __forceinline__ int number() { return COUNT == 1 ? 0 : int(threadIdx.x % COUNT); }

    // Whether it is so for any ray of the warp, or for the only ray of this thread.
    static __device__ __forceinline__ bool any(bool it)
    {
        if constexpr (COUNT == 1)
            return it;
        else
            return __any_sync(0xffffffffu, it);
    }

    // A lane's number, for all lanes of its ray.
    static __device__ __forceinline__ real from(int lane, real x)
    {
        if constexpr (COUNT == 1)
            return x;
        else
            return __shfl_sync(0xffffffffu, x, int(threadIdx.x) / COUNT * COUNT + lane);
    }
};

// Whether a position lies between the outermost voxel centers.
__device__ __forceinline__ bool inside(const int* shape, Vector p)
{
    return p.x >= 0 && p.y >= 0 && p.z >= 0 && p.x <= real(shape[0] - 1) && p.y <= real(shape[1] - 1) &&
           p.z <= real(shape[2] - 1);
}

// What the voxel of a position inside the volume is to a ray; there is no mask where no voxel ends one.
__device__ __forceinline__ int mark_at(const unsigned char* mask, const int* shape, Vector p)
{
    const real half = real(0.5);
    const size_t i = (size_t)(p.x + half), j = (size_t)(p.y + half), k = (size_t)(p.z + half);
    return mask ? mask[(i * shape[1] + j) * shape[2] + k] : (int)IN_MASK;
}

struct alignas(4 * sizeof(real)) Point {
    real x, y, z, number;
};  // aligned, so that it is stored at once

struct Start {
    Vector position, direction;
};

// Where a ray begins, and its direction: of two rays a fiber, 2f goes forward and 2f + 1 backward.
__device__ __forceinline__ Start start_of(const Rays& rays, int ray)
{
    const int f = ray / rays.per_fiber;
    const real sign = ray % rays.per_fiber == 0 ? real(1) : real(-1);
    return {{rays.seeds[3 * f], rays.seeds[3 * f + 1], rays.seeds[3 * f + 2]},
            {sign * rays.directions[3 * f], sign * rays.directions[3 * f + 1], sign * rays.directions[3 * f + 2]}};
}

// The numbers of a ray.
struct Log {
    real numbers[AT_SEED];

    // Note how far what is constant along a geodesic has come from 1; whether that is too far (never where 0 is).
    __device__ __forceinline__ bool drifted(real ratio, real most)
    {
        const real drift = fabs(ratio - real(1));
        if (drift > numbers[DRIFTED]) numbers[DRIFTED] = drift;
        return most > 0 && !(drift <= most);
    }
    // Add a sample: the point's number, and the cosine between the path and what is followed, if there is one.
    __device__ __forceinline__ void count(real value)
    {
        numbers[SAMPLES] += real(1);
        numbers[TOTAL] += value;
    }
    __device__ __forceinline__ void count(real value, real along)
    {
        count(value);
        numbers[ALIGNED] += along;
    }
    // Add a step to the length, and to that in the metric, if there is one.
    __device__ __forceinline__ void move(real path) { numbers[PATH] += path; }
    __device__ __forceinline__ void move(real path, real riemannian)
    {
        move(path);
        numbers[RIEMANNIAN] += riemannian;
    }
};

// End a ray. One that is alone leaves the loop at once; others go on, for their lanes take part in every exchange.
#define END_RAY(WHY)              \
    {                             \
        reason = WHY;             \
        if (Group::leaves) break; \
        continue;                 \
    }

// Trace one ray by a method, which holds its state. With STEPS, or a reason to end:
//   begin(rays, ray, &value): the ray at its seed, and the seed's number.
//   propose(log, step, goes_on, &at, &moved): its next step, to a position inside the volume; how long it is (mm).
//   accept(log, arrived, keep, &value): the step where mask and length allow it, and the point's number.
//   place(): where the ray is. Group: the lanes that trace it; they propose until no ray of theirs goes on.
template <class Method>
__device__ __forceinline__ void trace_ray(
    Method& method, const unsigned char* mask, const int* shape, int max_steps, int every, const Rays& rays,
    const RayOutput& output)
{
    using Group = typename Method::Group;
    const int ray = (blockIdx.x * blockDim.x + threadIdx.x) / Group::count;
    if (ray >= rays.count) return;
    const real limit = rays.limits[ray];
    if (!Group::any(limit >= 0)) return;
    const bool writes = Group::number() == 0 && limit >= 0;
    Point* points = nullptr;  // where points are kept
    if (output.points && writes) points = reinterpret_cast<Point*>(output.points) + (size_t)ray * output.ray_points;
    Log log = {};
    int written = 0, until_kept = every;
    bool kept = true;
    real value = 0, length = 0;
    int reason = method.begin(rays, ray, &value);
    if (writes) output.stats[STATS * (size_t)ray + AT_SEED] = value;
    if (limit < 0) reason = LENGTH;
    for (int step = 0; step < max_steps && Group::any(reason == STEPS); ++step) {
        Vector at;
        real moved;
        const int proposed = method.propose(log, step, reason == STEPS, &at, &moved);
        if (reason != STEPS) continue;
        if (proposed != STEPS) END_RAY(proposed)
        const int mark = mark_at(mask, shape, at);
        if (mark == 0) END_RAY(MASK)
        if (length + moved > limit) END_RAY(LENGTH)
        const bool arrived = mark >= IN_TARGET, keep = --until_kept == 0;
        const int accepted = method.accept(log, arrived, keep, &value);
        if (accepted != STEPS) END_RAY(accepted)
        length += moved;
        kept = keep;
        if (kept) {
            until_kept = every;
            if (points) points[written] = {at.x, at.y, at.z, value};
            ++written;
        }
        if (arrived) reason = TARGET;
    }
    if (!kept) {
        const Vector at = method.place();
        if (points) points[written] = {at.x, at.y, at.z, value};
        ++written;
    }
    if (!writes) return;
    output.written[ray] = written;
    output.reasons[ray] = (unsigned char)reason;
    for (int q = 0; q < AT_SEED; ++q) output.stats[STATS * (size_t)ray + q] = log.numbers[q];
}

// A step of the classical Runge-Kutta method, where `advanced` gives y + t k: STEPS, or the reason why a stage has no
// rates; `at` is where it came to.
template <class Method, class State>
__device__ __forceinline__ int runge_kutta(const Method& method, real dt, const State& y, const State& k1, State* at)
{
    State k = k1, sums = k1;
#pragma unroll 1  // what gives the rates is called
    for (int stage = 1; stage < 4; ++stage) {
        *at = advanced(y, stage == 3 ? dt : real(0.5) * dt, k);
        const int reason = method.slope(*at, &k);
        if (reason != STEPS) return reason;
        if (stage < 3) sums = advanced(sums, real(2), k);
    }
    *at = advanced(y, dt / real(6), advanced(sums, real(1), k));
    return STEPS;
}

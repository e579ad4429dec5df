// Streamlines in FODs, the counterpart of streamlines.py: every number is made by the same operations in the same
// order. Positions are in voxels, directions in world axes. Of SD_STREAM a thread traces a ray; of iFOD1 and iFOD2 a
// warp does, whose lanes try directions side by side: of those that are accepted the first one counts. Compiled strictly.
#include "harmonics.cuh"
#include "packing.cuh"
#include "philox.cuh"

enum Method { SD_STREAM = 0, IFOD1 = 1, IFOD2 = 2 };
constexpr int PAIRS = 2 * ((LMAX / 2 + 1) * (LMAX / 2 + 1));  // numbers of an FOD
constexpr int FOD = 10, AT_SEED = 1 << 20;
constexpr unsigned int ALL = 0xffffffffu;

// The arguments of the kernels; problem.py describes them.
struct FodVolumes {
    const real* fods;
    const real* table;
    const unsigned char* mask;
    real to_voxel[9];
    int shape[3];
};

struct StreamlineSettings {
    unsigned long long seed;
    const real* grid;
    int turns, max_steps, every, trials;
    real step_mm, cutoff, least_cos, headroom;
};

struct Position {
    real x, y, z;
};

struct Turn {
    real angle, azimuth;
};

__device__ __forceinline__ bool inside(const FodVolumes& v, Position p)
{
    return p.x >= 0 && p.y >= 0 && p.z >= 0 && p.x <= real(v.shape[0] - 1) && p.y <= real(v.shape[1] - 1) &&
           p.z <= real(v.shape[2] - 1);
}

__device__ __forceinline__ Position moved(const FodVolumes& v, Position p, Direction step)
{
    const real* m = v.to_voxel;
    return {fma(m[2], step.z, fma(m[1], step.y, fma(m[0], step.x, p.x))),
            fma(m[5], step.z, fma(m[4], step.y, fma(m[3], step.x, p.y))),
            fma(m[8], step.z, fma(m[7], step.y, fma(m[6], step.x, p.z)))};
}

// What the voxel of a position inside the volume is to a ray.
__device__ __forceinline__ unsigned char mark_at(const FodVolumes& v, Position p)
{
    const real half = real(0.5);
    const size_t i = (size_t)(p.x + half), j = (size_t)(p.y + half), k = (size_t)(p.z + half);
    return v.mask[(i * v.shape[1] + j) * v.shape[2] + k];
}

// The coefficients at a position inside the volume, each interpolated when it is read.
struct Interpolated {
    const real* corner[8];
    real weight[8];

    __device__ Interpolated(const FodVolumes& v, Position p)
    {
        const int ny = v.shape[1], nz = v.shape[2];
        int i = (int)p.x, j = (int)p.y, k = (int)p.z;
        i -= i > v.shape[0] - 2;
        j -= j > ny - 2;
        k -= k > nz - 2;
        const real fx = p.x - real(i), fy = p.y - real(j), fz = p.z - real(k);
        const real gx = real(1) - fx, gy = real(1) - fy, gz = real(1) - fz;
        const real* first = v.fods + (((size_t)i * ny + j) * nz + k) * PAIRS;
        for (int c = 0; c < 8; ++c) {
            corner[c] = first + (((size_t)(c >> 2) * ny + (c >> 1 & 1)) * nz + (c & 1)) * PAIRS;
            weight[c] = (c & 4 ? fx : gx) * (c & 2 ? fy : gy) * (c & 1 ? fz : gz);
        }
    }
    __device__ __forceinline__ real operator[](int p) const
    {
        real sum = weight[0] * corner[0][p];
#pragma unroll
        for (int c = 1; c < 8; ++c) sum = fma(weight[c], corner[c][p], sum);
        return sum;
    }
};

// Three uniform random numbers of a trial.
struct Random {
    float first, second, third;

    __device__ Random(unsigned long long seed, long long number, int half, int step, int trial)
    {
        Philox philox(seed, (unsigned long long)number << 22 | (unsigned long long)half << 21 | (unsigned long long)step);
        philox.block = (unsigned int)trial;
        philox.refill();
        first = unit_float(philox.out[0]);
        second = unit_float(philox.out[1]);
        third = unit_float(philox.out[2]);
    }
};

__device__ __forceinline__ Direction combined(real a, Direction u, real b, Direction v)
{
    return {fma(b, v.x, a * u.x), fma(b, v.y, a * u.y), fma(b, v.z, a * u.z)};
}

__device__ __forceinline__ Direction normal_to(Direction u, real azimuth)
{
    Direction first, other;
    tangents(u, &first, &other);
    return combined(cos(azimuth), first, sin(azimuth), other);
}

// How far the ends of an arc of a length are apart, from its tangents there.
__device__ __forceinline__ real chord(real step, Direction before, Direction after)
{
    const real cosine = fma(before.z, after.z, fma(before.y, after.y, before.x * after.x));
    const real half = acos(fmax(real(-1), fmin(real(1), cosine))) / real(2);
    return half > real(1e-3) ? step * sin(half) / half : step;
}

__device__ __forceinline__ Turn drawn_turn(real least_cos, const Random& random)
{
    const real cosine = real(1) - real(random.first) * (real(1) - least_cos);
    const real sine = sqrt(fmax(real(0), fma(-cosine, cosine, real(1))));
    return {atan2(sine, cosine), real(6.2831853071795864) * real(random.second)};
}

// Where a ray is: at a position, with a direction, the amplitude along it, and whether the arc to there has left the mask.
struct State {
    Position at;
    Direction along;
    real amplitude;
    bool masked;
};

// iFOD1: probability of a turn, and the state after it, but for the amplitude there.
template <class Pairs>
__device__ __forceinline__ real turn_probability(
    const FodVolumes& v, const StreamlineSettings& s, const Pairs& fod, const State& from, Turn turn, State* to)
{
    to->along = combined(cos(turn.angle), from.along, sin(turn.angle), normal_to(from.along, turn.azimuth));
    to->at = moved(v, from.at, {s.step_mm * to->along.x, s.step_mm * to->along.y, s.step_mm * to->along.z});
    const real amplitude = amplitude_at(fod, v.table, to->along);
    return amplitude >= s.cutoff ? amplitude : real(0);
}

// iFOD2: probability of an arc, and the state after it.
__device__ __forceinline__ real arc_probability(
    const FodVolumes& v, const StreamlineSettings& s, const State& from, Turn turn, State* to)
{
    const Direction aside = normal_to(from.along, turn.azimuth);
    real product = 1, value = from.amplitude;
    to->masked = false;
    for (int n = 1; n < 4; ++n) {
        const real a = turn.angle * real(n) / real(3), c = cos(a), sine = sin(a);
        real along = s.step_mm * real(n) / real(3), across = 0;
        if (turn.angle > real(1e-3)) {
            const real radius = s.step_mm / turn.angle;
            along = radius * sine;
            across = radius * (real(1) - c);
        }
        to->at = moved(v, from.at, combined(along, from.along, across, aside));
        if (!inside(v, to->at)) return real(0);
        to->along = combined(c, from.along, sine, aside);
        value = amplitude_at(Interpolated(v, to->at), v.table, to->along);
        if (!(value >= s.cutoff)) return real(0);
        if (n < 3) {
            product *= value;
            to->masked = to->masked || mark_at(v, to->at) == 0;
        }
    }
    to->amplitude = value;
    return sqrt(sqrt(product * sqrt(from.amplitude * value)));
}

__device__ __forceinline__ Direction drawn_direction(const Random& random)
{
    const real z = real(2) * real(random.first) - real(1), azimuth = real(6.2831853071795864) * real(random.second);
    const real sine = sqrt(fmax(real(0), fma(-z, z, real(1))));
    return {sine * cos(azimuth), sine * sin(azimuth), z};
}

// What becomes of a ray that has moved: 0 to go on, else a reason; `arrived` at the target.
__device__ __forceinline__ int reason_at(const FodVolumes& v, const State& s, bool* arrived)
{
    if (!inside(v, s.at)) return VOLUME;
    const unsigned char mark = mark_at(v, s.at);
    *arrived = mark >= IN_TARGET;
    return s.masked || mark == 0 ? MASK : 0;
}

// What a ray has written and counted so far.
struct Log {
    real* points;
    int written, until_kept, every;
    real length, path, at_seed, samples, total;
    bool kept;

    __device__ Log(const RayOutput& output, int ray, int keep_every)
        : points(output.points ? output.points + 4 * (size_t)ray * output.ray_points : nullptr), written(0),
          until_kept(keep_every), every(keep_every), length(0), path(0), at_seed(0), samples(0), total(0), kept(true)
    {
    }
    __device__ __forceinline__ void write(const State& s)
    {
        if (points) {
            real* p = points + 4 * (size_t)written;
            p[0] = s.at.x;
            p[1] = s.at.y;
            p[2] = s.at.z;
            p[3] = s.amplitude;
        }
        ++written;
    }
    __device__ __forceinline__ void add(const State& s, real step_mm, real apart)
    {
        length += apart;
        path += step_mm;
        samples += real(1);
        total += s.amplitude;
        kept = --until_kept == 0;
        if (!kept) return;
        until_kept = every;
        write(s);
    }
    __device__ __forceinline__ void end(const RayOutput& output, int ray, int reason, const State& s)
    {
        if (!kept) write(s);
        output.reasons[ray] = (unsigned char)reason;
        output.written[ray] = written;
        const real numbers[STATS] = {length, at_seed, 0, samples, total, 0, 0};
        for (int q = 0; q < STATS; ++q) output.stats[STATS * (size_t)ray + q] = numbers[q];
    }
};

__device__ __forceinline__ State start_of(const Rays& rays, int f)
{
    return {{rays.seeds[3 * f], rays.seeds[3 * f + 1], rays.seeds[3 * f + 2]},
            {rays.directions[3 * f], rays.directions[3 * f + 1], rays.directions[3 * f + 2]},
            real(0), false};
}

__device__ __forceinline__ bool is_drawn(const State& s) { return s.along.x == 0 && s.along.y == 0 && s.along.z == 0; }

__device__ __forceinline__ void turn_back(State& s) { s.along = {-s.along.x, -s.along.y, -s.along.z}; }

// Coefficients at a position, in a thread's own memory.
struct Coefficients {
    real value[PAIRS];

    __device__ __forceinline__ void interpolate(const FodVolumes& v, Position p)
    {
        const Interpolated between(v, p);
        for (int n = 0; n < PAIRS; ++n) value[n] = between[n];
    }
    __device__ __forceinline__ real operator[](int n) const { return value[n]; }
};

extern "C" __global__ void __launch_bounds__(64)
    trace_peaks(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    const int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= rays.count) return;
    const real limit = rays.limits[ray];
    if (limit < 0) return;
    const int f = ray / rays.per_fiber;
    State state = start_of(rays, f);
    Coefficients fod;
    Log log(output, ray, s.every);
    int reason = STEPS;
    if (!inside(v, state.at)) {
        reason = VOLUME;
    } else {
        fod.interpolate(v, state.at);
        bool found = false;
        if (!is_drawn(state)) {
            state.amplitude = amplitude_at(fod, v.table, state.along);
            found = state.amplitude >= s.cutoff;
        } else {
            for (int trial = 0; trial < s.trials && !found; ++trial) {
                state.along = drawn_direction(Random(s.seed, rays.numbers[f], 0, AT_SEED, trial));
                found = amplitude_at(fod, v.table, state.along) >= s.cutoff;
            }
            if (found) found = climb<false>(fod, v.table, &state.along, &state.amplitude);
            if (!found) state.amplitude = 0;
        }
        if (!found) reason = FOD;
    }
    log.at_seed = state.amplitude;
    if (ray % rays.per_fiber == 1) turn_back(state);
    for (int step = 0; reason == STEPS && step < s.max_steps; ++step) {
        const Direction d = state.along;
        State next = {moved(v, state.at, {s.step_mm * d.x, s.step_mm * d.y, s.step_mm * d.z}), d, real(0), false};
        bool arrived = false;
        if (const int ended = reason_at(v, next, &arrived)) {
            reason = ended;
            break;
        }
        if (log.path + s.step_mm > limit) {
            reason = LENGTH;
            break;
        }
        fod.interpolate(v, next.at);
        const bool found = climb<false>(fod, v.table, &next.along, &next.amplitude);
        if (!(found && next.amplitude >= s.cutoff) && !arrived) {
            reason = FOD;
            break;
        }
        if (!(next.along.x * d.x + next.along.y * d.y + next.along.z * d.z >= s.least_cos) && !arrived) {
            reason = CURVATURE;
            break;
        }
        state = next;
        log.add(state, s.step_mm, s.step_mm);
        if (arrived) reason = TARGET;
    }
    log.end(output, ray, reason, state);
}

// Coefficients at a position, in a warp's memory: each lane interpolates some of them.
struct Shared {
    real* value;

    __device__ __forceinline__ void interpolate(const FodVolumes& v, Position p)
    {
        __syncwarp();
        const Interpolated between(v, p);
        for (int n = threadIdx.x % 32; n < PAIRS; n += 32) value[n] = between[n];
        __syncwarp();
    }
    __device__ __forceinline__ real operator[](int n) const { return value[n]; }
};

template <int METHOD>
__device__ __forceinline__ real probability(
    const FodVolumes& v, const StreamlineSettings& s, const Shared& fod, const State& from, Turn turn, State* to)
{
    if constexpr (METHOD == IFOD1)
        return turn_probability(v, s, fod, from, turn, to);
    else
        return arc_probability(v, s, from, turn, to);
}

// The state that a lane has, in all lanes.
__device__ __forceinline__ State of_lane(const State& s, int lane)
{
    return {{__shfl_sync(ALL, s.at.x, lane), __shfl_sync(ALL, s.at.y, lane), __shfl_sync(ALL, s.at.z, lane)},
            {__shfl_sync(ALL, s.along.x, lane), __shfl_sync(ALL, s.along.y, lane), __shfl_sync(ALL, s.along.z, lane)},
            __shfl_sync(ALL, s.amplitude, lane), __shfl_sync(ALL, (int)s.masked, lane) != 0};
}

__device__ __forceinline__ bool draw_start(
    const FodVolumes& v, const StreamlineSettings& s, const Shared& fod, long long number, State* state)
{
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < s.trials; first += 32) {
        State tried = *state;
        tried.along = drawn_direction(Random(s.seed, number, 0, AT_SEED, first + lane));
        tried.amplitude = amplitude_at(fod, v.table, tried.along);
        const unsigned int votes = __ballot_sync(ALL, first + lane < s.trials && tried.amplitude >= s.cutoff);
        if (votes) {
            *state = of_lane(tried, __ffs((int)votes) - 1);
            return true;
        }
    }
    return false;
}

// Draw the next step; false where all trials are refused.
template <int METHOD>
__device__ __forceinline__ bool draw_step(const FodVolumes& v, const StreamlineSettings& s, const Shared& fod,
                                          const State& from, long long number, int half, int step, State* to)
{
    const int lane = threadIdx.x % 32;
    State tried = from;
    real bound = 0;
    for (int n = lane; n < s.turns; n += 32)
        bound = fmax(bound, probability<METHOD>(v, s, fod, from, {s.grid[2 * n], s.grid[2 * n + 1]}, &tried));
    for (int away = 16; away > 0; away /= 2) bound = fmax(bound, __shfl_xor_sync(ALL, bound, away));
    bound *= s.headroom;
    if (!(bound > real(0))) return false;
    for (int first = 0; first < s.trials; first += 32) {
        const Random random(s.seed, number, half, step, first + lane);
        const real p = probability<METHOD>(v, s, fod, from, drawn_turn(s.least_cos, random), &tried);
        const unsigned int votes = __ballot_sync(ALL, first + lane < s.trials && real(random.third) * bound < p);
        if (votes) {
            *to = of_lane(tried, __ffs((int)votes) - 1);
            return true;
        }
    }
    return false;
}

template <int METHOD>
__device__ __forceinline__ void trace_drawn(
    const FodVolumes& v, const StreamlineSettings& s, const Rays& rays, const RayOutput& output)
{
    __shared__ real memory[4 * PAIRS];
    const int ray = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (ray >= rays.count) return;  // the whole warp
    const real limit = rays.limits[ray];
    if (limit < 0) return;
    const int f = ray / rays.per_fiber, half = ray % rays.per_fiber;
    const bool writes = threadIdx.x % 32 == 0;
    Shared fod = {memory + threadIdx.x / 32 * PAIRS};
    State state = start_of(rays, f);
    Log log(output, ray, s.every);
    if (!writes) log.points = nullptr;
    int reason = STEPS;
    if (!inside(v, state.at)) {
        reason = VOLUME;
    } else {
        fod.interpolate(v, state.at);
        bool found;
        if (is_drawn(state)) {
            found = draw_start(v, s, fod, rays.numbers[f], &state);
        } else {
            state.amplitude = amplitude_at(fod, v.table, state.along);
            found = state.amplitude >= s.cutoff;
        }
        if (!found) reason = FOD;
    }
    log.at_seed = state.amplitude;
    if (half == 1) turn_back(state);
    for (int step = 0; reason == STEPS && step < s.max_steps; ++step) {
        State next = state;
        if (!draw_step<METHOD>(v, s, fod, state, rays.numbers[f], half, step, &next)) {
            reason = FOD;
            break;
        }
        bool arrived = false;
        if (const int ended = reason_at(v, next, &arrived)) {
            reason = ended;
            break;
        }
        if (log.path + s.step_mm > limit) {
            reason = LENGTH;
            break;
        }
        if constexpr (METHOD == IFOD1) {
            fod.interpolate(v, next.at);
            next.amplitude = amplitude_at(fod, v.table, next.along);
        }
        const real apart = METHOD == IFOD2 ? chord(s.step_mm, state.along, next.along) : s.step_mm;
        state = next;
        log.add(state, s.step_mm, apart);
        if (arrived) reason = TARGET;
    }
    if (writes) log.end(output, ray, reason, state);
}

extern "C" __global__ void __launch_bounds__(128)
    trace_first_order(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    trace_drawn<IFOD1>(v, s, rays, output);
}

extern "C" __global__ void __launch_bounds__(128)
    trace_second_order(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    trace_drawn<IFOD2>(v, s, rays, output);
}

// Streamlines in FODs, the counterpart of streamlines.py: every number is made by the same operations in the same
// order. Vectors are in voxels, directions in world axes. Of SD_STREAM a thread traces a ray; of iFOD1 and iFOD2 a
// warp does, whose lanes try directions side by side: of those that are accepted the first one counts. Compiled strictly.
#include "diffusion/kernels/harmonics.cuh"
#include "loop.cuh"
#include "philox.cuh"

constexpr int PAIRS = 2 * ((LMAX / 2 + 1) * (LMAX / 2 + 1));  // numbers of an FOD
enum Method { SD_STREAM = 0, IFOD1 = 1, IFOD2 = 2 };
constexpr int SEED_STEP = 1 << 20;  // the step of the random numbers at a seed; more than any other
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

struct Turn {
    real angle, azimuth;
};

__device__ __forceinline__ Vector stepped(const FodVolumes& v, Vector p, Vector step)
{
    const real* m = v.to_voxel;
    return {fma(m[2], step.z, fma(m[1], step.y, fma(m[0], step.x, p.x))),
            fma(m[5], step.z, fma(m[4], step.y, fma(m[3], step.x, p.y))),
            fma(m[8], step.z, fma(m[7], step.y, fma(m[6], step.x, p.z)))};
}

// The coefficients at a position inside the volume, each interpolated when it is read.
struct Interpolated {
    const real* corner[8];
    real weight[8];

    __device__ Interpolated(const FodVolumes& v, Vector p)
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

__device__ __forceinline__ Vector combined(real a, Vector u, real b, Vector v)
{
    return {fma(b, v.x, a * u.x), fma(b, v.y, a * u.y), fma(b, v.z, a * u.z)};
}

__device__ __forceinline__ Vector normal_to(Vector u, real azimuth)
{
    Vector first, other;
    tangents(u, &first, &other);
    return combined(cos(azimuth), first, sin(azimuth), other);
}

// How far the ends of an arc of a length are apart, from its tangents there.
__device__ __forceinline__ real chord(real step, Vector before, Vector after)
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
    Vector at;
    Vector along;
    real amplitude;
    bool masked;
};

// iFOD1: probability of a turn, and the state after it, but for the amplitude there.
template <class Pairs>
__device__ __forceinline__ real turn_probability(
    const FodVolumes& v, const StreamlineSettings& s, const Pairs& fod, const State& from, Turn turn, State* to)
{
    to->along = combined(cos(turn.angle), from.along, sin(turn.angle), normal_to(from.along, turn.azimuth));
    to->at = stepped(v, from.at, times(s.step_mm, to->along));
    const real amplitude = amplitude_at(fod, v.table, to->along);
    return amplitude >= s.cutoff ? amplitude : real(0);
}

// iFOD2: probability of an arc, and the state after it.
__device__ __forceinline__ real arc_probability(
    const FodVolumes& v, const StreamlineSettings& s, const State& from, Turn turn, State* to)
{
    const Vector aside = normal_to(from.along, turn.azimuth);
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
        to->at = stepped(v, from.at, combined(along, from.along, across, aside));
        if (!inside(v.shape, to->at)) return real(0);
        to->along = combined(c, from.along, sine, aside);
        value = amplitude_at(Interpolated(v, to->at), v.table, to->along);
        if (!(value >= s.cutoff)) return real(0);
        if (n < 3) {
            product *= value;
            to->masked = to->masked || mark_at(v.mask, v.shape, to->at) == 0;
        }
    }
    to->amplitude = value;
    return sqrt(sqrt(product * sqrt(from.amplitude * value)));
}

__device__ __forceinline__ Vector drawn_direction(const Random& random)
{
    const real z = real(2) * real(random.first) - real(1), azimuth = real(6.2831853071795864) * real(random.second);
    const real sine = sqrt(fmax(real(0), fma(-z, z, real(1))));
    return {sine * cos(azimuth), sine * sin(azimuth), z};
}

// Coefficients at a position, in a thread's own memory.
struct Coefficients {
    real value[PAIRS];

    __device__ Coefficients(real*) {}

    __device__ __forceinline__ void interpolate(const FodVolumes& v, Vector p)
    {
        const Interpolated between(v, p);
        for (int n = 0; n < PAIRS; ++n) value[n] = between[n];
    }
    __device__ __forceinline__ real operator[](int n) const { return value[n]; }
};

// A streamline; the methods of streamlines.py. Coefficients are in `fod`; how directions are found is left to `Drawing`.
template <class Drawing>
struct Streamline {
    using Group = typename Drawing::Group;
    const FodVolumes v;
    const StreamlineSettings s;
    typename Drawing::Memory fod;
    State state = {}, next = {};
    long long number = 0;
    int half = 0;

    __device__ Streamline(const FodVolumes& volumes, const StreamlineSettings& settings, real* memory)
        : v(volumes), s(settings), fod(memory)
    {
    }

    __device__ __forceinline__ Vector place() const { return state.at; }

    __device__ __forceinline__ int begin(const Rays& rays, int ray, real* amplitude)
    {
        const int f = ray / rays.per_fiber;
        half = ray % rays.per_fiber;
        number = rays.numbers[f];
        const Start start = start_of(rays, f * rays.per_fiber);
        state = {start.position, start.direction, real(0), false};
        if (!inside(v.shape, state.at)) return VOLUME;
        fod.interpolate(v, state.at);
        bool found;
        if (state.along.x == 0 && state.along.y == 0 && state.along.z == 0) {
            found = Drawing::start(v, s, fod, number, &state);
        } else {
            state.amplitude = amplitude_at(fod, v.table, state.along);
            found = state.amplitude >= s.cutoff;
        }
        *amplitude = state.amplitude;
        if (half == 1) state.along = times(real(-1), state.along);
        return found ? STEPS : FOD;
    }

    __device__ __forceinline__ int propose(Log&, int step, bool, Vector* at, real* away)
    {
        next = state;
        if (!Drawing::step(v, s, fod, state, number, half, step, &next)) return FOD;
        *at = next.at;
        *away = s.step_mm;
        if (!inside(v.shape, next.at)) return VOLUME;
        return next.masked ? MASK : STEPS;
    }

    __device__ __forceinline__ int accept(Log& log, bool arrived, bool, real* amplitude)
    {
        if (const int reason = Drawing::look(v, s, fod, state, &next); reason != STEPS && !arrived) return reason;
        log.move(Drawing::path(s.step_mm, state.along, next.along));
        state = next;
        *amplitude = state.amplitude;
        log.count(state.amplitude);
        return STEPS;
    }
};

template <class Drawing>
__device__ __forceinline__ void trace_streamline(
    const FodVolumes& v, const StreamlineSettings& s, const Rays& rays, const RayOutput& output, real* memory)
{
    Streamline<Drawing> ray(v, s, memory);
    trace_ray(ray, v.mask, v.shape, s.max_steps, s.every, rays, output);
}

// Goes along its direction, then turns to the peak nearest to that.
struct Peaks {
    using Group = Lanes<1>;
    using Memory = Coefficients;

    static __device__ __noinline__ bool draw(
        const real* table, int trials, real cutoff, unsigned long long seed, const Coefficients& fod, long long number,
        Vector* along, real* amplitude)
    {
        bool found = false;
        for (int trial = 0; trial < trials && !found; ++trial) {
            *along = drawn_direction(Random(seed, number, 0, SEED_STEP, trial));
            found = amplitude_at(fod, table, *along) >= cutoff;
        }
        if (found) found = climb<false>(fod, table, along, amplitude);
        return found;
    }
    static __device__ __forceinline__ bool start(
        const FodVolumes& v, const StreamlineSettings& s, const Coefficients& fod, long long number, State* state)
    {
        Vector along = {0, 0, 0};
        real amplitude = 0;
        const bool found = draw(v.table, s.trials, s.cutoff, s.seed, fod, number, &along, &amplitude);
        state->along = along;
        state->amplitude = found ? amplitude : real(0);
        return found;
    }
    static __device__ __forceinline__ bool step(
        const FodVolumes& v, const StreamlineSettings& s, const Coefficients&, const State& from, long long, int, int,
        State* to)
    {
        to->at = stepped(v, from.at, times(s.step_mm, from.along));
        return true;
    }
    static __device__ __forceinline__ int look(
        const FodVolumes& v, const StreamlineSettings& s, Coefficients& fod, const State& from, State* to)
    {
        const Vector a = from.along;
        fod.interpolate(v, to->at);
        const bool found = climb<false>(fod, v.table, &to->along, &to->amplitude);
        if (!(found && to->amplitude >= s.cutoff)) return FOD;
        return to->along.x * a.x + to->along.y * a.y + to->along.z * a.z >= s.least_cos ? STEPS : CURVATURE;
    }
    static __device__ __forceinline__ real path(real step, Vector, Vector) { return step; }
};

extern "C" __global__ void __launch_bounds__(64)
    trace_peaks(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    trace_streamline<Peaks>(v, s, rays, output, nullptr);
}

// Coefficients at a position, in a warp's memory: each lane interpolates some of them.
struct Shared {
    real* value;

    __device__ Shared(real* memory) : value(memory) {}

    __device__ __forceinline__ void interpolate(const FodVolumes& v, Vector p)
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

// Draws directions, which the lanes of a warp try side by side.
template <int METHOD>
struct Drawn {
    struct Group {
        enum { count = 32, leaves = 1 };
        static __device__ __forceinline__ int number() { return threadIdx.x % 32; }
        static __device__ __forceinline__ bool any(bool it) { return it; }  // all lanes agree
    };
    using Memory = Shared;

    static __device__ __forceinline__ bool start(
        const FodVolumes& v, const StreamlineSettings& s, const Shared& fod, long long number, State* state)
    {
        const int lane = Group::number();
        for (int first = 0; first < s.trials; first += 32) {
            State tried = *state;
            tried.along = drawn_direction(Random(s.seed, number, 0, SEED_STEP, first + lane));
            tried.amplitude = amplitude_at(fod, v.table, tried.along);
            const unsigned int votes = __ballot_sync(ALL, first + lane < s.trials && tried.amplitude >= s.cutoff);
            if (votes) {
                *state = of_lane(tried, __ffs((int)votes) - 1);
                return true;
            }
        }
        return false;
    }

    // False where all trials are refused.
    static __device__ __forceinline__ bool step(
        const FodVolumes& v, const StreamlineSettings& s, const Shared& fod, const State& from, long long number,
        int half, int step, State* to)
    {
        const int lane = Group::number();
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
            const unsigned int votes =
                __ballot_sync(ALL, first + lane < s.trials && real(random.third) * bound < p);
            if (votes) {
                *to = of_lane(tried, __ffs((int)votes) - 1);
                return true;
            }
        }
        return false;
    }
    static __device__ __forceinline__ int look(
        const FodVolumes& v, const StreamlineSettings&, Shared& fod, const State&, State* to)
    {
        if constexpr (METHOD == IFOD1) {
            fod.interpolate(v, to->at);
            to->amplitude = amplitude_at(fod, v.table, to->along);
        }
        return STEPS;
    }
    static __device__ __forceinline__ real path(real step, Vector before, Vector after)
    {
        return METHOD == IFOD2 ? chord(step, before, after) : step;
    }
};

extern "C" __global__ void __launch_bounds__(128)
    trace_first_order(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    __shared__ real memory[4 * PAIRS];
    trace_streamline<Drawn<IFOD1>>(v, s, rays, output, memory + threadIdx.x / 32 * PAIRS);
}

extern "C" __global__ void __launch_bounds__(128)
    trace_second_order(FodVolumes v, StreamlineSettings s, Rays rays, RayOutput output)
{
    __shared__ real memory[4 * PAIRS];
    trace_streamline<Drawn<IFOD2>>(v, s, rays, output, memory + threadIdx.x / 32 * PAIRS);
}

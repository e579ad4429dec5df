// What a tournament does with volumes, the counterpart of passes.py: same names, same order of operations.
//
// Every voxel is one thread's, and there are no atomics: a result does not depend on the order of threads.
#include "smoothing.cuh"

constexpr float LARGEST = 1e30f; // of differences of errors
constexpr float FAINT = 1e-28f; // of volumes near 1: less counts as nothing, see passes.py

struct Keep {
    float* out;

    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[1][FOUR]) const
    {
        place.write(smoothed[0], out);
    }
};

extern "C" __global__ void keep_across(PASS, float* __restrict__ out) { smooth<Across, 1>(THE_PASS, Keep{out}); }

extern "C" __global__ void keep_along(PASS, float* __restrict__ out) { smooth<Along, 1>(THE_PASS, Keep{out}); }

// p^2 / G p, or p where that is not safe, or 0 where it is faint.
__device__ __forceinline__ float corrected(float p, float q)
{
    const bool is_safe = p > 0.0f && q > 0.25f * p;
    const float ratio = is_safe ? p / q : 1.0f;
    const float estimate = p * ratio;
    return estimate > FAINT ? estimate : 0.0f;
}

struct Correct {
    float* again;
    const float* __restrict__ pilot;

    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[1][FOUR]) const
    {
        float p[FOUR], estimates[FOUR];
        place.read(pilot, 0, p);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) estimates[r] = corrected(p[r], smoothed[0][r]);
        place.write(estimates, again);
    }
};

extern "C" __global__ void correct_across(PASS, float* __restrict__ again, const float* __restrict__ pilot)
{
    smooth<Across, 1>(THE_PASS, Correct{again, pilot});
}

extern "C" __global__ void correct_along(PASS, float* __restrict__ again, const float* __restrict__ pilot)
{
    smooth<Along, 1>(THE_PASS, Correct{again, pilot});
}

__device__ __forceinline__ float error_of(float f, float g, float a, float b, float inverse, float noise)
{
    const float spread = (f - g) * inverse;
    const float bias = ((f - a) * inverse) * ((g - b) * inverse);
    return noise * (spread * spread) + bias;
}

// A number that can be smoothed, see passes.py.
__device__ __forceinline__ float bounded(float difference)
{
    if (difference < -LARGEST) return -LARGEST;
    return difference <= LARGEST ? difference : LARGEST;
}

struct Judge {
    size_t size;
    float* again;
    const float* __restrict__ pilot;
    const float* __restrict__ halves;
    const float* __restrict__ holder;
    const float* __restrict__ reference;
    float noise;
    float* difference;

    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[2][FOUR]) const
    {
        float p[FOUR], q[FOUR], a[FOUR], b[FOUR], f[FOUR], g[FOUR], relative_to[FOUR], less[FOUR];
        place.read(pilot, 0, p);
        place.read(pilot + size, 0, q);
        place.read(halves, 0, a);
        place.read(halves + size, 0, b);
        place.read(holder, 0, f);
        place.read(holder + size, 0, g);
        place.read(reference, 0, relative_to);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            const float inverse = 1.0f / relative_to[r];
            p[r] = corrected(p[r], smoothed[0][r]);
            q[r] = corrected(q[r], smoothed[1][r]);
            const float now = error_of(p[r], q[r], a[r], b[r], inverse, noise);
            const float before = error_of(f[r], g[r], a[r], b[r], inverse, noise);
            less[r] = bounded((now - before) * sqrtf(relative_to[r]));
        }
        place.write(p, again);
        place.write(q, again + size);
        place.write(less, difference);
    }
};
#define JUDGED                                                                                              \
    float *__restrict__ again, const float *__restrict__ pilot, const float *__restrict__ halves,           \
        const float *__restrict__ holder, const float *__restrict__ reference, float noise,                 \
        float *__restrict__ difference
#define JUDGE Judge{pass.size(), again, pilot, halves, holder, reference, noise, difference}

extern "C" __global__ void judge_across(PASS, JUDGED)
{
    const Pass pass = THE_PASS;
    smooth<Across, 2>(pass, JUDGE);
}

extern "C" __global__ void judge_along(PASS, JUDGED)
{
    const Pass pass = THE_PASS;
    smooth<Along, 2>(pass, JUDGE);
}

struct Decide {
    float* weight;

    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[1][FOUR]) const
    {
        float ones[FOUR];
#pragma unroll
        for (int r = 0; r < FOUR; ++r) ones[r] = smoothed[0][r] < -FAINT ? 1.0f : 0.0f;
        place.write(ones, weight);
    }
};

extern "C" __global__ void decide_across(PASS, float* __restrict__ weight) { smooth<Across, 1>(THE_PASS, Decide{weight}); }

extern "C" __global__ void decide_along(PASS, float* __restrict__ weight) { smooth<Along, 1>(THE_PASS, Decide{weight}); }

__device__ __forceinline__ float without_faint(float value) { return fabsf(value) > FAINT ? value : 0.0f; }

struct HandOver {
    size_t size;
    const float* __restrict__ limit;
    int is_limited;
    float scale;
    const float* __restrict__ challenger;
    float* holder;
    float* scales;

    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[1][FOUR]) const
    {
        float most[FOUR], p[FOUR], q[FOUR], f[FOUR], g[FOUR], held[FOUR];
        if (is_limited) place.read(limit, 0, most);
        place.read(challenger, 0, p);
        place.read(challenger + size, 0, q);
        place.read(holder, 0, f);
        place.read(holder + size, 0, g);
        place.read(scales, 0, held);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            const float weight = is_limited && !(scale <= most[r]) ? 0.0f : smoothed[0][r];
            f[r] = without_faint(f[r] + weight * (p[r] - f[r]));
            g[r] = without_faint(g[r] + weight * (q[r] - g[r]));
            held[r] += weight * (scale - held[r]);
        }
        place.write(f, holder);
        place.write(g, holder + size);
        place.write(held, scales);
    }
};
// The weight itself is wanted by nobody, and is not written.
#define HANDED_OVER                                                                                              \
    float *, const float *__restrict__ limit, int is_limited, float scale, const float *__restrict__ challenger, \
        float *holder, float *scales
#define HAND_OVER HandOver{pass.size(), limit, is_limited, scale, challenger, holder, scales}

extern "C" __global__ void hand_over_across(PASS, HANDED_OVER)
{
    const Pass pass = THE_PASS;
    smooth<Across, 1>(pass, HAND_OVER);
}

extern "C" __global__ void hand_over_along(PASS, HANDED_OVER)
{
    const Pass pass = THE_PASS;
    smooth<Along, 1>(pass, HAND_OVER);
}

#define FOR_EVERY_VOXEL(i, size)                                                                      \
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                             \
    if (i >= (size)) return

extern "C" __global__ void clear_faint(long long size, float* __restrict__ values)
{
    FOR_EVERY_VOXEL(i, size);
    values[i] = without_faint(values[i]);
}

extern "C" __global__ void average(
    long long size, const float* __restrict__ first, const float* __restrict__ second, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    out[i] = 0.5f * (first[i] + second[i]);
}

extern "C" __global__ void raise_to(
    long long size, float* __restrict__ values, const float* __restrict__ floor, float share, float least)
{
    FOR_EVERY_VOXEL(i, size);
    float raised = share * floor[i];
    raised = values[i] > raised ? values[i] : raised;
    values[i] = raised > least ? raised : least;
}

extern "C" __global__ void dispersion(
    long long size, const float* __restrict__ first, const float* __restrict__ second,
    const float* __restrict__ reference, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    const float spread = 0.5f * (first[i] - second[i]);
    out[i] = fabsf(spread) > FAINT ? spread * (spread / reference[i]) : 0.0f;
}

extern "C" __global__ void standard_error(
    long long size, float* __restrict__ dispersion, const float* __restrict__ reference)
{
    FOR_EVERY_VOXEL(i, size);
    dispersion[i] = sqrtf(dispersion[i]) * sqrtf(reference[i]);
}

// Passes over all voxels that select scales, the counterpart of cpu.py: same names, same order of operations.
//
// Every voxel is one thread's, and there are no atomics: a result does not depend on the order of threads.
#include "smoothing.cuh"

constexpr float LARGEST = 1e30f;  // of differences of errors
constexpr float MIN_SHARE = 0.02f;  // see cpu.py
constexpr float FAINT = 1e-28f;  // of volumes near 1: less counts as nothing, see cpu.py

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

// A number that can be smoothed, see cpu.py.
__device__ __forceinline__ float bounded(float difference)
{
    if (difference < -LARGEST) return -LARGEST;
    return difference <= LARGEST ? difference : LARGEST;
}

// What a candidate is compared by, see scale_selection.py; `difference` is written.
struct Comparison {
    const float* pilot;
    const float* halves;
    const float* best;
    const float* reference;
    float* difference;
    const float* gain;
    float noise;
    int is_guided;
};

struct Evaluate {
    size_t size;
    float* again;
    const float* __restrict__ pilot;
    const float* __restrict__ halves;
    const float* __restrict__ best;
    const float* __restrict__ reference;
    float* difference;
    const float* __restrict__ gain;
    float noise;
    int is_guided;

    __device__ Evaluate(size_t size, float* again, const Comparison& c)
        : size(size), again(again), pilot(c.pilot), halves(c.halves), best(c.best), reference(c.reference),
          difference(c.difference), gain(c.gain), noise(c.noise), is_guided(c.is_guided)
    {
    }
    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[2][FOUR]) const
    {
        float p[FOUR], q[FOUR], a[FOUR], b[FOUR], f[FOUR], g[FOUR], relative_to[FOUR], less[FOUR];
        float factor[FOUR] = {1.0f, 1.0f, 1.0f, 1.0f};
        place.read(pilot, 0, p);
        place.read(pilot + size, 0, q);
        place.read(halves, 0, a);
        place.read(halves + size, 0, b);
        place.read(best, 0, f);
        place.read(best + size, 0, g);
        place.read(reference, 0, relative_to);
        if (is_guided) place.read(gain, 0, factor);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            const float inverse = 1.0f / relative_to[r];
            p[r] = corrected(p[r], factor[r] * smoothed[0][r]);
            q[r] = corrected(q[r], factor[r] * smoothed[1][r]);
            const float now = error_of(p[r], q[r], a[r], b[r], inverse, noise);
            const float before = error_of(f[r], g[r], a[r], b[r], inverse, noise);
            less[r] = bounded((now - before) * sqrtf(relative_to[r]));
        }
        place.write(p, again);
        place.write(q, again + size);
        place.write(less, difference);
    }
};

extern "C" __global__ void evaluate_across(PASS, float* __restrict__ again, const Comparison comparison)
{
    const Pass pass = THE_PASS;
    smooth<Across, 2>(pass, Evaluate(pass.size(), again, comparison));
}

extern "C" __global__ void evaluate_along(PASS, float* __restrict__ again, const Comparison comparison)
{
    const Pass pass = THE_PASS;
    smooth<Along, 2>(pass, Evaluate(pass.size(), again, comparison));
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

extern "C" __global__ void decide_across(PASS, float* __restrict__ weight)
{
    smooth<Across, 1>(THE_PASS, Decide{weight});
}

extern "C" __global__ void decide_along(PASS, float* __restrict__ weight)
{
    smooth<Along, 1>(THE_PASS, Decide{weight});
}

__device__ __forceinline__ float without_faint(float value) { return fabsf(value) > FAINT ? value : 0.0f; }

// How the current best is moved toward a candidate, see scale_selection.py.
struct Update {
    const float* limit;
    const float* candidate;
    float* best;
    float* scales;
    float scale;
    int is_limited;
};

struct UpdateBest {
    size_t size;
    const float* __restrict__ limit;
    const float* __restrict__ candidate;
    float* best;
    float* scales;
    float scale;
    int is_limited;

    __device__ UpdateBest(size_t size, const Update& u)
        : size(size), limit(u.limit), candidate(u.candidate), best(u.best), scales(u.scales), scale(u.scale),
          is_limited(u.is_limited)
    {
    }
    template <class Place>
    __device__ void operator()(const Place& place, const float (&smoothed)[1][FOUR]) const
    {
        float most[FOUR], p[FOUR], q[FOUR], f[FOUR], g[FOUR], held[FOUR];
        if (is_limited) place.read(limit, 0, most);
        place.read(candidate, 0, p);
        place.read(candidate + size, 0, q);
        place.read(best, 0, f);
        place.read(best + size, 0, g);
        place.read(scales, 0, held);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            const float weight = is_limited && !(scale <= most[r]) ? 0.0f : smoothed[0][r];
            f[r] = without_faint(f[r] + weight * (p[r] - f[r]));
            g[r] = without_faint(g[r] + weight * (q[r] - g[r]));
            held[r] += weight * (scale - held[r]);
        }
        place.write(f, best);
        place.write(g, best + size);
        place.write(held, scales);
    }
};

// The weight itself is not written.
extern "C" __global__ void update_best_across(PASS, float*, const Update update)
{
    const Pass pass = THE_PASS;
    smooth<Across, 1>(pass, UpdateBest(pass.size(), update));
}

extern "C" __global__ void update_best_along(PASS, float*, const Update update)
{
    const Pass pass = THE_PASS;
    smooth<Along, 1>(pass, UpdateBest(pass.size(), update));
}

#define FOR_EVERY_VOXEL(i, size)                                                                                       \
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                                              \
    if (i >= (size)) return

// Voxels of the same label without a gap below and above each voxel of a line, 255 at most, the counterpart of
// problem.py; `same` tells which voxels have the label of the one before them.
extern "C" __global__ void count_equal(
    long long lines, int n, int behind, const unsigned char* __restrict__ same, unsigned char* __restrict__ below,
    unsigned char* __restrict__ above)
{
    FOR_EVERY_VOXEL(line, lines);
    const size_t first = line / behind * n * behind + line % behind;
    int count = 0;
    for (int i = 0; i < n; ++i) {
        const size_t place = first + (size_t)i * behind;
        count = same[place] ? min(count + 1, 255) : 0;
        below[place] = (unsigned char)count;
    }
    count = 0;
    for (int i = n - 1; i >= 0; --i) {
        const size_t place = first + (size_t)i * behind;
        above[place] = (unsigned char)count;
        count = same[place] ? min(count + 1, 255) : 0;
    }
}

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

extern "C" __global__ void compare_to(
    long long size, const float* __restrict__ smoothed, const float* __restrict__ guide, float* out)
{
    FOR_EVERY_VOXEL(i, size);
    const float below = smoothed[i], g = guide[i];
    out[i] = below > MIN_SHARE * g ? g / below : 1.0f;
}

extern "C" __global__ void scale_by(long long size, float* __restrict__ values, const float* __restrict__ factors)
{
    FOR_EVERY_VOXEL(i, size);
    values[i] *= factors[i];
}

extern "C" __global__ void dispersion(
    long long size, const float* __restrict__ first, const float* __restrict__ second,
    const float* __restrict__ reference, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    const float spread = 0.5f * (first[i] - second[i]);
    out[i] = fabsf(spread) > FAINT ? spread * (spread / reference[i]) : 0.0f;
}

extern "C" __global__ void squared_bias(
    long long size, const float* __restrict__ first, const float* __restrict__ second, const float* __restrict__ half,
    const float* __restrict__ other, const float* __restrict__ reference, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    const float found = (first[i] - half[i]) * ((second[i] - other[i]) / reference[i]);
    out[i] = fabsf(found) > FAINT ? found : 0.0f;
}

extern "C" __global__ void add_positive(long long size, float* __restrict__ values, const float* __restrict__ more)
{
    FOR_EVERY_VOXEL(i, size);
    values[i] += more[i] > 0.0f ? more[i] : 0.0f;
}

extern "C" __global__ void standard_error(
    long long size, float* __restrict__ dispersion, const float* __restrict__ reference)
{
    FOR_EVERY_VOXEL(i, size);
    dispersion[i] = sqrtf(dispersion[i]) * sqrtf(reference[i]);
}

#pragma once
// From the sums of a window to contrast, index and mask, the counterpart of finishing.py: same names, same order of operations.
#ifndef KIND
#define KIND 1  // of the index: 0 none, 1 reciprocal, 2 K^2, 3 inverse correlation time, 4 relative to a baseline
#endif
#ifndef MASK
#define MASK 1  // whether the validity mask is requested
#endif
#ifndef NOISE
#define NOISE 0  // whether the camera's noise is subtracted
#endif
#ifndef ALIGNED
#define ALIGNED 1
#endif
#ifndef DARK
#define DARK 0
#endif
#ifndef IEEE
#define IEEE 0  // whether divisions and roots are rounded to nearest, as on the CPU; else they are within 1 ulp of that
#endif

enum Edges { VALID, REFLECT, SHRINK, ZERO };
enum Bit { EDGE = 1, ZERO_MEAN = 2, ZERO_VARIANCE = 4, SATURATED = 8, LOW_SIGNAL = 16, BELOW_NOISE = 32 };
enum Table { TABLE_STEPS = 1024 };
#define SERIES_BELOW 0.1f
#define STEPS_PER_K (1024.0f / 0.9f)

__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7FC00000); }

// a / b of positive b: an approximate reciprocal and one correction, without the cases of infinite and tiny numbers.
__device__ __forceinline__ float divide(float a, float b)
{
#if IEEE
    return __fdiv_rn(a, b);
#else
    const float inverse = __fdividef(1.0f, b), quotient = a * inverse;
    return __fmaf_rn(__fmaf_rn(-quotient, b, a), inverse, quotient);
#endif
}

__device__ __forceinline__ float root(float a)
{
#if IEEE
    return __fsqrt_rn(a);
#else
    const float inverse = rsqrtf(a), rough = a * inverse;
    const float better = __fmaf_rn(__fmaf_rn(-rough, rough, a), 0.5f * inverse, rough);
    return a == 0.0f ? 0.0f : better;
#endif
}

// Argument of kernels that turn sums into maps: planes, one value per pixel; maps, null where not requested; numbers.
struct Finishing {
    const float* floor;
    const float* baseline;
    const float2* table;
    float* contrast;
    float* index;
    unsigned char* mask;
    int samples;  // N of a whole window
    float unbiased;  // N / (N - 1)
    float scale, beta, top, gain, low;
};

// Numbers that are the same for all pixels.
struct Rule {
    int samples;  // N of a whole window
    float unbiased;  // N / (N - 1)
    float scale, beta, top, gain, low;
};

// Numbers of a window.
struct Window {
    float count, unbiased;
    float floor, baseline;
    int saturated;  // samples that are
};

// Maps of all frames; null where not requested.
struct Maps {
    float *contrast, *index;
    unsigned char* mask;
};

__device__ __forceinline__ Rule rule_of(const Finishing& f)
{
    return {f.samples, f.unbiased, f.scale, f.beta, f.top, f.gain, f.low};
}

__device__ __forceinline__ Maps maps_of(const Finishing& f) { return {f.contrast, f.index, f.mask}; }

struct Pixel {
    float contrast, index;
    unsigned char mask;
};

// A window of so many samples.
__device__ __forceinline__ Window window_of(int samples, const Rule& r)
{
    const float count = (float)samples;
    return {count, samples == r.samples ? r.unbiased : __fdiv_rn(count, count - 1.0f), 0.0f, 0.0f, 0};
}

__device__ __forceinline__ Window whole_window(const Rule& r) { return {(float)r.samples, r.unbiased, 0.0f, 0.0f, 0}; }

// x = T / tau of a K^2 / beta, from the table by cubic interpolation.
__device__ __forceinline__ float decay_of(float k2, const float2* __restrict__ table)
{
    if (!(k2 > 0.0f)) return not_a_number();
    if (k2 >= 1.0f) return 0.0f;
    if (k2 < SERIES_BELOW) return divide(1.0f + root(1.0f - 2.0f * k2), 2.0f * k2);
    const float place = (k2 - SERIES_BELOW) * STEPS_PER_K;
    const int at = min((int)place, TABLE_STEPS - 1);
    const float t = place - (float)at;
    const float2 low = table[at], high = table[at + 1];
    const float rise = high.x - low.x;
    const float bend = 2.0f * low.y + high.y - 2.0f * rise - rise;
    const float twist = low.y + high.y - 2.0f * rise;
    return low.x + t * (low.y - t * (bend - t * twist));
}

// An index, which is not finite where the variance is zero and unknown where it or the mean is negative.
__device__ __forceinline__ float guarded(float value, float a, float level, float top)
{
    const float positive = !NOISE || a > 0.0f ? value : not_a_number();  // without noise it cannot be negative
    const float known = a == 0.0f ? top : positive;
    return level > 0.0f ? known : not_a_number();
}

__device__ __forceinline__ float index_of(float a, float level, const Window& w, const Rule& r, const float2* table)
{
#if KIND == 1
    return guarded(divide(level * level, a * r.scale), a, level, r.top);
#elif KIND == 2
    return level > 0.0f ? divide(a, level * level) : not_a_number();
#elif KIND == 3
    return guarded(decay_of(divide(a, level * level * r.beta), table) * r.scale, a, level, r.top);
#else
    return guarded(divide(level * level * w.baseline, a), a, level, r.top);
#endif
}

// N^2 times the variance without shot noise and the noise floor, and without the bias of the noise of S in a / S^2.
__device__ __forceinline__ float subtract_noise(float a, float level, const Window& w, float gain)
{
    const float f = w.count * w.count * w.floor, square = level * level;
    const float near = fmaxf(square + (__fdiv_rn(3.0f, w.count) * f - gain * level), 0.5f * square);
    const float inverse = __fdiv_rn(level, near);
    return (a - (gain * w.count * level + f) - 2.0f * gain * f * inverse) * (level * inverse);
}

// From S and D, rounded once, and whether D is zero.
__device__ __forceinline__ Pixel
finish(float level, float deviation, const Window& w, const Rule& r, const float2* table)
{
    float a = deviation * w.unbiased;
#if NOISE
    a = subtract_noise(a, level, w, r.gain);
#endif
    Pixel found;
    found.contrast = divide(root(NOISE ? fabsf(a) : a), level);  // NaN of itself at level 0, unless by IEEE
    if (NOISE && a < 0.0f) found.contrast = -found.contrast;
    if ((DARK || IEEE) && !(level > 0.0f)) found.contrast = not_a_number();
#if KIND
    found.index = index_of(a, level, w, r, table);
#endif
#if MASK
    int bits = a < 0.0f ? BELOW_NOISE : 0;
    if (deviation == 0.0f) bits = ZERO_VARIANCE;
    if (!(level > 0.0f)) bits = ZERO_MEAN;
    if (w.saturated > 0) bits |= SATURATED;
    if (level < r.low * w.count) bits |= LOW_SIGNAL;
    found.mask = (unsigned char)bits;
#endif
    return found;
}

__device__ __forceinline__ void set_pixel(const Maps& maps, size_t i, const Pixel& found)
{
    maps.contrast[i] = found.contrast;
#if KIND
    maps.index[i] = found.index;
#endif
#if MASK
    maps.mask[i] = found.mask;
#endif
}

// Up to four neighbors, with one store for each map if they are aligned.
__device__ __forceinline__ void set_pixels(const Maps& maps, size_t i, const Pixel (&found)[4], int count)
{
#if !ALIGNED
    for (int k = 0; k < 4; ++k)
        if (k < count) set_pixel(maps, i + k, found[k]);
#else
    __stcs(
        (float4*)(maps.contrast + i),
        make_float4(found[0].contrast, found[1].contrast, found[2].contrast, found[3].contrast));
#if KIND
    __stcs((float4*)(maps.index + i), make_float4(found[0].index, found[1].index, found[2].index, found[3].index));
#endif
#if MASK
    *(uchar4*)(maps.mask + i) = make_uchar4(found[0].mask, found[1].mask, found[2].mask, found[3].mask);
#endif
#endif
}

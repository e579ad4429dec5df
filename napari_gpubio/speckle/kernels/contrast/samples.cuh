#pragma once
// Four neighboring samples of a row at a time, and their exact sums; the counterpart of what windows.py does by rows.
#ifndef PIXEL
#define PIXEL unsigned short
#endif
#ifndef DARK
#define DARK 0  // whether a dark level is subtracted
#endif
#ifndef WIDE
#define WIDE 1  // whether sums of squares need 64 bits
#endif
#ifndef MANY
#define MANY 0  // whether sums of samples need all of 32 bits
#endif
#ifndef MASK
#define MASK 1
#endif
#ifndef ALIGNED
#define ALIGNED 1  // whether rows (of sequences: frames) have a multiple of four pixels
#endif

enum Lengths { QUAD = 4 };

#if DARK
typedef long long Sum;
#else
typedef unsigned int Sum;
#endif
#if WIDE
typedef unsigned long long Squares;
#else
typedef unsigned int Squares;
#endif

// Frames, their dark level, steps of a sample per ADU, and the level of saturation.
struct Stack {
    const PIXEL* frames;
    const int* dark;
    int unit, level;
};

// Sums over frames, (maps, Y, X) each.
struct SumPlanes {
    Sum* s;
    Squares* q;
    unsigned int* saturated;
};

// Samples as stored in memory: unpacking them later lets a load overlap with other work.
struct __align__(QUAD * sizeof(PIXEL)) Packed { unsigned int word[sizeof(PIXEL)]; };

__device__ __forceinline__ int part_of(const Packed& packed, int k)
{
    const int bits = 8 * (int)sizeof(PIXEL), first = k * bits;
    return (int)(packed.word[first / 32] >> first % 32 & ((1u << bits) - 1));
}

// Samples less their dark level, in units that make both integers; and which of them are saturated.
struct Quad {
    int value[QUAD];
    int saturated[QUAD];
};

struct QuadSums {
    Sum s[QUAD];
    Squares q[QUAD];
    unsigned int saturated[QUAD];
};

#if DARK
typedef Quad Loaded;
#else
typedef Packed Loaded;
#endif

__device__ __forceinline__ Loaded no_samples()
{
    Loaded loaded;
#if DARK
    for (int k = 0; k < QUAD; ++k) loaded.value[k] = loaded.saturated[k] = 0;
#else
    for (unsigned int& word : loaded.word) word = 0;
#endif
    return loaded;
}

// Set one of four; ``i`` is its pixel in the frame.
__device__ __forceinline__ void set_sample(
    Loaded& loaded, int k, PIXEL raw, const int* dark, size_t i, int unit, int level)
{
#if DARK
    loaded.value[k] = unit * raw - dark[i];
    loaded.saturated[k] = raw >= level;
#else
    const int first = k * 8 * (int)sizeof(PIXEL);
    loaded.word[first / 32] |= (unsigned int)raw << first % 32;  // which was zero
#endif
}

// The samples of four pixels from ``i`` on, with one load.
__device__ __forceinline__ Loaded load_aligned(const PIXEL* frame, const int* dark, size_t i, int unit, int level)
{
    const Packed raw = *(const Packed*)(frame + i);
#if DARK
    Loaded loaded;
    for (int k = 0; k < QUAD; ++k) set_sample(loaded, k, (PIXEL)part_of(raw, k), dark, i + k, unit, level);
    return loaded;
#else
    return raw;
#endif
}

__device__ __forceinline__ Quad values_of(const Loaded& loaded, int level)
{
#if DARK
    return loaded;
#else
    Quad quad;
    for (int k = 0; k < QUAD; ++k) {
        quad.value[k] = part_of(loaded, k);
        quad.saturated[k] = MASK && quad.value[k] >= level;
    }
    return quad;
#endif
}

__device__ __forceinline__ QuadSums no_sums()
{
    QuadSums sums;
    for (int k = 0; k < QUAD; ++k) sums.s[k] = 0, sums.q[k] = 0, sums.saturated[k] = 0;
    return sums;
}

// Add one quad and drop another: a^2 - b^2 = (a - b)(a + b).
__device__ __forceinline__ void slide(QuadSums& sums, const Loaded& now, const Loaded& before, int level)
{
    const Quad added = values_of(now, level), dropped = values_of(before, level);
    for (int k = 0; k < QUAD; ++k) {
        const int difference = added.value[k] - dropped.value[k], sum = added.value[k] + dropped.value[k];
        sums.s[k] += (Sum)difference;
#if WIDE
        sums.q[k] += (Squares)((long long)difference * sum);
#else
        sums.q[k] += (Squares)(difference * sum);
#endif
#if MASK
        sums.saturated[k] += (unsigned int)(added.saturated[k] - dropped.saturated[k]);
#endif
    }
}

// D = N Q - S^2, exactly, and then as single precision.
__device__ __forceinline__ float deviation_of(Sum s, Squares q, int samples)
{
    const long long products = (long long)((unsigned long long)(unsigned int)samples * q);
#if DARK
    return (float)(products - s * s);
#elif MANY
    return (float)(long long)((unsigned long long)products - (unsigned long long)s * s);
#else
    return (float)(products + (long long)(int)s * -(int)s);  // one instruction, where S is a positive int
#endif
}

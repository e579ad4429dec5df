// Votes of a warp into shared bins, and what samples add up to besides. All lanes of a warp come here together.
#pragma once
#include "sampling.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int SIMD_WIDTH = 32;
typedef unsigned long long u64;
constexpr unsigned INFINITE = 0x7f800000u;  // the bits of a float

struct Found {
    u64 total, rest;  // dose in fine steps, and what is below a step in parts of it
    unsigned outside;  // 32 bits are enough for a task
    unsigned low, high;  // bits of floats that are not negative, which are ordered as the floats are

    __device__ void clear()
    {
        total = rest = 0;
        outside = 0;
        low = INFINITE;
        high = 0u;
    }
};

// Where an organ's bins and sums are kept; extremes of organ n in row r are at r * organs + n.
struct Sums {
    u64 *counts, *totals, *rests, *outside;
    unsigned *low, *high;
};

__device__ __forceinline__ unsigned warp_sum(unsigned n)
{
    for (int lanes = SIMD_WIDTH / 2; lanes > 0; lanes /= 2) n += __shfl_xor_sync(ALL, n, lanes);
    return n;
}

// One sample of each lane that has a bin; the others have -1. Where all lanes meet in one bin, one of them adds.
__device__ __forceinline__ void vote(unsigned* bins, int bin, unsigned weight)
{
    const int first = __shfl_sync(ALL, bin, 0);
    if (__all_sync(ALL, bin == first)) {
        const unsigned sum = warp_sum(weight);
        if (first >= 0 && threadIdx.x % SIMD_WIDTH == 0) atomicAdd(&bins[first], sum);
    } else if (bin >= 0) {
        atomicAdd(&bins[bin], weight);
    }
}

// The bin of a sample, or -1 outside the dose; what else it adds is put to what was found.
__device__ __forceinline__ int look_up(Volume volume, BinRule rule, Place place, unsigned weight, Found& found)
{
    const float value = dose_at(volume, place);
    if (value < 0.0f) {
        found.outside += weight;
        return -1;
    }
    const float fine = value * rule.fine;
    const unsigned steps = (unsigned)fine;
    found.total += (u64)weight * steps;
    found.rest += (u64)weight * (unsigned)((fine - (float)steps) * FINE_STEPS);
    found.low = min(found.low, __float_as_uint(value));
    found.high = max(found.high, __float_as_uint(value));
    return bin_of(rule, value);
}

// Put to the extremes what was found, or mark that one of them is lost with it (``sign`` -1): the largest value becomes
// infinite. Most often nothing changes, so they are read first, as other blocks left them.
__device__ __forceinline__ void keep_extremes(unsigned* low, unsigned* high, Found found, int sign)
{
    if (found.low > found.high) return;  // nothing was found
    const unsigned least = *(volatile unsigned*)low, largest = *(volatile unsigned*)high;
    if (sign < 0) {
        if (found.low <= least || found.high >= largest) atomicMax(high, INFINITE);
        return;
    }
    if (found.low < least) atomicMin(low, found.low);
    if (found.high > largest) atomicMax(high, found.high);
}

// What all lanes of a warp have found of an organ. ``sign`` -1 takes off what is found, 0 leaves all but the extremes as
// it is.
__device__ __forceinline__ void keep_together(Sums sums, int organ, size_t extremes, Found found, int sign)
{
    for (int lanes = SIMD_WIDTH / 2; lanes > 0; lanes /= 2) {
        found.total += __shfl_xor_sync(ALL, found.total, lanes);
        found.rest += __shfl_xor_sync(ALL, found.rest, lanes);
        found.outside += __shfl_xor_sync(ALL, found.outside, lanes);
        found.low = min(found.low, __shfl_xor_sync(ALL, found.low, lanes));
        found.high = max(found.high, __shfl_xor_sync(ALL, found.high, lanes));
    }
    if (threadIdx.x % SIMD_WIDTH != 0) return;
    if (sign != 0 && found.total) atomicAdd(&sums.totals[organ], sign > 0 ? found.total : 0 - found.total);
    if (sign != 0 && found.rest) atomicAdd(&sums.rests[organ], sign > 0 ? found.rest : 0 - found.rest);
    const u64 outside = found.outside;
    if (sign != 0 && outside) atomicAdd(&sums.outside[organ], sign > 0 ? outside : 0 - outside);
    keep_extremes(&sums.low[extremes], &sums.high[extremes], found, sign);
}

__device__ __forceinline__ void clear_bins(unsigned* bins, int count)
{
    for (int n = threadIdx.x; n < count; n += blockDim.x) bins[n] = 0;
}

// Add the copies of an organ's bins to its counts.
__device__ __forceinline__ void flush_bins(const unsigned* bins, int copies, int count, u64* counts, int sign)
{
    for (int n = threadIdx.x; n < count; n += blockDim.x) {
        u64 sum = 0;
        for (int copy = 0; copy < copies; ++copy) sum += bins[copy * count + n];
        if (sum) atomicAdd(&counts[n], sign < 0 ? 0 - sum : sum);
    }
}

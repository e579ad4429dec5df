#pragma once
// xoshiro128++ (Blackman & Vigna, ACM TOMS 47, 2021) begun by Philox: for an item that draws thousands of numbers in a
// row, at a quarter of Philox's price. The numbers still depend on (seed, item) only. Counterpart: xoshiro.py.
#include "philox.cuh"

struct Xoshiro {
    unsigned int a, b, c, d;

    __device__ __forceinline__ void begin(unsigned long long seed, unsigned long long item)
    {
        Philox random(seed, item);
        random.refill();
        a = random.out[0];
        b = random.out[1];
        c = random.out[2];
        d = random.out[3];
    }

    __device__ __forceinline__ unsigned int next()
    {
        const unsigned int sum = a + d, bits = (sum << 7 | sum >> 25) + a, shifted = b << 9;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= shifted;
        d = d << 11 | d >> 21;
        return bits;
    }

    __device__ __forceinline__ float uniform() { return unit_float(next()); }
};

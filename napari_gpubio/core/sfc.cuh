#pragma once
// sfc32 (C. Doty-Humphrey, PractRand, 2013) begun by Philox: for an item that draws thousands of numbers in a row, at a
// sixth of Philox's price. The numbers still depend on (seed, item) only. Counterpart: sfc.py.
#include "philox.cuh"

struct Sfc {
    unsigned int a, b, c, counter;

    __device__ __forceinline__ void begin(unsigned long long seed, unsigned long long item)
    {
        Philox random(seed, item);
        random.refill();
        a = random.out[0];
        b = random.out[1];
        c = random.out[2];
        counter = random.out[3];
    }

    __device__ __forceinline__ unsigned int next()
    {
        const unsigned int bits = a + b + counter++;
        a = b ^ b >> 9;
        b = c + (c << 3);
        c = (c << 21 | c >> 11) + bits;
        return bits;
    }

    __device__ __forceinline__ float uniform() { return unit_float(next()); }
};

#pragma once
// Philox4x32-10 (Salmon et al., SC11), a counter-based generator: (seed, 64-bit item, draw) -> 32 random bits.
// Its backend is philox.py; both give the same numbers.
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

// 32 random bits as a float in the open interval (0, 1): (bits / 512 + 1/2) / 2^23, exactly. 23 bits, since 24 bits and
// a half can round up to 1.
__device__ __forceinline__ float unit_float(unsigned int bits)
{
    return __uint_as_float(bits >> 9 | 0x3F800000u) - 0.99999994f;
}

struct Philox {
    unsigned int key0, key1, block, item0, item1, out[4];
    int left;

    __device__ Philox(unsigned long long seed, unsigned long long item)
        : key0((unsigned int)seed), key1((unsigned int)(seed >> 32)), block(0u), item0((unsigned int)item),
          item1((unsigned int)(item >> 32)), left(0)
    {
    }

    __device__ void refill()
    {
        unsigned int c0 = block, c1 = item0, c2 = item1, c3 = 0u, k0 = key0, k1 = key1;
        for (int round = 0; round < 10; ++round) {
            const unsigned long long p = 0xD2511F53ull * c0, q = 0xCD9E8D57ull * c2;
            const unsigned int next0 = (unsigned int)(q >> 32) ^ c1 ^ k0;
            const unsigned int next2 = (unsigned int)(p >> 32) ^ c3 ^ k1;
            c1 = (unsigned int)q;
            c3 = (unsigned int)p;
            c0 = next0;
            c2 = next2;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        out[0] = c0;
        out[1] = c1;
        out[2] = c2;
        out[3] = c3;
        left = 4;
        ++block;
    }

    __device__ unsigned int next()
    {
        if (!left) refill();
        return out[4 - left--];
    }

    __device__ float uniform() { return unit_float(next()); }
};

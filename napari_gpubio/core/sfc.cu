// The generator alone, so that tests can compare it with its CPU backend on every device.
#include "sfc.cuh"

extern "C" __global__ void fill_words(
    unsigned long long seed, unsigned long long first_item, int items, int words, unsigned int* __restrict__ out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < items; i += gridDim.x * blockDim.x) {
        Sfc random;
        random.begin(seed, first_item + (unsigned long long)i);
        for (int q = 0; q < words; ++q) out[(size_t)i * words + q] = random.next();
    }
}

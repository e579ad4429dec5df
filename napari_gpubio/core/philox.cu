// The generator alone, so that tests can compare it with its CPU backend on every device.
#include "philox.cuh"

extern "C" __global__ void fill_uniform(
    unsigned long long seed, unsigned long long first_item, int items, int draws, float* __restrict__ out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < items; i += gridDim.x * blockDim.x) {
        Philox random(seed, first_item + (unsigned long long)i);
        for (int d = 0; d < draws; ++d) out[(size_t)i * draws + d] = random.uniform();
    }
}

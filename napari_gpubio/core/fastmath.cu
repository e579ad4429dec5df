// The functions of fastmath.cuh on arrays, for tests against the backend.
#include "fastmath.cuh"

extern "C" __global__ void fill_fastmath(
    const unsigned int* __restrict__ bits, const float* __restrict__ u, const float* __restrict__ x, int count,
    float* __restrict__ out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float* row = out + 5 * (size_t)i;
    row[0] = minus_log(u[i]);
    row[1] = decay(x[i]);
    row[2] = mean_decay(x[i]);
    turn(bits[i], row + 3, row + 4);
}

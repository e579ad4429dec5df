// Tensors of bootstrap repeats, the counterpart of cpu.py: same order of operations. One thread a voxel; arrays have the
// voxel last, so that neighbors read neighbors. Compiled strictly.
#include "philox.cuh"

// The arguments of the kernel; problem.py describes them.
struct DrawArrays {
    const double* tensors;
    const float* shifts;
    const unsigned int* voxels;
    double* out;
    unsigned long long seed;
    int count;
    int volumes;
};

extern "C" __global__ void draw_rows(DrawArrays a, int repeat)
{
    const long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x, m = a.count;
    if (n >= m) return;
    double tensor[6];
    for (int i = 0; i < 6; ++i) tensor[i] = a.tensors[i * m + n];
    Philox random(a.seed, ((unsigned long long)repeat << 32) | a.voxels[n]);
    unsigned int word = 0;
    for (int v = 0; v < a.volumes; ++v) {
        if (v % 32 == 0) word = random.next();
        const double sign = word >> v % 32 & 1u ? 1.0 : -1.0;
        for (int i = 0; i < 6; ++i) tensor[i] += sign * a.shifts[(6ll * v + i) * m + n];
    }
    for (int i = 0; i < 6; ++i) a.out[n * 6 + i] = tensor[i];
}

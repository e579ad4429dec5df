#pragma once
// Where rays begin, what they write, and how they are put together to fibers; the counterpart of packing.py.
#include "vectors.cuh"

// The arguments of the kernels; problem.py describes them.
struct Rays {
    const real* seeds;
    const real* directions;
    const long long* numbers;
    const real* limits;
    int per_fiber;
    int count;
};

struct RayOutput {
    real* points;
    int* written;
    unsigned char* reasons;
    real* stats;
    int ray_points;
};

struct Fibers {
    const long long* offsets;
    const real* seed_values;
    float* points;
    float* values;
    double affine[12];
};

// Join the two rays of each fiber (backward reversed, seed, forward) and turn voxels into mm. One block a fiber.
extern "C" __global__ void pack(Rays rays, RayOutput output, Fibers fibers)
{
    const real* __restrict__ points = output.points;
    const int f = blockIdx.x;
    const long long first = fibers.offsets[f];
    const int count = (int)(fibers.offsets[f + 1] - first);
    const int back = rays.per_fiber == 2 ? output.written[2 * f + 1] : 0;
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
        const size_t forward = (size_t)rays.per_fiber * f;
        const real* from = p < back ? points + 4 * ((forward + 1) * output.ray_points + (back - 1 - p))
                                    : points + 4 * (forward * output.ray_points + (p - back - 1));
        const bool at_seed = p == back;
        const double x = at_seed ? rays.seeds[3 * f] : from[0];
        const double y = at_seed ? rays.seeds[3 * f + 1] : from[1];
        const double z = at_seed ? rays.seeds[3 * f + 2] : from[2];
        for (int a = 0; a < 3; ++a) {
            const double* row = fibers.affine + 4 * a;
            fibers.points[3 * (first + p) + a] = (float)(row[0] * x + row[1] * y + row[2] * z + row[3]);
        }
        fibers.values[first + p] = (float)(at_seed ? fibers.seed_values[f] : from[3]);
    }
}

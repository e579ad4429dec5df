// Ray tracing with interpolation in the kernel, and the packing of finished rays. Counterpart: cpu.py.
// A block is at most a warp. The 1 lets the compiler take as many registers as it likes: rays wait for memory, and a
// launch seldom has so many of them that more warps would help more than more loads under way in each.
#include "geodesic.cuh"

#define TRACE_KERNEL(NAME, KIND)                                                                                     \
    extern "C" __global__ void __launch_bounds__(32, 1)                                                              \
    NAME(const real* __restrict__ field, const float* __restrict__ guide, const unsigned char* __restrict__ mask,    \
         int masked, const real* __restrict__ euclid, int nx, int ny, int nz, const real* __restrict__ seeds,                    \
         const real* __restrict__ directions, int rays, int per_fiber, const real* __restrict__ limits, int stages,  \
         int measure, int max_steps, int every, int ray_points, real* __restrict__ points,                           \
         int* __restrict__ written, unsigned char* __restrict__ reasons, real* __restrict__ stats)                   \
    {                                                                                                                \
        trace<KIND>(GlobalField{field}, guide, mask, masked, euclid, Shape{nx, ny, nz}, seeds, directions, rays,     \
                    per_fiber, limits, stages, measure, max_steps, every, ray_points, points, written, reasons, stats);         \
    }

TRACE_KERNEL(trace_cubic, CUBIC)
TRACE_KERNEL(trace_linear, LINEAR)
TRACE_KERNEL(trace_vanaart, VANAART)
TRACE_KERNEL(trace_eudx, EUDX)

// Join the two rays of each fiber (backwards reversed, seed, forwards) and turn voxels into mm. One block a fiber.
extern "C" __global__ void pack(
    const double* __restrict__ affine, const real* __restrict__ seeds, const real* __restrict__ seed_fa, int per_fiber,
    const real* __restrict__ points, int ray_points, const int* __restrict__ written,
    const long long* __restrict__ offsets, float* __restrict__ packed, float* __restrict__ packed_fa)
{
    const int f = blockIdx.x;
    const long long first = offsets[f];
    const int count = (int)(offsets[f + 1] - first);
    const int back = per_fiber == 2 ? written[2 * f + 1] : 0;
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
        const real* from = p < back ? points + 4 * (((size_t)per_fiber * f + 1) * ray_points + (back - 1 - p))
                                    : points + 4 * ((size_t)per_fiber * f * ray_points + (p - back - 1));
        const bool at_seed = p == back;
        const double x = at_seed ? seeds[3 * f] : from[0];
        const double y = at_seed ? seeds[3 * f + 1] : from[1];
        const double z = at_seed ? seeds[3 * f + 2] : from[2];
        for (int a = 0; a < 3; ++a) {
            packed[3 * (first + p) + a] =
                (float)(affine[4 * a] * x + affine[4 * a + 1] * y + affine[4 * a + 2] * z + affine[4 * a + 3]);
        }
        packed_fa[first + p] = (float)(at_seed ? seed_fa[f] : from[3]);
    }
}

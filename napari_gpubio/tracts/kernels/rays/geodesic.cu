// Ray tracing with interpolation in the kernel, and the packing of finished rays. Counterpart: cpu.py.
// A block is at most a warp. The 1 lets the compiler take as many registers as it likes: rays wait for memory, and a
// launch seldom has so many of them that more warps would help more than more loads under way in each.
#include "geodesic.cuh"

#define TRACE_KERNEL(NAME, KIND)                                                                                       \
    extern "C" __global__ void __launch_bounds__(32, 1)                                                                \
        NAME(RayVolumes volumes, RaySettings settings, Rays rays, RayOutput output)                                    \
    {                                                                                                                  \
        trace<KIND>(GlobalField{volumes.field}, volumes, settings, rays, output);                                      \
    }

// LANES trace a ray together, each of which keeps KEPT of its components in registers; gpu.py chooses both.
#if defined(GPUBIO_ON_CPU) && !defined(EXCHANGE)
using Spline = SplineField<1, 6>;  // exchanges between lanes take long there
#else
using Spline = SplineField<LANES, KEPT>;
#endif

extern "C" __global__ void __launch_bounds__(32, 1)
    trace_cubic(RayVolumes volumes, RaySettings settings, Rays rays, RayOutput output)
{
    __shared__ Nodes shared[Spline::SHARED > 0 ? Spline::SHARED * 16 * 32 : 1];
    trace<CUBIC>(Spline(volumes.field, shared + threadIdx.x), volumes, settings, rays, output);
}

TRACE_KERNEL(trace_linear, LINEAR)
TRACE_KERNEL(trace_vanaart, VANAART)
TRACE_KERNEL(trace_eudx, EUDX)

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
        fibers.fa[first + p] = (float)(at_seed ? fibers.seed_fa[f] : from[3]);
    }
}

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

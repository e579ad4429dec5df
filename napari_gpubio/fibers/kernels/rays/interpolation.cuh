#pragma once
// Symmetric matrices of six components (xx, yy, zz, xy, xz, yz), and volumes between their voxels; the counterpart of
// interpolation.py: same names, same operation order. Positions are in voxels; volumes are stored (x, y, z, component).
#include "loop.cuh"

__device__ __forceinline__ void multiply(const real* m, real x, real y, real z, real* out)
{
    out[0] = m[0] * x + m[3] * y + m[4] * z;
    out[1] = m[3] * x + m[1] * y + m[5] * z;
    out[2] = m[4] * x + m[5] * y + m[2] * z;
}

__device__ __forceinline__ real quadratic(const real* m, real x, real y, real z)
{
    real a[3];
    multiply(m, x, y, z, a);
    return x * a[0] + y * a[1] + z * a[2];
}

struct Shape {
    int x, y, z;
};

// The arguments of the kernels; problem.py describes them.
struct RayVolumes {
    const real* field;
    const float* guide;
    const unsigned char* mask;
    real euclid[6];
    int shape[3];
};

struct RaySettings {
    int stages, measure, max_steps, every;
    real step_mm, least_fa, max_bend, max_drift, least_cos, above_fa, least_weight;
};

// What every ray reads beside the field: principal directions and FA of the voxels, the Euclidean metric.
struct Space {
    const float* __restrict__ guide;
    real euclid[6];
    Shape n;
    real least_cos, above_fa, least_weight;  // of the voxels that give a streamline its direction

    __device__ Space(const RayVolumes& v, const RaySettings& s)
        : guide(v.guide), n{v.shape[0], v.shape[1], v.shape[2]}, least_cos(s.least_cos), above_fa(s.above_fa),
          least_weight(s.least_weight)
    {
        for (int a = 0; a < 6; ++a) euclid[a] = v.euclid[a];
    }
};

// a * b + c, rounded once; the compiler fuses nothing else (--fmad=false), so that both backends round alike.
__device__ __forceinline__ real multiply_add(real a, real b, real c)
{
    if constexpr (sizeof(real) == sizeof(float))
        return __fmaf_rn(a, b, c);
    else
        return __fma_rn(a, b, c);
}

// Linear interpolation from f to g.
__device__ __forceinline__ real between(real f, real g, real t) { return multiply_add(g - f, t, f); }

// N components of a node, in loads of two: nodes are aligned to a pair of reals.
template <int N>
__device__ __forceinline__ void load(const real* __restrict__ node, real* out)
{
#pragma unroll
    for (int n = 0; n < N; n += 2) {
#if defined(GPUBIO_ON_CPU)
        out[n] = node[n];
        out[n + 1] = node[n + 1];
#else
        if (sizeof(real) == 4) {
            const float2 pair = __ldg(reinterpret_cast<const float2*>(node + n));
            out[n] = pair.x;
            out[n + 1] = pair.y;
        } else {
            const double2 pair = __ldg(reinterpret_cast<const double2*>(node + n));
            out[n] = pair.x;
            out[n + 1] = pair.y;
        }
#endif
    }
}

// Four components of a node of twenty-four, at once: these nodes are aligned to four floats.
__device__ __forceinline__ void load_four(const real* __restrict__ node, real* out)
{
#if !defined(GPUBIO_ON_CPU)
    if (sizeof(real) == 4) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(node));
        out[0] = four.x;
        out[1] = four.y;
        out[2] = four.z;
        out[3] = four.w;
        return;
    }
#endif
    load<4>(node, out);
}

__device__ __forceinline__ size_t node_index(int i, int j, int k, int ny, int nz)
{
    return ((size_t)i * ny + j) * nz + k;
}

// A volume in global memory, interpolated in the kernel.
struct GlobalField {
    using Group = Lanes<1>;
    enum { EAGER = 0 };  // not read ahead: the interpolation would wait for its loads then and there
    const real* __restrict__ data;

    // Value (s[0]) and gradient (s[1..3]) of the trilinear interpolant of six components.
    __device__ void linear(Shape n, real x, real y, real z, real s[4][6]) const
    {
        const int i = min((int)x, n.x - 2), j = min((int)y, n.y - 2), k = min((int)z, n.z - 2);
        const real a = x - real(i), b = y - real(j), c = z - real(k);
        const real* row00 = data + 6 * node_index(i, j, k, n.y, n.z);
        const real* row01 = row00 + 6 * (size_t)n.z;
        const real* row10 = row00 + 6 * (size_t)n.z * n.y;
        const real* row11 = row10 + 6 * (size_t)n.z;
        real f000[6], f001[6], f010[6], f011[6], f100[6], f101[6], f110[6], f111[6];
        load<6>(row00, f000);
        load<6>(row00 + 6, f001);
        load<6>(row01, f010);
        load<6>(row01 + 6, f011);
        load<6>(row10, f100);
        load<6>(row10 + 6, f101);
        load<6>(row11, f110);
        load<6>(row11 + 6, f111);
#pragma unroll
        for (int m = 0; m < 6; ++m) {
            const real x00 = between(f000[m], f100[m], a), x10 = between(f010[m], f110[m], a);
            const real x01 = between(f001[m], f101[m], a), x11 = between(f011[m], f111[m], a);
            const real y0 = between(x00, x10, b), y1 = between(x01, x11, b);
            const real g0 = between(f100[m] - f000[m], f110[m] - f010[m], b);
            const real g1 = between(f101[m] - f001[m], f111[m] - f011[m], b);
            const real h0 = x10 - x00, h1 = x11 - x01;
            s[0][m] = between(y0, y1, c);
            s[1][m] = between(g0, g1, c);
            s[2][m] = between(h0, h1, c);
            s[3][m] = y1 - y0;
        }
    }

    // Trilinear values of W and of the three differences of g.
    __device__ void four(Shape n, real x, real y, real z, real s[4][6]) const
    {
        const int i = min((int)x, n.x - 2), j = min((int)y, n.y - 2), k = min((int)z, n.z - 2);
        const real a = x - real(i), b = y - real(j), c = z - real(k);
        const real* row00 = data + 24 * node_index(i, j, k, n.y, n.z);
        const real* row01 = row00 + 24 * (size_t)n.z;
        const real* row10 = row00 + 24 * (size_t)n.z * n.y;
        const real* row11 = row10 + 24 * (size_t)n.z;
        real* out = &s[0][0];
#pragma unroll
        for (int t = 0; t < 24; t += 4) {
            real f000[4], f001[4], f010[4], f011[4], f100[4], f101[4], f110[4], f111[4];
            load_four(row00 + t, f000);
            load_four(row00 + 24 + t, f001);
            load_four(row01 + t, f010);
            load_four(row01 + 24 + t, f011);
            load_four(row10 + t, f100);
            load_four(row10 + 24 + t, f101);
            load_four(row11 + t, f110);
            load_four(row11 + 24 + t, f111);
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const real x00 = between(f000[m], f100[m], a), x10 = between(f010[m], f110[m], a);
                const real x01 = between(f001[m], f101[m], a), x11 = between(f011[m], f111[m], a);
                out[t + m] = between(between(x00, x10, b), between(x01, x11, b), c);
            }
        }
    }
};

// Trilinear principal direction (each voxel's sign made to agree with u) and FA; returns the weight of what counts.
// Directions count of voxels of more FA, whose angle to u has at least that cosine; FA counts of all of them.
__device__ __forceinline__ real sample_guide(
    const Space& space, const real* x, real ux, real uy, real uz, real least_cos, real above_fa, real out[4])
{
    const Shape n = space.n;
    const int i = min((int)x[0], n.x - 2), j = min((int)x[1], n.y - 2), k = min((int)x[2], n.z - 2);
    const real a = x[0] - real(i), b = x[1] - real(j), c = x[2] - real(k);
    real m[3];
    multiply(space.euclid, ux, uy, uz, m);
    out[0] = out[1] = out[2] = out[3] = real(0);
    real weight = real(0);
#pragma unroll
    for (int corner = 0; corner < 8; ++corner) {
        const int di = corner >> 2, dj = (corner >> 1) & 1, dk = corner & 1;
        const real w = (di ? a : real(1) - a) * (dj ? b : real(1) - b) * (dk ? c : real(1) - c);
        const float4 e =
            __ldg(reinterpret_cast<const float4*>(space.guide) + node_index(i + di, j + dj, k + dk, n.y, n.z));
        const real along = real(e.x) * m[0] + real(e.y) * m[1] + real(e.z) * m[2];
        const real counted = fabs(along) >= least_cos && real(e.w) > above_fa ? w : real(0);
        const real with_sign = along >= real(0) ? counted : -counted;
        out[0] += with_sign * real(e.x);
        out[1] += with_sign * real(e.y);
        out[2] += with_sign * real(e.z);
        out[3] += w * real(e.w);
        weight += counted;
    }
    return weight;
}

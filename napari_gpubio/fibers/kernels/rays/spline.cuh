#pragma once
// Cubic B-splines of six components, traced by one or more lanes a ray; the counterpart of `sample_cubic`.
#include "interpolation.cuh"

// Weighted sum of four nodes.
__device__ __forceinline__ real weighted(const real* w, real f0, real f1, real f2, real f3)
{
    return multiply_add(w[3], f3, multiply_add(w[2], f2, multiply_add(w[1], f1, w[0] * f0)));
}

// Weights of the four nodes of a cubic B-spline at fraction t, and their derivatives.
__device__ __forceinline__ void spline_weights(real t, real* w, real* d)
{
    const real u = real(1) - t, sixth = real(1) / real(6), half = real(0.5), two_thirds = real(2) / real(3);
    const real tt = t * t, uu = u * u;
    w[0] = uu * u * sixth;
    w[1] = multiply_add(tt, multiply_add(half, t, real(-1)), two_thirds);
    w[2] = multiply_add(uu, multiply_add(half, u, real(-1)), two_thirds);
    w[3] = tt * t * sixth;
    d[0] = -half * uu;
    d[1] = t * multiply_add(real(1.5), t, real(-2));
    d[2] = u * multiply_add(real(-1.5), u, real(2));
    d[3] = half * tt;
}

// Four nodes along z.
struct alignas(4 * sizeof(real)) Nodes {
    real at[4];
};

// The spline around one ray. A step is a fraction of a voxel, so the 4 x 4 x 4 nodes around the ray serve many samples:
// its lanes keep them until it enters another cell, each those of its own components, KEPT_COUNT of them in registers and the
// others in shared memory.
template <int LANE_COUNT, int KEPT_COUNT>
struct SplineField {
    using Group = Lanes<LANE_COUNT>;
    enum { EAGER = 1, COMPONENTS = 6 / LANE_COUNT, PAIRS = COMPONENTS / 2, SHARED = COMPONENTS - KEPT_COUNT };
    const real* __restrict__ data;
    Nodes* shared;  // of this thread; the next are 32 further
    int i, j, k;    // the cell; none in the beginning
    Nodes kept[KEPT_COUNT > 0 ? KEPT_COUNT : 1][16];

    __device__ SplineField(const real* field, Nodes* memory) : data(field), shared(memory), i(-1), j(-1), k(-1) {}

    // Components of a lane: pairs that lie together, then one of the rest.
    static __device__ __forceinline__ constexpr int lane_of(int component)
    {
        return component < 2 * PAIRS * LANE_COUNT ? component / (2 * PAIRS + (PAIRS == 0)) : component - 2 * PAIRS * LANE_COUNT;
    }

    static __device__ __forceinline__ constexpr int place_of(int component)
    {
        return component < 2 * PAIRS * LANE_COUNT ? component % (2 * PAIRS + (PAIRS == 0)) : 2 * PAIRS;
    }

    __device__ __forceinline__ void keep(int component, int row, const Nodes& nodes)
    {
        if (component < KEPT_COUNT)
            kept[component < KEPT_COUNT ? component : 0][row] = nodes;
        else
            shared[((component - KEPT_COUNT) * 16 + row) * 32] = nodes;
    }

    __device__ __forceinline__ Nodes nodes(int component, int row) const
    {
        if (component < KEPT_COUNT) return kept[component < KEPT_COUNT ? component : 0][row];
        return shared[((component - KEPT_COUNT) * 16 + row) * 32];
    }

    // Read the nodes around a cell; the volume is padded by one before, two behind.
    __device__ __forceinline__ void enter(Shape n, int x, int y, int z)
    {
        const int ny = n.y + 3, nz = n.z + 3, lane = Group::number();
        i = x;
        j = y;
        k = z;
#pragma unroll
        for (int row = 0; row < 16; ++row) {
            const real* first = data + 6 * node_index(i + row / 4, j + row % 4, k, ny, nz);
            Nodes read[COMPONENTS];
#pragma unroll
            for (int node = 0; node < 4; ++node) {
                real f[COMPONENTS + 1];
                load<2 * PAIRS>(first + 6 * node + 2 * PAIRS * lane, f);
                if (COMPONENTS % 2) f[2 * PAIRS] = __ldg(first + 6 * node + 2 * PAIRS * LANE_COUNT + lane);
#pragma unroll
                for (int c = 0; c < COMPONENTS; ++c) read[c].at[node] = f[c];
            }
#pragma unroll
            for (int c = 0; c < COMPONENTS; ++c) keep(c, row, read[c]);
        }
    }

    // Value (s[0]) and gradient (s[1..3]) of the spline; where the ray is not ok, anything.
    __device__ __forceinline__ void cubic(bool ok, Shape n, real x, real y, real z, real s[4][6])
    {
        if (ok && ((int)x != i || (int)y != j || (int)z != k)) enter(n, (int)x, (int)y, (int)z);
        real wx[4], wy[4], wz[4], gx[4], gy[4], gz[4], own[4][COMPONENTS];
        spline_weights(x - real(i), wx, gx);
        spline_weights(y - real(j), wy, gy);
        spline_weights(z - real(k), wz, gz);
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c) {
            real s0 = real(0), s1 = real(0), s2 = real(0), s3 = real(0);
#pragma unroll
            for (int a = 0; a < 4; ++a) {
                real v[4], g[4];
#pragma unroll
                for (int b = 0; b < 4; ++b) {
                    const Nodes f = nodes(c, 4 * a + b);
                    v[b] = weighted(wz, f.at[0], f.at[1], f.at[2], f.at[3]);
                    g[b] = weighted(gz, f.at[0], f.at[1], f.at[2], f.at[3]);
                }
                const real value = weighted(wy, v[0], v[1], v[2], v[3]);
                s0 = multiply_add(wx[a], value, s0);
                s1 = multiply_add(gx[a], value, s1);
                s2 = multiply_add(wx[a], weighted(gy, v[0], v[1], v[2], v[3]), s2);
                s3 = multiply_add(wx[a], weighted(wy, g[0], g[1], g[2], g[3]), s3);
            }
            own[0][c] = s0;
            own[1][c] = s1;
            own[2][c] = s2;
            own[3][c] = s3;
        }
#pragma unroll
        for (int c = 0; c < 6; ++c)
#pragma unroll
            for (int q = 0; q < 4; ++q) s[q][c] = Group::from(lane_of(c), own[q][place_of(c)]);
    }
};

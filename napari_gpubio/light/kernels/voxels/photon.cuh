#pragma once
// One photon packet on its way through voxels. Counterpart: photon.py, same names, same order of operations.
//
// A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z).
// Between two scattering events the packet goes straight; absorption is continuous along the path and is booked when a
// voxel is left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
#include "physics.cuh"

enum { OUTSIDE = 0, EDGE = 1 };  // rows of the media table that are no tissue: label 0, and the rim of the grid
enum FaceRule { DEFAULT = 0, ESCAPE = 1, FRESNEL = 2, MIRROR = 3, CYCLIC = 4 };
enum SourceKind {
    PENCIL = 0, ISOTROPIC, CONE, FIBER, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN
};
enum Ledger { SPECULAR = 0, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE, LEDGER };
enum { MEDIUM_NUMBERS = 8, SOURCE_NUMBERS = 16, DETECTOR_NUMBERS = 8, DETECTED_NUMBERS = 10 };

#define NEVER 1e30f

// 1 / |u|, large but finite for a component that is 0.
__device__ __forceinline__ float slowness(float u)
{
    return 1.0f / fmaxf(fabsf(u), 1e-12f);
}

// Coefficients (1/mm), anisotropy, index; and what the packet divides by: mean free path (mm), path per optical path, and
// the path (mm) after which absorption is booked at the latest.
struct Medium { float mua, mus, g, n, free_path, per_n, reach; };

// The padded volume of media rows and what belongs to it.
struct Grid {
    const LABEL* __restrict__ rows;
    const float* __restrict__ media;
    const float* __restrict__ mua;
    const float* __restrict__ mus;
    int nx, ny, nz, sx, sy;  // size without the rim, and strides with it
    float hx, hy, hz;
    int faces;

    __device__ __forceinline__ float n_of(int row) const { return media[MEDIUM_NUMBERS * row + 3]; }

    __device__ __forceinline__ Medium medium(int row, int cell) const
    {
        const float4* two = reinterpret_cast<const float4*>(media + MEDIUM_NUMBERS * row);
        const float4 one = two[0], other = two[1];
        Medium m{one.x, one.y, one.z, one.w, other.x, other.y, other.z};
#if CONTINUOUS
        m.mua = mua[cell];
        m.mus = mus[cell];
        m.free_path = 1.0f / fmaxf(m.mus, 1e-20f);
        m.reach = 2.0f * (1.0f / fmaxf(m.mua, 1e-20f));
#endif
        return m;
    }

    __device__ __forceinline__ int stride(int axis) const { return axis == 0 ? sx : axis == 1 ? sy : 1; }

    __device__ __forceinline__ int rule(int axis, bool forward) const
    {
        return faces >> (3 * (2 * axis + (forward ? 1 : 0))) & 7;
    }
};

struct Packet { int cell, row; Vector p, u; float w; };

__device__ __forceinline__ float part(Vector v, int axis) { return axis == 0 ? v.x : axis == 1 ? v.y : v.z; }

__device__ __forceinline__ void put(Vector* v, int axis, float value)
{
    if (axis == 0) v->x = value;
    else if (axis == 1) v->y = value;
    else v->z = value;
}

// Distance (mm) along the path to the voxel's face, and the axis of that face.
__device__ __forceinline__ float to_face(const Grid& grid, Vector p, Vector u, int* axis)
{
    const float tx = (u.x > 0.0f ? grid.hx - p.x : p.x) * slowness(u.x);
    const float ty = (u.y > 0.0f ? grid.hy - p.y : p.y) * slowness(u.y);
    const float tz = (u.z > 0.0f ? grid.hz - p.z : p.z) * slowness(u.z);
    float nearest = tx;
    *axis = 0;
    if (ty < nearest) {
        nearest = ty;
        *axis = 1;
    }
    if (tz < nearest) {
        nearest = tz;
        *axis = 2;
    }
    return nearest;
}

__device__ __forceinline__ float within(float value, float high) { return fminf(fmaxf(value, 0.0f), high); }

__device__ __forceinline__ Vector moved(const Grid& grid, Vector p, Vector u, float length)
{
    return Vector{within(p.x + length * u.x, grid.hx), within(p.y + length * u.y, grid.hy),
                  within(p.z + length * u.z, grid.hz)};
}

__device__ __forceinline__ Vector refracted(Vector u, int axis, float ct, float ratio)
{
    Vector v{u.x * ratio, u.y * ratio, u.z * ratio};
    put(&v, axis, part(u, axis) > 0.0f ? ct : -ct);
    return v;
}

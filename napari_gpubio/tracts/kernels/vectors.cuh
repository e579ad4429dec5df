#pragma once
// Vectors, weights of quadratic B-splines, and what a ray has counted; vectors.py has the first two.
#include "packing.cuh"

constexpr int FOD = 10;

struct Vector {
    real x, y, z;
};

__device__ __forceinline__ real dot(Vector a, Vector b) { return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)); }

__device__ __forceinline__ Vector added(Vector y, real t, Vector k)
{
    return {fma(t, k.x, y.x), fma(t, k.y, y.y), fma(t, k.z, y.z)};
}

__device__ __forceinline__ Vector times(real t, Vector k) { return {t * k.x, t * k.y, t * k.z}; }

__device__ __forceinline__ Vector transformed(const real* m, Vector v)
{
    return {dot({m[0], m[1], m[2]}, v), dot({m[3], m[4], m[5]}, v), dot({m[6], m[7], m[8]}, v)};
}

__device__ __forceinline__ Vector transposed(const real* m, Vector v)
{
    return {dot({m[0], m[3], m[6]}, v), dot({m[1], m[4], m[7]}, v), dot({m[2], m[5], m[8]}, v)};
}

__device__ __forceinline__ bool finite_positive(real x) { return x > real(0) && x - x == real(0); }

// Whether a position lies between the outermost voxel centers.
__device__ __forceinline__ bool inside(const int* shape, Vector p)
{
    return p.x >= 0 && p.y >= 0 && p.z >= 0 && p.x <= real(shape[0] - 1) && p.y <= real(shape[1] - 1) &&
           p.z <= real(shape[2] - 1);
}

// The mark of the voxel around a position.
__device__ __forceinline__ int mark_at(const unsigned char* mask, const int* shape, Vector p)
{
    const real half = real(0.5);
    const size_t i = (size_t)(p.x + half), j = (size_t)(p.y + half), k = (size_t)(p.z + half);
    return mask[(i * shape[1] + j) * shape[2] + k];
}

// Weight and slope of a quadratic B-spline, t voxels (at most 1.5) after its node.
struct SplineWeight {
    real value, slope;

    __device__ __forceinline__ SplineWeight(real t)
    {
        const real s = fabs(t), e = real(1.5) - s;
        const bool near = s <= real(0.5);
        value = near ? fma(-t, t, real(0.75)) : real(0.5) * e * e;
        slope = near ? real(-2) * t : t > 0 ? -e : e;
    }
};

// What a ray has written and counted so far.
struct Log {
    real* points;
    int written, until_kept, every;
    real length, riemannian, drift, samples, total, aligned, at_seed;
    bool kept;

    __device__ Log(const RayOutput& output, int ray, int keep_every)
        : points(output.points ? output.points + 4 * (size_t)ray * output.ray_points : nullptr), written(0),
          until_kept(keep_every), every(keep_every), length(0), riemannian(0), drift(0), samples(0), total(0),
          aligned(0), at_seed(0), kept(true)
    {
    }
    __device__ __forceinline__ void write(Vector at, real amplitude)
    {
        if (points) {
            real* p = points + 4 * (size_t)written;
            p[0] = at.x;
            p[1] = at.y;
            p[2] = at.z;
            p[3] = amplitude;
        }
        ++written;
    }
    __device__ __forceinline__ void add(Vector at, real amplitude)
    {
        samples += real(1);
        total += amplitude;
        kept = --until_kept == 0;
        if (!kept) return;
        until_kept = every;
        write(at, amplitude);
    }
    __device__ __forceinline__ void end(const RayOutput& output, int ray, int reason, Vector at, real amplitude)
    {
        if (!kept) write(at, amplitude);
        output.reasons[ray] = (unsigned char)reason;
        output.written[ray] = written;
        const real numbers[STATS] = {length, riemannian, drift, samples, total, aligned, at_seed};
        for (int q = 0; q < STATS; ++q) output.stats[STATS * (size_t)ray + q] = numbers[q];
    }
};

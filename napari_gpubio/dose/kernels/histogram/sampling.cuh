// A dose at a place, the bin of a dose, and places of samples inside their cells; the counterpart of sampling.py:
// same order of operations. Compiled without fused multiply-add, so that the bits are the CPU's.
#pragma once

constexpr float OUTSIDE = -1.0f, PER_STEP = 1.0f / 16777216.0f;
constexpr float TINY = 8.673617379884035e-19f;  // 2^-60, as in dose_grid.py
constexpr float FINE_STEPS = 1048576.0f;  // as in dose_grid.py
constexpr unsigned SAMPLE_X = 3518319155u, SAMPLE_Y = 2882110345u, SAMPLE_Z = 2360945575u;
constexpr unsigned ROW_X = 2654435769u, ROW_Y = 1779033703u, ROW_Z = 3144134277u;

struct Volume {
    const float* values;
    int nx, ny, nz;
    int whole;  // 1 if a voxel's value holds in all of it
};

struct BinRule {
    int logarithmic, bins;
    float inverse_width;
    int shift, first;
    float fine;
};

struct Place {
    float x, y, z;
};

__device__ __forceinline__ bool is_within(float x, int n) { return x >= -0.5f && x <= (float)n - 0.5f; }

__device__ __forceinline__ float nearest(float x, int n) { return (float)min((int)(x + 0.5f), n - 1); }

// Trilinear, or the voxel's own value; beyond the outermost centers their value holds.
__device__ __forceinline__ float dose_at(Volume volume, Place place)
{
    const int nx = volume.nx, ny = volume.ny, nz = volume.nz;
    if (!(is_within(place.x, nx) && is_within(place.y, ny) && is_within(place.z, nz))) return OUTSIDE;
    if (volume.whole) place = {nearest(place.x, nx), nearest(place.y, ny), nearest(place.z, nz)};
    const float x = fmaxf(place.x, 0.0f), y = fmaxf(place.y, 0.0f), z = fmaxf(place.z, 0.0f);
    const int i = (int)x, j = (int)y, k = (int)z;
    const float fx = x - (float)i, fy = y - (float)j, fz = z - (float)k;
    const float* v = volume.values + (((size_t)i * ny + j) * nz + k);
    const size_t up_x = i < nx - 1 ? (size_t)ny * nz : 0, up_y = j < ny - 1 ? (size_t)nz : 0, up_z = k < nz - 1 ? 1 : 0;
    float a = v[0] + fz * (v[up_z] - v[0]);
    const float b = v[up_y] + fz * (v[up_y + up_z] - v[up_y]);
    v += up_x;
    float c = v[0] + fz * (v[up_z] - v[0]);
    const float d = v[up_y] + fz * (v[up_y + up_z] - v[up_y]);
    a = a + fy * (b - a);
    c = c + fy * (d - c);
    return a + fx * (c - a);
}

__device__ __forceinline__ int bin_of(BinRule rule, float value)
{
    int found;
    if (rule.logarithmic) {
        found = (__float_as_int(value) >> rule.shift) - rule.first;
        if (found <= 0 && value != 0.0f) found = 1;  // the lowest bin is that of 0 alone
    } else {
        found = (int)(value * rule.inverse_width);
    }
    return min(max(found, 0), rule.bins - 1);
}

__device__ __forceinline__ float fraction(unsigned word) { return (float)(word >> 8) * PER_STEP; }

__device__ __forceinline__ Place scaled(const double* direction, double factor)
{
    return {(float)(direction[0] * factor), (float)(direction[1] * factor), (float)(direction[2] * factor)};
}

// A frame has four rows: its origin, and what one step along each of its axes is.
__device__ __forceinline__ Place origin(const double* f, double x, double y, double z)
{
    return {
        (float)(f[0] + x * f[3] + y * f[6] + z * f[9]), (float)(f[1] + x * f[4] + y * f[7] + z * f[10]),
        (float)(f[2] + x * f[5] + y * f[8] + z * f[11])};
}

__device__ __forceinline__ Place shifted(Place place, float amount, Place direction)
{
    return {place.x + amount * direction.x, place.y + amount * direction.y, place.z + amount * direction.z};
}

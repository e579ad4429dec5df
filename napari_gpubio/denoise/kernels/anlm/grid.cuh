#pragma once
// A volume of voxels, mirrored beyond its borders.

struct Grid {
    int nx, ny, nz;
    __device__ size_t at(int x, int y, int z) const { return ((size_t)x * ny + y) * nz + z; }
    __device__ size_t size() const { return (size_t)nx * ny * nz; }
    __device__ bool holds(int x, int y, int z) const
    {
        return x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
    }
};

__device__ __forceinline__ int mirrored(int i, int n)
{
    while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;  // seldom more than once, which a remainder takes longer than
    return i;
}

__device__ __forceinline__ size_t mirrored_at(Grid g, int x, int y, int z)
{
    return g.at(mirrored(x, g.nx), mirrored(y, g.ny), mirrored(z, g.nz));
}

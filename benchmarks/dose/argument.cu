// The patent's histogram on points that the host has sampled (CN103810670A), to be held against the engine's: a thread
// takes a point at a time, interpolates the dose there, and votes into one of COPIES sub-histograms of its block. Bins
// of the copies lie side by side, so that equal bins of neighboring threads fall into different banks. What is defined
// makes a variant of it:
//
//   COPIES    sub-histograms of a block, 1 to 32
//   TEXTURE   whether the texture unit interpolates, with weights of 9 bits, or the arithmetic units
//   BINS      of equal width
#include "../../napari_gpubio/dose/kernels/histogram/sampling.cuh"

// A dose, as a texture and as values of a grid, and points in its voxel indices.
struct Points {
    cudaTextureObject_t texture;
    const float* values;
    const float* points;
    int shape[3];
    float inverse_width;  // of a bin
};

__device__ __forceinline__ float look_up(const Points& p, Place place)
{
#if TEXTURE
    return tex3D<float>(p.texture, place.z + 0.5f, place.y + 0.5f, place.x + 0.5f);
#else
    return dose_at({p.values, p.shape[0], p.shape[1], p.shape[2]}, place);
#endif
}

__device__ __forceinline__ Place place_of(const float* points, long long n)
{
    return {points[3 * n], points[3 * n + 1], points[3 * n + 2]};
}

// Points first to end - 1, of one organ.
extern "C" __global__ void count_points(const Points p, long long first, long long end, unsigned* __restrict__ counts)
{
    const float* __restrict__ const points = p.points;
    __shared__ unsigned bins[BINS * COPIES];
    for (int n = threadIdx.x; n < BINS * COPIES; n += blockDim.x) bins[n] = 0;
    __syncthreads();
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long n = first + (long long)blockIdx.x * blockDim.x + threadIdx.x; n < end; n += step) {
        const float value = look_up(p, place_of(points, n));
        if (value < 0.0f) continue;
        const int bin = min((int)(value * p.inverse_width), BINS - 1);
        atomicAdd(&bins[bin * COPIES + threadIdx.x % COPIES], 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        unsigned sum = 0;
        for (int copy = 0; copy < COPIES; ++copy) sum += bins[bin * COPIES + copy];
        if (sum) atomicAdd(&counts[bin], sum);
    }
}

// Doses alone, to see how far both ways of interpolation are apart, and how fast they are without votes.
extern "C" __global__ void look_up_points(const Points p, long long count, float* __restrict__ found)
{
    const long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) found[n] = look_up(p, place_of(p.points, n));
}

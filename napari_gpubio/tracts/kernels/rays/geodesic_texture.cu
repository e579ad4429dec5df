// The seed's scheme with the GPU's own trilinear interpolation (van Aart et al. 2011, section 4.4): 24 components in six
// textures of four. Weights have 9 bits. Needs texture hardware, so there is no run of this file on a CPU.
#define REAL float
#include "geodesic.cuh"

struct TextureField {
    enum { EAGER = 1 };  // read ahead: nothing waits for a fetch, and beyond the edge it gives the edge
    const cudaTextureObject_t* textures;

    __device__ void four(Shape, float x, float y, float z, float s[4][6]) const
    {
        float* out = &s[0][0];
#pragma unroll
        for (int t = 0; t < 6; ++t) {
            const float4 v = tex3D<float4>(textures[t], z + 0.5f, y + 0.5f, x + 0.5f);
            out[4 * t] = v.x; out[4 * t + 1] = v.y; out[4 * t + 2] = v.z; out[4 * t + 3] = v.w;
        }
    }
};

extern "C" __global__ void __launch_bounds__(32, 1)
trace_vanaart_texture(
    cudaTextureObject_t t0, cudaTextureObject_t t1, cudaTextureObject_t t2, cudaTextureObject_t t3,
    cudaTextureObject_t t4, cudaTextureObject_t t5, const float* __restrict__ guide,
    const unsigned char* __restrict__ mask, int masked, const float* __restrict__ euclid, int nx, int ny, int nz,
    const float* __restrict__ seeds, const float* __restrict__ directions, int rays, int per_fiber,
    const float* __restrict__ limits, int stages, int measure, int max_steps, int every, int ray_points,
    float* __restrict__ points, int* __restrict__ written, unsigned char* __restrict__ reasons,
    float* __restrict__ stats)
{
    const cudaTextureObject_t textures[6] = {t0, t1, t2, t3, t4, t5};
    trace<VANAART>(TextureField{textures}, guide, mask, masked, euclid, Shape{nx, ny, nz}, seeds, directions, rays,
                   per_fiber, limits, stages, measure, max_steps, every, ray_points, points, written, reasons, stats);
}

// The seed's scheme with the GPU's own trilinear interpolation (van Aart et al. 2011, section 4.4): 24 components in six
// textures of four. Weights have 9 bits. Needs texture hardware, so there is no run of this file on a CPU.
#define REAL float
#include "geodesic.cuh"

struct TextureField {
    using Group = Lanes<1>;
    enum { EAGER = 1 };  // read ahead: nothing waits for a fetch, and beyond the edge it gives the edge
    const cudaTextureObject_t* textures;

    __device__ void four(Shape, float x, float y, float z, float s[4][6]) const
    {
        float* out = &s[0][0];
#pragma unroll
        for (int t = 0; t < 6; ++t) {
            const float4 v = tex3D<float4>(textures[t], z + 0.5f, y + 0.5f, x + 0.5f);
            out[4 * t] = v.x;
            out[4 * t + 1] = v.y;
            out[4 * t + 2] = v.z;
            out[4 * t + 3] = v.w;
        }
    }
};

struct Textures {
    cudaTextureObject_t components[6];
};

extern "C" __global__ void __launch_bounds__(32, 1)
    trace_vanaart_texture(Textures textures, RayVolumes volumes, RaySettings settings, Rays rays, RayOutput output)
{
    trace<VANAART>(TextureField{textures.components}, volumes, settings, rays, output);
}

#pragma once
// Scattering that depends on direction. Counterpart: fibers.py, same names, same order of operations.
//
// Where a voxel has a tensor, its medium has another mu_s and mean free path after each scattering event, reflection and
// refraction.
#include "photon.cuh"

enum ScatteringModel { BY_LABEL = 0, BY_PRODUCT = 1, BY_PHASE_FUNCTION = 2, BY_MIXTURE = 3 };
enum { TENSOR_NUMBERS = 8 };

#if ANISOTROPY
// A tensor along the volume's axes, off-diagonal components twice; a bound of u.M.u, and its mean over all directions.
struct Tensor {
    float xx, yy, zz, xy, xz, yz, most, mean;
};

__device__ __forceinline__ Tensor tensor_at(const Scene& scene, int place)
{
    const float4* two = reinterpret_cast<const float4*>(scene.tensors + TENSOR_NUMBERS * (size_t)place);
    const float4 one = __ldg(two), other = __ldg(two + 1);
    return Tensor{one.x, one.y, one.z, one.w, other.x, other.y, other.z, other.w};
}

// u.M.u, 1/mm.
__device__ __forceinline__ float projected(const Tensor& t, Vector u)
{
    return u.x * (t.xx * u.x + t.xy * u.y + t.xz * u.z) + u.y * (t.yy * u.y + t.yz * u.z) + u.z * (t.zz * u.z);
}

// mu_s of a direction for which u.M.u is `along`, 1/mm.
__device__ __forceinline__ float total_scattering(const Tensor& t, float g, float along)
{
#if ANISOTROPY == 3
    return 0.5f * (along + (g * g * along + (1.0f - g * g) * t.mean));
#else
    return along;
#endif
}

// Put in a medium what differs from the label's where its voxel has a tensor, for a direction.
__device__ __forceinline__ void along_fibers(const Scene& scene, int place, Vector u, Medium* m)
{
    if (place == 0) return;
    const Tensor t = tensor_at(scene, place);
#if ANISOTROPY == 1
    m->g = 0.0f;
#endif
    m->mus = total_scattering(t, m->g, projected(t, u));
    m->free_path = 1.0f / fmaxf(m->mus, 1e-20f);
}

// Direction of a scattered photon, with mu_s and mean free path in the medium, where `after` was drawn from `before`.
//
// By phase function that is the one. By product, it is drawn again until it is accepted with a chance in proportion to
// mu(after), from directions that are all alike because g is 0 there. By mixture it is the one with the chance mu(before)
// over both terms of the rate, and else is drawn so among those of the phase function.
__device__ __forceinline__ Vector beside_fibers(
    const Scene& scene, int place, Vector before, Vector after, Medium* m, Xoshiro* random)
{
    if (place == 0) return after;
    const Tensor t = tensor_at(scene, place);
    float along = projected(t, after);
#if ANISOTROPY != 2
    bool again = true;
#if ANISOTROPY == 3
    again = random->uniform() * (m->mus + m->mus) >= projected(t, before);
#endif
    if (again) {
        while (random->uniform() * t.most >= along) {
            const float cosine = scattering_cosine(m->g, random->uniform());
            float cp, sp;
            turn(random->next(), &cp, &sp);
            after = turned(before, cosine, cp, sp);
            along = projected(t, after);
        }
    }
#endif
    m->mus = total_scattering(t, m->g, along);
    m->free_path = 1.0f / fmaxf(m->mus, 1e-20f);
    return after;
}
#endif

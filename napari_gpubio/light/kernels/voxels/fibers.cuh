#pragma once
// Scattering that depends on direction. Counterpart: fibers.py, same names, same order of operations.
//
// Where a voxel has a tensor M, its medium has another mu_s and mean free path after each scattering event, reflection
// and refraction. The table has the columns of L in M = L L^T, with which u.M.u is a sum of three squares. A direction
// with a density in proportion to it follows one of the columns, drawn with the chance of its square, by the square of the
// cosine to it; nothing is rejected.
#include "start.cuh"

enum ScatteringModel { BY_LABEL = 0, BY_PRODUCT = 1, BY_PHASE_FUNCTION = 2, BY_MIXTURE = 3 };
enum { TENSOR_NUMBERS = 8 };

#if ANISOTROPY
// L by columns, from the diagonal down; by product the chances of its first column, and of the first and the second; by
// mixture a bound of u.M.u, and its mean over all directions.
struct Tensor {
    float xx, xy, xz, yy, yz, zz, first, second;
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
    const float p = t.xx * u.x + t.xy * u.y + t.xz * u.z, q = t.yy * u.y + t.yz * u.z, r = t.zz * u.z;
    return p * p + q * q + r * r;
}

// mu_s of a direction for which u.M.u is `along`, 1/mm.
__device__ __forceinline__ float total_scattering(const Tensor& t, float g, float along)
{
    return ANISOTROPY == BY_MIXTURE ? 0.5f * (along + (g * g * along + (1.0f - g * g) * t.second)) : along;
}

// Unit vector along a column of L, drawn with the chance of its square.
__device__ __forceinline__ Vector column_of(const Tensor& t, float chance)
{
    if (chance < t.first) return unit(t.xx, t.xy, t.xz);
    if (chance < t.second) return unit(0.0f, t.yy, t.yz);
    return Vector{0.0f, 0.0f, 1.0f};
}

// A cosine with a density in proportion to its square, of three numbers from 0 to 1: the farthest from a half.
__device__ __forceinline__ float squared_cosine(float a, float b, float c)
{
    float cosine = 2.0f * a - 1.0f;
    const float other = 2.0f * b - 1.0f, last = 2.0f * c - 1.0f;
    cosine = fabsf(other) > fabsf(cosine) ? other : cosine;
    return fabsf(last) > fabsf(cosine) ? last : cosine;
}

// Put in a medium what differs from the label's where its voxel has a tensor, for a direction.
__device__ __forceinline__ void along_fibers(const Scene& scene, int place, Vector u, Medium* m)
{
    if (place == 0) return;
    const Tensor t = tensor_at(scene, place);
    m->mus = total_scattering(t, m->g, projected(t, u));
    m->free_path = 1.0f / fmaxf(m->mus, 1e-20f);
}

// What a scattered photon's direction is turned around, and by which cosine: its own, or by product a column of L.
// `cosine` is what its phase function makes of `chance`.
__device__ __forceinline__ Vector turning_point(
    const Tensor& t, int place, Vector u, float* cosine, float chance, Sfc* random)
{
    if (ANISOTROPY != BY_PRODUCT || place == 0) return u;
    const unsigned int second = random->next(), third = random->next();
    *cosine = squared_cosine(chance, unit_float(second), unit_float(third));
    return column_of(t, unit_float(left_over_bits(second, third)));
}

// Direction of a scattered photon, with its mu_s and mean free path in the medium, where `after` was drawn.
//
// That is the one, but for the mixture: there it is with the chance mu(before) over both terms of the rate, and else drawn
// again until it is accepted with a chance in proportion to mu(after).
__device__ __forceinline__ Vector beside_fibers(
    const Tensor& t, int place, Vector before, Vector after, Medium* m, Sfc* random)
{
    if (place == 0) return after;
    float along = projected(t, after);
#if ANISOTROPY == 3
    if (random->uniform() * (m->mus + m->mus) >= projected(t, before)) {
        while (random->uniform() * t.first >= along) {
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

#pragma once
// What one photon packet does wherever it is: random numbers, scattering, reflection. Counterpart: physics.py, same names, same
// order of operations.
#include "xoshiro.cuh"
#include "fastmath.cuh"

#define SURVIVAL 0.1f

struct Vector {
    float x, y, z;
};

// Number of threads of the warp where `yes` holds, and where they meet again. All that still run must call it. On a CPU each is
// alone. A result never depends on it: it only decides who waits for whom.
__device__ __forceinline__ int threads_with(bool yes)
{
#ifdef GPUBIO_ON_CPU
    return yes ? 1 : 0;
#else
    return __popc(__ballot_sync(~0u, yes));
#endif
}

// The next random number that decides about rounding: a linear congruential generator, since nothing hangs on it.
__device__ __forceinline__ unsigned int redithered(unsigned int dither) { return dither * 747796405u + 2891336453u; }

// Number of quanta of a tally for a real number of them: rounded up or down by chance, so that the mean is right.
__device__ __forceinline__ unsigned int quanta(float value, unsigned int* dither)
{
    *dither = redithered(*dither);
    const float chance = __uint_as_float(*dither >> 9 | 0x3F800000u) - 1.0f;
    return (unsigned int)__fadd_rd(fminf(value, 4294967040.0f), chance);
}

// Fresnel reflectance of unpolarized light that meets a face with the cosine `ci`, and the cosine behind it.
__device__ __forceinline__ float fresnel(float ci, float n1, float n2, float* ct)
{
    const float ratio = n1 / n2;
    const float squared = ratio * ratio * (1.0f - ci * ci);
    *ct = 0.0f;
    if (squared >= 1.0f) return 1.0f;
    *ct = sqrtf(1.0f - squared);
    const float s = (n1 * ci - n2 * *ct) / (n1 * ci + n2 * *ct);
    const float p = (n1 * *ct - n2 * ci) / (n1 * *ct + n2 * ci);
    return 0.5f * (s * s + p * p);
}

// Cosine of the scattering angle of Henyey and Greenstein (1941); to first order in g where g is tiny.
__device__ __forceinline__ float scattering_cosine(float g, float u)
{
    const float v = 2.0f * u - 1.0f;
    if (fabsf(g) < 1e-3f) return v + 1.5f * g * (1.0f - v * v);
    const float t = (1.0f - g * g) * (1.0f / (1.0f + g * v));
    return (1.0f + g * g - t * t) * (1.0f / (g + g));
}

// Turn a direction by the scattering angle (cosine ct) and the azimuth (cp, sp), in an orthonormal basis around it
// (Duff et al. 2017), and bring its length back to 1 with one Newton step: float32 would let it drift.
__device__ __forceinline__ Vector turned(Vector u, float ct, float cp, float sp)
{
    const float st = sqrtf(fmaxf(0.0f, 1.0f - ct * ct));
    const float sign = copysignf(1.0f, u.z);
    const float a = -(1.0f / (sign + u.z));
    const float b = u.x * u.y * a;
    const float p = st * cp, q = st * sp;
    const float x = p * (1.0f + sign * u.x * u.x * a) + q * b + ct * u.x;
    const float y = p * (sign * b) + q * (sign + u.y * u.y * a) + ct * u.y;
    const float z = p * (-sign * u.x) - q * u.y + ct * u.z;
    const float scale = 1.5f - 0.5f * (x * x + y * y + z * z);
    return Vector{x * scale, y * scale, z * scale};
}

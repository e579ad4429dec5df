#pragma once
// What one photon packet does wherever it is: random numbers, scattering, reflection. Counterpart: physics.py, same names, same
// order of operations.
#include "sfc.cuh"
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

// The next random number that decides about rounding: as random as the first, and a row of them is even.
__device__ __forceinline__ unsigned int redithered(unsigned int dither) { return dither + 0x9E3779B9u; }

// Number of quanta of a tally for a real number of them: rounded up or down by chance, so that the mean is right.
__device__ __forceinline__ unsigned int quanta(float value, unsigned int* dither)
{
    *dither = redithered(*dither);
    const float chance = __uint_as_float(*dither >> 9 | 0x3F800000u) - 1.0f;
#ifdef GPUBIO_ON_CPU
    value = fminf(value, 4294967040.0f);  // a conversion on a GPU takes what is too large as the largest
#endif
    return (unsigned int)__fadd_rd(value, chance);
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

// Cosine of the scattering angle of Henyey and Greenstein (1941). Theirs is (1 + g^2 - t^2) / 2g with t = (1 - g^2) /
// (1 - g + 2g u) = 1 - g h, which is this; no digits are lost where g is small.
__device__ __forceinline__ float scattering_cosine(float g, float u)
{
    const float h = (2.0f * u - (1.0f - g)) / (1.0f - g + 2.0f * g * u);
    return h + 0.5f * g * (1.0f - h * h);
}

// A third random number of 18 bits from those that `unit_float` leaves of two; it depends on neither float.
__device__ __forceinline__ unsigned int left_over_bits(unsigned int one, unsigned int other)
{
    return (other << 23) + (one << 14);
}

// Turn a direction by the scattering angle (cosine ct) and the azimuth (cp, sp). The azimuth is counted from the meridian of
// the z axis, as in MCML, but the sine of the polar angle comes from x and y, so that it is right near the poles, too; a pole
// itself is left by a hair. What goes across the meridian has the right length whatever came in, so an error of the length
// shrinks with every event.
__device__ __forceinline__ Vector turned(Vector u, float ct, float cp, float sp)
{
    const float ux = u.x + copysignf(1e-12f, u.x);
    const float across = ux * ux + u.y * u.y;
    const float share = sqrtf(fabsf(1.0f - ct * ct) / across);  // sines: of the scattering angle, of the polar angle
    const float p = share * cp, q = share * sp, t = ct + u.z * p;
    return Vector{ux * t - u.y * q, u.y * t + ux * q, u.z * ct - across * p};
}

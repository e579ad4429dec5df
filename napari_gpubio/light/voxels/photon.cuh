#pragma once
// One photon packet on its way through voxels. Twin: photon.py, same names, same order of operations.
//
// A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z).
// Between two scattering events the packet goes straight; absorption is continuous along the path and is booked when a
// voxel is left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
#include "philox.cuh"
#include "fastmath.cuh"

enum { OUTSIDE = 0, EDGE = 1 };  // rows of the media table that are no tissue: label 0, and the rim of the grid
enum FaceRule { DEFAULT = 0, ESCAPE = 1, FRESNEL = 2, MIRROR = 3, CYCLIC = 4 };
enum SourceKind {
    PENCIL = 0, ISOTROPIC, CONE, FIBRE, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN
};
enum Ledger { SPECULAR = 0, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE, LEDGER };
enum { MEDIUM_NUMBERS = 4, SOURCE_NUMBERS = 16, DETECTOR_NUMBERS = 8, DETECTED_NUMBERS = 10 };

#define SURVIVAL 0.1f
#define NEVER 1e30f

struct Vector { float x, y, z; };

__device__ __forceinline__ float unit_float(unsigned int bits)
{
    return ((bits >> 9) + 0.5f) * 1.1920928955078125e-07f;
}

// Four times 32 random bits that depend on the seed, the photon and the number of the draw only.
struct Draws {
    unsigned int key0, key1, item0, item1, block, a, b, c, d;

    __device__ __forceinline__ void next()
    {
        Philox random((unsigned long long)key1 << 32 | key0, (unsigned long long)item1 << 32 | item0);
        random.block = block++;
        random.refill();
        a = random.out[0];
        b = random.out[1];
        c = random.out[2];
        d = random.out[3];
    }
};

// Number of quanta of a tally for a real number of them: rounded up or down by chance, so that the mean is right.
__device__ __forceinline__ unsigned int quanta(float value, unsigned int* dither)
{
    *dither = *dither * 747796405u + 2891336453u;
    const float capped = fminf(value, 4294967040.0f);
    const unsigned int whole = (unsigned int)capped;
    return whole + (capped - (float)whole > unit_float(*dither) ? 1u : 0u);
}

// Fresnel reflectance of unpolarised light that meets a face with the cosine `ci`, and the cosine behind it.
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
    const float q = (1.0f - g * g) / (1.0f + g * v);
    return fminf(1.0f, fmaxf(-1.0f, (1.0f + g * g - q * q) / (2.0f * g)));
}

// Turn a direction by the scattering angle (cosine ct) and the azimuth (cp, sp), in an orthonormal basis around it
// (Duff et al. 2017), and bring its length back to 1 with one Newton step: float32 would let it drift.
__device__ __forceinline__ Vector turned(Vector u, float ct, float cp, float sp)
{
    const float st = sqrtf(fmaxf(0.0f, 1.0f - ct * ct));
    const float sign = u.z >= 0.0f ? 1.0f : -1.0f;
    const float a = -1.0f / (sign + u.z);
    const float b = u.x * u.y * a;
    const float p = st * cp, q = st * sp;
    const float x = p * (1.0f + sign * u.x * u.x * a) + q * b + ct * u.x;
    const float y = p * (sign * b) + q * (sign + u.y * u.y * a) + ct * u.y;
    const float z = p * (-sign * u.x) - q * u.y + ct * u.z;
    const float scale = 1.5f - 0.5f * (x * x + y * y + z * z);
    return Vector{x * scale, y * scale, z * scale};
}

// 1 / |u|, large but finite for a component that is 0.
__device__ __forceinline__ float slowness(float u)
{
    return 1.0f / fmaxf(fabsf(u), 1e-12f);
}

// Where a photon starts (grid mm) and in which direction. `source`: position, rows of the frame (width, height,
// direction), two sizes, 1 - cosine of the opening, rows and columns of the pattern in one number each.
__device__ __forceinline__ void start(int kind, const float* __restrict__ source, const float* __restrict__ pattern,
                                      int pattern_rows, int pattern_columns, Draws* draws, Vector* at, Vector* along)
{
    draws->next();
    const float u0 = unit_float(draws->a), u1 = unit_float(draws->b), u2 = unit_float(draws->c);
    float cp, sp;
    turn(draws->d, &cp, &sp);
    const float size = source[12], other = source[13];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    if (kind == FIBRE || kind == DISK || kind == LAMBERTIAN || kind == GAUSSIAN) {
        const float r = kind == GAUSSIAN ? size * sqrtf(0.5f * minus_log(u0)) : size * sqrtf(u0);
        x = r * cp;
        y = r * sp;
    } else if (kind == PLANAR) {
        x = (u0 - 0.5f) * size;
        y = (u1 - 0.5f) * other;
    } else if (kind == PATTERN) {
        int low = 0, high = pattern_rows * pattern_columns - 1;
        while (low < high) {  // the first pixel whose running sum exceeds u2
            const int middle = (low + high) / 2;
            if (pattern[middle] > u2) high = middle;
            else low = middle + 1;
        }
        const int row = low / pattern_columns, column = low - row * pattern_columns;
        x = (((float)column + u0) / (float)pattern_columns - 0.5f) * size;
        y = (((float)row + u1) / (float)pattern_rows - 0.5f) * other;
    } else if (kind == LINE || kind == CYLINDER) {
        z = (u0 - 0.5f) * other;
    }
    float lx = 0.0f, ly = 0.0f, lz = 1.0f;
    if (kind == CYLINDER) {
        x = size * cp;
        y = size * sp;
    }
    const bool spread = kind == ISOTROPIC || kind == LINE || kind == CONE || kind == FIBRE || kind == LAMBERTIAN ||
                        kind == CYLINDER;
    if (spread) {
        draws->next();
        const float v = unit_float(draws->a);
        float ca, sa;
        turn(draws->b, &ca, &sa);
        const bool cosine_law = kind == LAMBERTIAN || kind == CYLINDER;
        const float ct = cosine_law ? sqrtf(v) : kind == CONE || kind == FIBRE ? 1.0f - source[14] * v : 2.0f * v - 1.0f;
        const float st = sqrtf(fmaxf(0.0f, 1.0f - ct * ct));
        lx = st * ca;
        ly = st * sa;
        lz = ct;
        if (kind == CYLINDER) {  // around the outward normal (cp, sp, 0)
            const float across = lx, upward = ly;
            lx = ct * cp - across * sp;
            ly = ct * sp + across * cp;
            lz = upward;
        }
    }
    const float* f = source + 3;
    *at = Vector{source[0] + (x * f[0] + y * f[3] + z * f[6]), source[1] + (x * f[1] + y * f[4] + z * f[7]),
                 source[2] + (x * f[2] + y * f[5] + z * f[8])};
    *along = Vector{lx * f[0] + ly * f[3] + lz * f[6], lx * f[1] + ly * f[4] + lz * f[7],
                    lx * f[2] + ly * f[5] + lz * f[8]};
}

#pragma once
// One photon packet on its way through voxels. Twin: photon.py, same names, same order of operations.
//
// A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z).
// Between two scattering events the packet goes straight; absorption is continuous along the path and is booked when a
// voxel is left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
#include "physics.cuh"

enum { OUTSIDE = 0, EDGE = 1 };  // rows of the media table that are no tissue: label 0, and the rim of the grid
enum FaceRule { DEFAULT = 0, ESCAPE = 1, FRESNEL = 2, MIRROR = 3, CYCLIC = 4 };
enum SourceKind {
    PENCIL = 0, ISOTROPIC, CONE, FIBRE, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN
};
enum Ledger { SPECULAR = 0, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE, LEDGER };
enum { MEDIUM_NUMBERS = 8, SOURCE_NUMBERS = 16, DETECTOR_NUMBERS = 8, DETECTED_NUMBERS = 10 };

#define NEVER 1e30f

// 1 / |u|, large but finite for a component that is 0.
__device__ __forceinline__ float slowness(float u)
{
    return 1.0f / fmaxf(fabsf(u), 1e-12f);
}

// Where a photon starts (grid mm) and in which direction. `source`: position, rows of the frame (width, height,
// direction), two sizes, 1 - cosine of the opening, rows and columns of the pattern in one number each.
__device__ __forceinline__ void start(int kind, const float* __restrict__ source, const float* __restrict__ pattern,
                                      int pattern_rows, int pattern_columns, Xoshiro* random, Vector* at, Vector* along)
{
    if (kind == PENCIL) {
        *at = Vector{source[0], source[1], source[2]};
        *along = Vector{source[9], source[10], source[11]};
        return;
    }
    const float u0 = random->uniform(), u1 = random->uniform(), u2 = random->uniform();
    float cp, sp;
    turn(random->next(), &cp, &sp);
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
            const float v = random->uniform();
        float ca, sa;
        turn(random->next(), &ca, &sa);
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

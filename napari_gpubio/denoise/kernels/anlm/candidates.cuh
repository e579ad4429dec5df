#pragma once
// Which displaced voxels a voxel may be compared with: by pre-selection, or as the first pass has written it down.
#include "block.cuh"
#ifndef A_SUFFICES
#define A_SUFFICES 1  // pre-selection: the seed's
#define B_WITH_C_SUFFICES 1
#define ANYTHING 0
#endif

constexpr float CLOSE = 0.95f, ALIKE = 0.5f;

// Pre-selection, see candidates.py: how A, B and C are combined is known to the compiler.
struct Rule {
    float maximum;

    __device__ bool selects(float2 i, float2 j) const
    {
        const float mi = i.x, mj = j.x, vi = i.y, vj = j.y;
        const float ri = maximum - mi, rj = maximum - mj;
        const bool a = mi > CLOSE * mj && mj > CLOSE * mi;
        const bool b = ri > CLOSE * rj && rj > CLOSE * ri;
        const bool c = vi > ALIKE * vj && vj > ALIKE * vi;
        const bool ok = (a && (c || A_SUFFICES)) || (b && c && B_WITH_C_SUFFICES) || ANYTHING;
        return ok && vj >= 0.0f;
    }
};

// Words of 32 displacements for each voxel of a column, and how many a displacement along x takes.
struct Words {
    unsigned* own;
    int per_dx;

    __device__ Words(unsigned* all, const Place& p) : own(all), per_dx(((2 * p.sy + 1) * (2 * p.sz + 1) + 31) / 32)
    {
        const int of_block = (2 * p.sx + 1) * per_dx * COLUMN * INNER,
                  inner = (p.row - RADIUS) * INNER_SIMD_WIDTH + p.lane - RADIUS;
        if (own) own += (size_t)blockIdx.x * of_block + inner;
    }
    __device__ unsigned* at(int word, int k) const { return own + (word * COLUMN + k) * INNER; }
};

// Candidates by pre-selection; noted where there is room for it. The moments of the displaced voxels lie in the
// tile behind their values: COLUMN lines of means, then as many of variances, which are -1 beyond the volume.
struct ByRule {
    static constexpr int LINES = 2 * COLUMN;
    const Place& p;
    const Rule rule;
    const Words words;
    const bool writes;
    const Moments moments;
    float2 mine[COLUMN];
    unsigned bits[COLUMN];

    __device__ ByRule(const Place& p, const Moments& moments, float maximum, unsigned* chosen)
        : p(p), rule{maximum}, words(chosen, p), writes(chosen && p.inner), moments(moments)
    {
        for (int k = 0; k < COLUMN; ++k) mine[k] = moments[p.has(k) ? p.at(k) : moments.skipped];
    }
    __device__ void load(int dx, int pitch, float* tile) const
    {
        const Grid g = p.g;
        Lines(p, p.x0 + dx, COLUMN).bring(p, pitch, [&](int at, int line, int x, int y, int z) {
            const float2 theirs = g.holds(x, y, z) ? moments[g.at(x, y, z)] : make_float2(0.0f, -1.0f);
            tile[at + (REACH + line) * PITCH] = theirs.x;
            tile[at + (REACH + COLUMN + line) * PITCH] = theirs.y;
        });
    }
    __device__ void begin(int)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = 0u;
    }
    __device__ bool accepts(int k, const float* there, int bit)
    {
        const float2 theirs = {there[(REACH + k) * PITCH], there[(REACH + COLUMN + k) * PITCH]};
        if (!rule.selects(mine[k], theirs)) return false;
        bits[k] |= 1u << bit;
        return true;
    }
    __device__ void end(int word) const
    {
        if (!writes) return;
        for (int k = 0; k < COLUMN; ++k) *words.at(word, k) = bits[k];
    }
};

// Candidates as the first pass has written them down.
struct ByMemory {
    static constexpr int LINES = 0;
    const Words words;
    const bool reads;
    unsigned bits[COLUMN];

    __device__ ByMemory(const Place& p, unsigned* chosen) : words(chosen, p), reads(p.inner) {}
    __device__ void load(int, int, float*) const {}
    __device__ void begin(int word)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = reads ? *words.at(word, k) : 0u;
    }
    __device__ bool accepts(int k, const float*, int bit) const { return bits[k] >> bit & 1u; }
    __device__ void end(int) const {}
};

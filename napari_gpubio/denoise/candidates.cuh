#pragma once
// Which displaced voxels a voxel may be compared with: by pre-selection, or as the first pass has written it down.
#include "block.cuh"
#ifndef A_SUFFICES
#define A_SUFFICES 1 // pre-selection: the seed's
#define B_WITH_C_SUFFICES 1
#define ANYTHING 0
#endif

constexpr float CLOSE = 0.95f, ALIKE = 0.5f;

// Pre-selection, see anlm.py: what A, B and C must say together is known to the compiler.
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
        const int of_block = (2 * p.sx + 1) * per_dx * COLUMN * INNER, inner = (p.row - RADIUS) * INNER_LANES + p.lane - RADIUS;
        own += (size_t)blockIdx.x * of_block + inner;
    }
    __device__ unsigned* at(int word, int k) const { return own + (word * COLUMN + k) * INNER; }
};

// Candidates by pre-selection; written down where there is room for it.
struct ByRule {
    const Place& p;
    const Rule rule;
    const Words words;
    const bool writes;
    const float2* here;
    float2 mine[COLUMN];
    unsigned bits[COLUMN];

    __device__ ByRule(const Place& p, const float2* moments, float maximum, unsigned* chosen)
        : p(p), rule{maximum}, words(chosen, p), writes(chosen && p.inner), here(moments + (p.has(0) ? p.at(0) : 0))
    {
        for (int k = 0; k < COLUMN; ++k) mine[k] = moments[p.has(k) ? p.at(k) : 0];
    }
    __device__ void begin(int)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = 0u;
    }
    __device__ bool wants(int k, const Displacement& d, int bit)
    {
        if (d.is_none() || !p.has(k) || !p.g.holds(p.x0 + k + d.dx, p.y + d.dy, p.z + d.dz)) return false;
        const float2 theirs = here[((k + d.dx) * p.g.ny + d.dy) * p.g.nz + d.dz];
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
    const Words words;
    const bool reads;
    unsigned bits[COLUMN];

    __device__ ByMemory(const Place& p, unsigned* chosen) : words(chosen, p), reads(p.inner) {}
    __device__ void begin(int word)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = reads ? *words.at(word, k) : 0u;
    }
    __device__ bool wants(int k, const Displacement&, int bit) const { return bits[k] >> bit & 1u; }
    __device__ void end(int) const {}
};

#pragma once
// What photons that are traced again leave behind: derivatives, or the way they went. Counterpart: record.py, same names,
// same order of operations. Operations are rounded explicitly here: the compiler must not fuse them with those of the
// photon's way, which has to be that of the build without a record.
#include "photon.cuh"

// What RECORD may be.
#define SCORES 1
#define TRAILS 2

// Where derivatives add up. As SCORES in kernels/replay/gpu.py.
struct Scores {
    const double* factors;  // of each photon for each measurement, in quanta per mm
    const unsigned int* slots;  // which of the tallies a photon adds to
    int measures, by_mua, by_mus, cells;
    unsigned long long* tally;  // two's complement
};

// Where the paths of photons are noted. As TRAILS in kernels/replay/gpu.py.
struct Trails {
    long long* counts;  // vertices that each photon has had
    int room, crossings;
    unsigned char* kinds;
    float* numbers;
};

enum VertexKind {
    START = 0, SCATTERED, CROSSED, BENT, REFLECTED, LEFT, JUMPED, ESCAPED_AT, TRUNCATED_AT, ROULETTE_AT
};
enum { VERTEX_NUMBERS = 5 };  // x, y, z (grid mm), weight, optical path (mm)

__device__ __forceinline__ void add_quanta(unsigned long long* place, double factor, double score)
{
    atomicAdd(place, (unsigned long long)__double2ll_rn(__dmul_rn(factor, score)));
}

// Add the derivatives of a path in a voxel with the scattering events since `seen`; returns their number now.
__device__ __forceinline__ int add_scores(
    const Scores& scores, unsigned int line, int cell, float mus, float path, int scatterings, int seen)
{
    const int count = scatterings - seen, coefficients = (scores.by_mua ? 1 : 0) + (scores.by_mus ? 1 : 0);
    const double lost = -(double)path;
    const double gained = count ? __dadd_rn(__ddiv_rn((double)count, (double)mus), lost) : lost;
    long long place = (long long)scores.slots[line] * scores.measures * coefficients * scores.cells + cell;
    for (int m = 0; m < scores.measures; ++m) {
        const double factor = scores.factors[(size_t)line * scores.measures + m];
        if (factor != 0.0) {
            if (scores.by_mua) add_quanta(scores.tally + place, factor, lost);
            if (scores.by_mus)
                add_quanta(scores.tally + (place + (long long)(coefficients - 1) * scores.cells), factor, gained);
        }
        place += (long long)coefficients * scores.cells;
    }
    return scatterings;
}

__device__ __forceinline__ float on_grid(int index, float edge, float within_voxel)
{
    return __fadd_rn(__fmul_rn((float)index, edge), within_voxel);
}

// Note a vertex.
__device__ __forceinline__ void note(const Trails& trails, const Scene& scene, unsigned int line, VertexKind kind,
    int cell, Vector where, float weight, float optical)
{
    const long long place = trails.counts[line];
    trails.counts[line] = place + 1;
    if (place >= trails.room) return;
    const int i = cell / scene.stride_x - 1, j = cell / scene.stride_y % (scene.ny + 2) - 1;
    const int k = cell % scene.stride_y - 1;
    const size_t at = (size_t)line * trails.room + place;
    trails.kinds[at] = (unsigned char)kind;
    float* const one = trails.numbers + at * VERTEX_NUMBERS;
    one[0] = on_grid(i, scene.hx, where.x);
    one[1] = on_grid(j, scene.hy, where.y);
    one[2] = on_grid(k, scene.hz, where.z);
    one[3] = weight;
    one[4] = optical;
}

// Note a vertex inside a voxel, after a path that is not booked yet.
__device__ __forceinline__ void note_vertex(const Trails& trails, const Scene& scene, unsigned int line, VertexKind kind,
    const Packet& photon, Vector where, const Medium& m, float path, float optical)
{
    const float decayed = mean_decay(__fmul_rn(m.mua, path));
    const float absorbed = fminf(__fmul_rn(m.mua, __fmul_rn(__fmul_rn(photon.w, path), decayed)), photon.w);
    note(trails, scene, line, kind, photon.cell, where, __fsub_rn(photon.w, absorbed),
        __fadd_rn(optical, __fmul_rn(m.n, path)));
}

// Adaptive non-local means on bricks, the counterpart of cpu.py: same windows, same order of operations.
// Local moments, the two passes over all displacements (see displacements.cuh), and the lines of the wavelet bank.
#include "fastmath.cuh"
#include "displacements.cuh"
#ifndef LARGEST
#define LARGEST 0  // whether the largest weight is kept
#endif
#ifndef SQUARES
#define SQUARES 0  // whether squares are averaged
#endif
#ifndef KNOWN
#define KNOWN 0  // whether the noise is known: sums hold what it makes of them
#endif

constexpr float TINY = 1e-30f, NOTHING = 3e38f;

// A volume and the slab of bricks that is filtered, see gpu.py.
struct Slab {
    const float* values;
    const unsigned char* usable;
    float2* moments;  // of `planes` planes from `first_plane` on
    const float* weights;
    unsigned* chosen;
    float* sums;
    float* estimates;
    int shape[3];
    int box[3];
    int search[3];
    int first_plane;
    int planes;
    int first_brick;
    float maximum;
    float floor;
    float cutoff;
    float offsets[2];  // of each patch
};

__device__ __forceinline__ Grid grid_of(const Slab& slab) { return {slab.shape[0], slab.shape[1], slab.shape[2]}; }

__device__ __forceinline__ Place place_of(const Slab& slab)
{
    return Place(grid_of(slab), slab.search[0], slab.search[1], slab.search[2], slab.first_brick);
}

// Mean and unbiased variance of the mirrored volume in a box around each voxel of `planes` planes; variance -1 where not
// usable.
extern "C" __global__ void local_moments(const Slab slab)
{
    const float* __restrict__ const values = slab.values;
    const int bx = slab.box[0], by = slab.box[1], bz = slab.box[2];
    const Grid g = grid_of(slab);
    const size_t own = blockIdx.x * (size_t)blockDim.x + threadIdx.x, i = own + g.at(slab.first_plane, 0, 0);
    if (own >= g.at(slab.planes, 0, 0)) return;
    const int z = (int)(i % g.nz), y = (int)(i / g.nz % g.ny), x = (int)(i / g.nz / g.ny);
    const int count = (2 * bx + 1) * (2 * by + 1) * (2 * bz + 1);
    float total = 0.0f;
    for (int dx = -bx; dx <= bx; ++dx)
        for (int dy = -by; dy <= by; ++dy)
            for (int dz = -bz; dz <= bz; ++dz) total += values[mirrored_at(g, x + dx, y + dy, z + dz)];
    const float middle = __fdiv_rn(total, (float)count);
    float squares = 0.0f;
    for (int dx = -bx; dx <= bx; ++dx)
        for (int dy = -by; dy <= by; ++dy)
            for (int dz = -bz; dz <= bz; ++dz) {
                const float deviation = values[mirrored_at(g, x + dx, y + dy, z + dz)] - middle;
                squares += deviation * deviation;
            }
    slab.moments[own] = make_float2(middle, slab.usable[i] ? __fdiv_rn(squares, (float)(count - 1)) : -1.0f);
}

// For each patch, the least sum of squared differences of residual patches among a voxel's candidates.
extern "C" __global__ void __launch_bounds__(THREADS, 2) find_least(const Slab slab)
{
    const float* __restrict__ const values = slab.values;
    const float2* __restrict__ const own_moments = slab.moments;
    const Place p = place_of(slab);
    if (!p.is_block_inside()) return;
    const Moments moments = {own_moments, p.g.at(slab.first_plane, 0, 0)};
    float least[PATCHES][COLUMN];
    for (int k = 0; k < COLUMN; ++k)
        for (int r = 0; r < PATCHES; ++r) least[r][k] = NOTHING;
    const ByRule choice(p, moments, slab.maximum, slab.chosen);
    for_all_displacements(
        Residuals{values, moments}, p, slab.weights, choice, [&](int k, const float* found, float, float) {
            for (int r = 0; r < PATCHES; ++r) least[r][k] = fminf(least[r][k], found[r]);
        });
    for (int k = 0; k < COLUMN; ++k)
        if (p.has(k))
            for (int r = 0; r < PATCHES; ++r) slab.sums[r * p.g.size() + p.at(k)] = least[r][k];
}

// Weighted mean of a voxel's candidates and itself (or of squares); 0 where nothing counts.
__device__ __forceinline__ float estimate(float value, float differences, float weights, float largest, float floor)
{
    float center = LARGEST && largest > 0.0f ? largest : 1.0f;
    if (!(value > floor)) center = 0.0f;
    weights += center;
    const float own = SQUARES ? value * value : value;
    return weights > 0.0f ? own + differences / weights : 0.0f;
}

// The estimates of each patch, by the least sums that were found or are known.
extern "C" __global__ void __launch_bounds__(THREADS, 2) average(const Slab slab)
{
    const float* __restrict__ const values = slab.values;
    const float* __restrict__ const sums = slab.sums;
    const float floor = slab.floor, cutoff = slab.cutoff;
    const float2* __restrict__ const own_moments = slab.moments;
    const Place p = place_of(slab);
    if (!p.is_block_inside()) return;
    const Moments moments = {own_moments, p.g.at(slab.first_plane, 0, 0)};
    float inverse[PATCHES][COLUMN];
    float differences[PATCHES][COLUMN], total[PATCHES][COLUMN], largest[PATCHES][COLUMN];
    for (int k = 0; k < COLUMN; ++k) {
        const size_t i = p.has(k) ? p.at(k) : 0;
        for (int r = 0; r < PATCHES; ++r) {
            inverse[r][k] = 1.0f / fmaxf(sums[r * p.g.size() + i], TINY);
            differences[r][k] = total[r][k] = largest[r][k] = 0.0f;
        }
    }
#if KNOWN
    const ByRule choice(p, moments, slab.maximum, nullptr);  // there was no first pass
#else
    const ByMemory choice(p, slab.chosen);
#endif
    for_all_displacements(
        Values{values}, p, slab.weights, choice, [&](int k, const float* found, float own, float there) {
            if (!(there > floor)) return;
            const float difference = SQUARES ? there * there - own * own : there - own;
            for (int r = 0; r < PATCHES; ++r) {
                const float scaled = found[r] * inverse[r][k];
                const float distance = KNOWN ? fmaxf(scaled - slab.offsets[r], 0.0f) : scaled;
                const float weight = distance <= cutoff ? decay(distance) : 0.0f;
                differences[r][k] += weight * difference;
                total[r][k] += weight;
                if (LARGEST) largest[r][k] = fmaxf(largest[r][k], weight);
            }
        });
    for (int k = 0; k < COLUMN; ++k) {
        if (!p.has(k)) continue;
        const size_t i = p.at(k);
        const float value = values[i];
        for (int r = 0; r < PATCHES; ++r)
            slab.estimates[r * p.g.size() + i] =
                moments[i].y < 0.0f ? (SQUARES ? value * value : value)
                                    : estimate(value, differences[r][k], total[r][k], largest[r][k], floor);
    }
}

// Filter along the middle axis of (before, line, behind); taps of even and odd positions, zero beyond the ends.
extern "C" __global__ void filter_lines(
    const float* __restrict__ source, int before, int n, int behind, const float* __restrict__ taps, int reach,
    float* __restrict__ out)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= (size_t)before * n * behind) return;
    const int at = (int)(i / behind % n);
    const float* const own = taps + (at % 2) * (2 * reach + 1) + reach;
    float sum = 0.0f;
    for (int d = -reach; d <= reach; ++d)  // a loop that ends at the line's end was seen to read beyond it (NVRTC 13.0)
        if (at + d >= 0 && at + d < n) sum += own[d] * source[i + (ptrdiff_t)d * behind];
    out[i] = sum;
}

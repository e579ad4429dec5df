#pragma once
// What both passes over all displacements have in common: squared differences, summed over patches.
//
// A block of 16 x 32 threads filters COLUMN x 12 x 28 voxels. A thread owns a column of voxels along x, its values in
// registers, at one (y, z) of the brick or of the patch radius (2) around it. For every displacement the squared
// differences are summed over patches in three passes: along x in registers; along y by threads that each take a whole
// line out of shared memory; along z from neighboring lanes. The displaced values lie in shared memory for one dx at
// a time, so that any search radius fits. There are no atomics: a voxel's sums are made in one order.
#include "candidates.cuh"

// Sums along y of a line that lies in `in`, one number of each row.
__device__ __forceinline__ void sum_line(const Reach& reach, int patch, const float* in, float* out)
{
#pragma unroll
    for (int y = 0; y < INNER_ROWS; ++y)
        out[y * SIMD_WIDTH] = reach.sum(
            patch, in[y * SIMD_WIDTH], in[(y + 1) * SIMD_WIDTH], in[(y + 2) * SIMD_WIDTH], in[(y + 3) * SIMD_WIDTH],
            in[(y + 4) * SIMD_WIDTH]);
}

// Calls use(k, sums, here, there) for every displacement and every voxel k of the column that `choice` accepts: the
// sums of squared differences over each patch, its value, and the displaced one.
template <class Field, class Choice, class Use>
__device__ __forceinline__ void for_all_displacements(
    const Field& field, const Place& p, const float* __restrict__ weights, Choice choice, Use use)
{
    DYN_SHARED(float, shared);
    constexpr int SUMS = PATCHES * COLUMN, TILE_PITCH = (REACH + Choice::LINES) * PITCH;
    float* const lines = shared;  // sums along x: displacement, patch, k, row, lane
    float* const planes = lines + TOGETHER * SUMS * THREADS;  // along x and y: displacement, patch, k, inner row, lane
    float* const tile = planes + TOGETHER * SUMS * INNER_ROWS * SIMD_WIDTH;
    int* const offsets = (int*)(tile + (ROWS + 2 * p.sy) * TILE_PITCH);  // of the displacements of one dx, in the tile
    const int t = threadIdx.x, line = t / SIMD_WIDTH;  // this thread's line along y: displacement, patch and k
    const bool sums_line = t < TOGETHER * SUMS * SIMD_WIDTH;
    Reach along_x[PATCHES], along_z[PATCHES];
    for (int r = 0; r < PATCHES; ++r) {
        along_x[r] = Reach(weights, r, 0);
        along_z[r] = Reach(weights, r, 2);
    }
    const int patch = line % SUMS / COLUMN;
    const Reach along_y(weights, sums_line ? patch : 0, 1);
    float own[REACH];
    for (int k = 0; k < REACH; ++k) own[k] = field.at(mirrored_at(p.g, p.x0 - RADIUS + k, p.y, p.z));

    const int across = 2 * p.sz + 1, count = (2 * p.sy + 1) * across;
    for (int n = t; n < count; n += THREADS) offsets[n] = (n / across - p.sy) * TILE_PITCH + n % across - p.sz;
    const float* const middle = tile + (p.row + p.sy) * TILE_PITCH + p.lane + p.sz;
    for (int dx = -p.sx; dx <= p.sx; ++dx) {
        const int itself = dx == 0 ? count / 2 : -1;  // a voxel is none of its own candidates
        __syncthreads();
        load_tile(field, p, dx, TILE_PITCH, tile);
        choice.load(dx, TILE_PITCH, tile);
        __syncthreads();
        for (int done = 0; done < count; done += TOGETHER) {
            const int word = (dx + p.sx) * choice.words.per_dx + done / 32;
            if (done % 32 == 0) choice.begin(word);
#pragma unroll
            for (int h = 0; h < TOGETHER; ++h) {
                if (done + h >= count) break;
                const float* const there = middle + offsets[done + h];
                float e[REACH];
#pragma unroll
                for (int k = 0; k < REACH; ++k) {
                    const float difference = own[k] - there[k * PITCH];
                    e[k] = difference * difference;
                }
#pragma unroll
                for (int r = 0; r < PATCHES; ++r)
#pragma unroll
                    for (int k = 0; k < COLUMN; ++k)
                        lines[(h * SUMS + r * COLUMN + k) * THREADS + t] =
                            along_x[r].sum(r, e[k], e[k + 1], e[k + 2], e[k + 3], e[k + 4]);
            }
            __syncthreads();
            if (sums_line) {
                const float* const in = lines + line * THREADS + p.lane;
                float* const out = planes + line * INNER_ROWS * SIMD_WIDTH + p.lane;
                if (patch == 0)  // all threads of a warp have the same line
                    sum_line(along_y, 0, in, out);
                else
                    sum_line(along_y, PATCHES - 1, in, out);
            }
            __syncthreads();
#pragma unroll
            for (int h = 0; h < TOGETHER; ++h) {
                if (done + h >= count || done + h == itself || !p.inner) continue;
                const float* const there = middle + offsets[done + h];
                const float* const plane = planes + (h * SUMS * INNER_ROWS + p.row - RADIUS) * SIMD_WIDTH + p.lane;
#pragma unroll
                for (int k = 0; k < COLUMN; ++k) {
                    if (!choice.accepts(k, there, done % 32 + h)) continue;
                    float sums[PATCHES];
#pragma unroll
                    for (int r = 0; r < PATCHES; ++r) {
                        const float* const c = plane + (r * COLUMN + k) * INNER_ROWS * SIMD_WIDTH;
                        sums[r] = along_z[r].sum(r, c[-2], c[-1], c[0], c[1], c[2]);
                    }
                    use(k, sums, own[k + RADIUS], there[(k + RADIUS) * PITCH]);
                }
            }
            if ((done + TOGETHER) % 32 == 0 || done + TOGETHER >= count) choice.end(word);
        }
    }
}

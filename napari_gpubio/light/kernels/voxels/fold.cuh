#pragma once
// Sums over finished batches. Counterpart: fold.py.
#include "photon.cuh"

enum { FOLD_CELLS = 8 };  // voxels of a thread, chosen by measurement; as on the host

// Add the square of a 64-bit number to a sum of 128 bits, two words.
__device__ __forceinline__ void add_square(unsigned long long* __restrict__ sum, unsigned long long value)
{
    const unsigned long long low = value * value, before = sum[0];
    sum[0] = before + low;
    sum[1] += __umul64hi(value, value) + (before + low < low ? 1ull : 0ull);
}

// What is in a place of all copies of a tally, which is cleared.
__device__ __forceinline__ unsigned long long taken(
    unsigned long long* __restrict__ tally, unsigned copies, long long copy_stride, long long place)
{
    unsigned long long value = 0;
    for (unsigned c = 0; c < copies; ++c) {
        unsigned long long* const from = tally + c * copy_stride + place;
        if (!*from) continue;
        value += *from;
        *from = 0;
    }
    return value;
}

// Add what the lanes of a warp have gathered to their rows of `absorbed`, at once where all have the same row.
__device__ __forceinline__ void add_to_rows(
    unsigned long long* __restrict__ absorbed, int row, unsigned long long gathered)
{
    const unsigned full = __ballot_sync(~0u, gathered != 0);
    if (!full) return;
    const int common = __shfl_sync(~0u, row, __ffs(full) - 1);
    if (!__all_sync(~0u, !gathered || row == common)) {
        if (gathered) atomicAdd(absorbed + row, gathered);
        return;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) gathered += __shfl_xor_sync(~0u, gathered, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(absorbed + common, gathered);
}

// Finished batches, one after another, and the sums that they are added to. As FOLD in gpu.py.
struct Fold {
    unsigned long long* path;  // tallies of the batches, each in copies
    int batches;
    unsigned int copies;
    long long copy_stride;
    int cells, gates, halves;
    unsigned long long* sums;
    unsigned long long* squares;  // two words each
    const LABEL* rows;
    int media_rows;
    const float* media;
    const float* mua;
    double absorbed_scale;
    unsigned long long* absorbed;  // by each row in each batch: mu_a times the tally, in units of 1 / absorbed_scale
};

// Add the halves and gates of one voxel of a batch to the sums. The sum of them.
__device__ __forceinline__ unsigned long long fold_voxel(const Fold& fold, unsigned long long* path, long long cell)
{
    unsigned long long whole = 0;
    for (int g = 0; g < fold.gates; ++g) {
        unsigned long long batch = 0;
        for (int h = 0; h < fold.halves; ++h) {
            const long long place = ((long long)h * fold.gates + g) * fold.cells + cell;
            const unsigned long long value = taken(path, fold.copies, fold.copy_stride, place);
            if (!value) continue;
            fold.sums[place] += value;
            batch += value;
        }
        whole += batch;
        if (batch) add_square(fold.squares + 2 * ((long long)g * fold.cells + cell), batch);
    }
    if (whole && fold.gates > 1) add_square(fold.squares + 2 * ((long long)fold.gates * fold.cells + cell), whole);
    return whole;
}

// Add finished batches to the sums and, squared, to the sums of squares (128 bits), and clear them. A thread gathers
// over some voxels before it adds to their row.
extern "C" __global__ void fold_batches(const Fold fold)
{
    const int lane = threadIdx.x, length = blockDim.x * FOLD_CELLS;
    unsigned long long* path = fold.path;
    unsigned long long* absorbed = fold.absorbed;
    for (int b = 0; b < fold.batches; ++b, path += fold.copies * fold.copy_stride, absorbed += fold.media_rows) {
        int row = -1;
        unsigned long long gathered = 0;
        for (int q = 0; q < FOLD_CELLS; ++q) {
            const long long cell = (long long)blockIdx.x * length + q * blockDim.x + lane;
            if (cell >= fold.cells) break;
            const unsigned long long whole = fold_voxel(fold, path, cell);
            if (!whole) continue;
            const int here = __ldg(fold.rows + cell);
            if (here != row && gathered) {
                atomicAdd(absorbed + row, gathered);
                gathered = 0;
            }
            row = here;
            const double absorption = CONTINUOUS ? __ldg(fold.mua + cell) : __ldg(fold.media + MEDIUM_NUMBERS * here);
            gathered += (unsigned long long)((double)whole * absorption * fold.absorbed_scale + 0.5);
        }
        add_to_rows(absorbed, row, gathered);
    }
}

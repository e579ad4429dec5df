// Dose-volume histograms, the counterpart of counting.py: same samples, same order of operations in each.
//
// A block does one task (rows or points of one structure, or a strip of voxels) and counts into bins in shared memory,
// in several copies lest threads wait for each other; 32 bits are enough for a task. Weights and sums are integers, so
// the order of samples, blocks and devices means nothing.
#include "counting.cuh"
#ifndef LABEL
#define LABEL unsigned char
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

struct PlaneSlice {  // as in slices.py
    double y_low, y_high, y_step, y_offset, z_low, z_step, spacing, weight;
    int organ, edge_first, edge_end, row_first, own_first;
};

struct Edge {
    double low, high, x, slope;
};

struct Task {
    int first, end, organ;
};

struct Divisions {
    int x, y, z;
};

struct Rows {
    const PlaneSlice* slices;
    const int* owner;
    const long long* starts;
    const double* x;
    const double* frames;
    const Task* tasks;
};

struct Points {
    const float* places;
    const Task* tasks;
};

struct Voxels {
    const LABEL* labels;
    const int* organs;
    const Divisions* divisions;
    const double* frame;
    int nj, nk;
};

// Where voxels are counted. ``height`` are the rows of a strip, ``extremes`` is the row of those of the volume's first
// strip, or 0 where all strips share it, and ``organs`` are those of the problem.
struct VoxelBox {
    int i_first, j_first, j_end, k_first, k_end;
    int height, extremes, organs;
};

__device__ __forceinline__ double row_y(const PlaneSlice& plane, int row)
{
    return plane.y_low + ((double)(row - plane.row_first) + plane.y_offset) * plane.y_step;
}

extern "C" __global__ void count_crossings(
    const PlaneSlice* __restrict__ slices, const int* __restrict__ owner, const Edge* __restrict__ edges, int rows,
    long long* __restrict__ counts)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const PlaneSlice plane = slices[owner[row]];
    const double y = row_y(plane, row);
    int count = 0;
    for (int e = plane.edge_first; e < plane.edge_end; ++e) count += edges[e].low <= y && y < edges[e].high;
    counts[row] = count;
}

extern "C" __global__ void find_crossings(
    const PlaneSlice* __restrict__ slices, const int* __restrict__ owner, const Edge* __restrict__ edges, int rows,
    const long long* __restrict__ starts, double* __restrict__ x)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const PlaneSlice plane = slices[owner[row]];
    const double y = row_y(plane, row);
    const long long start = starts[row];
    long long end = start;
    for (int e = plane.edge_first; e < plane.edge_end; ++e) {
        const Edge edge = edges[e];
        if (!(edge.low <= y && y < edge.high)) continue;
        const double found = edge.x + (y - edge.low) * edge.slope;
        long long place = end++;
        for (; place > start && x[place - 1] > found; --place) x[place] = x[place - 1];
        x[place] = found;
    }
}

// Doses become (dose - least) * inverse where they are, the counterpart of grid.py.
extern "C" __global__ void scale_dose(float* __restrict__ values, long long count, double least, double inverse)
{
    const long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const float value = (float)(((double)values[n] - least) * inverse);
    values[n] = value >= TINY ? value : 0.0f;
}

// All lanes of a warp take samples of one row.
__device__ void tally_row(
    Volume volume, BinRule rule, const Rows& rows, const double* frame, int row, unsigned* bins, Found& found)
{
    const int lane = threadIdx.x % SIMD_WIDTH;
    const PlaneSlice& plane = rows.slices[rows.owner[row]];
    const double y = row_y(plane, row);
    const double y_low = fmax(y - 0.5 * plane.y_step, plane.y_low), y_high = fmin(y + 0.5 * plane.y_step, plane.y_high);
    const Place height = scaled(frame + 6, y_high - y_low), depth = scaled(frame + 9, plane.z_step);
    unsigned before = 0;  // samples of earlier segments
    const double* const x_end = rows.x + rows.starts[row + 1];
    for (const double* x = rows.x + rows.starts[row]; x < x_end; x += 2) {
        const double length = x[1] - x[0];
        const int pieces = max((int)ceil(length / plane.spacing), 1);
        const double piece = length / (double)pieces;
        const unsigned weight = (unsigned)(piece * plane.weight + 0.5);
        const Place start = origin(frame, x[0], y_low, plane.z_low), along = scaled(frame + 3, piece);
        for (int first = 0; first < pieces; first += SIMD_WIDTH) {
            const int i = first + lane;
            int bin = -1;
            if (i < pieces) {
                const unsigned m = before + i, r = row - plane.row_first + plane.own_first;
                Place place = shifted(start, (float)i + fraction(r * ROW_X + m * SAMPLE_X), along);
                place = shifted(place, fraction(r * ROW_Y + m * SAMPLE_Y), height);
                place = shifted(place, fraction(r * ROW_Z + m * SAMPLE_Z), depth);
                bin = look_up(volume, rule, place, weight, found);
            }
            vote(bins, bin, weight);
        }
        before += pieces;
    }
}

extern "C" __global__ void tally_rows(Volume volume, BinRule rule, Rows rows, int first_task, int copies, Sums sums)
{
    DYN_SHARED(unsigned, bins);
    const Task task = rows.tasks[first_task + blockIdx.x];
    const int warp = threadIdx.x / SIMD_WIDTH, warps = blockDim.x / SIMD_WIDTH;
    clear_bins(bins, copies * rule.bins);
    __syncthreads();
    Found found;
    found.clear();
    for (int row = task.first + warp; row < task.end; row += warps)
        tally_row(
            volume, rule, rows, rows.frames + 12 * (size_t)task.organ, row, bins + warp % copies * rule.bins, found);
    keep_together(sums, task.organ, task.organ, found, 1);
    __syncthreads();
    flush_bins(bins, copies, rule.bins, sums.counts + (size_t)task.organ * rule.bins, 1);
}

extern "C" __global__ void tally_points(
    Volume volume, BinRule rule, Points points, int first_task, int copies, Sums sums)
{
    DYN_SHARED(unsigned, bins);
    const Task task = points.tasks[first_task + blockIdx.x];
    const int warp = threadIdx.x / SIMD_WIDTH, lane = threadIdx.x % SIMD_WIDTH;
    clear_bins(bins, copies * rule.bins);
    __syncthreads();
    Found found;
    found.clear();
    for (int first = task.first + warp * SIMD_WIDTH; first < task.end; first += (int)blockDim.x) {
        const size_t n = (size_t)first + lane;
        const float* p = points.places + 3 * n;
        int bin = -1;
        if (n < (size_t)task.end) bin = look_up(volume, rule, {p[0], p[1], p[2]}, 1, found);
        vote(bins + warp % copies * rule.bins, bin, 1);
    }
    keep_together(sums, task.organ, task.organ, found, 1);
    __syncthreads();
    flush_bins(bins, copies, rule.bins, sums.counts + (size_t)task.organ * rule.bins, 1);
}

// The slot of an organ among a block's bins, taken if it is free; -1 if none is left.
__device__ __forceinline__ int slot_of(int* slots, int count, int organ)
{
    for (int n = 0; n < count; ++n) {
        const int holder = atomicCAS(&slots[n], -1, organ);
        if (holder == -1 || holder == organ) return n;
    }
    return -1;
}

// The sample number n of a voxel: in its center if it is the only one, else somewhere in its part.
__device__ __forceinline__ Place sample_of(Place center, Divisions parts, int n, unsigned key, const double* frame)
{
    const int samples = parts.x * parts.y * parts.z;
    if (samples == 1) return center;
    const unsigned m = key * samples + n;
    const int i = n / (parts.y * parts.z), j = n / parts.z % parts.y, k = n % parts.z;
    Place place = shifted(center, ((float)i + fraction(m * SAMPLE_X)) / (float)parts.x - 0.5f, scaled(frame + 3, 1.0));
    place = shifted(place, ((float)j + fraction(m * SAMPLE_Y)) / (float)parts.y - 0.5f, scaled(frame + 6, 1.0));
    return shifted(place, ((float)k + fraction(m * SAMPLE_Z)) / (float)parts.z - 0.5f, scaled(frame + 9, 1.0));
}

constexpr int LABEL_BITS = 8 * (int)sizeof(LABEL), TOGETHER = 32 / LABEL_BITS;  // labels that a lane reads at once

// The labels of a lane in its next TOGETHER voxels, the first in the lowest bits; beyond the end they are 0. Several loads
// are under way at once: where there is no organ, waiting for labels is all that takes time.
__device__ __forceinline__ unsigned read_labels(const LABEL* row, int k, int end)
{
    unsigned together = 0;
    for (int n = 0; n < TOGETHER; ++n)
        if (k + n * SIMD_WIDTH < end) together |= (unsigned)row[k + n * SIMD_WIDTH] << (LABEL_BITS * n);
    return together;
}

// Which organs have lost an extreme in a strip, as bits; their extremes become empty.
__device__ __forceinline__ void clear_lost(unsigned* lost, int organs, unsigned* low, unsigned* high)
{
    for (int n = threadIdx.x; n < (organs + SIMD_WIDTH - 1) / SIMD_WIDTH; n += blockDim.x) {
        unsigned bits = 0;
        for (int organ = n * SIMD_WIDTH; organ < min((n + 1) * SIMD_WIDTH, organs); ++organ) {
            if (high[organ] != INFINITE) continue;
            bits |= 1u << organ % SIMD_WIDTH;
            low[organ] = INFINITE;
            high[organ] = 0u;
        }
        lost[n] = bits;
    }
}

// A block takes a strip, ``height`` rows j of a slice i as far as they are in the box, a warp one row at a time. Votes of
// organs that have no slot go to the counts directly. With ``sign`` 0 there are no slots, and extremes are found anew of
// organs that have lost one.
extern "C" __global__ void __launch_bounds__(256, 3) tally_voxels(
    Volume volume, BinRule rule, Voxels voxels, VoxelBox box, int first_item, int sign, int slot_count, Sums sums)
{
    DYN_SHARED(int, slots);  // and behind them the bins of each; with sign 0 which organs have lost an extreme
    unsigned *bins = reinterpret_cast<unsigned*>(slots + slot_count), *lost = reinterpret_cast<unsigned*>(slots);
    const LABEL* __restrict__ labels = voxels.labels;
    const int* __restrict__ organ_of = voxels.organs;
    const double* __restrict__ frame = voxels.frame;
    const int count = rule.bins, nj = voxels.nj, nk = voxels.nk, height = box.height, k_end = box.k_end;
    const int warp = threadIdx.x / SIMD_WIDTH, warps = blockDim.x / SIMD_WIDTH, lane = threadIdx.x % SIMD_WIDTH;
    const int above = box.j_first / height, strips = (box.j_end + height - 1) / height - above,
              item = first_item + blockIdx.x;
    const int i = box.i_first + item / strips, strip = above + item % strips;
    const size_t extreme_row =
        box.extremes ? (size_t)(box.extremes + i * ((nj + height - 1) / height) + strip) * box.organs : (size_t)0;
    for (int n = threadIdx.x; n < slot_count; n += blockDim.x) slots[n] = -1;
    clear_bins(bins, slot_count * count);
    if (sign == 0) clear_lost(lost, box.organs, sums.low + extreme_row, sums.high + extreme_row);
    __syncthreads();
    const Place step = scaled(frame + 9, 1.0);
    int current = -1, slot = -1, samples = 0;  // the warp's organ, its slot, and samples of each of its voxels
    Divisions parts = {0, 0, 0};
    Found found;
    found.clear();
    for (int j = max(strip * height, box.j_first) + warp; j < min((strip + 1) * height, box.j_end); j += warps) {
        const Place start = origin(frame, (double)i, (double)j, 0.0);
        const size_t row = ((size_t)i * nj + j) * nk;
        for (int first = box.k_first; first < k_end; first += TOGETHER * SIMD_WIDTH) {
            unsigned together = read_labels(labels + row, first + lane, k_end);
            // Label 0 is no organ.
            for (int k = first + lane; __any_sync(ALL, together != 0); k += SIMD_WIDTH, together >>= LABEL_BITS) {
                int organ = organ_of[(LABEL)together];
                if (sign == 0 && organ >= 0 && !(lost[organ / SIMD_WIDTH] >> organ % SIMD_WIDTH & 1u)) organ = -1;
                // One organ after another, so that what was found of it is one number for each lane.
                for (unsigned left = __ballot_sync(ALL, organ >= 0); left;) {
                    const int next = __shfl_sync(ALL, organ, __ffs(left) - 1);
                    if (next != current) {
                        if (current >= 0) keep_together(sums, current, extreme_row + current, found, sign);
                        current = next;
                        found.clear();
                        parts = voxels.divisions[next];
                        samples = parts.x * parts.y * parts.z;
                        slot = slot_of(slots, slot_count, next);
                    }
                    const bool is_own = organ == next;
                    left &= ~__ballot_sync(ALL, is_own);
                    const Place center = shifted(start, (float)k, step);
                    for (int n = 0; n < samples; ++n) {
                        int bin = -1;
                        if (is_own)
                            bin = look_up(
                                volume, rule, sample_of(center, parts, n, (unsigned)(row + k), frame), 1, found);
                        if (slot >= 0)
                            vote(bins + slot * count, bin, 1);
                        else if (sign != 0 && bin >= 0)  // too many organs in one strip
                            atomicAdd(&sums.counts[(size_t)next * count + bin], sign > 0 ? u64(1) : 0 - u64(1));
                    }
                }
            }
        }
    }
    if (current >= 0) keep_together(sums, current, extreme_row + current, found, sign);
    __syncthreads();
    for (int n = 0; n < slot_count; ++n)
        if (slots[n] >= 0) flush_bins(bins + n * count, 1, count, sums.counts + (size_t)slots[n] * count, sign);
}

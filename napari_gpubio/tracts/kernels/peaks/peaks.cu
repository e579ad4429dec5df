// Maxima of FODs, the counterpart of cpu.py: same order of operations. One warp a voxel; its lanes search directions,
// and follow the maxima among them uphill, side by side. Compiled strictly, in double precision.
#define REAL double
#include "harmonics.cuh"
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

constexpr unsigned int ALL = 0xffffffffu;
constexpr int NEIGHBORS = 6;

// The arguments of the kernel; problem.py describes them.
struct PeakArrays {
    const double* pairs;
    const double* directions;
    const int* neighbors;
    const double* columns;
    const double* table;
    double* out;
    unsigned char* counts;
    double least_fraction;
    double least_amplitude;
    double least_cosine;
    int coefficients;
    int rows;
    int most;
};

__device__ __forceinline__ bool is_near(const double* peak, const double* other, double least_cosine)
{
    return fabs(peak[0] * other[0] + peak[1] * other[1] + peak[2] * other[2]) > least_cosine;
}

// Put a peak (x, y, z, amplitude) in its place among the highest of a row, unless a higher one is near.
__device__ __forceinline__ int insert(double* row, int most, int count, const double* peak, double least_cosine)
{
    const double value = peak[3];
    for (int n = 0; n < count; ++n)
        if (row[4 * n + 3] >= value && is_near(peak, row + 4 * n, least_cosine)) return count;
    int kept = 0;
    for (int n = 0; n < count; ++n)
        if (row[4 * n + 3] >= value || !is_near(peak, row + 4 * n, least_cosine)) {
            for (int a = 0; a < 4; ++a) row[4 * kept + a] = row[4 * n + a];
            ++kept;
        }
    if (kept == most) {
        if (row[4 * (kept - 1) + 3] >= value) return kept;
        --kept;
    }
    int at = kept;
    for (; at > 0 && row[4 * (at - 1) + 3] < value; --at)
        for (int a = 0; a < 4; ++a) row[4 * at + a] = row[4 * (at - 1) + a];
    for (int a = 0; a < 4; ++a) row[4 * at + a] = peak[a];
    return kept + 1;
}

__device__ __forceinline__ bool is_largest(const PeakArrays& a, const double* amplitude, int k)
{
    const double value = amplitude[k];
    bool largest = value > 0.0;
    for (int n = 0; n < NEIGHBORS; ++n) {
        const int other = a.neighbors[k * NEIGHBORS + n];
        largest = largest && (value > amplitude[other] || (value == amplitude[other] && k < other));
    }
    return largest;
}

// Follow some maxima uphill, one a lane; ``led`` gets what each led to, of amplitude 0 where that is no peak.
__device__ __forceinline__ void follow(const PeakArrays& a, const double* fod, const int* maxima, int count, double* led)
{
    const int lane = threadIdx.x % 32;
    led[4 * lane + 3] = 0.0;
    if (lane >= count) return;
    const double* start = a.directions + 3 * maxima[lane];
    Direction u = {start[0], start[1], start[2]};
    double value = 0.0;
    if (!climb<true>(fod, a.table, &u, &value)) return;
    led[4 * lane] = u.x;
    led[4 * lane + 1] = u.y;
    led[4 * lane + 2] = u.z;
    led[4 * lane + 3] = value;
}

extern "C" __global__ void find_rows(PeakArrays a, int count)
{
    DYN_SHARED(double, memory);  // of each warp: the amplitudes, what maxima led to, and a list of maxima
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int voxel = blockIdx.x * (blockDim.x / 32) + warp;
    double* amplitude = memory + warp * (size_t)(a.rows + 4 * 32 + (a.rows + 1) / 2);
    double* led = amplitude + a.rows;
    int* maxima = (int*)(led + 4 * 32);
    if (voxel >= count) return;  // the whole warp
    const double* fod = a.pairs + (size_t)voxel * a.coefficients;
    for (int k = lane; k < a.rows; k += 32) {
        double sum = 0.0;
        for (int i = 0; i < a.coefficients; ++i) sum = fma(fod[i], a.columns[(size_t)i * a.rows + k], sum);
        amplitude[k] = sum;
    }
    __syncwarp();
    int listed = 0;
    for (int first = 0; first < a.rows; first += 32) {
        const int k = first + lane;
        const unsigned int votes = __ballot_sync(ALL, k < a.rows && is_largest(a, amplitude, k));
        if (votes >> lane & 1u) maxima[listed + __popc(votes & ((1u << lane) - 1u))] = k;
        listed += __popc(votes);
    }
    __syncwarp();
    double* row = a.out + (size_t)voxel * a.most * 4;
    int found = 0;
    for (int first = 0; first < listed; first += 32) {
        follow(a, fod, maxima + first, listed - first, led);
        __syncwarp();
        if (lane == 0)
            for (int n = 0; n < 32; ++n)
                if (led[4 * n + 3] > 0.0) found = insert(row, a.most, found, led + 4 * n, a.least_cosine);
        __syncwarp();
    }
    if (lane == 0) {
        const double least = found > 0 ? a.least_fraction * row[3] : 0.0;
        int kept = 0;
        while (kept < found && row[4 * kept + 3] >= least && row[4 * kept + 3] >= a.least_amplitude) ++kept;
        a.counts[voxel] = (unsigned char)kept;
    }
}

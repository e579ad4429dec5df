// Maxima of FODs, the counterpart of search.py: same order of operations. One warp a voxel; its lanes search directions,
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

// Copy maxima, the highest first, to a row, without those near a higher one that was copied; ``led`` is used up.
__device__ __forceinline__ int take_highest(double* led, int count, double* row, int most, double least_cosine)
{
    int taken = 0, highest = 0;
    for (int n = 1; n < count; ++n)
        if (led[4 * n + 3] > led[4 * highest + 3]) highest = n;
    while (taken < most && count > 0 && led[4 * highest + 3] > 0.0) {
        double peak[4];
        for (int a = 0; a < 4; ++a) row[4 * taken + a] = peak[a] = led[4 * highest + a];
        ++taken;
        led[4 * highest + 3] = 0.0;
        for (int n = 0; n < count; ++n)
            if (is_near(peak, led + 4 * n, least_cosine))
                led[4 * n + 3] = 0.0;
            else if (led[4 * n + 3] > led[4 * highest + 3])
                highest = n;
    }
    return taken;
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

// Follow up to 32 maxima uphill, one a lane; ``led`` gets what each led to, of amplitude 0 where that is no peak.
__device__ __forceinline__ void follow(const PeakArrays& a, const double* fod, const int* maxima, int count, double* led)
{
    const int lane = threadIdx.x % 32;
    if (lane >= count) return;
    led[4 * lane + 3] = 0.0;
    const double* start = a.directions + 3 * maxima[lane];
    Vector u = {start[0], start[1], start[2]};
    double value = 0.0;
    if (!climb<true>(fod, a.table, &u, &value)) return;
    led[4 * lane] = u.x;
    led[4 * lane + 1] = u.y;
    led[4 * lane + 2] = u.z;
    led[4 * lane + 3] = value;
}

extern "C" __global__ void find_rows(PeakArrays a, int count)
{
    DYN_SHARED(double, memory);  // of each warp: the amplitudes, a list of maxima, and what they led to
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int voxel = blockIdx.x * (blockDim.x / 32) + warp;
    const int most = a.rows / 4;  // maxima: of white noise, one direction in seven is above its six neighbors
    double* amplitude = memory + warp * (size_t)(a.rows + 4 * most + (a.rows + 1) / 2);
    double* led = amplitude + a.rows;
    int* maxima = (int*)(led + 4 * most);
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
    listed = min(listed, most);
    double* row = a.out + (size_t)voxel * a.most * 4;
    for (int first = 0; first < listed; first += 32) follow(a, fod, maxima + first, listed - first, led + 4 * first);
    __syncwarp();
    if (lane == 0) {
        const int found = take_highest(led, listed, row, a.most, a.least_cosine);
        const double least = found > 0 ? a.least_fraction * row[3] : 0.0;
        int kept = 0;
        while (kept < found && row[4 * kept + 3] >= least && row[4 * kept + 3] >= a.least_amplitude) ++kept;
        a.counts[voxel] = (unsigned char)kept;
    }
}

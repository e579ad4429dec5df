// What a tournament does with volumes, the twin of smoothing.py and passes.py: same names, same order of operations.
// Every voxel is one thread's, and there are no atomics: a result does not depend on the order of threads.
#define FOR_EVERY_VOXEL(i, size)                                                                      \
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                             \
    if (i >= (size)) return

constexpr float FAINT = 1e-28f; // of volumes near 1: less counts as nothing, see passes.py
constexpr int ROWS = 4; // voxels of a thread along the smoothed axis, or lines where that is the last one

// A window along one axis. Windows end where the segment of one label does, ``below`` and ``above`` voxels away; gains
// and slopes make them whole again.
struct Taps {
    const float* __restrict__ weights;
    const float* __restrict__ gains;
    const float* __restrict__ slopes;
    int reach, is_sloped;

    __device__ float whole_gain() const { return gains[reach * (reach + 1) + reach]; }
    // Of the voxel at ``here``, whose window reaches a voxels down and b up; a step is so far in memory.
    __device__ float smooth(const float* __restrict__ here, long long step, int a, int b) const
    {
        float total = weights[0] * *here, moment = 0.0f;
        if (a == reach && b == reach) {
            for (int d = 1; d <= reach; ++d) total += weights[d] * (here[d * step] + here[-d * step]);
            return whole_gain() * total;
        }
        for (int d = 1, farthest = a > b ? a : b; d <= farthest; ++d) {
            const float up = d <= b ? here[d * step] : 0.0f;
            const float down = d <= a ? here[-d * step] : 0.0f;
            total += weights[d] * (up + down);
            if (is_sloped) moment += weights[d] * (float)d * (up - down);
        }
        const int whole = a * (reach + 1) + b;
        const float smoothed = gains[whole] * total;
        return is_sloped ? smoothed + slopes[whole] * moment : smoothed;
    }
    // Of ROWS voxels one after another, whose windows are whole and share what they read.
    __device__ void smooth_rows(const float* __restrict__ first, long long step, float* __restrict__ out) const
    {
        float up[ROWS], down[ROWS], total[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            up[r] = down[r] = first[r * step];
            total[r] = weights[0] * up[r];
        }
        for (int d = 1; d <= reach; ++d) {
#pragma unroll
            for (int r = 0; r < ROWS - 1; ++r) {
                up[r] = up[r + 1];
                down[ROWS - 1 - r] = down[ROWS - 2 - r];
            }
            up[ROWS - 1] = first[(ROWS - 1 + d) * step];
            down[0] = first[-d * step];
            const float weight = weights[d];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) total[r] += weight * (up[r] + down[r]);
        }
        const float gain = whole_gain();
#pragma unroll
        for (int r = 0; r < ROWS; ++r) out[r * step] = gain * total[r];
    }
};

// How far a voxel's window reaches, at most ``reach``.
__device__ __forceinline__ int reach_of(const unsigned char* __restrict__ segment, int is_cut, size_t here, int end, int reach)
{
    const int far = is_cut ? segment[here] : end;
    return far < reach ? far : reach;
}

// Smooth along the middle axis of (before, n, behind), or along the last one where behind is 1.
//
// A block is 32 x 16 threads: lanes side by side in memory, so that loads are coalesced.
extern "C" __global__ void smooth_axis(
    const float* __restrict__ source, const unsigned char* __restrict__ below, const unsigned char* __restrict__ above,
    int is_cut, int before, int n, int behind, const float* __restrict__ weights, const float* __restrict__ gains,
    const float* __restrict__ slopes, int reach, int is_sloped, float* __restrict__ out)
{
    const Taps taps = {weights, gains, slopes, reach, is_sloped};
    const bool is_last = behind == 1;
    const int lane = blockIdx.x * blockDim.x + threadIdx.x; // along the line if it is the last axis, else across it
    const int row = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS;
    if (lane >= (is_last ? n : behind)) return;
    const size_t pitch = is_last ? n : behind, first = ((size_t)blockIdx.z * n + row) * pitch + lane;
    const int rows = min(ROWS, (is_last ? before : n) - row);
    bool is_whole = !is_last && rows == ROWS;
    for (int r = 0; is_whole && r < ROWS; ++r)
        is_whole = reach_of(below, is_cut, first + r * pitch, row + r, reach) == reach &&
                   reach_of(above, is_cut, first + r * pitch, n - 1 - row - r, reach) == reach;
    if (is_whole) {
        taps.smooth_rows(source + first, pitch, out + first);
        return;
    }
    for (int r = 0; r < rows; ++r) {
        const size_t here = first + r * pitch;
        const int i = is_last ? lane : row + r;
        const int a = reach_of(below, is_cut, here, i, reach), b = reach_of(above, is_cut, here, n - 1 - i, reach);
        out[here] = taps.smooth(source + here, behind, a, b);
    }
}

extern "C" __global__ void correct(long long size, const float* __restrict__ pilot, float* __restrict__ again)
{
    FOR_EVERY_VOXEL(i, size);
    const float p = pilot[i], q = again[i];
    const bool is_safe = p > 0.0f && q > 0.25f * p;
    const float ratio = is_safe ? p / q : 1.0f;
    const float corrected = p * ratio;
    again[i] = corrected > FAINT ? corrected : 0.0f;
}

__device__ __forceinline__ float error_of(float f, float g, float a, float b, float inverse, float noise)
{
    const float spread = (f - g) * inverse;
    const float bias = ((f - a) * inverse) * ((g - b) * inverse);
    return noise * (spread * spread) + bias;
}

extern "C" __global__ void compare(
    long long size, const float* __restrict__ first, const float* __restrict__ second,
    const float* __restrict__ old_first, const float* __restrict__ old_second, const float* __restrict__ new_first,
    const float* __restrict__ new_second, const float* __restrict__ reference, float noise, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    const float inverse = 1.0f / reference[i], a = first[i], b = second[i];
    const float now = error_of(new_first[i], new_second[i], a, b, inverse, noise);
    const float before = error_of(old_first[i], old_second[i], a, b, inverse, noise);
    out[i] = (now - before) * sqrtf(reference[i]);
}

extern "C" __global__ void decide(long long size, float* __restrict__ difference)
{
    FOR_EVERY_VOXEL(i, size);
    difference[i] = difference[i] < -FAINT ? 1.0f : 0.0f;
}

extern "C" __global__ void forbid(
    long long size, float* __restrict__ weight, const float* __restrict__ limit, float scale)
{
    FOR_EVERY_VOXEL(i, size);
    if (!(scale <= limit[i])) weight[i] = 0.0f;
}

extern "C" __global__ void hand_over(
    long long size, const float* __restrict__ weight, const float* __restrict__ challenger, float* __restrict__ holder)
{
    FOR_EVERY_VOXEL(i, size);
    holder[i] += weight[i] * (challenger[i] - holder[i]);
}

extern "C" __global__ void hand_scale_over(
    long long size, const float* __restrict__ weight, float scale, float* __restrict__ scales)
{
    FOR_EVERY_VOXEL(i, size);
    scales[i] += weight[i] * (scale - scales[i]);
}

extern "C" __global__ void average(
    long long size, const float* __restrict__ first, const float* __restrict__ second, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    out[i] = 0.5f * (first[i] + second[i]);
}

extern "C" __global__ void raise_to(
    long long size, float* __restrict__ values, const float* __restrict__ floor, float share, float least)
{
    FOR_EVERY_VOXEL(i, size);
    float raised = share * floor[i];
    raised = values[i] > raised ? values[i] : raised;
    values[i] = raised > least ? raised : least;
}

extern "C" __global__ void dispersion(
    long long size, const float* __restrict__ first, const float* __restrict__ second,
    const float* __restrict__ reference, float* __restrict__ out)
{
    FOR_EVERY_VOXEL(i, size);
    const float spread = 0.5f * (first[i] - second[i]);
    out[i] = fabsf(spread) > FAINT ? spread * (spread / reference[i]) : 0.0f;
}

extern "C" __global__ void standard_error(
    long long size, float* __restrict__ dispersion, const float* __restrict__ reference)
{
    FOR_EVERY_VOXEL(i, size);
    dispersion[i] = sqrtf(dispersion[i]) * sqrtf(reference[i]);
}

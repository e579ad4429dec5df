#pragma once
// Smoothing along one axis, the counterpart of cpu.py: same order of operations.
//
// A thread has four voxels one after another in a line. What is done with a smoothed volume voxel by voxel is done where
// its last axis is smoothed: end(place, smoothed) is called with the four values of each volume that is smoothed.

constexpr int FOUR = 4;

// Four voxels of a line that is not along the last axis: neighboring threads have neighboring lines. Volumes may lie
// behind one another.
struct Across {
    static constexpr bool IS_EVEN = true;  // whether threads of a warp are, but for few, as far from the ends of lines
    size_t first;
    int row, n, volume;
    bool is_there;
    ptrdiff_t step;  // in memory, from one of them to the next

    __device__ Across(int before, int n, int behind) : n(n), volume(blockIdx.z / before), step(behind)
    {
        const int lane = blockIdx.x * blockDim.x + threadIdx.x;
        row = (blockIdx.y * blockDim.y + threadIdx.y) * FOUR;
        is_there = lane < behind && row < n;
        first = ((size_t)blockIdx.z * n + row) * behind + lane;
    }
    __device__ size_t at(int k) const { return first + k * step; }
    __device__ bool has(int k) const { return (unsigned)(row + k) < (unsigned)n; }
    // Voxels k to k + 3 from the first on, 0 beyond the ends; unchecked where all are known to be there.
    template <bool CHECKED = true>
    __device__ void read(const float* __restrict__ volume, int k, float* __restrict__ four) const
    {
#pragma unroll
        for (int j = 0; j < FOUR; ++j) four[j] = !CHECKED || has(k + j) ? volume[at(k + j)] : 0.0f;
    }
    __device__ void write(const float* __restrict__ four, float* volume) const
    {
#pragma unroll
        for (int j = 0; j < FOUR; ++j)
            if (has(j)) volume[at(j)] = four[j];
    }
};

// Four voxels of a line along the last axis: neighboring threads have neighboring fours, which are read at once where
// lines are so long that they lie at multiples of four.
struct Along {
    static constexpr bool IS_EVEN = false;
    size_t first;
    int row, n, volume;
    bool is_there, is_aligned;

    __device__ Along(int before, int n, int) : n(n), volume(blockIdx.z), is_aligned(n % FOUR == 0)
    {
        const int line = blockIdx.x * blockDim.y + threadIdx.y;
        row = (blockIdx.y * blockDim.x + threadIdx.x) * FOUR;
        is_there = line < before && row < n;
        first = ((size_t)volume * before + line) * n + row;
    }
    __device__ size_t at(int k) const { return first + k; }
    __device__ bool has(int k) const { return (unsigned)(row + k) < (unsigned)n; }
    template <bool CHECKED = true>
    __device__ void read(const float* __restrict__ volume, int k, float* __restrict__ four) const
    {
        if (is_aligned) {  // and so is k
            const bool is_inside = !CHECKED || has(k);
            const float4 f = is_inside ? *reinterpret_cast<const float4*>(volume + at(k)) : make_float4(0, 0, 0, 0);
            four[0] = f.x, four[1] = f.y, four[2] = f.z, four[3] = f.w;
            return;
        }
#pragma unroll
        for (int j = 0; j < FOUR; ++j) four[j] = !CHECKED || has(k + j) ? volume[at(k + j)] : 0.0f;
    }
    __device__ void write(const float* __restrict__ four, float* volume) const
    {
        if (is_aligned) {
            *reinterpret_cast<float4*>(volume + first) = make_float4(four[0], four[1], four[2], four[3]);
            return;
        }
#pragma unroll
        for (int j = 0; j < FOUR; ++j)
            if (has(j)) volume[at(j)] = four[j];
    }
};

constexpr int LEAN = 2;  // voxels that a window may reach farther to one side than to the other, see cpu.py

// A window along one axis. It ends where the segment of one label does, `below` and `above` voxels away, and LEAN voxels
// farther from where it ends on the other side; gains and slopes make it whole again. Beyond its reach weights are 0, up
// to a multiple of four.
struct Window {
    const float* __restrict__ weights;
    const float* __restrict__ gains;
    const float* __restrict__ slopes;
    int reach, is_sloped;

    // `numbers` are weights, gains and slopes in one piece.
    __device__ Window(const float* __restrict__ numbers, int reach, int is_sloped)
        : weights(numbers), gains(weights + 1 + (reach + FOUR - 1) / FOUR * FOUR),
          slopes(gains + (reach + 1) * (reach + 1)), reach(reach), is_sloped(is_sloped)
    {
    }
    __device__ int down(int below, int above) const { return min(min(below, reach), above + LEAN); }
    __device__ int up(int below, int above) const { return min(min(above, reach), below + LEAN); }
    __device__ float made_whole(float total, float moment, int a, int b) const
    {
        const int whole = a * (reach + 1) + b;
        const float smoothed = gains[whole] * total;
        return is_sloped ? smoothed + slopes[whole] * moment : smoothed;
    }
    // Of one voxel whose window reaches a voxels down and b up, neighbors `step` away in memory.
    __device__ float smooth_one(const float* __restrict__ here, ptrdiff_t step, int a, int b) const
    {
        float total = weights[0] * *here, moment = 0.0f;
        for (int d = 1, farthest = a > b ? a : b; d <= farthest; ++d) {
            const float up = d <= b ? here[d * step] : 0.0f;
            const float down = d <= a ? here[-d * step] : 0.0f;
            total = __fmaf_rn(weights[d], up + down, total);
            if (is_sloped) moment = __fmaf_rn(weights[d] * (float)d, up - down, moment);
        }
        return made_whole(total, moment, a, b);
    }
    // Sums and first moments. Every voxel is read once, four above and four below at a time, and the next ones before these
    // are used, so that little is waited for; the places of the last four that are in use go round. Near the ends of a
    // line (CHECKED) each sum ends at a distance of its own.
    template <bool CHECKED, bool MOMENTS, class Place>
    __device__ __forceinline__ void sum(
        const float* __restrict__ volume, const Place& place, const int (&farthest)[FOUR], float* __restrict__ total,
        float* __restrict__ moment) const
    {
        int terms = CHECKED ? 1 : reach;
#pragma unroll
        for (int r = 0; r < FOUR; ++r)
            if (CHECKED) terms = max(terms, farthest[r]);
        float up[FOUR], down[FOUR], next_up[FOUR], next_down[FOUR];
        place.template read<CHECKED>(volume, 0, up);
        place.template read<CHECKED>(volume, FOUR, next_up);
        place.template read<CHECKED>(volume, -FOUR, next_down);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            down[r] = up[r];
            total[r] = weights[0] * up[r];
            moment[r] = 0.0f;
        }
        for (int d = 0; d < terms; d += FOUR) {
            float far_up[FOUR], far_down[FOUR];
            const bool is_last = d + FOUR >= terms;
            if (!is_last) {
                place.template read<CHECKED>(volume, d + 2 * FOUR, far_up);
                place.template read<CHECKED>(volume, -d - 2 * FOUR, far_down);
            }
#pragma unroll
            for (int j = 1; j <= FOUR; ++j) {
                if (j == 3 && d + 2 >= terms) break;
                up[j - 1] = next_up[j - 1];
                down[FOUR - j] = next_down[FOUR - j];
                const float weight = weights[d + j], lever = weight * (float)(d + j);
#pragma unroll
                for (int r = 0; r < FOUR; ++r) {
                    if (CHECKED && d + j > farthest[r]) continue;
                    const float above = up[(r + j) % FOUR], below = down[(r - j + FOUR) % FOUR];
                    total[r] = __fmaf_rn(weight, above + below, total[r]);
                    if (MOMENTS) moment[r] = __fmaf_rn(lever, above - below, moment[r]);
                }
            }
            if (is_last) break;
#pragma unroll
            for (int r = 0; r < FOUR; ++r) {
                next_up[r] = far_up[r];
                next_down[r] = far_down[r];
            }
        }
    }
    // Four voxels, with windows made whole.
    template <class Place>
    __device__ __forceinline__ void smooth(
        const float* __restrict__ volume, const Place& place, float* __restrict__ smoothed) const
    {
        float total[FOUR], moment[FOUR];
        int a[FOUR], b[FOUR], farthest[FOUR] = {};
        const int row = place.row, n = place.n;
        if (Place::IS_EVEN && row >= reach + FOUR && row + reach + 2 * FOUR <= n) {
            sum<false, false>(volume, place, farthest, total, moment);
            const float gain = gains[reach * (reach + 1) + reach];
#pragma unroll
            for (int r = 0; r < FOUR; ++r) smoothed[r] = gain * total[r];
            return;
        }
#pragma unroll
        for (int r = 0; r < FOUR; ++r) {
            const int below = min(row + r, n - 1), above = n - 1 - below;
            a[r] = down(below, above);
            b[r] = up(below, above);
            farthest[r] = max(a[r], b[r]);
        }
        if (is_sloped)
            sum<true, true>(volume, place, farthest, total, moment);
        else
            sum<true, false>(volume, place, farthest, total, moment);
#pragma unroll
        for (int r = 0; r < FOUR; ++r) smoothed[r] = place.has(r) ? made_whole(total[r], moment[r], a[r], b[r]) : 0.0f;
    }
};

// Smoothing along the middle axis of volumes of (before, n, behind), or along the last one where behind is 1.
struct Pass {
    const float* source;
    const unsigned char* __restrict__ below;  // voxels of the same segment below, and above, each voxel
    const unsigned char* __restrict__ above;
    int is_cut, before, n, behind;
    Window window;

    // `text`: is_cut, before, n, behind, reach, is_sloped, 0, and the numbers of the window: few arguments, since each
    // takes time in a launch.
    __device__ Pass(const float* source, const unsigned char* segments, const int* __restrict__ text)
        : source(source), below(segments), above(segments + (size_t)text[1] * text[2] * text[3]), is_cut(text[0]),
          before(text[1]), n(text[2]), behind(text[3]), window((const float*)(text + 7), text[4], text[5])
    {
    }
    __device__ size_t size() const { return (size_t)before * n * behind; }
    // Smooth those voxels anew in whose windows a segment ends.
    template <class Place>
    __device__ void cut(const float* __restrict__ volume, const Place& place, float* __restrict__ smoothed) const
    {
        const int reach = window.reach;
        for (int r = 0; r < FOUR && place.has(r); ++r) {
            const size_t i = place.at(r), in_volume = i - place.volume * size();
            const int a = below[in_volume], b = above[in_volume], row = place.row + r;
            if (a < min(row, reach) || b < min(n - 1 - row, reach))
                smoothed[r] = window.smooth_one(volume + i, behind, window.down(a, b), window.up(a, b));
        }
    }
};
#define PASS const float* __restrict__ source, const unsigned char* __restrict__ segments, const int* __restrict__ text
#define THE_PASS Pass(source, segments, text)

template <class Place, int VOLUMES, class End>
__device__ __forceinline__ void smooth(const Pass& pass, const End& end)
{
    const Place place(pass.before, pass.n, pass.behind);
    if (!place.is_there) return;
    float smoothed[VOLUMES][FOUR];
#pragma unroll
    for (int v = 0; v < VOLUMES; ++v) {
        const float* const volume = pass.source + v * pass.size();
        pass.window.smooth(volume, place, smoothed[v]);
        if (pass.is_cut) pass.cut(volume, place, smoothed[v]);
    }
    end(place, smoothed);
}

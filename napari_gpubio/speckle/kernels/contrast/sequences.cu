// Sums over frames at each pixel, and contrast from them. A thread owns four neighboring pixels and goes through the
// frames: rolling windows add a frame and drop one, blocks of frames begin anew.
#include "finishing.cuh"
#include "samples.cuh"

// Where frames are, and which of them a map is made of.
struct Sequence {
    const PIXEL* frames;
    const int* dark;
    int unit, level, depth, step;
    size_t pixels, i;  // of a frame, and the first of the four
    int count;         // of the four, those in the frame

    __device__ __forceinline__ Loaded load(int n) const
    {
        const PIXEL* const frame = frames + (size_t)n * pixels;
        if (ALIGNED) return load_aligned(frame, dark, i, unit, level);
        Loaded quad = no_samples();
        for (int k = 0; k < count; ++k) set_sample(quad, k, frame[i + k], dark, i + k, unit, level);
        return quad;
    }

    // From the sums of the map before, or from nothing, to those of a map.
    __device__ __forceinline__ void go_to(QuadSums& sums, int map, bool begun) const
    {
        const int first = map * step;
        if (begun && step < depth) {
            slide(sums, load(first + depth - 1), load(first - 1), level);
            return;
        }
        sums = no_sums();
        for (int n = first; n < first + depth; ++n) slide(sums, load(n), no_samples(), level);
    }
};

__device__ __forceinline__ Sequence make_sequence(
    const PIXEL* frames, const int* dark, int unit, int level, int depth, int step, size_t pixels)
{
    const size_t i = QUAD * (blockIdx.x * (size_t)blockDim.x + threadIdx.x);
    const int count = i < pixels ? (int)min((size_t)QUAD, pixels - i) : 0;
    return {frames, dark, unit, level, depth, step, pixels, i, count};
}

// Contrast over frames at each pixel; a block does ``segment`` maps.
extern "C" __global__ void __launch_bounds__(128) fill_temporal(
    const PIXEL* __restrict__ frames, const int* __restrict__ dark, int unit, int level, int pixels, int maps,
    int segment, int depth, int step, const float* __restrict__ floor, const float* __restrict__ baseline,
    const float2* __restrict__ table, int samples, float unbiased, float scale, float beta, float top, float gain, float low,
    float* __restrict__ contrast, float* __restrict__ index, unsigned char* __restrict__ mask)
{
    const Sequence sequence = make_sequence(frames, dark, unit, level, depth, step, (size_t)pixels);
    if (sequence.count == 0) return;
    const Rule rule = {samples, unbiased, scale, beta, top, gain, low};
    const int first = blockIdx.y * segment, end = min(first + segment, maps);
    Window windows[QUAD];
    for (int k = 0; k < QUAD; ++k) {
        windows[k] = whole_window(rule);
        const size_t i = sequence.i + (k < sequence.count ? k : 0);
        if (NOISE) windows[k].floor = floor[i];
        if (KIND == 4) windows[k].baseline = baseline[i];
    }
    QuadSums sums = no_sums();
    for (int map = first; map < end; ++map) {
        sequence.go_to(sums, map, map > first);
        Pixel found[QUAD];
        for (int k = 0; k < QUAD; ++k) {
            windows[k].saturated = (int)sums.saturated[k];
            found[k] = finish((float)sums.s[k], deviation_of(sums.s[k], sums.q[k], depth), windows[k], rule, table);
        }
        const size_t i = (size_t)map * sequence.pixels + sequence.i;
        set_pixels({contrast, index, mask}, i, found, sequence.count);
    }
}

// Sums over frames at each pixel, (maps, pixels) each; a block does ``segment`` maps.
extern "C" __global__ void __launch_bounds__(128) sum_frames(
    const PIXEL* __restrict__ frames, const int* __restrict__ dark, int unit, int level, int pixels, int maps,
    int segment, int depth, int step, Sum* __restrict__ s, Squares* __restrict__ q, unsigned int* __restrict__ saturated)
{
    const Sequence sequence = make_sequence(frames, dark, unit, level, depth, step, (size_t)pixels);
    const int first = blockIdx.y * segment, end = min(first + segment, maps);
    QuadSums sums = no_sums();
    for (int map = first; map < end && sequence.count > 0; ++map) {
        sequence.go_to(sums, map, map > first);
        for (int k = 0; k < sequence.count; ++k) {
            const size_t i = (size_t)map * sequence.pixels + sequence.i + k;
            s[i] = sums.s[k];
            q[i] = sums.q[k];
            if (MASK) saturated[i] = sums.saturated[k];
        }
    }
}

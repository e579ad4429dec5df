// Sums over frames at each pixel, and contrast from them. A thread owns four neighboring pixels and goes through the
// frames: rolling windows add a frame and drop one, blocks of frames begin anew.
#include "finishing.cuh"
#include "samples.cuh"

// Pixels of a frame, number of maps, maps that a block makes, frames of a window, and frames from one map to the next.
struct Series {
    int pixels, maps, segment, depth, step;
};

// Where frames are, and which of them a map is made of.
struct Sequence {
    const PIXEL* frames;
    const int* dark;
    int unit, level, depth, step;
    size_t pixels, i;  // of a frame, and the first of the four
    int count;  // of the four, those in the frame

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

__device__ __forceinline__ Sequence make_sequence(const Stack& stack, const Series& series)
{
    const size_t pixels = (size_t)series.pixels;
    const size_t i = QUAD * (blockIdx.x * (size_t)blockDim.x + threadIdx.x);
    const int count = i < pixels ? (int)min((size_t)QUAD, pixels - i) : 0;
    return {stack.frames, stack.dark, stack.unit, stack.level, series.depth, series.step, pixels, i, count};
}

// Contrast over frames at each pixel; a block does ``segment`` maps.
extern "C" __global__ void __launch_bounds__(128) fill_temporal(Stack stack, Series series, Finishing f)
{
    const Sequence sequence = make_sequence(stack, series);
    if (sequence.count == 0) return;
    const Rule rule = rule_of(f);
    const int first = blockIdx.y * series.segment, end = min(first + series.segment, series.maps), depth = series.depth;
    Window windows[QUAD];
    for (int k = 0; k < QUAD; ++k) {
        windows[k] = whole_window(rule);
        const size_t i = sequence.i + (k < sequence.count ? k : 0);
        if (NOISE) windows[k].floor = f.floor[i];
        if (KIND == 4) windows[k].baseline = f.baseline[i];
    }
    QuadSums sums = no_sums();
    for (int map = first; map < end; ++map) {
        sequence.go_to(sums, map, map > first);
        Pixel found[QUAD];
        for (int k = 0; k < QUAD; ++k) {
            windows[k].saturated = (int)sums.saturated[k];
            found[k] = finish((float)sums.s[k], deviation_of(sums.s[k], sums.q[k], depth), windows[k], rule, f.table);
        }
        const size_t i = (size_t)map * sequence.pixels + sequence.i;
        set_pixels(maps_of(f), i, found, sequence.count);
    }
}

// Sums over frames at each pixel, (maps, pixels) each; a block does ``segment`` maps.
extern "C" __global__ void __launch_bounds__(128) sum_frames(Stack stack, Series series, SumPlanes planes)
{
    const Sequence sequence = make_sequence(stack, series);
    const int first = blockIdx.y * series.segment, end = min(first + series.segment, series.maps);
    QuadSums sums = no_sums();
    for (int map = first; map < end && sequence.count > 0; ++map) {
        sequence.go_to(sums, map, map > first);
        for (int k = 0; k < sequence.count; ++k) {
            const size_t i = (size_t)map * sequence.pixels + sequence.i + k;
            planes.s[i] = sums.s[k];
            planes.q[i] = sums.q[k];
            if (MASK) planes.saturated[i] = sums.saturated[k];
        }
    }
}

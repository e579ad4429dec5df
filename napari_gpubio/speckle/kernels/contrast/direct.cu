// Contrast of floating-point frames, sample by sample in double precision, the counterpart of sum_samples in windows.py: a window is summed as
// differences from one of its own samples, so that D is accurate, and exactly zero where all samples are equal.
#include "finishing.cuh"
#ifndef REAL
#define REAL float
#endif
#ifndef DARK
#define DARK 0
#endif

// Frames, their dark level, level of saturation (0: not known), size, number of maps, and their windows.
struct RealStack {
    const REAL* values;
    const double* dark;
    int saturation, width, rows, maps, radius, edges, depth, step;
};

struct Frames {
    const REAL* values;
    const double* dark;
    int width, rows, edges, saturation;  // level of saturation; 0: not known

    __device__ __forceinline__ double raw(int n, int y, int x) const
    {
        return (double)values[((size_t)n * rows + y) * width + x];
    }

    __device__ __forceinline__ double at(int n, int y, int x) const
    {
        return DARK ? raw(n, y, x) - dark[(size_t)y * width + x] : raw(n, y, x);
    }

    // A sample of a window, and whether it is saturated; false if there is none beyond the border.
    __device__ __forceinline__ bool sample(int n, int y, int x, double& value, bool& saturated) const
    {
        value = 0.0;
        saturated = false;
        const bool there = y >= 0 && y < rows && x >= 0 && x < width;
        if (!there && edges != REFLECT) return edges != SHRINK;
        const int row = y < 0 ? -1 - y : y < rows ? y : 2 * rows - 1 - y;
        const int column = x < 0 ? -1 - x : x < width ? x : 2 * width - 1 - x;
        value = at(n, row, column);
        saturated = MASK && saturation != 0 && raw(n, row, column) >= (double)saturation;
        return true;
    }
};

extern "C" __global__ void __launch_bounds__(128) fill_directly(RealStack stack, Finishing f)
{
    const int width = stack.width, rows = stack.rows, radius = stack.radius, edges = stack.edges, depth = stack.depth;
    const size_t pixels = (size_t)width * rows, i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= pixels * stack.maps) return;
    const int n = (int)(i / pixels) * stack.step, y = (int)(i % pixels / width), x = (int)(i % width);
    const Maps out = maps_of(f);
    const bool whole = x >= radius && x < width - radius && y >= radius && y < rows - radius;
    if (edges == VALID && !whole) {
        set_pixel(out, i, {not_a_number(), not_a_number(), (unsigned char)EDGE});
        return;
    }
    const Frames frames = {stack.values, stack.dark, width, rows, edges, stack.saturation};
    const double middle = frames.at(n, y, x);
    double s = 0.0, q = 0.0, value;
    int count = 0, saturated = 0;
    bool is_saturated;
    for (int k = 0; k < depth; ++k)
        for (int dy = -radius; dy <= radius; ++dy)
            for (int dx = -radius; dx <= radius; ++dx) {
                if (!frames.sample(n + k, y + dy, x + dx, value, is_saturated)) continue;
                const double difference = value - middle;
                s += difference;
                q += difference * difference;
                saturated += is_saturated;
                ++count;
            }
    const Rule rule = rule_of(f);
    Window window = window_of(count, rule);
    window.saturated = saturated;
    if (NOISE) window.floor = f.floor[i % pixels];
    if (KIND == 4) window.baseline = f.baseline[i % pixels];
    const float deviation = (float)((double)count * q - s * s), level = (float)(s + (double)count * middle);
    Pixel found = finish(level, deviation, window, rule, f.table);
    if (!whole) found.mask = (unsigned char)(found.mask | EDGE);
    set_pixel(out, i, found);
}

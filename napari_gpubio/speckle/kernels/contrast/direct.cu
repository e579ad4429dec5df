// Contrast of floating-point frames, sample by sample in double precision, the counterpart of direct.py: a window is summed as
// differences from one of its own samples, so that D is accurate, and exactly zero where all samples are equal.
#include "finishing.cuh"
#ifndef REAL
#define REAL float
#endif
#ifndef DARK
#define DARK 0
#endif

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

extern "C" __global__ void __launch_bounds__(128) fill_directly(
    const REAL* __restrict__ values, const double* __restrict__ dark, int saturation, int width, int rows, int maps,
    int radius, int edges, int depth, int step, const float* __restrict__ floor, const float* __restrict__ baseline,
    const float2* __restrict__ table, int samples, float unbiased, float scale, float beta, float top, float gain, float low,
    float* __restrict__ contrast, float* __restrict__ index, unsigned char* __restrict__ mask)
{
    const size_t pixels = (size_t)width * rows, i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= pixels * maps) return;
    const int n = (int)(i / pixels) * step, y = (int)(i % pixels / width), x = (int)(i % width);
    const Maps out = {contrast, index, mask};
    const bool whole = x >= radius && x < width - radius && y >= radius && y < rows - radius;
    if (edges == VALID && !whole) {
        set_pixel(out, i, {not_a_number(), not_a_number(), (unsigned char)EDGE});
        return;
    }
    const Frames frames = {values, dark, width, rows, edges, saturation};
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
    const Rule rule = {samples, unbiased, scale, beta, top, gain, low};
    Window window = window_of(count, rule);
    window.saturated = saturated;
    if (NOISE) window.floor = floor[i % pixels];
    if (KIND == 4) window.baseline = baseline[i % pixels];
    const float deviation = (float)((double)count * q - s * s), level = (float)(s + (double)count * middle);
    Pixel found = finish(level, deviation, window, rule, table);
    if (!whole) found.mask = (unsigned char)(found.mask | EDGE);
    set_pixel(out, i, found);
}

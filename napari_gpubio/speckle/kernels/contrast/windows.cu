// Contrast over square windows by sliding columns, the counterpart of windows.py. A warp owns 128 columns of a strip of rows,
// four in each lane, and goes down: it adds a row and drops one, sums across by shuffles, and writes what the inner
// lanes have. Every sample is read from memory once (the dropped row comes from the cache), every map written once.
#include "finishing.cuh"
#include "samples.cuh"
#ifndef RADIUS
#define RADIUS 2
#endif
#ifndef EDGES
#define EDGES 0  // 0 valid, 1 reflect, 2 shrink, 3 zero
#endif

constexpr int SIMD_WIDTH = 32, HALO = (RADIUS + QUAD - 1) / QUAD, INNER = (SIMD_WIDTH - 2 * HALO) * QUAD,
              SIDE = 2 * RADIUS + 1;
constexpr unsigned int ALL = 0xFFFFFFFFu;

// Size of a frame, number of maps, and rows that a warp works on.
struct Grid {
    int width, rows, count, strip;
};

// The row or column that stands for one beyond the border, or -1 for zeros.
__device__ __forceinline__ int inside(int i, int n)
{
    if (i >= 0 && i < n) return i;
    if (EDGES != REFLECT || i < -RADIUS || i >= n + RADIUS) return -1;  // farther out nobody needs it
    return i < 0 ? -1 - i : 2 * n - 1 - i;
}

// A lane's columns of a frame.
struct Strip {
    const PIXEL* frame;
    const int* dark;
    int rows, width, x, unit, level;

    __device__ __forceinline__ Loaded load(int y) const
    {
        const int row = inside(y, rows);
        if (row < 0) return no_samples();
        const size_t begin = (size_t)row * width;
#if ALIGNED && EDGES != 1
        if (x < 0 || x >= width) return no_samples();
        return load_aligned(frame, dark, begin + x, unit, level);
#else
        if (ALIGNED && x >= 0 && x < width) return load_aligned(frame, dark, begin + x, unit, level);
        Loaded quad = no_samples();
        for (int k = 0; k < QUAD; ++k) {
            const int column = inside(x + k, width);
            if (column >= 0) set_sample(quad, k, frame[begin + column], dark, begin + column, unit, level);
        }
        return quad;
#endif
    }
};

// Sums of a window's width of columns around each of a lane's four.
template <class T>
__device__ __forceinline__ void add_across(const T (&own)[QUAD], T (&out)[QUAD])
{
#if RADIUS <= 4
    T near[QUAD + 2 * RADIUS];
    for (int k = 0; k < RADIUS; ++k) {
        near[k] = __shfl_up_sync(ALL, own[QUAD - RADIUS + k], 1);
        near[RADIUS + QUAD + k] = __shfl_down_sync(ALL, own[k], 1);
    }
    for (int k = 0; k < QUAD; ++k) near[RADIUS + k] = own[k];
    out[0] = near[0];
    for (int k = 1; k < SIDE; ++k) out[0] += near[k];
    for (int k = 1; k < QUAD; ++k) out[k] = out[k - 1] + near[k + SIDE - 1] - near[k - 1];
#else
    const int lane = threadIdx.x % SIMD_WIDTH;
    T up_to[QUAD];  // sums from the warp's first column on
    up_to[0] = own[0];
    for (int k = 1; k < QUAD; ++k) up_to[k] = up_to[k - 1] + own[k];
    T before = up_to[QUAD - 1];
    for (int d = 1; d < SIMD_WIDTH; d *= 2) {
        const T other = __shfl_up_sync(ALL, before, d);
        if (lane >= d) before += other;
    }
    before -= up_to[QUAD - 1];
    for (int k = 0; k < QUAD; ++k) up_to[k] += before;
    for (int k = 0; k < QUAD; ++k) {
        const int back = (RADIUS + 1 - k + QUAD - 1) / QUAD;  // lanes to the last column that is not in the window
        const T low = __shfl_up_sync(ALL, up_to[QUAD * back - (RADIUS + 1 - k)], back);
        const T high = __shfl_down_sync(ALL, up_to[(k + RADIUS) % QUAD], (k + RADIUS) / QUAD);
        out[k] = high - (lane >= back ? low : (T)0);
    }
#endif
}

// Where a lane's maps go, and what they need besides sums.
struct Target {
    const float *floor, *baseline;
    const float2* table;
    Rule rule;
    Maps maps;
    size_t begin;  // of the frame in the maps
    int rows, width, x;
    bool whole[QUAD];  // whether windows of these columns lie in the frame

    __device__ __forceinline__ void set_columns()
    {
        for (int k = 0; k < QUAD; ++k) whole[k] = x + k >= RADIUS && x + k < width - RADIUS;
    }

    // Pixels of a window, of which those beyond the border do not count.
    __device__ __forceinline__ int pixels_of(int k, int y) const
    {
        const int wide = min(x + k + RADIUS, width - 1) - max(x + k - RADIUS, 0) + 1;
        const int high = min(y + RADIUS, rows - 1) - max(y - RADIUS, 0) + 1;
        return wide * high;
    }

    __device__ __forceinline__ Pixel finish_window(const QuadSums& sums, int k, int y, bool is_whole) const
    {
        int samples = rule.samples;
        Window window = whole_window(rule);
        if (EDGES == SHRINK && !is_whole) {
            samples = samples / (SIDE * SIDE) * pixels_of(k, y);
            window = window_of(samples, rule);
        }
#if NOISE
        window.floor = floor[(size_t)y * width + x + k];
#endif
#if KIND == 4
        window.baseline = baseline[(size_t)y * width + x + k];
#endif
        window.saturated = (int)sums.saturated[k];
        const float level = EDGES == VALID && !whole[k] ? 0.0f : (float)sums.s[k];  // so that K is NaN
        Pixel found = finish(level, deviation_of(sums.s[k], sums.q[k], samples), window, rule, table);
#if MASK
        if (!is_whole) found.mask = EDGES == VALID ? (unsigned char)EDGE : (unsigned char)(found.mask | EDGE);
#endif
        return found;
    }

    // Write the maps of a row.
    __device__ __forceinline__ void write(const QuadSums& sums, int y) const
    {
        const int count = ALIGNED ? QUAD : min(QUAD, width - x);
        const bool whole_row = y >= RADIUS && y < rows - RADIUS;
        Pixel found[QUAD];
        if (EDGES == VALID && !whole_row) {
            for (int k = 0; k < QUAD; ++k) found[k] = {not_a_number(), not_a_number(), (unsigned char)EDGE};
        } else {
            for (int k = 0; k < QUAD; ++k)
                if (k < count) found[k] = finish_window(sums, k, y, whole_row && whole[k]);
        }
        set_pixels(maps, begin + (size_t)y * width + x, found, count);
    }
};

// The frame, first row and first column that a warp works on; false if there is nothing left for it.
__device__ __forceinline__ bool find_place(const Grid& grid, int& n, int& first, int& x)
{
    const unsigned int warp = (blockIdx.x * blockDim.x + threadIdx.x) / SIMD_WIDTH, lane = threadIdx.x % SIMD_WIDTH;
    const unsigned int tiles = (grid.width + INNER - 1) / INNER;
    const unsigned int strips = (grid.rows + grid.strip - 1) / grid.strip;
    n = (int)(warp / (tiles * strips));
    first = (int)(warp / tiles % strips) * grid.strip;
    x = (int)(warp % tiles) * INNER + ((int)lane - HALO) * QUAD;
    return n < grid.count;
}

__device__ __forceinline__ QuadSums across(const QuadSums& columns)
{
    QuadSums sums;
    add_across(columns.s, sums.s);
    add_across(columns.q, sums.q);
#if MASK
    add_across(columns.saturated, sums.saturated);
#endif
    return sums;
}

// Maps of frames, each from itself alone.
extern "C" __global__ void __launch_bounds__(128) fill_spatial(Stack stack, Grid grid, Finishing f)
{
    int n, first, x;
    if (!find_place(grid, n, first, x)) return;
    const int rows = grid.rows, width = grid.width, strip = grid.strip, level = stack.level;
    const size_t begin = (size_t)n * rows * width;
    const Strip own = {stack.frames + begin, stack.dark, rows, width, x, stack.unit, level};
    Target target = {f.floor, f.baseline, f.table, rule_of(f), maps_of(f), begin, rows, width, x, {}};
    target.set_columns();
    const int lane = threadIdx.x % SIMD_WIDTH, end = min(first + strip, rows);
    const bool writes = lane >= HALO && lane < SIMD_WIDTH - HALO && x < width;
    QuadSums columns = no_sums();
    for (int y = first - RADIUS; y < first + RADIUS; ++y) slide(columns, own.load(y), no_samples(), level);
    Loaded added = own.load(first + RADIUS), dropped = no_samples();
    for (int y = first; y < end; ++y) {
        slide(columns, added, dropped, level);
        if (y + 1 < end) {  // loaded before it is needed
            added = own.load(y + 1 + RADIUS);
            dropped = own.load(y - RADIUS);
        }
        const QuadSums sums = across(columns);
        if (writes) target.write(sums, y);
    }
}

// Add (or drop) a row of sums over frames.
__device__ __forceinline__ void change(
    QuadSums& columns, const SumPlanes& planes, size_t begin, int y, int rows, int x, int width, bool drop)
{
    const int row = inside(y, rows);
    if (row < 0) return;
    for (int k = 0; k < QUAD; ++k) {
        const int column = inside(x + k, width);
        if (column < 0) continue;
        const size_t i = begin + (size_t)row * width + column;
        columns.s[k] += drop ? (Sum)0 - planes.s[i] : planes.s[i];
        columns.q[k] += drop ? (Squares)0 - planes.q[i] : planes.q[i];
#if MASK
        columns.saturated[k] += drop ? 0u - planes.saturated[i] : planes.saturated[i];
#endif
    }
}

// Maps from sums over frames.
extern "C" __global__ void __launch_bounds__(128) fill_from_sums(SumPlanes planes, Grid grid, Finishing f)
{
    int n, first, x;
    if (!find_place(grid, n, first, x)) return;
    const int rows = grid.rows, width = grid.width, strip = grid.strip;
    const size_t begin = (size_t)n * rows * width;
    Target target = {f.floor, f.baseline, f.table, rule_of(f), maps_of(f), begin, rows, width, x, {}};
    target.set_columns();
    const int lane = threadIdx.x % SIMD_WIDTH, end = min(first + strip, rows);
    const bool writes = lane >= HALO && lane < SIMD_WIDTH - HALO && x < width;
    QuadSums columns = no_sums();
    for (int y = first - RADIUS; y < first + RADIUS; ++y) change(columns, planes, begin, y, rows, x, width, false);
    for (int y = first; y < end; ++y) {
        change(columns, planes, begin, y + RADIUS, rows, x, width, false);
        const QuadSums sums = across(columns);
        if (writes) target.write(sums, y);
        change(columns, planes, begin, y - RADIUS, rows, x, width, true);
    }
}

#pragma once
// What a block of threads filters, and how it reads the volume: the sizes of a block, its place, its tile of displaced
// values.
#ifndef PATCHES
#define PATCHES 2  // patch radii at once; the first of two is at most 1
#endif
#ifndef CUBES
#define CUBES 0  // whether windows reach equally far along all axes and everything of a patch has the weight 1
#endif
#ifndef COLUMN
#define COLUMN 2
#endif
#ifndef TOGETHER
#define TOGETHER 4  // displacements between two barriers
#endif
#ifndef PITCH
#define PITCH 64  // numbers of a line of the tile: as many lanes as the search needs
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

constexpr int RADIUS = 2, SIMD_WIDTH = 32, ROWS = 16, THREADS = ROWS * SIMD_WIDTH;
constexpr int INNER_ROWS = ROWS - 2 * RADIUS, INNER_SIMD_WIDTH = SIMD_WIDTH - 2 * RADIUS,
              INNER = INNER_ROWS * INNER_SIMD_WIDTH;
constexpr int REACH = COLUMN + 2 * RADIUS;
constexpr int BRICK_X = 8, BRICK_Y = 24, BRICK_Z = 56;
constexpr int PARTS_X = BRICK_X / COLUMN, PARTS_Y = BRICK_Y / INNER_ROWS, PARTS_Z = BRICK_Z / INNER_SIMD_WIDTH;
constexpr int PARTS = PARTS_X * PARTS_Y * PARTS_Z;  // blocks of a brick
static_assert(32 % TOGETHER == 0, "displacements together lie in one word");
static_assert(TOGETHER * PATCHES * COLUMN * SIMD_WIDTH <= THREADS, "one line along y a thread");

// A volume of voxels, mirrored beyond its borders.
struct Grid {
    int nx, ny, nz;
    __device__ size_t at(int x, int y, int z) const { return ((size_t)x * ny + y) * nz + z; }
    __device__ size_t size() const { return (size_t)nx * ny * nz; }
    __device__ bool holds(int x, int y, int z) const
    {
        return x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
    }
};

__device__ __forceinline__ int mirrored(int i, int n)
{
    while (i < 0 || i >= n)
        i = i < 0 ? -1 - i : 2 * n - 1 - i;  // seldom more than once, which a remainder takes longer than
    return i;
}

__device__ __forceinline__ size_t mirrored_at(Grid g, int x, int y, int z)
{
    return g.at(mirrored(x, g.nx), mirrored(y, g.ny), mirrored(z, g.nz));
}

// Where a thread's column of voxels lies, and its way through shared memory.
struct Place {
    Grid g;
    int sx, sy, sz;
    int row, lane, x0, y, z;  // the column's voxels are (x0 + k, y, z); k from -RADIUS to COLUMN - 1 + RADIUS
    bool inner;  // whether they are the block's to filter

    __device__ Place(Grid grid, int sx, int sy, int sz, int first) : g(grid), sx(sx), sy(sy), sz(sz)
    {
        const int part = blockIdx.x % PARTS, item = first + blockIdx.x / PARTS;
        const int across = (g.ny + BRICK_Y - 1) / BRICK_Y, along = (g.nz + BRICK_Z - 1) / BRICK_Z;
        row = threadIdx.x / SIMD_WIDTH;
        lane = threadIdx.x % SIMD_WIDTH;
        x0 = item / (across * along) * BRICK_X + part / (PARTS_Y * PARTS_Z) * COLUMN;
        y = item / along % across * BRICK_Y + part / PARTS_Z % PARTS_Y * INNER_ROWS + row - RADIUS;
        z = item % along * BRICK_Z + part % PARTS_Z * INNER_SIMD_WIDTH + lane - RADIUS;
        inner = row >= RADIUS && row < ROWS - RADIUS && lane >= RADIUS && lane < SIMD_WIDTH - RADIUS && y < g.ny &&
                z < g.nz;
    }
    // Whether the block has anything to filter: the same for all of its threads.
    __device__ bool is_block_inside() const { return g.holds(x0, y - row + RADIUS, z - lane + RADIUS); }
    __device__ bool has(int k) const { return inner && x0 + k < g.nx; }
    __device__ size_t at(int k) const { return g.at(x0 + k, y, z); }
};

// Local mean and variance of the voxels of some planes, the first `skipped` voxels of the volume left out.
struct Moments {
    const float2* own;
    size_t skipped;

    __device__ float2 operator[](size_t i) const { return own[i - skipped]; }
};

// Values, or residuals (values minus local means).
struct Values {
    const float* values;

    __device__ float at(size_t i) const { return values[i]; }
};

struct Residuals {
    const float* values;
    Moments moments;

    __device__ float at(size_t i) const { return values[i] - moments[i].x; }
};

// The lines along z that the search of a block reads for one dx, and which of them a thread has to bring: `count` lines
// along x for each row, from plane x0 on. Lines of different x lie side by side in the tile.
struct Lines {
    int x0, y0, z0, count, lanes, rows;

    __device__ Lines(const Place& p, int x0, int count)
        : x0(x0), y0(p.y - p.row - p.sy), z0(p.z - p.lane - p.sz), count(count), lanes(SIMD_WIDTH + 2 * p.sz),
          rows(ROWS + 2 * p.sy)
    {
    }
    __device__ bool are_within(Grid g) const
    {
        return g.holds(x0, y0, z0) && g.holds(x0 + count - 1, y0 + rows - 1, z0 + lanes - 1);
    }
    // Calls put(place in the tile, line, voxel's x, y, z) for what this thread has to bring.
    template <class Put>
    __device__ void bring(const Place& p, int pitch, Put put) const
    {
        for (int line = p.row; line < rows * count; line += ROWS)
            for (int lane = p.lane; lane < lanes; lane += SIMD_WIDTH)
                put(line / count * pitch + lane, line % count, x0 + line % count, y0 + line / count, z0 + lane);
    }
};

// The tile holds the displaced values for one dx: REACH lines of each row, each line as long as the search needs.
template <class Field>
__device__ __forceinline__ void load_tile(const Field& field, const Place& p, int dx, int pitch, float* tile)
{
    const Grid g = p.g;
    const Lines lines(p, p.x0 - RADIUS + dx, REACH);
    if (lines.are_within(g))
        lines.bring(p, pitch, [&](int at, int line, int x, int y, int z) {
            tile[at + line * PITCH] = field.at(g.at(x, y, z));
        });
    else
        lines.bring(p, pitch, [&](int at, int line, int x, int y, int z) {
            tile[at + line * PITCH] = field.at(mirrored_at(g, x, y, z));
        });
}

// Weights of the neighbors at distance 1 and 2 along one axis in the patch of radius r.
struct Reach {
    float one, two;

    __device__ Reach() {}
    __device__ Reach(const float* __restrict__ weights, int r, int axis)
        : one(weights[(r * 3 + axis) * 2]), two(weights[(r * 3 + axis) * 2 + 1])
    {
    }
    // Of patch r; two numbers away lies nothing of any but the last.
    __device__ float sum(int r, float a2, float a1, float c, float b1, float b2) const
    {
        const float near = c + (CUBES ? a1 + b1 : one * (a1 + b1));
        if (r < PATCHES - 1) return near;
        return near + (CUBES && PATCHES > 1 ? a2 + b2 : two * (a2 + b2));
    }
};

#pragma once
// What a block of threads filters, and how it reads the volume: the sizes of a block, its place, its tile of displaced
// values.
#include "grid.cuh"
#ifndef PATCHES
#define PATCHES 2 // patch radii at once; the first of two is at most 1
#endif
#ifndef CUBES
#define CUBES 0 // whether windows reach equally far along all axes, so that nothing of a patch needs a weight of 0
#endif
#ifndef COLUMN
#define COLUMN 2
#endif
#ifndef TOGETHER
#define TOGETHER 4 // displacements between two barriers
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

constexpr int RADIUS = 2, LANES = 32, ROWS = 16, THREADS = ROWS * LANES;
constexpr int INNER_ROWS = ROWS - 2 * RADIUS, INNER_LANES = LANES - 2 * RADIUS, INNER = INNER_ROWS * INNER_LANES;
constexpr int REACH = COLUMN + 2 * RADIUS, PITCH = 64;
constexpr int BRICK_X = 8, BRICK_Y = 24, BRICK_Z = 56;
constexpr int PARTS_X = BRICK_X / COLUMN, PARTS_Y = BRICK_Y / INNER_ROWS, PARTS_Z = BRICK_Z / INNER_LANES;
constexpr int PARTS = PARTS_X * PARTS_Y * PARTS_Z; // blocks of a brick
static_assert(32 % TOGETHER == 0, "displacements together lie in one word");
static_assert(TOGETHER * PATCHES * COLUMN * LANES <= THREADS, "one line along y a thread");

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
        row = threadIdx.x / LANES;
        lane = threadIdx.x % LANES;
        x0 = item / (across * along) * BRICK_X + part / (PARTS_Y * PARTS_Z) * COLUMN;
        y = item / along % across * BRICK_Y + part / PARTS_Z % PARTS_Y * INNER_ROWS + row - RADIUS;
        z = item % along * BRICK_Z + part % PARTS_Z * INNER_LANES + lane - RADIUS;
        inner = row >= RADIUS && row < ROWS - RADIUS && lane >= RADIUS && lane < LANES - RADIUS && y < g.ny && z < g.nz;
    }
    // Whether the block has anything to filter: the same for all of its threads.
    __device__ bool is_block_inside() const { return g.holds(x0, y - row + RADIUS, z - lane + RADIUS); }
    __device__ bool has(int k) const { return inner && x0 + k < g.nx; }
    __device__ size_t at(int k) const { return g.at(x0 + k, y, z); }
};

// Values, or residuals (values minus local means) where moments are given.
struct Field {
    const float* values;
    const float2* moments;

    __device__ float at(size_t i) const { return moments ? values[i] - moments[i].x : values[i]; }
    __device__ float at(Grid g, int x, int y, int z) const
    {
        return at(g.at(mirrored(x, g.nx), mirrored(y, g.ny), mirrored(z, g.nz)));
    }
};

// The tile holds the displaced values for one dx: REACH lines of each row, each line as long as the widest search needs.
__device__ __forceinline__ void load_tile(const Field& field, const Place& p, int dx, float* tile)
{
    const Grid g = p.g;
    const int lanes = LANES + 2 * p.sz, rows = ROWS + 2 * p.sy;
    const int x0 = p.x0 - RADIUS + dx, y0 = p.y - p.row - p.sy, z0 = p.z - p.lane - p.sz;
    const bool within = g.holds(x0, y0, z0) && g.holds(x0 + REACH - 1, y0 + rows - 1, z0 + lanes - 1);
    for (int line = p.row; line < rows * REACH; line += ROWS) {
        const int x = x0 + line % REACH, y = y0 + line / REACH;
        const size_t start = within ? g.at(x, y, 0) : g.at(mirrored(x, g.nx), mirrored(y, g.ny), 0);
        for (int lane = p.lane; lane < lanes; lane += LANES)
            tile[line * PITCH + lane] = field.at(start + (within ? z0 + lane : mirrored(z0 + lane, g.nz)));
    }
}

// Weights (0 or 1) of the neighbours at distance 1 and 2 along one axis in the patch of radius r.
struct Reach {
    float one, two;

    __device__ Reach() {}
    __device__ Reach(const float* __restrict__ weights, int r, int axis)
        : one(weights[(r * 3 + axis) * 2]), two(weights[(r * 3 + axis) * 2 + 1]) {}
    // Of patch r; two numbers away lies nothing of any but the last.
    __device__ float sum(int r, float a2, float a1, float c, float b1, float b2) const
    {
        const float near = c + (CUBES ? a1 + b1 : one * (a1 + b1));
        if (r < PATCHES - 1) return near;
        return near + (CUBES && PATCHES > 1 ? a2 + b2 : two * (a2 + b2));
    }
};

// A displacement (dx, dy, dz), stepping through those of one dx, z fastest.
struct Displacement {
    int dx, dy, dz;

    __device__ bool is_none() const { return dx == 0 && dy == 0 && dz == 0; }
    __device__ void next(int sz)
    {
        if (++dz <= sz) return;
        dz = -sz;
        ++dy;
    }
};

// Adaptive non-local means on bricks, the twin of anlm.py: same windows, same order of operations.
//
// A block of 16 x 32 threads filters COLUMN x 12 x 28 voxels. A thread owns a column of voxels along x, its values in
// registers, at one (y, z) of the brick or of the patch radius (2) around it. For every displacement the squared
// differences are summed over patches in three passes: along x in registers; along y by threads that each take a whole
// line out of shared memory; along z from neighbouring lanes. The displaced values lie in shared memory for one dx at
// a time, so that any search radius fits. There are no atomics: a voxel's sums are made in one order.
#include "fastmath.cuh"
#ifndef PATCHES
#define PATCHES 2 // patch radii at once; the first of two is at most 1
#endif
#ifndef LARGEST
#define LARGEST 0 // whether the largest weight is kept
#endif
#ifndef SQUARES
#define SQUARES 0 // whether squares are averaged
#endif
#ifndef A_SUFFICES
#define A_SUFFICES 1 // pre-selection: the seed's
#define B_WITH_C_SUFFICES 1
#define ANYTHING 0
#endif
#ifndef CUBES
#define CUBES 0 // whether windows reach equally far along all axes, so that nothing of a patch needs a weight of 0
#endif
#ifndef REMEMBERED
#define REMEMBERED 1 // whether the first pass, which finds the noise, has chosen the candidates; 0 where noise is known
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
constexpr float TINY = 1e-30f, NOTHING = 3e38f, CLOSE = 0.95f, ALIKE = 0.5f;

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
    while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;  // seldom more than once, which a remainder takes longer than
    return i;
}

__device__ __forceinline__ float mirrored_value(const float* __restrict__ values, Grid g, int x, int y, int z)
{
    return values[g.at(mirrored(x, g.nx), mirrored(y, g.ny), mirrored(z, g.nz))];
}

// Mean and unbiased variance of the mirrored volume in a box around each voxel; variance -1 where not usable.
extern "C" __global__ void local_moments(
    const float* __restrict__ values, const unsigned char* __restrict__ usable, int nx, int ny, int nz, int bx, int by,
    int bz, float2* __restrict__ moments)
{
    const Grid g = {nx, ny, nz};
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= g.size()) return;
    const int z = (int)(i % nz), y = (int)(i / nz % ny), x = (int)(i / nz / ny);
    const int count = (2 * bx + 1) * (2 * by + 1) * (2 * bz + 1);
    float total = 0.0f;
    for (int dx = -bx; dx <= bx; ++dx)
        for (int dy = -by; dy <= by; ++dy)
            for (int dz = -bz; dz <= bz; ++dz) total += mirrored_value(values, g, x + dx, y + dy, z + dz);
    const float middle = __fdiv_rn(total, (float)count);
    float squares = 0.0f;
    for (int dx = -bx; dx <= bx; ++dx)
        for (int dy = -by; dy <= by; ++dy)
            for (int dz = -bz; dz <= bz; ++dz) {
                const float deviation = mirrored_value(values, g, x + dx, y + dy, z + dz) - middle;
                squares += deviation * deviation;
            }
    moments[i] = make_float2(middle, usable[i] ? __fdiv_rn(squares, (float)(count - 1)) : -1.0f);
}

// Pre-selection, see anlm.py: what A, B and C must say together is known to the compiler.
struct Rule {
    float maximum;

    __device__ bool selects(float2 i, float2 j) const
    {
        const float mi = i.x, mj = j.x, vi = i.y, vj = j.y;
        const float ri = maximum - mi, rj = maximum - mj;
        const bool a = mi > CLOSE * mj && mj > CLOSE * mi;
        const bool b = ri > CLOSE * rj && rj > CLOSE * ri;
        const bool c = vi > ALIKE * vj && vj > ALIKE * vi;
        const bool ok = (a && (c || A_SUFFICES)) || (b && c && B_WITH_C_SUFFICES) || ANYTHING;
        return ok && vj >= 0.0f;
    }
};

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

// Words of 32 displacements for each voxel of a column, and how many a displacement along x takes.
struct Words {
    unsigned* own;
    int per_dx;

    __device__ Words(unsigned* all, const Place& p) : own(all), per_dx(((2 * p.sy + 1) * (2 * p.sz + 1) + 31) / 32)
    {
        const int of_block = (2 * p.sx + 1) * per_dx * COLUMN * INNER, inner = (p.row - RADIUS) * INNER_LANES + p.lane - RADIUS;
        own += (size_t)blockIdx.x * of_block + inner;
    }
    __device__ unsigned* at(int word, int k) const { return own + (word * COLUMN + k) * INNER; }
};

// Candidates by pre-selection; written down where there is room for it.
struct ByRule {
    const Place& p;
    const Rule rule;
    const Words words;
    const bool writes;
    const float2* here;
    float2 mine[COLUMN];
    unsigned bits[COLUMN];

    __device__ ByRule(const Place& p, const float2* moments, float maximum, unsigned* chosen)
        : p(p), rule{maximum}, words(chosen, p), writes(chosen && p.inner), here(moments + (p.has(0) ? p.at(0) : 0))
    {
        for (int k = 0; k < COLUMN; ++k) mine[k] = moments[p.has(k) ? p.at(k) : 0];
    }
    __device__ void begin(int)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = 0u;
    }
    __device__ bool wants(int k, const Displacement& d, int bit)
    {
        if (d.is_none() || !p.has(k) || !p.g.holds(p.x0 + k + d.dx, p.y + d.dy, p.z + d.dz)) return false;
        const float2 theirs = here[((k + d.dx) * p.g.ny + d.dy) * p.g.nz + d.dz];
        if (!rule.selects(mine[k], theirs)) return false;
        bits[k] |= 1u << bit;
        return true;
    }
    __device__ void end(int word) const
    {
        if (!writes) return;
        for (int k = 0; k < COLUMN; ++k) *words.at(word, k) = bits[k];
    }
};

// Candidates as the first pass has written them down.
struct ByMemory {
    const Words words;
    const bool reads;
    unsigned bits[COLUMN];

    __device__ ByMemory(const Place& p, unsigned* chosen) : words(chosen, p), reads(p.inner) {}
    __device__ void begin(int word)
    {
        for (int k = 0; k < COLUMN; ++k) bits[k] = reads ? *words.at(word, k) : 0u;
    }
    __device__ bool wants(int k, const Displacement&, int bit) const { return bits[k] >> bit & 1u; }
    __device__ void end(int) const {}
};

// Calls use(k, sums, here, there) for every displacement and every voxel k of the column that `choice` wants it for: the
// sums of squared differences over each patch, its value, and the displaced one.
template <class Choice, class Use>
__device__ __forceinline__ void for_all_displacements(
    const Field& field, const Place& p, const float* __restrict__ weights, Choice choice, Use use)
{
    DYN_SHARED(float, shared);
    constexpr int SUMS = PATCHES * COLUMN;
    float* const lines = shared;  // sums along x: displacement, patch, k, row, lane
    float* const planes = lines + TOGETHER * SUMS * THREADS;  // along x and y: displacement, patch, k, inner row, lane
    float* const tile = planes + TOGETHER * SUMS * INNER_ROWS * LANES;
    const int t = threadIdx.x, line = t / LANES;  // this thread's line along y: displacement, patch and k
    const bool sums_line = t < TOGETHER * SUMS * LANES;
    Reach along_x[PATCHES], along_z[PATCHES];
    for (int r = 0; r < PATCHES; ++r) {
        along_x[r] = Reach(weights, r, 0);
        along_z[r] = Reach(weights, r, 2);
    }
    const int patch = line % SUMS / COLUMN;
    const Reach along_y(weights, sums_line ? patch : 0, 1);
    float own[REACH];
    for (int k = 0; k < REACH; ++k) own[k] = field.at(p.g, p.x0 - RADIUS + k, p.y, p.z);

    const int count = (2 * p.sy + 1) * (2 * p.sz + 1);
    const float* const middle = tile + (p.row + p.sy) * REACH * PITCH + p.lane + p.sz;
    for (int dx = -p.sx; dx <= p.sx; ++dx) {
        __syncthreads();
        load_tile(field, p, dx, tile);
        __syncthreads();
        Displacement next = {dx, -p.sy, -p.sz};
        for (int done = 0; done < count; done += TOGETHER) {
            const int word = (dx + p.sx) * choice.words.per_dx + done / 32;
            if (done % 32 == 0) choice.begin(word);
            Displacement d = next;
#pragma unroll
            for (int h = 0; h < TOGETHER; ++h, d.next(p.sz)) {
                if (done + h >= count) break;
                const float* const there = middle + d.dy * REACH * PITCH + d.dz;
                float e[REACH];
#pragma unroll
                for (int k = 0; k < REACH; ++k) {
                    const float difference = own[k] - there[k * PITCH];
                    e[k] = difference * difference;
                }
#pragma unroll
                for (int r = 0; r < PATCHES; ++r)
#pragma unroll
                    for (int k = 0; k < COLUMN; ++k)
                        lines[(h * SUMS + r * COLUMN + k) * THREADS + t] =
                            along_x[r].sum(r, e[k], e[k + 1], e[k + 2], e[k + 3], e[k + 4]);
            }
            __syncthreads();
            if (sums_line) {
                const float* const in = lines + line * THREADS + p.lane;
                float* const out = planes + line * INNER_ROWS * LANES + p.lane;
#pragma unroll
                for (int y = 0; y < INNER_ROWS; ++y)
                    out[y * LANES] = along_y.sum(
                        patch, in[y * LANES], in[(y + 1) * LANES], in[(y + 2) * LANES], in[(y + 3) * LANES],
                        in[(y + 4) * LANES]);
            }
            __syncthreads();
            d = next;
#pragma unroll
            for (int h = 0; h < TOGETHER; ++h, d.next(p.sz)) {
                if (done + h >= count || !p.inner) continue;
                const float* const there = middle + d.dy * REACH * PITCH + d.dz;
                const float* const plane = planes + (h * SUMS * INNER_ROWS + p.row - RADIUS) * LANES + p.lane;
#pragma unroll
                for (int k = 0; k < COLUMN; ++k) {
                    if (!choice.wants(k, d, done % 32 + h)) continue;
                    float sums[PATCHES];
#pragma unroll
                    for (int r = 0; r < PATCHES; ++r) {
                        const float* const c = plane + (r * COLUMN + k) * INNER_ROWS * LANES;
                        sums[r] = along_z[r].sum(r, c[-2], c[-1], c[0], c[1], c[2]);
                    }
                    use(k, sums, own[k + RADIUS], there[(k + RADIUS) * PITCH]);
                }
            }
            next = d;
            if ((done + TOGETHER) % 32 == 0 || done + TOGETHER >= count) choice.end(word);
        }
    }
}

// For each patch, the least sum of squared differences of residual patches among a voxel's candidates.
extern "C" __global__ void __launch_bounds__(THREADS, 2) find_least(
    const float* __restrict__ values, const float2* __restrict__ moments, int nx, int ny, int nz,
    int sx, int sy, int sz, const float* __restrict__ weights, float maximum, int first, unsigned* chosen,
    float* __restrict__ sums)
{
    const Place p({nx, ny, nz}, sx, sy, sz, first);
    if (!p.is_block_inside()) return;
    float least[PATCHES][COLUMN];
    for (int k = 0; k < COLUMN; ++k)
        for (int r = 0; r < PATCHES; ++r) least[r][k] = NOTHING;
    const ByRule choice(p, moments, maximum, chosen);
    for_all_displacements({values, moments}, p, weights, choice, [&](int k, const float* found, float, float) {
        for (int r = 0; r < PATCHES; ++r) least[r][k] = fminf(least[r][k], found[r]);
    });
    for (int k = 0; k < COLUMN; ++k)
        if (p.has(k))
            for (int r = 0; r < PATCHES; ++r) sums[r * p.g.size() + p.at(k)] = least[r][k];
}

// Weighted mean of a voxel's candidates and itself (or of squares); 0 where nothing counts.
__device__ __forceinline__ float estimate(
    float value, float differences, float weights, float largest, float floor)
{
    float centre = LARGEST && largest > 0.0f ? largest : 1.0f;
    if (!(value > floor)) centre = 0.0f;
    weights += centre;
    const float own = SQUARES ? value * value : value;
    return weights > 0.0f ? own + differences / weights : 0.0f;
}

// The estimates of each patch, by the least sums that were found or are known.
extern "C" __global__ void __launch_bounds__(THREADS, 2) average(
    const float* __restrict__ values, const float2* __restrict__ moments, int nx, int ny, int nz,
    int sx, int sy, int sz, const float* __restrict__ weights, float maximum, int first, unsigned* chosen,
    const float* __restrict__ sums, float floor, float cutoff, float* __restrict__ estimates)
{
    const Place p({nx, ny, nz}, sx, sy, sz, first);
    if (!p.is_block_inside()) return;
    float inverse[PATCHES][COLUMN];
    float differences[PATCHES][COLUMN], total[PATCHES][COLUMN], largest[PATCHES][COLUMN];
    for (int k = 0; k < COLUMN; ++k) {
        const size_t i = p.has(k) ? p.at(k) : 0;
        for (int r = 0; r < PATCHES; ++r) {
            inverse[r][k] = 1.0f / fmaxf(sums[r * p.g.size() + i], TINY);
            differences[r][k] = total[r][k] = largest[r][k] = 0.0f;
        }
    }
#if REMEMBERED
    const ByMemory choice(p, chosen);
#else
    const ByRule choice(p, moments, maximum, nullptr);
#endif
    for_all_displacements({values, nullptr}, p, weights, choice, [&](int k, const float* found, float own, float there) {
        if (!(there > floor)) return;
        const float difference = SQUARES ? there * there - own * own : there - own;
        for (int r = 0; r < PATCHES; ++r) {
            const float distance = found[r] * inverse[r][k];
            const float weight = distance <= cutoff ? decay(distance) : 0.0f;
            differences[r][k] += weight * difference;
            total[r][k] += weight;
            if (LARGEST) largest[r][k] = fmaxf(largest[r][k], weight);
        }
    });
    for (int k = 0; k < COLUMN; ++k) {
        if (!p.has(k)) continue;
        const size_t i = p.at(k);
        const float value = values[i];
        for (int r = 0; r < PATCHES; ++r)
            estimates[r * p.g.size() + i] =
                moments[i].y < 0.0f ? (SQUARES ? value * value : value)
                                   : estimate(value, differences[r][k], total[r][k], largest[r][k], floor);
    }
}

// Filter along the middle axis of (before, line, behind); taps of even and odd positions, zero beyond the ends.
extern "C" __global__ void filter_lines(
    const float* __restrict__ source, int before, int n, int behind, const float* __restrict__ taps, int reach,
    float* __restrict__ out)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= (size_t)before * n * behind) return;
    const int at = (int)(i / behind % n);
    const float* const own = taps + (at % 2) * (2 * reach + 1) + reach;
    float sum = 0.0f;
    for (int d = -reach; d <= reach; ++d)  // a loop that ends at the line's end was seen to read beyond it (NVRTC 13.0)
        if (at + d >= 0 && at + d < n) sum += own[d] * source[i + (ptrdiff_t)d * behind];
    out[i] = sum;
}

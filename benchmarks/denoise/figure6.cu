// Adaptive non-local means as it was first put on GPUs (Yuan et al. 2018): a thread for each voxel, which goes through
// all patches of its search window one after the other. What is defined makes a variant of it:
//
//   BLOCK_X, BLOCK_Y, BLOCK_Z   voxels of a block; 1 x 16 x 16 is the 2-D block of the paper, 8 x 8 x 8 the 3-D one
//   SHARED                      whether a block reads its surroundings once and keeps them in shared memory
//   SMALL, LARGE                patch radii; where they differ, one launch does both
//   SEARCH                      search radius
//
// Values and residuals come padded by HALO voxels on every side, mirrored; moments and estimates do not.
constexpr int HALO = SEARCH + LARGE, TILE_X = BLOCK_X + 2 * HALO, TILE_Y = BLOCK_Y + 2 * HALO,
              TILE_Z = BLOCK_Z + 2 * HALO;
constexpr int THREADS = BLOCK_X * BLOCK_Y * BLOCK_Z, TILE = TILE_X * TILE_Y * TILE_Z;
constexpr bool BOTH = SMALL != LARGE;
constexpr float TINY = 1e-30f, NOTHING = 3e38f, CLOSE = 0.95f, ALIKE = 0.5f;

struct Sums {
    float small, large;
};

// Squared differences of the patches around two voxels, summed.
__device__ __forceinline__ Sums compare(const float* a, const float* b, int step_x, int step_y)
{
    Sums sums = {0.0f, 0.0f};
#pragma unroll
    for (int x = -LARGE; x <= LARGE; ++x)
#pragma unroll
        for (int y = -LARGE; y <= LARGE; ++y)
#pragma unroll
            for (int z = -LARGE; z <= LARGE; ++z) {
                const int at = x * step_x + y * step_y + z;
                const float difference = a[at] - b[at], square = difference * difference;
                sums.large += square;
                const bool within = x >= -SMALL && x <= SMALL && y >= -SMALL && y <= SMALL && z >= -SMALL && z <= SMALL;
                if (BOTH && within) sums.small += square;
            }
    return sums;
}

// The seed's pre-selection: means alike, or inverted means and variances alike.
__device__ __forceinline__ bool alike(float2 i, float2 j, float maximum)
{
    const float ri = maximum - i.x, rj = maximum - j.x;
    const bool a = i.x > CLOSE * j.x && j.x > CLOSE * i.x, b = ri > CLOSE * rj && rj > CLOSE * ri;
    return a || (b && i.y > ALIKE * j.y && j.y > ALIKE * i.y);
}

struct Frame {
    int nx, ny, nz;
    float maximum;
};

// A voxel, and how far apart the neighbors of a center are along x and y where patches are read.
struct Voxel {
    int x, y, z, step_x, step_y;
};

// Calls use(offset in values, sums of both patches) for every candidate of a voxel.
template <class Use>
__device__ __forceinline__ void for_all_candidates(
    const float* center, const Voxel& voxel, const Frame& frame, const float2* moments, Use use)
{
    const int x = voxel.x, y = voxel.y, z = voxel.z, nx = frame.nx, ny = frame.ny, nz = frame.nz;
    const int step_x = voxel.step_x, step_y = voxel.step_y;
    const float2 mine = moments[((size_t)x * ny + y) * nz + z];
    for (int dx = max(-SEARCH, -x); dx <= min(SEARCH, nx - 1 - x); ++dx)
        for (int dy = max(-SEARCH, -y); dy <= min(SEARCH, ny - 1 - y); ++dy)
            for (int dz = max(-SEARCH, -z); dz <= min(SEARCH, nz - 1 - z); ++dz) {
                if (dx == 0 && dy == 0 && dz == 0) continue;
                if (!alike(mine, moments[((size_t)(x + dx) * ny + y + dy) * nz + z + dz], frame.maximum)) continue;
                const int offset = dx * step_x + dy * step_y + dz;
                use(offset, compare(center, center + offset, step_x, step_y));
            }
}

extern "C" __global__ void __launch_bounds__(THREADS) filter_voxels(
    const float* __restrict__ values, const float* __restrict__ residuals, const float2* __restrict__ moments,
    const Frame frame, float* __restrict__ small, float* __restrict__ large)
{
    const int nx = frame.nx, ny = frame.ny, nz = frame.nz;
    const int z = blockIdx.x * BLOCK_Z + threadIdx.x, y = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int x = blockIdx.z * BLOCK_X + threadIdx.z;
    const int wide_z = nz + 2 * HALO, wide_y = ny + 2 * HALO;
#if SHARED
    const int wide_x = nx + 2 * HALO;
    extern __shared__ float tile[];
    const int thread = (threadIdx.z * BLOCK_Y + threadIdx.y) * BLOCK_Z + threadIdx.x;
    for (int i = thread; i < TILE; i += THREADS) {
        const int k = min((int)blockIdx.x * BLOCK_Z + i % TILE_Z, wide_z - 1);
        const int j = min((int)blockIdx.y * BLOCK_Y + i / TILE_Z % TILE_Y, wide_y - 1);
        const int l = min((int)blockIdx.z * BLOCK_X + i / (TILE_Z * TILE_Y), wide_x - 1);
        const size_t from = ((size_t)l * wide_y + j) * wide_z + k;
        tile[i] = values[from];
        tile[TILE + i] = residuals[from];
    }
    __syncthreads();
    const int step_y = TILE_Z, step_x = TILE_Y * TILE_Z;
    const int at = ((int)threadIdx.z + HALO) * step_x + ((int)threadIdx.y + HALO) * step_y + (int)threadIdx.x + HALO;
    const float* const u = tile + at;
    const float* const r = tile + TILE + at;
#else
    const int step_y = wide_z, step_x = wide_y * wide_z;
    const size_t at = (size_t)(x + HALO) * step_x + (size_t)(y + HALO) * step_y + z + HALO;
    const float* const u = values + at;
    const float* const r = residuals + at;
#endif
    if (x >= nx || y >= ny || z >= nz) return;

    const Voxel voxel = {x, y, z, step_x, step_y};
    Sums least = {NOTHING, NOTHING};
    for_all_candidates(r, voxel, frame, moments, [&](int, Sums found) {
        least.small = fminf(least.small, found.small);
        least.large = fminf(least.large, found.large);
    });
    const Sums inverse = {1.0f / fmaxf(least.small, TINY), 1.0f / fmaxf(least.large, TINY)};
    Sums differences = {0.0f, 0.0f}, weights = {1.0f, 1.0f};
    for_all_candidates(u, voxel, frame, moments, [&](int offset, Sums found) {
        const float difference = u[offset] - u[0];
        const float one = expf(-found.large * inverse.large);
        differences.large += one * difference;
        weights.large += one;
        if (BOTH) {
            const float other = expf(-found.small * inverse.small);
            differences.small += other * difference;
            weights.small += other;
        }
    });
    const size_t i = ((size_t)x * ny + y) * nz + z;
    large[i] = u[0] + differences.large / weights.large;
    if (BOTH) small[i] = u[0] + differences.small / weights.small;
}

// Transport of mass along fixels, the counterpart of steps.py: same names, same order of operations. Rows of the matrix
// are made a thread a node, in double precision; mass is gathered, a warp a node, its lanes 32 regions side by side.
// Compiled strictly, so that sums have the bits of the CPU.

constexpr unsigned int ALL = 0xffffffffu;
constexpr int EDGE = 1, ANGLE = 2, WALL = 3, LANES = 32;
constexpr double FULL = 0.02, LEAST_SHARE = 0.25;
constexpr int TILE = 16;  // fixels that a block of `overlap_slabs` holds at once

// What steps read; problem.py describes it.
struct FixelArrays {
    const int* first;
    const int* voxels;
    const double* directions;
    const double* strengths;
    const unsigned char* marks;
    double to_voxel[9];
    double substep_mm;
    double least_cosine;
    double spread;
    int shape[3];
    int substeps;
    int closed;
};

struct Place {
    double x, y, z;
};

struct Voxel {
    int i, j, k;
};

__device__ __forceinline__ int voxel_at(const int* shape, int i, int j, int k)
{
    if (i < 0 || j < 0 || k < 0 || i >= shape[0] || j >= shape[1] || k >= shape[2]) return -1;
    return (i * shape[1] + j) * shape[2] + k;
}

__device__ __forceinline__ Place moved(const FixelArrays& a, Place p, Place t)
{
    const double* m = a.to_voxel;
    const double h = a.substep_mm;
    return {p.x + h * (m[0] * t.x + m[1] * t.y + m[2] * t.z), p.y + h * (m[3] * t.x + m[4] * t.y + m[5] * t.z),
            p.z + h * (m[6] * t.x + m[7] * t.y + m[8] * t.z)};
}

__device__ __forceinline__ double along(Place t, const double* d) { return t.x * d[0] + t.y * d[1] + t.z * d[2]; }

// The eight voxels around a place and their weights.
struct Corners {
    int i, j, k;
    double fx, fy, fz;

    __device__ __forceinline__ Corners(Place p)
        : i((int)floor(p.x)), j((int)floor(p.y)), k((int)floor(p.z)), fx(p.x - i), fy(p.y - j), fz(p.z - k)
    {
    }
    __device__ __forceinline__ int voxel(const int* shape, int n) const
    {
        return voxel_at(shape, i + (n >> 2), j + (n >> 1 & 1), k + (n & 1));
    }
    __device__ __forceinline__ double weight(int n) const
    {
        return (n >> 2 ? fx : 1.0 - fx) * (n >> 1 & 1 ? fy : 1.0 - fy) * (n & 1 ? fz : 1.0 - fz);
    }
};

__device__ __forceinline__ int within(double x, int size) { return min(max((int)floor(x + 0.5), 0), size - 1); }

__device__ __forceinline__ Voxel nearest_voxel(const int* shape, Place p)
{
    return {within(p.x, shape[0]), within(p.y, shape[1]), within(p.z, shape[2])};
}

__device__ __forceinline__ int marks_between(const FixelArrays& a, Voxel one, Voxel other)
{
    int found = 0;
    for (int i = min(one.i, other.i); i <= max(one.i, other.i); ++i)
        for (int j = min(one.j, other.j); j <= max(one.j, other.j); ++j)
            for (int k = min(one.k, other.k); k <= max(one.k, other.k); ++k)
                found |= (int)a.marks[(i * a.shape[1] + j) * a.shape[2] + k];
    return found;
}

// Where a step ends: its direction there, whether fibers end before, and the marks of the voxels on the way.
struct End {
    Place place, direction;
    bool cut_short;
    int met;
};

__device__ __forceinline__ double mean_direction(const FixelArrays& a, Place p, Place t, Place* mean)
{
    const Corners around(p);
    Place s = {0.0, 0.0, 0.0};
    double share = 0.0;
    for (int n = 0; n < 8; ++n) {
        const int voxel = around.voxel(a.shape, n);
        if (voxel < 0) continue;
        double largest = a.least_cosine, sign = 1.0;
        int nearest = -1;
        for (int f = a.first[voxel]; f < a.first[voxel + 1]; ++f) {
            const double cosine = along(t, a.directions + 3 * f);
            if (fabs(cosine) > largest) largest = fabs(cosine), nearest = f, sign = cosine > 0.0 ? 1.0 : -1.0;
        }
        if (nearest < 0) continue;
        const double weight = around.weight(n), part = weight * sign;
        const double* d = a.directions + 3 * nearest;
        share += weight;
        s = {s.x + part * d[0], s.y + part * d[1], s.z + part * d[2]};
    }
    const double size = sqrt(s.x * s.x + s.y * s.y + s.z * s.z);
    if (size < 1e-9) return 0.0;
    *mean = {s.x / size, s.y / size, s.z / size};
    return share;
}

__device__ __forceinline__ End step_from(const FixelArrays& a, int node)
{
    const double* d = a.directions + 3 * (node >> 1);
    const double sign = 1.0 - 2.0 * (node & 1);
    Place t = {sign * d[0], sign * d[1], sign * d[2]};
    const int voxel = a.voxels[node >> 1], ny = a.shape[1], nz = a.shape[2];
    Place place = {(double)(voxel / (ny * nz)), (double)(voxel / nz % ny), (double)(voxel % nz)};
    int met = 0;
    bool ended = false;
    for (int substep = 0; substep < a.substeps; ++substep) {
        const Place further = moved(a, place, t);
        Place mean = t;
        if (substep < a.substeps - 1) ended = mean_direction(a, further, t, &mean) < 0.5;
        if (ended && substep >= 2) break;
        if (a.closed) met |= marks_between(a, nearest_voxel(a.shape, place), nearest_voxel(a.shape, further));
        place = further;
        if (ended) break;
        t = mean;
    }
    return {place, t, ended, met};
}

// What becomes of the mass of a node, besides the entries of its row; see steps.py.
struct Outcome {
    double ended;
    int why, met, reached;
};

// Where the mass of a node goes: the number of entries, which are written if FILLS.
template <bool FILLS>
__device__ __forceinline__ int share_out(const FixelArrays& a, int node, int* columns, double* values, Outcome* outcome)
{
    const End end = step_from(a, node);
    const Place t = end.direction;
    const Corners around(end.place);
    const int own = a.voxels[node >> 1];
    const Voxel nearest = nearest_voxel(a.shape, end.place);
    *outcome = {1.0, ANGLE, end.met, a.closed ? voxel_at(a.shape, nearest.i, nearest.j, nearest.k) : -1};
    double share = 0.0, held = 0.0, passed = 0.0, stayed = 0.0, walled = 0.0;
    int count = 0;
    for (int corner = 0; corner < 8; ++corner) {
        const int voxel = around.voxel(a.shape, corner);
        if (voxel < 0 || a.first[voxel] == a.first[voxel + 1]) continue;
        const double weight = around.weight(corner);
        held += weight;
        if (end.cut_short && voxel == own) {  // what would stay there for ever ends
            share += weight;
            stayed += weight;
            continue;
        }
        double total = 0.0;
        const int begin = count;
        for (int f = a.first[voxel]; f < a.first[voxel + 1]; ++f) {
            const double cosine = along(t, a.directions + 3 * f);
            if (fabs(cosine) < a.least_cosine) continue;
            const double angle = acos(fmin(1.0, fabs(cosine))) / a.spread;
            const double strength = a.strengths[f] * exp(-0.5 * angle * angle);
            if (!(strength > 0.0)) continue;
            total += strength;
            if (FILLS) columns[count] = 2 * f + (cosine > 0.0 ? 0 : 1), values[count] = strength;
            ++count;
        }
        if (total > 0.0) {
            const double given = weight * fmin(1.0, total / FULL);
            share += weight;
            passed += given;
            if (FILLS)
                for (int n = begin; n < count; ++n) values[n] *= given / total;
            const Voxel other = {around.i + (corner >> 2), around.j + (corner >> 1 & 1), around.k + (corner & 1)};
            if (a.closed && (a.closed & (end.met | marks_between(a, nearest, other)))) walled += given;
        }
    }
    if (share < LEAST_SHARE) {
        if (held < LEAST_SHARE) outcome->why = EDGE;
        return 0;
    }
    if (FILLS)
        for (int n = 0; n < count; ++n) values[n] /= share;
    outcome->ended = 1.0 - (passed - walled) / share;
    if (outcome->ended < 1e-6)
        outcome->ended = 0.0, outcome->why = 0;
    else if (walled > 0.5 * outcome->ended * share)
        outcome->why = WALL;
    else if (stayed > 0.5 * (share - passed))
        outcome->why = EDGE;
    return count;
}

extern "C" __global__ void count_rows(FixelArrays a, int nodes, int* counts, float* shares, unsigned char* why)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    Outcome outcome;
    counts[node] = share_out<false>(a, node, nullptr, nullptr, &outcome);
    shares[node] = (float)outcome.ended;
    why[node] = (unsigned char)outcome.why;
}

// ``memory``: doubles, one for each entry; ``column_counts``: how many entries each column has, zero at first.
extern "C" __global__ void fill_rows(
    FixelArrays a, int nodes, const long long* row, int* columns, double* memory, float* values, int* column_counts)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || row[node] == row[node + 1]) return;  // what ends has no room for entries
    Outcome outcome;
    const long long first = row[node];
    const int count = share_out<true>(a, node, columns + first, memory + first, &outcome);
    for (int n = 0; n < count; ++n) {
        values[first + n] = (float)memory[first + n];
        atomicAdd(column_counts + columns[first + n], 1);
    }
}

// Entries by column, those of each column in any order; ``taken``: zero at first.
extern "C" __global__ void list_columns(
    int nodes, const long long* row, const int* columns, const float* values, const long long* column, int* taken,
    int* sources, float* weights)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    for (long long n = row[node]; n < row[node + 1]; ++n) {
        const long long place = column[columns[n]] + atomicAdd(taken + columns[n], 1);
        sources[place] = node;
        weights[place] = values[n];
    }
}

// The entries of each column in the order of their nodes, so that sums have one order.
extern "C" __global__ void sort_columns(int nodes, const long long* column, int* sources, float* weights)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    const long long first = column[node];
    for (long long n = first + 1; n < column[node + 1]; ++n) {
        const int source = sources[n];
        const float weight = weights[n];
        long long place = n;
        for (; place > first && sources[place - 1] > source; --place) {
            sources[place] = sources[place - 1];
            weights[place] = weights[place - 1];
        }
        sources[place] = source;
        weights[place] = weight;
    }
}

// Where steps from some nodes lead, and what of their mass ends, with walls.
extern "C" __global__ void meet_walls(
    FixelArrays a, int count, const int* nodes, unsigned char* met, int* reached, float* shares, unsigned char* why)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int node = nodes[n];
    Outcome outcome;
    share_out<false>(a, node, nullptr, nullptr, &outcome);
    met[node] = (unsigned char)outcome.met;
    reached[node] = outcome.reached;
    shares[node] = (float)outcome.ended;
    why[node] = (unsigned char)outcome.why;
}

__device__ __forceinline__ bool is_closed(const FixelArrays& a, int met, int reached, int fixel)
{
    if (reached < 0) return false;
    const int voxel = a.voxels[fixel], ny = a.shape[1], nz = a.shape[2];
    const Voxel one = {reached / (ny * nz), reached / nz % ny, reached % nz};
    const Voxel other = {voxel / (ny * nz), voxel / nz % ny, voxel % nz};
    return (a.closed & (met | marks_between(a, one, other))) != 0;
}

// Entries of the columns with walls.
extern "C" __global__ void close_columns(
    FixelArrays a, int nodes, const long long* column, const int* sources, const unsigned char* met, const int* reached,
    float* weights)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    for (long long n = column[node]; n < column[node + 1]; ++n)
        if (is_closed(a, met[sources[n]], reached[sources[n]], node >> 1)) weights[n] = 0.f;
}

// Mass of regions, in groups of 32: mass and visits [group][node][32]; a mark [group][node] where any of the 32 has some.
struct MassArrays {
    float* mass;
    float* following;
    unsigned char* marks;
    unsigned char* following_marks;
    float* visits;
    const float* least;
    int nodes;
    int groups;
};

// ``owners``: the region of each fixel, within these; ``masses``: what each of its two nodes has.
extern "C" __global__ void begin(MassArrays m, const int* owners, const int* fixels, const float* masses, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int group = owners[n] / LANES, lane = owners[n] % LANES;
    const bool stays = masses[n] >= m.least[owners[n]];
    for (int sense = 0; sense < 2; ++sense) {
        const size_t place = (size_t)group * m.nodes + 2 * fixels[n] + sense;
        if (!stays) continue;
        m.mass[place * LANES + lane] = masses[n];
        m.visits[place * LANES + lane] = masses[n];
        m.marks[place] = 1;
    }
}

extern "C" __global__ void spread(MassArrays m, const long long* column, const int* sources, const float* weights, int last)
{
    const int lane = threadIdx.x % LANES, group = blockIdx.y;
    const int node = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (node >= m.nodes) return;  // the whole warp
    const size_t base = (size_t)group * m.nodes;
    const unsigned char* marks = m.marks + base;
    float sum = 0.f;
    for (long long n = column[node]; n < column[node + 1]; ++n) {
        const int source = sources[n];
        if (marks[source]) sum += m.mass[(base + source) * LANES + lane] * weights[n];
    }
    if (!(sum >= m.least[group * LANES + lane])) sum = 0.f;
    const bool any = __ballot_sync(ALL, sum > 0.f) != 0u;
    const size_t place = base + node;
    if (lane == 0) m.following_marks[place] = any;
    if (!any) return;
    m.following[place * LANES + lane] = sum;
    if (!last) m.visits[place * LANES + lane] += sum;
}

// What is left of each region: a block a group, its warps take turns.
extern "C" __global__ void sum_rest(MassArrays m, double* rest)
{
    __shared__ double sums[32][LANES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const size_t base = (size_t)blockIdx.x * m.nodes;
    double sum = 0.0;
    for (int node = warp; node < m.nodes; node += warps)
        if (m.marks[base + node]) sum += (double)m.mass[(base + node) * LANES + lane];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0) return;
    for (int w = 1; w < warps; ++w) sum += sums[w][lane];
    rest[blockIdx.x * LANES + lane] = sum;
}

// How many nodes of a slab each region has visits of: counts [group][lane][slab].
extern "C" __global__ void count_visits(MassArrays m, int slab_nodes, int slabs, int* counts)
{
    const int lane = threadIdx.x % LANES, group = blockIdx.y, slab = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (slab >= slabs) return;
    const float* visits = m.visits + (size_t)group * m.nodes * LANES;
    int count = 0;
    for (int node = slab * slab_nodes; node < min((slab + 1) * slab_nodes, m.nodes); ++node)
        count += visits[(size_t)node * LANES + lane] > 0.f;
    counts[((size_t)group * LANES + lane) * slabs + slab] = count;
}

extern "C" __global__ void list_visits(MassArrays m, int slab_nodes, int slabs, const long long* places, int* nodes, float* masses)
{
    const int lane = threadIdx.x % LANES, group = blockIdx.y, slab = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (slab >= slabs) return;
    const float* visits = m.visits + (size_t)group * m.nodes * LANES;
    long long place = places[((size_t)group * LANES + lane) * slabs + slab];
    for (int node = slab * slab_nodes; node < min((slab + 1) * slab_nodes, m.nodes); ++node) {
        const float mass = visits[(size_t)node * LANES + lane];
        if (!(mass > 0.f)) continue;
        nodes[place] = node;
        masses[place++] = mass;
    }
}

// Mass that enters a region by a part of its fixels from outside; partial [part][groups * 32].
struct ArrivalArrays {
    const int* regions_of_parts;
    const long long* part_ends;  // of parts, in the list of the regions' fixels
    const int* fixels;
    const int* first_region;
    const int* regions;
    double* partial;
    int parts;
};

extern "C" __global__ void arrive(MassArrays m, ArrivalArrays a, const long long* column, const int* sources, const float* weights)
{
    const int lane = threadIdx.x % LANES, group = blockIdx.y, part = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (part >= a.parts) return;
    const int region = a.regions_of_parts[part];
    const float* visits = m.visits + (size_t)group * m.nodes * LANES;
    double sum = 0.0;
    for (long long n = a.part_ends[part]; n < a.part_ends[part + 1]; ++n)
        for (int node = 2 * a.fixels[n]; node < 2 * a.fixels[n] + 2; ++node)
            for (long long entry = column[node]; entry < column[node + 1]; ++entry) {
                const int left = sources[entry] >> 1;
                bool inside = false;
                for (int other = a.first_region[left]; other < a.first_region[left + 1]; ++other)
                    inside = inside || a.regions[other] == region;
                if (!inside) sum += (double)visits[(size_t)sources[entry] * LANES + lane] * (double)weights[entry];
            }
    a.partial[((size_t)part * m.groups + group) * LANES + lane] = sum;
}

// Overlaps of two groups by the fixels of a slab: a block of 16 x 16 threads, each with 2 x 2 pairs of regions.
// partial [slab][groups * 32][groups * 32].
extern "C" __global__ void overlap_slabs(MassArrays m, const double* strengths, int slab_fixels, double* partial)
{
    __shared__ float left[2 * TILE][LANES], right[2 * TILE][LANES];
    __shared__ double q[TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int one = blockIdx.y / m.groups, other = blockIdx.y % m.groups, slab = blockIdx.x;
    const int fixels = m.nodes / 2;
    double sums[2][2] = {{0.0, 0.0}, {0.0, 0.0}};
    for (int first = slab * slab_fixels; first < min((slab + 1) * slab_fixels, fixels); first += TILE) {
        bool some = false;
        for (int n = threadIdx.x; n < 2 * TILE * LANES; n += 256) {
            const int row = n / LANES, lane = n % LANES, node = 2 * first + row;
            const bool there = row / 2 + first < min((slab + 1) * slab_fixels, fixels);
            const float a = there ? m.visits[((size_t)one * m.nodes + node) * LANES + lane] : 0.f;
            const float b = there ? m.visits[((size_t)other * m.nodes + node) * LANES + lane] : 0.f;
            left[row][lane] = sqrtf(a);
            right[row ^ 1][lane] = sqrtf(b);
            some = some || a > 0.f;
        }
        for (int n = threadIdx.x; n < TILE; n += 256) q[n] = first + n < fixels ? strengths[first + n] : 0.0;
        if (!__syncthreads_count(some)) continue;
        for (int row = 0; row < 2 * TILE; ++row) {
            const float a0 = left[row][ty], a1 = left[row][ty + 16], b0 = right[row][tx], b1 = right[row][tx + 16];
            const double weight = q[row / 2], w0 = weight * (double)a0, w1 = weight * (double)a1;
            sums[0][0] += w0 * (double)b0;
            sums[0][1] += w0 * (double)b1;
            sums[1][0] += w1 * (double)b0;
            sums[1][1] += w1 * (double)b1;
        }
        __syncthreads();
    }
    const size_t width = (size_t)m.groups * LANES;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            partial[(slab * width + one * LANES + ty + 16 * i) * width + other * LANES + tx + 16 * j] = sums[i][j];
}

extern "C" __global__ void sum_slabs(const double* partial, int slabs, int size, double* sums)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= size) return;
    double sum = 0.0;
    for (int slab = 0; slab < slabs; ++slab) sum += partial[(size_t)slab * size + n];
    sums[n] = sum;
}

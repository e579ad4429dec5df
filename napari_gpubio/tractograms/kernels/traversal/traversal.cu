// Exact walks of fibers through voxels, the counterpart of traversal.py: same names, same operation order. One thread a
// fiber. Compiled strictly, so that a point on a border belongs to the same voxel as on the CPU.

enum Kind { SPHERE = 0, BOX = 1 };
typedef unsigned long long Word;
constexpr double NEVER = 1e300;  // beyond every parameter of a segment
constexpr float LARGEST = 3e38f;

// The arguments of the kernels; problem.py describes them.
struct Lines {
    const float* points;
    const long long* offsets;
    long long count;
};

struct VoxelGrid {
    double to_voxel[12];
    int shape[3];
};

struct Answers {
    Word* passed;
    Word* first;
    Word* last;
};

struct Solid {
    double numbers[6];
    int kind;
};

struct Visits {
    const long long* starts;  // of each fiber's part of the list
    long long* keys;  // fiber times the number of voxels, plus voxel
    Word* lengths;  // of the voxels, in quanta
    double quantum_mm;
};

struct Position {
    double x, y, z;
};

struct Index {
    int i, j, k;
};

__device__ __forceinline__ Position point(const Lines& lines, long long p)
{
    const float* at = lines.points + 3 * p;
    return {(double)at[0], (double)at[1], (double)at[2]};
}

__device__ __forceinline__ Position to_voxel(const double* m, Position p)
{
    return {m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3], m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
            m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]};
}

__device__ __forceinline__ int index_of(double x) { return (int)floor(x + 0.5); }

__device__ __forceinline__ Index indices(Position a) { return {index_of(a.x), index_of(a.y), index_of(a.z)}; }

__device__ __forceinline__ double crossing(double x, double d, int i, int last)
{
    if (i == last) return NEVER;
    return (i + (last > i ? 0.5 : -0.5) - x) / d;
}

__device__ __forceinline__ Word bordered(const Word* words, const int* n, int i, int j, int k)
{
    const int a = min(max(i + 1, 0), n[0] + 1), b = min(max(j + 1, 0), n[1] + 1), c = min(max(k + 1, 0), n[2] + 1);
    return words[((size_t)a * (n[1] + 2) + b) * (n[2] + 2) + c];
}

// The voxels on the way from a to b: where the walk is, and where along the segment it leaves.
struct Walk {
    Position a, d;
    Index at, last;
    double tx, ty, tz;

    __device__ Walk(Position from, Position to)
        : a(from), d{to.x - from.x, to.y - from.y, to.z - from.z}, at(indices(from)), last(indices(to))
    {
        tx = crossing(a.x, d.x, at.i, last.i);
        ty = crossing(a.y, d.y, at.j, last.j);
        tz = crossing(a.z, d.z, at.k, last.k);
    }

    __device__ int steps() const { return abs(last.i - at.i) + abs(last.j - at.j) + abs(last.k - at.k); }

    __device__ double leaves() const { return min(min(tx, ty), tz); }

    __device__ void advance()
    {
        if (tx <= ty && tx <= tz) {
            at.i += last.i > at.i ? 1 : -1;
            tx = crossing(a.x, d.x, at.i, last.i);
        } else if (ty <= tz) {
            at.j += last.j > at.j ? 1 : -1;
            ty = crossing(a.y, d.y, at.j, last.j);
        } else {
            at.k += last.k > at.k ? 1 : -1;
            tz = crossing(a.z, d.z, at.k, last.k);
        }
    }
};

__device__ __forceinline__ long long my_fiber() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void find_words(Lines lines, VoxelGrid grid, const Word* here, const Word* near, Answers answers)
{
    const long long f = my_fiber();
    if (f >= lines.count) return;
    const long long begin = lines.offsets[f], end = lines.offsets[f + 1];
    const int* n = grid.shape;
    answers.passed[f] = answers.first[f] = answers.last[f] = 0;
    if (begin == end) return;
    Position a = to_voxel(grid.to_voxel, point(lines, begin));
    Index at = indices(a);
    Word bits = bordered(here, n, at.i, at.j, at.k);
    answers.first[f] = bits;
    for (long long q = begin + 1; q < end; ++q) {
        const Position b = to_voxel(grid.to_voxel, point(lines, q));
        const Index to = indices(b);
        if (to.i != at.i || to.j != at.j || to.k != at.k) {
            const bool is_neighbor = abs(to.i - at.i) <= 1 && abs(to.j - at.j) <= 1 && abs(to.k - at.k) <= 1;
            if (!is_neighbor || (bordered(near, n, at.i, at.j, at.k) & ~bits)) {
                Walk walk(a, b);
                for (int left = walk.steps(); left > 0; --left) {
                    walk.advance();
                    bits |= bordered(here, n, walk.at.i, walk.at.j, walk.at.k);
                }
            }
        }
        a = b;
        at = to;
    }
    answers.last[f] = bordered(here, n, at.i, at.j, at.k);
    answers.passed[f] = bits;
}

extern "C" __global__ void find_boxes(Lines lines, float* boxes)
{
    const long long f = my_fiber();
    if (f >= lines.count) return;
    for (int axis = 0; axis < 3; ++axis) {
        float low = LARGEST, high = -LARGEST;
        for (long long p = lines.offsets[f]; p < lines.offsets[f + 1]; ++p) {
            low = min(low, lines.points[3 * p + axis]);
            high = max(high, lines.points[3 * p + axis]);
        }
        boxes[6 * f + axis] = low;
        boxes[6 * f + 3 + axis] = high;
    }
}

__device__ __forceinline__ double square_to_segment(const double* s, Position a, Position b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
    const double cx = s[0] - a.x, cy = s[1] - a.y, cz = s[2] - a.z;
    const double length = dx * dx + dy * dy + dz * dz;
    double t = length > 0.0 ? (cx * dx + cy * dy + cz * dz) / length : 0.0;
    t = min(max(t, 0.0), 1.0);
    const double ex = cx - t * dx, ey = cy - t * dy, ez = cz - t * dz;
    return ex * ex + ey * ey + ez * ez;
}

// Part of the segment's parameters [t0, t1] that lies between two planes across one axis.
__device__ __forceinline__ void enters(double a, double b, double low, double high, double* t0, double* t1)
{
    const double d = b - a;
    if (d == 0.0) {
        if (!(low <= a && a <= high)) {
            *t0 = 1.0;
            *t1 = 0.0;
        }
        return;
    }
    const double s = (low - a) / d, e = (high - a) / d;
    *t0 = max(*t0, min(s, e));
    *t1 = min(*t1, max(s, e));
}

__device__ bool meets(const Solid& solid, Position a, Position b)
{
    const double* s = solid.numbers;
    if (solid.kind == SPHERE) return square_to_segment(s, a, b) <= s[3] * s[3];
    double t0 = 0.0, t1 = 1.0;
    enters(a.x, b.x, s[0], s[3], &t0, &t1);
    enters(a.y, b.y, s[1], s[4], &t0, &t1);
    enters(a.z, b.z, s[2], s[5], &t0, &t1);
    return t0 <= t1;
}

extern "C" __global__ void find_solid(Lines lines, const float* boxes, Solid solid, Answers answers)
{
    const long long f = my_fiber();
    if (f >= lines.count) return;
    const long long begin = lines.offsets[f], end = lines.offsets[f + 1];
    const double* s = solid.numbers;
    answers.passed[f] = answers.first[f] = answers.last[f] = 0;
    bool may = begin < end;
    for (int axis = 0; axis < 3; ++axis) {
        const double low = solid.kind == SPHERE ? s[axis] - s[3] : s[axis];
        const double high = solid.kind == SPHERE ? s[axis] + s[3] : s[3 + axis];
        may = may && (double)boxes[6 * f + axis] <= high && (double)boxes[6 * f + 3 + axis] >= low;
    }
    if (!may) return;
    Position a = point(lines, begin);
    bool found = meets(solid, a, a);
    answers.first[f] = found;
    for (long long q = begin + 1; q < end && !found; ++q) {
        const Position b = point(lines, q);
        found = meets(solid, a, b);
        a = b;
    }
    answers.passed[f] = found;
    a = point(lines, end - 1);
    answers.last[f] = meets(solid, a, a);
}

// Most voxels that a fiber can pass: steps of its walks, and its first point.
extern "C" __global__ void most_visits(Lines lines, VoxelGrid grid, long long* found)
{
    const long long f = my_fiber();
    if (f >= lines.count) return;
    long long count = 0;
    Index at = {0, 0, 0};
    for (long long q = lines.offsets[f]; q < lines.offsets[f + 1]; ++q) {
        const Index to = indices(to_voxel(grid.to_voxel, point(lines, q)));
        count += q == lines.offsets[f] ? 1 : abs(to.i - at.i) + abs(to.j - at.j) + abs(to.k - at.k);
        at = to;
    }
    found[f] = count;
}

__device__ __forceinline__ void add_visit(
    const int* n, Index at, double mm, const Visits& visits, long long* next, long long* before)
{
    if (at.i < 0 || at.j < 0 || at.k < 0 || at.i >= n[0] || at.j >= n[1] || at.k >= n[2]) return;
    const long long voxel = ((long long)at.i * n[1] + at.j) * n[2] + at.k;
    atomicAdd(&visits.lengths[voxel], (Word)(long long)floor(mm / visits.quantum_mm + 0.5));
    if (voxel == *before) return;
    *before = voxel;
    visits.keys[(*next)++] = my_fiber() * n[0] * n[1] * n[2] + voxel;
}

// Add the lengths of fibers in voxels, and list the voxels of each; one may be in the list of a fiber several times.
extern "C" __global__ void list_visits(Lines lines, VoxelGrid grid, Visits visits)
{
    const long long f = my_fiber();
    if (f >= lines.count) return;
    const long long begin = lines.offsets[f], end = lines.offsets[f + 1];
    long long next = visits.starts[f], before = -1;
    for (long long q = begin; q < end; ++q) {
        const Position a = point(lines, q > begin ? q - 1 : begin), b = point(lines, q);
        const double mm = sqrt((b.x - a.x) * (b.x - a.x) + (b.y - a.y) * (b.y - a.y) + (b.z - a.z) * (b.z - a.z));
        Walk walk(to_voxel(grid.to_voxel, a), to_voxel(grid.to_voxel, b));
        double entered = 0.0;
        for (int left = walk.steps(); left > 0; --left) {
            const double now = min(max(walk.leaves(), entered), 1.0);
            add_visit(grid.shape, walk.at, (now - entered) * mm, visits, &next, &before);
            entered = now;
            walk.advance();
        }
        add_visit(grid.shape, walk.at, (1.0 - entered) * mm, visits, &next, &before);
    }
}

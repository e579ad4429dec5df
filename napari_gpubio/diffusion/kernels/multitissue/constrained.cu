// Least squares under linear inequalities, the counterpart of constrained.py: same order of operations. One warp a voxel.
// Compiled strictly, in double precision.
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif

constexpr unsigned int ALL = 0xffffffffu;
constexpr double DEPENDENT = 1e-9, TOLERANCE = 1e-11;  // as in constrained.py
constexpr int MAX_CHANGES = 4;

// The arguments of the kernel; problem.py describes them. ``memory``: doubles of shared memory for each warp.
struct ConstrainedArrays {
    const float* signals;
    const double* white;
    const double* normals;
    const double* columns;
    const double* back;
    float* out;
    unsigned short* took;
    int volumes;
    int coefficients;
    int rows;
    int memory;
};

// The shared memory of a warp, and the thread's place in it. The passive normals are Q R: `basis` has the columns of Q
// as rows, `factor` the columns of R one after another.
struct Warp {
    int lane, n;
    double *basis, *factor, *goal, *point, *half, *solved, *multiplier;
    int* passive;
    unsigned int* is_passive;

    __device__ Warp(const ConstrainedArrays& a, double* memory) : lane(threadIdx.x % 32), n(a.coefficients)
    {
        basis = memory + (threadIdx.x / 32) * (size_t)a.memory;
        factor = basis + (n + 1) * n;
        goal = factor + (n + 1) * (n + 2) / 2;
        point = goal + n;
        half = point + n;
        solved = half + n + 1;
        multiplier = solved + n + 1;
        passive = (int*)(multiplier + n + 1);
        is_passive = (unsigned int*)(passive + n + 1);
    }
    __device__ double* column(int j) const { return factor + j * (j + 1) / 2; }
};

__device__ __forceinline__ double dot(int n, const double* a, const double* b, double sum)
{
    for (int i = 0; i < n; ++i) sum = fma(a[i], b[i], sum);
    return sum;
}

// The sum of squares and other sums over a vector are made by every lane alike, in the order of the CPU.
__device__ __forceinline__ bool add_normal(const Warp& w, const double* normal, int count)
{
    double *column = w.column(count), *added = w.basis + count * w.n;
    for (int i = w.lane; i < w.n; i += 32) added[i] = normal[i];
    for (int j = w.lane; j < count; j += 32) column[j] = 0.0;
    __syncwarp();
    for (int turn = 0; turn < 2; ++turn)
        for (int j = 0; j < count; ++j) {
            const double* other = w.basis + j * w.n;
            const double product = dot(w.n, other, added, 0.0);
            __syncwarp();
            if (w.lane == 0) column[j] += product;
            for (int i = w.lane; i < w.n; i += 32) added[i] = fma(-product, other[i], added[i]);
            __syncwarp();
        }
    const double root = sqrt(dot(w.n, added, added, 0.0));
    if (!(root > DEPENDENT)) return false;
    __syncwarp();
    for (int i = w.lane; i < w.n; i += 32) added[i] = added[i] / root;
    __syncwarp();
    double right = 0.0;
    for (int i = 0; i < w.n; ++i) right = fma(-added[i], w.goal[i], right);
    if (w.lane == 0) {
        column[count] = root;
        w.half[count] = right;
    }
    __syncwarp();
    return true;
}

__device__ __forceinline__ void solve_back(const Warp& w, int count)
{
    for (int j = w.lane; j < count; j += 32) w.solved[j] = w.half[j];
    __syncwarp();
    for (int j = count - 1; j >= 0; --j) {
        const double* column = w.column(j);
        const double x = w.solved[j] / column[j];
        for (int i = w.lane; i < j; i += 32) w.solved[i] = fma(-column[i], x, w.solved[i]);
        __syncwarp();
        if (w.lane == 0) w.solved[j] = x;
        __syncwarp();
    }
}

__device__ __forceinline__ void rotate(double* upper, double* lower, double c, double s)
{
    const double a = *upper, b = *lower;
    *upper = fma(c, a, s * b);
    *lower = fma(c, b, -s * a);
}

__device__ __forceinline__ void drop_normal(const Warp& w, int dropped, int count)
{
    for (int j = dropped; j < count - 1; ++j) {
        const double* column = w.column(j + 1);
        const double a = column[j], b = column[j + 1];
        const double size = sqrt(fma(a, a, b * b));
        const double c = a / size, s = b / size;
        __syncwarp();
        for (int k = j + 1 + w.lane; k < count; k += 32) rotate(w.column(k) + j, w.column(k) + j + 1, c, s);
        for (int i = w.lane; i < w.n; i += 32) rotate(w.basis + j * w.n + i, w.basis + (j + 1) * w.n + i, c, s);
        if (w.lane == 0) rotate(w.half + j, w.half + j + 1, c, s);
        __syncwarp();
        for (int i = w.lane; i < j + 1; i += 32) w.column(j)[i] = column[i];
        __syncwarp();
    }
}

__device__ __forceinline__ int first_blocking(const Warp& w, int count)
{
    double part = 2.0;
    int blocking = 0;
    for (int j = 0; j < count; ++j)
        if (!(w.solved[j] > 0.0)) {
            const double at = w.multiplier[j] / (w.multiplier[j] - w.solved[j]);
            if (at < part) {
                part = at;
                blocking = j;
            }
        }
    __syncwarp();
    for (int j = w.lane; j < count; j += 32)
        w.multiplier[j] = fma(part, w.solved[j] - w.multiplier[j], w.multiplier[j]);
    __syncwarp();
    return blocking;
}

// Take the normal at a place of the list out of it.
__device__ __forceinline__ int drop_passive(const Warp& w, int blocking, int count)
{
    drop_normal(w, blocking, count);
    const int k = w.passive[blocking];
    __syncwarp();
    if (w.lane == 0) {
        w.is_passive[k / 32] &= ~(1u << k % 32);
        for (int j = blocking; j < count - 1; ++j) {
            w.passive[j] = w.passive[j + 1];
            w.multiplier[j] = w.multiplier[j + 1];
        }
    }
    __syncwarp();
    return count - 1;
}

// The constraint that is violated most among those that are not passive, the first of equals; -1 for none.
__device__ __forceinline__ int most_violated(const Warp& w, const ConstrainedArrays& a, double least)
{
    int worst = -1;
    double value = least;
    for (int k = w.lane; k < a.rows; k += 32) {
        double amplitude = 0.0;
        for (int i = 0; i < w.n; ++i) amplitude = fma(w.point[i], a.columns[(size_t)i * a.rows + k], amplitude);
        if (amplitude < value && !(w.is_passive[k / 32] >> k % 32 & 1u)) {
            worst = k;
            value = amplitude;
        }
    }
    for (int away = 16; away > 0; away /= 2) {
        const int other = __shfl_xor_sync(ALL, worst, away);
        const double theirs = __shfl_xor_sync(ALL, value, away);
        if (other >= 0 && (worst < 0 || theirs < value || (theirs == value && other < worst))) {
            worst = other;
            value = theirs;
        }
    }
    return worst;
}

extern "C" __global__ void solve_rows(ConstrainedArrays a, int count)
{
    DYN_SHARED(double, memory);
    const Warp w(a, memory);
    const int voxel = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (voxel >= count) return;  // the whole warp
    const float* signals = a.signals + (size_t)voxel * a.volumes;
    for (int i = w.lane; i < w.n; i += 32) {
        double sum = 0.0;
        for (int v = 0; v < a.volumes; ++v) sum = fma((double)signals[v], a.white[(size_t)v * w.n + i], sum);
        w.goal[i] = w.point[i] = sum;
    }
    for (int k = w.lane; k < (a.rows + 31) / 32; k += 32) w.is_passive[k] = 0u;
    __syncwarp();
    const double least = -TOLERANCE * sqrt(dot(w.n, w.goal, w.goal, 0.0));
    int passive = 0, changes = 0;
    bool failed = false;
    while (true) {
        const int worst = most_violated(w, a, least);
        if (worst < 0 || passive == w.n) break;
        failed = changes == MAX_CHANGES * a.rows;
        if (failed || !add_normal(w, a.normals + (size_t)worst * w.n, passive)) break;
        ++changes;
        if (w.lane == 0) {
            w.passive[passive] = worst;
            w.multiplier[passive] = 0.0;
            w.is_passive[worst / 32] |= 1u << worst % 32;
        }
        __syncwarp();
        ++passive;
        while (true) {
            solve_back(w, passive);
            bool all_positive = true;
            for (int j = 0; j < passive; ++j) all_positive = all_positive && w.solved[j] > 0.0;
            if (all_positive) break;
            passive = drop_passive(w, first_blocking(w, passive), passive);
        }
        for (int i = w.lane; i < w.n; i += 32) {
            double y = w.goal[i];
            for (int j = 0; j < passive; ++j) y = fma(w.half[j], w.basis[j * w.n + i], y);
            w.point[i] = y;
        }
        for (int j = w.lane; j < passive; j += 32) w.multiplier[j] = w.solved[j];
        __syncwarp();
    }
    for (int i = w.lane; i < w.n; i += 32) {
        double f = 0.0;
        for (int k = i; k < w.n; ++k) f = fma(a.back[(size_t)i * w.n + k], w.point[k], f);
        a.out[(size_t)voxel * w.n + i] = failed ? nanf("") : (float)f;
    }
    if (w.lane == 0) a.took[voxel] = (unsigned short)changes;
}

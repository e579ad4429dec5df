// Constrained spherical deconvolution of one tissue, the counterpart of cpu.py: same order of operations. One warp a
// voxel; its matrix lies in shared memory, as the packed upper triangle. Compiled strictly.
#ifndef REAL
#define REAL double
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif
typedef REAL real;

constexpr unsigned int ALL = 0xffffffffu;

// The arguments of the kernel; problem.py describes them. ``memory``: reals of shared memory for each warp.
struct CsdArrays {
    const float* signals;
    const real* forward;
    const real* gram;
    const real* full;
    const real* penalty;
    const real* columns;
    const real* start;
    float* out;
    unsigned char* took;
    int directions;
    int coefficients;
    int rows;
    int low;
    int iterations;
    int memory;
};

// The shared memory of a warp, and the thread's place in it.
struct Warp {
    int lane, n, entries;
    real *system, *factor, *right, *fod, *four;
    unsigned int* negative;
    int* changed;

    __device__ Warp(const CsdArrays& a, real* memory)
        : lane(threadIdx.x % 32), n(a.coefficients), entries(a.coefficients * (a.coefficients + 1) / 2)
    {
        system = memory + (threadIdx.x / 32) * (size_t)a.memory;
        factor = system + entries;
        right = factor + entries;
        fod = right + n;
        four = fod + n;
        negative = (unsigned int*)(four + 4 * n);
        changed = (int*)(negative + (a.rows + 31) / 32);
    }
};

__device__ __forceinline__ void copy(int lane, int count, const real* from, real* to)
{
    for (int e = lane; e < count; e += 32) to[e] = from[e];
    __syncwarp();
}

__device__ __forceinline__ void first_estimate(const Warp& w, const CsdArrays& a, const float* signals)
{
    for (int i = w.lane; i < w.n; i += 32) {
        real sum = 0, low = 0;
        for (int v = 0; v < a.directions; ++v) sum = fma((real)signals[v], a.forward[v * w.n + i], sum);
        if (i < a.low)
            for (int v = 0; v < a.directions; ++v) low = fma(a.start[i * a.directions + v], (real)signals[v], low);
        w.right[i] = sum;
        w.fod[i] = low;
    }
    __syncwarp();
}

// Directions k = 32 word + lane whose amplitude is negative, as bits.
__device__ __forceinline__ unsigned int negative_of(const Warp& w, const CsdArrays& a, int word)
{
    const int k = 32 * word + w.lane;
    real amplitude = 0;
    if (k < a.rows)
        for (int i = 0; i < w.n; ++i) amplitude = fma(w.fod[i], a.columns[i * a.rows + k], amplitude);
    return __ballot_sync(ALL, amplitude < real(0));
}

// List the directions that have become negative (k) or have ceased to be (~k), and note the new state.
__device__ __forceinline__ int list_changed(const Warp& w, const CsdArrays& a, bool first, bool* begins_full)
{
    const int words = (a.rows + 31) / 32;
    if (first) {  // begin with all or none of the directions, whichever is nearer
        int count = 0;
        for (int word = 0; word < words; ++word) count += __popc(negative_of(w, a, word));
        *begins_full = 2 * count > a.rows;
    }
    int count = 0;
    for (int word = 0; word < words; ++word) {
        const int left = a.rows - 32 * word;
        const unsigned int there = left < 32 ? (1u << left) - 1u : ALL;
        const unsigned int before = first ? (*begins_full ? there : 0u) : w.negative[word];
        const unsigned int now = negative_of(w, a, word), differs = now ^ before;
        if (differs >> w.lane & 1u) {
            const int k = 32 * word + w.lane;
            w.changed[count + __popc(differs & ((1u << w.lane) - 1u))] = now >> w.lane & 1u ? k : ~k;
        }
        count += __popc(differs);
        __syncwarp();
        if (w.lane == 0) w.negative[word] = now;
    }
    __syncwarp();
    return count;
}

__device__ __forceinline__ void change_system(const Warp& w, const CsdArrays& a, int count)
{
    const int n = w.n;
    for (int first = 0; first < count; first += 4) {
        real sign[4];
        for (int r = 0; r < 4; ++r) {
            const int k = w.changed[first + r < count ? first + r : first];
            sign[r] = first + r >= count ? real(0) : k >= 0 ? real(1) : real(-1);
            const real* row = a.penalty + (size_t)(k >= 0 ? k : ~k) * n;
            for (int i = w.lane; i < n; i += 32) w.four[r * n + i] = row[i];
        }
        __syncwarp();
        const real *h0 = w.four, *h1 = h0 + n, *h2 = h1 + n, *h3 = h2 + n;
        for (int i = 0; i < n; ++i) {
            const real a0 = sign[0] * h0[i], a1 = sign[1] * h1[i], a2 = sign[2] * h2[i], a3 = sign[3] * h3[i];
            real* row = w.system + i * n - i * (i + 1) / 2;
            for (int k = i + w.lane; k < n; k += 32)
                row[k] = fma(a3, h3[k], fma(a2, h2[k], fma(a1, h1[k], fma(a0, h0[k], row[k]))));
        }
        __syncwarp();
    }
}

__device__ __forceinline__ bool factorize(const Warp& w)
{
    real* pivot_row = w.factor;
    for (int j = 0; j < w.n; ++j) {
        const int left = w.n - j;
        const real pivot = pivot_row[0];
        if (!(pivot > real(0))) return false;
        const real root = sqrt(pivot);
        __syncwarp();
        for (int k = w.lane; k < left; k += 32) pivot_row[k] = pivot_row[k] / root;
        __syncwarp();
        real* row = pivot_row + left;
        for (int i = 1; i < left; ++i) {
            const real f = -pivot_row[i];
            for (int k = w.lane; k < left - i; k += 32) row[k] = fma(f, pivot_row[i + k], row[k]);
            row += left - i;
        }
        __syncwarp();
        pivot_row += left;
    }
    return true;
}

__device__ __forceinline__ void solve_factorized(const Warp& w, real* x)
{
    const int n = w.n;
    const real* row = w.factor;
    for (int j = 0; j < n; ++j) {
        const real solved = x[j] / row[0];
        for (int k = 1 + w.lane; k < n - j; k += 32) x[j + k] = fma(-solved, row[k], x[j + k]);
        __syncwarp();
        if (w.lane == 0) x[j] = solved;
        row += n - j;
        __syncwarp();
    }
    for (int j = n - 1; j >= 0; --j) {
        const real solved = x[j] / w.factor[j * n - j * (j + 1) / 2 + j];
        for (int i = w.lane; i < j; i += 32) x[i] = fma(-solved, w.factor[i * n - i * (i + 1) / 2 + j], x[i]);
        __syncwarp();
        if (w.lane == 0) x[j] = solved;
        __syncwarp();
    }
}

extern "C" __global__ void deconvolve_rows(CsdArrays a, int count)
{
    DYN_SHARED(real, memory);
    const Warp w(a, memory);
    const int voxel = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (voxel >= count) return;  // the whole warp
    first_estimate(w, a, a.signals + (size_t)voxel * a.directions);
    int took = 0;
    bool begins_full = false, solved = true;
    for (int iteration = 0; iteration <= a.iterations; ++iteration) {
        const int changed = list_changed(w, a, iteration == 0, &begins_full);
        if (iteration == 0) copy(w.lane, w.entries, begins_full ? a.full : a.gram, w.system);
        if ((changed == 0 && iteration > 0) || iteration == a.iterations) break;
        change_system(w, a, changed);
        copy(w.lane, w.entries, w.system, w.factor);
        copy(w.lane, w.n, w.right, w.fod);
        took = iteration + 1;
        solved = factorize(w);
        if (!solved) break;
        solve_factorized(w, w.fod);
    }
    for (int i = w.lane; i < w.n; i += 32) a.out[(size_t)voxel * w.n + i] = solved ? (float)w.fod[i] : nanf("");
    if (w.lane == 0) a.took[voxel] = (unsigned char)took;
}

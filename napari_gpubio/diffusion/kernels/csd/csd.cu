// Constrained spherical deconvolution of one tissue, the counterpart of deconvolution.py: every number is made by the
// same operations in the same order. One block a voxel. Its threads form a grid of DOWN x ACROSS, each of which keeps
// every DOWNth row and ACROSSth column of the matrix in registers. Compiled strictly.
#ifndef REAL
#define REAL double
#endif
#ifndef COEFFICIENTS
#define COEFFICIENTS 45
#endif
#ifndef DOWN
#define DOWN 4
#define ACROSS 8
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif
typedef REAL real;

constexpr int N = COEFFICIENTS, THREADS = DOWN * ACROSS, WARPS = THREADS / 32;
constexpr int HIGH = (N + DOWN - 1) / DOWN, WIDE = (N + ACROSS - 1) / ACROSS;  // of a thread's part of the matrix
constexpr int MAX_WORDS = 32, TOGETHER = 4;  // words of 32 constraint directions; rows of the penalty fetched at once
constexpr unsigned int ALL = 0xffffffffu;

// The arguments of the kernel; problem.py describes them.
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
    int rows;
    int low;
    int iterations;
};

// What the threads of a voxel share. `factor`: rows of the triangle U, packed; `system`: the matrix, by element and thread.
struct Shared {
    real right[N], half[N], fod[N], line[N], penalty[TOGETHER * N];
    real factor[N * (N + 1) / 2];
    real system[HIGH * WIDE * THREADS];
    unsigned int now[MAX_WORDS], before[MAX_WORDS];
    short changed[32 * MAX_WORDS];
};

// A thread's part of the matrix: element (a, b) is that of row DOWN a + y and column ACROSS b + x.
struct Tile {
    real value[HIGH][WIDE];
    int y, x;

    __device__ Tile() : y(threadIdx.x / ACROSS), x(threadIdx.x % ACROSS) {}
};

__device__ __forceinline__ void sync()
{
    if constexpr (THREADS == 32)
        __syncwarp();
    else
        __syncthreads();
}

__device__ __forceinline__ void first_estimate(const CsdArrays& a, Shared& s, const float* signals)
{
    for (int i = threadIdx.x; i < N; i += THREADS) {
        real sum = 0, low = 0;
        for (int v = 0; v < a.directions; ++v) sum = fma((real)signals[v], a.forward[v * N + i], sum);
        if (i < a.low)
            for (int v = 0; v < a.directions; ++v) low = fma(a.start[i * a.directions + v], (real)signals[v], low);
        s.right[i] = sum;
        s.fod[i] = low;
    }
    sync();
}

// List the directions whose amplitude has become negative (k) or has ceased to be (~k).
__device__ __forceinline__ int list_changed(const CsdArrays& a, Shared& s, bool first, bool* begins_full)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = (a.rows + 31) / 32;
    for (int word = warp; word < words; word += WARPS) {
        const int k = 32 * word + lane;
        real amplitude = 0;
        if (k < a.rows)
            for (int i = 0; i < N; ++i) amplitude = fma(s.fod[i], a.columns[i * a.rows + k], amplitude);
        const unsigned int votes = __ballot_sync(ALL, amplitude < real(0));
        if (lane == 0) s.now[word] = votes;
    }
    sync();
    if (first) {  // begin with all or none of the directions, whichever is nearer
        int count = 0;
        for (int word = 0; word < words; ++word) count += __popc(s.now[word]);
        *begins_full = 2 * count > a.rows;
    }
    int count = 0;
    for (int word = 0; word < words; ++word) {
        const int left = a.rows - 32 * word;
        const unsigned int there = left < 32 ? (1u << left) - 1u : ALL;
        const unsigned int before = first ? (*begins_full ? there : 0u) : s.before[word];
        const unsigned int now = s.now[word], differs = now ^ before;
        if (word % WARPS == warp && (differs >> lane & 1u)) {
            const int k = 32 * word + lane, at = count + __popc(differs & ((1u << lane) - 1u));
            s.changed[at] = (short)(now >> lane & 1u ? k : ~k);
        }
        count += __popc(differs);
    }
    sync();
    for (int word = threadIdx.x; word < words; word += THREADS) s.before[word] = s.now[word];
    sync();
    return count;
}

// Take the matrix from an array or from where it was kept.
__device__ __forceinline__ void fetch(Tile& t, const Shared& s, const real* matrix)
{
#pragma unroll
    for (int a = 0; a < HIGH; ++a)
#pragma unroll
        for (int b = 0; b < WIDE; ++b) {
            const int i = DOWN * a + t.y, k = ACROSS * b + t.x;
            if (!matrix)
                t.value[a][b] = s.system[(a * WIDE + b) * THREADS + threadIdx.x];
            else
                t.value[a][b] = i < N && k < N ? matrix[i * N + k] : real(0);
        }
}

__device__ __forceinline__ void keep(const Tile& t, Shared& s)
{
#pragma unroll
    for (int a = 0; a < HIGH; ++a)
#pragma unroll
        for (int b = 0; b < WIDE; ++b) s.system[(a * WIDE + b) * THREADS + threadIdx.x] = t.value[a][b];
}

// Add or take away the outer products of the rows that have changed.
__device__ __forceinline__ void change_system(const CsdArrays& arrays, Shared& s, Tile& t, int count)
{
    for (int first = 0; first < count; first += TOGETHER) {
        const int many = min(TOGETHER, count - first);
        for (int e = threadIdx.x; e < many * N; e += THREADS) {
            const int k = s.changed[first + e / N];
            s.penalty[e] = arrays.penalty[(k >= 0 ? k : ~k) * N + e % N];
        }
        sync();
        for (int r = 0; r < many; ++r) {
            const real *h = s.penalty + r * N, sign = s.changed[first + r] >= 0 ? real(1) : real(-1);
            real across[WIDE];
#pragma unroll
            for (int b = 0; b < WIDE; ++b) across[b] = h[min(ACROSS * b + t.x, N - 1)];
#pragma unroll
            for (int a = 0; a < HIGH; ++a) {
                const real down = sign * h[min(DOWN * a + t.y, N - 1)];
#pragma unroll
                for (int b = 0; b < WIDE; ++b) t.value[a][b] = fma(down, across[b], t.value[a][b]);
            }
        }
        sync();
    }
}

// Cholesky's U with U^T U = the matrix, and U^-T times the right-hand side; false if it is not positive definite.
__device__ __forceinline__ bool factorize(Shared& s, Tile& t)
{
    for (int i = threadIdx.x; i < N; i += THREADS) s.half[i] = s.right[i];
    real* row = s.factor;
#pragma unroll
    for (int block = 0; block < HIGH; ++block)
        for (int j = DOWN * block; j < min(DOWN * (block + 1), N); ++j) {
            if (t.y == j - DOWN * block)
#pragma unroll
                for (int b = DOWN * block / ACROSS; b < WIDE; ++b)
                    if (ACROSS * b + t.x < N) s.line[ACROSS * b + t.x] = t.value[block][b];
            sync();
            const real pivot = s.line[j];
            if (!(pivot > real(0))) return false;
            const real root = sqrt(pivot);
            for (int k = j + threadIdx.x; k < N; k += THREADS) row[k - j] = s.line[k] / root;
            sync();
            const real solved = s.half[j] / row[0];
            for (int k = j + 1 + threadIdx.x; k < N; k += THREADS) s.half[k] = fma(-solved, row[k - j], s.half[k]);
            if (threadIdx.x == 0) s.fod[j] = solved;
            real across[WIDE];
#pragma unroll
            for (int b = DOWN * block / ACROSS; b < WIDE; ++b) {
                const int k = ACROSS * b + t.x;
                across[b] = k > j && k < N ? row[k - j] : real(0);
            }
#pragma unroll
            for (int a = block; a < HIGH; ++a) {
                const int i = DOWN * a + t.y;
                const real down = i > j && i < N ? -row[i - j] : real(0);
#pragma unroll
                for (int b = DOWN * block / ACROSS; b < WIDE; ++b)
                    t.value[a][b] = fma(down, across[b], t.value[a][b]);
            }
            row += N - j;
        }
    sync();
    return true;
}

// Solve U x = what `factorize` left in `fod`, in place.
__device__ __forceinline__ void solve_back(Shared& s)
{
    for (int j = N - 1; j >= 0; --j) {
        const real x = s.fod[j] / s.factor[j * N - j * (j + 1) / 2 + j];
        for (int i = threadIdx.x; i < j; i += THREADS)
            s.fod[i] = fma(-x, s.factor[i * N - i * (i + 1) / 2 + j], s.fod[i]);
        if (threadIdx.x == 0) s.half[j] = x;
        sync();
    }
    for (int i = threadIdx.x; i < N; i += THREADS) s.fod[i] = s.half[i];
    sync();
}

extern "C" __global__ void __launch_bounds__(THREADS) deconvolve_rows(CsdArrays a)
{
    DYN_SHARED(double, memory);
    Shared& s = *(Shared*)memory;
    const size_t voxel = blockIdx.x;
    Tile t;
    first_estimate(a, s, a.signals + voxel * a.directions);
    int took = 0;
    bool begins_full = false, solved = true;
    for (int iteration = 0; iteration <= a.iterations; ++iteration) {
        const int changed = list_changed(a, s, iteration == 0, &begins_full);
        if ((changed == 0 && iteration > 0) || iteration == a.iterations) break;
        fetch(t, s, iteration > 0 ? nullptr : begins_full ? a.full : a.gram);
        change_system(a, s, t, changed);
        keep(t, s);
        took = iteration + 1;
        solved = factorize(s, t);
        if (!solved) break;
        solve_back(s);
    }
    for (int i = threadIdx.x; i < N; i += THREADS) a.out[voxel * N + i] = solved ? (float)s.fod[i] : nanf("");
    if (threadIdx.x == 0) a.took[voxel] = (unsigned char)took;
}

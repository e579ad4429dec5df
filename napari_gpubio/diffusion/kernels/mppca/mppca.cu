// Marchenko-Pastur PCA, the counterpart of cpu.py: the same steps, one block a voxel at a time; problem.py describes them.
// Sums over the threads of a block are made in another order than on the CPU, so that last digits differ. The matrix has
// numbers of type REAL; what is found in it is in double, since the noise is in its smallest eigenvalues.
// The matrix is in shared memory, or with MATRIX_IN_SHARED=0, where it is too large for that, in global memory.
#ifndef REAL
#define REAL float
#endif
#ifndef MATRIX_IN_SHARED
#define MATRIX_IN_SHARED 1
#endif
#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T name[]
#endif
typedef REAL real;

constexpr int WARP = 32, TILE = 16;  // elements of the longer side that are in shared memory at a time
constexpr unsigned ALL = 0xffffffffu;

// The arguments of the kernel. The matrices, rotations and sweeps have room for each block of the grid.
struct PcaArrays {
    const float* data;     // planes of the series from first_plane on, volumes last
    const int* voxels;     // (M, 3)
    const int* offsets;    // voxels of a window after its first one
    real* matrices;
    double* rotations;     // cosine and sine
    int* sweeps;           // from which row to which
    float* signals;
    float* sigma;
    int* rank;
    int shape[3];
    int window[3];
    int first_plane;
    int volumes;
    int window_voxels;
    int size;              // the smaller of both
    int pitch;             // size, in whole fours
    int rotation_room;
    int sweep_room;
    int exact;             // exp2 or exp1
    double tiny;           // relative size of an off-diagonal element that counts as 0
    real scale;            // of the signals
};

// What a block has in shared memory; the matrix may be elsewhere.
struct Memory {
    double *y, *diagonal, *beside, *factor, *partial;
    real *reflector, *product, *tile, *matrix;
};

__device__ __forceinline__ int first_of(int center, int edge, int size)
{
    return max(0, min(center - edge / 2, size - edge));
}

// Sum over the threads of the block, the same for all of them.
template <class Number> __device__ __forceinline__ Number block_sum(Number value, double* partial)
{
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL, value, lanes);
    if (blockDim.x == WARP) return value;
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < (int)blockDim.x / WARP; ++w) value += Number(partial[w]);
    __syncthreads();
    return value;
}

// Signal of one voxel of the window in one volume, scaled.
__device__ __forceinline__ real signal(const PcaArrays& a, const float* corner, int voxel, int volume)
{
    return corner[(long long)a.offsets[voxel] * a.volumes + volume] * a.scale;
}

// Elements [first, first + TILE) of the longer side, for all of the shorter; zero where there are none.
__device__ void load_tile(const PcaArrays& a, const float* corner, int first, real* tile)
{
    const bool by_volumes = a.volumes <= a.window_voxels;
    const int longer = by_volumes ? a.window_voxels : a.volumes;
    for (int n = threadIdx.x; n < TILE * a.pitch; n += blockDim.x) {
        const int b = by_volumes ? n / a.pitch : n % TILE, i = by_volumes ? n % a.pitch : n / TILE;
        const bool there = i < a.size && first + b < longer;
        tile[b * a.pitch + i] = !there ? real(0) : by_volumes ? signal(a, corner, first + b, i) : signal(a, corner, i, first + b);
    }
}

// The Gram matrix of the shorter side, in pieces of 4 x 4 elements of the lower half; the upper one is its mirror.
__device__ void fill_matrix(const PcaArrays& a, const float* corner, const Memory& s)
{
    const int longer = max(a.volumes, a.window_voxels), fours = a.pitch / 4;
    for (int first = 0; first < longer; first += TILE) {
        load_tile(a, corner, first, s.tile);
        __syncthreads();
        for (int n = threadIdx.x; n < fours * (fours + 1) / 2; n += blockDim.x) {
            int row = (int)((sqrtf(8.0f * n + 1.0f) - 1.0f) / 2.0f);
            while (row * (row + 1) / 2 > n) --row;
            while ((row + 1) * (row + 2) / 2 <= n) ++row;
            const int i0 = 4 * row, j0 = 4 * (n - row * (row + 1) / 2);
            real sum[4][4];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] = first == 0 ? real(0) : s.matrix[(i0 + i) * a.pitch + j0 + j];
            for (int b = 0; b < TILE; ++b) {
                const real *left = s.tile + b * a.pitch + i0, *right = s.tile + b * a.pitch + j0;
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
            }
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) {
                    s.matrix[(i0 + i) * a.pitch + j0 + j] = sum[i][j];
                    if (first + TILE >= longer) s.matrix[(j0 + j) * a.pitch + i0 + i] = sum[i][j];
                }
        }
        __syncthreads();
    }
}

// Take a share of v from y, so that y is reflected.
__device__ __forceinline__ void reflect(const real* v, double* y, int count, double factor, double* partial)
{
    double along = 0;
    for (int k = threadIdx.x; k < count; k += blockDim.x) along += double(v[k]) * y[k];
    const double share = block_sum(along, partial) / factor;
    for (int k = threadIdx.x; k < count; k += blockDim.x) y[k] -= share * double(v[k]);
}

// Reflections from the last row to the second; row i keeps its reflector, factor[i] the half of its square.
__device__ void reduce_to_tridiagonal(const Memory& s, int size, int pitch)
{
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    for (int i = size - 1; i > 0; --i) {
        real* v = s.matrix + (long long)i * pitch;
        real rest = 0;
        for (int k = threadIdx.x; k < i - 1; k += blockDim.x) rest += v[k] * v[k];
        rest = block_sum(rest, s.partial);
        const real last = v[i - 1];
        const bool reflects = rest > 0;
        const real norm = last > 0 ? -sqrt(rest + last * last) : sqrt(rest + last * last);
        const real half = (rest + (last - norm) * (last - norm)) / 2;
        __syncthreads();
        if (threadIdx.x == 0) {
            s.diagonal[i] = v[i];
            s.beside[i - 1] = reflects ? norm : last;
            s.factor[i] = reflects ? half : real(0);
            if (reflects) v[i - 1] = last - norm;
        }
        __syncthreads();
        if (!reflects) continue;
        for (int k = threadIdx.x; k < i; k += blockDim.x) s.reflector[k] = v[k];
        real along = 0;
        for (int k = threadIdx.x; k < i; k += blockDim.x) {
            real sum = 0;
            for (int j = 0; j < i; ++j) sum += v[j] * s.matrix[(long long)j * pitch + k];
            s.product[k] = sum / half;
            along += v[k] * s.product[k];
        }
        along = block_sum(along, s.partial) / half / 2;
        for (int k = threadIdx.x; k < i; k += blockDim.x) s.product[k] -= along * v[k];
        __syncthreads();
        for (int j = warp; j < i; j += warps) {
            real* row = s.matrix + (long long)j * pitch;
            const real vj = s.reflector[j], pj = s.product[j];
            for (int k = lane; k < i; k += WARP) row[k] -= vj * s.product[k] + pj * s.reflector[k];
        }
        reflect(s.reflector, s.y, i, half, s.partial);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        s.diagonal[0] = s.matrix[0];
        s.beside[size - 1] = 0;
    }
    __syncthreads();
}

// Apply the kept reflections to y in reverse.
__device__ void undo_reflections(const Memory& s, int size, int pitch)
{
    for (int i = 1; i < size; ++i) {
        if (s.factor[i] > 0) reflect(s.matrix + (long long)i * pitch, s.y, i, s.factor[i], s.partial);
        __syncthreads();
    }
}

// Implicit QL of the tridiagonal matrix, also of the row y; the number of sweeps, or -1 if it does not converge.
__device__ int diagonalize(const PcaArrays& a, const Memory& s, double* rotations, int* sweeps)
{
    double *d = s.diagonal, *e = s.beside, *y = s.y;
    int done = 0, swept = 0;
    for (int low = 0; low < a.size; ++low) {
        for (;;) {
            int high = low;
            while (high < a.size - 1 && fabs(e[high]) > a.tiny * (fabs(d[high]) + fabs(d[high + 1]))) ++high;
            if (high == low) break;
            if (swept >= a.sweep_room || done + high - low > a.rotation_room) return -1;
            double g = (d[low + 1] - d[low]) / (2 * e[low]), r = sqrt(g * g + 1);
            g = d[high] - d[low] + e[low] / (g + (g >= 0 ? r : -r));
            double sine = 1, cosine = 1, shift = 0;
            int end = low;
            for (int i = high - 1; i >= low; --i) {
                const double f = sine * e[i], b = cosine * e[i];
                r = sqrt(f * f + g * g);
                e[i + 1] = r;
                if (r == 0) {
                    d[i + 1] -= shift;
                    end = i + 1;
                    break;
                }
                const double inverse = 1 / r;
                sine = f * inverse;
                cosine = g * inverse;
                g = d[i + 1] - shift;
                r = (d[i] - g) * sine + 2 * cosine * b;
                shift = sine * r;
                d[i + 1] = g + shift;
                g = cosine * r - b;
                const double y0 = y[i], y1 = y[i + 1];
                y[i] = cosine * y0 - sine * y1;
                y[i + 1] = sine * y0 + cosine * y1;
                rotations[2 * done] = cosine;
                rotations[2 * done + 1] = sine;
                ++done;
            }
            sweeps[2 * swept] = high;
            sweeps[2 * swept + 1] = end;
            ++swept;
            if (end == low) {
                d[low] -= shift;
                e[low] = g;
            }
            e[high] = 0;
        }
    }
    return swept;
}

// Apply the kept rotations to y in reverse: the first warp brings them, its first thread applies them.
__device__ void undo_rotations(const Memory& s, const double* rotations, const int* sweeps, int swept)
{
    double *y = s.y, *brought = reinterpret_cast<double*>(s.tile);
    int done = 0;
    for (int n = 0; n < swept; ++n) done += sweeps[2 * n] - sweeps[2 * n + 1];
    for (int n = swept - 1; n >= 0; --n) {
        const int high = sweeps[2 * n], low = sweeps[2 * n + 1];
        for (int first = low; first < high; first += WARP) {
            const int count = min(WARP, high - first), lane = threadIdx.x;
            if (lane < count) {
                brought[2 * lane] = rotations[2 * (done - 1 - lane)];
                brought[2 * lane + 1] = rotations[2 * (done - 1 - lane) + 1];
            }
            __syncwarp();
            if (lane == 0) {
                double y0 = y[first];
                for (int i = 0; i < count; ++i) {
                    const double cosine = brought[2 * i], sine = brought[2 * i + 1], y1 = y[first + i + 1];
                    y[first + i] = cosine * y0 + sine * y1;
                    y0 = cosine * y1 - sine * y0;
                }
                y[first + count] = y0;
            }
            __syncwarp();
            done -= count;
        }
    }
}

// Number of noise components, and their variance; coefficients y of the noise become 0. The first thread's answer.
__device__ int split(const PcaArrays& a, const Memory& s, double& variance)
{
    double *d = s.diagonal, *ordered = s.beside;
    int* places = reinterpret_cast<int*>(s.product);
    const int longer = max(a.volumes, a.window_voxels);
    for (int i = threadIdx.x; i < a.size; i += blockDim.x) d[i] = d[i] > 0 ? d[i] : 0;
    __syncthreads();
    for (int i = threadIdx.x; i < a.size; i += blockDim.x) {
        int before = 0;
        for (int j = 0; j < a.size; ++j) before += d[j] < d[i] || (d[j] == d[i] && j < i);
        places[i] = before;
        ordered[before] = d[i] / longer;
    }
    __syncthreads();
    int count = 0;
    double total = 0;
    variance = 0;
    for (int p = 1; p <= a.size; ++p) {
        total += ordered[p - 1];
        const double gamma = double(p) / (a.exact ? longer - (a.size - p) : longer);
        if (ordered[p - 1] - ordered[0] < 4 * sqrt(gamma) * (total / p)) {
            variance = total / p;
            count = p;
        }
    }
    for (int i = threadIdx.x; i < a.size; i += blockDim.x)
        if (places[i] < count) s.y[i] = 0;
    __syncthreads();
    return count;
}

__device__ Memory memory_of(const PcaArrays& a, double* shared)
{
    Memory s;
    double* next = shared;
    for (double** vector : {&s.y, &s.diagonal, &s.beside, &s.factor}) {
        *vector = next;
        next += a.pitch;
    }
    s.partial = next;
    s.tile = reinterpret_cast<real*>(next + WARP);
    s.reflector = s.tile + TILE * a.pitch;
    s.product = s.reflector + a.pitch;
    s.matrix = MATRIX_IN_SHARED ? s.product + a.pitch : a.matrices + (long long)blockIdx.x * a.pitch * a.pitch;
    return s;
}

extern "C" __global__ void denoise_voxels(PcaArrays a, int start, int count)
{
    DYN_SHARED(double, shared);
    __shared__ int swept;
    const Memory s = memory_of(a, shared);
    double* rotations = a.rotations + (long long)blockIdx.x * 2 * a.rotation_room;
    int* sweeps = a.sweeps + (long long)blockIdx.x * 2 * a.sweep_room;
    const bool by_volumes = a.volumes <= a.window_voxels;
    const long long line = a.shape[2], plane = a.shape[1] * line;
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        const int* voxel = a.voxels + 3ll * (start + n);
        const int x = first_of(voxel[0], a.window[0], a.shape[0]), y = first_of(voxel[1], a.window[1], a.shape[1]);
        const int z = first_of(voxel[2], a.window[2], a.shape[2]);
        const float* corner = a.data + ((x - a.first_plane) * plane + y * line + z) * a.volumes;
        const int center = ((voxel[0] - x) * a.window[1] + voxel[1] - y) * a.window[2] + voxel[2] - z;
        fill_matrix(a, corner, s);
        for (int i = threadIdx.x; i < a.size; i += blockDim.x)
            s.y[i] = by_volumes ? double(signal(a, corner, center, i)) : double(i == center);
        __syncthreads();
        reduce_to_tridiagonal(s, a.size, a.pitch);
        if (threadIdx.x == 0) swept = diagonalize(a, s, rotations, sweeps);
        __syncthreads();
        const bool converged = swept >= 0;
        double variance = 0;
        int noise = a.size;
        if (converged) {
            noise = split(a, s, variance);
            if (threadIdx.x < WARP) undo_rotations(s, rotations, sweeps, swept);
            __syncthreads();
            undo_reflections(s, a.size, a.pitch);
        }
        for (int v = threadIdx.x; v < a.volumes; v += blockDim.x) {
            double value = by_volumes ? s.y[v] : 0;
            if (!by_volumes)
                for (int i = 0; i < a.size; ++i) value += s.y[i] * double(signal(a, corner, i, v));
            if (!converged) value = double(signal(a, corner, center, v));
            a.signals[(long long)n * a.volumes + v] = float(value / double(a.scale));
        }
        if (threadIdx.x == 0) {
            a.sigma[n] = converged ? float(sqrt(variance) / double(a.scale)) : nanf("");
            a.rank[n] = a.size - noise;
        }
        __syncthreads();
    }
}

// Tensor fit, eigen-decomposition and composition, the counterpart of cpu.py: same names, same operation order, in double.
// Components are in the order xx, yy, zz, xy, xz, yz. T is the type of stored tensors.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

// One Jacobi rotation that makes a[p][q] zero; the rows of v collect the eigenvectors.
template <int p, int q>
__device__ __forceinline__ void rotate(double a[3][3], double v[3][3])
{
    if (a[p][q] == 0.0) return;
    constexpr int r = 3 - p - q;
    const double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    double t = 1.0 / (fabs(theta) + sqrt(theta * theta + 1.0));
    if (theta < 0.0) t = -t;
    const double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    a[p][p] -= t * a[p][q];
    a[q][q] += t * a[p][q];
    a[p][q] = 0.0;
    a[q][p] = 0.0;
    const double arp = c * a[r][p] - s * a[r][q], arq = s * a[r][p] + c * a[r][q];
    a[r][p] = arp;
    a[p][r] = arp;
    a[r][q] = arq;
    a[q][r] = arq;
    for (int k = 0; k < 3; ++k) {
        const double vp = c * v[p][k] - s * v[q][k];
        v[q][k] = s * v[p][k] + c * v[q][k];
        v[p][k] = vp;
    }
}

template <int i, int j>
__device__ __forceinline__ void swap_if_less(double w[3], double v[3][3])
{
    if (w[i] < w[j]) {
        const double keep = w[i];
        w[i] = w[j];
        w[j] = keep;
        for (int k = 0; k < 3; ++k) {
            const double other = v[i][k];
            v[i][k] = v[j][k];
            v[j][k] = other;
        }
    }
}

// Eigenvalues w (descending) and eigenvectors (rows of v) by cyclic Jacobi.
__device__ __forceinline__ void eigen3(const double d[6], double w[3], double v[3][3])
{
    double a[3][3] = {{d[0], d[3], d[4]}, {d[3], d[1], d[5]}, {d[4], d[5], d[2]}};
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) v[i][j] = i == j ? 1.0 : 0.0;
    for (int sweep = 0; sweep < 16; ++sweep) {
        const double off = fabs(a[0][1]) + fabs(a[0][2]) + fabs(a[1][2]);
        if (!(off > 1e-17 * (fabs(a[0][0]) + fabs(a[1][1]) + fabs(a[2][2])))) break;
        rotate<0, 1>(a, v);
        rotate<0, 2>(a, v);
        rotate<1, 2>(a, v);
    }
    for (int i = 0; i < 3; ++i) w[i] = a[i][i];
    swap_if_less<0, 1>(w, v);
    swap_if_less<0, 2>(w, v);
    swap_if_less<1, 2>(w, v);
}

extern "C" __global__ void eigen_rows(
    const real* __restrict__ tensors, int count, real* __restrict__ values, real* __restrict__ vectors)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    double d[6], w[3], v[3][3];
    for (int c = 0; c < 6; ++c) d[c] = tensors[6 * (size_t)n + c];
    eigen3(d, w, v);
    for (int i = 0; i < 3; ++i) {
        values[3 * (size_t)n + i] = (real)w[i];
        for (int k = 0; k < 3; ++k) vectors[9 * (size_t)n + 3 * i + k] = (real)v[i][k];
    }
}

// tensors[n] = C (sum_i w_i v_i v_i^T) C^T with C = change.
extern "C" __global__ void compose_rows(
    const real* __restrict__ values, const real* __restrict__ vectors, const double* __restrict__ change, int count,
    real* __restrict__ tensors)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    double m[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    for (int i = 0; i < 3; ++i) {
        const real* v = vectors + 9 * (size_t)n + 3 * i;
        const double x = change[0] * v[0] + change[1] * v[1] + change[2] * v[2];
        const double y = change[3] * v[0] + change[4] * v[1] + change[5] * v[2];
        const double z = change[6] * v[0] + change[7] * v[1] + change[8] * v[2];
        const double w = values[3 * (size_t)n + i];
        m[0] += w * x * x;
        m[1] += w * y * y;
        m[2] += w * z * z;
        m[3] += w * x * y;
        m[4] += w * x * z;
        m[5] += w * y * z;
    }
    for (int c = 0; c < 6; ++c) tensors[6 * (size_t)n + c] = (real)m[c];
}

// Index into the lower half of a 7 x 7 matrix.
__device__ __forceinline__ constexpr int low(int i, int j) { return i * (i + 1) / 2 + j; }

// Solve normal x = b in place (Cholesky); x holds b on entry.
__device__ __forceinline__ bool solve_cholesky(double normal[28], double x[7])
{
#pragma unroll
    for (int j = 0; j < 7; ++j) {
#pragma unroll
        for (int k = 0; k < j; ++k) normal[low(j, j)] -= normal[low(j, k)] * normal[low(j, k)];
        if (!(normal[low(j, j)] > 0.0)) return false;
        normal[low(j, j)] = sqrt(normal[low(j, j)]);
#pragma unroll
        for (int i = j + 1; i < 7; ++i) {
#pragma unroll
            for (int k = 0; k < j; ++k) normal[low(i, j)] -= normal[low(i, k)] * normal[low(j, k)];
            normal[low(i, j)] /= normal[low(j, j)];
        }
    }
#pragma unroll
    for (int i = 0; i < 7; ++i) {
#pragma unroll
        for (int k = 0; k < i; ++k) x[i] -= normal[low(i, k)] * x[k];
        x[i] /= normal[low(i, i)];
    }
#pragma unroll
    for (int i = 6; i >= 0; --i) {
#pragma unroll
        for (int k = i + 1; k < 7; ++k) x[i] -= normal[low(k, i)] * x[k];
        x[i] /= normal[low(i, i)];
    }
    return true;
}

// The arguments of the fit; signals are stored (volume, voxel), so that neighboring threads read neighboring numbers.
struct FitArrays {
    const float* signals;
    const double* design;
    const double* solver;
    double* out;
    unsigned char* raised;
    int voxels;
    int volumes;
    int rounds;
};

// Signal n of voxel m, raised to 1e-6 of the voxel's largest.
__device__ __forceinline__ double raised_signal(const FitArrays& arrays, int n, int m, double least)
{
    const double value = __ldg(arrays.signals + (size_t)n * arrays.voxels + m);
    return value >= least ? value : least;
}

// Least squares with squared weights: the signals themselves (x empty), or those predicted by the last answer.
__device__ __forceinline__ bool weighted(const FitArrays& arrays, int m, double least, bool predicted, double x[7])
{
    const double* __restrict__ design = arrays.design;
    double normal[28], next[7];
    for (int i = 0; i < 28; ++i) normal[i] = 0.0;
    for (int i = 0; i < 7; ++i) next[i] = 0.0;
    for (int n = 0; n < arrays.volumes; ++n) {
        const double value = raised_signal(arrays, n, m, least);
        const double y = log(value);
        double weight = value;
        if (predicted) {
            double log_signal = 0.0;
#pragma unroll
            for (int i = 0; i < 7; ++i) log_signal += design[7 * n + i] * x[i];
            weight = exp(log_signal);
        }
        const double w2 = weight * weight;
#pragma unroll
        for (int i = 0; i < 7; ++i) {
            const double wb = w2 * design[7 * n + i];
            next[i] += wb * y;
#pragma unroll
            for (int j = 0; j <= i; ++j) normal[low(i, j)] += wb * design[7 * n + j];
        }
    }
    if (!solve_cholesky(normal, next)) return false;
    for (int i = 0; i < 7; ++i) x[i] = next[i];
    return true;
}

// One thread a voxel.
extern "C" __global__ void fit_rows(FitArrays arrays, int start, int count)
{
    const float* __restrict__ signals = arrays.signals;
    const double* __restrict__ solver = arrays.solver;
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    const int m = start + t;
    double largest = 0.0;
    for (int n = 0; n < arrays.volumes; ++n) {
        const double value = signals[(size_t)n * arrays.voxels + m];
        largest = largest >= value ? largest : value;
    }
    const double least = 1e-6 * largest;
    unsigned char low_signal = 0;
    for (int n = 0; n < arrays.volumes; ++n) low_signal |= !(signals[(size_t)n * arrays.voxels + m] >= least);
    arrays.raised[m] = low_signal;
    double x[7] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    for (int i = 0; i < 7; ++i)
        for (int n = 0; n < arrays.volumes; ++n)
            x[i] += solver[i * arrays.volumes + n] * log(raised_signal(arrays, n, m, least));
    if (arrays.rounds > 0 && weighted(arrays, m, least, false, x)) {
        for (int i = 1; i < arrays.rounds; ++i)  // where a weighted fit fails, the last good answer stays
            if (!weighted(arrays, m, least, true, x)) break;
    }
    for (int i = 0; i < 7; ++i) arrays.out[7 * (size_t)m + i] = x[i];
}

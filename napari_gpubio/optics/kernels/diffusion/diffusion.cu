// Diffusion on a grid, the counterpart of cpu.py: same names, same order of operations within a voxel.
//
// Volumes are (nx, ny, nz), the last index fastest. Each thread has a voxel; of `relax` one of its color, and of
// `restrict_residual` one of the coarser grid.
constexpr int THREADS = 256;

#define GRID int nx, int ny, int nz
#define MATRIX const float* __restrict__ cx, const float* __restrict__ cy, const float* __restrict__ cz

__device__ __forceinline__ long long thread_number() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }

// What comes to a voxel from its neighbors.
__device__ __forceinline__ float inflow(int i, int j, int k, GRID, MATRIX, const float* x)
{
    const long long along_x = (long long)ny * nz, here = i * along_x + (long long)j * nz + k;
    float total = i + 1 < nx ? cx[here] * x[here + along_x] : 0.0f;
    if (i > 0) total += cx[here - along_x] * x[here - along_x];
    if (j + 1 < ny) total += cy[here] * x[here + nz];
    if (j > 0) total += cy[here - nz] * x[here - nz];
    if (k + 1 < nz) total += cz[here] * x[here + 1];
    if (k > 0) total += cz[here - 1] * x[here - 1];
    return total;
}

extern "C" __global__ void relax(
    GRID, int color, MATRIX, const float* __restrict__ diagonal, float* x, const float* __restrict__ b)
{
    const int half = (nz + 1) / 2;
    const long long n = thread_number();
    const int i = int(n / ((long long)half * ny)), j = int(n / half % ny);
    const int k = 2 * int(n % half) + (i + j + color) % 2;
    if (i >= nx || k >= nz) return;
    const long long here = ((long long)i * ny + j) * nz + k;
    x[here] = (b[here] + inflow(i, j, k, nx, ny, nz, cx, cy, cz, x)) / diagonal[here];
}

extern "C" __global__ void restrict_residual(
    GRID, MATRIX, const float* __restrict__ diagonal, const float* __restrict__ x, const float* __restrict__ b,
    float* __restrict__ coarser)
{
    const int rows = (ny + 1) / 2, columns = (nz + 1) / 2;
    const long long n = thread_number();
    const int plane = int(n / ((long long)rows * columns)), row = int(n / columns % rows), column = int(n % columns);
    if (2 * plane >= nx) return;
    float total = 0.0f;
    for (int i = 2 * plane; i < min(2 * plane + 2, nx); ++i)
        for (int j = 2 * row; j < min(2 * row + 2, ny); ++j)
            for (int k = 2 * column; k < min(2 * column + 2, nz); ++k) {
                const long long here = ((long long)i * ny + j) * nz + k;
                total += b[here] - diagonal[here] * x[here] + inflow(i, j, k, nx, ny, nz, cx, cy, cz, x);
            }
    coarser[n] = total;
}

extern "C" __global__ void prolong(GRID, const float* __restrict__ coarser, float* __restrict__ x)
{
    const long long n = thread_number();
    const int i = int(n / ((long long)ny * nz)), j = int(n / nz % ny), k = int(n % nz);
    if (i >= nx) return;
    x[n] += coarser[((long long)(i / 2) * ((ny + 1) / 2) + j / 2) * ((nz + 1) / 2) + k / 2];
}

// Of differences, which a small sink may depend on.
extern "C" __global__ void multiply(
    GRID, const float* __restrict__ sink, MATRIX, const double* __restrict__ p, double* __restrict__ product)
{
    const long long n = thread_number(), along_x = (long long)ny * nz;
    const int i = int(n / along_x), j = int(n / nz % ny), k = int(n % nz);
    if (i >= nx) return;
    const double here = p[n];
    double total = double(sink[n]) * here;
    if (i + 1 < nx) total += double(cx[n]) * (here - p[n + along_x]);
    if (i > 0) total += double(cx[n - along_x]) * (here - p[n - along_x]);
    if (j + 1 < ny) total += double(cy[n]) * (here - p[n + nz]);
    if (j > 0) total += double(cy[n - nz]) * (here - p[n - nz]);
    if (k + 1 < nz) total += double(cz[n]) * (here - p[n + 1]);
    if (k > 0) total += double(cz[n - 1]) * (here - p[n - 1]);
    product[n] = total;
}

extern "C" __global__ void step_along(
    long long size, double step, const double* __restrict__ p, const double* __restrict__ product,
    double* __restrict__ x, double* __restrict__ r)
{
    const long long n = thread_number();
    if (n >= size) return;
    x[n] += step * p[n];
    r[n] -= step * product[n];
}

extern "C" __global__ void turn(long long size, double share, const float* __restrict__ z, double* __restrict__ p)
{
    const long long n = thread_number();
    if (n < size) p[n] = double(z[n]) + share * p[n];
}

// Sums of first * second, one for each block, in an order that does not change.
template <class Second>
__device__ __forceinline__ void dot(
    long long size, const double* __restrict__ first, const Second* __restrict__ second, double* __restrict__ sums)
{
    __shared__ double of_thread[THREADS];
    double total = 0.0;
    for (long long n = thread_number(); n < size; n += (long long)gridDim.x * blockDim.x)
        total += first[n] * double(second[n]);
    of_thread[threadIdx.x] = total;
    __syncthreads();
    for (int lanes = THREADS / 2; lanes > 0; lanes /= 2) {
        if (int(threadIdx.x) < lanes) of_thread[threadIdx.x] += of_thread[threadIdx.x + lanes];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = of_thread[0];
}

extern "C" __global__ void dot_single(
    long long size, const double* __restrict__ r, const float* __restrict__ z, double* __restrict__ sums)
{
    dot(size, r, z, sums);
}

extern "C" __global__ void dot_double(
    long long size, const double* __restrict__ p, const double* __restrict__ product, double* __restrict__ sums)
{
    dot(size, p, product, sums);
}

"""Kernels through g++: what they compute, what is refused, and which mistakes in a kernel are found."""

import threading

import numpy as np
import pytest

from tests.cuda_on_cpu import loader


@pytest.fixture
def kernel(cuda_on_cpu):
    """A function that compiles text and returns its first (or a named) kernel."""

    def compile_kernel(text, name=None, **how):
        module = loader.compile_text(text, **how)
        return module.get_function(name or module.kernels[0])

    return compile_kernel


BLOCK_SUM = """extern "C" __global__ void block_sum(const float* in, int n, float* out) {
    __shared__ float part[32];
    float v = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.f;
        for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
        if (threadIdx.x == 0) atomicAdd(out, v);
    }
}"""


def test_threads_and_blocks_have_their_indices(kernel):
    k = kernel("""extern "C" __global__ void where(int* out) {
        const dim3 b = blockDim, g = gridDim;
        const int t = threadIdx.x + b.x * (threadIdx.y + b.y * threadIdx.z);
        const int at = (blockIdx.x + g.x * (blockIdx.y + g.y * blockIdx.z)) * b.x * b.y * b.z + t;
        out[at] += at;
    }""")
    out = np.zeros(2 * 3 * 2 * 4 * 2 * 3, np.int32)
    k((2, 3, 2), (4, 2, 3), (out,))
    np.testing.assert_array_equal(out, np.arange(out.size))


def test_single_precision_stays_single(kernel):
    k = kernel("""extern "C" __global__ void roots(const float* x, float* out) {
        const float v = x[0];
        const bool single = sizeof(sqrt(v)) == 4 && sizeof(fabs(v)) == 4 && sizeof(exp(v)) == 4 && sizeof(rsqrt(v)) == 4
            && sizeof(min(v, 1.f)) == 4 && sizeof(fmaxf(v, 1.f)) == 4 && sizeof(floor(v)) == 4 && sizeof(sqrt(1.)) == 8;
        out[0] = sqrt(v) * sqrt(v); out[1] = single; out[2] = isfinite(v) && !isnan(v); out[3] = rsqrtf(v);
    }""")
    out, x = np.zeros(4, np.float32), np.float32(2.0)
    k((1,), (1,), (np.array([x]), out))
    assert out.tolist() == [np.sqrt(x) * np.sqrt(x), 1, 1, np.float32(1) / np.sqrt(x)]


def test_minimum_and_maximum_follow_cuda(kernel):
    k = kernel("""extern "C" __global__ void least(float nan, float* out, long long* whole) {
        out[0] = min(nan, 3.f); out[1] = max(3.f, nan); whole[0] = min(-1, 2); whole[1] = max(-1ll, 2);
        whole[2] = max(1u, -1);  // both become unsigned
    }""")
    out, whole = np.zeros(2, np.float32), np.zeros(3, np.int64)
    k((1,), (1,), (np.float32(np.nan), out, whole))
    assert out.tolist() == [3, 3]
    assert whole.tolist() == [-1, 2, 2**32 - 1]


def test_conversions_round_and_clamp(kernel):
    k = kernel("""extern "C" __global__ void to_whole(const float* x, int* n, unsigned int* z, unsigned long long* d) {
        const int i = threadIdx.x;
        n[i] = __float2int_rn(x[i]); z[i] = __float2uint_rz(x[i]); d[i] = __double2ull_rn((double)x[i]);
    }""")
    x = np.array([2.5, 3.5, -1.5, 3e9, -3e9, 1e20, np.nan], np.float32)
    n, z, d = np.zeros(7, np.int32), np.zeros(7, np.uint32), np.zeros(7, np.uint64)
    k((1,), (7,), (x, n, z, d))
    assert n.tolist() == [2, 4, -2, 2**31 - 1, -(2**31), 2**31 - 1, 0]
    assert z.tolist() == [2, 3, 0, 3_000_000_000, 0, 2**32 - 1, 0]
    assert d.tolist() == [2, 4, 0, 3_000_000_000, 0, 2**64 - 1, 0]


FUSE = """
extern "C" __global__ void plain(float a, float b, float c, float* out) { out[0] = a * b + c; }
extern "C" __global__ void rounded(float a, float b, float c, float* out) { out[0] = __fadd_rn(__fmul_rn(a, b), c); }
extern "C" __global__ void whole(float a, float b, float c, float* out) { out[0] = fmaf(a, b, c); }
"""


needs_fma = pytest.mark.skipif(not loader.can_fuse(), reason="this processor has no fused multiply-add")


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=needs_fma)])
def test_products_are_fused_on_demand_only(kernel, fused):
    a, c, out = np.float32(1 + 2**-12), np.float32(-1 - 2**-11), np.zeros(3, np.float32)
    for i, name in enumerate(("plain", "rounded", "whole")):
        kernel(FUSE, name, fused=fused)((1,), (1,), (a, a, c, out[i:]))
    apart, exact = 0.0, 2.0**-24
    assert out.tolist() == [exact if fused else apart, apart, exact]


@pytest.mark.parametrize("order", [loader.NATURAL, loader.REVERSED, 3])
def test_a_sum_with_barriers_and_shuffles(kernel, order):
    x, out = np.arange(10007, dtype=np.float32) % 17, np.zeros(1, np.float32)
    with loader.thread_order(order):
        kernel(BLOCK_SUM)((5,), (96,), (x, np.int32(x.size), out))
    assert out[0] == x.sum()


def test_shuffles_and_votes(kernel):
    k = kernel("""extern "C" __global__ void talk(int* out) {
        const int i = threadIdx.x, all = 0xffffffffu;
        out[i] = __shfl_up_sync(all, i, 1); out[64 + i] = __shfl_sync(all, i, 5);
        out[128 + i] = __shfl_down_sync(all, i, 1, 8); out[192 + i] = __shfl_xor_sync(all, i, 3);
        if (i >= 48) out[i] = __shfl_sync(0xffff0000u, i, 20);  // half a warp alone
        out[256 + i] = __ballot_sync(all, i % 3 == 0);
        out[320 + i] = __any_sync(all, i == 40) + 2 * __all_sync(all, i < 32);
    }""")
    out, i = np.zeros(384, np.int32), np.arange(64)
    k((1,), (64,), (out,))
    up, broadcast, down, crossed, ballot, votes = out.reshape(6, 64)
    np.testing.assert_array_equal(up, np.where(i >= 48, 52, np.where(i % 32, i - 1, i)))
    np.testing.assert_array_equal(broadcast, i // 32 * 32 + 5)
    np.testing.assert_array_equal(down, np.where(i % 8 < 7, i + 1, i))
    np.testing.assert_array_equal(crossed, i ^ 3)
    expected = [sum(1 << lane for lane in range(32) if (lane + warp) % 3 == 0) for warp in (0, 32)]
    np.testing.assert_array_equal(ballot.view(np.uint32), np.repeat(expected, 32))
    np.testing.assert_array_equal(votes, np.repeat([2, 1], 32))


def test_atomics(kernel):
    k = kernel("""extern "C" __global__ void count(unsigned long long* n, int* least, int* most, unsigned int* bits) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(n, 3ull); atomicMin(least, i - 7); atomicMax(most, i); atomicOr(bits, 1u << (i & 31));
    }""")
    n, least, most, bits = np.zeros(1, np.uint64), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.uint32)
    k((4,), (64,), (n, least, most, bits))
    assert (n[0], least[0], most[0], bits[0]) == (768, -7, 255, 2**32 - 1)


def test_kernels_are_found_behind_macros_and_templates(kernel):
    text = """
    // __global__ void comment(int* a) {}
    template <class T> __device__ T twice(T x) { return x + x; }
    template <int N> __global__ void never(int* a) { a[0] = N; }
    #define PUT(T) extern "C" __global__ void __launch_bounds__(64, 2) put_##T(T* a, T b) { a[0] = twice(b); }
    PUT(float)
    PUT(double)
    extern "C" __global__ __launch_bounds__(64) void last(REAL* a) { a[0] = 7; }
    """
    module = loader.compile_text(text, options=("-std=c++17", "-DREAL=float", "--fmad=false", "-lineinfo"))
    assert module.kernels == ("put_float", "put_double", "last")
    out = np.zeros(1)
    module.get_function("put_double")((1,), (1,), (out, np.float64(1.5)))
    assert out[0] == 3.0
    assert module.get_function("last").signature == ("pf4",)
    with pytest.raises(KeyError, match="no kernel 'never'; there are put_float"):
        module.get_function("never")


def test_options_keep_defines_and_the_standard():
    given = ("-std=c++17", "-DREAL=float", "-D", "A=1", "--define-macro=B", "-U", "-UC", "--fmad=false", "-I/x", "-G")
    assert loader.gxx_options(given) == ["-std=c++17", "-DREAL=float", "-DA=1", "-DB", "-UC"]
    assert loader.gxx_options(()) == ["-std=c++17"]


def test_structs_go_by_value(kernel):
    k = kernel("""struct Shape { int n; double step; };
    extern "C" __global__ void take(Shape s, const float4* v, float* out) { out[0] = s.n * (float)s.step + v[1].w; }""")
    shape = np.zeros(1, np.dtype([("n", "i4"), ("step", "f8")], align=True))
    shape["n"], shape["step"] = 3, 0.5
    out = np.zeros(1, np.float32)
    assert k.signature == ("s16", "qs16", "pf4")
    k((1,), (1,), (shape, np.arange(8, dtype=np.float32), out))
    assert out[0] == 8.5


# -- mistakes ----------------------------------------------------------------------------------------------------------


EXAMPLE = (
    'extern "C" __global__ void add(const float* a, int n, float scale, float* out) { out[0] = a[0] * scale + n; }'
)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({1: 3}, TypeError, "argument 1: the kernel takes i4 and got a Python int, which CuPy would widen"),
        ({2: 1.0}, TypeError, "argument 2: the kernel takes f4 and got a Python float"),
        ({1: np.int64(3)}, TypeError, "argument 1: the kernel takes i4 and got int64"),
        ({2: np.float64(3)}, TypeError, "argument 2: the kernel takes f4 and got float64"),
        ({0: np.zeros(4)}, TypeError, "argument 0: the kernel takes an array of f4 and got float64"),
        ({0: np.float32(1)}, TypeError, r"argument 0: the kernel takes an array \(qf4\)"),
        ({0: np.zeros(8, np.float32)[::2]}, ValueError, "argument 0: the array is not C-contiguous"),
        ({3: np.frombuffer(b"\0" * 16, np.float32)}, ValueError, "argument 3: the array is read-only"),
        ({4: np.float32(1)}, TypeError, "has 4 parameters and was given 5"),
    ],
)
def test_wrong_arguments_are_refused(kernel, change, error, sentence):
    args = {0: np.zeros(4, np.float32), 1: np.int32(3), 2: np.float32(2), 3: np.zeros(4, np.float32)} | change
    with pytest.raises(error, match=sentence):
        kernel(EXAMPLE)((1,), (1,), [args[i] for i in sorted(args)])


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0,), (1,), 0),
        ((1, 65536), (1,), 0),
        ((1,), (1025,), 0),
        ((1,), (32, 33), 0),
        ((1,), (1,), 49153),
        ((), (1,), 0),
    ],
)
def test_launches_that_a_gpu_refuses_are_refused(kernel, grid, block, shared):
    with pytest.raises(ValueError, match=r"CUDA refuses|over the limit|1 to 3 numbers"):
        kernel('extern "C" __global__ void nothing() {}')(grid, block, (), shared)


def test_more_shared_memory_must_be_asked_for(kernel):
    k = kernel('extern "C" __global__ void nothing() {}')
    k.max_dynamic_shared_size_bytes = 100_000
    k((1,), (1,), (), 100_000)


REVERSE = """extern "C" __global__ void reverse(const float* in, float* out) {
    extern __shared__ float cell[];
    cell[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    BARRIER
    out[blockIdx.x * blockDim.x + threadIdx.x] = cell[blockDim.x - 1 - threadIdx.x];
}"""


@pytest.mark.parametrize("barrier", [True, False])
def test_a_forgotten_barrier_is_seen_in_some_order(kernel, barrier):
    k = kernel(REVERSE, options=("-DBARRIER=__syncthreads();" if barrier else "-DBARRIER=",))
    x, right = np.arange(256, dtype=np.float32), []
    for order in (loader.NATURAL, loader.REVERSED, 7):
        out = np.zeros(256, np.float32)
        with loader.thread_order(order):
            k((4,), (64,), (x, out), 64 * 4)
        right.append(np.array_equal(out, x.reshape(4, 64)[:, ::-1].ravel()))
    assert all(right) is barrier


def test_shared_memory_is_not_zero(kernel):
    k = kernel("""extern "C" __global__ void peek(unsigned int* out) {
        __shared__ unsigned int fixed[4]; extern __shared__ unsigned int dynamic[];
        out[2 * blockIdx.x] = fixed[3]; out[2 * blockIdx.x + 1] = dynamic[3];
        __syncthreads();
        fixed[3] = dynamic[3] = 1u;
    }""")
    out = np.zeros(4, np.uint32)
    k((2,), (1,), (out,), 16)
    np.testing.assert_array_equal(out, np.full(4, 0xA5A5A5A5, np.uint32))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("if (threadIdx.x < 5) return; __syncthreads();", "divergent __syncthreads"),
        ("if (threadIdx.x < 32) __syncthreads(); else __syncwarp();", "divergent __syncthreads|deadlock"),
        ("if (threadIdx.x == 3) __syncwarp(); else __syncthreads();", "deadlock"),
        ("if (threadIdx.x != 3) __shfl_sync(~0u, 1, 3);", "a shuffle reads a lane that takes no part"),
        ("__syncwarp(1u);", "not in the mask"),
        ("extern __shared__ int a[]; a[threadIdx.x] = 1;", "past the end of dynamic shared memory"),
        ("__trap();", "__trap"),
    ],
)
def test_stuck_kernels_are_an_error_and_the_next_launch_works(kernel, body, sentence):
    broken = kernel(f'extern "C" __global__ void broken() {{ {body} }}')
    with pytest.raises(loader.LaunchError, match=sentence):
        broken((2,), (64,), (), 252)
    out, x = np.zeros(1, np.float32), np.ones(100, np.float32)
    kernel(BLOCK_SUM)((1,), (64,), (x, np.int32(100), out))
    assert out[0] == 100


def test_bad_source_is_an_error_with_the_line(cuda_on_cpu):
    with pytest.raises(loader.CompileError, match=r"mine\.cu:2:"):
        loader.compile_text('extern "C" __global__ void k() {\n nonsense; }', name="mine.cu")


def test_undefined_behavior_is_reported(kernel, capfd):
    text = 'extern "C" __global__ void k(int* a) { a[0] = a[0] * a[1]; }'
    kernel(text, sanitize=True)((1,), (1,), (np.array([2**30, 4], np.int32),))
    assert "signed integer overflow" in capfd.readouterr().err


def test_threads_of_python_may_launch_at_once(kernel):
    k, outs = kernel(BLOCK_SUM), [np.zeros(1, np.float32) for _ in range(8)]
    x = np.ones(5000, np.float32)
    threads = [threading.Thread(target=k, args=((3,), (64,), (x, np.int32(5000), out))) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out[0] for out in outs] == [5000] * 8

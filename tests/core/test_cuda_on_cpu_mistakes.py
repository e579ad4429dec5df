"""Kernels through g++: what is refused, and which mistakes in a kernel are found."""

import threading

import numpy as np
import pytest

from tests.core.kernel_samples import BLOCK_SUM
from tests.cuda_on_cpu import loader

N = 256


EXAMPLE = (
    'extern "C" __global__ void add(const float* a, int n, float scale, float* out) { out[0] = a[0] * scale + n; }'
)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({1: 3}, TypeError, "argument 1: the kernel wants i4 and got a Python int, which CuPy would widen"),
        ({2: 1.0}, TypeError, "argument 2: the kernel wants f4 and got a Python float"),
        ({1: np.int64(3)}, TypeError, "argument 1: the kernel wants i4 and got int64"),
        ({2: np.float64(3)}, TypeError, "argument 2: the kernel wants f4 and got float64"),
        ({0: np.zeros(4)}, TypeError, "argument 0: the kernel wants an array of f4 and got float64"),
        ({0: np.float32(1)}, TypeError, r"argument 0: the kernel wants an array \(qf4\)"),
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
    x, right = np.arange(N, dtype=np.float32), []
    for order in (loader.NATURAL, loader.REVERSED, 7):
        out = np.zeros(N, np.float32)
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

"""NumPy dressed as CuPy: what it computes, and which mistakes in host code it finds."""

import sys
import threading

import numpy as np
import pytest

from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.fake_cupy import FakeGpu

N = 256


FILL = 'extern "C" __global__ void fill(float* a, int n) { if ((int)threadIdx.x < n) a[threadIdx.x] = threadIdx.x; }'


@pytest.fixture
def cupy(fake_gpu):
    """CuPy on two pretended GPUs of 1 MB, as ``import cupy`` gives it."""
    fake_gpu(count=2, total_bytes=2**20)
    import cupy

    return cupy


def test_host_code_runs_as_with_cupy(cupy):
    a = cupy.empty(4, cupy.float32)
    cupy.RawModule(code=FILL, options=("--fmad=false",)).get_function("fill")((1,), (32,), (a, np.int32(4)))
    b = cupy.cumsum(a * 2) + cupy.asarray(np.ones(4, np.float32))
    assert isinstance(b, cupy.ndarray)
    assert cupy.asnumpy(b).tolist() == [1, 3, 7, 13]
    assert type(cupy.asnumpy(b)) is np.ndarray
    assert (int(b[-1]), float(b.max()), b.dtype) == (13, 13.0, np.float32)
    b.set(np.zeros(4, np.float32))
    assert not bool(b.any())


def test_new_memory_is_not_zero(cupy):
    assert (cupy.empty(4, np.uint8).get() == 0xA5).all()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda cupy: cupy.zeros(3) + np.zeros(3),
        lambda cupy: np.zeros(3) + cupy.zeros(3),
        lambda cupy: cupy.zeros(6).__setitem__(slice(None), np.zeros(6)),
        lambda cupy: cupy.zeros(6)[np.array([1, 2])],
        lambda cupy: cupy.concatenate([cupy.zeros(3), np.zeros(3)]),
        lambda cupy: cupy.where(cupy.zeros(3) > 0, np.ones(3), cupy.zeros(3)),
        lambda cupy: cupy.RawKernel(FILL, "fill")((1,), (1,), (np.zeros(1, np.float32), np.int32(1))),
    ],
)
def test_host_arrays_do_not_mix_with_device_arrays(cupy, mistake):
    with pytest.raises(TypeError, match="host array"):
        mistake(cupy)


def test_an_array_belongs_to_its_device(cupy):
    fill = cupy.RawKernel(FILL, "fill")
    with cupy.cuda.Device(1):
        a = cupy.zeros(4, np.float32)
        fill((1,), (4,), (a, np.int32(4)))
    assert a.device.id == a[1:].device.id == 1
    assert cupy.cuda.Device().id == 0
    with pytest.raises(RuntimeError, match="the array is on device 1 and the kernel runs on device 0"):
        fill((1,), (4,), (a, np.int32(4)))
    with pytest.raises(RuntimeError, match="invalid device ordinal"), cupy.cuda.Device(2):
        pass


def test_the_current_device_is_one_of_the_thread(cupy):
    seen = []
    with cupy.cuda.Device(1):
        thread = threading.Thread(target=lambda: seen.append(cupy.cuda.Device().id))
        thread.start()
        thread.join()
    assert seen == [0]


def test_a_write_outside_an_array_is_found(cupy):
    a = cupy.zeros(4, np.float32)
    with pytest.raises(loader.LaunchError, match="argument 0: the kernel wrote outside the array"):
        cupy.RawKernel(FILL, "fill")((1,), (32,), (a, np.int32(5)))


def test_memory_has_an_end_and_comes_back(cupy):
    a = cupy.zeros(2**20 - 100, np.uint8)
    assert cupy.cuda.runtime.memGetInfo() == (100, 2**20)
    with pytest.raises(MemoryError, match="Out of memory allocating 101 bytes"):
        cupy.zeros(101, np.uint8)
    with cupy.cuda.Device(1):
        cupy.zeros(101, np.uint8)
    part = a[5:]
    del a
    assert cupy.get_default_memory_pool().used_bytes() == 2**20 - 100
    del part
    assert cupy.get_default_memory_pool().used_bytes() == 0


def test_allocations_fail_on_demand(fake_gpu):
    gpu = fake_gpu()
    gpu.fail_allocations(2)
    gpu.module.zeros(1)
    with pytest.raises(MemoryError) as caught:
        gpu.module.zeros(1)
    assert type(caught.value).__module__ == "cupy.cuda.memory"
    gpu.module.zeros(1)


def test_launches_are_written_down(fake_gpu):
    gpu = fake_gpu()
    gpu.module.RawKernel(FILL, "fill")((1,), (4,), (gpu.module.zeros(4, np.float32), np.int32(4)))
    assert gpu.log == [(0, "fill", (1,), (4,))]


def test_it_is_gone_afterwards(cuda_on_cpu):
    before = {name: sys.modules.get(name) for name in ("cupy", "cupy.cuda")}
    with FakeGpu().installed() as gpu:
        assert sys.modules["cupy"] is gpu.module
    assert before == {name: sys.modules.get(name) for name in ("cupy", "cupy.cuda")}

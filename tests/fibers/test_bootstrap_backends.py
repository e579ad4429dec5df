"""Draws of tensors: the CUDA kernel beside its CPU backend, bit for bit."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.fibers.kernels.bootstrap import cpu, gpu
from napari_gpubio.fibers.kernels.bootstrap.problem import DrawProblem
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.runs import check_same_methods

pytestmark = pytest.mark.daily


def problem(volumes):
    rng = np.random.default_rng(volumes)
    return DrawProblem(
        tensors=rng.normal(1e-3, 2e-4, (300, 6)),
        shifts=rng.normal(0, 1e-5, (300, volumes, 6)).astype(np.float32),
        voxels=rng.integers(0, 1 << 32, 300, np.uint32),
        seed=(7 << 32) + 5,
    )


def test_the_struct_is_laid_out_as_the_kernel_reads_it():
    assert struct_in(kernels.source(gpu.SOURCE), "DrawArrays") == gpu.DRAW_ARRAYS


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


@pytest.mark.parametrize("volumes", [9, 64, 150])
@pytest.mark.parametrize("order", [loader.NATURAL, loader.REVERSED])
def test_cuda_has_the_bits_of_the_cpu(fake_gpu, volumes, order):
    fake_gpu()
    here, there = cpu.Run(problem(volumes)), gpu.Run(problem(volumes), device=Device("cuda", (0,)))
    with loader.thread_order(order):
        for repeat in (0, 12345):
            np.testing.assert_array_equal(there.draw(repeat), here.draw(repeat))
    there.close()


@pytest.mark.gpu
@pytest.mark.parametrize("volumes", [9, 150])
def test_a_gpu_has_the_bits_of_the_cpu(volumes):
    here, there = cpu.Run(problem(volumes)), gpu.Run(problem(volumes), device=Device("cuda", (0,)))
    for repeat in (0, 12345):
        np.testing.assert_array_equal(there.draw(repeat), here.draw(repeat))

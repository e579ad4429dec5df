"""Denoising of fluence on a real GPU: the bits of the CPU."""

import numpy as np
import pytest

from napari_gpubio.denoise.fluence import FluenceSettings, denoise_fluence
from tests.denoise.fluence.samples import diffuse, poisson_halves, problem_of
from tests.denoise.fluence.test_fluence_backends import HALVES, OPTIONS, check_backends, check_same_bits

pytestmark = pytest.mark.gpu
LEAST = 1e-28  # of volumes near 1: faint, see cpu.py


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_kernels_have_the_bits_of_their_backend(options):
    check_backends(problem_of(HALVES, **options), LEAST)


@pytest.mark.parametrize("shape", [(70, 60, 83), (40, 130, 200), (130, 40, 33)])
def test_all_scales_of_larger_volumes_do_too(shape):
    halves = poisson_halves(diffuse(shape), 500)
    labels = (np.indices(shape)[2] > 20).astype(np.int64)
    check_backends(problem_of(halves, FluenceSettings()), LEAST)
    check_backends(problem_of(halves, FluenceSettings(), labels=labels), LEAST)


def test_gates_and_a_single_buffer_do_too():
    gates = np.stack([poisson_halves(diffuse((30, 40, 50)), counts)[0] for counts in (100, 1000)], axis=-1)
    expected, found = (denoise_fluence(gates, device=device) for device in ("cpu", "cuda"))
    check_same_bits(found, expected, ("image", "noise", "raw_noise", "scale_mm"), LEAST)

"""Denoising on a real GPU, against the CPU."""

import numpy as np
import pytest

from napari_gpubio.core.device import Device
from napari_gpubio.denoise import DenoiseSettings, FluenceSettings, denoise, denoise_fluence
from napari_gpubio.denoise.kernels.anlm import gpu
from tests.denoise.fluence import test_fluence_backends as fluence
from tests.denoise.fluence.samples import diffuse, poisson_halves
from tests.denoise.fluence.samples import problem_of as fluence_problem_of
from tests.denoise.samples import problem_of, steps_and_noise
from tests.denoise.test_denoise_backends import OPTIONS

pytestmark = pytest.mark.gpu
SHAPE = (21, 34, 75)


def check_same_images(image, settings, **more):
    """At least 99.99 % of voxels within 1e-5 of value or noise; one at the edge of pre-selection may be farther."""
    expected, found = (denoise(image, settings, device=device, **more) for device in ("cpu", "cuda"))
    for a, b in ((found.image, expected.image), (found.noise, expected.noise)):
        assert np.isfinite(a).all()
        assert (np.abs(a - b) <= 1e-5 * np.maximum(np.abs(b), expected.noise)).mean() >= 0.9999
    return found


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_follows_the_cpu(options):
    check_same_images(steps_and_noise(SHAPE, seed=1, empty=0.05), DenoiseSettings(**options))


def test_masks_known_noise_and_long_voxels_follow_the_cpu():
    rng = np.random.default_rng(2)
    image = steps_and_noise(SHAPE, seed=2)
    more = {"mask": rng.random(SHAPE) < 0.8, "noise": 1.0 + rng.random(SHAPE), "voxel_size_mm": (1, 2.5, 1.2)}
    check_same_images(image, DenoiseSettings(search_radius=2), **more)


def test_noise_from_the_finest_detail_and_planes_follow_the_cpu():
    for noise_model in ("gaussian", "rician"):
        settings = DenoiseSettings(noise_model=noise_model)
        assert np.ptp(check_same_images(steps_and_noise((48, 40, 64), seed=8), settings).noise) < 2
        check_same_images(steps_and_noise((70, 90, 1), seed=9)[..., 0], settings)


@pytest.mark.parametrize("shape", [(40, 256, 256), (256, 40, 256), (256, 256, 40)])
def test_long_lines_are_mixed_as_on_the_cpu(shape):
    """Lines that lie far apart in memory: what reads past their ends reads past the volume's."""
    problem = problem_of(steps_and_noise(shape, seed=3), DenoiseSettings())
    run = gpu.Run(problem, device=Device("cuda", (0,)))
    import cupy

    from napari_gpubio.denoise.kernels.anlm import cpu, tally

    rng = np.random.default_rng(4)
    small, large = (rng.normal(100.0, 5.0, shape).astype(np.float32) for _ in range(2))
    expected = tally.mix(small, large, cpu.filter_axis)
    found = tally.mix(cupy.asarray(small), cupy.asarray(large), run.filter_axis, cupy)
    np.testing.assert_allclose(cupy.asnumpy(found), expected, rtol=1e-5)
    run.close()


def test_fluence_of_ten_decades_follows_the_cpu():
    depth = np.exp(-np.linspace(0, 23, 60))[:, None, None] * np.ones((1, 30, 30))
    noisy = depth * np.random.default_rng(5).gamma(9.0, 1 / 9.0, depth.shape)
    for scale in (1e-16, 1e4):
        check_same_images(noisy * scale, DenoiseSettings())


def test_two_runs_have_the_same_bits():
    image = steps_and_noise(SHAPE, seed=6)
    first, second = (denoise(image, device="cuda").image for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_all_gpus_together_have_the_bits_of_one():
    image = steps_and_noise((40, 50, 60), seed=7)
    one, together = (denoise(image, device=device).image for device in ("cuda:0", "cuda:all"))
    np.testing.assert_array_equal(one, together)


# -- fluence: the bits of the CPU -------------------------------------------------------------------------------------

LEAST = 1e-28  # of volumes near 1: faint, see cpu.py


@pytest.mark.parametrize("options", fluence.OPTIONS.values(), ids=fluence.OPTIONS)
def test_kernels_of_fluence_have_the_bits_of_their_backend(options):
    fluence.check_backends(fluence_problem_of(fluence.HALVES, **options), LEAST)


@pytest.mark.parametrize("shape", [(70, 60, 83), (40, 130, 200), (130, 40, 33)])
def test_all_scales_of_larger_fluence_have_the_bits_of_their_backend(shape):
    halves = poisson_halves(diffuse(shape), 500)
    labels = (np.indices(shape)[2] > 20).astype(np.int64)
    for more in ({}, {"labels": labels}):
        fluence.check_backends(fluence_problem_of(halves, FluenceSettings(), **more), LEAST)


def test_gates_and_a_single_buffer_have_the_bits_of_the_cpu():
    gates = np.stack([poisson_halves(diffuse((30, 40, 50)), counts)[0] for counts in (100, 1000)], axis=-1)
    expected, found = (denoise_fluence(gates, device=device) for device in ("cpu", "cuda"))
    fluence.check_same_bits(found, expected, ("image", "noise", "raw_noise", "scale_mm"), LEAST)

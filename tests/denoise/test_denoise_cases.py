"""The engine's own reference cases: they pass, wrong filters fail, and the direct form is right."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.device import choose_device
from napari_gpubio.denoise import DenoiseSettings, checks
from napari_gpubio.denoise.reference import denoise_directly, mix_directly
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.settings import Small
from tests.denoise.reference import Reference
from tests.denoise.samples import problem_of, steps_and_noise

NAMES = [check.name for check in checks.CHECKS]
# Cases that a filter which does nothing passes too.
BLIND = {"constant in, constant out", "any scale", "device and CPU", "wavelet bank", "measure of white noise"}


def named(name):
    return checks.CHECKS[NAMES.index(name)]


def failed(check, device="cpu"):
    return [row["quantity"] for row in run_check(check, choose_device(device)) if not row["passed"]]


@pytest.mark.daily
@pytest.mark.parametrize("check", checks.CHECKS, ids=NAMES)
def test_every_check_passes(check, device):
    assert failed(check, device) == []


@pytest.mark.parametrize("check", [c for c in checks.CHECKS if c.name not in BLIND], ids=lambda check: check.name)
def test_a_filter_that_does_nothing_fails(check, monkeypatch):
    monkeypatch.setattr(checks, "denoise", lambda image, *args, **options: denoise_nothing(image))
    assert failed(check)


def denoise_nothing(image):
    result = denoise(np.ones((5, 5, 5)), DenoiseSettings(patches=Small(), search_radius=1), device="cpu")
    return dataclasses.replace(result, image=np.asarray(image), noise=np.zeros(np.shape(image)))


def test_a_filter_that_knows_an_absolute_scale_fails(monkeypatch):
    def scaled(image, settings=None, *, device):
        result = denoise(image, settings, device=device)
        return dataclasses.replace(result, image=np.where(np.asarray(image) < 1e-5, 0.5 * image, result.image))

    monkeypatch.setattr(checks, "denoise", scaled)
    assert all(failed(named(name)) for name in ("constant in, constant out", "any scale"))


def test_a_wrong_measure_of_noise_fails(monkeypatch):
    measured = checks.measured
    monkeypatch.setattr(checks, "measured", lambda *how: [1.05 * mean for mean in measured(*how)])
    assert len(failed(named("measure of white noise"))) == 2


def test_bands_from_the_wrong_patch_fail(monkeypatch):
    monkeypatch.setattr(checks, "mix_directly", lambda small, large: mix_directly(large, small))
    assert failed(named("wavelet bank")) == ["bands (relative)"]


@pytest.mark.parametrize("rule", ["seed", "none"])
def test_the_direct_form_is_that_of_the_tests(rule):
    """Two people's way from the equations to numbers."""
    volume = steps_and_noise((7, 8, 9), seed=8)
    problem = problem_of(volume, DenoiseSettings(search_radius=1, preselection=rule))
    expected, _ = Reference(volume, problem.settings, problem.windows, problem.calibration).run()
    np.testing.assert_allclose(denoise_directly(volume, 1, rule), expected, rtol=1e-9)


def test_the_head_is_mirrored_to_any_size():
    head = checks.head_volume(1, 1, 1).dtype
    volume = checks.head_volume(100, 10, 90)
    assert (volume.shape, volume.dtype) == ((100, 10, 90), head)
    np.testing.assert_array_equal(volume[88:], volume[87:75:-1])


def test_a_speed_counts_voxels():
    made = checks.speed("small", (64, 64, 64), (8, 9, 10))
    assert run_speed(made, choose_device("cpu"), repeats=1)["amount"] == 720


@pytest.mark.parametrize("one", checks.WARMUPS, ids=lambda one: one.name)
def test_a_warm_up_is_quick_and_compiles_each_kernel_once(one):
    """Whatever options are used: one signature of each kernel, since each takes seconds to compile."""
    from napari_gpubio.denoise.kernels.anlm import cpu as anlm
    from napari_gpubio.denoise.kernels.fluence import cpu as fluence

    one.run()
    kernels = [anlm.visit_candidates, anlm.local_moments, anlm.filter_lines, anlm.look_up]
    kernels += [fluence.smooth_across, fluence.smooth_along, fluence.evaluate, fluence.update_best]
    assert not [(kernel.__name__, kernel.signatures) for kernel in kernels if len(kernel.signatures) > 1]

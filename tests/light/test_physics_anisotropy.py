"""Light where scattering depends on direction, against diffusion theory, and from source to detector and back."""

import numpy as np
import pytest

from napari_gpubio.core.device import CPU, choose_device
from napari_gpubio.light.anisotropy_checks import (
    CHECKS,
    MEAN_FREE_PATHS,
    THEORY_ERROR,
    spread_mm,
    swapped,
    trace_slab,
)
from napari_gpubio.optics.anisotropy.theory import diffusion_tensor_mm, uniaxial_scattering_per_mm
from napari_gpubio.optics.scattering_tensors import SCATTERING_MODELS
from tests.light.voxel_samples import check_z

TENSOR = 1 / np.array(MEAN_FREE_PATHS)


@pytest.mark.parametrize("model", SCATTERING_MODELS)
def test_mean_squares_of_displacement_are_those_of_the_diffusion_tensor(model):
    """Each to a few percent; the three models are 10 to 50 % apart."""
    found, error = spread_mm(CPU, TENSOR, model, 5000)
    expected = np.diag(diffusion_tensor_mm(TENSOR, model))
    check_z(found - expected, error)
    assert (error < 0.05 * expected).all()


@pytest.mark.long
@pytest.mark.parametrize("model", SCATTERING_MODELS)
def test_mean_squares_of_displacement_within_two_percent(model):
    found, error = spread_mm(CPU, TENSOR, model, 150_000)
    expected = np.diag(diffusion_tensor_mm(TENSOR, model))
    check_z(found - expected, error)
    assert (np.abs(found / expected - 1) < 0.02).all()


def test_free_scattering_with_a_phase_function_diffuses_as_its_degrees_tell():
    """White matter with g = 0.8, ten mean free paths of the others: the ratio of along to across is seen."""
    g = 0.8
    across, along = uniaxial_scattering_per_mm(100.0, 45.0, "free", g)
    found, error = spread_mm(CPU, (across, across, along), "free", 2500, g=g)
    expected = np.array([1 / 300, 1 / 300, 1 / 135])
    check_z(found - expected, error)
    assert error[2] < 0.1 * (expected[2] - expected[0])


def test_off_diagonal_components_turn_the_diffusion_tensor():
    """The same medium turned by 45 degrees about z: along x and y the mean of both."""
    x, y, z = TENSOR
    turned = ((x + y) / 2, (x + y) / 2, z, (x - y) / 2, 0.0, 0.0)
    d = np.diag(diffusion_tensor_mm(TENSOR))
    found, error = spread_mm(CPU, turned, "product", 4000)
    check_z(found - [(d[0] + d[1]) / 2, (d[0] + d[1]) / 2, d[2]], error)


def test_the_slab_is_that_of_anisotropic_diffusion():
    traced, theory = trace_slab(CPU, 60_000)
    for (value, error), expected in zip(traced, theory, strict=True):
        assert abs(value - expected) < THEORY_ERROR * expected + 3 * error
    assert traced.transmitted.error < 0.03 * theory.transmitted
    assert traced.reflected.value + traced.transmitted.value < 1.0


@pytest.mark.parametrize("model", ["product", "mixture"])
def test_source_and_detector_may_change_places(model):
    there, back = swapped(CPU, 60_000, model)
    check_z(there.value - back.value, np.hypot(there.error, back.error), 3.0)
    assert there.error < 0.05 * there.value


def test_they_may_not_where_other_programs_scattering_rule_holds():
    """It breaks detailed balance: what comes back differs by a third."""
    there, back = swapped(CPU, 150_000, "free")
    assert abs(there.value - back.value) > 5 * np.hypot(there.error, back.error)


@pytest.mark.gpu
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_checks_on_a_real_gpu(check):
    for finding in check.run(choose_device("cuda")):
        assert finding.passed, finding

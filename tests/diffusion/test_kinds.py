"""What images of several volumes are taken for: never something else than a series because of their number alone."""

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.data import get_sphere
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from dipy.sims.voxel import multi_tensor

from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.io.fods import lowest_amplitudes
from napari_gpubio.diffusion.io.kinds import kind_of
from tests.diffusion.tensor_samples import TURNS, six, turned

GRID = (10, 10, 5)
_rng = np.random.default_rng(0)
CONTRAST = _rng.gamma(4, 100, (*GRID, 1))
INSIDE = _rng.random((*GRID, 1)) > 0.4
TENSORS = six(turned((1.7e-3, 0.4e-3, 0.2e-3))).reshape(*GRID, 6)
COUNTS = (3, 6, 9, 15, 28, 45, 66, 91)


def noise(count, size=5.0):
    return np.random.default_rng(count).normal(0, size, (*GRID, count))


def without_mean(count):
    values = (CONTRAST + noise(count)) * INSIDE
    return values - values.mean(axis=3, keepdims=True)


def with_empty_ends(count):
    values = without_mean(count)
    values[:5, ..., 3:] = 0
    return values


def estimates(count):
    """A large constant and small coefficients of both signs."""
    values = noise(count, 3.0)
    values[..., :1] = CONTRAST
    return values


SERIES = {
    "magnitudes": lambda count: CONTRAST + noise(count),
    "in a mask": lambda count: (CONTRAST + noise(count)) * INSIDE,
    "echoes": lambda count: CONTRAST * np.exp(-0.3 * np.arange(count)) + noise(count, 1.0),
    "diffusion weighted": lambda count: CONTRAST * np.exp(-np.abs(noise(count, 1.0))),
    "estimates": estimates,
    "without mean": without_mean,
    "with empty ends": with_empty_ends,
    "shares": lambda count: np.random.default_rng(0).dirichlet(np.ones(count), GRID),
    "displacements": noise,
    "all alike": lambda count: np.ones((*GRID, count)),
    "small": lambda count: (CONTRAST + noise(count)) * 1e-6,
    "nothing": lambda count: np.zeros((*GRID, count)),
    "not finite": lambda count: np.full((*GRID, count), np.nan),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", SERIES)
def test_series_stay_series(kind, count):
    assert kind_of(SERIES[kind](count).astype(np.float32), "a.nii").name == "series"
    assert kind_of((SERIES["magnitudes"](count)).astype(np.int16), "a.nii").name == "series"


def test_volumes():
    assert kind_of(np.ones(GRID), "a.nii").name == "volume"
    assert kind_of(np.ones((*GRID, 1, 1)), "a.nii").name == "volume"


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_tensors_with_the_noise_around_a_head(scale):
    values = np.where(INSIDE, TENSORS, np.random.default_rng(1).normal(0, 1e-3, (*GRID, 6)))
    for order in ((0, 1, 2, 3, 4, 5), (0, 3, 4, 1, 5, 2), (0, 3, 1, 4, 5, 2)):
        assert kind_of((values[..., order] * scale).astype(np.float32), "a.nii").name == "tensors"
    assert kind_of((TENSORS * 1e6).astype(np.float32), "a.nii").name == "series"  # no diffusivity is so large


def test_an_intent_of_symmetric_matrices_decides():
    values = np.ones((*GRID, 1, 6), np.float32)
    assert kind_of(values, "a.nii").name == "series"
    assert kind_of(values, "a.nii", intent=1005).name == "tensors"


@pytest.mark.parametrize("lengths", ["one", "falling"])
@pytest.mark.parametrize("missing", [0.0, np.nan])
def test_peaks(lengths, missing):
    directions = np.random.default_rng(2).normal(size=(*GRID, 3, 3))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    if lengths == "falling":
        directions *= np.array([0.9, 0.5, 0.2])[:, None]
    directions[INSIDE[..., 0], 1:] = missing
    assert kind_of(directions.reshape(*GRID, 9).astype(np.float32), "a.nii").name == "peaks"
    assert kind_of(directions.astype(np.float32), "a.nii").name == "peaks"


def test_fods_that_dipy_made():
    """In its own basis, the only one in which they are nowhere far below 0."""
    table = gradient_table(
        np.r_[0.0, np.full(100, 2500)], bvecs=np.vstack([[0, 0, 0], get_sphere(name="repulsion100").vertices])
    )
    eigenvalues = np.array([1.7e-3, 2e-4, 2e-4])
    signals = [
        multi_tensor(
            table, np.array([eigenvalues] * 2), S0=100, angles=list(map(tuple, turn.T[:2])), fractions=[60, 40]
        )[0]
        for turn in TURNS[:60]
    ]
    model = ConstrainedSphericalDeconvModel(table, (eigenvalues, 100.0), sh_order_max=8)
    coefficients = model.fit(np.array(signals).reshape(5, 4, 3, -1)).shm_coeff
    assert kind_of(coefficients.astype(np.float32), "a.nii").name == "fods"
    lowest = lowest_amplitudes(coefficients.reshape(-1, 45))
    assert lowest["descoteaux_legacy"] < 0.1
    assert min(lowest["mrtrix"], lowest["descoteaux"]) > 0.2


def test_functions_that_are_nearly_constant_are_no_fods():
    coefficients = harmonics(TURNS[:, :, 0], 6).reshape(*GRID, -1) * np.r_[1.0, np.full(27, 0.01)]
    assert kind_of(coefficients.astype(np.float32), "a.nii").name == "series"

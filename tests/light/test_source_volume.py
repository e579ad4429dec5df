"""A volume whose cells emit: where its photons start, how exact the choice of a cell is, and where it lies."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.source_table import SUM_BITS
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import EmittingVolume, emitting_volume
from tests.light.test_physics_sources import EDGE, MIN_P, check_independent, check_round, check_uniform, starts
from tests.light.voxel_samples import grid_affine, make_domain, turned_affine

SIZES = (6.0, 4.0, 10.0)  # mm


def volume(emission, **more):
    return EmittingVolume(
        width_mm=SIZES[0], height_mm=SIZES[1], length_mm=SIZES[2], pattern=emission,
        position_mm=(EDGE / 2,) * 3, **more,
    )  # fmt: skip


def test_cells_emit_by_weight_evenly_and_to_all_sides(device):
    random = np.random.default_rng(4)
    emission = random.random((5, 3, 7)) ** 3 * (random.random((5, 3, 7)) > 0.3)
    emission[0, 0, 0] = emission[-1, -1, -1] = 0.0
    start = starts(device, volume(emission, direction=(1.0, 2.0, -2.0)), photons=200_000)
    within = (start.position / SIZES + 0.5) * emission.shape
    inner = (np.abs(within - np.round(within)) > 1e-4).all(axis=1)  # others may round into a neighbor
    cells = np.floor(within[inner]).astype(int)
    counts = np.zeros(emission.shape)
    np.add.at(counts, tuple(cells.T), 1)
    expected = emission * (counts.sum() / emission.sum())
    assert not counts[emission == 0].any()
    shining = emission > 0
    assert stats.chisquare(counts[shining], expected[shining]).pvalue > MIN_P
    for axis in range(3):
        check_uniform(within[:, axis] % 1.0, 0, 1)
    check_independent(*(within % 1.0).T, *start.direction.T)
    check_uniform(start.direction[:, 2], -1, 1)
    check_round(*start.direction[:, :2].T)


def test_the_weights_of_five_million_cells_are_right_to_a_millionth():
    """Running sums in single precision would be steps of 6e-8, a third of the weight of a mean cell."""
    random = np.random.default_rng(5)
    emission = 10.0 ** random.uniform(-1, 2, (171, 171, 171))
    problem = VoxelProblem(make_domain((3, 3, 3)), volume(emission), LightSettings())
    sums = problem.packed_sources[0].pattern.reshape(-1, 2)
    assert sums.dtype == np.float32
    whole = sums[:, 0].astype(np.int64) * 2**SUM_BITS + sums[:, 1].astype(np.int64)
    assert whole[-1] == 2 ** (2 * SUM_BITS)
    found = np.diff(whole, prepend=0) / whole[-1]
    expected = emission.ravel() / emission.sum()
    bright = emission.ravel() > 1.0
    np.testing.assert_allclose(found[bright], expected[bright], rtol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * expected.mean())


@pytest.mark.parametrize("affine", [grid_affine((1.0, 2.0, 1.5)), turned_affine()])
def test_voxels_emit_where_they_are(device, affine):
    """Also in a left-handed volume: photons of a clear medium began in the voxels that emit."""
    emission = np.zeros((12, 9, 8))
    emission[3:6, 2, 4:7] = np.arange(1, 10).reshape(3, 3)
    emission[5, 6, 4] = 20.0
    domain = make_domain(emission.shape, Medium(label=1, n=1.0), affine=affine)
    source = emitting_volume(emission, affine)
    assert source.pattern.shape == (3, 5, 3)
    everywhere = Detector(position_mm=domain.grid_to_world((0, 0, 0)), radius_mm=500.0)
    settings = LightSettings(photons=20_000, seed=3)
    found = simulate(domain, source, settings, detectors=[everywhere], device=device).detected
    began = domain.world_to_grid(found.position_mm - found.direction * found.path_mm) / domain.voxel_sizes_mm
    inner = (np.abs(began - np.round(began)) > 1e-3).all(axis=1)
    counts = np.zeros(emission.shape)
    np.add.at(counts, tuple(np.floor(began[inner]).astype(int).T), 1)
    shining = emission > 0
    assert counts.sum() == counts[shining].sum() > 19_000
    expected = emission[shining] * (counts.sum() / emission.sum())
    assert stats.chisquare(counts[shining], expected).pvalue > MIN_P


def test_a_volume_that_emits_outside_the_tissue_only_is_refused():
    labels = np.zeros((8, 8, 8), np.uint8)
    labels[:, :, 4:] = 1
    domain = make_domain(labels, Medium(label=1))
    emission = np.zeros(labels.shape)
    emission[2, 3, :4] = 1.0
    with pytest.raises(InvalidInput, match=r"No cell of the volume that emits lies in the tissue. It is at .*move it"):
        simulate(domain, emitting_volume(emission, domain.affine), LightSettings(photons=10), device="cpu")
    emission[2, 3, 4] = 1.0
    result = simulate(domain, emitting_volume(emission, domain.affine), LightSettings(photons=1000), device="cpu")
    assert result.energy.missed.value > 0.2


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (None, "give a three-dimensional array"),
        (np.ones((2, 2)), r"shape \(2, 2\); give a three-dimensional array"),
        (-np.ones((2, 2, 2)), "nowhere negative and somewhere positive"),
        (np.zeros((2, 2, 2)), "nowhere negative and somewhere positive"),
    ],
)
def test_volumes_that_are_refused(pattern, words):
    with pytest.raises(InvalidInput, match=words):
        EmittingVolume(pattern=pattern)


@pytest.mark.parametrize("emission", [np.zeros((3, 3, 3)), np.ones((3, 3))])
def test_an_emission_that_is_no_volume_or_dark_is_refused(emission):
    with pytest.raises(InvalidInput, match="zero everywhere, or no volume"):
        emitting_volume(emission, np.eye(4))


def test_the_key_of_a_problem_knows_the_emission():
    """A run of other weights is not resumed."""
    emission = np.ones((2, 3, 4))
    one = volume(emission)
    emission = emission.copy()
    emission[1, 1, 1] = 1.0 + 1e-9
    domain, settings = make_domain((3, 3, 3)), LightSettings()
    keys = {VoxelProblem(domain, s, settings).key for s in (one, dataclasses.replace(one, pattern=emission))}
    assert len(keys) == 2

"""Light that is absorbed and not scattered: closed forms to single precision; time of flight; the size of voxels."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil, Planar
from tests.light.voxel_samples import (
    CLEAR,
    CYCLIC_SIDES,
    MAX_Z,
    OPEN,
    TISSUE,
    check_z,
    layers,
    make_domain,
    sliced,
    tallies,
)

ABSORBER = Medium(label=1, mua_per_mm=0.3, n=1.0)
LIGHT_MM_PER_NS = 299.792458
EXACT = 5e-6  # relative; single precision, and a GPU's special functions


def pencil(x=1.5, y=1.5, z=0.0, direction=(0, 0, 1)):
    return Pencil(position_mm=(x, y, z), direction=direction)


def run(device, domain, source=None, *, detectors=(), **settings):
    chosen = LightSettings(**{"photons": 1600, **settings})
    return simulate(domain, source or pencil(), chosen, detectors=detectors, device=device)


def rounding(result):
    """Four standard errors of a fluence whose entries are rounded to whole quanta by chance."""
    scale = VoxelProblem(result.domain, result.source, result.settings).scale
    return MAX_Z * 0.5 / (scale * result.domain.voxel_volume_mm3 * np.sqrt(result.launched))


def mean_between(edges, mua):
    """Mean of exp(-mua x) between edges."""
    return -np.diff(np.exp(-mua * edges)) / (mua * np.diff(edges)) if mua else np.ones(len(edges) - 1)


# -- without scattering -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mua", [1e-6, 0.01, 0.3, 2.0, 6.0])
@pytest.mark.parametrize("voxel_mm", [1.0, 0.25, (0.5, 2.0, 1.5)])
def test_beer_and_lambert(device, mua, voxel_mm):
    """Fluence of a pencil beam in each voxel of its column: the mean of exp(-mua z) over an area of one voxel."""
    absorber = dataclasses.replace(ABSORBER, mua_per_mm=mua)
    domain = make_domain((3, 3, 12), absorber, voxel_mm=voxel_mm)
    sizes = domain.voxel_sizes_mm
    result = run(device, domain, pencil(*(1.5 * sizes[:2])), roulette_threshold=0.0)
    edges = np.arange(13) * sizes[2]
    expected = mean_between(edges, mua) / (sizes[0] * sizes[1])
    # a weight is what is left after a subtraction, in single precision
    single = EXACT + 4 * 2.0**-24 * np.arange(12) * np.exp(mua * sizes[2])
    assert (np.abs(result.fluence[1, 1] - expected) < single * expected + rounding(result)).all()
    assert (np.delete(result.fluence.reshape(9, 12), 4, axis=0) == 0).all()
    assert result.energy.absorbed.value == pytest.approx(-np.expm1(-mua * edges[-1]), rel=1e-5, abs=1e-8)
    assert result.energy.escaped.value == pytest.approx(np.exp(-mua * edges[-1]), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("direction", [(0, 0, -1), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)])
def test_beer_and_lambert_along_every_axis(device, direction):
    domain = make_domain((7, 7, 7), ABSORBER)
    start = 3.5 - 3.5 * np.array(direction)
    result = run(device, domain, Pencil(position_mm=start, direction=direction))
    along = result.fluence[tuple(slice(None) if d else 3 for d in direction)][:: int(sum(direction))]
    np.testing.assert_allclose(along, mean_between(np.arange(8), 0.3), rtol=EXACT)


def test_an_oblique_ray_visits_the_voxels_that_it_passes(device):
    """The tally of each voxel is the ray's path in it, from a traversal in double precision."""
    domain = make_domain((9, 8, 7), CLEAR, voxel_mm=(1.0, 0.5, 0.7))
    start, direction = np.array([0.3, 0.2, 0.1]), np.array([5.0, 2.4, 3.3])
    unit = direction / np.linalg.norm(direction)
    result = run(device, domain, Pencil(position_mm=start, direction=direction), photons=100, batches=4)
    path = np.zeros(domain.shape)
    steps = (np.arange(200_000) + 0.5) * 1e-4  # of 0.1 um
    voxels = np.floor((start + steps[:, None] * unit) / domain.voxel_sizes_mm).astype(int)
    np.add.at(path, tuple(voxels[(voxels < domain.shape).all(axis=1)].T), 1e-4)
    np.testing.assert_allclose(result.fluence * domain.voxel_volume_mm3, path, atol=2.1e-4)
    assert np.count_nonzero(result.fluence) >= np.count_nonzero(path)


def test_absorption_within_one_large_voxel(device):
    """A path much longer than the absorption length is booked in one piece or in many, with the same sum."""
    mua = 40.0
    domain = make_domain((1, 1, 1), dataclasses.replace(ABSORBER, mua_per_mm=mua), voxel_mm=10.0)
    result = run(device, domain, pencil(5.0, 5.0), roulette_threshold=0.0)
    assert result.fluence[0, 0, 0] == pytest.approx(1 / mua / 1000, rel=1e-5)
    assert result.energy.absorbed.value == pytest.approx(1.0, abs=1e-6)


def test_a_medium_without_absorption_is_the_limit_of_little(device):
    """The same photons scatter the same way, so the fluences agree to the absorption along a path."""
    domains = [make_domain((9, 9, 9), dataclasses.replace(TISSUE, mua_per_mm=mua)) for mua in (0.0, 1e-9)]
    none, little = (run(device, domain, pencil(4.5, 4.5), photons=16_000) for domain in domains)
    np.testing.assert_allclose(none.fluence, little.fluence, rtol=EXACT, atol=1e-9)
    assert none.energy.absorbed.value == 0.0
    assert little.energy.absorbed.value == pytest.approx(1e-9 * none.fluence.sum(), rel=1e-3)


def test_a_hole_is_where_photons_die(device):
    labels = np.ones((3, 3, 9), np.uint8)
    labels[:, :, 5] = 0
    result = run(device, make_domain(labels, ABSORBER))
    np.testing.assert_allclose(result.fluence[1, 1, :5], mean_between(np.arange(6), 0.3), rtol=EXACT)
    assert not result.fluence[:, :, 5:].any()
    assert result.energy.escaped.value == pytest.approx(np.exp(-1.5), rel=1e-6)


@pytest.mark.parametrize("lift", [0.125, 1.0, 100.0])
def test_light_travels_to_the_tissue(device, lift):
    """From the air beyond the grid, and through label 0 in it: the same photons as from the surface itself."""
    labels = np.ones((5, 5, 8), np.uint8)
    labels[:, :, :2] = 0
    domain = make_domain(labels, TISSUE)
    on_surface = run(device, domain, pencil(2.5, 2.5, 2.0))
    found = run(device, domain, pencil(2.5, 2.5, 2.0 - lift))
    for name, array in tallies(on_surface).items():
        if name != "key":
            np.testing.assert_array_equal(tallies(found)[name], array)


def test_light_that_passes_the_tissue_is_missed(device):
    labels = np.ones((5, 5, 5), np.uint8)
    labels[:2] = 0
    wide = Planar(position_mm=(3.5, 2.5, -1.0), width_mm=5.0, height_mm=5.0)
    result = run(device, make_domain(labels, ABSORBER), wide, photons=16_000)
    # of x from 1 to 6, 2 to 5 hit the tissue
    check_z(result.energy.missed.value - 0.4, np.sqrt(0.24 / 16_000))
    assert result.energy.total == pytest.approx(1.0, abs=1e-6)


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1.0, 1.37, 2.0])
def test_time_of_flight(device, n):
    """n L / c of ballistic light, at detectors and in the gates."""
    domain = make_domain((3, 3, 60), Medium(label=1, n=n), outside_n=n)
    transit = 60 * n / LIGHT_MM_PER_NS
    edges = (0.0, 0.5 * transit, 0.75 * transit, 2 * transit)
    end = Detector(position_mm=(1.5, 1.5, 60.0), radius_mm=0.5)
    result = run(device, domain, time_gates_ns=edges, detectors=[end])
    np.testing.assert_allclose(result.detected.time_ns, transit, rtol=1e-6)
    np.testing.assert_allclose(result.detected.path_mm, 60.0, rtol=1e-6)
    places = np.clip(60 * np.array(edges) / transit, np.arange(60)[:, None], np.arange(1, 61)[:, None])
    np.testing.assert_allclose(result.gates[1, 1], np.diff(places), atol=3e-5)


def test_gates_add_up_to_continuous_light(device):
    """The same photons, sorted by time: what they leave differs by the rounding of its parts only."""
    domain, source = make_domain((9, 9, 9)), pencil(4.5, 4.5)
    whole = run(device, domain, source, photons=4000)
    sorted_ = run(device, domain, source, photons=4000, time_gates_ns=(0.0, 0.02, 0.05, 0.3, 5.0))
    np.testing.assert_allclose(sorted_.fluence, whole.fluence, rtol=1e-5, atol=rounding(whole))
    np.testing.assert_allclose(sorted_.fluence_error, whole.fluence_error, rtol=1e-4, atol=rounding(whole))
    assert sorted_.absorbed[1].value == pytest.approx(whole.absorbed[1].value, rel=1e-6)
    assert all(gate.any() for gate in np.moveaxis(sorted_.gates, -1, 0))


@pytest.mark.parametrize("mus", [0.0, 5.0])
def test_light_decays_with_time_in_an_endless_medium(device, mus):
    """Everything cyclic: exp(-mua c t / n) is left at the time t, whatever scatters, and the rest lies in its gate."""
    mua, n, end = 0.01, 1.37, 1.0
    medium = Medium(label=1, mua_per_mm=mua, mus_per_mm=mus, g=0.3, n=n)
    edges = np.array([0.2, 0.4, 0.7, end])
    domain = make_domain((2, 2, 2), medium, voxel_mm=0.2)
    source = pencil(0.21, 0.13, 0.17, direction=(0.3, 0.5, 0.7))
    result = run(device, domain, source, faces=("cyclic",) * 6, time_gates_ns=edges, photons=480)
    left = np.exp(-mua * LIGHT_MM_PER_NS / n * edges)
    assert result.energy.truncated.value == pytest.approx(left[-1], rel=1e-4)
    assert result.energy.absorbed.value == pytest.approx(1 - left[-1], rel=1e-4)
    in_gates = (result.gates * mua * domain.voxel_volume_mm3).sum(axis=(0, 1, 2))
    np.testing.assert_allclose(in_gates, -np.diff(left), rtol=1e-4)
    assert result.absorbed[1].value == pytest.approx(left[0] - left[-1], rel=1e-4)  # without what came before


def test_light_after_the_last_gate_is_truncated(device):
    domain = make_domain((3, 3, 60), Medium(label=1, n=1.0))
    result = run(device, domain, time_gates_ns=(0.0, 30.5 / LIGHT_MM_PER_NS))
    assert result.energy.truncated.value == 1.0
    np.testing.assert_allclose(result.fluence[1, 1, :31], [*np.ones(30), 0.5], rtol=EXACT)
    assert not result.fluence[1, 1, 31:].any()


def test_light_before_the_first_gate_is_not_lost(device):
    domain = make_domain((3, 3, 20), ABSORBER)
    result = run(device, domain, time_gates_ns=(10.5 / LIGHT_MM_PER_NS, 1.0))
    assert not result.fluence[:, :, :10].any()
    expected = mean_between(np.array([10.5, *range(11, 21)]), 0.3) * [0.5, *np.ones(9)]
    np.testing.assert_allclose(result.fluence[1, 1, 10:], expected, rtol=2 * EXACT, atol=rounding(result))
    assert result.energy.absorbed.value == pytest.approx(-np.expm1(-6.0), rel=1e-5)
    assert result.absorbed[1].value == pytest.approx(np.exp(-3.15) - np.exp(-6), rel=1e-5)  # within the gates
    assert result.energy.total == pytest.approx(1.0, abs=1e-6)


# -- voxels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voxel_mm", [(1.0, 1.0, 2.0), (2.0, 1.0, 1.0), (0.5, 1.0, 2.0)])
def test_anisotropic_voxels_are_the_same_tissue(device, voxel_mm):
    """A cube of 12 mm in voxels of 1 mm and in others: absorption by layer, and the fluence, within errors."""
    slabs = sliced(dataclasses.replace(TISSUE, mua_per_mm=0.05), 3)
    fine = layers((12, 12, 12), *slabs)
    shape = tuple(int(12 / size) for size in voxel_mm)
    coarse = layers(shape, *slabs, voxel_mm=voxel_mm)
    a = run(device, fine, pencil(6.3, 5.8), photons=16_000, seed=1)
    b = run(device, coarse, pencil(6.3, 5.8), photons=16_000, seed=2)
    for label in (1, 2, 3):
        assert abs(a.absorbed[label].z_score(*b.absorbed[label])) < MAX_Z
    assert abs(a.energy.escaped.z_score(*b.energy.escaped)) < MAX_Z
    boxes = [common_boxes(result) for result in (a, b)]
    # errors within a box add up at most
    z = (boxes[0][0] - boxes[1][0]) / np.hypot(boxes[0][1], boxes[1][1])
    assert np.abs(z).max() < 5.0
    assert (z**2).mean() < 1.3


def common_boxes(result):
    """Mean fluence, and the mean of its error, in boxes of 2 mm."""
    counts = [round(2 / size) for size in result.domain.voxel_sizes_mm]
    shape = [n for count in counts for n in (6, count)]
    return [volume.reshape(shape).mean(axis=(1, 3, 5)) for volume in (result.fluence, result.fluence_error)]


def test_the_position_of_the_volume_in_the_world_changes_nothing(device):
    """A rotated, shifted affine with the source taken along: the same bits."""
    labels = np.ones((6, 7, 8), np.uint8)
    plain = make_domain(labels, voxel_mm=(1.0, 0.5, 2.0))
    turned = np.array([[0.0, -1.0, 0.0, 40.0], [0.0, 0.0, 1.0, -8.0], [-1.0, 0.0, 0.0, 16.0], [0, 0, 0, 1]])
    moved = make_domain(labels, affine=turned @ np.diag([1.0, 0.5, 2.0, 1.0]))
    results = []
    for domain in (plain, moved):
        position = domain.grid_to_world((2.25, 1.5, 0.0))
        direction = domain.direction_to_world((0, 0, 1))
        results.append(run(device, domain, Pencil(position_mm=position, direction=direction)))
    for name in ("gates", "gates_error"):
        np.testing.assert_array_equal(getattr(results[1], name), getattr(results[0], name))


def test_coefficients_voxel_by_voxel_are_those_of_labels(device):
    """Where they agree, the same photons."""
    media = (TISSUE, dataclasses.replace(TISSUE, label=2, mua_per_mm=0.3, mus_per_mm=0.7, g=-0.2, n=1.5))
    labeled = layers((7, 7, 8), *media)
    volumes = {
        name: np.where(labeled.labels == 1, *(getattr(medium, name) for medium in media))
        for name in ("mua_per_mm", "mus_per_mm")
    }
    others = [dataclasses.replace(medium, mua_per_mm=9.0, mus_per_mm=9.0) for medium in media]  # not to be used
    by_voxel = layers((7, 7, 8), *others, **volumes)
    one_by_voxel = layers((7, 7, 8), *media, mua_per_mm=volumes["mua_per_mm"])
    expected = run(device, labeled, pencil(3.5, 3.5), faces=OPEN)
    for domain in (by_voxel, one_by_voxel):
        found = run(device, domain, pencil(3.5, 3.5))
        if device == "cpu":
            for name in set(tallies(expected)) - {"key"}:
                np.testing.assert_array_equal(tallies(found)[name], tallies(expected)[name], err_msg=name)
        for label in (1, 2):  # a GPU has a build for each, which may round differently
            assert abs(found.absorbed[label].z_score(*expected.absorbed[label])) < MAX_Z


def test_coefficients_that_change_within_a_label(device):
    """Beer and Lambert through voxels each of its own mu_a."""
    mua = np.linspace(0.0, 0.5, 12)
    domain = make_domain((3, 3, 12), CLEAR, mua_per_mm=np.tile(mua, (3, 3, 1)))
    result = run(device, domain, faces=CYCLIC_SIDES)
    depth = np.concatenate([[0], np.cumsum(mua)])
    mean = np.array([np.exp(-a) * (-np.expm1(-m) / m if m else 1) for a, m in zip(depth, mua, strict=False)])
    np.testing.assert_allclose(result.fluence[1, 1], mean, rtol=EXACT)
    assert result.energy.escaped.value == pytest.approx(np.exp(-mua.sum()), rel=1e-6)

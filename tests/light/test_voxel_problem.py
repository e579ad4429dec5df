"""A simulation made ready for its backends, and what is made of their integers: scales, tables, merging, errors."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.voxels import cpu
from napari_gpubio.light.kernels.voxels.problem import (
    CYCLIC,
    EDGE,
    ENERGY_PARTS,
    ESCAPE,
    FIRST_MEDIUM,
    MIRROR,
    OUTSIDE,
    VoxelProblem,
)
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Fiber, Isotropic, Pattern, Pencil, Planar
from tests.light.voxel_samples import TISSUE, layers, make_domain, sliced, turned_affine

SHAPE = (3, 4, 5)


def problem(domain=None, source=None, detectors=(), **settings):
    return VoxelProblem(domain or make_domain(SHAPE), source or Pencil(), LightSettings(**settings), detectors)


# -- tables -----------------------------------------------------------------------------------------------------------


def test_the_grid_has_a_rim():
    labels = np.arange(60).reshape(SHAPE) % 4 * 100
    p = problem(make_domain(labels, *(Medium(label=label) for label in (100, 200, 300))))
    rows = p.rows.reshape(p.padded)
    np.testing.assert_array_equal(rows[1:-1, 1:-1, 1:-1], np.where(labels, labels // 100 + FIRST_MEDIUM - 1, OUTSIDE))
    for axis in range(3):
        for end in (0, -1):
            assert (np.take(rows, end, axis) == EDGE).all()
    assert (p.cells, p.rows.dtype, p.rows.flags.c_contiguous) == (5 * 6 * 7, np.uint8, True)


@pytest.mark.parametrize(("labels", "kept"), [(254, np.uint8), (255, np.uint16)])
def test_rows_have_as_many_bytes_as_they_need(labels, kept):
    domain = make_domain(np.arange(1, 257).clip(max=labels).reshape(4, 8, 8), *sliced(TISSUE, labels))
    p = problem(domain)
    assert (p.media_rows, p.rows.dtype, p.rows.max()) == (labels + 2, kept, labels + 1)


def test_media_in_the_order_of_labels():
    media = (Medium(label=9, mua_per_mm=0.1, n=1.3), Medium(label=3, mus_per_mm=2.0, g=-0.5, n=1.6), Medium(label=4))
    labels = np.full(SHAPE, 9)
    labels[0] = 3
    p = problem(make_domain(labels, *media, outside_n=1.33))
    assert p.label_of_row == (3, 9)
    expected = [[0, 0, 0, 1.33], [0, 0, 0, 1.33], [0, 2, -0.5, 1.6], [0.1, 0, 0, 1.3]]
    np.testing.assert_array_equal(p.media[:, :4], np.array(expected, np.float32))
    endless = 1e20  # mm; a mean free path or two absorption lengths of a medium that does not scatter or absorb
    expected = [[0.5, 1 / 1.6, 2 * endless, 0], [endless, 1 / 1.3, 20, 0]]
    np.testing.assert_allclose(p.media[FIRST_MEDIUM:, 4:], expected, rtol=1e-6)


def test_continuous_coefficients_fill_the_padded_grid():
    mua = np.arange(60.0).reshape(SHAPE) / 60
    p = problem(make_domain(SHAPE, mua_per_mm=mua))
    np.testing.assert_array_equal(p.mua.reshape(p.padded)[1:-1, 1:-1, 1:-1], mua.astype(np.float32))
    np.testing.assert_array_equal(p.mus.reshape(p.padded)[1:-1, 1:-1, 1:-1], np.float32(TISSUE.mus_per_mm))
    assert problem().mua.size == problem().mus.size == 0


def test_faces_take_three_bits_each():
    faces = ("cyclic", "cyclic", "escape", "mirror", "default", "fresnel")
    p = problem(faces=faces)
    assert [p.faces >> 3 * face & 7 for face in range(6)] == [CYCLIC, CYCLIC, ESCAPE, MIRROR, 0, 2]


def test_source_and_detectors_along_the_axes_of_the_volume():
    domain = make_domain(SHAPE, affine=turned_affine())
    source = Planar(position_mm=(11, -25, 33), direction=(1, 2, 3), width_mm=4.0, height_mm=5.0)
    ball, disc = Detector(position_mm=(12, -24, 32)), Detector(position_mm=(1, 2, 3), radius_mm=4.0, normal=(0, 3, 4))
    p = problem(domain, source, (ball, disc))
    numbers = p.packed_sources[0].numbers.astype(float)
    np.testing.assert_allclose(numbers[:3], domain.world_to_grid(source.position_mm), atol=1e-5)
    frame = numbers[3:12].reshape(3, 3)
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(domain.direction_to_world(frame), source.frame(), atol=1e-6)
    np.testing.assert_allclose(numbers[12:14], [4, 5])
    first, second = p.detector_numbers.astype(float)
    np.testing.assert_allclose(first[:3], domain.world_to_grid(ball.position_mm), atol=1e-5)
    np.testing.assert_allclose(first[3:7], [1.5**2, 0, 0, 0])
    assert first[7] > 1e20  # no plane
    np.testing.assert_allclose(second[4:7], domain.direction_to_grid((0, 0.6, 0.8)), atol=1e-6)
    np.testing.assert_allclose(second[[3, 7]], [16, 2])


def test_the_opening_of_a_fiber_is_that_of_the_medium_where_it_ends():
    fiber = Fiber(numerical_aperture=0.5, position_mm=(1.5, 2.0, 2.5))
    for source, n in ((fiber, 1.37), (dataclasses.replace(fiber, position_mm=(1.5, 2.0, -3.0)), 1.1)):
        p = problem(make_domain(SHAPE, outside_n=1.1), source)
        assert math.acos(1 - p.packed_sources[0].numbers[14]) == pytest.approx(math.asin(0.5 / n), rel=1e-5)
    wide = dataclasses.replace(fiber, numerical_aperture=1.4)
    with pytest.raises(InvalidInput, match=r"numerical aperture is 1.4, more than the refractive index 1.37 where it"):
        _ = problem(source=wide).packed_sources[0].numbers


def test_a_pattern_becomes_a_running_sum():
    image = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    (packed,) = problem(source=Pattern(pattern=image)).packed_sources
    np.testing.assert_allclose(packed.pattern, [0, 0.25, 0.25, 0.75, 0.75, 1])
    assert (packed.pattern_columns, packed.pattern[-1]) == (3, 1.0)
    np.testing.assert_array_equal(problem().packed_sources[0].pattern, [1.0])


def test_gates_are_edges_of_the_optical_path():
    p = problem(time_gates_ns=(0.5, 1.0, 5.0))
    np.testing.assert_allclose(p.gate_edges, [149.896229, 299.792458, 1498.96229], rtol=1e-7)
    assert (p.gates, p.square_gates, problem().square_gates) == (2, 3, 1)


# -- scales -----------------------------------------------------------------------------------------------------------

EXTREMES = [
    {},
    {"photons": 10**12},
    {"photons": 10**12, "batches": 2},
    {"photons": 1, "time_gates_ns": (0.0, 1e-3)},
    {"roulette_threshold": 1.0, "time_gates_ns": (0.0, 500.0)},
    {"photons": 2**31 + 1, "batches": 256},
]


@pytest.mark.parametrize("settings", EXTREMES)
@pytest.mark.parametrize("voxel_mm", [1e-3, 1.0, 50.0])
def test_tallies_cannot_overflow(settings, voxel_mm):
    """One entry fits in 32 bits, and all photons' longest paths in one voxel in 63; the same for the energies."""
    p = problem(make_domain(SHAPE, voxel_mm=voxel_mm), **settings)
    photons, longest = p.settings.photons, float(p.gate_edges[-1]) / 1.37
    heaviest = max(1.0, 10 * p.settings.roulette_threshold)
    assert p.scale * p.bound_mm < 2**32
    assert p.bound_mm >= heaviest * longest
    assert photons * heaviest * longest * p.scale < 2**63
    assert math.log2(p.scale) == int(math.log2(p.scale))  # multiplying by it rounds nothing
    assert p.batch_size * heaviest * p.energy_scale < 2**63
    assert p.energy_scale >= 2**20
    assert p.batch_size * p.scale * p.absorbed_scale < 2**62
    assert p.scale * p.absorbed_scale > 1e3 / p.batch_size


def test_a_tally_is_finer_than_its_noise():
    """By default, a quantum is less than a millionth of a voxel's edge."""
    assert 1 / problem().scale < 1e-6


def test_batches_cover_the_photons():
    for photons, batches in ((16_000, 16), (1000, 16), (5, 16), (17, 2), (1, 256)):
        p = problem(photons=photons, batches=batches)
        ranges = [p.batch_range(batch) for batch in range(p.batch_count)]
        assert (ranges[0][0], ranges[-1][1]) == (0, photons)
        assert all(a[1] == b[0] for a, b in pairwise(ranges))
        lengths = [stop - start for start, stop in ranges]
        assert set(lengths[:-1]) <= {p.batch_size}
        assert 0 < lengths[-1] <= p.batch_size
        assert p.batch_count >= min(photons, batches)


def test_the_key_knows_everything_but_the_number_of_photons():
    base = problem()
    more = VoxelProblem(base.domain, base.source, LightSettings(photons=5_000_000, max_detected=5), (), base.batch_size)
    assert more.key == base.key
    others = [
        problem(seed=2), problem(refraction=False), problem(specular=False), problem(roulette_threshold=1e-3),
        problem(halves=True), problem(exit_map=True), problem(time_gates_ns=(0.0, 4.0)), problem(faces=("mirror",) * 6),
        problem(time_gates_ns=(0.0, 1.0, 5.0)), problem(source=Pencil(position_mm=(0, 0, 0.1))),
        problem(source=Pencil(direction=(0, 1, 1))), problem(source=Isotropic()),
        problem(make_domain(SHAPE, voxel_mm=1.1)), problem(make_domain((3, 5, 4))),
        problem(make_domain(SHAPE, dataclasses.replace(TISSUE, mua_per_mm=0.021))),
        problem(make_domain(SHAPE, outside_n=1.1)), problem(make_domain(SHAPE, mua_per_mm=np.full(SHAPE, 0.02))),
        problem(detectors=(Detector(position_mm=(0, 0, 0)),)), problem(layers((3, 4, 4), *sliced(TISSUE, 2))),
    ]  # fmt: skip
    assert len({p.key for p in [base, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    "settings", [{}, {"halves": True, "exit_map": True}, {"time_gates_ns": (0.0, 1.0, 2.0, 5.0), "halves": True}]
)
@pytest.mark.parametrize("continuous", [False, True])
def test_resident_bytes_are_those_of_the_arrays(settings, continuous):
    more = {"mua_per_mm": np.full((20, 20, 20), 0.1)} if continuous else {}
    p = problem(make_domain((20, 20, 20), **more), **settings)
    run, whole = cpu.Run(p), VoxelTally.empty(p)
    arrays = [p.rows, p.mua, p.mus, p.media, run.tally, whole.sums, whole.squares, whole.exits]
    assert p.resident_bytes() == sum(array.nbytes for array in arrays) + ENERGY_PARTS * 8 * p.batch_count


def test_a_head_of_256_voxels_needs_less_than_a_gigabyte():
    """And ten time gates of it fit a card of 8 GB."""
    domain = make_domain((256, 256, 256))
    assert problem(domain).resident_bytes() < 1e9
    gates = tuple(np.linspace(0, 5, 11))
    assert problem(domain, time_gates_ns=gates).resident_bytes() < 8e9

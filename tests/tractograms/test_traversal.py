"""Which voxels, spheres and boxes fibers pass: against dense sampling, and both backends bit for bit."""

import functools

import numpy as np
import pytest

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.diffusion.regions import Box, Region, Sphere
from napari_gpubio.tractograms import Tractogram
from napari_gpubio.tractograms.kernels.traversal import cpu, gpu, problem

AFFINE = np.array([[-2.0, 0.3, 0, 40], [0.2, 2.0, 0, -12], [0, 0, 3.0, 1], [0, 0, 0, 1]])
SHAPE = (16, 18, 12)
SOLIDS = [
    Sphere(name="ball", center_mm=(25, 5, 18), radius_mm=7.0),
    Box(name="box", low_mm=(15, -5, 8), high_mm=(30, 6, 20)),
]


@functools.cache
def walks(count=150, step_mm=2.5, seed=1):
    """Random walks, some of which leave the grid, some on the planes between voxels, and odd ones at the end."""
    rng = np.random.default_rng(seed)
    middle = np.array(AFFINE[:3, :3] @ (np.array(SHAPE) / 2) + AFFINE[:3, 3])
    fibers = []
    for _ in range(count):
        steps = rng.normal(0, 0.5, (rng.integers(2, 30), 3)) + rng.normal(0, 1, 3)
        steps *= step_mm / np.linalg.norm(steps, axis=1, keepdims=True)
        fibers.append(middle + rng.normal(0, 8, 3) + np.cumsum(steps, axis=0))
    on_planes = (np.array([[3.5, 4, 5], [6.5, 4, 5], [6.5, 4.5, 5.5]])) @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    fibers += [on_planes, middle[None], np.empty((0, 3)), np.repeat(middle[None], 3, axis=0)]
    offsets = np.concatenate([[0], np.cumsum([len(fiber) for fiber in fibers])])
    return Tractogram(points=np.concatenate(fibers), offsets=offsets, affine=AFFINE, shape=SHAPE)


@functools.cache
def regions():
    rng = np.random.default_rng(2)
    found = []
    for n in range(70):
        voxels = np.zeros(SHAPE, bool)
        low = rng.integers(0, 9, 3)
        voxels[tuple(slice(a, a + rng.integers(1, 5)) for a in low)] = True
        found.append(Region(name=str(n), voxels=voxels, affine=AFFINE))
    return found


def sampled(fibers, samples=100):
    """World points along each fiber, many on each segment."""
    t = np.linspace(0, 1, samples)[:, None, None]
    for fiber in fibers:
        points = fiber.astype(float)
        yield points if len(points) < 2 else (points[:-1] * (1 - t) + points[1:] * t).reshape(-1, 3)


def bit(words, n):
    return (words >> np.uint64(n)) & np.uint64(1) != 0


@pytest.fixture(scope="module")
def found():
    """Places and answers of each group of regions, by the CPU."""
    run = cpu.Run(problem.TraversalProblem(walks()))
    return [(group.places, run.words(group)) for group in problem.groups(regions())]


def test_fibers_pass_the_regions_that_a_dense_sampling_meets(found):
    assert [len(places) for places, _ in found] == [64, 6]
    points, total, more = list(sampled(walks())), 0, 0
    for places, answers in found:
        for n, place in enumerate(places):
            expected = np.array([regions()[place].contains(p).any() for p in points])
            passed = bit(answers.passed, n)
            assert not (expected & ~passed).any()  # a walk meets all that is sampled
            total, more = total + expected.sum(), more + (passed & ~expected).sum()
    assert total > 150
    assert more <= 0.002 * total  # corners that are cut by less than a sample


def test_ends_lie_where_the_first_and_last_points_do(found):
    for places, answers in found:
        for n, place in enumerate(places):
            for ends, at in ((answers.first, 0), (answers.last, -1)):
                expected = [len(p) > 0 and regions()[place].contains(p[[at]].astype(float))[0] for p in walks()]
                np.testing.assert_array_equal(bit(ends, n), expected)


def test_coarse_fibers_pass_what_fine_ones_do(found):
    """Every third point of a straight fiber: the same voxels, by walks instead of neighbors."""
    line = np.linspace([10.0, -8, 5], [40, 18, 30], 61)
    runs = [
        cpu.Run(problem.TraversalProblem(Tractogram(points=p, offsets=[0, len(p)], affine=AFFINE, shape=SHAPE)))
        for p in (line, line[::20])
    ]
    for group in problem.groups(regions()):
        fine, coarse = (run.words(group).passed[0] for run in runs)
        assert fine == coarse
        assert fine != 0


@pytest.mark.parametrize("solid", SOLIDS, ids=lambda solid: solid.name)
def test_fibers_pass_spheres_and_boxes(solid):
    answers = cpu.Run(problem.TraversalProblem(walks())).solid(*problem.solid_of(solid))
    expected = np.array([bool(solid.contains(p).any()) for p in sampled(walks())])
    passed = answers.passed.astype(bool)
    assert expected.sum() > 10
    assert not (expected & ~passed).any()
    assert (passed & ~expected).sum() <= 1
    for ends, at in ((answers.first, 0), (answers.last, -1)):
        inside = [len(p) > 0 and bool(solid.contains(p[[at]].astype(float))[0]) for p in walks()]
        np.testing.assert_array_equal(ends.astype(bool), inside)


def test_density_counts_each_fiber_once_in_a_voxel_and_all_of_its_length():
    fibers, grid = walks(), problem.voxel_grid(SHAPE, AFFINE)
    values = np.arange(len(fibers)) - 7
    counts, lengths, sums = cpu.Run(problem.TraversalProblem(fibers)).density(grid, values)
    expected, inverse = np.zeros((2, *SHAPE), int), np.linalg.inv(AFFINE)
    for n, points in enumerate(sampled(fibers)):
        voxels = np.unique(np.floor(points @ inverse[:3, :3].T + inverse[:3, 3] + 0.5).astype(int), axis=0)
        voxels = voxels[((voxels >= 0) & (voxels < SHAPE)).all(axis=1)]
        expected[0][tuple(voxels.T)] += 1
        expected[1][tuple(voxels.T)] += values[n]
    assert (counts >= expected[0]).all()
    assert (counts - expected[0]).sum() < 0.005 * counts.sum()
    where = counts == expected[0]
    np.testing.assert_array_equal(sums[where], expected[1][where])
    assert lengths.sum() * problem.QUANTUM_MM <= fibers.lengths_mm().sum()


def test_lengths_add_up_to_those_of_the_fibers():
    fibers = walks()
    far = np.eye(4) * 4.0
    far[:3, 3], far[3, 3] = -200.0, 1.0
    _, lengths, _ = cpu.Run(problem.TraversalProblem(fibers)).density(
        problem.voxel_grid((110, 110, 110), far), np.ones(len(fibers), np.int64)
    )
    assert lengths.sum() * problem.QUANTUM_MM == pytest.approx(fibers.lengths_mm().sum(), rel=1e-6)


def check_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def check_backends(here, there):
    for group in problem.groups(regions()):
        check_same(here.words(group), there.words(group))
    for solid in SOLIDS:
        check_same(here.solid(*problem.solid_of(solid)), there.solid(*problem.solid_of(solid)))


def test_cuda_has_the_bits_of_the_cpu(fake_gpu):
    fake_gpu()
    check_backends(
        cpu.Run(problem.TraversalProblem(walks())),
        gpu.Run(problem.TraversalProblem(walks()), device=Device("cuda", (0,))),
    )


@pytest.mark.gpu
def test_a_gpu_has_the_bits_of_the_cpu(monkeypatch):
    here, there = (
        cpu.Run(problem.TraversalProblem(walks(4000)), device=CPU),
        gpu.Run(problem.TraversalProblem(walks(4000)), device=Device("cuda", (0,))),
    )
    check_backends(here, there)
    grid, values = problem.voxel_grid(SHAPE, AFFINE), np.arange(len(walks(4000))) - 100
    check_same(here.density(grid, values), there.density(grid, values))
    monkeypatch.setattr(gpu, "_MAX_VISITS", 5000)
    check_same(here.density(grid, values), there.density(grid, values))

"""The CUDA kernels of the flow against their CPU backend: through g++ with their host code, and on a real GPU."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.diffusion.regions import Region
from napari_gpubio.fibers.flow import FlowSettings, flow
from napari_gpubio.fibers.flow.gates import nodes_through
from napari_gpubio.fibers.flow.regions import place_regions
from napari_gpubio.fibers.flow.run import transport_problem
from napari_gpubio.fibers.kernels.transport import cpu, gpu
from napari_gpubio.fibers.kernels.transport.problem import TransportProblem
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.fibers.flow.flow_samples import cross, ends_of_cross, field_of, grid
from tests.runs import check_same_methods, check_threads_change_nothing

pytestmark = pytest.mark.daily

SETTINGS = FlowSettings(max_length_mm=27.0)
GPUS = Device("cuda", (0, 1))


def noisy(shape=(10, 9, 8), seed=0):
    """Fixels of any direction, none to three a voxel, in an oblique grid of unequal voxels."""
    random = np.random.default_rng(seed)
    affine, _ = grid(shape)
    affine[:3, :3] = np.array([[2.0, 0.2, 0.0], [-0.1, 2.2, 0.1], [0.0, 0.1, 2.5]])
    directions = random.normal(size=(*shape, 2, 3)) + np.array([0.0, 0.0, 3.0])
    mask = random.random(shape) < 0.9
    return field_of([(mask, directions[..., 0, :]), (random.random(shape) < 0.4, directions[..., 1, ::-1])], affine)


def problem_of(field, regions, settings=SETTINGS):
    return transport_problem(type(field)(**vars_of(field)), regions, settings)[0]


def walled(field, regions):
    """Problems of some regions: a voxel in ten is closed, and two gates are open or shut."""
    fixels, random = type(field)(**vars_of(field)), np.random.default_rng(2)
    gates = [
        Region(name=name, voxels=random.random(field.shape) < share, affine=field.affine)
        for name, share in (("gate", 0.1), ("other", 0.2), ("closed", 0.1))
    ]
    closed = gates.pop()
    ways = nodes_through(fixels, SETTINGS, gates, [closed])
    placed = place_regions(fixels, ways[0][1], regions, SETTINGS.step_voxels)
    return [TransportProblem(nodes, SETTINGS, placed.members, fixels.cache) for _, nodes in ways]


def vars_of(field):
    return {name: getattr(field, name) for name in ("counts", "directions", "amplitudes", "affine")}


def regions_of(field, count=35):
    """Some voxels each, of which the last have many, and which overlap."""
    random, there = np.random.default_rng(1), np.argwhere(field.mask)
    regions = []
    for n in range(count):
        inside = np.zeros(field.shape, bool)
        inside[tuple(random.permutation(there)[: 3 + 5 * n].T)] = True
        regions.append(Region(name=f"r{n}", voxels=inside, affine=field.affine))
    return regions


def done(problem, device):
    """All that a problem finds, joined."""
    with Runs(problem, device) as runs:
        list(runs.chunks())
        parts = sorted(runs.take(), key=lambda part: part.start)
        return parts, runs.each[0].ended


def test_backends_have_the_same_methods_and_kernels_read_what_they_are_given():
    check_same_methods(cpu, gpu)
    source = kernels.source(gpu.SOURCE)
    for name, layout in (
        ("FixelArrays", gpu.FIXEL_ARRAYS),
        ("MassArrays", gpu.MASS_ARRAYS),
        ("ArrivalArrays", gpu.ARRIVAL_ARRAYS),
    ):
        assert struct_in(source, name) == layout


@pytest.mark.parametrize("order", [loader.NATURAL, 5])
def test_the_flow_by_cuda_has_the_bits_of_the_cpu(fake_gpu, order):
    field = noisy()
    regions = regions_of(field)
    expected, expected_ended = done(problem_of(field, regions), CPU)
    fake_gpu()
    with loader.thread_order(order):
        (found,), ended = done(problem_of(field, regions), Device("cuda", (0,)))
    np.testing.assert_array_equal(ended.shares, expected_ended.shares)
    np.testing.assert_array_equal(ended.why, expected_ended.why)
    assert set(ended.why) == {0, 1, 2}
    np.testing.assert_array_equal(found.masses, np.concatenate([part.masses for part in expected]))
    np.testing.assert_array_equal(found.nodes, np.concatenate([part.nodes for part in expected]))
    assert len(found.nodes) > 1000
    for name in ("arrivals", "rest"):
        np.testing.assert_allclose(
            getattr(found, name), np.concatenate([getattr(part, name) for part in expected]), rtol=1e-10, atol=1e-14
        )
    assert found.rest.max() > 0
    lists = found.offsets, found.nodes, found.masses
    overlaps = cpu.overlaps_of(lists, problem_of(field, regions).nodes.strengths)
    np.testing.assert_allclose(found.overlaps, overlaps, rtol=1e-6)


def test_walls_by_cuda_have_the_bits_of_the_cpu(fake_gpu):
    field = noisy()
    regions = regions_of(field, 5)
    expected = [done(problem, CPU) for problem in walled(field, regions)]
    fake_gpu()
    visits = set()
    for problem, (parts, expected_ended) in zip(walled(field, regions), expected, strict=True):
        (found,), ended = done(problem, Device("cuda", (0,)))
        np.testing.assert_array_equal(ended.shares, expected_ended.shares)
        np.testing.assert_array_equal(ended.why, expected_ended.why)
        np.testing.assert_array_equal(found.masses, np.concatenate([part.masses for part in parts]))
        np.testing.assert_array_equal(found.nodes, np.concatenate([part.nodes for part in parts]))
        visits.add(len(found.nodes))
    assert len(visits) == 4  # all, without the one gate, the other, and both
    assert min(visits) > 200
    assert set(ended.why) == {0, 1, 2, 3}


def test_two_gpus_find_what_one_finds(fake_gpu):
    field = noisy()
    regions = regions_of(field)
    fake_gpu(count=2)
    one = flow(type(field)(**vars_of(field)), regions, SETTINGS, device=Device("cuda", (0,)))
    two = flow(type(field)(**vars_of(field)), regions, SETTINGS, device=GPUS)
    np.testing.assert_array_equal(one.masses, two.masses)
    np.testing.assert_array_equal(one.arrived, two.arrived)
    np.testing.assert_allclose(one.overlaps, two.overlaps, rtol=1e-6)


def test_threads_change_nothing(request):
    field = cross(60)
    regions = ends_of_cross(60)

    def run():
        return flow(type(field)(**vars_of(field)), regions, device="cpu")

    def check_same(a, b):
        for name in ("masses", "visited", "overlaps", "arrived", "rest"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))

    check_threads_change_nothing(request, run, check_same)


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_real_gpu_finds_what_the_cpu_finds_and_twice_the_same():
    field = noisy((24, 22, 20))
    regions = regions_of(field)
    expected = flow(type(field)(**vars_of(field)), regions, SETTINGS, device="cpu")
    one, other = (flow(type(field)(**vars_of(field)), regions, SETTINGS, device="cuda") for _ in range(2))
    for name in ("masses", "visited", "overlaps", "arrived", "rest"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.arrived, expected.arrived, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(one.matrix(), expected.matrix(), rtol=1e-4, atol=1e-7)


@pytest.mark.gpu
def test_a_real_gpu_finds_the_same_with_walls_and_gates():
    field = noisy((24, 22, 20))
    regions, gates = regions_of(field), {"include": [slab(field, 5)], "exclude": [slab(field, 15, 12)]}
    expected = flow(type(field)(**vars_of(field)), regions, SETTINGS, **gates, device="cpu")
    found = flow(type(field)(**vars_of(field)), regions, SETTINGS, **gates, device="cuda")
    np.testing.assert_allclose(found.arrived, expected.arrived, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.matrix(), expected.matrix(), rtol=1e-3, atol=1e-5)


def slab(field, first, below=100):
    i, j, _ = np.indices(field.shape)
    return Region(name=f"slab {first}", voxels=(i >= first) & (i < first + 2) & (j < below), affine=field.affine)

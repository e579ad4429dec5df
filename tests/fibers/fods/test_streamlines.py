"""Streamlines in FODs: along fibers whose course is known, and the same on every device."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion import find_peaks, fit_tensors
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.fibers import IFOD2, Hamiltonian, track
from napari_gpubio.fibers.directions import FromFod, Principal
from napari_gpubio.fibers.kernels.fibers.gpu import LAYOUTS
from napari_gpubio.fibers.kernels.streamlines import cpu, gpu
from napari_gpubio.fibers.kernels.streamlines.problem import StreamlineProblem
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import METHODS
from napari_gpubio.tractograms import StopReason
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.diffusion.fods.samples import straight_bundles
from tests.runs import check_same_methods

OBLIQUE = np.array([[1.4, 0.3, 0.0, -20.0], [-0.4, 1.2, 0.2, 5.0], [0.1, -0.2, 1.6, 3.0], [0.0, 0.0, 0.0, 1.0]])
ALL_METHODS = pytest.mark.parametrize("method", ["ifod2", "ifod1", "sd_stream"])


def middle_of(field):
    return field.affine[:3, :3] @ ((np.array(field.shape) - 1) / 2) + field.affine[:3, 3]


def settings(method, **changes):
    step = {"ifod2": 0.5, "ifod1": 0.2, "sd_stream": 0.2}[method]
    return METHODS[method](**{"step_mm": step, "min_length_mm": 0.0, "max_length_mm": 250.0, **changes})


def many(count=1, kind="fod"):
    return Principal() if kind == "principal" else FromFod(count=count)


@ALL_METHODS
@pytest.mark.parametrize("affine", [np.eye(4), OBLIQUE, np.diag([-1.5, 1.5, 1.5, 1.0])], ids=["eye", "oblique", "LAS"])
def test_fibers_follow_a_straight_bundle_whatever_the_grid(method, affine, device):
    direction = np.array([1.0, 0.6, -0.3])
    field = straight_bundles([direction], affine=affine)
    fibers = track(field, [middle_of(field)], many(40, "principal"), settings(method), device=device)
    assert len(fibers) == 1
    ends = fibers[0][-1] - fibers[0][0]
    assert np.linalg.norm(ends) > 15
    cosine = abs(ends @ direction) / np.linalg.norm(ends) / np.linalg.norm(direction)
    assert cosine > (np.cos(np.deg2rad(0.5)) if method == "sd_stream" else np.cos(np.deg2rad(12)))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_fiber_that_is_exactly_on_its_peak_goes_on(precision, device):
    field = straight_bundles([(1, 0, 0)])
    start = middle_of(field) - [10.0, 0.5, 0.5]
    chosen = settings("sd_stream", precision=precision)
    (fiber,) = track(field, [start], many(1, "principal"), chosen, device=device)
    assert np.ptp(fiber[:, 0]) > 20


@ALL_METHODS
def test_a_click_in_a_crossing_finds_both_bundles(method, device):
    field = straight_bundles([(1, 0, 0), (0, 1, 0)])
    chosen = settings(method, fod_stop=0.4)  # side lobes of a series that is cut off are lower
    fibers = track(field, [middle_of(field)], many(60), chosen, device=device)
    ends = np.array([fiber[-1] - fiber[0] for fiber in fibers])
    along = np.abs(ends).argmax(axis=1)
    assert set(along) == {0, 1}
    assert 15 < np.count_nonzero(along == 0) < 45
    assert (np.sort(np.abs(ends), axis=1)[:, 1] < 5).all()


def test_points_and_fibers_have_amplitudes_and_reasons(device):
    field = straight_bundles([(1, 0, 0)])
    fibers = track(field, [middle_of(field)], many(5), settings("ifod2"), device=device)
    assert set(fibers.per_point) == {"fod"}
    assert {"length_mm", "mean_fod", "stop_reason", "stop_reason_back", "seed"} == set(fibers.per_fiber)
    assert 0.3 < fibers.per_fiber["mean_fod"].min() <= fibers.per_point["fod"].max() < 1.01
    assert (fibers.per_point["fod"] >= 0.1).all()
    np.testing.assert_allclose(fibers.lengths_mm(), fibers.per_fiber["length_mm"], rtol=1e-5)
    assert set(fibers.per_fiber["stop_reason"]) <= {StopReason.VOLUME, StopReason.MASK, StopReason.FOD}


@pytest.mark.parametrize(("angle", "directions"), [(15.0, 7), (45.0, 7), (60.0, 19), (90.0, 19)])
def test_the_grid_of_ifod2_leaves_no_gap_in_the_cone(angle, directions):
    field = straight_bundles([(1, 0, 0)])
    launch = Launch(middle_of(field)[np.newaxis], np.array([[1.0, 0.0, 0.0]]), many(1, "fod"))
    grid = StreamlineProblem(field, launch, settings("ifod2", max_angle_deg=angle)).scalars.grid
    edge = np.deg2rad(angle)
    rng = np.random.default_rng(0)
    drawn = np.stack([np.arccos(rng.uniform(np.cos(edge), 1, 20_000)), rng.uniform(0, 2 * np.pi, 20_000)], axis=1)
    a, b = (np.stack([np.sin(t) * np.cos(p), np.sin(t) * np.sin(p), np.cos(t)], axis=1) for t, p in (drawn.T, grid.T))
    away = np.arccos(np.clip((a @ b.T).max(axis=1), -1, 1)).max()
    assert len(grid) == directions
    assert away < (0.51 if directions == 7 else 0.33) * edge


def test_no_point_of_an_arc_is_outside_the_mask(device):
    """In a narrow cone arcs are straight, so that the points between their ends are known."""
    field = straight_bundles([(1, 0.4, 0.2)])
    holes = np.random.default_rng(0).random(field.shape) < 0.03
    field = dataclasses.replace(field, mask=field.mask & ~holes)
    seeds = middle_of(field) + np.random.default_rng(1).normal(size=(300, 3)) * 3
    chosen = settings("ifod2", step_mm=0.9, max_angle_deg=0.5, fod_stop=0.02)
    fibers = track(field, seeds, many(1), chosen, device=device)
    first = np.delete(np.arange(len(fibers.points)), fibers.offsets[1:] - 1)
    thirds = np.arange(1, 4)[:, np.newaxis, np.newaxis] / 3
    between = fibers.points[first] + thirds * (fibers.points[first + 1] - fibers.points[first])
    voxels = np.floor(apply_affine(np.linalg.inv(field.affine), between.reshape(-1, 3)) + 0.5).astype(int)
    assert len(fibers) > 100
    assert (fibers.per_fiber["stop_reason"] == StopReason.MASK).any()
    assert field.mask[tuple(voxels.T)].all()


def test_the_seed_decides_and_neither_chunks_nor_threads(device, in_chunks_of):
    field = straight_bundles([(1, 0, 0), (0, 1, 0)])
    seeds = middle_of(field) + np.random.default_rng(0).normal(size=(20, 3))
    once = track(field, seeds, many(3), settings("ifod2"), device=device)
    other = track(field, seeds, many(3), settings("ifod2", random_seed=1), device=device)
    in_chunks_of(7)
    again = track(field, seeds, many(3), settings("ifod2"), device=device)
    np.testing.assert_array_equal(again.points, once.points)
    assert not np.array_equal(other.points[:50], once.points[:50])


def test_fibers_end_at_a_target(device):
    field = straight_bundles([(1, 0, 0), (0, 1, 0)])
    target = Sphere(name="end", center_mm=(20.0, 11.5, 11.5), radius_mm=3.0)
    fibers = track(
        field, [middle_of(field)], many(40), settings("ifod2"), target=target, only_target=True, device=device
    )
    assert 5 < len(fibers) < 35
    reasons = np.stack([fibers.per_fiber["stop_reason"], fibers.per_fiber["stop_reason_back"]])
    assert (reasons == StopReason.TARGET).any(axis=0).all()


def test_methods_of_the_other_kind_of_field_are_refused():
    field = straight_bundles([(1, 0, 0)])
    with pytest.raises(InvalidInput, match=r"'hamiltonian', which is for tensors; in FODs choose ifod2"):
        track(field, [middle_of(field)], method=Hamiltonian())
    with pytest.raises(InvalidInput, match=r"'ifod2', which is for FODs; in tensors choose hamiltonian"):
        track(fit_tensors(load_brain_phantom()), [(0, 0, 0)], method=IFOD2())
    with pytest.raises(InvalidInput, match="no FODs"):
        track(field, [(0.0, 0.0, 0.0)])
    slice_of_it = dataclasses.replace(field, coefficients=field.coefficients[:, :, 9:10], mask=field.mask[:, :, 9:10])
    with pytest.raises(InvalidInput, match=r"24 x 24 x 1 voxels, and fibers cannot run in a single slice"):
        track(slice_of_it, [(0.0, 0.0, 0.0)])


# -- backends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [kind for kind, one in METHODS.items() if one.works_in != "tensors"])
def test_the_maximum_length_is_that_of_the_whole_fiber(method, device):
    """Where one way ends early the other one takes what is left; a fiber that is cut is a piece of the whole one."""
    field = straight_bundles([(1, 0.1, 0)])
    field = find_peaks(field, device="cpu") if METHODS[method].works_in == "fixels" else field
    seeds = np.array([middle_of(field), middle_of(field) - [9.0, 1.0, 0.0]])
    usual = dataclasses.replace(METHODS[method](), min_length_mm=0.0, fod_stop=0.02)
    step = usual.lengths((1, 1, 1)).step_mm
    limit = 12.0 + 0.5 * step
    whole, cut = (
        track(field, seeds, many(3, "principal"), dataclasses.replace(usual, max_length_mm=length), device=device)
        for length in (100.0, limit)
    )
    assert len(whole) == len(cut) == 2
    assert whole.per_fiber["length_mm"].min() > limit
    lengths = cut.per_fiber["length_mm"]
    assert (limit - 2 * step < lengths).all()
    assert (lengths <= limit).all()
    assert cut.per_fiber["stop_reason"][0] == cut.per_fiber["stop_reason_back"][0] == StopReason.LENGTH
    for fiber, longer in zip(cut, whole, strict=True):
        first = int(np.flatnonzero((longer == fiber[0]).all(axis=1))[0])
        np.testing.assert_array_equal(fiber, longer[first : first + len(fiber)])


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_structs_are_laid_out_as_the_kernels_read_them(real):
    text = kernels.source(gpu.SOURCE)
    for name, layout in {**gpu.layouts(real), **LAYOUTS}.items():
        assert struct_in(text, name, real=real) == layout
    check_same_methods(cpu, gpu)


@pytest.mark.parametrize(
    ("method", "changes", "order"),
    [
        ("sd_stream", {}, loader.NATURAL),
        ("ifod1", {"step_mm": 0.5, "points_every": 3}, 5),
        ("ifod2", {"max_length_mm": 8.0}, loader.NATURAL),
        ("ifod2", {"step_mm": 1.0, "precision": "double", "trials": 40}, 5),
    ],
)
def test_streamlines_by_cuda_have_the_bits_of_the_cpu(fake_gpu, in_chunks_of, method, changes, order):
    field = straight_bundles([(1, 0.2, 0), (0.1, 1, 0.4)], shape=(14, 14, 14), lmax=6)
    seeds = middle_of(field) + np.random.default_rng(1).normal(size=(4, 3)) * 2
    seeds[3] = (0.0, 0.0, 0.0)
    chosen, directions = settings(method, **changes), many(1 if method == "sd_stream" else 2)
    expected = track(field, seeds, directions, chosen, device="cpu")
    assert len(expected) >= 3
    fake_gpu(count=2)
    in_chunks_of(3)
    with loader.thread_order(order):
        found = track(field, seeds, directions, chosen, device="cuda:0,1")
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.points, expected.points)
    for name, values in expected.per_fiber.items():
        np.testing.assert_array_equal(found.per_fiber[name], values)
    np.testing.assert_array_equal(found.per_point["fod"], expected.per_point["fod"])

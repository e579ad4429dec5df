"""Tracking as a whole: chunks, stop, previews, parameters, files; and what cannot be tracked is refused."""

import dataclasses
import functools
import json
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.files import _value
from napari_gpubio.core.settings import plain
from napari_gpubio.diffusion import TensorField, fit_tensors
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.fibers import Cone, Hamiltonian, Principal, track, track_steps, track_to_file
from napari_gpubio.fibers import run as tracking
from napari_gpubio.fibers.checks import LENGTH_CHECK
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.run import track_to_file_steps
from napari_gpubio.fibers.seeds import ball
from napari_gpubio.fibers.settings import METHODS, Method, as_method
from napari_gpubio.tractograms import Tractogram
from napari_gpubio.tractograms.io import trx
from napari_gpubio.tractograms.io.tractograms import read_tractogram
from tests import runs
from tests.tractograms.tractogram_samples import check_same_fibers

SEEDS = np.concatenate([ball((0.0, -5.0, 22.0), 4.0, 6), ball((-22.0, -18.0, 12.0), 4.0, 6)])
FAN = Cone(count=20, half_angle_deg=60.0)
SETTINGS = Hamiltonian(max_length_mm=60.0, fa_stop=0.3, min_length_mm=15.0)  # a tenth of the fibers is shorter
ALL = len(SEEDS) * FAN.count
NUMBERS = {"length_mm", "riemannian_length_mm", "drift", "mean_fa", "alignment", "alignment_fa", "speed", "seed"}
NUMBERS |= {"stop_reason", "stop_reason_back"}


@functools.cache
def brain():
    return fit_tensors(load_brain_phantom(), device="cpu")


@functools.cache
def whole():
    return track(brain(), SEEDS, FAN, SETTINGS, device="cpu")


# -- the result -------------------------------------------------------------------------------------------------------


def test_a_tractogram_has_the_promised_numbers():
    fibers = whole()
    assert 50 < len(fibers) < ALL
    assert (set(fibers.per_fiber), set(fibers.per_point)) == (NUMBERS, {"fa"})
    assert (fibers.shape, fibers.complete) == (brain().shape, True)
    np.testing.assert_array_equal(fibers.affine, brain().affine)
    for values in (fibers.points, *fibers.per_fiber.values(), *fibers.per_point.values()):
        assert np.isfinite(values).all()
    assert (np.diff(fibers.per_fiber["seed"]) >= 0).all()
    for fiber, seed in zip(fibers, fibers.per_fiber["seed"], strict=True):
        assert np.linalg.norm(fiber - SEEDS[seed], axis=1).min() < 1e-4


def test_every_fiber_that_is_kept_is_long_enough():
    def kept(shortest):
        return track(brain(), SEEDS, FAN, dataclasses.replace(SETTINGS, min_length_mm=shortest), device="cpu")

    everything, none = kept(0.0), kept(1000.0)
    assert (everything.counts >= 2).all()
    for shortest in (15.0, 30.0):
        assert 0 < len(kept(shortest)) < len(everything)
        check_same_fibers(kept(shortest), everything.select(everything.per_fiber["length_mm"] >= shortest))
    assert (len(none), none.complete) == (0, True)
    assert (set(none.per_fiber), set(none.per_point)) == (NUMBERS, {"fa"})


def test_defaults_are_a_fan_of_geodesics():
    fibers = track(brain(), [(0.0, -5.0, 22.0)], device="cpu")
    assert fibers.parameters["directions"] == plain(Cone())
    assert fibers.parameters["tracking"] == plain(Hamiltonian())
    assert 100 < len(fibers) <= 1000


def test_parameters_hold_everything_needed_to_do_it_again():
    stored = json.loads(json.dumps(dict(whole().parameters)))
    assert stored["software"].startswith("napari-gpubio ")
    assert (stored["seed_count"], stored["launched"]) == (len(SEEDS), ALL)
    assert stored["device"].startswith("cpu")
    settings = (_value(stored[name], kind, name) for name, kind in (("directions", Directions), ("tracking", Method)))
    again = track(brain(), stored["seeds_mm"], *settings, device="cpu")
    assert len(again) == len(whole())
    np.testing.assert_allclose(again.lengths_mm().mean(), whole().lengths_mm().mean(), rtol=1e-3)  # seeds are rounded


def test_parameters_of_many_seeds_stay_small():
    seeds = ball((0.0, -5.0, 22.0), 3.0, 3000)
    fibers = track(brain(), seeds, Principal(), Hamiltonian(max_length_mm=5.0), device="cpu")
    assert fibers.parameters["seed_count"] == 3000
    assert len(json.dumps(dict(fibers.parameters))) < 100_000


# -- chunks, stop, previews -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 100, 10**6])
def test_any_cut_gives_the_same_fibers(in_chunks_of, count):
    in_chunks_of(count)
    check_same_fibers(track(brain(), SEEDS, FAN, SETTINGS, device="cpu"), whole())


def test_previews_add_up_to_the_result(in_chunks_of):
    in_chunks_of(23)
    steps, result = runs.finished(track_steps(brain(), SEEDS, FAN, SETTINGS, device="cpu"))
    assert [step.done for step in steps] == [*range(23, ALL, 23), ALL]
    assert {step.total for step in steps} == {ALL}
    check_same_fibers(Tractogram.join([part for step in steps for part in step.preview]), result)
    check_same_fibers(result, whole())


def test_progress_is_reported(in_chunks_of):
    in_chunks_of(60)
    steps = []
    track(brain(), SEEDS, FAN, SETTINGS, device="cpu", progress=steps.append)
    assert [step.fraction for step in steps] == [0.25, 0.5, 0.75, 1.0]
    assert steps[0].message == "tracing fibers"


def stopped(in_chunks_of, after, **more):
    """Track in chunks of 50 fibers and stop after so many chunks."""
    in_chunks_of(50)
    stop = threading.Event()
    steps = track_steps(brain(), SEEDS, FAN, SETTINGS, device="cpu", stop=stop, **more)
    return runs.stopped(steps, stop, after, rest=0)


def test_a_stopped_run_keeps_what_was_done(in_chunks_of):
    part = stopped(in_chunks_of, 2)
    assert not part.complete
    assert part.parameters["launched"] == 100
    assert 0 < len(part) < len(whole())
    check_same_fibers(part, whole().select(np.arange(len(part))))
    assert len(part) == (whole().per_fiber["seed"] < 100 // FAN.count).sum()


def test_a_run_stopped_at_once_is_an_empty_tractogram(in_chunks_of):
    part = stopped(in_chunks_of, 0)
    assert (len(part), part.complete, part.shape) == (0, False, brain().shape)
    assert part.parameters["launched"] == 0
    assert (set(part.per_fiber), set(part.per_point)) == (NUMBERS, {"fa"})
    check_same_fibers(Tractogram.join([part, whole()]), whole())


def test_a_stop_after_the_end_changes_nothing(in_chunks_of):
    in_chunks_of(ALL)
    stop = threading.Event()
    steps = track_steps(brain(), SEEDS, FAN, SETTINGS, device="cpu", stop=stop)
    assert next(steps).done == ALL
    stop.set()
    assert runs.finished(steps)[1].complete


def test_two_runs_at_once_do_not_disturb_each_other(in_chunks_of):
    in_chunks_of(11)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(track, brain(), SEEDS, FAN, SETTINGS, device="cpu") for _ in range(2)]
    for run in runs:
        check_same_fibers(run.result(), whole())


# -- to a file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".trx", ".tck", ".trk"])
@pytest.mark.parametrize("count", [13, 10**6])
def test_fibers_written_as_they_come_are_those_of_a_run(tmp_path, in_chunks_of, suffix, count):
    in_chunks_of(count)
    path, steps = tmp_path / f"fibers{suffix}", []
    written = track_to_file(path, brain(), SEEDS, FAN, SETTINGS, device="cpu", progress=steps.append)
    assert written == len(whole())
    assert steps[-1].done == steps[-1].total == ALL
    found = read_tractogram(path)
    np.testing.assert_array_equal(found.offsets, whole().offsets)
    np.testing.assert_allclose(found.points, whole().points, atol=0 if suffix == ".trx" else 1e-4)
    if suffix != ".tck":
        assert set(found.per_fiber) == NUMBERS
        np.testing.assert_array_equal(found.per_fiber["drift"], whole().per_fiber["drift"])
        np.testing.assert_array_equal(found.per_point["fa"], whole().per_point["fa"])
    if suffix != ".trk":
        assert found.parameters["tracking"] == plain(SETTINGS)


@pytest.mark.parametrize("suffix", [".trx", ".tck", ".trk"])
def test_no_more_than_two_blocks_are_held(tmp_path, monkeypatch, in_chunks_of, suffix):
    in_chunks_of(10)
    held, most, finish = list[weakref.ref](), list[int](), tracking._piece

    def piece(problem, part):
        made = finish(problem, part)
        held.append(weakref.ref(made.fibers))
        most.append(sum(one() is not None for one in held))
        return made

    monkeypatch.setattr(tracking, "_piece", piece)
    track_to_file(tmp_path / f"fibers{suffix}", brain(), SEEDS, FAN, SETTINGS, device="cpu")
    assert len(held) == ALL // 10
    assert max(most) <= 2


@pytest.mark.parametrize("suffix", [".trx", ".tck", ".trk"])
def test_four_times_the_fibers_take_no_more_memory(tmp_path, monkeypatch, in_chunks_of, suffix):
    in_chunks_of(10)
    monkeypatch.setattr(trx, "BLOCK", 1 << 12)  # that is copied at a time
    peaks = []
    for repeats in (1, 1, 4):  # the first one fills caches
        tracemalloc.start()
        track_to_file(tmp_path / f"fibers{suffix}", brain(), np.tile(SEEDS, (repeats, 1)), FAN, SETTINGS, device="cpu")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    more = 3 * whole().points.nbytes  # without their numbers
    assert peaks[2] - peaks[1] < 0.3 * more


def test_a_file_of_a_run_that_was_stopped_says_so(tmp_path, in_chunks_of):
    in_chunks_of(10)
    stop, path = threading.Event(), tmp_path / "fibers.tck"
    steps = track_to_file_steps(str(path), brain(), SEEDS, FAN, SETTINGS, device="cpu", stop=stop)
    written = runs.stopped(steps, stop, after=3)
    found = read_tractogram(path)
    assert 0 < written == len(found) < len(whole())
    assert not found.complete
    np.testing.assert_array_equal(found.points, whole().points[: len(found.points)])


def test_a_run_that_fails_leaves_no_file(tmp_path, in_chunks_of):
    in_chunks_of(50)

    def fail(step):
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="fire"):
        track_to_file(str(tmp_path / "fibers.trx"), brain(), SEEDS, FAN, SETTINGS, device="cpu", progress=fail)
    assert list(tmp_path.iterdir()) == []


# -- what cannot be tracked -------------------------------------------------------------------------------------------


def small(shape=(12, 12, 12), **more):
    tensors = np.zeros((*shape, 6))
    tensors[..., :3] = 1.7e-3, 0.3e-3, 0.3e-3
    return TensorField(**{"tensors": tensors, "mask": np.ones(shape, bool), "affine": np.eye(4), **more})


AHEAD = Principal()
SHORT = Hamiltonian(max_length_mm=16.0, min_length_mm=0.0)


@pytest.mark.parametrize("method", ["hamiltonian", "vanaart2011", "eudx"])
@pytest.mark.parametrize(
    ("shape", "ends"), [((4, 4, 4), (0, 3)), ((3, 12, 12), (-0.5, 2.5)), ((6, 6, 1), (0, 5)), ((1, 2, 9), (-0.5, 0.5))]
)
def test_volumes_of_any_thickness_are_tracked_to_their_ends(method, shape, ends):
    """The outermost centers, or the faces of the outermost voxels of a volume that is thinner than four."""
    settings = dataclasses.replace(as_method(METHODS[method], SHORT), step_mm=0.1)
    seed = (np.array(shape) - 1) / 2 + 0.1
    fibers = track(small(shape), [seed], AHEAD, settings, device="cpu")
    assert len(fibers) == 1
    np.testing.assert_allclose(np.sort(fibers[0][[0, -1], 0]), ends, atol=0.11)
    np.testing.assert_allclose(fibers.points[:, 1:], np.tile(seed[1:], (len(fibers.points), 1)), atol=1e-5)
    assert fibers.shape == shape


@pytest.fixture(params=["hamiltonian", "vanaart2011", "eudx"])
def traced(request):
    """A function that tracks one seed through a field by each method in turn."""
    settings = as_method(METHODS[request.param], SHORT)
    return lambda field: track(field, [(5, 5, 5)], AHEAD, settings, device="cpu")


@pytest.mark.parametrize(("where", "value"), [(..., np.nan), ((7, 5, 5, 3), np.nan), ((7, 5, 5, 3), np.inf)], ids=str)
def test_tensors_that_are_not_finite_are_refused(traced, where, value):
    field = small()
    field.tensors[where] = value
    with pytest.raises(InvalidInput, match="finite"):
        traced(field)


def test_tensors_outside_the_mask_may_be_anything(traced):
    plain, odd = small(), small()
    plain.mask[9:] = odd.mask[9:] = False
    odd.tensors[9:] = np.nan
    found = traced(odd)
    assert len(found) == 1
    check_same_fibers(found, traced(plain))


def test_a_seed_without_a_tensor_is_refused(traced):
    with pytest.raises(InvalidInput, match="background"):
        traced(small(mask=np.zeros((12, 12, 12), bool)))
    with pytest.raises(InvalidInput):  # all zero inside the mask, as in files that hold no mask
        traced(small(tensors=np.zeros((12, 12, 12, 6))))


def test_the_check_of_the_maximum_length_passes():
    longest, shortest = LENGTH_CHECK.run(CPU)
    assert longest.passed
    assert 0 < shortest.error < shortest.tolerance


def test_singular_tensors_give_finite_fibers(traced):
    """Eigenvalues of zero are raised to the floor."""
    field = small()
    field.tensors[..., 1:3] = 0.0
    fibers = traced(field)
    assert len(fibers) == 1
    assert np.isfinite(fibers.points).all()
    np.testing.assert_allclose(np.sort(fibers[0][[0, -1], 0]), [0, 11], atol=0.51)


def test_seeds_partly_outside_are_left_out():
    inside = SEEDS[[0, 3, 8]]
    mixed = np.array([(900, 0, 0), inside[0], (0, 0, -500), inside[1], (0, 71, 76), inside[2]])
    found = track(brain(), mixed, FAN, SETTINGS, device="cpu")
    check_same_fibers(found, track(brain(), inside, FAN, SETTINGS, device="cpu"))
    assert found.parameters["seed_count"] == 3


def test_bad_devices_and_seeds_are_refused_before_any_work():
    with pytest.raises(InvalidInput, match="choose 'auto'"):
        track(brain(), SEEDS, FAN, SETTINGS, device="gpu")
    with pytest.raises(InvalidInput, match="no seed points"):
        track(brain(), [], FAN, SETTINGS, device="cpu")

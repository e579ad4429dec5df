"""Tracking as a whole: chunks, stop, previews, parameters, files; and what cannot be tracked is refused."""

import dataclasses
import doctest
import functools
import json
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts import (
    Directions,
    TensorField,
    TrackSettings,
    Tractogram,
    fit_tensors,
    track,
    track_steps,
    track_to_file,
)
from napari_gpubio.tracts.io.tractograms import read_tractogram
from napari_gpubio.tracts.phantom import load_brain_phantom
from napari_gpubio.tracts.seeds import ball
from tests import runs
from tests.tracts.tractogram_samples import check_same_fibers

SEEDS = np.concatenate([ball((0.0, -5.0, 22.0), 4.0, 6), ball((-22.0, -18.0, 12.0), 4.0, 6)])
FAN = Directions(count=20, cone_half_angle_deg=60.0)
SETTINGS = TrackSettings(max_length_mm=60.0, fa_stop=0.3, min_length_mm=15.0)  # a tenth of the fibers is shorter
ALL = len(SEEDS) * FAN.count
NUMBERS = {
    "length_mm",
    "riemannian_length_mm",
    "drift",
    "mean_fa",
    "alignment",
    "alignment_fa",
    "speed",
    "stop_reason",
    "stop_reason_back",
    "seed",
}


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
    assert set(np.unique(fibers.per_fiber["seed"])) <= set(range(len(SEEDS)))
    assert (np.diff(fibers.per_fiber["seed"]) >= 0).all()


def test_each_fiber_goes_through_its_seed():
    fibers = whole()
    for fiber, seed in zip(fibers, fibers.per_fiber["seed"], strict=True):
        assert np.linalg.norm(fiber - SEEDS[seed], axis=1).min() < 1e-4


def test_every_fiber_that_is_kept_is_long_enough():
    everything = track(brain(), SEEDS, FAN, dataclasses.replace(SETTINGS, min_length_mm=0.0), device="cpu")
    assert (everything.counts >= 2).all()
    for shortest in (15.0, 30.0):
        settings = dataclasses.replace(SETTINGS, min_length_mm=shortest)
        kept = track(brain(), SEEDS, FAN, settings, device="cpu")
        assert 0 < len(kept) < len(everything)
        check_same_fibers(kept, everything.select(everything.per_fiber["length_mm"] >= shortest))


def test_no_fiber_may_be_long_enough():
    none = track(brain(), SEEDS, FAN, dataclasses.replace(SETTINGS, min_length_mm=1000.0), device="cpu")
    assert (len(none), none.complete) == (0, True)
    assert (set(none.per_fiber), set(none.per_point)) == (NUMBERS, {"fa"})


def test_defaults_are_a_fan_of_geodesics():
    fibers = track(brain(), [(0.0, -5.0, 22.0)], device="cpu")
    assert fibers.parameters["directions"] == dataclasses.asdict(Directions())
    assert fibers.parameters["tracking"] == dataclasses.asdict(TrackSettings())
    assert 100 < len(fibers) <= 1000


def test_parameters_say_everything_needed_to_do_it_again():
    said = json.loads(json.dumps(dict(whole().parameters)))
    assert said["software"].startswith("napari-gpubio ")
    assert (said["seed_count"], said["launched"]) == (len(SEEDS), ALL)
    assert said["device"].startswith("cpu")
    again = track(
        brain(), said["seeds_mm"], Directions(**said["directions"]), TrackSettings(**said["tracking"]), device="cpu"
    )
    assert len(again) == len(whole())
    np.testing.assert_allclose(again.lengths_mm().mean(), whole().lengths_mm().mean(), rtol=1e-3)  # seeds are rounded


def test_parameters_of_many_seeds_stay_small():
    seeds = ball((0.0, -5.0, 22.0), 3.0, 3000)
    fibers = track(brain(), seeds, Directions(kind="principal"), TrackSettings(max_length_mm=5.0), device="cpu")
    assert fibers.parameters["seed_count"] == 3000
    assert len(json.dumps(dict(fibers.parameters))) < 100_000


def test_the_example_in_the_documentation_works():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (example,) = finder.find(track, "track", globs={})
    assert len(example.examples) >= 4
    out = []
    assert runner.run(example, out=out.append).failed == 0, "".join(out)


# -- chunks, stop, previews -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 100, 10**6])
def test_any_cut_gives_the_same_fibers(in_chunks_of, count):
    in_chunks_of(count)
    check_same_fibers(track(brain(), SEEDS, FAN, SETTINGS, device="cpu"), whole())


def test_previews_add_up_to_the_result(in_chunks_of):
    in_chunks_of(23)
    steps = track_steps(brain(), SEEDS, FAN, SETTINGS, device="cpu")
    previews, done = [], []
    try:
        while True:
            step = next(steps)
            assert step.total == ALL
            done.append(step.done)
            previews += step.preview
    except StopIteration as end:
        result = end.value
    assert done == [*range(23, ALL, 23), ALL]
    check_same_fibers(Tractogram.join(previews), result)
    check_same_fibers(result, whole())


def test_progress_is_told(in_chunks_of):
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
    in_chunks_of(50)
    last_seed = 100 // FAN.count  # seeds 0 to 4 were done
    assert len(part) == (whole().per_fiber["seed"] < last_seed).sum()


def test_a_run_stopped_at_once_is_an_empty_tractogram(in_chunks_of):
    part = stopped(in_chunks_of, 0)
    assert (len(part), part.complete, part.shape) == (0, False, brain().shape)
    assert part.parameters["launched"] == 0
    assert (set(part.per_fiber), set(part.per_point)) == (NUMBERS, {"fa"})
    check_same_fibers(Tractogram.join([part, whole()]), whole())


def test_a_stop_after_the_end_changes_nothing():
    stop = threading.Event()
    steps = track_steps(brain(), SEEDS[:1], FAN, SETTINGS, device="cpu", stop=stop)
    step = next(steps)
    while step.done < step.total:
        step = next(steps)
    stop.set()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.complete


def test_two_runs_at_once_do_not_disturb_each_other(in_chunks_of):
    in_chunks_of(11)
    found = {}

    def work(name):
        found[name] = track(brain(), SEEDS, FAN, SETTINGS, device="cpu")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fibers in found.values():
        check_same_fibers(fibers, whole())
    assert len(found) == 2


# -- to a file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".trx", ".tck"])
@pytest.mark.parametrize("count", [13, 10**6])
def test_fibers_written_as_they_come_are_those_of_a_run(tmp_path, in_chunks_of, suffix, count):
    in_chunks_of(count)
    path, steps = tmp_path / f"fibers{suffix}", []
    written = track_to_file(str(path), brain(), SEEDS, FAN, SETTINGS, device="cpu", progress=steps.append)
    assert written == len(whole())
    assert steps[-1].done == steps[-1].total == ALL
    found = read_tractogram(path)
    np.testing.assert_array_equal(found.offsets, whole().offsets)
    np.testing.assert_allclose(found.points, whole().points, atol=0 if suffix == ".trx" else 1e-4)
    if suffix == ".trx":
        assert set(found.per_fiber) == NUMBERS
        np.testing.assert_array_equal(found.per_fiber["drift"], whole().per_fiber["drift"])
        np.testing.assert_array_equal(found.per_point["fa"], whole().per_point["fa"])
    assert found.parameters["tracking"] == dataclasses.asdict(SETTINGS)


def test_a_path_may_be_a_path(tmp_path):
    settings = TrackSettings(max_length_mm=20.0)
    assert track_to_file(tmp_path / "fibers.trx", brain(), SEEDS[:1], FAN, settings, device="cpu") > 0


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


AHEAD = Directions(kind="principal")
SHORT = TrackSettings(max_length_mm=8.0, min_length_mm=0.0)


def test_an_empty_mask_is_refused():
    field = small(mask=np.zeros((12, 12, 12), bool))
    with pytest.raises(InvalidInput, match="background"):
        track(field, [(5, 5, 5)], AHEAD, SHORT, device="cpu")


@pytest.mark.parametrize("shape", [(3, 12, 12), (12, 12, 1)])
def test_a_volume_of_three_voxels_is_refused(shape):
    with pytest.raises(InvalidInput, match=rf"shape \({shape[0]}, {shape[1]}, {shape[2]}\); tracking needs 4 voxels"):
        track(small(shape), [(1, 1, 0)], AHEAD, SHORT, device="cpu")


def test_a_volume_of_four_voxels_is_enough():
    fibers = track(small((4, 4, 4)), [(1.2, 1.2, 1.4)], AHEAD, dataclasses.replace(SHORT, step_mm=0.2), device="cpu")
    assert len(fibers) == 1
    np.testing.assert_allclose(np.sort(fibers[0][[0, -1], 0]), [0, 3], atol=0.21)


METHODS = pytest.mark.parametrize("method", ["hamiltonian", "vanaart2011", "eudx"])


@METHODS
@pytest.mark.parametrize(("where", "value"), [(..., np.nan), ((7, 5, 5, 3), np.nan), ((7, 5, 5, 3), np.inf)], ids=str)
def test_tensors_that_are_not_finite_are_refused(method, where, value):
    field = small()
    field.tensors[where] = value
    with pytest.raises(InvalidInput, match="finite"):
        track(field, [(5, 5, 5)], AHEAD, dataclasses.replace(SHORT, method=method), device="cpu")


@METHODS
def test_tensors_outside_the_mask_may_be_anything(method):
    field = small()
    field.mask[9:] = False
    expected = track(field, [(5, 5, 5)], AHEAD, dataclasses.replace(SHORT, method=method), device="cpu")
    field = small()
    field.mask[9:] = False
    field.tensors[9:] = np.nan
    found = track(field, [(5, 5, 5)], AHEAD, dataclasses.replace(SHORT, method=method), device="cpu")
    assert len(found) == 1
    check_same_fibers(found, expected)


@METHODS
def test_a_seed_without_a_tensor_is_refused(method):
    """All zero inside the mask, as in files that hold no mask."""
    field = small(tensors=np.zeros((12, 12, 12, 6)))
    with pytest.raises(InvalidInput):
        track(field, [(5, 5, 5)], AHEAD, dataclasses.replace(SHORT, method=method), device="cpu")


@METHODS
def test_singular_tensors_give_finite_fibers(method):
    """Eigenvalues of zero are raised to the floor."""
    field = small()
    field.tensors[..., 1:3] = 0.0
    fibers = track(field, [(5, 5, 5)], AHEAD, dataclasses.replace(SHORT, method=method), device="cpu")
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

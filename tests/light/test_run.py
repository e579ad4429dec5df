"""Runs from their steps to their end: progress, previews, stop; what is refused; memory."""

import dataclasses
import functools
import gc
import json
import re
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from napari_gpubio.core.steps import Step, drive, with_step
from napari_gpubio.layered.kernels.layers import cpu as layered_cpu
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light.kernels.voxels import cpu
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics import batches as work
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil
from tests import runs
from tests.layered import test_run as layered
from tests.layered.samples import ARRAYS, NUMBERS
from tests.layered.samples import check_same_bits as check_same_layered_bits
from tests.light.voxel_samples import TISSUE, check_same_bits, make_domain, turned_affine

DOMAIN = make_domain((8, 9, 10))
SOURCE = Pencil(position_mm=(4.1, 4.2, 0.0))
DETECTORS = (Detector(position_mm=(4.1, 6.0, 0.0), radius_mm=1.0),)
SETTINGS = LightSettings(photons=4000, batches=8)


def steps_of(device="cpu", settings=SETTINGS, **more):
    return simulate_steps(DOMAIN, SOURCE, settings, detectors=DETECTORS, device=device, **more)


class Verb(NamedTuple):
    """How photons are traced through voxels or layers, and what their results hold."""

    steps: Callable[..., Any]
    simulate: Callable[..., Any]
    cpu: Any
    kind: type
    total: Callable[[Any], float]
    value: Callable[[Any], Any]
    error: Callable[[Any], Any]
    check_same_bits: Callable[[Any, Any], None]


VERBS = {
    "voxels": Verb(
        steps_of,
        functools.partial(simulate, DOMAIN, SOURCE),
        cpu,
        LightResult,
        lambda result: result.energy.total,
        lambda result: result.fluence,
        lambda result: result.fluence_error,
        check_same_bits,
    ),
    "layers": Verb(
        layered.steps_of,
        functools.partial(layered.simulate, layered.LAYERS),
        layered_cpu,
        LayeredResult,
        lambda result: result.total,
        lambda result: result.A_rz.value,
        lambda result: result.A_rz.error,
        check_same_layered_bits,
    ),
}


@pytest.fixture(params=VERBS)
def verb(request):
    return VERBS[request.param]


@pytest.fixture
def small_chunks(monkeypatch, in_chunks_of):
    in_chunks_of(90)
    monkeypatch.setattr(work, "PREVIEW_SECONDS", 0.0)


# -- steps ------------------------------------------------------------------------------------------------------------


def test_steps_go_on_to_the_end(verb, device, small_chunks):
    steps, result = runs.finished(verb.steps(device))
    assert all(a.done < b.done for a, b in pairwise(steps))
    assert {step.total for step in steps} == {4000}
    assert steps[-1].done == 4000
    assert (result.launched, result.complete) == (4000, True)
    assert len(steps) > 40


def test_the_first_step_reports_the_memory(device):
    first = next(steps_of(device))
    assert (first.done, first.total) == (0, 4000)
    assert re.fullmatch(r"photons \(\d+ MB on (cpu|cuda).*\)", first.message)


def test_previews_are_results_of_what_is_done(verb, small_chunks, monkeypatch):
    monkeypatch.setattr(work.Previews, "due", lambda self: True)
    steps, result = runs.finished(verb.steps())
    shown = [step for step in steps if step.preview is not None]
    assert len(shown) > 20
    for step in shown:
        preview = step.preview
        assert isinstance(preview, verb.kind)
        assert (preview.launched, preview.complete) == (step.done, False)
        assert verb.total(preview) == pytest.approx(1.0, abs=1e-6)
        assert verb.value(preview).shape == verb.value(result).shape
        assert np.isnan(verb.error(preview)).all() == (step.done < 1000)  # two whole batches
    early, late = shown[20].preview, shown[-1].preview
    brightest = np.argsort(verb.value(result), axis=None)[-3:]
    z = ((verb.value(early) - verb.value(result)) / verb.error(early)).ravel()[brightest]
    assert np.abs(z).max() < 6
    assert np.nanmean(verb.error(late)) < np.nanmean(verb.error(early))


def test_a_preview_does_not_change_afterwards(verb, device, small_chunks, monkeypatch):
    monkeypatch.setattr(work.Previews, "due", lambda self: True)
    steps = verb.steps(device)
    kept = [next(steps) for _ in range(15)][-1].preview
    before = verb.value(kept).copy(), {name: array.copy() for name, array in kept.state.to_arrays().items()}
    _, result = runs.finished(steps)
    np.testing.assert_array_equal(verb.value(kept), before[0])
    for name, array in kept.state.to_arrays().items():
        np.testing.assert_array_equal(array, before[1][name])
    if device == "cpu":
        monkeypatch.undo()
        verb.check_same_bits(result, runs.finished(verb.steps())[1])


def test_previews_take_a_tenth_of_the_time_at_most(monkeypatch):
    """One every 100 ms; a preview that takes long is shown less often, but at least every 2 s."""
    clock = [0.0]
    monkeypatch.setattr(work.time, "perf_counter", lambda: clock[0])

    def slow(seconds):
        yield
        clock[0] += seconds
        return "preview"

    for takes, wait in ((0.001, 0.1), (0.1, 0.9), (5.0, 2.0)):
        previews = work.Previews()
        clock[0] += 0.099
        assert not previews.due()
        clock[0] += 0.002
        assert previews.due()
        made = previews.make(lambda: takes, slow)  # noqa: B023 - called at once
        assert drive(with_step(made, Step(0, 1))) == "preview"
        clock[0] += wait - 0.001
        assert not previews.due()
        clock[0] += 0.002
        assert previews.due()


def test_progress_is_reported(verb, small_chunks):
    steps = []
    settings = layered.SETTINGS if verb.kind is LayeredResult else SETTINGS
    result = verb.simulate(settings, device="cpu", progress=steps.append)
    assert steps[-1].fraction == 1.0
    assert len(steps) > 10
    assert result.complete


def test_defaults(verb, monkeypatch):
    """Without settings: a million photons, any device."""
    seen = {}

    def empty_run(problem, partial, *args):
        seen["problem"] = problem
        yield from ()

    monkeypatch.setattr(work, "traced", empty_run)
    result = verb.simulate()
    assert seen["problem"].settings == type(seen["problem"].settings)()
    assert (result.launched, result.settings.photons, result.complete) == (0, 1_000_000, False)


# -- stop -------------------------------------------------------------------------------------------------------------


def stopped(after, device="cpu", **more):
    stop = threading.Event()
    return runs.stopped(steps_of(device, stop=stop, **more), stop, after)


def test_a_stopped_run_keeps_what_was_done_with_its_own_error(small_chunks):
    result = stopped(after=30)
    assert (result.launched, result.complete) == (result.state.photons, False)
    assert 2000 < result.launched < 3000
    assert result.energy.total == pytest.approx(1.0, abs=1e-6)
    whole = simulate(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu")
    assert np.nanmean(result.fluence_error) > np.nanmean(whole.fluence_error)
    fewer = dataclasses.replace(SETTINGS, photons=result.launched)
    alone = simulate(DOMAIN, SOURCE, fewer, detectors=DETECTORS, device="cpu")
    np.testing.assert_allclose(result.fluence, alone.fluence, rtol=1e-6)  # the same photons
    np.testing.assert_array_equal(result.detected.photon, alone.detected.photon)


def test_a_run_stopped_before_its_first_photon_is_dark(verb):
    stop = threading.Event()
    stop.set()
    steps, result = runs.finished(verb.steps(stop=stop))
    assert not any(step.done for step in steps)
    assert (result.launched, result.complete) == (0, False)
    assert not verb.value(result).any()
    assert np.isnan(verb.error(result)).all()
    if verb.kind is LayeredResult:
        assert not any(getattr(result, name).value.any() for name in ARRAYS)
        assert all(np.isnan(getattr(result, name).error) for name in NUMBERS)
    else:
        assert len(result.detected) == 0


def test_a_stop_after_the_end_changes_nothing():
    stop = threading.Event()
    steps = steps_of(stop=stop)
    step = next(steps)
    while step.done < step.total:
        step = next(steps)
    stop.set()
    assert runs.finished(steps)[1].complete


@pytest.mark.parametrize("steps_done", [1, 3])
def test_closing_in_the_middle_frees_the_runs(verb, monkeypatch, small_chunks, steps_done):
    opened, closed = [], []
    opening = verb.cpu.Run.__init__
    monkeypatch.setattr(
        verb.cpu.Run, "__init__", lambda self, *args, **more: opened.append(opening(self, *args, **more))
    )
    monkeypatch.setattr(verb.cpu.Run, "close", lambda self: closed.append(self))
    steps = verb.steps()
    for _ in range(steps_done):
        next(steps)
    steps.close()
    gc.collect()
    assert len(closed) == len(opened)
    assert len(opened) == 1 or steps_done == 1  # voxels open nothing before their second step
    assert not runs.workers()


def test_closing_gives_gpu_memory_back(verb, fake_gpu, small_chunks):
    runs.check_closing_frees(fake_gpu(count=3), verb.steps("cuda:all"))


def test_an_error_on_the_way_frees_the_runs(verb, monkeypatch, small_chunks):
    closed, advance = [], verb.cpu.Run.advance

    def failing(self, start, count):
        if start > 1000:
            raise RuntimeError("the machine is on fire")
        advance(self, start, count)

    monkeypatch.setattr(verb.cpu.Run, "advance", failing)
    monkeypatch.setattr(verb.cpu.Run, "close", lambda self: closed.append(self))
    with pytest.raises(RuntimeError, match="fire"):
        runs.finished(verb.steps())
    gc.collect()
    assert len(closed) == 1


def test_two_runs_at_once_do_not_disturb_each_other(small_chunks):
    expected = simulate(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu")
    found = {}

    def work_(name):
        found[name] = simulate(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu")

    threads = [threading.Thread(target=work_, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for result in found.values():
        check_same_bits(result, expected)


# -- what a result holds ----------------------------------------------------------------------------------------------


def test_parameters_can_be_written_as_json(device):
    result = simulate(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device=device)
    again = json.loads(json.dumps(result.parameters))
    assert LightSettings(**again["settings"]) == SETTINGS
    assert again["source"]["position_mm"] == [4.1, 4.2, 0.0]
    assert Medium(**again["media"][0]) == TISSUE
    assert again["outside_n"] == 1.0
    assert Detector(**again["detectors"][0]) == dataclasses.replace(DETECTORS[0])
    assert again["device"].startswith(device)
    assert again["seconds"] > 0
    assert again["software"].startswith("napari-gpubio ")


def test_shapes_and_types():
    settings = LightSettings(photons=400, time_gates_ns=(0.0, 0.1, 1.0, 5.0), halves=True, exit_map=True)
    result = simulate(DOMAIN, SOURCE, settings, detectors=DETECTORS, device="cpu")
    assert result.gates.shape == result.gates_error.shape == result.fluence_rate.shape == (8, 9, 10, 3)
    assert result.fluence.shape == result.fluence_error.shape == result.escaped_weight.shape == (8, 9, 10)
    assert result.half_fluences.shape == (2, 8, 9, 10, 3)
    volumes = (result.gates, result.fluence, result.fluence_error, result.half_fluences, result.escaped_weight)
    assert {volume.dtype for volume in volumes} == {np.dtype(np.float32)}
    n = len(result.detected)
    assert result.detected.path_mm.shape == (n, 1)
    assert result.detected.position_mm.shape == result.detected.direction.shape == (n, 3)
    assert (np.diff(result.detected.photon.astype(np.int64)) > 0).all()


# -- detectors --------------------------------------------------------------------------------------------------------


def test_detected_photons_are_consistent(device):
    """They are at their detector and on the surface, and paths, times and weights fit together."""
    domain = make_domain((16, 16, 12), dataclasses.replace(TISSUE, mua_per_mm=0.05), affine=turned_affine())
    positions = [domain.grid_to_world(at) for at in ((8, 12, 0.0), (8, 20, 0.0))]
    normal = domain.direction_to_world((0, 0, 1))
    detectors = (
        Detector(position_mm=positions[0], radius_mm=2.0),
        Detector(position_mm=positions[1], radius_mm=2.0, normal=normal),
    )
    direction = domain.direction_to_world((0, 0, 1))
    source = Pencil(position_mm=domain.grid_to_world((8.1, 16.2, 0.0)), direction=direction)
    settings = LightSettings(photons=40_000, roulette_threshold=0.0)
    result = simulate(domain, source, settings, detectors=detectors, device=device)
    for number, detector in enumerate(detectors):
        photons = result.detected.of(number)
        assert len(photons) > 100
        distance = np.linalg.norm(photons.position_mm - detector.position_mm, axis=1)
        assert distance.max() <= 2.0 + 1e-4
        grid = domain.world_to_grid(photons.position_mm)
        np.testing.assert_allclose(grid[:, 2], 0.0, atol=1e-4)  # of the six faces, this one is near
        assert (photons.direction @ direction < 0).all()
        np.testing.assert_allclose(np.linalg.norm(photons.direction, axis=1), 1.0, atol=2e-6)
        path = photons.path_mm.astype(float).sum(axis=1)
        entered = 1 - result.energy.specular.value
        np.testing.assert_allclose(photons.weight, entered * np.exp(-0.05 * path), rtol=2e-4)
        np.testing.assert_allclose(photons.time_ns, 1.37 * path / 299.792458, rtol=2e-4)
        assert (photons.scatterings >= 1).all()


def test_every_escaping_photon_is_caught_by_detectors_all_around(device):
    everywhere = Detector(position_mm=(4, 4.5, 0), radius_mm=50.0)
    result = simulate(DOMAIN, SOURCE, SETTINGS, detectors=[everywhere], device=device)
    assert result.detected.detected_weight == pytest.approx(result.energy.escaped.value, rel=1e-6)


def test_of_detectors_that_overlap_the_first_one_catches():
    both = [Detector(position_mm=(4, 4, 0), radius_mm=2.0, name=name) for name in "ab"]
    result = simulate(DOMAIN, SOURCE, SETTINGS, detectors=both, device="cpu")
    assert set(result.detected.detector) == {0}


def test_tallies_are_copied_only_where_somebody_holds_what_a_snapshot_returned():
    run = cpu.Run(VoxelProblem(DOMAIN, SOURCE, dataclasses.replace(SETTINGS, photons=1000, batches=2)))

    def places():
        return run.tally.ctypes.data, run._whole.sums.ctypes.data

    kept, held = {}, np.zeros(0)
    for start in range(0, 1000, 100):
        before, part = places(), run.snapshot()
        if start == 300:
            held = part.open[0].path[5:]
            expected = held.copy()
        del part
        run.advance(start, 100)
        kept[start] = places() == before
    assert [start for start, value in kept.items() if not value] == [300]
    assert held.any()
    np.testing.assert_array_equal(held, expected)

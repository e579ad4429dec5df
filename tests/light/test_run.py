"""Runs from their steps to their end: progress, previews, stop; what is refused; memory."""

import dataclasses
import gc
import json
import re
import threading
from itertools import pairwise

import numpy as np
import pytest

from napari_gpubio.light import batches as work
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.kernels.voxels import cpu
from napari_gpubio.light.model import Medium
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from tests import runs
from tests.light.test_model import turned_affine
from tests.light.voxel_samples import TISSUE, check_same_bits, make_domain

DOMAIN = make_domain((8, 9, 10))
SOURCE = Source(position_mm=(4.1, 4.2, 0.0))
DETECTORS = (Detector(position_mm=(4.1, 6.0, 0.0), radius_mm=1.0),)
SETTINGS = LightSettings(photons=4000, batches=8)


def steps_of(device="cpu", settings=SETTINGS, **more):
    return simulate_steps(DOMAIN, SOURCE, settings, detectors=DETECTORS, device=device, **more)


@pytest.fixture
def small_chunks(monkeypatch, in_chunks_of):
    in_chunks_of(90)
    monkeypatch.setattr(work, "PREVIEW_SECONDS", 0.0)


# -- steps ------------------------------------------------------------------------------------------------------------


def test_steps_go_on_to_the_end(device, small_chunks):
    steps, result = runs.finished(steps_of(device))
    assert (steps[0].done, steps[0].total) == (0, 4000)
    assert re.fullmatch(r"photons \(\d+ MB on (cpu|cuda).*\)", steps[0].message)
    assert all(a.done < b.done for a, b in pairwise(steps))
    assert {step.total for step in steps} == {4000}
    assert steps[-1].done == 4000
    assert (result.launched, result.complete) == (4000, True)


def test_previews_are_results_of_what_is_done(small_chunks, monkeypatch):
    monkeypatch.setattr(work.Previews, "due", lambda self: True)
    steps, result = runs.finished(steps_of())
    shown = [step for step in steps if step.preview is not None]
    assert len(shown) > 20
    for step in shown:
        preview = step.preview
        assert isinstance(preview, LightResult)
        assert (preview.launched, preview.complete) == (step.done, False)
        assert preview.energy.total == pytest.approx(1.0, abs=1e-6)
        assert preview.gates.shape == result.gates.shape
        assert np.isnan(preview.fluence_error).all() == (step.done < 1000)  # two whole batches
    early, late = shown[20].preview, shown[-1].preview
    z = (early.fluence - result.fluence)[4, 4, :3] / early.fluence_error[4, 4, :3]
    assert np.abs(z).max() < 6
    assert np.nanmean(late.fluence_error) < np.nanmean(early.fluence_error)


def test_a_preview_does_not_change_afterwards(small_chunks, monkeypatch):
    monkeypatch.setattr(work.Previews, "due", lambda self: True)
    steps = steps_of()
    kept = [next(steps) for _ in range(15)][-1].preview
    before = kept.fluence.copy(), {name: array.copy() for name, array in kept.state.to_arrays().items()}
    _, result = runs.finished(steps)
    np.testing.assert_array_equal(kept.fluence, before[0])
    for name, array in kept.state.to_arrays().items():
        np.testing.assert_array_equal(array, before[1][name])
    check_same_bits(result, simulate(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu"))


def test_previews_take_a_tenth_of_the_time_at_most(monkeypatch):
    """One every 100 ms; a preview that takes long is shown less often, but at least every 2 s."""
    clock = [0.0]
    monkeypatch.setattr(work.time, "perf_counter", lambda: clock[0])

    def slow(seconds):
        clock[0] += seconds
        return "preview"

    for takes, wait in ((0.001, 0.1), (0.1, 0.9), (5.0, 2.0)):
        previews = work.Previews()
        clock[0] += 0.099
        assert not previews.due()
        clock[0] += 0.002
        assert previews.due()
        assert previews.make(lambda: takes, slow) == "preview"  # noqa: B023 - called at once
        clock[0] += wait - 0.001
        assert not previews.due()
        clock[0] += 0.002
        assert previews.due()


def test_progress_is_told(small_chunks):
    told = []
    result = simulate(DOMAIN, SOURCE, SETTINGS, device="cpu", progress=told.append)
    assert told[-1].fraction == 1.0
    assert len(told) > 10
    assert result.complete


def test_defaults(monkeypatch):
    """Without settings: a million photons, no detectors, any device."""
    seen = {}

    def empty_run(problem, partial, *args):
        seen["problem"] = problem
        yield from ()

    monkeypatch.setattr(work, "traced", empty_run)
    result = simulate(DOMAIN, SOURCE)
    assert seen["problem"].settings == LightSettings()
    assert (result.launched, result.detectors, result.settings.photons) == (0, (), 1_000_000)


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


def test_a_run_stopped_before_its_first_photon_is_dark():
    stop = threading.Event()
    stop.set()
    steps, result = runs.finished(steps_of(stop=stop))
    assert [step.done for step in steps] == [0]
    assert (result.launched, result.complete, len(result.detected)) == (0, False, 0)
    assert not result.fluence.any()
    assert np.isnan(result.fluence_error).all()


def test_a_stop_after_the_end_changes_nothing():
    stop = threading.Event()
    steps = steps_of(stop=stop)
    step = next(steps)
    while step.done < step.total:
        step = next(steps)
    stop.set()
    assert runs.finished(steps)[1].complete


@pytest.mark.parametrize("photons_done", [1, 3])
def test_closing_in_the_middle_frees_the_runs(monkeypatch, small_chunks, photons_done):
    closed = []
    monkeypatch.setattr(cpu.Run, "close", lambda self: closed.append(self))
    steps = steps_of()
    for _ in range(photons_done):
        next(steps)
    steps.close()
    gc.collect()
    assert len(closed) == (1 if photons_done > 1 else 0)  # before the second step nothing is open yet
    assert not runs.workers()


def test_closing_gives_gpu_memory_back(fake_gpu, small_chunks):
    runs.check_closing_frees(fake_gpu(count=3), steps_of("cuda:all"))


def test_an_error_on_the_way_frees_the_runs(monkeypatch, small_chunks):
    closed, advance = [], cpu.Run.advance

    def failing(self, start, count):
        if start > 1000:
            raise RuntimeError("the machine is on fire")
        advance(self, start, count)

    monkeypatch.setattr(cpu.Run, "advance", failing)
    monkeypatch.setattr(cpu.Run, "close", lambda self: closed.append(self))
    with pytest.raises(RuntimeError, match="fire"):
        runs.finished(steps_of())
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


# -- what a result tells ----------------------------------------------------------------------------------------------


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
    source = Source(position_mm=domain.grid_to_world((8.1, 16.2, 0.0)), direction=direction)
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


# -- one call for a user ----------------------------------------------------------------------------------------------


def test_the_public_interface_has_what_a_script_needs():
    from napari_gpubio import light

    names = "simulate", "simulate_steps", "LightSettings", "Source", "Domain", "Medium", "Detector", "LightResult"
    for name in names:
        assert hasattr(light, name), name

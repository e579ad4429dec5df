"""Runs that go on where another one ended: the same photons, and so the same bits, wherever it was stopped."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.kernels.voxels import problem as problems
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics import batches as work
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Pencil
from tests.light.voxel_samples import check_same_bits, make_domain, tallies

DOMAIN = make_domain((8, 9, 10))
SOURCE = Pencil(position_mm=(4.1, 4.2, 0.0))
DETECTORS = (Detector(position_mm=(4.1, 6.0, 0.0), radius_mm=2.0),)
SETTINGS = LightSettings(photons=2000, batches=8, halves=True, exit_map=True, time_gates_ns=(0.0, 0.05, 5.0))
DEVICES = ["cpu", "cuda:0", "cuda:0,1,2"]
ON_DEVICES = pytest.mark.parametrize("where", DEVICES)


def run(where="cpu", settings=SETTINGS, **more):
    return simulate(DOMAIN, SOURCE, settings, detectors=DETECTORS, device=where, **more)


def stopped(where, after, settings=SETTINGS, **more):
    """A run that was stopped after so many steps, if it had not ended by then."""
    stop, seen = threading.Event(), []

    def watch(step):
        seen.append(step)
        if len(seen) == after:
            stop.set()

    steps = simulate_steps(DOMAIN, SOURCE, settings, detectors=DETECTORS, device=where, stop=stop, **more)
    return drive(steps, watch)


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.fixture
def pieces(fake_gpu, few_builds, monkeypatch, in_chunks_of):
    """GPUs, and chunks that end in the middle of batches."""
    fake_gpu(count=3)
    in_chunks_of(70)
    problem = problems.VoxelProblem(DOMAIN, SOURCE, SETTINGS)
    monkeypatch.setattr(problems, "SLOT_BYTES", 2 * 8 * problem.tally_size)  # two batches at once


@ON_DEVICES
@pytest.mark.parametrize("after", [1, 2, 6, 13, 22])
def test_a_stopped_run_goes_on_to_the_same_bits(pieces, whole, where, after):
    part = stopped(where, after)
    assert not part.complete
    assert part.launched < 2000
    found = run(where, resume=part)
    check_same_bits(found, whole)
    assert found.parameters["seconds"] > 0


@ON_DEVICES
@pytest.mark.parametrize("after", [1, 4])
def test_looking_at_a_run_that_goes_on_changes_nothing(pieces, whole, monkeypatch, where, after):
    """Also where it goes on in the middle of the first batch, which its previews complete."""
    monkeypatch.setattr(work, "PREVIEW_SECONDS", 0.0)
    monkeypatch.setattr(work, "LONGEST_WAIT_SECONDS", 0.0)
    seen, part = [], stopped(where, after)
    steps = simulate_steps(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device=where, resume=part)
    check_same_bits(drive(steps, lambda step: seen.append(step.preview)), whole)
    assert len([one for one in seen if one is not None]) > 3


@ON_DEVICES
def test_another_device_may_go_on(pieces, whole, where):
    for other in DEVICES:
        check_same_bits(run(other, resume=stopped(where, 9)), whole)


@ON_DEVICES
def test_a_run_may_be_stopped_again_and_again(pieces, whole, where):
    """In ever other places: batches have holes, and ranges on several GPUs."""
    part, stops = stopped(where, 4), 1
    while not part.complete:
        before = part.launched
        part = stopped(where, 3 + stops % 3, resume=part)
        assert part.launched > before
        stops += 1
    assert stops > 3
    check_same_bits(part, whole)


def test_steps_of_a_resumed_run_begin_where_it_ended(pieces):
    part = stopped("cpu", 9)
    step = next(simulate_steps(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu", resume=part))
    assert (step.done, step.total) == (part.launched, 2000)


def test_the_earlier_result_stays_as_it_was(pieces, whole):
    part = stopped("cpu", 9)
    before = {name: array.copy() for name, array in tallies(part).items()}
    run(resume=part)
    for name, array in tallies(part).items():
        np.testing.assert_array_equal(array, before[name])
    check_same_bits(run(resume=part), whole)


def test_the_seconds_are_those_of_all_legs(tmp_path):
    """Also through a file, and of a run that is resumed once more."""
    first = stopped("cpu", 3)
    first = dataclasses.replace(first, parameters={**first.parameters, "seconds": 1000.0})
    save_result(tmp_path / "first.npz", first)
    second = stopped("cpu", 1, resume=load_result(tmp_path / "first.npz"))
    assert 1000.0 < second.parameters["seconds"] < 1060.0
    third = run(resume=dataclasses.replace(second, parameters={**second.parameters, "seconds": 2000.0}))
    assert 2000.0 < third.parameters["seconds"] < 2060.0


def test_photons_whose_seconds_are_unknown_add_none():
    first = stopped("cpu", 3)
    for parameters in ({}, {"seconds": None}):
        result = run(resume=dataclasses.replace(first, parameters=parameters))
        assert 0 < result.parameters["seconds"] < 60.0


def test_a_complete_result_is_only_assembled_anew(whole, monkeypatch):
    def nothing(self, start, count):
        raise AssertionError("there was nothing to trace")

    monkeypatch.setattr("napari_gpubio.light.kernels.voxels.cpu.Run.advance", nothing)
    check_same_bits(run(resume=whole), whole)


@pytest.mark.parametrize(("first", "then"), [(2000, 4000), (1000, 3000), (1003, 2500), (2000, 2001), (5, 64)])
def test_more_photons(first, then):
    """The tallies of one longer run with the same batches; also where the last batch lacked photons."""
    few = run(settings=dataclasses.replace(SETTINGS, photons=first))
    assert few.complete
    settings = dataclasses.replace(SETTINGS, photons=then)
    found = run(settings=settings, resume=few)
    assert (found.launched, found.complete) == (then, True)
    assert found.energy.total == pytest.approx(1.0, abs=1e-6)
    size = few.state.batch_size
    batches = -(-then // size)
    direct = run(settings=dataclasses.replace(settings, batches=max(2, then // size)))
    assert len(found.state.batches) + len(found.state.open) == batches
    if direct.state.batch_size == size:
        check_same_bits(found, dataclasses.replace(direct, settings=settings))
    sums = [result.state.sums + sum(part.path for part in result.state.open.values()) for result in (found, direct)]
    np.testing.assert_array_equal(*sums)  # whatever the batches, these photons
    np.testing.assert_array_equal(found.detected.photon, direct.detected.photon)


# -- saved in between -------------------------------------------------------------------------------------------------


@ON_DEVICES
@pytest.mark.parametrize("compress", [False, True])
def test_a_saved_run_goes_on_to_the_same_bits(pieces, whole, tmp_path, where, compress):
    save_result(tmp_path / "part.npz", stopped(where, 9), compress=compress)
    loaded = load_result(tmp_path / "part.npz")
    assert not loaded.complete
    found = simulate(
        loaded.domain, loaded.source, loaded.settings, detectors=loaded.detectors, device=where, resume=loaded
    )
    check_same_bits(found, whole)
    check_same_bits(run(where, resume=loaded), whole)


def test_a_saved_result_is_the_same_result_and_is_resumed_only_with_its_state(tmp_path, whole):
    save_result(tmp_path / "whole.npz", whole)
    check_same_bits(load_result(tmp_path / "whole.npz"), whole)
    save_result(tmp_path / "whole.npz", whole, resumable=False)
    with pytest.raises(InvalidInput, match="the result to resume has no saved state; save results with it"):
        run(resume=load_result(tmp_path / "whole.npz"))


# -- what is refused --------------------------------------------------------------------------------------------------


def test_other_simulations_are_refused(whole):
    """Those with another key, which its own tests go through."""
    with pytest.raises(InvalidInput, match=r"is of another simulation .*; only the number of photons may be raised"):
        run(settings=dataclasses.replace(SETTINGS, photons=4000, seed=2), resume=whole)
    with pytest.raises(InvalidInput, match="is of another simulation"):
        simulate(DOMAIN, SOURCE, SETTINGS, device="cpu", resume=whole)  # without detectors


def test_fewer_photons_are_refused(whole):
    with pytest.raises(InvalidInput, match="has traced photons up to number 2,000; request at least that many"):
        run(settings=dataclasses.replace(SETTINGS, photons=1999), resume=whole)


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("after", [2, 4])
def test_a_real_gpu_goes_on_to_the_same_bits(monkeypatch, after):
    monkeypatch.setitem(work.FIRST_CHUNK, "cuda", 3000)
    settings = dataclasses.replace(SETTINGS, photons=100_000)
    part = stopped("cuda", after, settings)
    check_same_bits(run("cuda", settings, resume=part), run("cuda", settings))

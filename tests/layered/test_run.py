"""Runs through layers from their steps to their end: previews, stop, resuming; what is refused.

What both kinds of simulations share (steps, seconds, holes in batches) is tested with voxels, in `test_resume`; workers
of both, which take long to start, are in `test_batches`.
"""

import dataclasses
import json
import threading

import numpy as np
import pytest

from napari_gpubio.core import memory
from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.layered.kernels.layers import gpu
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.run import simulate, simulate_steps
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics import batches as work
from napari_gpubio.optics.model import Layer
from tests import runs
from tests.layered.samples import GLASS, NUMBERS, TISSUE, check_same_arrays, check_same_bits, medium, with_layer

LAYERS = medium(TISSUE, GLASS, (1.35, 0.2, 4.0, 0.5, 1.0), name="three")
GRID = {"radial_bins": 10, "depth_bins": 12, "angle_bins": 5, "dr_mm": 0.5, "dz_mm": 0.4}
SETTINGS = LayeredSettings(photons=4000, batches=8, **GRID)


def steps_of(device="cpu", **more):
    return simulate_steps(LAYERS, SETTINGS, device=device, **more)


def whole(device="cpu", **changes):
    return simulate(LAYERS, dataclasses.replace(SETTINGS, **changes), device=device)


def stopped(device, after):
    """The result of a run that was stopped after some steps."""
    stop = threading.Event()
    return runs.stopped(steps_of(device, stop=stop), stop, after)


@pytest.fixture
def small_chunks(in_chunks_of):
    in_chunks_of(90)


def test_previews_of_several_gpus_hold_whole_photons(fake_gpu, monkeypatch, in_chunks_of):
    fake_gpu(count=3)
    monkeypatch.setattr(work.Previews, "due", lambda self: True)
    in_chunks_of(120)
    steps, result = runs.finished(steps_of("cuda:0,1,2"))
    shown = [step.preview for step in steps if step.preview is not None]
    assert len(shown) > 20
    assert all(preview.total == pytest.approx(1.0, abs=1e-6) for preview in shown)
    check_same_bits(result, whole())


def test_a_stopped_run_keeps_what_was_done_with_its_own_error(small_chunks):
    result = stopped("cpu", 30)
    assert (result.launched, result.complete) == (result.state.photons, False)
    assert 2000 < result.launched < 3000
    assert result.total == pytest.approx(1.0, abs=1e-6)
    expected = whole(photons=result.launched)  # the same photons, in other batches
    for name in NUMBERS:
        assert getattr(result, name).value == getattr(expected, name).value
    assert 0 < result.absorbed.error < 3 * whole().absorbed.error


@pytest.mark.parametrize(
    ("first", "after", "then"),
    [
        *(("cpu", after, "cpu") for after in (1, 7, 30)),
        ("cuda:0", 9, "cpu"),
        ("cpu", 9, "cuda:0,1,2"),
        ("cuda:0,1,2", 9, "cuda:1"),
    ],
)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(
    fake_gpu, small_chunks, monkeypatch, first, after, then
):
    fake_gpu(count=3)
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 20)
    part = stopped(first, after)
    assert 0 < part.launched < 4000
    kept = {name: array.copy() for name, array in part.state.to_arrays().items()}
    check_same_bits(simulate(LAYERS, SETTINGS, device=then, resume=part), whole())
    check_same_arrays(part.state.to_arrays(), kept)  # what it went on from is as it was


def test_more_photons_may_be_requested():
    """A complete run goes on; its batches keep their length."""
    more = dataclasses.replace(SETTINGS, photons=6100)
    result = simulate(LAYERS, more, device="cpu", resume=whole())
    assert (result.launched, result.complete, result.state.batch_size) == (6100, True, 500)
    expected = simulate(LAYERS, more, device="cpu")
    for name in NUMBERS:
        assert getattr(result, name).value == getattr(expected, name).value
    np.testing.assert_allclose(result.A_rz.value, expected.A_rz.value, rtol=1e-12)


OTHER_LAYER = with_layer(LAYERS, 0, mua_per_mm=0.06)


@pytest.mark.parametrize(("layers", "changes"), [(LAYERS, {"seed": 2}), (OTHER_LAYER, {})], ids=["seed", "layer"])
def test_another_simulation_is_not_resumed(layers, changes):
    with pytest.raises(InvalidInput, match=r"the result to resume is of another simulation \(.*\); only the number of"):
        simulate(layers, dataclasses.replace(SETTINGS, **changes), device="cpu", resume=whole())


def test_parameters_can_be_written_as_json(device):
    again = json.loads(json.dumps(whole(device).parameters))
    assert LayeredSettings(**again["settings"]) == SETTINGS
    layers = tuple(Layer(**row) for row in again["medium"].pop("layers"))
    assert LayeredMedium(**again["medium"] | {"layers": layers}) == LAYERS
    assert again["device"].startswith(device)
    assert again["seconds"] > 0
    assert again["software"].startswith("napari-gpubio ")


def test_parameters_of_an_endless_medium_are_strict_json():
    """Infinity is not valid JSON; readers other than Python's refuse it."""
    endless = medium((*TISSUE[:4], np.inf))
    result = simulate(endless, dataclasses.replace(SETTINGS, photons=10), device="cpu")
    assert json.dumps(result.parameters, allow_nan=False)


def test_a_missing_gpu_is_reported(fake_gpu):
    fake_gpu(driver=False)
    with pytest.raises(GpuUnavailable):
        simulate(LAYERS, SETTINGS, device="cuda")


def test_too_little_memory_is_reported_before_the_start(monkeypatch):
    """Every batch has a tally of its own, and a grid may have millions of bins."""
    monkeypatch.setattr(memory, "free_memory_bytes", lambda device: 10_000)
    with pytest.raises(InvalidInput, match=r"the simulation needs about \d+ MB and \d+ MB are free; take"):
        whole()

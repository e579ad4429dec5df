"""Standard errors from the spread of batches, and batches on the workers of a Dask cluster."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from napari_gpubio.core.steps import drive
from napari_gpubio.layered.run import simulate as simulate_layers
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.batches import mean_error
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Pencil
from tests.layered.samples import MEDIA
from tests.layered.samples import check_same_bits as check_same_layers
from tests.light.voxel_samples import check_same_bits, make_domain

RANDOM = np.random.default_rng(5)
DRAWS = 20_000
# whole batches, photons of one, photons left over: none, one, a few, nearly a batch, and those of several open batches
CASES = [(16, 100, 0), (16, 100, 1), (64, 187, 32), (3, 50, 49), (2, 40, 100), (5, 30, 75)]


@pytest.mark.parametrize(("batches", "size", "rest"), CASES)
@pytest.mark.parametrize("chance", [0.5, 0.002], ids=["frequent", "rare"])
def test_the_variance_is_right_in_the_mean(batches, size, rest, chance):
    """Of a number that a photon has by chance; its variance is p (1 - p)."""
    whole = RANDOM.binomial(size, chance, (batches, DRAWS)).astype(float)
    left = RANDOM.binomial(rest, chance, DRAWS).astype(float)
    found = mean_error(whole, left, size, rest) ** 2
    expected = chance * (1 - chance) / (batches * size + rest)
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(DRAWS)
    values = (whole.sum(axis=0) + left) / (batches * size + rest)
    assert values.var() == pytest.approx(expected, rel=0.06)  # it is the variance of the mean over all photons


def test_without_photons_left_over_it_is_that_of_equal_batches():
    whole = RANDOM.random((16, 7))
    expected = (whole / 50).std(axis=0, ddof=1) / 4
    np.testing.assert_allclose(mean_error(whole, np.zeros(7), 50, 0), expected, rtol=1e-12)


@pytest.mark.parametrize("where", ["a whole batch", "the rest"])
def test_a_single_photon_has_an_error_of_its_own_size(where):
    """As of one event in Poisson's law; 12,000 photons in 64 batches leave 32 over."""
    whole, rest = np.zeros((64, 1)), np.zeros(1)
    (whole[7] if where == "a whole batch" else rest)[0] = 0.3
    assert mean_error(whole, rest, 187, 32)[0] == pytest.approx(0.3 / 12_000, rel=0.02)


def test_a_photon_left_over_is_no_large_deviation():
    """Where one of a hundred comes by, that the last of 1,000,001 did says next to nothing."""
    whole = RANDOM.binomial(62_500, 0.01, (16, 1)).astype(float)
    without, passing = (mean_error(whole, np.array([last]), 62_500, 1)[0] for last in (0.0, 1.0))
    assert passing == pytest.approx(without, rel=1e-3)
    assert passing == pytest.approx(mean_error(whole, np.zeros(1), 62_500, 0)[0], rel=1e-3)


@pytest.mark.parametrize("batches", [0, 1])
def test_fewer_than_two_whole_batches_have_no_error(batches):
    assert np.isnan(mean_error(np.ones((batches, 3)), np.ones(3), 10, 5)).tolist() == [True] * 3


distributed = pytest.importorskip("distributed", reason="no Dask: python -m pip install distributed")

DOMAIN = make_domain((12, 12, 12))
SOURCE = Pencil(position_mm=(6.1, 6.2, 0.0))
DETECTORS = (Detector(position_mm=(6.1, 9.0, 0.0), radius_mm=2.0),)
SETTINGS = LightSettings(photons=4000, batches=16, halves=True, exit_map=True, time_gates_ns=(0.0, 0.05, 5.0))
LONG = LightSettings(photons=60_000, batches=40)


def run(settings=SETTINGS, **more):
    return simulate(DOMAIN, SOURCE, settings, detectors=DETECTORS, device="cpu", **more)


def test_workers_give_the_bits_of_one_machine(client):
    result = run(client=client)
    check_same_bits(result, run())
    assert "Dask" in result.parameters["device"]


def test_workers_give_the_bits_of_one_machine_in_layers(client, in_chunks_of):
    in_chunks_of(90)
    settings = LayeredSettings(photons=4000, batches=8, radial_bins=10, depth_bins=12)
    result = simulate_layers(MEDIA["glass on top"], settings, device="cpu", client=client)
    check_same_layers(result, simulate_layers(MEDIA["glass on top"], settings, device="cpu"))
    assert "Dask" in result.parameters["device"]


def test_both_workers_take_part_and_steps_go_on_to_the_end(client):
    steps = []
    result = run(client=client, progress=steps.append)
    assert [step.done for step in steps] == [250 * (i + 1) for i in range(16)]
    assert result.complete
    pids = {record["pid"] for record in client.run(lambda: {"pid": os.getpid()}).values()}
    assert len(pids) == 2


def test_a_batch_that_lacks_photons(client):
    settings = LightSettings(photons=4007, batches=16)
    check_same_bits(run(settings, client=client), run(settings))


def test_a_stopped_run_goes_on_elsewhere(client):
    stop, seen = threading.Event(), []

    def watch(step):
        seen.append(step)
        if len(seen) == 4:
            stop.set()

    steps = simulate_steps(DOMAIN, SOURCE, SETTINGS, detectors=DETECTORS, device="cpu", client=client, stop=stop)
    part = drive(steps, watch)
    assert (part.complete, part.launched) == (False, 1000)
    assert part.energy.total == pytest.approx(1.0, abs=1e-6)
    whole = run()
    check_same_bits(run(resume=part), whole)
    check_same_bits(run(client=client, resume=part), whole)


def test_an_error_on_a_worker_comes_out(client):
    with pytest.raises(Exception, match="cuda"):
        simulate(DOMAIN, SOURCE, SETTINGS, device="cuda:7", client=client)


@pytest.mark.long  # the same driver loses one in tests/fibers/test_run_dask.py
def test_a_killed_worker_loses_nothing(client):
    """Killed as the operating system would, in the middle of a run; the others, and its successor, do its part."""
    killed = []

    def kill_one(step):
        if step.done > 0 and not killed:
            address, pid = next(iter(client.run(os.getpid).items()))
            assert client.processing()[address]  # it is at work
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    result = run(LONG, client=client, progress=kill_one)
    assert len(killed) == 1
    assert result.launched == LONG.photons
    check_same_bits(result, run(LONG))
    deadline = time.monotonic() + 20
    while killed[0] in client.run(os.getpid).values() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert killed[0] not in client.run(os.getpid).values()

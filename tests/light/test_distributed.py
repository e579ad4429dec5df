"""Photons shared among Dask workers: the bits of one machine, also when a worker is killed on the way."""

import os
import signal
import threading
import time

import pytest

from napari_gpubio.core.steps import drive
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from tests.light.voxel_samples import check_same_bits, make_domain

distributed = pytest.importorskip("distributed", reason="no Dask: python -m pip install distributed")

DOMAIN = make_domain((12, 12, 12))
SOURCE = Source(position_mm=(6.1, 6.2, 0.0))
DETECTORS = (Detector(position_mm=(6.1, 9.0, 0.0), radius_mm=2.0),)
SETTINGS = LightSettings(photons=4000, batches=16, halves=True, exit_map=True, time_gates_ns=(0.0, 0.05, 5.0))
LONG = LightSettings(photons=160_000, batches=40)


def run(settings=SETTINGS, **more):
    return simulate(DOMAIN, SOURCE, settings, detectors=DETECTORS, device="cpu", **more)


def test_workers_give_the_bits_of_one_machine(client):
    result = run(client=client)
    check_same_bits(result, run())
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

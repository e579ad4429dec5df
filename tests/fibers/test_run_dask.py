"""Fibers traced by the workers of a Dask cluster, into one file."""

import contextlib
import os
import pickle
import signal

import numpy as np
import pytest

from napari_gpubio.fibers import Cone, Hamiltonian, track
from napari_gpubio.fibers.run import track_to_file
from napari_gpubio.fibers.seeds import ball
from napari_gpubio.tractograms.io import read_tractogram
from tests.fibers.ray_samples import CALLOSUM, brain, fresh

SEEDS, FAN = ball(CALLOSUM, 6.0, 60), Cone(count=20)
SETTINGS = Hamiltonian(max_length_mm=40.0)


def check_file(path, expected):
    found = read_tractogram(path)
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.per_fiber["seed"], expected.per_fiber["seed"])
    assert "Dask" in found.parameters["device"]


@pytest.fixture(scope="module")
def expected():
    return track(brain(), SEEDS, FAN, SETTINGS, device="cpu")


def test_workers_write_the_same_fibers_in_the_same_order(client, tmp_path, expected):
    steps = []
    path, field = str(tmp_path / "all.trx"), fresh(brain())
    written = track_to_file(path, field, SEEDS, FAN, SETTINGS, device="cpu", client=client, progress=steps.append)
    assert written == len(expected)
    assert len(steps) >= 4
    assert steps[-1].done == steps[-1].total == 60 * 20
    check_file(path, expected)


def test_a_killed_worker_loses_nothing(client, tmp_path, expected):
    killed = []

    def kill_one(_):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[0], signal.SIGKILL)

    path = str(tmp_path / "all.trx")
    track_to_file(path, fresh(brain()), SEEDS, FAN, SETTINGS, device="cpu", client=client, progress=kill_one)
    assert len(killed) == 1
    check_file(path, expected)


def test_an_error_on_a_worker_comes_out_and_leaves_no_file(client, tmp_path):
    with pytest.raises(Exception, match="cuda"):
        track_to_file(str(tmp_path / "all.trx"), brain(), SEEDS, FAN, SETTINGS, device="cuda:7", client=client)
    assert not list(tmp_path.iterdir())


def test_what_is_kept_with_a_field_stays_in_its_process():
    field = fresh(brain())
    track(field, SEEDS[:1], FAN, SETTINGS, device="cpu")
    copy = pickle.loads(pickle.dumps(field))
    np.testing.assert_array_equal(copy.tensors, field.tensors)
    assert copy.cache.get("tensors", lambda: "made again") == "made again"

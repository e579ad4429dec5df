"""Fixtures of the light engine's tests."""

import contextlib

import pytest

from napari_gpubio.light.kernels.layers import gpu


@pytest.fixture(scope="session")
def client():
    """Two Dask worker processes of one thread each."""
    distributed = pytest.importorskip("distributed", reason="no Dask: python -m pip install distributed")
    import dask

    quiet = {"distributed.logging": {"distributed": "critical"}, "distributed.comm.timeouts.connect": "10s"}
    one_thread = {"NUMBA_NUM_THREADS": "1"}  # of the workers; Numba here has begun its threads
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(quiet))
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, env=one_thread
        )
        yield stack.enter_context(distributed.Client(stack.enter_context(cluster)))


@pytest.fixture
def short_pilot(monkeypatch):
    """A pilot run that leaves something to do."""
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 50)

"""Fixtures of the tests of the dock widget "Light transport"; they import napari only when asked for."""

import contextlib
import threading
from types import SimpleNamespace

import pytest


@pytest.fixture
def viewer(request, qtbot, monkeypatch):
    """A viewer; with a (hidden) window for tests marked ``display``."""
    from napari.components import ViewerModel

    monkeypatch.setenv("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")
    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("make_napari_viewer")()
    return ViewerModel()


@pytest.fixture
def empty(viewer, qtbot):
    """A panel in an empty viewer."""
    from tests.light.light_panel_samples import add_panel

    panel = add_panel(viewer)
    if not hasattr(viewer, "window"):
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


@pytest.fixture
def panel(viewer, empty, qtbot):
    """A panel with the labels of a ball."""
    from tests.light.light_panel_samples import add_ball, settle

    add_ball(viewer)
    settle(qtbot, empty)
    return empty


@pytest.fixture
def held(monkeypatch):
    """Holds every run back until ``go`` is set."""
    from tests.light.light_panel_samples import Held

    held = Held(monkeypatch)
    yield held
    held.go.set()


@pytest.fixture
def errors(qtbot, monkeypatch):
    """What was raised in the event loop or in a worker."""
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    with qtbot.capture_exceptions() as in_qt:
        yield SimpleNamespace(all=lambda: raised + [error[1] for error in in_qt])


@pytest.fixture(scope="module")
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

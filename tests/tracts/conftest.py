"""Fixtures of the tests of the dock widgets; they import napari only when asked for, as other tests do without it.

``viewer``, ``empty``, ``panel``, ``two``, ``held`` and ``errors`` are for "Fiber tracking", ``tensor_viewer`` and
``tensor_panel`` for "Diffusion tensors".
"""

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
    """A panel in an empty viewer, set to trace 50 fibers at a click."""
    from tests.tracts.panel_samples import add_panel

    panel = add_panel(viewer)
    if not hasattr(viewer, "window"):
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


@pytest.fixture
def panel(viewer, empty):
    """A panel with FA and DEC of the sample."""
    from tests.tracts.panel_samples import add_maps

    add_maps(viewer)
    return empty


@pytest.fixture
def two(viewer, panel, qtbot):
    """Two bundles, the second one current."""
    from tests.tracts.panel_samples import CALLOSUM, CORTICOSPINAL, click, settle

    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    return panel


@pytest.fixture
def held(monkeypatch):
    from tests.tracts.panel_samples import Held

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


@pytest.fixture
def tensor_viewer(request, qtbot, monkeypatch):
    """A viewer as plugins see it; with a (hidden) window for tests marked ``display``."""
    from napari.components import ViewerModel
    from napari.utils._proxies import PublicOnlyProxy

    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("make_napari_viewer_proxy")()
    monkeypatch.setenv("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")
    return PublicOnlyProxy(ViewerModel())


@pytest.fixture
def tensor_panel(tensor_viewer, qtbot):
    from napari_gpubio.tracts.widget import TensorPanel

    viewer = tensor_viewer
    panel = TensorPanel(viewer)
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name="Diffusion tensors")
    else:
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()

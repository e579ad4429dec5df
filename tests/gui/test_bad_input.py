"""What nobody expects in a window: layers of other plugins, odd places, no fibers and very many, several viewers."""

import dask.array
import numpy as np
import pytest
from qtpy.QtWidgets import QApplication

from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.switcher import open_panel
from napari_gpubio.tractograms.gui.fibers import fiber_layer
from napari_gpubio.tractograms.model import Tractogram
from tests import panel_walk

pytestmark = pytest.mark.display
SHAPE = (6, 8, 10)
OBLIQUE = np.array([[0.9, 0.3, -0.2, 5], [-0.4, 1.1, 0.1, -7], [0.1, -0.2, 0.8, 3], [0, 0, 0, 1]])
UNEXPECTED = "unexpected"  # in what a panel says of an error that is not its own
RUN_MS = 60_000


@pytest.fixture
def window_is_shown():
    """No pictures are taken of it."""
    return False


def fibers(count):
    """Fibers of two points each, evenly over a volume."""
    starts = np.random.default_rng(4).uniform(0, 9, (count, 1, 3)).astype(np.float32)
    points = np.concatenate([starts, starts + np.float32(0.3)], axis=1).reshape(-1, 3)
    offsets = np.arange(0, 2 * count + 1, 2, dtype=np.int64)
    return Tractogram(points=points, offsets=offsets, affine=np.eye(4), shape=SHAPE[::-1])


def add_layers_of_others(viewer):
    """Layers as other plugins make them: of all kinds, in odd places, and empty ones."""
    rng = np.random.default_rng(3)
    values = rng.random(SHAPE).astype(np.float32)
    viewer.add_image(values, name="oblique", affine=OBLIQUE)
    viewer.add_image(values, name="sheared labels' image", shear=[0.2, 0.1, 0.3])
    viewer.add_image(values[:, ::-1], name="mirrored", scale=(-1, 2, 0.5))
    viewer.add_image([values, values[::2, ::2, ::2]], multiscale=True, name="pyramid")
    viewer.add_image(dask.array.from_array(values, chunks=4), name="chunks")
    viewer.add_image(dask.array.from_array(rng.random((3, *SHAPE)), chunks=4), name="chunks of four axes")
    viewer.add_image(rng.random((2, 3, *SHAPE)), name="five axes")
    viewer.add_image(rng.random((8, 10, 3)), rgb=True, name="colors")
    viewer.add_image(rng.random(20).reshape(1, 20), name="a row")
    viewer.add_image(np.full(SHAPE, np.nan, np.float32), name="nothing but NaN", contrast_limits=(0, 1))
    viewer.add_image(values > 0.5, name="yes and no")
    viewer.add_image((values * 1e30).astype(np.float64), name="huge numbers")
    viewer.add_labels(np.zeros(SHAPE, np.int32), name="no labels", affine=OBLIQUE)
    viewer.add_labels(dask.array.from_array((values > 0.5).astype(np.uint8), chunks=4), name="labels in chunks")
    viewer.add_labels([(values > 0.5).astype(np.uint8), np.ones((3, 4, 5), np.uint8)], name="pyramid of labels")
    viewer.add_points(np.zeros((0, 3)), name="no points")
    viewer.add_points(rng.random((5, 4)), name="points of four axes")
    viewer.add_shapes(name="no shapes")
    viewer.add_tracks(np.column_stack([np.repeat([0, 1], 4), np.tile(range(4), 2), rng.random((8, 3))]), name="tracks")
    viewer.add_vectors(rng.random((7, 2, 3)), name="vectors")
    viewer.add_surface((rng.random((9, 3)), np.array([[0, 1, 2]]), rng.random(9)), name="surface")
    viewer.add_layer(fiber_layer(fibers(0), "no fibers", beside=viewer.layers))


def is_idle(panel):
    """Whether nothing of a panel runs."""
    jobs = panel.findChildren(LatestJob)
    return not (getattr(panel, "running", False) or getattr(panel, "waiting", False) or any(j.is_busy for j in jobs))


@pytest.mark.parametrize("names", [panel_walk.PANELS[::2], panel_walk.PANELS[1::2]], ids=["even", "odd"])
def test_layers_of_other_plugins_are_used_or_refused_in_words(viewer, qtbot, names):
    add_layers_of_others(viewer)
    for name in names:
        choose_each_layer(open_panel(viewer, name), qtbot)
    panels = front_of(viewer).panels
    for layer in [*viewer.layers][::5]:
        viewer.layers.remove(layer)
    qtbot.waitUntil(lambda: all(map(is_idle, panels)), timeout=RUN_MS)
    viewer.theme = "light"
    QApplication.processEvents()
    viewer.theme = "dark"
    assert not [panel for panel in panels if UNEXPECTED in getattr(panel, "message", "")]


def choose_each_layer(panel, qtbot):
    """Choose every layer that a panel offers in each of its lists, and run it."""
    for number in range(max((box.count() for box in panel.findChildren(LayerBox)), default=0)):
        for box in panel.findChildren(LayerBox):
            if number < box.count() and box.model().item(number).isEnabled():
                box.setCurrentIndex(number)
                box.activated.emit(number)
        if isinstance(panel, EnginePanel):
            panel.run()
        qtbot.waitUntil(lambda: is_idle(panel), timeout=RUN_MS)
        assert UNEXPECTED not in getattr(panel, "message", ""), panel


@pytest.mark.parametrize("name", ["Dissect fibers", "Connectome", "Bundle profiles"])
def test_very_many_short_fibers_and_none_are_used_or_refused_in_words(viewer, qtbot, name):
    viewer.add_labels(np.ones(SHAPE, np.uint8), name="region")
    viewer.add_image(np.ones(SHAPE, np.float32), name="volume")
    for count in (0, 100_000):
        viewer.add_layer(fiber_layer(fibers(count), f"{count} fibers", beside=viewer.layers))
    panel = open_panel(viewer, name)
    for box in panel.findChildren(LayerBox):
        for layer in viewer.layers:
            if layer.name.endswith("fibers"):
                box.choose(layer)
                panel.run()
                qtbot.waitUntil(lambda: is_idle(panel), timeout=RUN_MS)
                assert UNEXPECTED not in panel.message


def test_two_viewers_do_not_disturb_each_other(viewer, make_window, qtbot):
    other = make_window()
    panel_walk.add_layers(viewer)
    panels = [open_panel(one, "Dissect fibers") for one in (viewer, other)]
    assert [panel.is_in_front for panel in panels] == [True, True]
    assert panels[1].fibers_box.layer is None
    panel_walk.add_layers(other)
    panels[0].fibers_box.choose(viewer.layers["fibers 1"])
    other.layers.clear()
    assert panels[0].fibers_box.layer is viewer.layers["fibers 1"]
    assert panels[1].fibers_box.currentText().startswith("deleted:")
    panels[0].add_sphere()
    qtbot.waitUntil(lambda: is_idle(panels[0]), timeout=RUN_MS)
    assert "sphere" not in other.layers
    other.close()
    panels[0].run()
    qtbot.waitUntil(lambda: is_idle(panels[0]), timeout=RUN_MS)
    assert panels[0].message == ""
    panels[0].teardown()

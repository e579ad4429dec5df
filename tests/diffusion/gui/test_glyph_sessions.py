"""Glyphs and ellipsoids in sessions: they come back as pictures of their field, and follow the slice again."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.held_layers import LayerParts
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.space import world_to_viewer
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.diffusion.gui.fods.panel import FodPanel
from napari_gpubio.diffusion.gui.tensor_panel import TensorPanel
from napari_gpubio.gui.session_panel import SessionPanel
from tests.diffusion.gui.tensor_samples import add_map, phantom_field
from tests.diffusion.gui.test_ellipsoids import CALLOSUM, show_ellipsoids
from tests.diffusion.gui.test_fod_panel import crossing
from tests.dock_widgets import wait_until


def add_ellipsoids(viewer, panel):
    add_map(viewer, phantom_field())
    show_ellipsoids(panel, "slice", CALLOSUM)
    return panel.ellipsoids


def add_glyphs(viewer, panel):
    data, keywords, _ = fod_layer(crossing(), "study")
    viewer.add_image(data, **keywords)
    viewer.dims.set_point(range(3), world_to_viewer(crossing().affine[:3, 3] + 8 * np.diag(crossing().affine)[:3]))
    panel.size_box.setValue(2.0)
    return panel.glyphs


def drawing_of(panel):
    return panel.ellipsoids if isinstance(panel, TensorPanel) else panel.glyphs


PANELS = {"ellipsoids": (TensorPanel, add_ellipsoids), "FOD glyphs": (FodPanel, add_glyphs)}


@pytest.fixture
def open_panel(qtbot):
    """A function that makes a panel in a viewer."""
    panels = []

    def make(cls, viewer):
        panels.append(cls(viewer))
        qtbot.addWidget(panels[-1])
        return panels[-1]

    yield make
    for panel in panels:
        panel.teardown()


@pytest.mark.usefixtures("napari_in_tests")
@pytest.mark.parametrize("name", PANELS)
def test_they_come_back_as_pictures_of_their_field_and_follow_the_slice(
    name, open_panel, qtbot, tmp_path, napari_in_tests
):
    first, second, (cls, add) = ViewerModel(), ViewerModel(), PANELS[name]

    def run(viewer, act):
        session = open_panel(SessionPanel, viewer)
        with qtbot.waitSignal(session.run_finished, timeout=60_000):
            getattr(session, act)(tmp_path / "s.zip")

    def points(viewer):
        return np.array(viewer.layers[name].data[0])

    drawing = add(first, open_panel(cls, first))
    wait_until(qtbot, lambda: not drawing.is_busy)
    before = points(first)
    run(first, "save")
    STORE.clear()
    run(second, "open")
    layer = second.layers[name]
    assert not issubclass(record_of(layer).kind, LayerParts)
    assert carried(layer, "field") or carried(layer, "glyphs_of")
    np.testing.assert_allclose(points(second), before, atol=1e-5)
    panel = open_panel(cls, second)
    drawn = drawing_of(panel)
    wait_until(qtbot, lambda: not drawn.is_busy)
    np.testing.assert_allclose(points(second), before, atol=1e-5, err_msg="with the same size")
    axis = second.dims.order[0]
    second.dims.set_current_step(axis, second.dims.current_step[axis] + 1)
    wait_until(qtbot, lambda: not (drawn.is_busy or np.array_equal(points(second), before)))
    assert points(second)[:, axis].mean() > before[:, axis].mean()
    assert [one.name for one in second.layers].count(name) == 1

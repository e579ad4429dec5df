"""Maps of speckle in a session: they are made again, in their place, as the panel's own."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import STORE, run_steps, save
from napari_gpubio.core.operations.layers import record_of
from napari_gpubio.core.steps import drive
from napari_gpubio.gui.looks import show_layers
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.speckle.gui.layers import PANEL
from napari_gpubio.speckle.io import read_frames
from tests.dock_widgets import press_and_wait
from tests.speckle.gui.panel_samples import add_stack, run, speckle
from tests.speckle.gui.test_speckle_fit import FRAMES, choose_fit


@pytest.fixture
def sessions(viewer, qtbot):
    """Panels of sessions of the viewer and of another one."""
    made = [SessionPanel(one) for one in (viewer, ViewerModel())]
    for one in made:
        one.choose_device("cpu")
        qtbot.addWidget(one)
    yield made
    for one in made:
        one.teardown()


def after(qtbot, panel, act, *arguments):
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        act(*arguments)


def check_same(made, layer):
    np.testing.assert_array_equal(made.data, layer.data)
    assert record_of(made) == record_of(layer)
    for name in ("scale", "translate"):
        np.testing.assert_array_equal(getattr(made, name), getattr(layer, name))
    for name in (PANEL, "source", "part", "title", "unit", "exposures_ms"):
        assert carried(made, name) == carried(layer, name), name
    assert made.axis_labels == layer.axis_labels
    assert made.colormap.name == layer.colormap.name


def test_maps_of_a_session_are_made_again_in_their_place(viewer, panel, sessions, qtbot, tmp_path):
    add_stack(viewer, speckle(9))
    panel.contrast_box.form.widget("mode").value = "temporal"
    panel.contrast_box.form.widget("frames").value = 3
    panel.contrast_box.form.widget("blocks").value = True
    run(qtbot, panel)
    session, other = sessions
    names = ["K of frames", "SFI (1/s) of frames"]
    viewer.layers["K of frames"].colormap = "viridis"
    assert viewer.layers["K of frames"].scale[0] == 3
    after(qtbot, session, session.save, tmp_path / "s.zip")
    STORE.clear()
    after(qtbot, other, other.open, tmp_path / "s.zip")
    assert not {*names} & {one.name for one in other.viewer.layers}
    press_and_wait(qtbot, other, other.run_button)
    assert other.message == ""
    for name in names:
        check_same(other.viewer.layers[name], viewer.layers[name])


def test_maps_of_a_fit_are_shown_again_and_written(viewer, panel, qtbot, tmp_path):
    add_stack(viewer, FRAMES)
    choose_fit(panel)
    run(qtbot, panel)
    fitted = [one for one in viewer.layers if (carried(one, "part") or "").startswith("mesi")]
    assert len(fitted) > 3
    taken, _ = take_layers(viewer)
    other = ViewerModel()
    for one in drive(shown_steps(taken)):
        if one.name in viewer.layers and viewer.layers[one.name] in fitted:
            show_layers(other, one, drive(run_steps(one.output, device="cpu")))
    assert len(other.layers) == len(fitted)
    for layer in fitted:
        check_same(other.layers[layer.name], layer)
    shown = viewer.layers["MESI τ (ms) of frames"]
    save(record_of(shown), tmp_path / "tau.tif", device="cpu")
    np.testing.assert_array_equal(read_frames(tmp_path / "tau.tif"), shown.data)

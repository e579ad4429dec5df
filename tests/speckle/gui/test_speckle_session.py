"""Maps of speckle in a session: they are made again, in their place, as the panel's own."""

import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations import STORE, run_steps, save
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.steps import drive
from napari_gpubio.gui.looks import show_layers
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.speckle.gui import SpecklePanel
from napari_gpubio.speckle.gui.inputs import MapRows
from napari_gpubio.speckle.gui.panel_layers import PANEL
from napari_gpubio.speckle.io import read_frames
from napari_gpubio.speckle.napari_io import read_layer
from napari_gpubio.speckle.opening import HeldFrames, OpenFrames
from napari_gpubio.speckle.settings import NoMask, Spatial, SpatioTemporal, Validity
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


@pytest.mark.parametrize("is_single", [False, True])
def test_frames_of_a_file_are_opened_from_there(viewer, sessions, qtbot, tmp_path, is_single):
    frames = speckle(1)[0] if is_single else speckle(3)
    tifffile.imwrite(tmp_path / "f.tif", frames, photometric="minisblack")
    data, keywords, _ = read_layer(tmp_path / "f.tif")
    viewer.add_image(data, **keywords)
    viewer.add_image(data + 1, **keywords).name = "edited"
    session, other = sessions
    after(qtbot, session, session.save, tmp_path / "s.zip")
    after(qtbot, other, other.open, tmp_path / "s.zip")
    assert other.message == ""
    for name, opens in (("f", OpenFrames), ("edited", HeldFrames)):
        layer = other.viewer.layers[name]
        assert isinstance(record_of(layer).of, opens)
        np.testing.assert_array_equal(layer.data, viewer.layers[name].data)
        assert layer.axis_labels == viewer.layers[name].axis_labels


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
    taken, _ = take_layers(viewer.layers)
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


def settle_on_maps(panel):
    """Registered maps relative to a baseline, of frames with dark ones."""
    box = panel.contrast_box
    box.choose_index("relative")
    box.form.set_value(
        MapRows(mode=SpatioTemporal(window=3, frames=2), nonfinite="clip", mask=Validity(saturation=100))
    )
    box.registers.setChecked(True)
    box.noise.dark_box.choose(panel.viewer.layers["dark"])
    box.noise.form.widget("gain").value = 0.123456789
    panel.map_box.baseline_maps.setValue(3)


def settle_on_a_fit(panel):
    """A fit whose β is measured on a part of a target."""
    box = panel.contrast_box
    box.form.set_value(MapRows(mode=Spatial(window=7), mask=NoMask()))
    choose_fit(panel, "0.123456789 1 2", model="gaussian")
    box.mesi.target_box.choose(panel.viewer.layers["dark"])
    box.mesi.region_box.choose(panel.viewer.layers["part"])


@pytest.mark.parametrize("settle", [settle_on_maps, settle_on_a_fit])
@pytest.mark.parametrize("is_in_file", [False, True])
def test_the_form_of_a_session_comes_back(viewer, panel, sessions, qtbot, tmp_path, settle, is_in_file):
    frames, (session, other) = speckle(6), sessions
    tifffile.imwrite(tmp_path / "f.tif", frames, photometric="minisblack")
    add_stack(viewer, frames, metadata={KEY: {"path": str(tmp_path / "f.tif")}} if is_in_file else {})
    add_stack(viewer, frames // 50, name="dark")
    for one in (viewer, other.viewer):
        one.add_shapes([np.array([(5, 5), (5, 20), (20, 20)])], shape_type="polygon", name="part")
    panel.source_box.stack.layer_box.choose(viewer.layers["frames"])
    settle(panel)
    draft = panel.take_draft()()
    again = SpecklePanel(other.viewer)
    qtbot.addWidget(again)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    STORE.clear()
    after(qtbot, other, other.open, tmp_path / "s.zip")
    assert "speckle panel" not in other.message
    assert again.take_draft()() == draft
    other.viewer.layers.remove("dark")
    assert not again.show_draft(draft)
    again.teardown()

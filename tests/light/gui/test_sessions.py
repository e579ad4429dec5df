"""The inputs of the dock widget "Light transport" in a session: they come back in another viewer, and run nothing."""

import dataclasses

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import STORE, State, open_session, rerun, save_session
from napari_gpubio.core.operations.records import Reading
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.io import save_result
from napari_gpubio.light.operations import HeldDomain, OpenDomain, WithFibers
from napari_gpubio.light.readers import read_layers
from tests.dock_widgets import until_the_end
from tests.light.gui.layers.panel_samples import MEDIUM, SETTINGS
from tests.light.gui.panel_samples import LEFT, TOP, add_ball, ball, result, run, set_gates, settle
from tests.light.gui.test_fibers import add_map


@pytest.fixture
def other(qtbot):
    """A panel in another viewer."""
    other = ViewerModel()
    yield from until_the_end(qtbot, other, LightPanel(other))


def in_a_file(panel, tmp_path):
    """Labels that are in a file, with another table, a disk on the surface and a detector, in time gates."""
    write_volume(tmp_path / "ball.nii.gz", ball().labels, ball().affine)
    panel.viewer.layers["ball"].metadata[KEY]["path"] = str(tmp_path / "ball.nii.gz")
    panel.voxels.table.model.type_in({(0, 2): "0.123"})
    panel.voxels.source_box.form.widget("source").value = "disk"
    panel.voxels.source_box.form.widget("radius_mm").value = 3.5
    panel.voxels.place_source(LEFT)
    panel.voxels.controller.add_detector(TOP)
    set_gates(panel.voxels.run_box, 1.0, 3)
    return OpenDomain


def painted(panel, _):
    """Labels that no file has, with absorption by voxel, and a pattern that another image shows."""
    domain = dataclasses.replace(ball(), mua_per_mm=np.full(ball().shape, 0.2, np.float32))
    panel.voxels.labels_box.choose(add_ball(panel.viewer, domain, "painted"))
    image = panel.viewer.add_image(np.outer([1.0, 2.0, 4.0], [1.0, 0.5]), name="spots")
    panel.voxels.source_box.form.widget("source").value = "pattern"
    panel.voxels.source_box.pattern_box.choose(image)
    panel.voxels.place_source(LEFT)
    panel.voxels.source_box.turn_box.setValue(30.0)
    return HeldDomain


def with_fibers(panel, _):
    """Scattering along fibers of one label."""
    panel.voxels.fiber_box.choice.choose(add_map(panel.viewer))
    panel.voxels.fiber_box.labels_box.setCurrentIndex(2)
    panel.voxels.fiber_box.model_box.setCurrentIndex(1)
    panel.voxels.place_source(LEFT)
    return WithFibers


@pytest.mark.parametrize("fill", [in_a_file, painted, with_fibers])
def test_the_inputs_in_voxels_come_back(viewer, panel, other, qtbot, tmp_path, fill):
    panel.voxels.run_box.set_live(False)
    kind = fill(panel, tmp_path)
    settle(qtbot, panel)
    draft = panel.take_draft()()
    assert isinstance(draft.tissue.of, kind)
    point = check_session(qtbot, panel, other, tmp_path)
    assert np.allclose(other.viewer.dims.point[-3:], point[-3:])
    assert other.take_draft()() == draft
    assert other.voxels.results.displayed is None, "nothing was run"
    assert other.voxels.labels_box.layer.name == panel.voxels.labels_box.layer.name
    assert len(other.viewer.layers) == len(panel.viewer.layers), "nothing is there twice"


def test_the_inputs_in_layers_come_back(viewer, panel, other, qtbot, tmp_path):
    panel.set_mode("layers")
    panel.layers.table.set_medium(MEDIUM)
    panel.layers.grid_box.set_settings(SETTINGS)
    panel.layers.run_box.set_settings(SETTINGS)
    other.layers.run_box.set_live(True)
    settle(qtbot, other)
    runs = other.layers.results.displayed
    check_session(qtbot, panel, other, tmp_path)
    settle(qtbot, other)
    assert other.mode == "layers"
    assert other.take_draft()() == panel.take_draft()()
    assert other.layers.draft().medium == MEDIUM
    assert other.layers.results.displayed is runs, "nothing was run"


def test_results_come_back_as_results_with_the_same_bits(viewer, panel, qtbot, tmp_path):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    panel.voxels.display_box.power_box.setValue(7.5)
    set_gates(panel.voxels.run_box, 1.0, 2)
    run(qtbot, panel)
    panel.set_mode("layers")
    panel.layers.table.set_medium(MEDIUM)
    panel.layers.grid_box.set_settings(SETTINGS)
    panel.layers.run_box.set_settings(SETTINGS)
    run(qtbot, panel)
    save_result(tmp_path / "saved.npz", result(viewer))
    for data, keywords, kind in read_layers(str(tmp_path / "saved.npz")):
        getattr(viewer, f"add_{kind}")(data, **keywords)
    settle(qtbot, panel)
    shown = drive(shown_steps(take_layers(viewer.layers)[0]))
    made = {one.name: one for one in shown if not isinstance(one.output.of, Reading)}
    save_session(tmp_path / "s.zip", State((*made.values(),)))
    again = {one.name: found for one, found in rerun(open_session(tmp_path / "s.zip").state, device="cpu")}
    assert len(made) == 3
    assert {one.output.of.verb for one in made.values()} == {"log10-of", "under-beam"}
    assert all(one.digest for one in made.values()), "nothing is run again to be saved"
    assert again == {name: one.digest for name, one in made.items()}


def check_session(qtbot, panel, other, tmp_path):
    """Save a session of a panel and open it beside another one; returns the point that is looked at."""
    first, second = SessionPanel(panel.viewer), SessionPanel(other.viewer)
    point = panel.viewer.dims.point
    for one, act in ((first, first.save), (second, second.open)):
        qtbot.addWidget(one)
        with qtbot.waitSignal(one.run_finished, timeout=60_000):
            act(tmp_path / "s.zip")
        STORE.clear()
    assert "light panel" not in second.message
    for one in (first, second):
        one.teardown()
    settle(qtbot, other)
    return point

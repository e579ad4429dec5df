"""The dock widget Connect regions."""

import csv

import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.diffusion.napari_io import map_layer
from napari_gpubio.diffusion.samples import brain_atlas_layers
from napari_gpubio.fibers.gui import ConnectPanel
from tests.diffusion.brain_samples import coarse_brain
from tests.dock_widgets import (
    button,
    error_after_run,
    forget_choices,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    until_the_end,
)

LEFT, RIGHT = 1, 2
NAME = "frontal lobe, left → frontal lobe, right"


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """The tensors of the phantom, in a file."""
    path = tmp_path_factory.mktemp("tensors") / "tensors.nii.gz"
    diffusion.io.write_tensors(path, diffusion.fit_tensors(coarse_brain(), device="cpu"))
    return diffusion.io.read_tensors(path)


@pytest.fixture
def panel(viewer, qtbot, field):
    """A panel over FA and the regions of the phantom, with a small fan."""
    data, keywords, _ = map_layer(field, "FA", "phantom")
    viewer.add_image(data, **keywords)
    ((labels, keywords, _),) = brain_atlas_layers()
    viewer.add_labels(labels, **keywords)
    made = ConnectPanel(viewer)
    made.directions_form.widget("count").value = 12
    made.directions_form.widget("half_angle_deg").value = 30.0
    yield from until_the_end(qtbot, viewer, made)


@pytest.fixture
def connected(panel, qtbot):
    """The panel after a run."""
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    return panel


def test_two_regions_are_chosen_at_once_and_exchanged(panel):
    assert (panel.start_box.key, panel.end_box.key) == (LEFT, RIGHT)
    button(panel, "Swap").click()
    assert (panel.start_box.key, panel.end_box.key) == (RIGHT, LEFT)


@pytest.mark.daily
@pytest.mark.display
def test_routes_are_listed_and_each_is_shown_by_a_click(viewer, connected):
    layer = viewer.layers[NAME]
    routes = carried(layer, "tractogram").per_fiber["route"]
    assert connected.table.rowCount() == routes.max() > 1
    assert layer.color_by == "score"
    connected.table.selectRow(1)
    assert connected.route == 2
    np.testing.assert_array_equal(layer.shown, routes == 2)
    button(connected, "All routes").click()
    assert layer.shown.all()
    assert connected.route == 0
    layer.set_filter("mine", routes != 1)
    connected.table.selectRow(0)
    assert not layer.shown.any()
    button(connected, "All routes").click()
    np.testing.assert_array_equal(layer.shown, routes != 1)


def test_fods_that_are_open_tell_how_much_of_the_way_crosses(viewer, panel, field, qtbot):
    coefficients = np.zeros((*field.shape, 15), np.float32)
    coefficients[..., 0] = 1.0
    fods = diffusion.FodField(coefficients=coefficients, mask=field.mask, affine=field.affine)
    viewer.add_image(coefficients[..., 0], affine=field.affine, metadata={KEY: {"fods": fods}})
    press_and_wait(qtbot, panel, panel.run_button)
    assert "On 0 % of the way the FODs have two directions" in panel.results.findings


def test_a_fiber_that_is_clicked_shows_its_route(viewer, connected):
    layer = viewer.layers[NAME]
    connected.tool.fiber_clicked.emit(layer, 0)
    route = carried(layer, "tractogram").per_fiber["route"][0]
    assert connected.route == route
    assert layer.selected_fiber == 0


def test_the_table_and_the_fibers_are_saved(viewer, connected, qtbot, monkeypatch, tmp_path):
    connected.table.selectRow(0)
    for text, name in (("Save table…", "routes.csv"), ("Save fibers…", "route.trx")):
        save_scripts_as(monkeypatch, tmp_path / name)
        button(connected, text).click()
    qtbot.waitUntil(lambda: not connected.results.files.is_busy, timeout=30_000)
    with (tmp_path / "routes.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == connected.table.rowCount()
    fibers = tractograms.io.read_tractogram(tmp_path / "route.trx")
    assert set(fibers.per_fiber["route"].ravel().tolist()) == {1}


def test_nothing_found_and_what_is_missing_are_reported(viewer, panel, qtbot):
    panel.tracking_form.widget("max_length_mm").value = 20.0
    press_and_wait(qtbot, panel, panel.run_button)
    assert "at their seed" in panel.results.findings
    assert panel.table.isHidden()
    panel.end_box.choose(panel.end_box.layer, LEFT)
    assert "the same" in error_after_run(qtbot, panel)
    viewer.layers.clear()
    forget_choices(panel)
    assert "tensors" in error_after_run(qtbot, panel)


@pytest.mark.daily
def test_the_script_shows_the_same_routes(viewer, connected, monkeypatch, tmp_path):
    connected.table.selectRow(0)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(connected), tmp_path, monkeypatch)
    before, after = viewer.layers[NAME], made.layers[NAME]
    np.testing.assert_array_equal(after.shown, before.shown)
    np.testing.assert_array_equal(carried(after, "tractogram").points, carried(before, "tractogram").points)
    np.testing.assert_array_equal(after.lines.vertices, before.lines.vertices)

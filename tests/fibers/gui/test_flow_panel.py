"""The dock widget Fiber flow."""

import numpy as np
import pytest
from napari.layers import Layer

from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.napari_io import carried, volume_layer
from napari_gpubio.core.space import world_to_viewer
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.diffusion.phantom.crossings import crossing
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers.flow import FlowMatrices, FlowRepeats, source_flow
from napari_gpubio.fibers.gui import FlowPanel
from napari_gpubio.gui.history import history_of
from tests.dock_widgets import (
    button,
    error_after_run,
    forget_choices,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    until_the_end,
    wait_until,
)
from tests.fibers.flow.flow_samples import ends_of_cross, noisy_cross

NAMES = {1: "east", 2: "north-east", 3: "south-west"}
PLACES = {1: (14, 0, 0), 2: (7, 12, 0), 3: (-7, -12, 0)}
WEST, MIDDLE = (-14.0, 0.0, 0.0), (0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def sample():
    return crossing(60)


@pytest.fixture(scope="module")
def atlas(sample):
    """Three of the four ends of two bundles that cross."""
    centers = np.stack(np.indices(sample.fods.shape), -1) @ sample.fods.affine[:3, :3].T + sample.fods.affine[:3, 3]
    labels = np.zeros(sample.fods.shape, np.uint8)
    for label, place in PLACES.items():
        labels[np.linalg.norm(centers - place, axis=-1) <= 3] = label
    return Atlas(labels=labels, affine=sample.fods.affine, names=NAMES)


@pytest.fixture
def panel(viewer, qtbot, sample, atlas):
    """A panel over FODs and an atlas."""
    viewer.add_layer(Layer.create(*fod_layer(sample.fods, "phantom")))
    about = {STRUCTURES: dict(atlas.names)}
    viewer.add_layer(Layer.create(*volume_layer(atlas.labels, atlas.affine, "ends", kind="labels", metadata=about)))
    made = FlowPanel(viewer)
    made.choose_device("cpu")
    yield from until_the_end(qtbot, viewer, made)


def done(qtbot, panel):
    """Wait until nothing runs, and nothing is about to."""
    qtbot.wait(20)
    wait_until(qtbot, lambda: not panel.is_busy)


def column(panel, field):
    """What a column of the table shows of each region."""
    table, names = panel.table, [one.field for one in panel.table.columns]
    place = names.index(field)
    return {table.item(n, 1).text(): table.item(n, place).text() for n in range(table.rowCount())}


@pytest.fixture
def moved(panel, qtbot):
    """The panel with a source at the west end."""
    panel.place(WEST)
    done(qtbot, panel)
    return panel


@pytest.mark.daily
def test_a_source_that_is_placed_and_moved_is_followed(viewer, qtbot, moved, sample, atlas):
    expected = source_flow(sample.fods, moved.found.source.region, atlas, device="cpu")
    np.testing.assert_array_equal(moved.found.moved.flow.mass, expected.mass)
    assert moved.table.item(0, 1).text() == "east"
    assert "reaches east" in moved.results.head.text()
    shown = viewer.layers["flow of source"]
    before = np.array(shown.data)
    moved.place(PLACES[3])
    done(qtbot, moved)
    assert moved.table.item(0, 1).text() == "north-east"
    assert viewer.layers["flow of source"] is shown
    assert not np.array_equal(shown.data, before)
    assert "lies in south-west" in moved.results.findings


def test_which_layers_there_are_runs_nothing_and_a_drag_does_not_begin_anew(viewer, qtbot, panel, monkeypatch):
    begun = []
    monkeypatch.setattr(panel, "make_steps", lambda stop, make=panel.make_steps: begun.append(stop) or make(stop))
    viewer.add_points([world_to_viewer(MIDDLE)], name="a place", size=4.0)
    panel.source_box.choose(viewer.layers["ends"], 2)
    qtbot.wait(50)
    assert not panel.is_busy
    for n in range(3):
        panel.place((WEST[0] + n, 0.0, 0.0))
        qtbot.wait(5)
    done(qtbot, panel)
    assert not any(stop.is_set() for stop in begun)
    assert panel.found.source.region.center_mm[0] == pytest.approx(WEST[0] + 2)


def test_a_click_on_a_region_shows_its_routes_and_the_fibers_along_them(viewer, qtbot, moved):
    moved.table.selectRow(0)
    done(qtbot, moved)
    assert moved.route_table.rowCount() == 1
    assert len(carried(viewer.layers["source → east"], "tractogram")) == 1
    assert viewer.layers["routes source → east"].data.max() == pytest.approx(1.0)
    press_and_wait(qtbot, moved, button(moved, "Fibers along…"))
    fibers = carried(viewer.layers["fibers source → east"], "tractogram")
    assert set(fibers.per_fiber["route"]) == {1}
    moved.place((-13.0, 0.0, 0.0))  # they stay as they are, and are not taken for those of the source
    done(qtbot, moved)
    assert moved.route_table.isHidden()
    assert "source → east" in viewer.layers


def test_two_sources_are_compared(viewer, qtbot, moved):
    moved.place(PLACES[3], compared=True)
    done(qtbot, moved)
    assert column(moved, "other_rank")["north-east"] == "1"
    assert "flow of compared source" in viewer.layers
    moved.compared_box.layer_box.setCurrentIndex(0)
    done(qtbot, moved)
    assert set(column(moved, "other_rank").values()) == {"–"}
    assert "flow of compared source" not in viewer.layers


def test_fibers_pass_what_they_must_and_enter_nothing_else(viewer, qtbot, moved):
    viewer.add_points([world_to_viewer(MIDDLE)], name="wall", size=12.0)
    row = moved.gates.append_row()
    row.role.setCurrentIndex(row.role.findData("exclude"))
    row.region_box.choose(viewer.layers["wall"], 0)
    qtbot.waitUntil(lambda: moved._again.isActive(), timeout=5000)
    done(qtbot, moved)
    assert moved.found.moved.operation.exclude
    assert all(one.arrivals == 0 for one in moved.found.moved.flow.ranked())
    assert "in what is excluded" in moved.results.head.text()


def test_all_regions_are_a_matrix_whose_cells_show_routes_and_which_is_saved(viewer, qtbot, moved, tmp_path):
    moved.matrix.pair_picked.emit(2, 3)
    done(qtbot, moved)
    assert "north-east → south-west" in viewer.layers
    name, write = moved._matrices_file()
    write(tmp_path / name)
    np.testing.assert_array_equal(FlowMatrices.load(tmp_path / name).overlaps, moved.matrix.flow.overlaps)
    name, write = moved._matrix_file()
    write(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(",east,north-east,south-west")


def test_it_is_told_how_sure_ranks_are_until_the_source_moves(viewer, qtbot, panel, tmp_path):
    scan, _, fods = noisy_cross()
    centers = np.stack(np.indices(fods.shape), -1) @ fods.affine[:3, :3].T + fods.affine[:3, 3]
    labels = np.zeros(fods.shape, np.uint8)
    for label, end in enumerate(ends_of_cross(90, 18.0), 1):
        labels[end.contains(centers.reshape(-1, 3)).reshape(fods.shape)] = label
    for layer in (scan_layer(scan, "scan"), fod_layer(fods, "noisy")):
        viewer.add_layer(Layer.create(*layer))
    viewer.add_layer(Layer.create(*volume_layer(labels, fods.affine, "corners", kind="labels")))
    panel.field_box.choose(viewer.layers["noisy FOD"])
    panel.atlas_box.choose(viewer.layers["corners"])
    panel.sure_box.form.widget("repeats").value = 4
    panel.source_box.choose(viewer.layers["corners"], 1)
    press_and_wait(qtbot, panel, panel.run_button)
    press_and_wait(qtbot, panel, button(panel, "How sure…"))
    assert column(panel, "ranks")["2"] == "1 to 1"
    assert "stay" in panel.results.head.text()
    assert "touch" in panel.results.findings
    name, write = panel._repeats_file()
    write(tmp_path / name)
    assert FlowRepeats.load(tmp_path / name).repeats == 4
    panel.source_box.choose(viewer.layers["corners"], 3)
    done(qtbot, panel)
    assert not any(column(panel, "ranks").values())


def test_undo_brings_a_result_back(viewer, qtbot, moved):
    history = history_of(viewer)
    history.note_act()
    before, first = moved.found, moved.table.item(0, 1).text()
    history.note_act()
    moved.place(PLACES[3])
    done(qtbot, moved)
    history.note_act()
    assert moved.found is not before
    history.go(-1)
    done(qtbot, moved)
    assert moved.found is before
    assert moved.table.item(0, 1).text() == first


def test_its_script_makes_the_same_map(viewer, qtbot, moved, monkeypatch, tmp_path):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(moved), tmp_path, monkeypatch)
    np.testing.assert_array_equal(made.layers["flow of source"].data, viewer.layers["flow of source"].data)


def test_what_is_missing_is_said(viewer, qtbot, panel):
    panel.source_box.layer_box.take_back(None)
    assert "where fibers start, or click" in error_after_run(qtbot, panel)
    viewer.layers.clear()
    forget_choices(panel)
    assert "no FODs or fixels" in error_after_run(qtbot, panel)

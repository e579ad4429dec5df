"""The dock widget Connectome."""

import csv

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.operations import run
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.diffusion.samples import brain_atlas_layers
from napari_gpubio.fibers.gui import ConnectomePanel
from napari_gpubio.gui.looks import RangeFilter, set_filter
from napari_gpubio.tractograms.connectome import Connectome, connectome
from napari_gpubio.tractograms.gui.fibers import fibers_of
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.gui.tensor_samples import saved
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

FIBERS, ATLAS = sample_path("brain_phantom/bundles.trk"), sample_path("brain_phantom/atlas.nii.gz")


@pytest.fixture(scope="module")
def expected():
    return connectome(FIBERS, diffusion.io.read_atlas(ATLAS))


@pytest.fixture
def panel(viewer, qtbot):
    """A panel over the phantom's bundles and regions."""
    tractograms.show(viewer, FIBERS)
    ((labels, keywords, _),) = brain_atlas_layers()
    viewer.add_labels(labels, **keywords)
    yield from until_the_end(qtbot, viewer, ConnectomePanel(viewer))


@pytest.fixture
def counted(panel, qtbot):
    """The panel after a run."""
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    return panel


def choose(box, data):
    box.setCurrentIndex(box.findData(data))


def busiest(matrix):
    """Row and column of the largest cell."""
    return tuple(int(place) for place in np.unravel_index(np.nanargmax(matrix), matrix.shape))


def test_the_matrix_follows_what_is_chosen(counted, expected):
    np.testing.assert_array_equal(counted.matrix(), expected.matrix())
    choose(counted.quantity, "length_mm")
    np.testing.assert_array_equal(counted.matrix(), expected.matrix("length_mm"))
    choose(counted.statistic, "max")
    counted.per_volume.setChecked(True)
    np.testing.assert_array_equal(counted.matrix(), expected.matrix("length_mm", statistic="max", per_node_volume=True))


@pytest.mark.daily
@pytest.mark.display
def test_a_cell_shows_its_fibers(viewer, counted, expected):
    row, column = busiest(expected.matrix())
    counted.plot.cell_picked.emit(row, column)
    shown = np.flatnonzero(viewer.layers["bundles"].shown)
    np.testing.assert_array_equal(shown, expected.fibers_of(expected.labels[row], expected.labels[column]))
    assert 0 < len(shown) < len(viewer.layers["bundles"].lines)
    button(counted, "All fibers").click()
    assert viewer.layers["bundles"].shown.all()


def test_the_matrix_becomes_a_layer_and_files(viewer, counted, expected, qtbot, monkeypatch, tmp_path):
    button(counted, "Matrix layer").click()
    layer = viewer.layers["bundles number of fibers"]
    np.testing.assert_array_equal(layer.data, expected.matrix())
    assert layer.units == viewer.layers["bundles"].units[-2:]
    for text, name in (("Save matrix…", "matrix.csv"), ("Save connectome…", "all.npz")):
        save_scripts_as(monkeypatch, tmp_path / name)
        button(counted, text).click()
    qtbot.waitUntil(lambda: not counted.results.files.is_busy, timeout=30_000)
    with (tmp_path / "matrix.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file))[1:] == list(expected.names)
    np.testing.assert_array_equal(Connectome.load(tmp_path / "all.npz").matrix(), expected.matrix())


def test_what_is_missing_is_reported(viewer, panel, qtbot):
    viewer.layers["brain phantom regions"].data = np.zeros((3, 3, 3), int)
    assert "empty" in error_after_run(qtbot, panel)
    viewer.layers["brain phantom regions"].data[0] = 1
    viewer.layers.remove("bundles")
    forget_choices(panel)
    assert "no fibers" in error_after_run(qtbot, panel)
    viewer.layers.clear()
    forget_choices(panel)
    assert "atlas" in error_after_run(qtbot, panel)


@pytest.mark.daily
def test_the_script_makes_the_same_matrix(viewer, counted, expected, monkeypatch, tmp_path):
    choose(counted.quantity, "length_mm")
    counted.show_cell(*busiest(expected.matrix()))
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(counted), tmp_path, monkeypatch)
    np.testing.assert_array_equal(made.layers["connectome"].data, np.nan_to_num(counted.matrix()))
    np.testing.assert_array_equal(made.layers["bundles"].shown, viewer.layers["bundles"].shown)


def test_only_fibers_that_are_shown_are_counted(viewer, counted, expected, qtbot):
    layer = viewer.layers["bundles"]
    whole = counted.matrix()
    set_filter(layer, RangeFilter("length_mm", high=80.0))
    wait_until(qtbot, lambda: not counted.stale_line.is_busy)
    assert "Made with other inputs: Fibers" in counted.stale_line.text()
    assert not counted.stale_line.isHidden()
    np.testing.assert_array_equal(counted.matrix(), whole)
    press_and_wait(qtbot, counted, counted.run_button)
    shown = layer.shown.copy()
    assert 0 < shown.sum() < len(shown)
    assert f"{shown.sum():,} of {len(shown):,} fibers are counted" in counted.results.findings
    np.testing.assert_array_equal(
        counted.matrix(), connectome(fibers_of(layer).select(shown), diffusion.io.read_atlas(ATLAS)).matrix()
    )
    cell = busiest(counted.matrix())
    counted.show_cell(*cell)
    assert layer.shown.sum() == counted.matrix()[cell]
    assert not (layer.shown & ~shown).any()
    wait_until(qtbot, lambda: not counted.stale_line.is_busy)
    assert counted.stale_line.isHidden(), "the fibers of a cell are among those that were counted"
    button(counted, "All fibers").click()
    np.testing.assert_array_equal(layer.shown, shown)
    np.testing.assert_array_equal(run(counted.script_layers()[0].output, device="cpu").values, counted.matrix())


def test_fibers_that_are_all_hidden_cannot_be_counted(viewer, panel, qtbot):
    viewer.layers["bundles"].set_filter("mine", np.zeros(len(viewer.layers["bundles"].lines), bool))
    assert "hidden by a filter" in error_after_run(qtbot, panel)


def test_a_matrix_is_marked_while_another_atlas_or_bundle_is_chosen(viewer, counted, qtbot):
    atlas, more = viewer.layers["brain phantom regions"], tractograms.show(viewer, FIBERS, "more")
    more.set_filter("mine", np.arange(len(more.lines)) < 50)
    other = viewer.add_labels(np.ones((4, 4, 4), int), name="another")
    for box, layer, back, what in (
        (counted.atlas_box, other, atlas, "Atlas"),
        (counted.fiber_source.box, more, viewer.layers["bundles"], "Fibers"),
    ):
        for chosen, is_marked in ((layer, True), (back, False)):
            box.choose(chosen)
            qtbot.mouseClick(counted.results, Qt.MouseButton.LeftButton)  # the panel is used
            wait_until(qtbot, lambda: not counted.stale_line.is_busy)
            assert counted.stale_line.isHidden() != is_marked
            assert not is_marked or what in counted.stale_line.text()


# -- geodesics --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """The coarse brain, from a file."""
    return diffusion.io.read_dwi(saved(coarse_brain(), tmp_path_factory.mktemp("scan")))


@pytest.fixture
def shot(viewer, panel, qtbot, scan):
    """The panel after a run of geodesics through the scan."""
    data, keywords, _ = scan_layer(scan, "scan")
    viewer.add_image(data, **keywords)
    panel.choose_device("cpu")
    panel.kind.setCurrentIndex(panel.kind.findText("new geodesics"))
    panel.geodesic_source.form.widget("seeds_per_region").value = 5
    panel.geodesic_source.form.widget("best_per_pair").value = 2
    panel.geodesic_source.directions_form.widget("count").value = 3
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    return panel


@pytest.mark.display
def test_the_best_geodesics_are_shown_with_their_scores(viewer, shot):
    layer = viewer.layers["brain phantom regions geodesics"]
    assert layer.color_by == shot.quantity.currentData() == "alignment_fa"
    assert np.nanmax(shot.matrix()) == pytest.approx(layer.per_fiber["alignment_fa"].max())
    assert "scan FA" in viewer.layers  # tensors that were fitted on the way
    row, column = busiest(shot.matrix())
    shot.plot.cell_picked.emit(row, column)
    shown = layer.per_fiber["alignment_fa"][layer.shown]
    assert 0 < len(shown) <= 4
    assert shown.max() == pytest.approx(shot.matrix()[row, column])


@pytest.mark.daily
def test_the_script_shoots_the_same_geodesics(viewer, shot, monkeypatch, tmp_path):
    shot.show_cell(*busiest(shot.matrix()))
    made = shown_by_script(script_of(shot), tmp_path, monkeypatch)
    np.testing.assert_array_equal(made.layers["connectome"].data, np.nan_to_num(shot.matrix()))
    np.testing.assert_array_equal(
        made.layers["brain phantom regions geodesics"].shown, viewer.layers["brain phantom regions geodesics"].shown
    )


def test_a_second_run_leaves_one_layer_of_geodesics(viewer, shot, qtbot):
    before = len(viewer.layers)
    press_and_wait(qtbot, shot, shot.run_button)
    assert len(viewer.layers) == before


def test_geodesics_without_tensors_are_reported(panel, qtbot):
    panel.kind.setCurrentIndex(panel.kind.findText("new geodesics"))
    assert "there are no tensors" in error_after_run(qtbot, panel)

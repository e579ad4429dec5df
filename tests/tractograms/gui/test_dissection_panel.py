"""The dock widget Dissect fibers."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio import tractograms
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import State, open_session, save_session
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion.operations import HeldRegion, OpenRegion
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.diffusion.samples import brain_atlas_layers
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.looks import RangeFilter, set_filter, show_layers
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.dissection import dissect, number, through
from napari_gpubio.tractograms.gui import DissectionPanel
from napari_gpubio.tractograms.gui.dissection.rules import AND, NUMBER, OR, Rule, dissection_of
from napari_gpubio.tractograms.gui.fibers import fibers_of, turn_to
from napari_gpubio.tractograms.io import read_tractogram
from napari_gpubio.tractograms.operations import FindClusters, OpenTractogram
from tests.dock_widgets import Mouse, button, run_script, script_of, undo, until_the_end
from tests.gui.counting_panel import CountingPanel

STEM, MOTOR_LEFT, MOTOR_RIGHT = 21, 3, 4


@pytest.fixture
def panel(viewer, qtbot):
    """A panel over the phantom's bundles and regions."""
    tractograms.show(viewer, sample_path("brain_phantom/bundles.trk"))
    ((labels, keywords, _),) = brain_atlas_layers()
    viewer.add_labels(labels, **keywords)
    yield from until_the_end(qtbot, viewer, DissectionPanel(viewer))


@pytest.fixture
def settle(panel, qtbot):
    """A function that waits for the fibers to follow."""

    def wait():
        qtbot.wait(20)
        qtbot.waitUntil(lambda: not panel.running and not panel.waiting, timeout=60_000)
        assert panel.message == ""

    return wait


def atlas(viewer):
    return viewer.layers["brain phantom regions"]


def fibers(viewer):
    return viewer.layers["bundles"]


def shown_bundles(viewer):
    layer = fibers(viewer)
    return set(np.unique(fibers_of(layer).per_fiber["bundle"][layer.shown]).astype(int).tolist())


@pytest.mark.daily
@pytest.mark.display
def test_rules_choose_fibers_as_they_are_made_and_undone(viewer, panel, settle):
    act = history_of(viewer).note_act
    act()
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    assert {2, 3} <= shown_bundles(viewer) < set(range(1, 13))
    act()
    panel.add_rule(Rule(layer=atlas(viewer), key=MOTOR_LEFT))
    settle()
    assert shown_bundles(viewer) == {2}
    act()
    row = panel.rules.rows[1]
    row.role.setCurrentIndex(row.role.findData("not_through"))
    settle()
    assert 3 in shown_bundles(viewer)
    undo(viewer)
    settle()
    assert shown_bundles(viewer) == {2}
    act()
    panel.add_rule(Rule(joiner=OR, layer=atlas(viewer), key=MOTOR_RIGHT))
    settle()
    assert {2, 3} <= shown_bundles(viewer)
    while panel.rules.rows:
        undo(viewer)
    settle()
    assert fibers(viewer).shown.all()


def test_a_sphere_is_followed_while_it_is_moved(viewer, panel, settle):
    panel.add_sphere()
    sphere = viewer.layers["sphere"]
    for center in ((20.0, -5.0, 0.0), (10.0, 30.0, 0.0)):  # z, y, x
        sphere.data = np.array([center]) / sphere.scale
        settle()
        ball = Sphere(name="", center_mm=center[::-1], radius_mm=10.0)
        expected = dissect(fibers_of(fibers(viewer)), through(ball), device="cpu")
        assert 0 < expected.sum() < len(expected)
        np.testing.assert_array_equal(fibers(viewer).shown, expected)


@pytest.mark.parametrize("shape", ["sphere", "box"])
def test_a_shape_is_dragged_by_its_middle_and_leaves_the_canvas_to_clicks(viewer, panel, settle, shape):
    viewer.dims.set_point(range(3), (20.0, -5.0, 0.0))
    active = viewer.layers.selection.active = fibers(viewer)
    getattr(panel, f"add_{shape}")()
    settle()
    layer = viewer.layers[shape]
    assert viewer.layers.selection.active is active
    assert str(layer.mode) == "pan_zoom"
    assert "sphere or box" in panel.tool.hint

    def middle():
        return np.asarray(layer.data_to_world(np.reshape(np.asarray(layer.data), (-1, 3)).mean(axis=0)))

    before = fibers(viewer).shown.copy()
    start = middle()
    end = np.add(start, (0.0, 12.0, 6.0))
    Mouse(viewer, zoom=4.0).drag(start, np.add(start, (0.0, 5.0, 0.0)), end)
    settle()
    np.testing.assert_allclose(middle(), end, atol=1e-6)
    assert not np.array_equal(fibers(viewer).shown, before)


def test_a_box_and_a_number(viewer, panel, settle):
    viewer.dims.set_point(0, 20.0)
    panel.add_box()
    panel.rules.rows[0].region_box.size_box.setValue(40.0)
    settle()
    with_box = np.count_nonzero(fibers(viewer).shown)
    assert 0 < with_box < len(fibers(viewer).lines)
    panel.add_rule(Rule(role=NUMBER, measure="length_mm", low=0.0, high=100.0))
    settle()
    short = dissect(fibers_of(fibers(viewer)), number("length_mm", 0, 100), device="cpu")
    assert np.count_nonzero(fibers(viewer).shown) <= min(with_box, short.sum())


def test_what_is_kept_becomes_a_bundle_and_a_map(viewer, panel, settle):
    assert not button(panel, "Keep as bundle").isEnabled()
    panel.keep_bundle()
    assert "nothing to keep" in panel.message
    panel.add_rule(Rule(layer=atlas(viewer), key=MOTOR_LEFT))
    settle()
    panel.keep_bundle()
    kept = viewer.layers["3: motor cortex, left"]
    assert len(kept.lines) == np.count_nonzero(fibers(viewer).shown)
    panel.add_density()
    settle()
    density = viewer.layers["3: motor cortex, left density (fibers)"]
    expected = tractograms.maps.density(fibers_of(kept), device="cpu")
    np.testing.assert_array_equal(np.sort(np.asarray(density.data).ravel()), np.sort(expected.ravel()))


def test_other_filters_hide_fibers_that_fit_which_do_not_count(viewer, panel, settle):
    layer = fibers(viewer)
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    fitting = layer.shown.copy()
    set_filter(layer, RangeFilter("length_mm", high=float(np.median(layer.per_fiber["length_mm"][fitting]))))
    shown = layer.shown.copy()
    assert 0 < shown.sum() < fitting.sum()
    assert not (shown & ~fitting).any()
    assert panel.results.table.rows[0].text == f"{shown.sum():,}"
    assert f"hide {fitting.sum() - shown.sum():,} more" in panel.results.findings
    panel.keep_bundle()
    kept = viewer.layers[-1]
    np.testing.assert_array_equal(fibers_of(kept).points, fibers_of(layer).select(shown).points)
    assert record_of(kept) == panel.operation().output("fibers")
    made = run(panel.operation().output("fibers"), device="cpu")
    np.testing.assert_array_equal(made.points, fibers_of(kept).points)
    before = set(viewer.layers)
    panel.add_density()
    settle()
    (density,) = set(viewer.layers) - before
    assert density.data.sum() == tractograms.maps.density(fibers_of(kept), device="cpu").sum()
    panel.rules.show_rules(panel.rules.rules()[:-1])
    panel.run()
    settle()
    assert layer.shown.sum() > shown.sum()
    assert not layer.shown.all(), "the range is still there"
    layer.shown = np.arange(len(layer.lines)) < 5  # by a script
    assert panel.results.table.rows[0].text == "5"
    panel.keep_bundle()
    assert len(viewer.layers[-1].lines) == 5
    made = run(record_of(viewer.layers[-1]), device="cpu")
    np.testing.assert_array_equal(made.points, fibers_of(layer).select(layer.shown).points)


def test_a_session_brings_the_sphere_of_a_rule_once_and_makes_a_kept_bundle_again(viewer, panel, settle, tmp_path):
    panel.add_sphere()
    viewer.layers["sphere"].data = np.array([(20.0, -5.0, 0.0)]) / viewer.layers["sphere"].scale
    settle()
    shown_now = int(fibers(viewer).shown.sum())
    assert 0 < shown_now < len(fibers(viewer).lines)
    panel.keep_bundle()
    kept = viewer.layers[-1]
    shown = drive(shown_steps(take_layers(viewer.layers)[0]))
    save_session(tmp_path / "s.zip", State((*shown,), (("dissection panel", panel.take_draft()()),)))
    state = open_session(tmp_path / "s.zip").state
    other = ViewerModel()
    for one in state.shown:
        show_layers(other, one, run(one.output, device="cpu"))
    np.testing.assert_array_equal(fibers_of(other.layers[kept.name]).points, fibers_of(kept).points)
    names = [one.name for one in other.layers]
    again = DissectionPanel(other)
    assert again.show_draft(state.drafts[0][1])
    assert [one.name for one in other.layers] == names == [one.name for one in viewer.layers]
    assert [rule.layer for rule in again.rules.rules()] == [other.layers["sphere"]]
    again.teardown()


def test_an_empty_result_and_a_missing_region_are_reported(viewer, panel, settle):
    panel.add_rule(Rule(role="both_ends", layer=atlas(viewer), key=11))
    settle()
    assert "No fiber fits" in panel.results.findings
    viewer.layers.remove(atlas(viewer))
    assert not panel.running
    panel.run()
    assert panel.message == "'brain phantom regions' was deleted; choose another layer, or open it again"
    panel.rules.show_rules((Rule(),))
    panel.run()
    assert "rule 1" in panel.message


def test_a_result_stays_and_says_that_the_layer_of_a_rule_was_deleted(viewer, panel, settle, qtbot):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    shown = fibers(viewer).shown.copy()
    qtbot.waitUntil(lambda: not panel.stale_line.is_busy)
    assert panel.stale_line.isHidden()
    deleted = viewer.layers.pop("brain phantom regions")
    qtbot.waitUntil(lambda: not panel.stale_line.isHidden())
    assert "'brain phantom regions' was deleted" in panel.stale_line.text()
    assert panel.rules.rows[0].region_box.layer_box.currentText() == "deleted: brain phantom regions"
    np.testing.assert_array_equal(fibers(viewer).shown, shown)
    viewer.add_layer(deleted)
    qtbot.waitUntil(panel.stale_line.isHidden)


def test_numbers_of_other_fibers_are_not_shown_as_those_of_the_chosen_ones(viewer, panel, settle):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    panel.rules.show_rules(())
    panel.run()
    settle()
    rows = panel.results.table.rows
    assert rows
    other = tractograms.show(viewer, sample_path("brain_phantom/bundles.trk"), name="other")
    assert panel.results.table.rows == rows
    panel.fibers_box.choose(other)
    assert not panel.results.table.rows


def test_other_fibers_stay_whole_until_they_are_asked_for(viewer, panel, settle):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    other = tractograms.show(viewer, sample_path("brain_phantom/bundles.trk"), name="other")
    panel.fibers_box.choose(other)
    assert panel.run_button.text() in panel.message
    assert not panel.is_busy
    panel.run()
    settle()
    assert not other.shown.all()


def test_the_fibers_that_the_user_turned_to_are_suggested(viewer, qtbot):
    newer, older = (tractograms.show(viewer, sample_path("brain_phantom/bundles.trk"), name=one) for one in "ab")
    viewer.layers.selection.active = older
    turn_to(newer)
    for panel in until_the_end(qtbot, viewer, DissectionPanel(viewer)):
        assert panel.fibers_box.layer is newer, "rather than the newest, or the active one"
        turn_to(older)
        other = CountingPanel(viewer)
        qtbot.addWidget(other)
        panel.come_to_front()
        assert panel.fibers_box.layer is older
        panel.add_sphere()
        qtbot.waitUntil(lambda panel=panel: not panel.running and not panel.waiting)
        turn_to(newer)
        other.come_to_front()
        panel.come_to_front()
        assert panel.fibers_box.layer is older, "which the rules are for"
        other.teardown()


def test_without_fibers_the_panel_says_what_to_open(viewer, qtbot):
    for panel in until_the_end(qtbot, viewer, DissectionPanel(viewer)):
        panel.run()
        assert "tractogram" in panel.message
        panel.add_rule(Rule())
        assert "tractogram" in panel.message


@pytest.mark.daily
def test_the_script_writes_the_same_fibers(viewer, panel, settle, tmp_path):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    panel.add_sphere()
    panel.add_rule(Rule(joiner=OR, role=NUMBER, measure="length_mm", low=150.0, high=1000.0))
    settle()
    shown = fibers(viewer).shown.copy()
    assert 0 < shown.sum() < len(shown)
    assert_script_writes(script_of(panel), tmp_path, fibers_of(fibers(viewer)).select(shown))


def assert_script_writes(text, folder, expected):
    """A copied script writes the fibers that are shown."""
    assert "HeldTractogram" not in text
    run_script(text, folder)
    (path,) = folder.glob("*.trx")
    found = read_tractogram(path)
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.offsets, expected.offsets)


def test_clusters_become_a_number_that_chooses_fibers(viewer, panel, settle, qtbot, tmp_path):
    panel.within.setValue(10.0)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        button(panel, "Find clusters").click()
    settle()
    layer = fibers(viewer)
    expected = tractograms.bundles.cluster(fibers_of(layer), 10.0).labels + 1
    np.testing.assert_array_equal(fibers_of(layer).per_fiber["cluster"], expected)
    assert layer.color_by == "cluster"
    assert layer.shown.all()
    panel.rules.rows[0].high.setValue(2.0)
    panel.rules.rows[0].high.edited.emit(2.0)
    settle()
    np.testing.assert_array_equal(layer.shown, expected <= 2)
    assert_script_writes(script_of(panel), tmp_path, fibers_of(layer).select(layer.shown))


def test_clusters_are_in_the_record_of_the_layer(viewer, panel, settle, qtbot):
    layer, opened = fibers(viewer), OpenTractogram.at(sample_path("brain_phantom/bundles.trk")).output()
    layer.metadata[KEY][RECORD] = record_of_output(opened)
    panel.within.setValue(10.0)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        button(panel, "Find clusters").click()
    settle()
    assert record_of(layer) == panel.operation().fibers == FindClusters(fibers=opened, within_mm=10.0).output()


def test_equal_rules_of_several_alternatives_are_all_in_the_record():
    at = OpenTractogram.at(sample_path("brain_phantom/bundles.trk")).output()
    rules = [Rule(OR, NUMBER, measure="a"), Rule(OR, NUMBER, measure="b"), Rule(AND, NUMBER, measure="c")]
    rules += [Rule(OR, NUMBER, measure="d"), Rule(AND, NUMBER, measure="c")]
    made = dissection_of(at, [(rule, None) for rule in rules])
    numbers = [[one.number for one in group.range] for group in (made, *(ref.of for ref in made.alternatives))]
    assert numbers == [["a"], ["b", "c"], ["d", "c"]]


def test_the_panel_keeps_equal_rules(viewer, panel, settle):
    for joiner in (AND, OR):
        panel.add_rule(Rule(joiner=joiner, layer=atlas(viewer), key=STEM))
        panel.add_rule(Rule(layer=atlas(viewer), key=MOTOR_LEFT))
    settle()
    made = panel.operation()
    assert [len(group.include) for group in (made, *(ref.of for ref in made.alternatives))] == [2, 2]


def test_masks_and_ends_of_what_is_kept(viewer, panel, settle, qtbot):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    kept = fibers_of(fibers(viewer)).select(fibers(viewer).shown)
    for text, expected in (
        ("Mask", maps.mask(kept, device="cpu")),
        ("End-point map", maps.density(kept, "ends", device="cpu")),
    ):
        before = set(viewer.layers)
        with qtbot.waitSignal(panel.run_finished, timeout=60_000):
            button(panel, text).click()
        (layer,) = set(viewer.layers) - before
        assert layer.data.sum() == expected.sum() > 0


def test_the_record_stays_what_it_was_whatever_happens_to_layers(viewer, panel, settle):
    panel.add_rule(Rule(layer=atlas(viewer), key=STEM))
    settle()
    panel.keep_bundle()
    kept, made = viewer.layers[-1], panel.operation()
    assert record_of(kept) == made.output("fibers")
    (region,) = made.include
    assert isinstance(region.of, OpenRegion)
    atlas(viewer).data[:2] = STEM  # painted
    atlas(viewer).name = "other regions"
    assert panel.operation() == made
    panel.run()
    settle()
    (region,) = panel.operation().include
    assert isinstance(region.of, HeldRegion)
    assert record_of(kept) == made.output("fibers")

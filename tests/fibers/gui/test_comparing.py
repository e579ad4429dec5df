"""The dock widget "Fiber tracking": bundles keep the settings that made them; duplicates, undo, other layers."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio import tractograms
from napari_gpubio.gui.looks import options_of
from tests.dock_widgets import moved
from tests.fibers.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    User,
    add_labels,
    add_maps,
    add_panel,
    add_scan,
    assert_same,
)

# -- settings ---------------------------------------------------------------------------------------------------------


def test_every_bundle_tells_the_settings_that_made_it(two):
    assert "hamiltonian, inverse metric" in two.summary
    assert "10 seeds within 3 mm; 5 directions each in a cone of 15°" in two.summary
    assert not two.button("Load settings").isEnabled()
    two.set("method", "eudx")
    two.set("fa_stop", 0.35)
    assert "eudx" in two.summary
    assert "stop below FA 0.35" in two.summary
    two.list.setCurrentRow(0)
    assert "hamiltonian" in two.summary
    assert "0.35" not in two.summary
    tips = [two.list.item(row).toolTip() for row in range(2)]
    assert "hamiltonian" in tips[0]
    assert "eudx" in tips[1]
    assert "Seed at (-22, -18, 12) mm" in tips[1]


def test_loading_settings_changes_the_form_and_no_fibers(two):
    first = two.fibers("bundle 1")
    two.set("method", "eudx")
    two.panel.seed_box.form.widget("points").value = 20
    two.settle()
    two.list.setCurrentRow(0)
    two.press("Load settings")
    assert two.panel.settings_form.widget("method").value == "hamiltonian"
    assert two.panel.seed_box.form.value().points == 10
    assert not two.button("Load settings").isEnabled()
    assert two.fibers("bundle 1") is first
    two.set("min_length_mm", 30.0)  # follows the form again
    assert_same(two.fibers("bundle 1"), two.by_api())


def test_a_duplicate_has_the_same_seeds_and_takes_other_settings(viewer, one):
    layer, before = one.layers["bundle 1"], one.fibers()
    layer.colormap, layer.color_by, layer.line_style = "magma", "mean_fa", "tubes"
    one.filter_by("length_mm", 40.0, None)
    colors = layer.track_colors
    one.press("Duplicate")
    assert one.names == ["bundle 1", "bundle 1 copy"]
    assert one.bundle.name == "bundle 1 copy"
    twin = one.layers["bundle 1 copy"]
    assert options_of(twin) == options_of(layer)
    assert np.array_equal(twin.shown, layer.shown)
    assert np.array_equal(twin.track_colors, colors)
    one.set("method", "eudx")
    assert one.fibers("bundle 1") is before
    assert_same(one.fibers("bundle 1 copy"), one.by_api(CALLOSUM))
    assert np.array_equal(layer.track_colors, colors)  # the copy was painted, not the original
    assert options_of(twin)["color_by"] == "mean_fa"
    # of the two seeds that lie on each other the current one is dragged
    one.drag(CALLOSUM, moved(CALLOSUM, 0.0, -8.0, 0.0))
    assert [tuple(np.round(b.center_mm, 1)) for b in one.panel.bundles] == [CALLOSUM, (0.0, -13.0, 22.0)]
    for expected in ([CALLOSUM, CALLOSUM], [CALLOSUM, CALLOSUM], [CALLOSUM]):  # the method is a step between
        one.undo()
        assert np.allclose([b.center_mm for b in one.panel.bundles], expected, atol=1e-3)


def test_a_filter_stays_when_the_fibers_are_traced_again(one):
    one.filter_by("length_mm", 40.0, None)
    one.set("max_length_mm", 60.0)
    layer = one.layers["bundle 1"]
    lengths = layer.per_fiber["length_mm"]
    assert np.array_equal(layer.shown, lengths >= 40.0)
    assert 0 < layer.shown.sum() < len(lengths)
    assert one.slider.value()[0] == 40.0


# -- undo -------------------------------------------------------------------------------------------------------------


def test_undo_restores_a_removed_bundle_with_its_looks(viewer, two):
    two.list.setCurrentRow(0)
    layer = two.layers["bundle 1"]
    layer.colormap, layer.color_by, layer.line_style, layer.opacity = "magma", "mean_fa", "tubes", 0.5
    two.filter_by("length_mm", 30.0, 80.0)
    two.list.currentItem().setText("callosum")
    layer.visible = False
    options, shown, fibers = options_of(layer), layer.shown.copy(), two.fibers("callosum")
    order = [each.name for each in viewer.layers]
    two.press("Remove")
    assert "callosum" not in two.layers
    two.undo()
    back = two.layers["callosum"]
    assert two.fibers("callosum") is fibers
    assert options_of(back) == options
    assert np.array_equal(back.shown, shown)
    assert [each.name for each in viewer.layers] == order
    assert two.bundle.name == "callosum"
    assert two.panel.results.layer is back
    assert two.slider.value() == (30.0, 80.0)


# -- napari's list of layers ------------------------------------------------------------------------------------------


def test_a_layer_that_is_renamed_or_chosen_in_naparis_list_is_followed(viewer, two):
    two.layers["bundle 1"].name = "callosum"
    assert two.names == ["callosum", "bundle 2"]
    viewer.layers.selection.active = viewer.layers["callosum"]
    assert two.bundle.name == "callosum"
    assert two.panel.results.layer.name == "callosum"
    mine = tractograms.show(viewer, two.fibers("bundle 2"), "mine")
    assert two.panel.results.layer == mine
    assert two.summary == ""
    two.list.setCurrentRow(1)
    viewer.layers.selection.active = None
    viewer.layers.selection.active = mine
    assert two.panel.results.layer == mine


def test_fibers_of_a_region_tell_their_settings_too(viewer, user):
    layer, _ = add_labels(viewer, CALLOSUM, size=3, label=4)
    user.seed_from(layer, 4)
    user.press("Track")
    assert "a seed in each voxel of label 4 of region" in user.summary


def test_hidden_fibers_are_reported(one):
    one.layers["bundle 1"].visible = False
    one.qtbot.wait(10)
    assert "hidden" in one.panel.results.findings
    one.click(moved(CALLOSUM, 0.0, -6.0, 0.0))  # hidden fibers are traced, and stay hidden
    assert not one.layers["bundle 1"].visible
    one.layers["bundle 1"].visible = True
    one.qtbot.wait(10)
    assert "hidden" not in one.panel.results.findings


@pytest.mark.parametrize("act", ["rename", "hide", "lock"])
def test_a_layer_that_is_changed_during_a_run(viewer, one, request, errors, act):
    held, layer = request.getfixturevalue("held"), one.layers["bundle 1"]
    held.begin(one, moved(CALLOSUM, 0.0, -6.0, 0.0))
    if act == "rename":
        layer.name = "callosum"
    elif act == "hide":
        layer.visible = False
    else:
        layer.locked = True
    held.go.set()
    one.settle()
    assert not errors()
    (name,) = one.layers
    assert name == ("callosum" if act == "rename" else "bundle 1")
    assert one.names == [name]
    assert layer.visible == (act != "hide")
    assert_same(one.fibers(name), one.by_api())


def test_the_scan_renamed_hidden_or_deleted_during_its_fit(viewer, empty, held, errors):
    scan = add_scan(viewer)
    held.begin(empty)
    scan.name, scan.visible = "renamed", False
    held.go.set()
    empty.settle()
    assert not errors()
    assert "bundle 1" in empty.layers
    assert empty.message == "" or "voxel" in empty.message


# -- panels and viewers -----------------------------------------------------------------------------------------------


def test_a_new_panel_takes_over_the_bundles_of_a_closed_one(viewer, two, qtbot):
    before = {name: two.fibers(name) for name in two.layers}
    two.panel.teardown()
    panel = add_panel(viewer)
    user = User(viewer, panel, qtbot)
    try:
        assert user.names == ["bundle 1", "bundle 2"]
        assert {name: user.fibers(name) for name in user.layers} == before
        user.click(moved(CORTICOSPINAL, 0.0, 5.0, 0.0))
        assert user.fibers("bundle 1") is before["bundle 1"]
        user.click(moved(CALLOSUM, 0.0, 12.0, 0.0), "Shift")
        assert sorted(user.layers) == ["bundle 1", "bundle 2", "bundle 3"]
    finally:
        panel.teardown()


def test_two_viewers_do_not_meddle_with_each_other(viewer, one, qtbot):
    other = ViewerModel()
    panel = add_panel(other)
    qtbot.addWidget(panel)
    add_maps(other)
    user, before = User(other, panel, qtbot), one.fibers()
    try:
        user.click(CORTICOSPINAL)
        assert np.allclose(user.seed, CORTICOSPINAL, atol=1e-3)
        assert one.fibers() is before
        assert one.names == user.names == ["bundle 1"]
        other.layers.append(viewer.layers.pop(viewer.layers.index("bundle 1")))  # fibers of the other window
        user.press("Remove")
        assert list(user.layers) == ["bundle 1 [1]"]
        assert one.names == ["bundle 1"]
    finally:
        panel.teardown()


@pytest.mark.parametrize("act", ["Duplicate", "Remove", "Load settings"])
def test_buttons_without_a_bundle_do_nothing(user, act):
    assert not user.button(act).isEnabled()


def test_a_seed_outside_of_the_scan_is_refused_and_nothing_is_lost(one):
    before = one.fibers()
    one.drag(CALLOSUM, (900.0, 900.0, 22.0))
    assert "outside the volume" in one.message
    assert "(900, 900, 22) mm" in one.message
    assert one.fibers() is before or np.array_equal(one.fibers().points, before.points)
    assert np.allclose(one.markers, [CALLOSUM], atol=1e-3)

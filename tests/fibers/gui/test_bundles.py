"""The dock widget "Fiber tracking": bundles and label regions."""

import numpy as np
import pytest

from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.space import viewer_to_world
from napari_gpubio.tractograms.gui.fibers import turned_to_last
from tests.dock_widgets import MILLISECONDS, Mouse, moved
from tests.fibers.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    FEW,
    add_labels,
    add_scan,
    assert_same,
    field,
    on_screen,
)

# -- bundles ----------------------------------------------------------------------------------------------------------


def test_choosing_a_bundle_shows_its_numbers(two):
    numbers = {}
    for row in (0, 1, 0, 1):
        two.list.setCurrentRow(row)
        assert two.panel.results.layer.name == f"bundle {row + 1}"
        numbers.setdefault(row, two.numbers)
        assert two.numbers["kept"].startswith(f"{len(two.fibers(f'bundle {row + 1}'))} of ")
        assert two.numbers == numbers[row]
    assert numbers[0] != numbers[1]


def test_renaming_a_bundle_renames_its_fibers(two):
    two.history.note_act()
    two.list.currentItem().setText(" left CST ")
    assert two.names == list(two.layers) == ["bundle 1", "left CST"]
    two.history.note_act()
    two.list.currentItem().setText("bundle 1")
    assert "cannot be the bundle's name" in two.message
    assert two.names == ["bundle 1", "left CST"]
    two.click(moved(CORTICOSPINAL, 0.0, 8.0, 8.0))
    assert sorted(two.layers) == ["bundle 1", "left CST"]
    two.list.setCurrentRow(0)
    two.undo()  # the move of the seed
    fibers = {id(two.fibers(name)) for name in two.layers}
    two.undo()  # the name
    assert two.names == sorted(two.layers) == ["bundle 1", "bundle 2"]
    assert {id(two.fibers(name)) for name in two.layers} == fibers


def test_removing_a_bundle_removes_its_fibers_and_undo_brings_both_back(viewer, two):
    before = two.fibers("bundle 2")
    two.press("Remove")
    assert two.names == list(two.layers) == ["bundle 1"]
    assert len(two.markers) == 1
    two.undo()
    assert two.names == ["bundle 1", "bundle 2"]
    assert_same(two.fibers("bundle 2"), before)
    assert len(two.markers) == 2
    for _ in range(2):
        two.press("Remove")
    assert not two.button("Remove").isEnabled()
    assert not two.layers
    assert len(viewer.layers["seeds"].data) == 0
    assert any("Click in the brain" in text for text in two.texts)


def test_the_bundle_that_is_chosen_in_the_list_is_what_other_panels_suggest(viewer, two):
    for index, name in enumerate(("bundle 1", "bundle 2")):
        two.panel.seed_box.names.setCurrentRow(index)
        assert turned_to_last(viewer.layers) == viewer.layers[name]


def test_markers_that_were_deleted_come_back_with_the_next_seed_and_not_before(viewer, two):
    """napari selects another layer after one was deleted, and so a bundle."""
    viewer.layers.remove("seeds")
    viewer.layers.selection.active = two.layers["bundle 1"]
    two.list.setCurrentRow(1)
    two.list.currentItem().setText("left CST")
    assert "seeds" not in viewer.layers
    two.click(moved(CORTICOSPINAL, 0.0, 8.0, 8.0))
    assert len(two.markers) == 2


def test_undo_of_a_click(user):
    assert not user.history.can_undo
    user.click(CALLOSUM)
    first = user.fibers()
    user.click(moved(CALLOSUM, 0.0, -12.0, 0.0))
    user.undo()
    assert np.allclose(user.markers, [CALLOSUM], atol=1e-4)
    assert_same(user.fibers(), first)
    user.undo()
    assert not len(user.panel.bundles)
    assert not user.layers
    assert not user.history.can_undo


def test_new_starts_a_bundle_in_the_middle_of_what_is_shown(viewer, user):
    user.go_to(CORTICOSPINAL)
    shown = viewer_to_world(viewer.dims.point)
    user.press("New")
    assert np.allclose(user.seed, shown, atol=1e-4)
    assert "bundle 1" in user.layers


# -- label regions ----------------------------------------------------------------------------------------------------


def test_seeding_from_a_label_region(viewer, user):
    layer, array = add_labels(viewer, CALLOSUM, size=3, label=4)
    user.seed_from(layer, 4)
    user.press("Track")
    assert user.message == ""
    seeds, settings = fiber_tracking.seeds.label_points(array, field().affine, 4), user.panel.settings_form.value()
    expected = fiber_tracking.track(field(), seeds, FEW, settings, device="auto")
    assert expected.parameters["launched"] == 27 * 5
    assert_same(user.fibers("region 4"), expected)
    user.seed_from(viewer.add_labels(np.zeros((4, 5, 6), int), name="nothing painted"))
    user.press("Track")
    assert "'nothing painted'" in user.message
    user.seed_from(viewer.add_labels(np.ones((4, 5, 6), int), name="elsewhere"))
    user.press("Track")
    assert "'label 1 of elsewhere'" in user.message
    assert "(6, 5, 4)" in user.message


@pytest.mark.parametrize("with_scan", [False, True])
def test_a_region_can_be_drawn_with_naparis_own_button(viewer, user, with_scan):
    if with_scan:
        add_scan(viewer).visible = False
        user.panel.source_box.choose(viewer.layers["study FA"])
    viewer._new_labels()
    drawn = viewer.layers[-1]
    place = np.concatenate([[0.0] * (drawn.ndim - 3), on_screen(CALLOSUM)])
    drawn.paint(drawn.world_to_data(place), 1)
    user.go_to(CALLOSUM)
    user.seed_from(drawn)
    user.press("Track")
    assert user.message == ""
    fibers = user.fibers(f"{drawn.name} 1")
    assert np.linalg.norm(np.asarray(fibers.parameters["seeds_mm"]) - CALLOSUM, axis=1).min() < 2.5
    assert len(fibers)


def test_the_mouse_seeds_from_the_click_again(viewer, user):
    layer, _ = add_labels(viewer, CORTICOSPINAL)
    user.seed_from(layer)
    user.click(CALLOSUM)
    assert user.panel.seed_box.region_box.layer is None
    assert list(user.layers) == ["bundle 1"]
    user.seed_from(layer)
    mouse, target = Mouse(viewer), on_screen(moved(CALLOSUM, 0.0, -6.0, 0.0))
    mouse.press(on_screen(CALLOSUM))
    assert user.panel.seed_box.region_box.layer is None
    mouse.move(target)
    user.qtbot.waitUntil(lambda: not user.panel.is_busy, timeout=MILLISECONDS)
    user.qtbot.wait(20)
    shown = list(user.layers)  # the preview is that of the seed that is dragged
    mouse.release(target)
    user.settle()
    assert shown == ["bundle 1"]

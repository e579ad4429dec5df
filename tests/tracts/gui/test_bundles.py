"""The dock widget "Fiber tracking": bundles and label regions."""

import numpy as np
import pytest

from napari_gpubio import tracts
from napari_gpubio.core.space import viewer_to_world
from tests.dock_widgets import MILLISECONDS, Mouse, button, moved
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    FEW,
    add_labels,
    add_scan,
    assert_same,
    choose_in_list,
    click,
    fibers_layers,
    field,
    go_to,
    markers,
    names_in_list,
    on_screen,
    rename_in_list,
    seed_from,
    settle,
    shown_numbers,
    shown_texts,
    tractogram,
)

# -------------------------------------------------------------------------------------------------------- bundles


def test_choosing_a_bundle_shows_its_numbers(viewer, two, qtbot):
    numbers = {}
    for row in (0, 1, 0, 1):
        choose_in_list(two, row)
        fibers = tractogram(fibers_layers(viewer)[f"bundle {row + 1}"])
        assert two.results.layer.name == f"bundle {row + 1}"
        numbers.setdefault(row, shown_numbers(two))
        assert shown_numbers(two)["number"].startswith(f"{len(fibers)} of ")
        assert shown_numbers(two) == numbers[row]
    assert numbers[0] != numbers[1]


def test_renaming_a_bundle_renames_its_fibers(viewer, two, qtbot):
    rename_in_list(two, " left CST ")
    assert names_in_list(two) == ["bundle 1", "left CST"]
    assert list(fibers_layers(viewer)) == ["bundle 1", "left CST"]
    rename_in_list(two, "bundle 1")
    assert "cannot be the bundle's name" in two.message
    assert names_in_list(two) == ["bundle 1", "left CST"]
    click(viewer, moved(CORTICOSPINAL, 0.0, 8.0, 8.0))
    settle(qtbot, two)
    assert sorted(fibers_layers(viewer)) == ["bundle 1", "left CST"]


@pytest.mark.display
def test_removing_a_bundle_removes_its_fibers_and_undo_brings_both_back(viewer, two, qtbot):
    before = tractogram(fibers_layers(viewer)["bundle 2"])
    button(two, "Remove").click()
    assert names_in_list(two) == ["bundle 1"]
    assert list(fibers_layers(viewer)) == ["bundle 1"]
    assert len(markers(viewer)) == 1
    button(two, "Undo").click()
    settle(qtbot, two)
    assert names_in_list(two) == ["bundle 1", "bundle 2"]
    assert_same(tractogram(fibers_layers(viewer)["bundle 2"]), before)
    assert len(markers(viewer)) == 2


def test_removing_every_bundle(viewer, two):
    for _ in range(2):
        button(two, "Remove").click()
    assert not button(two, "Remove").isEnabled()
    assert not fibers_layers(viewer)
    assert len(viewer.layers["seeds"].data) == 0
    assert any("Click in the brain" in text for text in shown_texts(two))


def test_undo_of_a_click(viewer, panel, qtbot):
    assert not button(panel, "Undo").isEnabled()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    first = tractogram(fibers_layers(viewer)["bundle 1"])
    click(viewer, moved(CALLOSUM, 0.0, -12.0, 0.0))
    settle(qtbot, panel)
    button(panel, "Undo").click()
    settle(qtbot, panel)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), first)
    button(panel, "Undo").click()
    settle(qtbot, panel)
    assert not len(panel.bundles)
    assert not fibers_layers(viewer)
    assert not button(panel, "Undo").isEnabled()


def test_undo_of_a_new_name_keeps_the_fibers(viewer, two, qtbot):
    choose_in_list(two, 0)
    rename_in_list(two, "callosum")
    choose_in_list(two, 1)
    fibers = {id(tractogram(layer)) for layer in fibers_layers(viewer).values()}
    button(two, "Undo").click()
    settle(qtbot, two)
    assert names_in_list(two) == ["bundle 1", "bundle 2"]
    assert sorted(fibers_layers(viewer)) == ["bundle 1", "bundle 2"]
    assert {id(tractogram(layer)) for layer in fibers_layers(viewer).values()} == fibers


def test_new_starts_a_bundle_in_the_middle_of_what_is_shown(viewer, panel, qtbot):
    go_to(viewer, CORTICOSPINAL)
    shown = viewer_to_world(viewer.dims.point)
    button(panel, "New").click()
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.center_mm, shown, atol=1e-4)
    assert "bundle 1" in fibers_layers(viewer)


# --------------------------------------------------------------------------------------------------- label regions


def test_seeding_from_a_label_region(viewer, panel, qtbot):
    layer, array = add_labels(viewer, CALLOSUM, size=3, label=4)
    seed_from(panel, layer, 4)
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.message == ""
    expected = tracts.track(
        field(), tracts.seeds.label_points(array, field().affine, 4), FEW, panel.settings_form.value(), device="auto"
    )
    assert expected.parameters["launched"] == 27 * 5
    assert_same(tractogram(fibers_layers(viewer)["region 4"]), expected)
    seed_from(panel, layer, 5)
    panel.run_button.click()
    settle(qtbot, panel)
    assert "no voxel has label 5" in panel.message
    assert "4" in panel.message


def test_a_label_region_on_another_grid_is_a_sentence(viewer, panel, qtbot):
    layer = viewer.add_labels(np.ones((4, 5, 6), int), name="elsewhere")
    seed_from(panel, layer)
    panel.run_button.click()
    settle(qtbot, panel)
    assert "'elsewhere'" in panel.message
    assert "(6, 5, 4)" in panel.message


@pytest.mark.parametrize("with_scan", [False, True])
def test_a_region_can_be_drawn_with_naparis_own_button(viewer, panel, qtbot, with_scan):
    if with_scan:
        add_scan(viewer).visible = False
        panel.source_box.choose(viewer.layers["study FA"])
    viewer._new_labels()
    drawn = viewer.layers[-1]
    place = np.concatenate([[0.0] * (drawn.ndim - 3), on_screen(CALLOSUM)])
    drawn.paint(drawn.world_to_data(place), 1)
    go_to(viewer, CALLOSUM)
    seed_from(panel, drawn)
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.message == ""
    fibers = tractogram(fibers_layers(viewer)[f"{drawn.name} 1"])
    seeds = np.asarray(fibers.parameters["seeds_mm"])
    assert np.linalg.norm(seeds - CALLOSUM, axis=1).min() < 2.5
    assert len(fibers)


def test_a_click_seeds_from_the_click_again(viewer, panel, qtbot):
    layer, _ = add_labels(viewer, CORTICOSPINAL)
    seed_from(panel, layer)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert panel.seed_box.label_layer is None
    assert list(fibers_layers(viewer)) == ["bundle 1"]


def test_a_drag_previews_the_seed_that_is_dragged(viewer, one, qtbot):
    layer, _ = add_labels(viewer, CORTICOSPINAL)
    seed_from(one, layer)
    target = moved(CALLOSUM, 0.0, -6.0, 0.0)
    mouse = Mouse(viewer)
    mouse.press(on_screen(CALLOSUM))
    mouse.move(on_screen(target))
    qtbot.waitUntil(lambda: one._preview._running is None, timeout=MILLISECONDS)
    qtbot.wait(20)
    shown = list(fibers_layers(viewer))
    mouse.release(on_screen(target))
    settle(qtbot, one)
    assert shown == ["bundle 1"]

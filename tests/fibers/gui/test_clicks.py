"""The dock widget "Fiber tracking": first steps, and what a click does.

Most tests use napari's viewer model, without a window; what a window adds (drawing, docks, a real mouse) is tested in
one, under the marker ``display``.
"""

import numpy as np
import pytest

from napari_gpubio import diffusion
from napari_gpubio.fibers.gui import TrackingPanel
from tests.dock_widgets import Mouse
from tests.fibers.gui.tracking_samples import (
    AIR,
    CALLOSUM,
    CORTICOSPINAL,
    add_labels,
    add_scan,
    assert_same,
    field,
    on_screen,
    voxel_at,
)

# -- first steps ------------------------------------------------------------------------------------------------------


def test_an_empty_viewer(viewer, empty):
    assert empty.panel.results.layer is None
    assert any("Click in the brain" in text for text in empty.texts)
    assert "open a diffusion scan" in empty.panel.source_box.placeholderText()
    buttons = (empty.button(text).click for text in ("Track", "New", "Copy as Python"))
    for act in (*buttons, lambda: Mouse(viewer).click((1.0, 2.0))):
        empty.panel.clear_message()
        act()
        assert "there are no tensors" in empty.message
        assert "open a diffusion scan" in empty.message
    assert not len(empty.panel.bundles)
    assert not len(viewer.layers)


@pytest.mark.daily
@pytest.mark.display
def test_a_click_puts_the_seed_there_and_shows_what_the_api_gives(viewer, user):
    active, steps = viewer.layers.selection.active, [r.step for r in viewer.dims.range]
    user.click(CALLOSUM)
    assert np.allclose(user.seed, CALLOSUM, atol=1e-4)
    assert np.allclose(user.markers, [CALLOSUM], atol=1e-4)
    ((name, layer),) = user.layers.items()
    assert name == "bundle 1"
    assert_same(user.fibers(), user.by_api())
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(user.fibers().points[0]), atol=1e-4)
    assert viewer.layers.selection.active is active
    assert viewer.layers[-1].name == "seeds"
    assert user.numbers["kept"] == f"{len(user.fibers())} of 50"
    lengths = user.fibers().per_fiber["length_mm"]
    assert user.numbers["length, range"] == f"{lengths.min():.1f} – {lengths.max():.1f}"
    assert user.message == ""
    assert np.allclose([r.step for r in viewer.dims.range], steps)  # one tick of a slider stays one slice


@pytest.mark.display
def test_a_click_on_a_scan_fits_it_first(viewer, empty):
    scan = add_scan(viewer)
    empty.click(CALLOSUM)
    assert [layer.name for layer in viewer.layers] == ["scan", "scan FA", "scan DEC", "bundle 1", "seeds"]
    assert not scan.visible
    assert empty.panel.source_box.layer.name == "scan FA"
    assert np.array_equal(empty.panel.field.tensors, field().tensors)
    assert_same(empty.fibers(), empty.by_api())


def test_clicks_that_give_no_fibers_are_sentences_and_lose_nothing(viewer, one):
    before = one.fibers()
    one.click(AIR)
    assert "background" in one.message
    assert "(60, 60, 70) mm" in one.message
    Mouse(viewer).click((0.0, 500.0, 500.0))
    one.settle()
    assert "outside the volume" in one.message
    assert "500" in one.message, "the click, not one of the points around it"
    assert one.fibers() is before
    # what is on screen belongs together: the marker, the list and the fibers
    assert np.allclose(one.markers, [CALLOSUM], atol=1e-4)
    assert np.allclose(one.seed, CALLOSUM, atol=1e-4)
    one.set("min_length_mm", 900.0)
    one.click(CALLOSUM)
    assert "None of the 50 fibers is longer than 900 mm" in one.message
    assert one.numbers["kept"] == "0 of 50"


def test_only_a_left_click_that_does_not_move_or_paint_seeds(viewer, user):
    place = on_screen(CALLOSUM)
    Mouse(viewer, button=2).click(place)
    user.drag(place, place + 5, place + 9, world=False)
    labels, _ = add_labels(viewer, CORTICOSPINAL)
    viewer.layers.selection.active = labels
    labels.mode = "paint"
    user.click(CALLOSUM)
    assert not len(user.panel.bundles)


def test_shift_and_click_starts_another_bundle(viewer, two):
    assert two.names == ["bundle 1", "bundle 2"]
    assert np.allclose(two.markers, [CALLOSUM, CORTICOSPINAL], atol=1e-4)
    for name, center in (("bundle 1", CALLOSUM), ("bundle 2", CORTICOSPINAL)):
        assert np.linalg.norm(two.fibers(name).points - np.asarray(center, np.float32), axis=1).min() < 3.5
    markers = viewer.layers["seeds"]
    assert len({tuple(color) for color in np.round(markers.border_color, 3)}) == 2
    assert not markers.face_color[:, 3].any(), "rings, through which one sees the voxel"
    assert max(markers.canvas_size_limits) < 20, "a small one at any zoom"


def test_in_3d_the_brightest_voxel_under_the_click_is_seeded(viewer, user):
    viewer.dims.ndisplay = 3
    Mouse(viewer).click((-500.0, 400.0, 400.0))
    assert "click in the brain" in user.message
    assert not len(user.panel.bundles)
    _, y, x = on_screen(CALLOSUM)
    Mouse(viewer).click((-500.0, y, x))  # the ray runs along z
    user.settle()
    assert np.allclose(user.seed[:2], CALLOSUM[:2], atol=1e-4)
    i, j, k = voxel_at(user.seed)
    column = diffusion.tensors.scalar_map(field(), "FA")[i, j]
    assert column[k] == column.max()
    assert len(user.fibers())


def test_with_clicking_off_a_click_picks(viewer, one):
    one.press("Click to seed")
    layer = one.layers["bundle 1"]
    Mouse(viewer, zoom=40.0).click(layer.data_to_world(layer.points[layer.offsets[7] + 3]))
    assert layer.selected_fiber is not None
    assert np.allclose(one.seed, CALLOSUM, atol=1e-4)
    one.press("Click to seed")
    one.click(CORTICOSPINAL)
    assert np.allclose(one.seed, CORTICOSPINAL, atol=1e-4)


@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    assert isinstance(panel, TrackingPanel)
    panel.teardown()

"""The dock widget "Fiber tracking": first steps, and what a click does.

Most tests use napari's viewer model, without a window; what a window adds (drawing, docks, a real mouse) is tested in
one, under the marker ``display``.
"""

import numpy as np
import pytest

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts.gui import TrackingPanel
from tests.dock_widgets import Mouse, button
from tests.tracts.gui.tracking_samples import (
    AIR,
    CALLOSUM,
    CORTICOSPINAL,
    add_labels,
    add_scan,
    assert_same,
    by_api,
    click,
    fibers_layers,
    field,
    markers,
    names_in_list,
    on_screen,
    settle,
    shown_numbers,
    shown_texts,
    tractogram,
)

# ------------------------------------------------------------------------------------------------------- first steps


def test_an_empty_viewer(viewer, empty):
    assert empty.results.layer is None
    assert any("Click in the brain" in text for text in shown_texts(empty))
    assert "open a diffusion scan" in empty.source_box.placeholderText()
    for act in (empty.run_button.click, button(empty, "New").click, button(empty, "Copy as Python").click):
        empty.clear_message()
        act()
        assert "there are no tensors" in empty.message
        assert "open a diffusion scan" in empty.message
    assert not len(viewer.layers)


def test_a_click_in_an_empty_viewer_says_what_to_do(viewer, empty):
    Mouse(viewer).click((1.0, 2.0))
    assert "tensors" in empty.message
    assert "open" in empty.message
    assert not len(empty.bundles)


@pytest.mark.display
def test_a_click_puts_the_seed_there_and_shows_what_the_api_gives(viewer, panel, qtbot):
    active = viewer.layers.selection.active
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.center_mm, CALLOSUM, atol=1e-4)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    (layer,) = fibers_layers(viewer).values()
    assert layer.name == "bundle 1"
    assert_same(tractogram(layer), by_api(panel, panel.bundles.current.center_mm))
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(tractogram(layer).points[0]), atol=1e-4)
    assert viewer.layers.selection.active is active
    assert viewer.layers[-1].name == "seeds"
    assert shown_numbers(panel)["number"] == f"{len(tractogram(layer))} of 50"
    assert shown_numbers(panel)["longest"] == f"{tractogram(layer).lengths_mm().max():.0f}"
    assert panel.message == ""


def test_fibers_and_seeds_leave_the_sliders_as_they_are(viewer, panel, qtbot):
    """One tick of a slider stays one slice of the volume."""
    before = [r.step for r in viewer.dims.range]
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert np.allclose([r.step for r in viewer.dims.range], before)


@pytest.mark.display
def test_a_click_on_a_scan_fits_it_first(viewer, empty, qtbot):
    scan = add_scan(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    assert [layer.name for layer in viewer.layers] == ["scan", "scan FA", "scan DEC", "bundle 1", "seeds"]
    assert not scan.visible
    assert empty.source_box.layer.name == "scan FA"
    assert np.array_equal(empty.field.tensors, field().tensors)


def test_the_fibers_of_the_first_click_are_those_of_the_settings_on_show(viewer, empty, qtbot):
    add_scan(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(empty, empty.bundles.current.center_mm))


def test_a_click_in_the_air_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    before = tractogram(fibers_layers(viewer)["bundle 1"])
    click(viewer, AIR)
    settle(qtbot, panel)
    assert "background" in panel.message
    assert "(60.0, 60.0, 70.0) mm" in panel.message
    assert tractogram(fibers_layers(viewer)["bundle 1"]) is before
    # what is on screen belongs together: the marker, the list and the fibers
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    assert np.allclose(panel.bundles.current.center_mm, CALLOSUM, atol=1e-4)


def test_a_click_beside_the_volume_is_a_sentence(viewer, panel, qtbot):
    Mouse(viewer).click((0.0, 500.0, 500.0))
    settle(qtbot, panel)
    assert "outside the volume" in panel.message


def test_a_click_where_nothing_is_long_enough_says_so(viewer, panel, qtbot):
    panel.settings_form.widget("min_length_mm").value = 900.0
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert "None of 50 fibers is longer than 900 mm" in panel.message
    assert shown_numbers(panel)["number"] == "0 of 50"


def test_only_a_left_click_that_does_not_move_seeds(viewer, panel, qtbot):
    place = on_screen(CALLOSUM)
    Mouse(viewer, button=2).click(place)
    Mouse(viewer).drag(place, place + 5, place + 9)
    assert not len(panel.bundles)
    assert not panel.running


def test_a_click_while_labels_are_painted_does_not_seed(viewer, panel):
    labels, _ = add_labels(viewer, CORTICOSPINAL)
    viewer.layers.selection.active = labels
    labels.mode = "paint"
    click(viewer, CALLOSUM)
    assert not len(panel.bundles)


@pytest.mark.display
def test_shift_and_click_starts_another_bundle(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    assert names_in_list(panel) == ["bundle 1", "bundle 2"]
    assert np.allclose(markers(viewer), [CALLOSUM, CORTICOSPINAL], atol=1e-4)
    for name, center in (("bundle 1", CALLOSUM), ("bundle 2", CORTICOSPINAL)):
        fibers = tractogram(fibers_layers(viewer)[name])
        distance = np.linalg.norm(fibers.points - np.asarray(center, np.float32), axis=1)
        assert distance.min() < 3.5
    colors = {tuple(color) for color in np.round(viewer.layers["seeds"].face_color, 3)}
    assert len(colors) == 2


def test_in_3d_the_brightest_voxel_under_the_click_is_seeded(viewer, panel, qtbot):
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(CALLOSUM)
    Mouse(viewer).click((-500.0, y, x))  # the ray runs along z
    settle(qtbot, panel)
    seed = np.asarray(panel.bundles.current.center_mm)
    assert np.allclose(seed[:2], CALLOSUM[:2], atol=1e-4)
    i, j, k = np.round(apply_affine(np.linalg.inv(field().affine), seed)).astype(int)
    column = tracts.scalar_map(field(), "FA")[i, j]
    assert column[k] == column.max()
    assert len(tractogram(fibers_layers(viewer)["bundle 1"]))


def test_in_3d_a_click_beside_the_brain_is_a_sentence(viewer, panel, qtbot):
    viewer.dims.ndisplay = 3
    Mouse(viewer).click((-500.0, 400.0, 400.0))
    assert "click in the brain" in panel.message
    assert not len(panel.bundles)


def test_with_clicking_off_a_click_picks(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    button(panel, "Click to seed").click()
    layer = fibers_layers(viewer)["bundle 1"]
    point = layer.data_to_world(layer.points[layer.offsets[7] + 3])
    Mouse(viewer, zoom=40.0).click(point)
    assert layer.selected_fiber is not None
    assert np.allclose(panel.bundles.current.center_mm, CALLOSUM, atol=1e-4)
    button(panel, "Click to seed").click()
    click(viewer, CORTICOSPINAL)
    assert np.allclose(panel.bundles.current.center_mm, CORTICOSPINAL, atol=1e-4)


@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    assert isinstance(panel, TrackingPanel)
    assert dock is not None
    panel.teardown()

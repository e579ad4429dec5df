"""The dock widget "Light transport": first steps, and that it gives what the API gives."""

import dataclasses
import sys

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_gpubio.core import warmup
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.space import same_grid
from napari_gpubio.gui import processors
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.run_box import VoxelRunBox
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import KINDS, Pattern, Pencil
from tests.dock_widgets import MILLISECONDS, NOTHING_COPIED, Mouse, button, script_of, texts
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    MEDIA,
    NEARBY,
    RADIUS,
    TOP,
    add_ball,
    ball,
    click,
    degrees_between,
    direction,
    fluence,
    lines,
    markers,
    on_screen,
    outwards,
    result,
    run,
    settle,
)

KINDS_APART = 4  # of those that one case looks at


def test_an_empty_viewer_says_what_to_do(viewer, empty):
    assert "open labels" in empty.voxels.labels_box.placeholderText()
    assert any("Head phantom" in text for text in texts(empty))
    copy = button(empty, "Copy as Python").click
    for act in (empty.run_button.click, copy, lambda: Mouse(viewer).click((1.0, 2.0))):
        empty.clear_message()
        act()
        assert "there are no labels" in empty.message
    assert empty.voxels.controller.optodes.source is None
    assert not len(viewer.layers)


def test_labels_that_carry_properties_fill_the_table_and_need_a_source(panel):
    assert panel.voxels.table.media() == MEDIA
    assert "MB of memory" in "".join(texts(panel.voxels.run_box))
    panel.run_button.click()
    assert "click on the surface" in panel.message
    assert script_of(panel) == NOTHING_COPIED
    assert "there is no source" in panel.message


def test_labels_without_properties_ask_for_them(viewer, empty, qtbot):
    viewer.add_labels(np.asarray(ball().labels.T, np.int64), name="painted", scale=(2.5, 2.0, 1.0))
    settle(qtbot, empty)
    assert empty.voxels.table.model.labels == (1, 2)
    empty.voxels.place_source((0.0, 24.0, 25.0))
    settle(qtbot, empty)
    assert "label 1" in empty.message
    assert fluence(viewer) is None


def test_labels_that_are_no_labels_are_a_sentence(viewer, empty, qtbot):
    viewer.add_labels(np.full((4, 5, 6), 70_000), name="too high")
    settle(qtbot, empty)
    assert "70000" in empty.message
    assert "between 0 and 65535" in empty.message


def test_a_click_puts_the_source_on_the_surface_and_light_comes_at_once(viewer, panel, qtbot):
    active, before = viewer.layers.selection.active, [tuple(r) for r in viewer.dims.range]
    click(viewer, np.asarray(LEFT) - (3.0, 0.0, 0.0))
    source = panel.voxels.controller.source()
    entry = np.asarray(source.position_mm)
    assert abs(np.linalg.norm(entry - CENTER) - RADIUS) < 1.5
    assert degrees_between(source.direction, -outwards(entry)) < 5.0
    settle(qtbot, panel)
    assert result(viewer).launched == FEW
    assert np.allclose(markers(viewer), [entry], atol=1e-4)
    assert viewer.layers.selection.active is active
    assert [layer.name for layer in viewer.layers][-2:] == ["source beam", "source and detectors"]
    assert panel.message == ""
    # labels, fluence, markers and lines share one space, and sliders keep their steps
    labels, light = viewer.layers["ball"], fluence(viewer)
    assert np.allclose(labels.affine.affine_matrix, light.affine.affine_matrix)
    assert labels.data.shape == light.data.shape
    assert np.array_equal(np.isfinite(light.data) & (labels.data == 0), np.zeros_like(labels.data, bool))
    assert [tuple(r) for r in viewer.dims.range] == before
    brightest = np.unravel_index(np.nanargmax(light.data), light.data.shape)
    assert np.linalg.norm(light.data_to_world(brightest) - on_screen(entry)) < 3.0
    assert np.linalg.norm(lines(viewer)[:, 1] - entry, axis=1).min() < 1e-3


def test_in_3d_a_click_hits_the_first_tissue_under_the_mouse(viewer, panel, qtbot):
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(TOP)
    Mouse(viewer, view=(-1.0, 0.0, 0.0)).click((CENTER[2], y + 4.0, x))  # looking down
    settle(qtbot, panel)
    position = np.asarray(panel.voxels.controller.source().position_mm)
    assert position[0] == pytest.approx(TOP[0], abs=0.01)
    assert position[1] == pytest.approx(TOP[1] + 4.0, abs=0.01)
    assert position[2] - CENTER[2] == pytest.approx(np.sqrt(RADIUS**2 - 16), abs=1.5)
    assert degrees_between(direction(panel), -outwards(position)) < 5.0
    assert result(viewer) is not None


def test_clicks_beside_the_tissue_are_a_sentence(viewer, panel):
    Mouse(viewer).click((on_screen(TOP)[0] + 3.0, 0.0, 0.0))
    assert "no tissue" in panel.message
    Mouse(viewer).click((500.0, 0.0, 0.0))
    assert "outside the volume" in panel.message
    viewer.dims.ndisplay = 3
    Mouse(viewer).click((0.0, 400.0, 400.0))
    assert "hit no tissue" in panel.message
    assert panel.voxels.controller.optodes.source is None


def test_a_run_gives_what_the_api_gives(viewer, panel, qtbot):
    panel.voxels.place_source(LEFT)
    panel.voxels.controller.add_detector(NEARBY)
    panel.voxels.run_box.photons.set_value(4 * FEW)
    run(qtbot, panel)
    shown, optodes = result(viewer), panel.voxels.controller.optodes
    source = Pencil(position_mm=optodes.source.position_mm, direction=optodes.source.direction)
    settings = LightSettings(photons=4 * FEW)
    expected = simulate(ball(), source, settings, detectors=optodes.detectors, device="cpu")
    assert np.array_equal(shown.gates, expected.gates)
    assert np.array_equal(shown.gates_error, expected.gates_error)
    assert shown.energy == expected.energy
    assert shown.detected.detected_weight == expected.detected.detected_weight > 0
    assert shown.complete
    assert panel.voxels.results.result is shown
    layer = fluence(viewer)
    assert same_grid(layer.data.T.shape, layer.affine.affine_matrix, ball().labels.shape, layer.affine.affine_matrix)
    inside = ball().labels.T > 0
    assert np.nanmax(layer.data[inside]) == pytest.approx(np.log10(expected.fluence.max()), abs=1e-5)


def test_a_pattern_needs_an_image(shown, qtbot):
    shown.voxels.source_box.form.widget("source").value = "pattern"
    settle(qtbot, shown)
    assert "needs an image" in shown.message


def sizes_of(kind):
    """Names of the fields that have rows."""
    names = {f.name for f in dataclasses.fields(KINDS[kind]) if param_info(f) is not None}
    return names - {"entry"} - ({"length_mm"} if kind == "volume" else set())


@pytest.mark.parametrize("first", range(KINDS_APART))
def test_every_kind_of_source_shows_its_own_fields_and_runs(viewer, shown, qtbot, first):
    shown.voxels.run_box.photons.set_value(500)
    box = shown.voxels.source_box
    form, sizes = box.form, {name for kind in KINDS for name in sizes_of(kind)}
    viewer.add_image(np.eye(8), name="stripe")
    box.deepened.emit(6.0)
    for kind in form.widget("source").choices[first::KINDS_APART]:
        form.widget("source").value = kind
        visible = {name for name in sizes if not form.widget(name).native.isHidden()}
        assert visible == sizes_of(kind), kind
        assert box.pattern_box.isHidden() == (kind != "pattern")
        settle(qtbot, shown)
        assert shown.message == "", kind
        assert result(viewer).source.kind == kind
        assert isinstance(result(viewer).source, Pattern) == (kind == "pattern")
        assert len(lines(viewer)) > 0, kind


def test_painting_changes_what_is_simulated_and_other_colors_do_not(viewer, shown, qtbot):
    layer, table, before = viewer.layers["ball"], shown.voxels.table, result(viewer)
    layer.new_colormap(seed=11)
    table.view.setCurrentIndex(table.model.index(1, 0))
    settle(qtbot, shown)
    assert layer.selected_label == 2
    assert result(viewer) is before
    chip = table.model.data(table.model.index(0, 0), Qt.ItemDataRole.DecorationRole)
    assert np.allclose(chip.getRgbF()[:3], layer.get_color(1)[:3], atol=0.01)
    center = tuple(np.round(layer.world_to_data(on_screen(CENTER))).astype(int))
    layer.n_edit_dimensions = 3
    layer.fill(center, 1)  # the core becomes rind
    layer.data_setitem(tuple(np.array([center]).T), 3)
    settle(qtbot, shown)
    assert table.model.labels == (1, 3)
    table.set_media([*MEDIA, Medium(label=3, name="spot", mua_per_mm=1.0, mus_per_mm=1.0)])
    settle(qtbot, shown)
    assert result(viewer).domain.labels_present == (1, 3)
    layer.undo()
    layer.undo()
    settle(qtbot, shown)
    assert result(viewer).domain.labels_present == (1, 2)
    assert ball().labels_present == (1, 2)  # the sample itself is as it was


def test_labels_of_a_rotated_and_flipped_volume(viewer, empty, qtbot):
    """The affine of a sagittal scan: i runs front to back, j up, k right to left."""
    sizes, rotation = np.array([1.0, 2.0, 2.5]), np.array([[0, 0, -1.0], [-1.0, 0, 0], [0, 1.0, 0]])
    affine = np.eye(4)
    affine[:3, :3] = rotation * sizes
    affine[:3, 3] = CENTER - affine[:3, :3] @ ((np.array(ball().shape) - 1) / 2)
    add_ball(viewer, Domain(labels=ball().labels, affine=affine, media=MEDIA))
    settle(qtbot, empty)
    for out in np.vstack([np.eye(3), -np.eye(3)]):
        target = CENTER + (RADIUS + 1.0) * out
        empty.voxels.place_source(target)
        position = np.asarray(empty.voxels.controller.optodes.source.position_mm)
        assert abs(np.linalg.norm(position - CENTER) - RADIUS) < 1.5
        assert degrees_between(direction(empty), -outwards(position)) < 5.0
    settle(qtbot, empty)
    # the same light as in the ball that lies straight
    shown = result(viewer)
    there = CENTER + rotation.T @ (np.asarray(shown.source.position_mm) - CENTER)
    source = Pencil(position_mm=tuple(there), direction=tuple(rotation.T @ shown.source.direction))
    expected = simulate(ball(), source, LightSettings(photons=10 * FEW, seed=2), device="cpu")
    for label in (1, 2):
        assert abs(shown.absorbed[label].z_score(*expected.absorbed[label])) < 4


@pytest.mark.daily
@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Light transport")
    assert isinstance(panel, LightPanel)
    assert dock is not None
    panel.teardown()


def test_a_quick_run_waits_until_the_backend_is_compiled(viewer, panel, qtbot, monkeypatch):
    warm, process = [], "import sys; print(3, flush=True); sys.stdin.read()"
    monkeypatch.delenv(processors.DISABLED, raising=False)
    monkeypatch.setattr(warmup, "is_warm", lambda _: bool(warm))
    monkeypatch.setattr(warmup, "command", lambda *_: [sys.executable, "-c", process])
    panel.voxels.place_source(LEFT)
    qtbot.waitUntil(lambda: "3 of" in panel.status, timeout=MILLISECONDS)
    assert panel.voxels.view.displayed is None
    warm.append(True)
    panel.warmup_process.closeWriteChannel()
    qtbot.waitUntil(lambda: panel.voxels.view.displayed is not None, timeout=MILLISECONDS)


@pytest.fixture
def run_box(qtbot):
    box = VoxelRunBox()
    qtbot.addWidget(box)
    return box


def test_the_message_about_photons_goes_when_they_are_mended(qtbot, placed):
    photons = placed.voxels.run_box.photons
    for text, is_wrong in (("many", True), ("-3", True), ("2e4", False)):
        photons.text_box.setText(text)
        photons.text_box.editingFinished.emit()
        assert placed.message == ""
        if is_wrong:
            placed.run_button.click()
            assert text in placed.message


def type_photons(run_box, text):
    run_box.photons.text_box.setText(text)
    run_box.photons.text_box.editingFinished.emit()


@pytest.mark.parametrize(
    ("text", "photons"),
    [("2e6", 2_000_000), ("2,000,000", 2_000_000), ("2M", 2_000_000), ("12345", 12345), (" 5k ", 5000), ("1e9", 10**9)],
)
def test_photons_can_be_typed_or_set_with_the_slider(run_box, text, photons):
    for tick_, from_slider in ((63, 2_000_000), (40, 10**4), (90, 10**9)):
        run_box.photons.slider.setValue(tick_)
        assert run_box.photons.value() == from_slider
    type_photons(run_box, text)
    assert run_box.settings.photons == photons
    assert run_box.photons.slider.value() == round(10 * np.log10(photons).clip(4, 9))


@pytest.mark.parametrize("text", ["many", "", "0", "-5", "nan", "1e15"])
def test_photons_that_are_no_number_are_a_sentence(run_box, text):
    type_photons(run_box, text)
    with pytest.raises(InvalidInput, match=f"photons is {text!r}"):
        _ = run_box.settings

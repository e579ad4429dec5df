"""The dock widget "Light in layers": first steps, runs, the picture, beams, what may happen while something runs."""

import dataclasses
import gc
import threading
import weakref

import numpy as np
import pytest
from qtpy.QtWidgets import QLabel

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layers import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.light.layered.beams import Beam, convolved
from napari_gpubio.light.layered.layers import mirrored
from napari_gpubio.light.layered.phantom import plan_phantom
from napari_gpubio.light.layered.presets import layered_preset, layered_preset_names
from napari_gpubio.light.layered.run import simulate_layers
from napari_gpubio.light.layered.widget import LayeredPanel, request
from napari_gpubio.light.layered.widget.plot_panes import EMPTY
from napari_gpubio.light.widget.decade_bar import DecadeBar
from tests.light.layered_panel_samples import (
    FEW,
    MEDIUM,
    MILLISECONDS,
    SETTINGS,
    Held,
    add_panel,
    button,
    picture,
    result,
    run,
    settle,
)

N, MUA = 1, 2  # columns


@pytest.fixture
def panel(viewer, qtbot):
    panel = add_panel(viewer)
    if not hasattr(viewer, "window"):
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


@pytest.fixture
def held(monkeypatch):
    held = Held(monkeypatch)
    yield held
    held.go.set()


def texts(part):
    return [label.text() for label in part.findChildren(QLabel) if not label.isHidden()]


def change(panel, column, text):
    panel.table.model.type_in({(0, column): text})


# ------------------------------------------------------------------------------------------------------ first steps


def test_a_new_panel_is_ready_to_run(viewer, qtbot):
    panel = LayeredPanel(viewer)
    qtbot.addWidget(panel)
    skin = layered_preset("seven-layer skin at 600 nm")
    assert panel.table.medium() == skin.medium
    assert panel._request().settings == skin.settings
    assert "Meglinski" in panel.presets.citation
    assert EMPTY in texts(panel.results)
    assert not button(panel, "Plots…").isEnabled()
    assert not panel.table.model.can_undo
    assert not len(viewer.layers)
    panel.teardown()


@pytest.mark.parametrize("name", layered_preset_names())
def test_a_preset_fills_everything(panel, name):
    panel.presets.choose(name)
    preset = layered_preset(name)
    asked = panel._request()
    assert (asked.medium, asked.settings) == (preset.medium, preset.settings)
    assert panel.presets.citation == preset.citation
    assert "Borders inside" not in panel.grid_box.note
    change(panel, N, "1.6")
    assert panel.presets.citation == f"Changed since; it was from {preset.citation}"


def test_a_run_gives_what_the_api_gives(viewer, panel, qtbot):
    run(qtbot, panel)
    expected = simulate_layers(MEDIUM, SETTINGS, device="cpu")
    shown = result(viewer)
    assert np.array_equal(shown.A_rz.value, expected.A_rz.value)
    assert np.array_equal(shown.Rd_ra.error, expected.Rd_ra.error)
    assert shown.diffuse_reflectance == expected.diffuse_reflectance
    layer = picture(viewer)
    assert layer.name == "log10 fluence (1/mm²)"
    with np.errstate(divide="ignore"):
        logarithm = np.log10(mirrored(expected.fluence_rz().value))
    known = np.isfinite(layer.data)
    assert np.allclose(layer.data[known], logarithm[known], atol=1e-5)
    assert known[:, 40].all()
    rows = {row.name: row for row in panel.results.table.rows}
    assert rows["Diffuse reflectance Rd"].value == expected.diffuse_reflectance.value
    assert rows["bottom"].value == expected.A_l.value[1]
    assert viewer.layers.selection.active is layer


def test_what_is_wrong_with_the_inputs_is_a_sentence(viewer, panel):
    change(panel, MUA, "-1")
    panel.run_button.click()
    assert "layer 1 (top): µa is -1" in panel.message
    panel.table.model.remove(range(2))
    for act in (
        panel.run_button.click,
        button(panel, "Copy as Python").click,
        button(panel, "Make voxel phantom").click,
    ):
        panel.clear_message()
        act()
        assert "there are no layers" in panel.message
    assert not panel.running
    assert not len(viewer.layers)


@pytest.mark.parametrize(
    ("set_up", "sentence"),
    [
        (lambda p: p.run_box.photons._text.setText("many"), "photons is 'many'"),
        (lambda p: p.run_box.photons._text.setText("1e12"), "photons is 1e+12; it must be at most 4.29497e+09"),
        (lambda p: p.grid_box._boxes["dz_mm"].setValue(0.0), "dz_mm is 0 mm; it must be greater than 0"),
        (lambda p: p.grid_box._boxes["depth_bins"].setValue(100_000), ""),
        (lambda p: p.beam_box.set_beam(Beam(kind="flat", radius_mm=1.0)) or p.beam_box._radius.setValue(0), "radius"),
        (lambda p: p.beam_box.set_strength("mW", 0.0), "the factor of mW/mm² is 0.0"),
    ],
)
def test_numbers_that_cannot_be_run_are_a_sentence(panel, set_up, sentence):
    if not sentence:
        panel.grid_box._boxes["radial_bins"].setValue(1000)
        sentence = "the grid has 100,000,000 bins"
    set_up(panel)
    panel.run_button.click()
    assert sentence in panel.message
    assert not panel.running


def test_the_grid_says_how_it_fits_the_layers(panel):
    assert "MB" in panel.grid_box.note
    panel.grid_box._boxes["dz_mm"].setValue(0.03)
    assert "The grid ends at 0.6 mm, the layers at 1 mm." in panel.grid_box.note
    assert "Borders inside a depth bin" in panel.grid_box.note
    assert "0.4" in panel.grid_box.note
    button(panel.grid_box, "Fit").click()
    settings = panel._request().settings
    assert settings.dz_mm * settings.depth_bins == pytest.approx(1.0)
    assert 0.4 / settings.dz_mm == pytest.approx(round(0.4 / settings.dz_mm))
    assert "Borders" not in panel.grid_box.note
    panel.table.model.type_in({(1, 5): "inf"})
    assert not button(panel.grid_box, "Fit").isEnabled()


# ------------------------------------------------------------------------------------------------------ the picture


def test_another_beam_needs_no_new_run(viewer, panel, qtbot, monkeypatch):
    run(qtbot, panel)
    layer, traced = picture(viewer), result(viewer)
    monkeypatch.setattr(request, "layer_steps", lambda *_, **__: pytest.fail("traced again"))
    beam = Beam(kind="flat", radius_mm=0.5)
    panel.beam_box.set_beam(beam)
    settle(qtbot, panel)
    assert picture(viewer) is layer
    expected = convolved(traced, beam)
    assert np.array_equal(result(viewer).Rd_r.value, expected.Rd_r.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)
    panel.beam_box.set_beam(None)
    settle(qtbot, panel)
    assert result(viewer) is traced


def test_a_beam_wider_than_the_grid_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    panel.beam_box.set_beam(Beam(kind="gaussian", radius_mm=5.0))
    run(qtbot, panel)
    assert "shown for a pencil beam, because the beam's radius is 5 mm and the grid ends at 2 mm" in panel.message
    assert result(viewer).launched == FEW
    panel.beam_box.set_beam(Beam(kind="gaussian", radius_mm=0.5))
    settle(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).parameters["beam"] == {"kind": "gaussian", "radius_mm": 0.5}


def test_units_quantities_and_decades(viewer, panel, qtbot):
    run(qtbot, panel)
    layer, per_photon = picture(viewer), picture(viewer).data.copy()
    high = layer.contrast_limits[1]
    panel.beam_box.set_strength("mW", 10.0)
    settle(qtbot, panel)
    assert picture(viewer) is layer
    assert layer.name == "log10 fluence (mW/mm²)"
    assert np.allclose(layer.data, per_photon + 1.0, atol=1e-5, equal_nan=True)
    panel.beam_box.set_strength("J", 2.0)
    panel.picture_box.set_quantity("absorbed")
    settle(qtbot, panel)
    assert layer.name == "log10 absorbed (J/cm³)"
    absorbed = mirrored(result(viewer).A_rz.value)
    known = np.isfinite(layer.data)
    assert np.allclose(layer.data[known], np.log10(2000 * absorbed[known]), atol=1e-5)
    panel.beam_box.set_strength("")
    panel.picture_box.set_quantity("fluence")
    panel.picture_box._decades.setValue(3)
    settle(qtbot, panel)
    assert tuple(layer.contrast_limits) == (high - 3, high)


def test_the_users_limits_follow_the_unit_and_stay_with_the_next_run(viewer, panel, qtbot):
    run(qtbot, panel)
    layer = picture(viewer)
    layer.contrast_limits, layer.colormap = (-1.5, 0.25), "viridis"
    panel.beam_box.set_strength("mW", 1000.0)
    settle(qtbot, panel)
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    run(qtbot, panel)
    assert picture(viewer) is layer
    assert np.allclose(layer.contrast_limits, (1.5, 3.25))
    assert layer.colormap.name == "viridis"


def test_the_legend_tells_powers_of_ten_and_the_unit(viewer, panel, qtbot):
    bar = panel.picture_box.findChild(DecadeBar)
    assert bar.isHidden()
    run(qtbot, panel)
    assert len(bar.texts) == 7
    assert "fluence, 1/mm² per launched photon" in bar._unit
    viewer.layers.remove(picture(viewer).name)
    assert bar.isHidden()
    run(qtbot, panel)
    assert not bar.isHidden()


def test_borders_can_be_drawn_and_left_out(viewer, panel, qtbot):
    run(qtbot, panel)
    assert {"layer borders", "layer names"} <= {layer.name for layer in viewer.layers}
    lines = viewer.layers["layer borders"]
    assert np.allclose(lines.data[:, 0, 0], [0.0, 0.4, 1.0])
    assert list(viewer.layers["layer names"].features["name"]) == ["top", "bottom"]
    panel.picture_box._borders.setChecked(False)
    assert "layer borders" not in viewer.layers
    panel.picture_box._borders.setChecked(True)
    panel.table.model.remove([1])
    run(qtbot, panel)
    assert np.allclose(viewer.layers["layer borders"].data[:, 0, 0], [0.0, 0.4])
    assert sum(carried(layer, "panel") is not None for layer in viewer.layers) == 3


def test_another_grid_makes_another_layer(viewer, panel, qtbot):
    run(qtbot, panel)
    first = picture(viewer)
    panel.grid_box._boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert picture(viewer) is not first
    assert first not in viewer.layers
    assert picture(viewer).data.shape == (10, 80)
    centre = viewer.scene.camera.center
    assert centre[-2] == pytest.approx(0.25, abs=0.03)  # in view
    assert viewer.layers[0] is picture(viewer)  # below the borders


def test_a_picture_can_be_kept_to_compare(viewer, panel, qtbot):
    run(qtbot, panel)
    first, kept = picture(viewer), result(viewer)
    button(panel, "Keep this picture").click()
    change(panel, MUA, "3")
    run(qtbot, panel)
    assert first in viewer.layers
    assert carried(first, "result") is kept
    assert result(viewer).medium.layers[0].mua_per_mm == 3.0


def test_without_the_absorption_map_there_are_numbers_and_no_picture(viewer, panel, qtbot):
    run(qtbot, panel)
    panel.run_box.form.widget("absorption").value = False
    run(qtbot, panel)
    assert picture(viewer) is None
    assert "layer borders" not in viewer.layers
    assert panel.results.picture.result.A_rz is None
    assert panel.results.table.rows
    panel.run_box.form.widget("absorption").value = True
    run(qtbot, panel)
    assert picture(viewer) is not None


def test_a_change_says_that_the_picture_is_older(panel, qtbot):
    run(qtbot, panel)
    change(panel, MUA, "3")
    assert "from before this change" in panel._status.text()
    panel.table.model.undo()
    assert panel._status.text() == ""
    panel.run_box.photons.set_value(3 * FEW)  # more of the same
    assert panel._status.text() == ""


# ------------------------------------------------------------------------------------------------------ quick runs


def test_quick_runs_follow_every_change(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(request, "QUICK_PHOTONS", 500)
    panel.run_box.set_live(True)
    settle(qtbot, panel)
    assert result(viewer).launched == 500
    for mua in ("2", "3", "4"):
        change(panel, MUA, mua)
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    change(panel, MUA, "-4")
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    assert "µa is -4" in panel.table.message
    panel.table.model.undo()
    settle(qtbot, panel)
    run(qtbot, panel)
    assert result(viewer).launched == FEW


# ------------------------------------------------------------------------------------------------- while it runs


def test_the_picture_refines_while_it_runs(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(request, "LOOK_SECONDS", 0.0)
    panel.run_box.photons.set_value(1_500_000)
    seen = []
    real = panel.view.show

    def show(shown, **keywords):
        real(shown, **keywords)
        seen.append((shown.result.launched, picture(viewer)))

    monkeypatch.setattr(panel.view, "show", show)
    run(qtbot, panel)
    launched = [count for count, _ in seen]
    assert len(launched) > 2
    assert launched == sorted(launched)
    assert launched[-1] == 1_500_000
    assert all(layer is seen[0][1] for _, layer in seen)  # changed in place


def test_the_look_can_be_changed_while_it_runs(viewer, panel, qtbot, held):
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    panel.picture_box.set_quantity("absorbed")
    panel.beam_box.set_beam(Beam(kind="flat", radius_mm=0.3))
    held.go.set()
    settle(qtbot, panel)
    assert "absorbed" in picture(viewer).name
    assert result(viewer).parameters["beam"]["radius_mm"] == 0.3


def test_a_change_during_a_run_lets_it_go_on_and_says_so(viewer, panel, qtbot, held):
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    change(panel, MUA, "7")
    assert "Press Stop, then Run" in panel.message
    held.go.set()
    settle(qtbot, panel)
    assert result(viewer).medium == MEDIUM


def test_stop_keeps_what_was_done_with_its_error(viewer, panel, qtbot):
    panel.run_box.photons.set_value(4_000_000_000)
    panel.run_button.click()
    qtbot.waitUntil(lambda: picture(viewer) is not None, timeout=MILLISECONDS)
    with qtbot.waitSignal(panel.run_finished, timeout=10_000):
        panel.run_button.click()
    settle(qtbot, panel)
    stopped = result(viewer)
    assert not stopped.complete
    assert 0 < stopped.launched < 4_000_000_000
    assert stopped.total == pytest.approx(1.0, abs=1e-6)
    assert any("Stopped after" in text for text in texts(panel.results))


def test_a_result_is_gone_on_with(viewer, panel, qtbot):
    run(qtbot, panel)
    change(panel, MUA, "9")  # it goes on with its own inputs
    panel.run_box.photons.set_value(3 * FEW)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        button(panel, "Continue").click()
    settle(qtbot, panel)
    whole = simulate_layers(MEDIUM, dataclasses.replace(SETTINGS, photons=4 * FEW), device="cpu")
    np.testing.assert_allclose(result(viewer).A_rz.value, whole.A_rz.value, rtol=1e-12)  # other batches are summed
    assert result(viewer).launched == 4 * FEW


def test_a_stopped_result_is_gone_on_with_to_its_end(viewer, panel, qtbot, held):
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    panel.run_button.click()
    settle(qtbot, panel)
    assert not result(viewer).complete
    held.go.set()
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        button(panel, "Continue").click()
    settle(qtbot, panel)
    expected = simulate_layers(MEDIUM, SETTINGS, device="cpu")
    assert np.array_equal(result(viewer).A_rz.value, expected.A_rz.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)


def test_while_it_runs_nothing_is_called_stopped(panel, qtbot, held):
    panel.run_box.photons.set_value(100_000_000)
    panel.run_button.click()
    held.go.set()
    qtbot.waitUntil(lambda: panel.results.picture is not None, timeout=MILLISECONDS)
    assert panel.running
    assert "Running:" in panel.results._light.text()
    assert "Stopped" not in panel.results._light.text()
    assert not button(panel, "Continue").isEnabled()
    panel.stop()
    settle(qtbot, panel)
    assert "Stopped after" in panel.results._light.text()
    assert button(panel, "Continue").isEnabled()


def test_a_run_that_fails_says_why_and_the_next_one_works(viewer, panel, qtbot, monkeypatch):
    real, calls = request.layer_steps, []

    def failing_once(*args, **keywords):
        calls.append(1)
        if len(calls) == 1:
            yield Step(0, 1)
            raise InvalidInput("the simulation needs 9 GB and 8 GB are free; take fewer bins")
        return (yield from real(*args, **keywords))

    monkeypatch.setattr(request, "layer_steps", failing_once)
    run(qtbot, panel)
    assert "take fewer bins" in panel.message
    run(qtbot, panel)
    assert panel.message == ""
    assert result(viewer).complete


# ----------------------------------------------------------------------------------------- the world changes around it


@pytest.mark.display
@pytest.mark.parametrize("what", ["log10 fluence (1/mm²)", "layer borders", "layer names", "everything"])
def test_removing_layers_during_a_run_does_no_harm(viewer, panel, qtbot, held, errors, what):
    held.go.set()
    run(qtbot, panel)
    held.go.clear()
    held.waiting.clear()
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(what)
    held.go.set()
    settle(qtbot, panel)
    assert not errors.all()
    assert result(viewer).launched == FEW
    assert "layer borders" in viewer.layers


def test_other_layers_without_units_get_no_complaint(viewer, panel, qtbot):
    run(qtbot, panel)
    assert viewer.canvas.overlays.scale_bar.visible
    assert viewer.layers.extent.units is not None
    viewer.add_image(np.zeros((5, 6)), name="photo")
    assert viewer.layers.extent.units is not None  # all of them have none now
    assert not viewer.canvas.overlays.scale_bar.visible
    run(qtbot, panel)
    viewer.layers.remove("photo")
    panel.grid_box._boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert str(viewer.layers.extent.units[0]) == "millimeter"


@pytest.mark.display
@pytest.mark.parametrize("how", ["the viewer", "the dock"])
def test_closing_during_a_run_frees_everything(make_napari_viewer, qtbot, held, errors, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    gone = weakref.ref(panel)
    dock = panel.parent()
    if how == "the viewer":
        viewer.close()
    else:
        dock.destroyOnClose()
    del panel, dock
    stopped = held.ended.wait(5)
    held.go.set()
    qtbot.wait(50)
    gc.collect()
    assert stopped
    assert gone() is None
    assert not errors.all()


@pytest.mark.display
@pytest.mark.parametrize("how", ["the viewer", "the dock"])
def test_nothing_is_left_when_it_is_closed(make_napari_viewer, qtbot, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    run(qtbot, panel)
    panel.results.plots.open()
    qtbot.wait(50)
    panel.beam_box.set_beam(Beam(kind="flat", radius_mm=0.3))
    settle(qtbot, panel)
    gone, kept = weakref.ref(panel), weakref.ref(result(viewer))
    threads = [thread for thread in threading.enumerate() if "napari-gpubio" in thread.name]
    if how == "the viewer":
        viewer.close()
    else:
        panel.parent().destroyOnClose()
        viewer.layers.clear()
    del panel
    qtbot.wait(50)
    gc.collect()
    assert gone() is None
    assert kept() is None
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    dock = panel.parent()
    dock.setFloating(True)
    qtbot.wait(10)
    dock.close()
    qtbot.wait(10)
    dock.show()
    qtbot.wait(10)
    run(qtbot, panel)
    assert result(viewer).launched == FEW


# -------------------------------------------------------------------------------------------------- voxel phantom


def test_a_voxel_phantom_takes_the_layers_to_the_voxel_panel(viewer, panel, qtbot):
    from napari_gpubio.light.widget import LightPanel
    from tests.light.light_panel_samples import settle as settle_voxels

    run(qtbot, panel)
    panel.beam_box.set_beam(Beam(kind="gaussian", radius_mm=0.3))
    settle(qtbot, panel)
    panel.phantom_box.set_sizes(0.2, 0.2, 1.0, cyclic=True)
    assert "5 × 5 × 5 voxels" in panel.phantom_box.note
    button(panel, "Make voxel phantom").click()
    settle(qtbot, panel)
    layer = viewer.layers["two layers in voxels"]
    assert "Below the layers n is 1.33" in panel.message
    assert not picture(viewer).visible
    assert viewer.dims.order == (1, 0, 2)
    voxels = LightPanel(viewer)
    qtbot.addWidget(voxels)
    voxels.run_box._live.setChecked(False)
    voxels.labels_box.choose(layer)
    settle_voxels(qtbot, voxels)
    for ours, theirs in zip(voxels.table.media(), MEDIUM.layers, strict=True):
        assert (ours.name, ours.n, ours.mua_per_mm, ours.mus_per_mm, ours.g) == (
            theirs.name, theirs.n, theirs.mua_per_mm, theirs.mus_per_mm, theirs.g,
        )  # fmt: skip
    source = voxels.desk.source()
    assert (source.kind, source.radius_mm, source.position_mm) == ("gaussian", 0.3, (0.0, 0.0, 0.0))
    assert source.direction == (0.0, 0.0, 1.0)
    assert voxels.run_box.settings.faces[:4] == ("cyclic",) * 4
    assert voxels.run_box.settings.photons == FEW
    voxels.teardown()


def test_a_phantom_that_cannot_be_made_is_a_sentence(viewer, panel, qtbot):
    panel.phantom_box.set_sizes(1.0, 1.0, 5.0)
    button(panel, "Make voxel phantom").click()
    settle(qtbot, panel)
    assert "top is 0.4 mm thick and gets no voxel of 1 mm" in panel.message
    assert "top is 0.4 mm thick" in panel.phantom_box.note
    assert not len(viewer.layers)


def test_proposed_voxels_fit_every_layer(panel):
    for name in layered_preset_names():
        panel.presets.choose(name)
        medium, settings = layered_preset(name).medium, layered_preset(name).settings
        plan = plan_phantom(medium, **panel.phantom_box.sizes)
        assert "rounded" not in panel.phantom_box.note
        assert plan.columns % 2 == 1  # the beam's axis is in the middle of a voxel
        assert plan.columns * plan.across_mm == pytest.approx(2 * settings.radial_bins * settings.dr_mm, rel=0.05)
        assert np.prod(plan.shape) < 2e7


def test_proposed_sizes_follow_the_grid_until_others_are_typed(panel):
    assert panel.phantom_box.sizes["width_mm"] == pytest.approx(4.0, rel=0.02)
    panel.grid_box._boxes["radial_bins"].setValue(80)
    assert panel.phantom_box.sizes["width_mm"] == pytest.approx(8.0, rel=0.02)
    panel.phantom_box._width.setValue(3.3)
    panel.grid_box._boxes["radial_bins"].setValue(40)
    assert panel.phantom_box.sizes["width_mm"] == 3.3
    panel.table.model.type_in({(1, 5): "inf"})
    assert panel.phantom_box.sizes["depth_mm"] == pytest.approx(1.0)
    assert "ends at 1 mm here" in panel.phantom_box.note
    assert "rounded to whole voxels" not in panel.phantom_box.note


def test_settings_stay_as_they_were_given(panel):
    """Numbers that the inputs cannot show in full are still what is simulated."""
    given = dataclasses.replace(SETTINGS, seed=11, edge="drop", roulette_threshold=1e-3, batches=5)
    panel.run_box.set_settings(given)
    panel.grid_box.set_settings(given)
    assert panel._request().settings == given

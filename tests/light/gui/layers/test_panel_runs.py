"""Light in layers: quick runs, and what may happen while something runs."""

import dataclasses

import numpy as np

from napari_gpubio.light.gui import request
from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.layers.run import simulate
from tests.dock_widgets import button, press_and_wait
from tests.light.gui.layers.panel_samples import FEW, MEDIUM, MUA, SETTINGS, change, held_run, picture, result
from tests.light.gui.panel_samples import run, settle


def test_quick_runs_follow_every_change(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(request, "LAYER_QUICK_PHOTONS", 500)
    panel.layers.run_box.set_live(True)
    settle(qtbot, panel)
    assert result(viewer).launched == 500
    for mua in ("2", "3", "4"):
        change(panel, MUA, mua)
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    change(panel, MUA, "-4")
    settle(qtbot, panel)
    assert result(viewer).medium.layers[0].mua_per_mm == 4.0
    assert "µa is -4" in panel.layers.table.message.text
    panel.layers.table.model.undo()
    settle(qtbot, panel)
    run(qtbot, panel)
    assert result(viewer).launched == FEW


def test_the_look_can_be_changed_while_it_runs(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    panel.layers.display_box.set_quantity("absorbed")
    panel.layers.beam_box.set_beam(Beam(kind="flat", radius_mm=0.3))
    held.go.set()
    settle(qtbot, panel)
    assert "absorbed" in picture(viewer).name
    assert result(viewer).parameters["beam"]["radius_mm"] == 0.3


def test_a_result_is_gone_on_with(viewer, panel, qtbot):
    run(qtbot, panel)
    change(panel, MUA, "9")  # it goes on with its own inputs
    panel.layers.run_box.photons.set_value(3 * FEW)
    press_and_wait(qtbot, panel, button(panel, "Continue"))
    settle(qtbot, panel)
    whole = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=4 * FEW), device="cpu")
    np.testing.assert_allclose(result(viewer).A_rz.value, whole.A_rz.value, rtol=1e-12)  # other batches are summed
    assert result(viewer).launched == 4 * FEW


def test_a_stopped_result_is_gone_on_with_to_its_end(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    panel.run_button.click()
    settle(qtbot, panel)
    assert not result(viewer).complete
    held.go.set()
    press_and_wait(qtbot, panel, button(panel, "Continue"))
    settle(qtbot, panel)
    expected = simulate(MEDIUM, SETTINGS, device="cpu")
    assert np.array_equal(result(viewer).A_rz.value, expected.A_rz.value)
    assert np.array_equal(result(viewer).A_rz.error, expected.A_rz.error)

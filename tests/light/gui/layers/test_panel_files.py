"""Light in layers: Copy as Python, files of MCML, tables."""

import csv
import dataclasses
import math

import numpy as np
import pytest
from qtpy.QtWidgets import QFileDialog

from napari_gpubio.core.volumes import read_array
from napari_gpubio.layered.beams import FlatBeam, GaussianBeam
from napari_gpubio.layered.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.layered.io.mco import read_mco, write_mco
from napari_gpubio.layered.io.results import load_result, save_result
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import preset
from napari_gpubio.layered.run import simulate
from napari_gpubio.layered.summary import every_curve
from napari_gpubio.optics.model import Layer
from tests.dock_widgets import MILLISECONDS, button, press_and_wait, run_script, script_of, shown_by_script
from tests.light.gui.layers.panel_samples import FEW, MEDIUM, SETTINGS, held_run, picture, result, set_beam
from tests.light.gui.panel_samples import run, set_strength, settle

ENDLESS = LayeredMedium(
    name="half space", layers=(Layer(name="deep", n=1.37, mua_per_mm=1.0, mus_per_mm=5.0, thickness_mm=math.inf),)
)


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def press(panel, qtbot, monkeypatch):
    """A function that presses a button or chooses an entry of the Export menu, answers with a file, and waits."""

    def pressed(text, path):
        for name in ("getSaveFileName", "getOpenFileName"):
            monkeypatch.setattr(QFileDialog, name, lambda *_: (str(path), ""))
        entries = button(panel.layers.results, "Export").menu().actions()
        entry = next((entry for entry in entries if entry.text().startswith(text)), None)
        (button(panel, text).click if entry is None else entry.trigger)()
        qtbot.waitUntil(lambda: not panel.layers.results.files.is_busy, timeout=MILLISECONDS)
        settle(qtbot, panel)

    return pressed


# ------------------------------------------------------------------------------------------------ Copy as Python


@pytest.mark.daily
def test_the_script_gives_the_same_numbers(viewer, panel, qtbot, tmp_path):
    settings = dataclasses.replace(SETTINGS, seed=11, absorption="drop", batches=8)
    panel.layers.grid_box.set_settings(settings)
    panel.layers.run_box.set_settings(settings)
    panel.layers.table.n_above.setValue(1.12)
    set_beam(panel, GaussianBeam(radius_mm=0.35))
    set_strength(panel.layers.display_box, energy_j=0.25)
    run(qtbot, panel)
    run_script(script_of(panel), tmp_path)
    shown, numbers = result(viewer), {row["name"]: row for row in rows_of(tmp_path / "two layers.csv")}
    assert float(numbers["Diffuse reflectance Rd"]["value"]) == shown.diffuse_reflectance.value
    assert float(numbers["Absorbed A"]["standard_error"]) == shown.absorbed.error
    curves = rows_of(tmp_path / "two layers curves.csv")
    expected = [v for curve in every_curve(shown, unit=panel.layers.results.unit) for v in curve.value]
    assert np.array_equal([float(row["value"] or "nan") for row in curves], expected, equal_nan=True)
    picture = panel.layers.view.layer()
    assert np.array_equal(read_array(tmp_path / "two layers map.nii.gz")[0].T, picture.data, equal_nan=True)
    saved = read_mco(tmp_path / "two layers.mco")  # the response to a pencil beam, with MCML's few digits
    assert np.allclose(saved.Rd_r.value, panel.layers.view.displayed.traced.Rd_r.value, rtol=1e-3)


@pytest.mark.daily
def test_the_script_of_an_endless_layer_whose_names_are_no_names_of_files_runs(panel, tmp_path, monkeypatch):
    layer = dataclasses.replace(ENDLESS.layers[0], name='"; import os #\n')
    panel.layers.table.set_medium(LayeredMedium(layers=(layer,), name="../a/b\\c: 'skin'"))
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    expected = simulate(ENDLESS, SETTINGS, device="cpu")
    files = sorted(tmp_path.glob("*.csv"), key=lambda path: len(path.name))  # numbers and curves
    assert len(files) == 2
    numbers = {row["name"]: row for row in rows_of(files[0])}
    assert float(numbers["Diffuse reflectance Rd"]["value"]) == expected.diffuse_reflectance.value


# --------------------------------------------------------------------------------------------------- files of MCML


def test_an_input_file_comes_back_as_it_was(panel, press, tmp_path):
    path = tmp_path / "my skin.mci"
    skin = preset("seven-layer skin at 600 nm")
    panel.layers.presets.choose(skin.name)
    press("Save .mci…", path)
    assert panel.message == ""
    (saved,) = read_mci(path)
    assert saved.medium.layers == skin.medium.layers
    assert saved.settings == skin.settings
    panel.layers.table.set_medium(MEDIUM)
    panel.layers.grid_box.set_settings(SETTINGS)
    press("Open .mci or .mco…", path)
    draft = panel.layers.draft()
    assert draft.medium.layers == skin.medium.layers
    assert draft.settings == skin.settings
    assert panel.layers.table.unit == "1/cm"
    assert "my skin.mci: my_skin.mco" in panel.layers.presets.citation


def test_runs_of_a_file_are_offered(panel, press, tmp_path):
    path = tmp_path / "both.mci"
    runs = [MciRun(medium=m, settings=SETTINGS, output=o) for m, o in ((MEDIUM, "a.mco"), (ENDLESS, "b.mco"))]
    write_mci(path, runs)
    press("Open .mci or .mco…", path)
    assert "both.mci has 2 runs" in panel.message
    assert panel.layers.table.medium().layers == MEDIUM.layers
    panel.layers.presets.choose("both.mci, run 2: b.mco")
    assert panel.layers.table.medium().layers == ENDLESS.layers
    write_mci(tmp_path / "one.mci", runs[:1])
    press("Open .mci or .mco…", tmp_path / "one.mci")
    names = [panel.layers.presets.choice.itemText(i) for i in range(panel.layers.presets.choice.count())]
    assert names[-1] == "one.mci: a.mco"
    assert not any("both.mci" in name for name in names)


@pytest.mark.parametrize("content", ["", "1.0\n1\nno numbers here\n", "\x00\x01\x02" * 50])
def test_a_damaged_file_is_a_sentence(panel, press, tmp_path, content):
    path = tmp_path / "bad.mci"
    path.write_text(content, encoding="utf-8")
    before = panel.layers.draft()
    press("Open .mci or .mco…", path)
    assert "bad.mci could not be opened" in panel.message
    assert panel.layers.draft() == before


def test_files_that_cannot_be_read_or_written_are_a_sentence(panel, press, tmp_path):
    press("Open .mci or .mco…", tmp_path / "none.mci")
    assert "does not exist" in panel.message
    press("Save .mci…", tmp_path / "no" / "layers.mci")
    assert "could not be saved" in panel.message
    panel.layers.table.model.remove(range(2))
    press("Save .mci…", tmp_path / "layers.mci")
    assert "there are no layers" in panel.message
    assert not list(tmp_path.iterdir())


def test_a_result_of_mcml_is_shown(viewer, panel, press, qtbot, tmp_path):
    path, traced = tmp_path / "made.mco", simulate(MEDIUM, SETTINGS, device="cpu")
    write_mco(path, traced)
    panel.layers.table.set_medium(ENDLESS)
    press("Open .mci or .mco…", path)
    settle(qtbot, panel)
    assert panel.message == ""
    assert panel.layers.table.medium().layers == MEDIUM.layers
    known = np.isfinite(picture(viewer).data)
    assert known.any()
    assert np.allclose(result(viewer).A_rz.value, traced.A_rz.value, rtol=1e-3)
    rows = {row.name: row for row in panel.layers.results.rows}
    assert rows["Diffuse reflectance Rd"].value == pytest.approx(traced.diffuse_reflectance.value, rel=1e-5)
    assert "The file has no standard errors." in panel.layers.results.findings
    set_beam(panel, FlatBeam(radius_mm=0.5))
    settle(qtbot, panel)
    assert result(viewer).parameters["beam"]["radius_mm"] == 0.5
    panel.plots.open()
    qtbot.wait(20)
    panel.plots.detach()


# ---------------------------------------------------------------------------------------------------- saved results


def test_a_saved_result_is_opened_and_goes_on(viewer, panel, qtbot, tmp_path, press):
    path = tmp_path / "mine.npz"
    assert not button(panel, "Save result…").isEnabled()
    set_beam(panel, FlatBeam(radius_mm=0.5))  # the file has what was traced, not what is shown
    run(qtbot, panel)
    press("Save result…", path)
    made, saved = result(viewer), load_result(path)
    assert np.array_equal(saved.A_rz.value, simulate(MEDIUM, SETTINGS, device="cpu").A_rz.value)
    panel.layers.table.set_medium(ENDLESS)
    panel.layers.grid_box.set_settings(dataclasses.replace(SETTINGS, depth_bins=30))
    run(qtbot, panel)
    assert result(viewer).medium == dataclasses.replace(ENDLESS, name=result(viewer).medium.name)
    unit = panel.layers.table.unit
    press("Open result…", path)
    assert panel.message == ""
    assert (panel.layers.draft().medium, panel.layers.draft().settings) == (MEDIUM, SETTINGS)
    assert (panel.layers.table.unit, panel.layers.presets.citation) == (unit, "mine.npz: two layers")
    assert np.array_equal(result(viewer).A_rz.value, made.A_rz.value)  # of the beam
    assert np.array_equal(result(viewer).A_rz.error, made.A_rz.error)
    press_and_wait(qtbot, panel, button(panel, "Continue"))
    settle(qtbot, panel)
    more = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=2 * FEW), device="cpu", resume=saved)
    assert result(viewer).launched == 2 * FEW
    assert np.array_equal(panel.layers.view.displayed.traced.A_rz.value, more.A_rz.value)


@pytest.mark.parametrize("content", [b"", b"PK no zip", None])
def test_a_file_that_is_no_result_is_a_sentence(panel, tmp_path, press, content):
    path, before = tmp_path / "bad.npz", panel.layers.draft()
    if content is not None:
        path.write_bytes(content)
    press("Open result…", path)
    assert "bad.npz could not be opened" in panel.message
    assert panel.layers.draft() == before


def test_no_result_is_opened_into_a_run(panel, qtbot, tmp_path, monkeypatch, held):
    path = tmp_path / "other.npz"
    save_result(path, simulate(ENDLESS, SETTINGS, device="cpu"))
    held_run(qtbot, panel, held)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    button(panel, "Open result…").click()
    qtbot.waitUntil(lambda: "Press Stop, then open other.npz again" in panel.message, timeout=MILLISECONDS)
    held.go.set()
    settle(qtbot, panel)
    assert panel.layers.view.displayed.traced.medium == MEDIUM


# ----------------------------------------------------------------------------------------------------------- tables


def test_numbers_curves_and_mcml_output_are_exported(viewer, panel, qtbot, tmp_path, press):
    set_beam(panel, FlatBeam(radius_mm=0.5))
    run(qtbot, panel)
    shown = result(viewer)
    press("Numbers", tmp_path / "n.csv")
    rows = {row["name"]: row for row in rows_of(tmp_path / "n.csv")}
    assert float(rows["bottom"]["value"]) == shown.A_l.value[1]
    assert float(rows["Photons"]["value"]) == FEW
    press("Curves", tmp_path / "c.csv")
    reflected = [row for row in rows_of(tmp_path / "c.csv") if row["curve"] == "Diffuse reflectance Rd"]
    assert float(reflected[0]["value"]) == shown.Rd_r.value[0]  # of the beam
    press("Result", tmp_path / "r.mco")
    pencil = simulate(MEDIUM, SETTINGS, device="cpu")
    assert np.allclose(read_mco(tmp_path / "r.mco").Rd_r.value, pencil.Rd_r.value, rtol=1e-3)  # what CONV takes

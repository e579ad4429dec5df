"""What is written: figure, curves, metrics, everything, DICOM; and the script that does the same."""

import csv
import itertools
import json

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import from_graph, run
from napari_gpubio.dose import surface_histograms
from napari_gpubio.dose.io import read_dvh_sequence, read_rtstruct
from napari_gpubio.dose.napari_io import contours_layer
from tests.dock_widgets import run_script, save_scripts_as, script_of, shown_by_script
from tests.dose.dicom_files import save_dose, save_structures
from tests.dose.gui.panel_samples import AFFINE, SAGITTAL, a_dose, dose_values, label_values, organs
from tests.dose.samples import ROTATION, affine_of
from tests.sentences import says

COLUMNS = "gEUD(a=8), EQD2(D2cc, alpha_beta=3, fractions=30), HI, Paddick CI(target=lung)"


DIALOGS = "napari_gpubio.gui.file_dialogs.QFileDialog"


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.reader(file))


def test_everything_includes_how_it_was_made(user, panel, tmp_path):
    user.choose_two_plans(a_dose(scale=0.5))
    panel.scale_box.scale.box.setValue(2.0)
    user.run()
    panel.export.write_everything(tmp_path / "e.json")
    written = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert written["parameters"]["scaled_by"] == 2.0
    assert written["parameters"]["histograms"]["sampling"]["spacing_mm"] == 0.7
    assert written["structures"][0]["mean"] == user.curve("lung").mean
    assert [*from_graph(written["parameters"]["record"]).values()][-1] == panel.operation()
    other = json.loads((tmp_path / "e (2nd plan).json").read_text(encoding="utf-8"))
    assert other["structures"][0]["mean"] == user.curve("lung", second=True).mean


def test_surfaces_are_those_of_the_engine(user, panel, tmp_path, monkeypatch):
    user.choose_two_plans(a_dose(scale=0.5))
    panel.scale_box.scale.box.setValue(2.0)
    user.run()
    monkeypatch.setattr(f"{DIALOGS}.getSaveFileName", lambda *_, **__: (str(tmp_path / "s.csv"), ""))
    next(action for action in panel.export.menu().actions() if "surface" in action.text()).trigger()
    user.settle()
    assert panel.message == ""
    for file, scale in (("s.csv", 2.0), ("s (2nd plan).csv", 1.0)):
        lung, heart = surface_histograms(a_dose(scale=scale), organs())
        written = rows(tmp_path / file)[1:]
        assert [name for name, *_ in written] == ["lung"] * len(lung.doses) + ["heart"] * len(heart.doses)
        np.testing.assert_allclose([float(area) for *_, area in written[: len(lung.doses)]], lung.areas_cm2, rtol=1e-6)
        np.testing.assert_allclose([float(dose) for _, dose, _ in written[: len(lung.doses)]], lung.doses, rtol=1e-5)


def test_nothing_to_write_is_explained(panel, tmp_path):
    for write in (panel.export.write_png, panel.export.write_curves, panel.export.write_everything):
        with pytest.raises(InvalidInput, match="press Run first"):
            write(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    script_of(panel)
    assert "there is no dose" in panel.message


def test_a_dicom_sequence_needs_files_and_takes_their_numbers(user, panel, tmp_path, monkeypatch):
    source = save_dose(tmp_path / "dose.dcm", np.ones((3, 4, 5), np.uint16))
    loop = np.array([[0, 0, 0], [9, 0, 0], [9, 9, 0]], float)
    structures = save_structures(tmp_path / "rs.dcm", [("heart", [("CLOSED_PLANAR", loop)]), ("lung", [])])
    user.add_case()
    user.run()
    with pytest.raises(InvalidInput, match="choose both"):
        panel.export.write_dicom(tmp_path / "x.dcm")
    answers = itertools.cycle([str(source), str(structures)])
    monkeypatch.setattr(f"{DIALOGS}.getOpenFileName", lambda *_, **__: (next(answers), ""))
    monkeypatch.setattr(f"{DIALOGS}.getSaveFileName", lambda *_, **__: (str(tmp_path / "out.dcm"), ""))
    user.scale_doses(2.0)
    panel.export.menu().actions()[-1].trigger()
    assert "set the scale to 1" in panel.message
    user.scale_doses(1.0)
    panel.export.menu().actions()[-1].trigger()
    assert panel.message == ""  # the error is gone
    panel.show_note("of a run")
    panel.export.menu().actions()[-1].trigger()
    assert "of a run" in panel.message.lower()
    assert "out.dcm" in panel.status
    found = read_dvh_sequence(tmp_path / "out.dcm", {1: "heart", 2: "lung"})
    expected = {name: user.curve(name).volume_cc for name in ("heart", "lung")}
    assert {one.name: one.volume_cc for one in found} == pytest.approx(expected)


def test_a_file_that_cannot_be_written_is_explained(filled_panel, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{DIALOGS}.getSaveFileName", lambda *_, **__: (str(tmp_path / "missing" / "a.csv"), ""))
    next(one for one in filled_panel.export.menu().actions() if one.text() == "Curves (CSV)…").trigger()
    assert "does not exist" in filled_panel.message


@pytest.mark.daily
def test_files_have_the_values_of_the_table(user, filled_panel, tmp_path):
    filled_panel.scale_box.prescription.box.setValue(15.0)
    filled_panel.scale_box.scale.box.setValue(2.0)
    user.choose_columns(f"{COLUMNS}, D900cc[Gy]")
    filled_panel.export.write_curves(tmp_path / "c.csv")
    points = [row for row in rows(tmp_path / "c.csv") if row[0] == "lung"]
    np.testing.assert_allclose([float(row[1]) for row in points], user.curve("lung").doses)
    filled_panel.export.write_metrics(tmp_path / "m.csv")
    head, lung, heart = rows(tmp_path / "m.csv")
    assert head == ["structure", "plan", *filled_panel.table.titles[1:]]
    for written, row in ((lung, 0), (heart, 1)):
        for text, cell in zip(written[2:], user.cells(row)[1:], strict=True):
            assert text.startswith("not evaluated: ") if cell == "–" else f"{float(text):.4g}" == cell
    assert says(heart[5], "not evaluated", "target=lung", "'heart'")
    filled_panel.export.write_everything(tmp_path / "e.json")
    metrics = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["parameters"]["metrics"]
    assert [one["structure"] for one in metrics] == ["lung", "heart"]
    assert metrics[0]["values"]["HI"] == float(lung[4])
    assert metrics[1]["values"]["Paddick CI(target=lung)"] is None
    assert "less than D900cc[Gy] needs" in metrics[0]["not_evaluated"]["D900cc[Gy]"]


# -- Copy as Python ---------------------------------------------------------------------------------------------------


def saved(array, path, affine=AFFINE):
    nib.save(nib.Nifti1Image(array, affine), path)
    return str(path)


def check_written(panel, folder):
    """A script has written the curves on screen."""
    written = rows(folder / "dose-volume curves.csv")[1:]
    for one in panel.controller.curves:
        name = f"{one.dvh.name} (dose 2)" if one.second else one.dvh.name
        mine = [(float(row[1]), float(row[3])) for row in written if row[0] == name]
        np.testing.assert_array_equal(mine, np.column_stack([one.dvh.doses, one.dvh.volumes_cc]))


@pytest.mark.daily
def test_the_script_of_files_makes_curves_and_prints_the_table(user, panel, tmp_path, monkeypatch):
    dose, layer = user.add_case(SAGITTAL)
    dose.metadata["napari_gpubio"]["path"] = saved(dose_values(), tmp_path / "dose.nii.gz", SAGITTAL)
    layer.metadata["napari_gpubio"]["path"] = saved(label_values(), tmp_path / "labels.nii.gz", SAGITTAL)
    panel.scale_box.prescription.box.setValue(20.0)
    panel.scale_box.scale.box.setValue(1.5)
    panel.table.columns.enter(f"{COLUMNS}, V95%[%], Mean[cGy]")
    panel.constraints.text.setPlainText("lung: RTOG CI < 9\nlung: Mean[Gy] < 20")
    user.run()
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(panel)
    assert "sampling=BySpacing(spacing_mm=0.7)" in text
    assert "scale=1.5" in text
    assert run_script(text, tmp_path) == ""
    check_written(panel, tmp_path)
    title, lung, heart = rows(tmp_path / "dose-volume metrics.csv")
    assert title[1:] == panel.table.titles[1:]
    for written, cell in zip(lung[1:], user.cells(0)[1:], strict=True):
        assert float(written) == pytest.approx(float(cell.replace(",", "")), rel=1e-3)
    assert says(heart[4], "not evaluated", "target=lung", "'heart'")
    found = [(one.status, str(one.constraint)) for one in run(panel.operation(), device="cpu").constraints]
    assert found == [("pass", "lung: RTOG CI < 9"), ("fail", "lung: Mean[Gy] < 20")]


@pytest.mark.daily
def test_painted_labels_and_a_series_are_saved_beside_the_script(user, viewer, panel, tmp_path, monkeypatch):
    user.add_series()
    layer = user.add_organs()
    viewer.dims.set_point(0, 1)
    user.run()
    layer.paint((5, 6, 6), 2)
    user.settle()
    folder = tmp_path / "scripts"
    folder.mkdir()
    save_scripts_as(monkeypatch, folder / "script.py")
    text = script_of(panel)
    assert "frame=1" in text
    assert "STORE.hold" in text
    shown_by_script(text, tmp_path, monkeypatch)
    check_written(panel, tmp_path)


@pytest.mark.daily
def test_contours_and_a_second_plan_in_the_script(user, viewer, panel, tmp_path, monkeypatch):
    user.add_dose(a_dose(np.eye(4)))
    second = user.add_dose(a_dose(np.eye(4), 0.5), name="B")
    square = np.array([[5, 3, 3], [5, 3, 9], [5, 9, 9], [5, 9, 3]], float)
    drawn = viewer.add_shapes([square, square + np.array([1, 0, 0])], shape_type="polygon", name="drawn")
    labels = user.add_organs(organs(affine=np.eye(4)))
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.inputs_box.second_box.choose(second)
    panel.inputs_box.structures.choose(drawn, labels)
    user.run()
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    check_written(panel, tmp_path)
    assert any(one.second for one in panel.controller.curves)


def test_without_an_rtdose_nothing_more_is_asked(user, panel, monkeypatch):
    """Who has no RTDOSE file cancels the first dialog, and is told what to write instead."""
    asked = []
    monkeypatch.setattr(f"{DIALOGS}.getOpenFileName", lambda *_, **__: (asked.append("open") or "", ""))
    monkeypatch.setattr(f"{DIALOGS}.getSaveFileName", lambda *_, **__: (asked.append("save") or "", ""))
    user.add_case()
    user.run()
    panel.export.menu().actions()[-1].trigger()
    assert asked == ["open"]
    assert "write CSV or JSON" in panel.message
    light = user.add_dose(a_dose(unit="J/cm2"), name="light")
    panel.inputs_box.dose_box.choose(light)
    user.settle()
    panel.export.menu().actions()[-1].trigger()
    assert asked == ["open"]
    assert "doses are in J/cm², and a DICOM DVH sequence holds doses in Gy only" in panel.message


@pytest.mark.daily
def test_contours_of_an_rtstruct_over_an_oblique_dose_in_the_script(user, viewer, panel, tmp_path, monkeypatch):
    affine = affine_of((2.0, 2.5, 3.0), (-9, -9, -15), ROTATION)
    square = np.array([[0, 0, 0], [12, 0, 0], [12, 12, 0], [0, 12, 0]], float)
    loops = [("CLOSED_PLANAR", square + np.array([0, 0, z])) for z in (0.0, 3.0, 6.0)]
    file = save_structures(tmp_path / "rs.dcm", [("heart", loops)])
    data, keywords, _ = contours_layer(read_rtstruct(file).structures, "contours")
    drawn = viewer.add_shapes(data, **keywords)
    user.add_dose(a_dose(affine))
    labels = user.add_organs(organs(affine=affine))
    panel.inputs_box.structures.choose(drawn, labels)
    user.run()
    assert panel.message == ""
    user.draw_isodose()
    panel.tools.inside.setCurrentText("heart (contours)")
    user.settle()
    assert np.isfinite(panel.highlight.layer.data.source).any()
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    check_written(panel, tmp_path)


@pytest.mark.daily
def test_slices_that_others_tell_of_are_in_the_script(user, viewer, panel, tmp_path, monkeypatch):
    """A wide distance that is no gap, and the thickness of a single plane."""
    loop = np.array([[0, 0, 0], [12, 0, 0], [12, 12, 0], [0, 12, 0]], float)
    planes = {"heart": (6.0, 12, 15, 18), "body": (0.0, 6, 12, 15, 18), "spot": (6.0,)}
    drawn = [(name, [("CLOSED_PLANAR", loop + np.array([0, 0, z])) for z in places]) for name, places in planes.items()]
    found = read_rtstruct(save_structures(tmp_path / "rs.dcm", drawn))
    data, keywords, _ = contours_layer(found.structures, "contours")
    layer = viewer.add_shapes(data, **keywords)
    user.add_dose(a_dose(affine_of((2.0, 2.5, 3.0), (-20, -20, -9))))
    panel.inputs_box.structures.choose(layer)
    user.run()
    lengths = {"heart": 3 + 12 + 1.5, "body": 3 + 18 + 1.5, "spot": 6}
    for name, length in lengths.items():
        assert user.curve(name).volume_cc == pytest.approx(0.144 * length, rel=1e-3)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    check_written(panel, tmp_path)

"""Studies that are opened from DICOM: contours are counted as they were drawn, and what could not be read is told."""

import numpy as np
import pytest
from napari.layers import Labels, Shapes

from napari_gpubio.dose import dvh, readers
from napari_gpubio.dose.io import read_dvh_sequence, read_rtdose, read_rtstruct
from tests.dose.dicom_files import save_dose, save_structures
from tests.dose.gui.panel_samples import SETTINGS, curve, names, run, settle
from tests.dose.samples import at, circle

PLANES = (30.0, 34.0, 38.0, 42.0)


def ring(radius, center=(24.0, -6.0)):
    return [("CLOSED_PLANAR", at(circle(radius, 64, center), z)) for z in PLANES]


@pytest.fixture
def study(tmp_path):
    """A dose, and a target inside of a body."""
    pixels = np.tile(np.arange(100, 112, dtype=np.uint16) * 50, (5, 10, 1))
    save_dose(tmp_path / "dose.dcm", pixels, spacing=(3.0, 3.0, 4.0))
    save_structures(tmp_path / "structures.dcm", [("body", ring(11.0)), ("target", ring(6.0))])
    return tmp_path


def opened(viewer, folder):
    for data, keywords, kind in readers.read_layers(str(folder)):
        getattr(viewer, f"add_{kind}")(data, **keywords)


def test_contours_are_counted_where_labels_would_lose_overlaps(viewer, panel, qtbot, study):
    opened(viewer, study)
    (chosen,) = panel.inputs_box.structures.layers
    assert isinstance(chosen, Shapes)
    run(qtbot, panel)
    assert names(panel) == ["body", "target"]
    dose, structures = read_rtdose(study / "dose.dcm"), read_rtstruct(study / "structures.dcm")
    for one in structures.structures:
        wanted = dvh(dose, one, SETTINGS, device="cpu")[one.name]
        assert curve(panel, one.name).volume_cc == pytest.approx(wanted.volume_cc, rel=1e-4)
        assert curve(panel, one.name).mean == pytest.approx(wanted.mean, rel=1e-4)
    assert "tick 'structures' instead to paint" in panel.notes.text()


def test_labels_are_counted_where_they_are_ticked(viewer, panel, qtbot, study):
    opened(viewer, study)
    labels = next(layer for layer in viewer.layers if isinstance(layer, Labels))
    run(qtbot, panel)
    exact = curve(panel, "body").volume_cc
    panel.inputs_box.structures.choose(labels)
    settle(qtbot, panel)
    assert curve(panel, "body").volume_cc < 0.8 * exact  # without the target
    assert "Tick 'structures contours' instead to count structures that overlap" in panel.notes.text()


def test_numbers_of_the_file_go_into_the_dvh_sequence(viewer, panel, qtbot, study, tmp_path):
    opened(viewer, study)
    run(qtbot, panel)
    panel.export.write_dicom(tmp_path / "out.dcm")
    found = {one.name: one.volume_cc for one in read_dvh_sequence(tmp_path / "out.dcm", {1: "body", 2: "target"})}
    assert found == pytest.approx({name: curve(panel, name).volume_cc for name in ("body", "target")}, rel=1e-8)


def test_a_file_that_cannot_be_read_is_told_in_the_panel(viewer, panel, qtbot, study):
    (study / "slice.dcm").write_bytes((study / "dose.dcm").read_bytes()[:250])
    opened(viewer, study)
    run(qtbot, panel)
    assert "slice.dcm cannot be read as DICOM" in panel.notes.text()
    assert panel.notes.text().count("slice.dcm") == 1

"""Histograms to CSV, JSON and the DVH Sequence, and back."""

import csv
import dataclasses
import json

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import Dvh, contour_structure, dvh
from napari_gpubio.dose.io import (
    read_curves_csv,
    read_dvh_sequence,
    read_json,
    read_rtdose,
    write_curves_csv,
    write_dvh_sequence,
    write_json,
    write_metrics_csv,
)
from napari_gpubio.dose.metrics import parse_metric
from tests.dose.dicom_files import save_dose
from tests.dose.samples import PLANES, check_same, circle, linear_dose, stack

PIXELS = np.full((3, 3, 3), 7, np.uint16)


@pytest.fixture(scope="module")
def result():
    organs = [
        stack([circle(10.0)], PLANES, "PTV"),
        stack([circle(4.0)], PLANES, "Cord"),
        contour_structure("Empty", []),
    ]
    return dvh(linear_dose((0.2, 0.3, 0.4)), organs, device="cpu")


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_curves_in_csv_read_back_to_the_last_bit(result, tmp_path):
    write_curves_csv(tmp_path / "curves.csv", result)
    first = rows_of(tmp_path / "curves.csv")[0]
    assert float(first["dose"]) == result["PTV"].doses[0]
    assert float(first["volume_cc"]) == result["PTV"].volumes_cc[0]
    assert float(first["volume_percent"]) == 100.0
    back = read_curves_csv(tmp_path / "curves.csv")
    assert [(one.name, one.unit) for one in back] == [("PTV", "Gy"), ("Cord", "Gy")]  # what is empty has no curve
    for found in back:
        expected = result[found.name]
        np.testing.assert_array_equal(found.doses, expected.doses)
        np.testing.assert_array_equal(found.volumes_cc, expected.volumes_cc)
        assert found.mean == pytest.approx(expected.mean, rel=1e-4)


def test_metrics_as_csv(result, tmp_path):
    write_metrics_csv(tmp_path / "metrics.csv", result, [parse_metric("D95%[Gy]"), parse_metric("Volume[cc]")])
    rows = {row["structure"]: row for row in rows_of(tmp_path / "metrics.csv")}
    assert float(rows["Cord"]["D95%[Gy]"]) == result["Cord"].dose_at_percent(95)
    reason = "not evaluated: 'Empty' is empty"
    assert rows["Empty"] == {"structure": "Empty", "D95%[Gy]": reason, "Volume[cc]": "0.0"}


def test_json_reads_back_to_the_last_bit(result, tmp_path):
    write_json(tmp_path / "dvh.json", result)
    stored = json.loads((tmp_path / "dvh.json").read_text(encoding="utf-8"))
    assert stored["parameters"]["histograms"]["outside"] == "zero"
    assert stored["structures"][0]["doses"] == result["PTV"].doses.tolist()
    assert stored["structures"][2]["mean"] is None
    back = read_json(tmp_path / "dvh.json")
    assert (back.parameters, back.complete) == (result.parameters, result.complete)
    for found, expected in zip(back, result, strict=True):
        for name in (field.name for field in dataclasses.fields(Dvh)):
            np.testing.assert_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("text", ["", "not this", '{"structures": [{}]}', "[1, 2]", "structure,dose\nPTV,high\n"])
def test_other_files_hold_no_histograms(tmp_path, text):
    (tmp_path / "file").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"holds no histograms|is empty"):
        read_json(tmp_path / "file")
    if text.startswith("structure"):
        with pytest.raises(InvalidInput, match="holds no curves"):
            read_curves_csv(tmp_path / "file")


NUMBERS, NAMES = {"PTV": 3, "Cord": 8}, {3: "PTV", 8: "Cord"}


@pytest.mark.daily
def test_a_dvh_sequence_reads_back_as_it_was_written(result, tmp_path):
    source, copy = save_dose(tmp_path / "dose.dcm", PIXELS), tmp_path / "with.dcm"
    write_dvh_sequence(copy, result, NUMBERS, source)
    found = read_dvh_sequence(copy, NAMES)
    assert [one.name for one in found] == ["PTV", "Cord"]  # what is empty is left out
    for one in found:
        own = result[one.name]
        assert one.volume_cc == pytest.approx(own.volume_cc, rel=1e-9)
        assert one.mean == pytest.approx(own.mean, abs=0.005)
        np.testing.assert_allclose(one.volumes_cc[:-1], own.volume_at(one.doses[:-1]), rtol=1e-9)
    write_dvh_sequence(tmp_path / "again.dcm", found, NUMBERS, copy)
    check_same(read_dvh_sequence(tmp_path / "again.dcm", NAMES), found)
    np.testing.assert_array_equal(read_rtdose(copy).values, read_rtdose(source).values)
    before, after = pydicom.dcmread(source), pydicom.dcmread(copy)
    assert after.PatientID == before.PatientID
    assert after.SOPInstanceUID != before.SOPInstanceUID
    assert after.file_meta.MediaStorageSOPInstanceUID == after.SOPInstanceUID
    item = after.DVHSequence[0]
    assert (item.DVHType, item.DVHVolumeUnits, item.DoseUnits) == ("CUMULATIVE", "CM3", "GY")
    assert item.DVHNumberOfBins == len(item.DVHData) / 2
    assert float(item.DVHMaximumDose) == pytest.approx(result["PTV"].largest)


@pytest.mark.parametrize("name", ["rtdose.dcm", "rtdose_rle.dcm", "rtdose_expb.dcm"])
def test_copies_of_any_encoding_keep_the_dose(result, tmp_path, name):
    source = get_testdata_file(name, download=False)
    write_dvh_sequence(tmp_path / "with.dcm", result, NUMBERS, source)
    before, after = pydicom.dcmread(source), pydicom.dcmread(tmp_path / "with.dcm")
    np.testing.assert_array_equal(after.pixel_array, before.pixel_array)
    assert len(read_dvh_sequence(tmp_path / "with.dcm")) == 2


def test_differential_histograms_are_read_too(tmp_path):
    path = save_dose(tmp_path / "dose.dcm", PIXELS)
    dataset = pydicom.dcmread(path)
    item, roi = pydicom.Dataset(), pydicom.Dataset()
    roi.ReferencedROINumber = 5
    item.DVHReferencedROISequence, item.DVHType, item.DoseUnits = [roi], "DIFFERENTIAL", "GY"
    item.DVHVolumeUnits, item.DVHDoseScaling, item.DVHData = "CM3", "2", [1, 0, 1, 3, 1, 5, 1, 0]
    dataset.DVHSequence = [item]
    dataset.save_as(path)
    (found,) = read_dvh_sequence(path)
    assert found.name == "structure 5"
    np.testing.assert_allclose(found.doses, [2, 4, 6])
    np.testing.assert_allclose(found.volumes_cc, [8, 5, 0])
    assert found.mean == pytest.approx((3 * 3 + 5 * 5) / 8)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda found, source, x: write_dvh_sequence(x, found, {"PTV": 3}, source), "'Cord' has no number"),
        (lambda found, source, x: write_dvh_sequence(x, [found["Empty"]], NUMBERS, source), "all structures are empty"),
        (lambda found, source, x: write_dvh_sequence(x, found, NUMBERS, source, bin_width=1e-9), "are too many"),
        (lambda found, source, x: write_curves_csv(x / "x.csv", found), "the folder"),
        (lambda found, source, x: read_dvh_sequence(source), "holds no histograms"),
    ],
)
def test_what_cannot_be_written_is_refused(result, tmp_path, write, message):
    with pytest.raises(InvalidInput, match=message):
        write(result, save_dose(tmp_path / "dose.dcm", PIXELS), tmp_path / "x")
    assert not (tmp_path / "x").exists()

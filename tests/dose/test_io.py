"""CT series, plans and NIfTI: read where they are good, refused with a sentence where they are not."""

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.uid import RLELossless

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.dose import Dose, LabelStructures, dvh
from napari_gpubio.dose.io import nifti, read_ct, read_rtplan
from tests.dose.dicom_files import save_ct, save_dose, save_plan
from tests.dose.samples import ROTATION, affine_of
from tests.sentences import says

STORED = np.random.default_rng(0).integers(0, 3000, (5, 6, 7)).astype(np.int16)  # slices, rows, columns
PIXELS = np.full((5, 10, 12), 5000, np.uint16)


# -- CT ---------------------------------------------------------------------------------------------------------------


def test_a_series_in_any_order_of_files(tmp_path):
    files = save_ct(tmp_path, STORED)
    orders = tmp_path, files[::-1], [files[i] for i in (3, 0, 4, 1, 2)]
    for path in orders:
        ct = read_ct(path)
        assert ct.values.dtype == np.int16
        np.testing.assert_array_equal(ct.values, STORED.transpose(2, 1, 0) - 1024)
        np.testing.assert_allclose(ct.affine @ (2, 3, 1, 1), (-(10 + 2 * 2.0), -(-20 + 3 * 1.5), 30 + 3.0, 1))
        assert (ct.frame_of_reference, ct.name) == ("1.2.3.4", "THORAX")
    for file in files:
        dataset = pydicom.dcmread(file)
        dataset.compress(RLELossless)
        dataset.save_as(file)
    np.testing.assert_array_equal(read_ct(tmp_path).values, STORED.transpose(2, 1, 0) - 1024)


def test_scalings_that_differ_by_slice_and_are_no_whole_numbers(tmp_path):
    slopes = [1.0, 0.5, 1.0, 2.0, 1.0]
    save_ct(tmp_path, STORED, each=lambda n: {"RescaleSlope": slopes[n]})
    expected = STORED * np.array(slopes)[:, None, None] - 1024
    np.testing.assert_allclose(read_ct(tmp_path).values, expected.transpose(2, 1, 0))


def test_slices_of_any_orientation(tmp_path):
    """Sagittal slices, and slices whose positions run against the normal."""
    cosines = [0, 1, 0, 0, 0, -1]
    save_ct(tmp_path, STORED, cosines=cosines, step=-3.0)
    ct = read_ct(tmp_path)
    normal = np.cross(cosines[:3], cosines[3:])
    np.testing.assert_allclose(ct.affine[:3, 2], normal * 3.0 * (-1, -1, 1))
    np.testing.assert_array_equal(ct.values, STORED[::-1].transpose(2, 1, 0) - 1024)


def test_a_slice_of_another_maker():
    ct = read_ct(get_testdata_file("CT_small.dcm", download=False))
    assert ct.values.shape == (128, 128, 1)
    np.testing.assert_allclose(np.abs(np.diag(ct.affine)), (0.661468, 0.661468, 5.0, 1.0))


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda n: {"remove": n != 2, "PixelData": b"12"}, ("cannot be read",)),
        (lambda n: {"ImagePositionPatient": None}, ("has no ImagePositionPatient",)),
        (lambda n: {"Rows": 0}, ("Rows", "cannot")),
    ],
)
def test_a_series_of_which_no_slice_can_be_read_is_refused(tmp_path, change, facts):
    """What is odd about some of the slices is in `tests.conformance.studies`."""
    save_ct(tmp_path, STORED, each=change)
    with pytest.raises(InvalidInput) as error:
        read_ct(tmp_path)
    assert says(str(error.value), *facts) or says(str(error.value), "cannot be read")


def test_slices_are_resampled_to_the_finest_distance_that_is_usual(tmp_path):
    """A linear image stays the same wherever its slices lie."""
    places = np.array([0, 5, 10, 15, 17.5, 20, 22.5, 22.9])
    stored = np.round(np.broadcast_to(100 * places[:, None, None], (8, 6, 7))).astype(np.int16)
    save_ct(tmp_path, stored, each=lambda n: {"offset": (0, 0, places[n] - 3.0 * n)})
    ct = read_ct(tmp_path)
    assert ct.values.shape[2] == 10
    np.testing.assert_allclose(ct.values[0, 0] + 1024, 100 * 22.9 / 9 * np.arange(10), atol=1)
    np.testing.assert_allclose(ct.slices[:, 2], 30 + places)


def test_one_of_several_series_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("DICM", encoding="utf-8")
    save_dose(tmp_path / "dose.dcm", PIXELS)
    with pytest.raises(InvalidInput, match="holds no CT slices"):
        read_ct(tmp_path)
    with pytest.raises(InvalidInput, match="of kind RTDOSE; give a CT file"):
        read_ct([tmp_path / "dose.dcm"])
    save_ct(tmp_path, STORED, each=lambda n: {"SeriesInstanceUID": f"1.2.{n % 2}"})
    assert read_ct(tmp_path, series="1.2.0").affine[2, 2] == 6.0
    with pytest.raises(InvalidInput, match=r"holds no CT slices of series 9"):
        read_ct(tmp_path, series="9")


# -- plans ------------------------------------------------------------------------------------------------------------


def test_a_prescription(tmp_path):
    references = [
        {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "POINT", "TargetPrescriptionDose": "66"},
        {
            "DoseReferenceType": "TARGET",
            "DoseReferenceStructureType": "VOLUME",
            "DoseReferenceDescription": "PTV",
            "TargetPrescriptionDose": "60",
            "ReferencedROINumber": 4,
        },
        {"DoseReferenceType": "ORGAN_AT_RISK", "DoseReferenceStructureType": "VOLUME"},
    ]
    plan = read_rtplan(save_plan(tmp_path / "plan.dcm", references, [(30, [1.0, 1.1])]))
    assert plan.prescription == (60.0, "prescribed to 'PTV'")
    assert (plan.fractions, plan.label) == (30, "PLAN")
    assert plan.references[1].structure == 4
    assert plan.references[2].prescription_gy is None
    assert plan.beams_gy == pytest.approx(63.0)


def test_plans_with_less_in_them(tmp_path):
    beams = read_rtplan(save_plan(tmp_path / "beams.dcm", [], [(10, [1.5, 0.5]), (5, [2.0])]))
    assert (beams.prescription, beams.fractions) == ((30.0, "sum of the beams' doses"), 15)
    nothing = read_rtplan(save_plan(tmp_path / "nothing.dcm", [], []))
    assert (nothing.prescription, nothing.fractions) == (None, None)
    with pytest.raises(InvalidInput, match="of kind RTDOSE; give an RTPLAN file"):
        read_rtplan(save_dose(tmp_path / "dose.dcm", PIXELS))
    plan = read_rtplan(get_testdata_file("rtplan.dcm", download=False))
    assert plan.prescription == (pytest.approx(30.826203), "prescribed to 'PTV'")
    assert (plan.fractions, plan.beams_gy) == (30, pytest.approx(30.826203))


# -- NIfTI ------------------------------------------------------------------------------------------------------------


def test_doses_and_labels_to_nifti_and_back(tmp_path):
    rng = np.random.default_rng(2)
    affine = affine_of((2.0, 2.5, 3.0), (-9, 4, 7), ROTATION)
    dose = Dose(values=rng.random((8, 9, 10)).astype(np.float32), affine=affine, unit="J/cm2")
    labels = LabelStructures(labels=rng.integers(0, 3, (8, 9, 10)), affine=affine, structures={1: "a", 2: "b"})
    nifti.write_dose(tmp_path / "dose.nii.gz", dose)
    write_volume(tmp_path / "labels.nii.gz", labels.labels, labels.affine)
    read = nifti.read_dose(tmp_path / "dose.nii.gz")
    assert (read.unit, read.name) == ("J/cm²", "dose.nii.gz")
    np.testing.assert_array_equal(read.values, dose.values)
    np.testing.assert_allclose(read.affine, affine, atol=1e-5)
    back = nifti.read_labels(tmp_path / "labels.nii.gz", {1: "a", 2: "b"})
    np.testing.assert_array_equal(back.labels, labels.labels)
    for found, expected in zip(dvh(read, back, device="cpu"), dvh(dose, labels, device="cpu"), strict=True):
        assert found.volume_cc == pytest.approx(expected.volume_cc, rel=1e-5)
        assert found.mean == pytest.approx(expected.mean, rel=1e-4)  # the affine is stored as float32


def test_nifti_without_a_unit_and_labels_that_are_stored_as_floats(tmp_path):
    write_volume(tmp_path / "dose.nii", np.ones((3, 3, 3), np.float32), np.eye(4), "something in Gy")
    with pytest.raises(InvalidInput, match=r"dose\.nii does not state the unit of its dose"):
        nifti.read_dose(tmp_path / "dose.nii")
    assert nifti.read_dose(tmp_path / "dose.nii", unit="Gy").unit == "Gy"
    values = np.array([[[0.0, 1.0, 7.0]]], np.float32)
    write_volume(tmp_path / "labels.nii", values, np.eye(4))
    assert nifti.read_labels(tmp_path / "labels.nii").names == ("label 1", "label 7")
    write_volume(tmp_path / "labels.nii", values * 0.5, np.eye(4))
    with pytest.raises(InvalidInput, match="the labels hold float32 values; give integers"):
        nifti.read_labels(tmp_path / "labels.nii")

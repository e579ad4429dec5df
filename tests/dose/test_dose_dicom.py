"""RTDOSE and RTSTRUCT: read where they are good, refused with a sentence where they are not."""

import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.uid import DeflatedExplicitVRLittleEndian

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import DvhSettings, dvh
from napari_gpubio.dose.io import read_ct, read_rtdose, read_rtplan, read_rtstruct
from tests.dose.dicom_files import FRAME, save_ct, save_dose, save_plan, save_structures
from tests.dose.samples import at, circle, square
from tests.fuzzing import fuzzed, refusal

PIXELS = np.arange(4 * 5 * 6, dtype=np.uint16).reshape(4, 5, 6) * 30
TARGET = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "50"}
CIRCLES = [("CLOSED_PLANAR", at(circle(4.0, 32, (15, -14)), z)) for z in (34.0, 38.0)]


def world(dose, *index):
    """RAS position of a voxel."""
    return (dose.affine @ (*index, 1))[:3]


def test_a_dose_and_where_it_lies(tmp_path):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS))
    assert dose.values.shape == (6, 5, 4)
    np.testing.assert_allclose(dose.values[2, 3, 1], PIXELS[1, 3, 2] * 0.01)
    np.testing.assert_allclose(world(dose, 0, 0, 0), (-10, 20, 30))  # patient axes run to the left and to the back
    np.testing.assert_allclose(world(dose, 2, 3, 1), (-14, 11, 34))
    assert (dose.unit, dose.frame_of_reference, dose.name) == ("Gy", FRAME, "dose.dcm")


@pytest.mark.parametrize("offsets", [[0, 4, 8, 12], [30, 34, 38, 42]], ids=["relative", "absolute"])
def test_offsets_of_frames_are_relative_or_patient_coordinates(tmp_path, offsets):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, GridFrameOffsetVector=offsets))
    np.testing.assert_allclose(world(dose, 0, 0, 3)[2], 42.0)


def test_frames_may_run_downwards(tmp_path):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, GridFrameOffsetVector=[0, -4, -8, -12]))
    np.testing.assert_allclose(world(dose, 0, 0, 3)[2], 18.0)


def test_other_orientations(tmp_path):
    prone = {"ImageOrientationPatient": [-1, 0, 0, 0, -1, 0]}
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, **prone))
    np.testing.assert_allclose(world(dose, 2, 3, 1), (-10 + 4, 20 + 9, 34))


def test_wide_pixels_and_small_scalings_lose_nothing(tmp_path):
    pixels = (PIXELS.astype(np.uint32) + 1) * 1_000_003
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", pixels, scale=1.25e-8))
    np.testing.assert_array_equal(dose.values, pixels.transpose(2, 1, 0) * 1.25e-8)


def test_a_deflated_file(tmp_path):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, DeflatedExplicitVRLittleEndian))
    np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)


@pytest.mark.parametrize("name", ["rtdose.dcm", "rtdose_rle.dcm", "rtdose_expb.dcm"])
def test_files_of_pydicom(name):
    """15 frames of 10 x 10: little endian, run-length encoded, big endian."""
    path = get_testdata_file(name, download=False)
    with pytest.raises(InvalidInput, match="gives its doses as RELATIVE, not in Gy; say what they are with unit="):
        read_rtdose(path)
    dose = read_rtdose(path, unit="%")
    data = pydicom.dcmread(path)
    assert dose.values.shape == (10, 10, 15)
    np.testing.assert_allclose(dose.values, data.pixel_array.transpose(2, 1, 0) * float(data.DoseGridScaling))
    np.testing.assert_allclose(np.abs(np.diag(dose.affine)[:3]), (10, 10, 5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"DoseGridScaling": None}, "dose.dcm has no DoseGridScaling"),
        ({"PixelData": None}, "dose.dcm has no PixelData"),
        ({"PixelData": b"12345678"}, "cannot be read"),
        ({"NumberOfFrames": 3}, "GridFrameOffsetVector of dose.dcm|declares 3 frames|cannot be read"),
        ({"GridFrameOffsetVector": [0, 4, 8, 13]}, "4 to 5 mm apart; export the dose on an evenly"),
        ({"GridFrameOffsetVector": [0, 4, 8]}, "GridFrameOffsetVector of dose.dcm is"),
        ({"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, "which are no axes"),
        ({"PixelSpacing": [0, 2]}, "cannot be inverted"),
        ({"DoseUnits": "RELATIVE"}, "say what they are with unit="),
        ({"DoseUnits": None}, "gives its doses as nothing"),
        ({"Modality": "CT"}, None),
    ],
)
def test_bad_doses_are_refused(tmp_path, changes, message):
    path = save_dose(tmp_path / "dose.dcm", PIXELS, **changes)
    if message is None:  # told by its class all the same
        assert read_rtdose(path).values.shape == (6, 5, 4)
        return
    with pytest.raises(InvalidInput, match=message):
        read_rtdose(path)


def test_relative_doses_are_in_the_unit_that_is_told(tmp_path):
    assert read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, DoseUnits="RELATIVE"), unit="%").unit == "%"


def test_what_is_no_dicom_is_refused(tmp_path):
    for content, message in ((b"", "is empty"), (b"hello" * 100, "cannot be read as DICOM|is no DICOM file")):
        (tmp_path / "file.dcm").write_bytes(content)
        for read in (read_rtdose, read_rtstruct):
            with pytest.raises(InvalidInput, match=message):
                read(tmp_path / "file.dcm")
    with pytest.raises(InvalidInput, match="does not exist"):
        read_rtdose(tmp_path / "gone.dcm")
    path = save_dose(tmp_path / "dose.dcm", PIXELS)
    with pytest.raises(InvalidInput, match=r"dose.dcm is a DICOM file of kind RTDOSE; give an RTSTRUCT file"):
        read_rtstruct(path)


def test_structures(tmp_path):
    others = [("POINT", [[1, 2, 3]]), ("OPEN_PLANAR", at(square(2.0), 34.0))]
    path = save_structures(
        tmp_path / "s.dcm", [("PTV", CIRCLES), ("Empty", []), ("Marks", others), ("One", CIRCLES[:1])]
    )
    found = read_rtstruct(path)
    assert [structure.name for structure in found.structures] == ["PTV", "Empty", "Marks", "One"]
    assert found.numbers == (1, 2, 3, 4)
    assert found["PTV"].frame_of_reference == FRAME
    assert found.notes == ("2 contours of 'Marks' are not closed (OPEN_PLANAR, POINT) and were left out",)
    assert found["PTV"].color == (255, 40, 0)
    assert [plane.position_mm for plane in found["PTV"].planes] == [34.0, 38.0]
    assert found["One"].thickness_mm == 4.0
    assert not found["Empty"].planes
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS))
    result = dvh(dose, found.structures, device="cpu")
    assert result["PTV"].volume_cc == pytest.approx(np.pi * 16 * 8 / 1000, rel=1e-3)
    assert result["One"].volume_cc == pytest.approx(np.pi * 16 * 4 / 1000, rel=1e-3)
    assert result["Marks"].is_empty
    x, y, z = (15 - 10) / 2, (-14 + 20) / 3, (36 - 30) / 4  # index of the center
    assert result["PTV"].mean == pytest.approx((z * 30 + y * 6 + x) * 0.3, rel=1e-3)
    with pytest.raises(InvalidInput, match="there is no structure 'GTV'; there are PTV, Empty"):
        found["GTV"]


def test_names_that_repeat_are_told_apart(tmp_path):
    larger = [("CLOSED_PLANAR", at(circle(6.0, 32, (15, -14)), z)) for z in (34.0, 38.0)]
    found = read_rtstruct(save_structures(tmp_path / "s.dcm", [("PTV", CIRCLES), ("", []), ("PTV", larger)]))
    assert [structure.name for structure in found.structures] == ["PTV (1)", "structure 2", "PTV (3)"]
    assert found.notes == ("2 structures are named 'PTV' and are told apart by their numbers",)
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS))
    result = dvh(dose, found.structures, device="cpu")
    assert result["PTV (3)"].volume_cc / result["PTV (1)"].volume_cc == pytest.approx(2.25, rel=1e-3)


def test_another_frame_of_reference_is_refused_unless_forced(tmp_path):
    found = read_rtstruct(save_structures(tmp_path / "s.dcm", [("PTV", CIRCLES)]))
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, FrameOfReferenceUID="9.8.7"))
    with pytest.raises(
        InvalidInput, match=r"'PTV' and the dose have other frames of reference \(1\.2\.3\.4 and 9\.8\.7\)"
    ):
        dvh(dose, found.structures, device="cpu")
    assert dvh(dose, found.structures, DvhSettings(any_frame=True), device="cpu")["PTV"].volume_cc > 0


def test_structures_of_pydicom():
    found = read_rtstruct(get_testdata_file("rtstruct.dcm", download=False))
    assert any("POINT" in note for note in found.notes)
    assert sum(len(structure.planes) for structure in found.structures) > 0


def test_bad_structures_are_refused(tmp_path):
    bent = at(square(3.0), 34.0)
    bent[0, 2] += 2.0
    with pytest.raises(InvalidInput, match="leaves its plane"):
        read_rtstruct(save_structures(tmp_path / "s.dcm", [("bent", [("CLOSED_PLANAR", bent)])]))
    odd = save_structures(tmp_path / "s.dcm", [("odd", [("CLOSED_PLANAR", np.append(at(square(3.0), 34.0), 1.0))])])
    with pytest.raises(InvalidInput, match="has 13 coordinates, not three a point"):
        read_rtstruct(odd)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    return (
        (read_rtdose, save_dose(folder / "dose.dcm", PIXELS).read_bytes()),
        (read_rtstruct, save_structures(folder / "s.dcm", [("PTV", CIRCLES)]).read_bytes()),
        (read_rtplan, save_plan(folder / "plan.dcm", [TARGET], [(25, [1.0, 1.0])]).read_bytes()),
        (read_ct, save_ct(folder, np.arange(60, dtype=np.int16).reshape(1, 6, 10))[0].read_bytes()),
    )


@fuzzed(60)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4), st.floats(0.05, 1))
def test_damaged_files_are_refused_or_read(good, tmp_path, changes, share):
    """Cut off or with other bytes somewhere behind the preamble: nothing but `InvalidInput` may come."""
    for read, content in good:
        damaged = bytearray(content)
        for place, byte in changes:
            damaged[132 + int(place * (len(damaged) - 133))] = byte
        refusal(read, tmp_path / "damaged.dcm", bytes(damaged[: int(share * len(damaged))]))

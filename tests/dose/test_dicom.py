"""DICOM files: read, damaged, and from a planning system."""

import json
import tracemalloc
import warnings
from contextlib import suppress

import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.dose import Dose, DvhSettings, contour_structure, dvh
from napari_gpubio.dose.io import read_ct, read_rtdose, read_rtplan, read_rtstruct
from napari_gpubio.dose.io.dicom import modality_of, sorted_by_modality
from napari_gpubio.dose.reader import get_reader, read_layers
from tests.dose.dicom_files import FRAME, counted, save_ct, save_dose, save_plan, save_structures
from tests.dose.samples import affine_of, at, circle, square
from tests.fuzzing import fuzzed, refusal
from tests.sentences import says

PIXELS = np.arange(4 * 5 * 6, dtype=np.uint16).reshape(4, 5, 6) * 30
TARGET = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "50"}
CIRCLES = [("CLOSED_PLANAR", at(circle(4.0, 32, (15, -14)), z)) for z in (34.0, 38.0)]
STORED = np.zeros((5, 6, 7), np.int16)
ORGAN_CIRCLES = [("CLOSED_PLANAR", at(circle(6.0, 64, (21, -9)), z)) for z in (32.0, 35.0, 38.0)]
IN_PREAMBLE, IN_META, IN_CLASS, IN_HEADER, IN_PIXELS = 60, 250, 375, 600, 930  # bytes that are left of a slice


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, DeflatedExplicitVRLittleEndian], ids=["plain", "deflated"])
def test_a_dose(tmp_path, syntax):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, syntax))
    np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
    assert (dose.unit, dose.frame_of_reference, dose.name) == ("Gy", FRAME, "dose.dcm")


@pytest.mark.parametrize(
    ("changes", "index", "expected"),
    [
        ({}, (0, 0, 0), (-10, 20, 30)),  # patient axes run to the left and to the back
        ({}, (2, 3, 1), (-14, 11, 34)),
        ({"GridFrameOffsetVector": [0, 4, 8, 12]}, (0, 0, 3), (-10, 20, 42)),
        ({"GridFrameOffsetVector": [30, 34, 38, 42]}, (0, 0, 3), (-10, 20, 42)),  # in patient coordinates
        ({"GridFrameOffsetVector": [0, -4, -8, -12]}, (0, 0, 3), (-10, 20, 18)),
        ({"ImageOrientationPatient": [-1, 0, 0, 0, -1, 0]}, (2, 3, 1), (-10 + 4, 20 + 9, 34)),
    ],
    ids=["first", "another", "relative offsets", "absolute offsets", "downwards", "prone"],
)
def test_where_a_voxel_lies(tmp_path, changes, index, expected):
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, **changes))
    np.testing.assert_allclose((dose.affine @ (*index, 1))[:3], expected)


def test_wide_pixels_and_small_scalings_lose_nothing(tmp_path):
    pixels = (PIXELS.astype(np.uint32) + 1) * 1_000_003
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", pixels, scale=1.25e-8))
    np.testing.assert_array_equal(dose.values, pixels.transpose(2, 1, 0) * 1.25e-8)


@pytest.mark.parametrize("name", ["rtdose.dcm", "rtdose_rle.dcm", "rtdose_expb.dcm"])
def test_files_of_pydicom(name):
    """15 frames of 10 x 10: little endian, run-length encoded, big endian."""
    path = get_testdata_file(name, download=False)
    with pytest.raises(InvalidInput, match="gives its doses as RELATIVE, not in Gy; state the unit with unit="):
        read_rtdose(path)
    dose = read_rtdose(path, unit="%")
    data = pydicom.dcmread(path)
    assert (dose.values.shape, dose.unit) == ((10, 10, 15), "%")
    np.testing.assert_allclose(dose.values, data.pixel_array.transpose(2, 1, 0) * float(data.DoseGridScaling))
    np.testing.assert_allclose(np.abs(np.diag(dose.affine)[:3]), (10, 10, 5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"DoseGridScaling": None}, "dose.dcm has no DoseGridScaling"),
        ({"PixelData": None}, "dose.dcm has no PixelData"),
        ({"PixelData": b"12345678"}, "cannot be read"),
        ({"NumberOfFrames": 3}, "GridFrameOffsetVector of dose.dcm|declares 3 frames|cannot be read"),
        ({"GridFrameOffsetVector": [0, 4, 8, 8]}, "at one place .*runs by 0 to 4 mm"),
        ({"GridFrameOffsetVector": [0, 4, 8]}, "GridFrameOffsetVector of dose.dcm is"),
        ({"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, "which are no axes"),
        ({"PixelSpacing": [0, 2]}, "must be positive"),
        ({"DoseUnits": "RELATIVE"}, "state the unit with unit="),
        ({"DoseUnits": None}, "gives its doses as nothing"),
        ({"Modality": "CT"}, None),
    ],
)
def test_bad_doses_are_refused(tmp_path, changes, message):
    path = save_dose(tmp_path / "dose.dcm", PIXELS, **changes)
    if message is None:  # known by its class
        assert read_rtdose(path).values.shape == (6, 5, 4)
        return
    with pytest.raises(InvalidInput, match=message):
        read_rtdose(path)


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
    assert says(
        "\n".join(found.notes), "2 contours of 'Marks'", "OPEN_PLANAR, POINT", "left out", "'One'", "4 mm thick"
    )
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


def test_names_that_repeat_are_distinguished(tmp_path):
    larger = [("CLOSED_PLANAR", at(circle(6.0, 32, (15, -14)), z)) for z in (34.0, 38.0)]
    found = read_rtstruct(save_structures(tmp_path / "s.dcm", [("PTV", CIRCLES), ("", []), ("PTV", larger)]))
    assert [structure.name for structure in found.structures] == ["PTV (1)", "structure 2", "PTV (3)"]
    (note,) = found.notes
    assert says(note, "s.dcm", "2 structures", "'PTV'", "numbers")
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS))
    result = dvh(dose, found.structures, device="cpu")
    assert result["PTV (3)"].volume_cc / result["PTV (1)"].volume_cc == pytest.approx(2.25, rel=1e-3)


def test_another_frame_of_reference_is_refused_unless_forced(tmp_path):
    found = read_rtstruct(save_structures(tmp_path / "s.dcm", [("PTV", CIRCLES)]))
    dose = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, FrameOfReferenceUID="9.8.7"))
    with pytest.raises(
        InvalidInput, match=r"'PTV' and the dose have different frames of reference \(1\.2\.3\.4 and 9\.8\.7\)"
    ):
        dvh(dose, found.structures, device="cpu")
    assert dvh(dose, found.structures, DvhSettings(any_frame=True), device="cpu")["PTV"].volume_cc > 0


def test_structures_of_pydicom():
    found = read_rtstruct(get_testdata_file("rtstruct.dcm", download=False))
    assert any("2 points of interest have no volume: Isocenter 1, Isocenter 2" in note for note in found.notes)
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


def cut(file, size):
    file.write_bytes(file.read_bytes()[:size])


@pytest.mark.parametrize("size", [0, IN_PREAMBLE, IN_META, IN_CLASS, IN_HEADER, IN_PIXELS])
@pytest.mark.parametrize("slice_", [0, 2, 4], ids=["first", "middle", "last"])
def test_a_truncated_slice_is_left_out_by_its_name(tmp_path, slice_, size):
    files = save_ct(tmp_path, STORED)
    cut(files[slice_], size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingNote)
        ((shown, keywords, _),) = read_layers(str(tmp_path))
    slices = 4 if slice_ in (0, 4) else 5  # what is missing in the middle is interpolated
    notes = keywords["metadata"][KEY]["notes"]
    found = [(shown.shape[0], notes), *((ct.values.shape[2], ct.notes) for ct in map(read_ct, [tmp_path, files]))]
    for depth, texts in found:
        assert depth == slices
        assert says("\n".join(texts), files[slice_].name)
    for file in files:
        cut(file, size)
    with pytest.raises(InvalidInput, match=r"cannot be read|is empty|is no DICOM file|has no|give a CT file"):
        read_ct(files)


def test_foreign_files_are_passed_over_and_slices_need_no_preamble(tmp_path):
    files = save_ct(tmp_path, STORED)
    for name in ("README.txt", "DICOMDIR", "slices.csv"):
        (tmp_path / name).write_text("nothing of this", encoding="utf-8")
    (tmp_path / "folder.dcm").mkdir()
    whole = read_ct(tmp_path).values
    assert whole.shape == read_ct(files).values.shape == (7, 6, 5)
    kinds, damaged = sorted_by_modality(tmp_path)
    assert (sorted(kinds), damaged) == (["CT"], ())
    for file in files[1:]:
        file.write_bytes(file.read_bytes()[132:])
    np.testing.assert_array_equal(read_ct(tmp_path).values, whole)


def test_of_a_folder_of_very_many_files_the_first_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("napari_gpubio.dose.io.dicom._MAX_FILES", 3)
    save_ct(tmp_path, STORED)
    ct = read_ct(tmp_path)
    assert ct.values.shape[2] <= 5
    assert says("\n".join(ct.notes), tmp_path.name, "more than 3 files", "not looked at")


def test_a_directory_of_dicom_is_none_of_its_slices(tmp_path):
    (path,) = save_ct(tmp_path, STORED[:1])
    content = path.read_bytes()
    meta = content.replace(b"1.2.840.10008.5.1.4.1.1.2", b"1.2.840.10008.1.3.10".ljust(25, b"\0"))
    directory = tmp_path / "DICOMDIR"
    directory.write_bytes(meta[: IN_META + 60])
    assert modality_of(directory) == ""


def test_damage_beside_a_dose_is_noted(tmp_path):
    save_dose(tmp_path / "dose.dcm", np.full((5, 10, 12), 5000, np.uint16), spacing=(2.0, 2.0, 3.0))
    save_structures(tmp_path / "structures.dcm", [("PTV", ORGAN_CIRCLES)])
    (tmp_path / "slice.dcm").write_bytes((tmp_path / "dose.dcm").read_bytes()[:IN_META])
    with pytest.warns(ReadingNote, match="slice.dcm"):
        dose, _, labels = read_layers(str(tmp_path))
    for layer in (dose, labels):
        (note,) = layer[1]["metadata"][KEY]["notes"]
        assert says(note, "slice.dcm cannot be read as DICOM (it ends before its kind)")


def test_a_damaged_file_alone_is_a_sentence(tmp_path):
    (tmp_path / "a.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\x02\0")
    assert get_reader(str(tmp_path / "a.dcm")) is None
    with pytest.raises(InvalidInput, match=r"a\.dcm cannot be read as DICOM"):
        read_layers(str(tmp_path / "a.dcm"))


@pytest.fixture
def plan(shared_data):
    """Our histograms, the planning system's by name, and the structures."""
    return counted(shared_data / "dose" / "dicompyler_example")


@pytest.mark.parametrize(
    ("name", "percent"),
    [("Breast", 1.5), ("Heart", 2.5), ("Lt Lung", 3.0), ("Tumor Bed", 5.0), ("Tumor Bed Block", 3.0)],
)
def test_histograms_are_close_to_the_planning_systems(plan, name, percent):
    found, stored = plan[0][name], plan[1][name]
    doses = np.linspace(0.1, 14.6, 300)
    assert np.abs(found.percent_at(doses) - stored.percent_at(doses)).max() < percent
    if name != "Tumor Bed Block":
        assert found.mean == pytest.approx(stored.mean, rel=0.01)
        assert found.dose_at_percent(2) == pytest.approx(stored.dose_at_percent(2), rel=0.01)


def test_converged_slabs_of_another_program_are_met(plan, shared_data):
    """0.25 mm samples everywhere, another program; ours are spaced by accuracy."""
    result, _, structures = plan
    assert result["Areola"].is_empty
    known = json.loads((shared_data / "dose" / "dicompyler_example_ref.json").read_text(encoding="utf-8"))
    for number, structure in zip(structures.numbers, structures.structures, strict=True):
        reference = known[str(number)].get("slab_ref_xor")
        if reference is None or structure.name == "BODY":  # part of it lies outside the dose
            continue
        found = result[structure.name]
        assert found.volume_cc == pytest.approx(reference["volume_cc"], rel=2e-3), structure.name
        assert found.mean == pytest.approx(reference["mean"], rel=2e-3), structure.name
        bin_gy = 14.681 / 4096
        for percent in (98, 95, 50, 5, 2):
            assert found.dose_at_percent(percent) == pytest.approx(reference[f"D{percent}"], rel=1e-2, abs=bin_gy), (
                structure.name
            )


def test_the_phantom_of_four_organs(shared_data):
    """262 contours in a dose of 4 mm; values of a converged calculation."""
    data = np.load(shared_data / "dose" / "seed_case.npz")
    affine = affine_of(data["spacing_xyz"], data["origin_xyz"])
    dose = Dose(values=data["dose"].transpose(2, 1, 0), affine=affine, unit="Gy")
    organs = [
        contour_structure(name, [at(loop, z) for loop, z in zip(data[f"{name}_xy"], data[f"{name}_z"], strict=True)])
        for name in ("skin", "lung_l", "lung_r", "target")
    ]
    result = dvh(dose, organs, device="cpu")
    volumes = {"skin": 16825.13, "lung_l": 1933.22, "lung_r": 1933.22, "target": 137.329}
    for name, volume in volumes.items():
        assert result[name].volume_cc == pytest.approx(volume, rel=3e-4)
    target = result["target"].dose_at_percent([98, 95, 50, 2])
    np.testing.assert_allclose(target, [83.68, 87.85, 97.68, 99.59], atol=0.04)
    assert result["target"].mean == pytest.approx(96.37, abs=0.01)
    assert result["lung_l"].mean == pytest.approx(20.09, abs=0.02)
    assert result["lung_l"].dose_at_percent(5) == pytest.approx(97.38, abs=0.05)
    assert result["skin"].mean == pytest.approx(3.058, abs=0.01)
    assert result["skin"].dose_at_percent(2) == pytest.approx(43.06, abs=0.3)
    assert result["lung_r"].dose_at_percent([99, 50, 1]) == pytest.approx([0.5] * 3)  # a dose of a single value


def test_the_thickness_of_a_single_plane(tmp_path):
    square = [(0.0, 0.0, 5.0), (10.0, 0.0, 5.0), (10.0, 10.0, 5.0), (0.0, 10.0, 5.0)]
    above = [(x, y, z + 3.0) for x, y, z in square]
    single, double = ("One", [("CLOSED_PLANAR", square)]), ("Two", [("CLOSED_PLANAR", p) for p in (square, above)])
    alone = save_structures(tmp_path / "alone.dcm", [single])
    assert read_rtstruct(alone)["One"].thickness_mm is None
    assert read_rtstruct(alone, thickness_mm=2.5)["One"].thickness_mm == 2.5
    both = save_structures(tmp_path / "both.dcm", [single, double])
    found = read_rtstruct(both)
    assert found["One"].thickness_mm == pytest.approx(3.0)
    assert found["One"].notes == (
        "'One' lies in a single plane and is taken to be 3 mm thick, as slices of other structures",
    )
    assert (len(found), [one.name for one in found]) == (2, ["One", "Two"])
    with pytest.raises(InvalidInput, match="slice thickness of 'One' is -1"):
        read_rtstruct(both, thickness_mm=-1.0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("offsets", "step", "count"), [([0, 4, 8, 13], 1.0, 14), ([0, 2, 6, 10], 2.0, 6), ([0, 3, 7.5, 9], 1.5, 7)]
)
def test_frames_at_uneven_distances_are_interpolated(tmp_path, offsets, step, count, sign):
    """Linear between frames, which is what a histogram takes a dose for: each frame is there as it was."""
    signed = [sign * offset for offset in offsets]
    found = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, GridFrameOffsetVector=signed))
    even = read_rtdose(save_dose(tmp_path / "even.dcm", PIXELS))
    assert found.values.shape[2] == count
    assert found.affine[2, 2] == pytest.approx(sign * step)
    for frame, offset in enumerate(offsets):
        np.testing.assert_allclose(found.values[:, :, round(offset / step)], even.values[:, :, frame], rtol=1e-12)
    middle = 0.5 * (even.values[:, :, 2] + even.values[:, :, 3])
    at = (offsets[2] + offsets[3]) / 2 / step
    ends = found.values[:, :, int(np.floor(at))], found.values[:, :, int(np.ceil(at))]
    np.testing.assert_allclose(0.5 * (ends[0] + ends[1]), middle, rtol=1e-9)
    (note,) = found.notes
    assert f"interpolated linearly to {count} frames {step:g} mm apart" in note
    assert not even.notes


def test_frames_that_no_even_distance_meets_say_so(tmp_path):
    found = read_rtdose(save_dose(tmp_path / "dose.dcm", PIXELS, GridFrameOffsetVector=[0, 4, 8.37, 13]))
    assert "frames of the file lie up to" in found.notes[0]
    assert found.affine[2, 2] == pytest.approx(4 / 6)


@pytest.mark.parametrize("read", [read_rtdose, lambda path: read_layers(str(path))], ids=["dose", "napari"])
def test_a_length_beyond_the_file_takes_no_memory(tmp_path, read):
    """What an element states is no more than the file has."""
    file = save_dose(tmp_path / "a.dcm", PIXELS)
    data = file.read_bytes()
    at = data.index(b"\xe0\x7f\x10\x00OW") + 8  # PixelData
    file.write_bytes(data[:at] + (2**31 - 2).to_bytes(4, "little") + data[at + 4 :])
    tracemalloc.start()
    try:
        with suppress(InvalidInput):
            read(file)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_refused_structures_name_their_file(tmp_path):
    file = save_structures(
        tmp_path / "a.dcm", [("PTV", [("CLOSED_PLANAR", [[0, 0, 0], [9, 0, 0], [9, 9, 5], [0, 9, 1]])])]
    )
    with pytest.raises(InvalidInput, match=r"^a\.dcm: "):
        read_rtstruct(file)

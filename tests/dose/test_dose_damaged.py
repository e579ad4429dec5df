"""DICOM files of a folder that cannot be read: never left out without a word."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.dose import readers
from napari_gpubio.dose.io import read_ct
from napari_gpubio.dose.io.dicom import modality_of, sorted_by_modality
from tests.dose.dicom_files import save_ct, save_dose, save_structures
from tests.dose.samples import at, circle

STORED = np.zeros((5, 6, 7), np.int16)
CIRCLES = [("CLOSED_PLANAR", at(circle(6.0, 64, (21, -9)), z)) for z in (32.0, 35.0, 38.0)]
IN_PREAMBLE, IN_META, IN_CLASS, IN_HEADER, IN_PIXELS = 60, 250, 375, 600, 930  # bytes that are left of a slice


def cut(file, size):
    file.write_bytes(file.read_bytes()[:size])


@pytest.mark.parametrize("size", [0, IN_PREAMBLE, IN_META, IN_CLASS, IN_HEADER, IN_PIXELS])
@pytest.mark.parametrize("slice_", [0, 2, 4], ids=["first", "middle", "last"])
def test_a_truncated_slice_is_refused_by_its_name(tmp_path, slice_, size):
    files = save_ct(tmp_path, STORED)
    cut(files[slice_], size)
    for path in (tmp_path, files):
        with pytest.raises(InvalidInput, match=files[slice_].name):
            read_ct(path)
    with pytest.raises(InvalidInput, match=files[slice_].name):
        readers.read_layers(str(tmp_path))


def test_a_sentence_says_what_to_do(tmp_path):
    files = save_ct(tmp_path, STORED)
    cut(files[4], IN_META)
    cut(files[0], IN_META)
    with pytest.raises(InvalidInput, match=r"1 more files .* or take it out of .* if it is no CT slice: a slice may"):
        read_ct(tmp_path)


def test_foreign_files_are_passed_over(tmp_path):
    files = save_ct(tmp_path, STORED)
    for name in ("README.txt", "DICOMDIR", "slices.csv"):
        (tmp_path / name).write_text("nothing of this", encoding="utf-8")
    (tmp_path / "folder.dcm").mkdir()
    assert read_ct(tmp_path).values.shape == (7, 6, 5)
    assert read_ct(files).values.shape == (7, 6, 5)
    kinds, damaged = sorted_by_modality(tmp_path)
    assert sorted(kinds) == ["CT"]
    assert damaged == ()


def test_a_directory_of_dicom_is_none_of_its_slices(tmp_path):
    (path,) = save_ct(tmp_path, STORED[:1])
    content = path.read_bytes()
    meta = content.replace(b"1.2.840.10008.5.1.4.1.1.2", b"1.2.840.10008.1.3.10".ljust(25, b"\0"))
    directory = tmp_path / "DICOMDIR"
    directory.write_bytes(meta[: IN_META + 60])
    assert modality_of(directory) == ""


def test_a_slice_without_preamble_is_read(tmp_path):
    files = save_ct(tmp_path, STORED)
    whole = read_ct(tmp_path).values
    for file in files[1:]:
        file.write_bytes(file.read_bytes()[132:])
    np.testing.assert_array_equal(read_ct(tmp_path).values, whole)


def test_damage_beside_a_dose_is_noted(tmp_path):
    save_dose(tmp_path / "dose.dcm", np.full((5, 10, 12), 5000, np.uint16), spacing=(2.0, 2.0, 3.0))
    save_structures(tmp_path / "structures.dcm", [("PTV", CIRCLES)])
    (tmp_path / "slice.dcm").write_bytes((tmp_path / "dose.dcm").read_bytes()[:IN_META])
    dose, _, labels = readers.read_layers(str(tmp_path))
    for layer in (dose, labels):
        (note,) = layer[1]["metadata"][KEY]["notes"]
        assert note.startswith("slice.dcm cannot be read as DICOM (it ends before it says what it is)")


def test_a_damaged_file_alone_is_a_sentence(tmp_path):
    (tmp_path / "a.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\x02\0")
    assert readers.get_reader(str(tmp_path / "a.dcm")) is None
    with pytest.raises(InvalidInput, match=r"a\.dcm cannot be read as DICOM"):
        readers.read_layers(str(tmp_path / "a.dcm"))

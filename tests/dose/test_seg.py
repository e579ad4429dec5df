"""DICOM segmentations: labels on a series of images there and back; several that overlap; other files."""

import numpy as np
import pytest
from pydicom.sr.codedict import codes
from pydicom.uid import generate_uid

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import run
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose import LabelStructures
from napari_gpubio.dose.io import read_ct, read_seg, write_seg
from napari_gpubio.dose.operations import OpenLabels
from tests.dose.dicom_files import FRAME, save_ct

hd = pytest.importorskip("highdicom", reason="highdicom is absent: python -m pip install highdicom")


@pytest.fixture
def images(tmp_path):
    (tmp_path / "ct").mkdir()
    stored = np.random.default_rng(0).integers(0, 2000, (5, 12, 10))
    save_ct(tmp_path / "ct", stored, each=lambda _: {"StudyInstanceUID": "1.2.3"})
    return tmp_path / "ct"


def structures_of(images, frame=FRAME):
    ct = read_ct(images)
    labels = np.zeros(ct.values.shape, np.uint8)
    labels[2:5, 3:8, 1:4], labels[6:8, 3:8, 1:3] = 3, 7
    return LabelStructures(
        labels=labels, affine=ct.affine, structures={3: "heart", 7: "lung"}, frame_of_reference=frame
    )


def places(structures, name):
    value = structures.values[structures.names.index(name)]
    points = apply_affine(structures.affine, np.argwhere(structures.labels == value))
    return points[np.lexsort(points.T.round(3))]


def test_labels_come_back_where_they_were_with_names_and_patient(tmp_path, images):
    given = structures_of(images)
    write_seg(tmp_path / "seg.dcm", given, images)
    (found,) = read_seg(tmp_path / "seg.dcm")
    for name in ("heart", "lung"):
        np.testing.assert_allclose(places(found, name), places(given, name), atol=1e-4)
    assert found.frame_of_reference == FRAME
    assert found.patient.startswith("PHANTOM")
    opened = run(OpenLabels.at(tmp_path / "seg.dcm"), device="cpu")
    assert opened.names == ("heart", "lung")


def test_segments_that_overlap_come_in_several_volumes(tmp_path, images):
    given = structures_of(images)
    write_seg(tmp_path / "seg.dcm", given, images)
    first = hd.seg.segread(tmp_path / "seg.dcm")
    whole = first.get_volume(combine_segments=True)
    both = np.stack([whole.array > 0, whole.array == 2], axis=-1).astype(np.uint8)
    kinds = [
        hd.seg.SegmentDescription(n, name, codes.SCT.Tissue, codes.SCT.Tissue, "MANUAL")
        for n, name in ((1, "all"), (2, "lung"))
    ]
    volume = whole.with_array(both, channels={"SegmentNumber": [1, 2]})
    made = hd.seg.Segmentation([first], volume, "BINARY", kinds, generate_uid(), 1, generate_uid(), 1, "", "", "1", "0")
    made.save_as(tmp_path / "two.dcm")
    found = read_seg(tmp_path / "two.dcm")
    assert [one.names for one in found] == [("all",), ("lung",)]
    np.testing.assert_allclose(places(found[1], "lung"), places(given, "lung"), atol=1e-4)


def test_bad_input_gets_a_sentence(tmp_path, images):
    given = structures_of(images)
    with pytest.raises(InvalidInput, match="another frame of reference than the images"):
        write_seg(tmp_path / "a.dcm", structures_of(images, "9.9"), images)
    with pytest.raises(InvalidInput, match="holds no CT, MR or PET images"):
        write_seg(tmp_path / "a.dcm", given, tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="is a DICOM file of kind CT; give an SEG file"):
        read_seg(next(images.iterdir()))

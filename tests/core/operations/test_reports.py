"""Reports: one page of results with their provenance, within its size, and safe with any name."""

import re

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import OpenVolume, Store, reports, show
from napari_gpubio.core.operations.reports import folder_sections, shown_sections, write_report
from napari_gpubio.core.operations.runs import save
from napari_gpubio.core.operations.volumes import HeldVolume, Volume
from napari_gpubio.core.reading import noted
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import write_volume
from tests.core.operations.toys import Smooth


@pytest.fixture
def image(tmp_path):
    write_volume(tmp_path / "t1.nii.gz", np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.eye(4))
    return OpenVolume.at(tmp_path / "t1.nii.gz")


def page_of(sections, tmp_path, **how):
    return write_report(sections, tmp_path / "page.html", **how).read_text(encoding="utf-8")


def test_a_page_has_pictures_numbers_and_what_made_them_and_needs_nothing_else(tmp_path, image):
    store = Store()
    mask = HeldVolume.of(Volume(array=np.ones((3, 4, 5), np.uint8), affine=np.eye(4), name="<i>mask"), store)
    smooth = Smooth(image=image, mask=mask, radius=2)
    shown = [show(one, name, device="cpu", store=store) for one, name in ((image, "t1"), (smooth, "<b>smooth"))]
    runs = store.runs
    sections = drive(shown_sections(shown, device="cpu", store=store))
    assert store.runs == runs  # what is kept is not made again
    page = page_of(sections, tmp_path, title="A & B")
    assert len(re.findall("<section>", page)) == 3
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r"https?://|<script|<b>smooth|<i>mask", page)
    assert "0 to 59" in page
    assert "<strong>toy-smooth</strong> image 1, mask 2, radius 2" in page
    assert "arrays/" in page
    assert not (tmp_path / "arrays").exists()
    assert "smooth of step 3 (toy-smooth); made on cpu" in page


def test_results_of_python_are_reported_by_their_names(tmp_path):
    page = page_of({"one": Volume(array=np.ones((3, 3, 3)), affine=np.eye(4))}, tmp_path)
    assert "<h2>one</h2>" in page
    assert "How it was made" not in page


def test_a_page_stays_within_its_size(tmp_path, monkeypatch):
    results = {f"n{n}": Volume(array=np.random.default_rng(n).random((9, 9, 9)), affine=np.eye(4)) for n in range(3)}
    whole = page_of(results, tmp_path)
    monkeypatch.setattr(reports, "MAX_BYTES", len(whole) // 2)
    page = page_of(results, tmp_path)
    assert 0 < page.count("data:image") < 3
    assert len(page) < 0.7 * len(whole)
    assert "without pictures: too many" in page


def test_a_result_that_cannot_be_made_is_named(tmp_path, image):
    shown = [show(image, "t1", device="cpu", store=Store())]
    (tmp_path / "t1.nii.gz").write_bytes(b"other")
    (section,) = drive(shown_sections(shown, device="cpu", store=Store()))
    assert "t1.nii.gz has changed" in page_of([section], tmp_path)


def test_a_folder_of_results_is_read_with_what_made_them(tmp_path, image):
    store, folder = Store(), tmp_path / "sub-01"
    (folder / "dwi").mkdir(parents=True)
    save(Smooth(image=image, radius=2), folder / "dwi" / "smooth.nii.gz", device="cpu", store=store)
    (folder / "notes.md").write_text("nothing to read")
    (folder / "broken.nii.gz").write_bytes(b"nothing")
    save(Smooth(image=image, radius=3), folder / "other.ome.zarr", device="cpu", store=store)
    with noted() as notes:
        section, other = drive(folder_sections(folder, store))
    assert [note[:30] for note in notes] == ["broken.nii.gz is left out: bro"]
    assert other.name == "other.ome.zarr"  # not each file in it
    assert other.value.array.shape == (3, 4, 5)
    (alone,) = drive(folder_sections(folder / "dwi" / "smooth.nii.gz", store))
    assert alone.made_by == section.made_by
    assert section.name == "dwi/smooth.nii.gz"
    assert section.made_by.of == Smooth(image=image, radius=2)
    assert isinstance(section.value, Volume)


def test_bad_input_gets_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="no result to report"):
        write_report({}, tmp_path / "a.html")
    with pytest.raises(InvalidInput, match=r"a\.pdf does not end in \.html"):
        write_report({"one": 1}, tmp_path / "a.pdf")
    with pytest.raises(InvalidInput, match="no results that can be read"):
        drive(folder_sections(tmp_path))
    (tmp_path / "a.txt").touch()
    monkeypatch.setattr(reports, "_MOST_FILES", 0)
    with pytest.raises(InvalidInput, match="has 1 files; give a folder with up to 0"):
        drive(folder_sections(tmp_path))

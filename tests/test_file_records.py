"""What made a file is known from it: by `show`, `run`, `compare`, and as an input of other verbs."""

import nibabel as nib
import numpy as np
import pytest
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.file_records import outputs_of_file
from napari_gpubio.light.io import load_result
from tests.shell import run_verb


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with an image and frames, in which verbs are run."""
    rng = np.random.default_rng(0)
    values = 100 + 10 * rng.standard_normal((9, 8, 7))
    nib.save(nib.Nifti1Image(values.astype(np.float32), np.eye(4)), tmp_path / "raw.nii.gz")
    tifffile.imwrite(tmp_path / "frames.tif", rng.integers(1, 255, (5, 16, 16), np.uint8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_image_and_what_lies_beside_it_say_what_made_it(folder, capsys, monkeypatch):
    run_verb("denoise", "raw.nii.gz", "--search-radius", "1", "-o", "clean.nii.gz")
    run_verb("denoise", "raw.nii.gz", "--search-radius", "2", "-o", "other.nii.gz")
    capsys.readouterr()
    for name in ("clean.nii.gz", "clean.json"):
        run_verb("show", name)
        assert "denoise denoised: denoised of 2" in capsys.readouterr().out
    assert run_verb("compare", "clean.nii.gz", "other.json") == 1
    assert "search_radius: 1 -> 2" in capsys.readouterr().out
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")  # the record has full paths
    run_verb("run", folder / "clean.nii.gz", "--out", "again")
    (made,) = (folder / "elsewhere" / "again").glob("*.nii.gz")
    assert np.array_equal(nib.load(made).get_fdata(), nib.load(folder / "clean.nii.gz").get_fdata())


def test_a_record_by_the_name_of_what_describes_the_image_loses_nothing(folder, capsys):
    run_verb("denoise", "raw.nii.gz", "--search-radius", "1", "-o", "clean.nii.gz", "--record", folder / "clean.json")
    assert "clean.json says what clean.nii.gz is, and holds its record" in capsys.readouterr().err
    assert outputs_of_file("clean.nii.gz") == outputs_of_file("clean.json")
    run_verb("denoise", "clean.json", "-o", "twice.nii.gz", "--search-radius", "1")  # as an input
    assert [one.of.verb for _, one in outputs_of_file("twice.nii.gz")[0].of.inputs()] == ["denoise"]


def test_what_made_an_image_is_lost_when_another_program_changes_it(folder):
    run_verb("denoise", "raw.nii.gz", "--search-radius", "1", "-o", "clean.nii.gz")
    nib.save(nib.load("raw.nii.gz"), "clean.nii.gz")
    with pytest.raises(InvalidInput, match=r"^clean\.nii\.gz carries no record of what made it; give"):
        run_verb("show", "clean.nii.gz")


def test_maps_say_what_made_them(folder):
    run_verb("speckle", "frames.tif", "--window", "3", "--out", "k.tif", "--index-out", "sfi.tif")
    (index,) = outputs_of_file("sfi.tif")
    assert (index.of.verb, index.name) == ("speckle", "index")
    with pytest.raises(InvalidInput, match="carries no record"):
        outputs_of_file("frames.tif")


def test_a_run_of_light_says_what_made_it(folder):
    nib.save(nib.Nifti1Image(np.ones((9, 9, 9), np.uint8), np.eye(4)), "labels.nii.gz")
    (folder / "tissue.csv").write_text("label,name,mua_per_mm,mus_per_mm,g,n\n1,gel,0.1,10,0.9,1.37\n")
    words = ("labels.nii.gz", "--media", "tissue.csv", "--position-mm", "4", "4", "0", "--photons", "1000")
    run_verb("light", *words, "--run-out", "run.npz")
    (made,) = outputs_of_file("run.npz")
    assert (made.of.verb, made.name) == ("light", "run")
    run_verb("add-photons", "run.npz", "--photons", "2000", "--out", "more.npz")
    assert outputs_of_file("more.npz")[0].of.verb == "add-photons"
    run_verb("run", "run.npz", "--out", "again")
    (again,) = (folder / "again").glob("*.npz")
    assert np.array_equal(load_result(again).gates, load_result("run.npz").gates)


def test_an_ome_zarr_image_says_what_made_it(folder, capsys):
    pytest.importorskip("yaozarrs", reason="yaozarrs is absent: python -m pip install yaozarrs zarr")
    run_verb("denoise", "raw.nii.gz", "--search-radius", "1", "-o", "clean.ome.zarr")
    (made,) = outputs_of_file("clean.ome.zarr")
    assert (made.of.verb, made.name) == ("denoise", "denoised")
    assert run_verb("show", "clean.ome.zarr") == 0
    (folder / "empty.ome.zarr").mkdir()
    with pytest.raises(InvalidInput, match="carries no record"):
        run_verb("show", "empty.ome.zarr")


def test_files_of_others_carry_no_record(folder):
    (folder / "facts.json").write_text('{"EchoTime": 0.1}')
    with pytest.raises(InvalidInput, match="no record of operations"):
        run_verb("show", "facts.json")
    (folder / "a.npz").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match=r"a\.npz carries no record"):
        run_verb("compare", "a.npz", "raw.nii.gz")

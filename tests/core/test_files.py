"""Sample files, and writing that never leaves half a file."""

from pathlib import Path

import pytest

from napari_gpubio.core import files
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, sample_path


def test_a_written_file_is_there_and_nothing_else(tmp_path):
    with atomic_write(tmp_path / "a.nii.gz") as part:
        assert part.parent == tmp_path
        assert part.name.endswith(".nii.gz")  # libraries choose the format by it
        part.write_text("new")
        assert not (tmp_path / "a.nii.gz").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.nii.gz"]
    assert (tmp_path / "a.nii.gz").read_text() == "new"


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_half():
        with atomic_write(target) as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_old_file_is_replaced(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with atomic_write(str(target)) as part:
        part.write_text("new")
    assert target.read_text() == "new"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"folder .*gone does not exist"), atomic_write(tmp_path / "gone" / "a.txt"):
        pass


@pytest.mark.parametrize("place", ["napari_gpubio/sample_data", "sample_data"], ids=["installed", "source tree"])
def test_samples_are_found_installed_and_in_a_source_tree(tmp_path, monkeypatch, place):
    monkeypatch.setattr(files, "_PACKAGE", tmp_path / "napari_gpubio")
    sample = tmp_path / place / "one" / "a.txt"
    sample.parent.mkdir(parents=True)
    sample.touch()
    assert sample_path("one/a.txt") == sample


def test_the_samples_of_this_tree_are_found():
    samples = [p for p in (Path(files.__file__).parents[2] / "sample_data").rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in samples) < 3 * 2**20
    for path in samples:
        assert sample_path(path.relative_to(files._PACKAGE.parent / "sample_data").as_posix()).is_file()


def test_a_missing_sample_is_named():
    with pytest.raises(InvalidInput, match="no sample file 'gone'"):
        sample_path("gone")


def test_owners_of_source_files():
    assert files.owner_of(files._PACKAGE / "light" / "kernels" / "physics.py") == "light"
    assert files.owner_of(files._PACKAGE.parent / "elsewhere.py") == ""


def test_a_folder_for_each_engine_that_an_edit_renames(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PACKAGE", tmp_path)
    for name in ("core/random.py", "light/kernels/cpu.py", "dose/kernels/cpu.py", "light/model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a = 1\n")
    before = {owner: files._hash_of_kernels(owner) for owner in ("light", "dose")}
    (tmp_path / "light/model.py").write_text("a = 2\n")
    assert {owner: files._hash_of_kernels(owner) for owner in before} == before
    (tmp_path / "light/kernels/cpu.py").write_text("a = 2\n")
    assert files._hash_of_kernels("light") != before["light"]
    assert files._hash_of_kernels("dose") == before["dose"]

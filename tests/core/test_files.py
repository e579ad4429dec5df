"""Files: samples, writing that never leaves half a file, volumes as NIfTI."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core import files
from napari_gpubio.core.errors import InvalidInput, OutOfMemory
from napari_gpubio.core.files import atomic_folder, atomic_write, sample_path
from napari_gpubio.core.volumes import read_volume, write_volume
from tests.volume_samples import AFFINES


def test_a_written_file_replaces_the_old_one_at_once(tmp_path):
    target = tmp_path / "a.nii.gz"
    for before in (None, "new"):
        with atomic_write(str(target) if before else target) as part:
            assert part.parent == tmp_path
            assert part.name.endswith(".nii.gz")  # libraries choose the format by it
            part.write_text(f"{before} new")
            written = part.stat().st_ino
            assert target.exists() == (before is not None)
        assert list(tmp_path.iterdir()) == [target]
        assert target.read_text() == f"{before} new"
        assert target.stat().st_ino == written, "renamed, not copied"


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
    for name in ("core/random.py", "light/kernels/cpu.py", "dose/kernels/cpu.py", "optics/model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a = 1\n")
    before = {owner: files.hash_of_kernels(owner) for owner in ("light", "dose")}
    (tmp_path / "optics/model.py").write_text("a = 2\n")
    assert {owner: files.hash_of_kernels(owner) for owner in before} == before
    (tmp_path / "light/kernels/cpu.py").write_text("a = 2\n")
    assert files.hash_of_kernels("light") != before["light"]
    assert files.hash_of_kernels("dose") == before["dose"]


# -- volumes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.float64, np.float16])
def test_volumes_round_trip(dtype, tmp_path):
    array = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    write_volume(tmp_path / "v.nii.gz", array, AFFINES["oblique left-handed"], "a test")
    back, affine = read_volume(tmp_path / "v.nii.gz")
    np.testing.assert_array_equal(back, array)
    np.testing.assert_allclose(affine, AFFINES["oblique left-handed"], atol=1e-5)
    header = nib.load(tmp_path / "v.nii.gz").header
    assert header["descrip"] == b"a test"
    assert header.get_xyzt_units()[0] == "mm"
    assert [p.name for p in tmp_path.iterdir()] == ["v.nii.gz"]


def test_large_integers_are_kept(tmp_path):
    array = np.array([2**31 - 1, -(2**31) + 1, 0, 2**40]).reshape(1, 2, 2)
    for values in (array, array[:, :, :1]):
        write_volume(tmp_path / "v.nii", values, np.eye(4))
        np.testing.assert_array_equal(read_volume(tmp_path / "v.nii")[0], values)


def test_what_is_no_volume(tmp_path):
    with pytest.raises(InvalidInput, match=r"has shape \(2, 2\)"):
        write_volume(tmp_path / "v.nii", np.ones((2, 2)), np.eye(4))
    with pytest.raises(InvalidInput, match="does not end in"):
        write_volume(tmp_path / "v.img", np.ones((2, 2, 2)), np.eye(4))
    with pytest.raises(InvalidInput, match="type complex128"):
        write_volume(tmp_path / "v.nii", np.ones((2, 2, 2), complex), np.eye(4))
    nib.save(nib.Nifti1Image(np.ones((2, 2, 2, 3), np.float32), np.eye(4)), tmp_path / "series.nii")
    with pytest.raises(InvalidInput, match="take one out of a series"):
        read_volume(tmp_path / "series.nii")
    nib.save(nib.Nifti1Image(np.ones((2, 3, 4, 1, 1), np.float32), np.eye(4)), tmp_path / "long.nii")
    assert read_volume(tmp_path / "long.nii")[0].shape == (2, 3, 4)


def test_the_middle_of_a_message_that_quotes_too_much_is_left_out() -> None:
    message = str(InvalidInput(f"{'x' * 200_000} is no number; write one"))
    assert len(message) < 2000
    assert message.endswith("is no number; write one")


def test_a_symbolic_link_stays_one_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "data" / "a.txt", tmp_path / "a.txt"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_symbolic_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a.txt").symlink_to(tmp_path / "a.txt")
    with (
        pytest.raises(InvalidInput, match=r"a\.txt .*(itself|could not be written)"),
        atomic_write(tmp_path / "a.txt") as part,
    ):
        part.write_text("new")


def test_what_killed_processes_left_is_removed_by_the_next_one_that_writes(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from napari_gpubio.core.files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1]) / 'a.txt') as part: part.write_text('half'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".part-")
    with atomic_write(tmp_path / "mine.txt") as mine:
        assert not left.exists()
        with atomic_write(tmp_path / "b.txt"):  # files of processes that run are not touched
            assert mine.exists()
        mine.write_text("whole")
    other = tmp_path / f".part-{'0' * 8}-999999999-a"  # of another computer
    other.touch()
    with atomic_write(tmp_path / "mine.txt") as mine:
        mine.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, "mine.txt", "b.txt"])


def test_folders_of_killed_processes_are_removed_too(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from napari_gpubio.core.files import atomic_folder\n"
        "with atomic_folder(Path(sys.argv[1]) / 'a') as part: (part / 'b.txt').write_text('half'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    with atomic_folder(tmp_path / "mine") as mine:
        assert not left.exists()
        with atomic_folder(tmp_path / "other"):  # those of processes that run are not touched
            assert mine.exists()
        (mine / "b.txt").write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "other"]
    with pytest.raises(InvalidInput, match="mine exists and is no empty folder"), atomic_folder(tmp_path / "mine"):
        pass
    with pytest.raises(ValueError, match="half"), atomic_folder(tmp_path / "new"):
        raise ValueError("half")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "other"]


def test_memory_that_does_not_suffice_for_a_file_is_a_sentence(tmp_path):
    with pytest.raises(OutOfMemory, match="the memory does not suffice"), atomic_write(tmp_path / "a.txt"):
        raise MemoryError
    assert not list(tmp_path.iterdir())


def test_a_refusal_where_nothing_can_be_removed_either_is_one_sentence(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for call in ("open", "unlink"):
        monkeypatch.setattr(os, call, refused)
    with (
        pytest.raises(InvalidInput, match=r"a\.txt could not be written \(Read-only"),
        atomic_write(tmp_path / "a.txt"),
    ):
        pass


def test_a_folder_out_of_reach_is_named(tmp_path, monkeypatch):
    def stale(*_, **__):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", stale)
        with (
            pytest.raises(InvalidInput, match=r"folder .* cannot be reached \(Stale"),
            atomic_write(tmp_path / "a.txt"),
        ):
            pass
        patch.setattr(Path, "is_symlink", stale)
        with (
            pytest.raises(InvalidInput, match=r"a\.txt could not be written \(Stale"),
            atomic_write(tmp_path / "a.txt"),
        ):
            pass


def test_what_could_not_be_removed_goes_with_the_next_save(tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "disk", tmp_path / "gone"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="could not be written"), atomic_write(folder / "a.txt"):
        folder.rename(elsewhere)
    elsewhere.rename(folder)
    with atomic_write(folder / "a.txt") as one, atomic_write(folder / "b.txt") as other:
        one.write_text("a")
        other.write_text("b")
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt"]


# -- the cache --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache_of_user(tmp_path, monkeypatch):
    """The user's own folder for caches, and that for temporary files."""
    own, temporary = tmp_path / "own", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(files.platformdirs, "user_cache_path", lambda *_, **__: own)
    monkeypatch.setattr(files.tempfile, "tempdir", str(temporary))
    files.user_cache.cache_clear()
    yield own
    files.user_cache.cache_clear()


def test_the_cache_is_in_the_folder_of_the_user(cache_of_user):
    assert files.user_cache() == cache_of_user
    assert list(cache_of_user.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no numbers of users")
@pytest.mark.every_case
@pytest.mark.parametrize(
    ("what", "problem"), [("a file", "cannot be written"), ("full", "is full"), ("of another user", "another user")]
)
def test_a_cache_that_cannot_be_written_is_among_the_temporary_files(cache_of_user, monkeypatch, caplog, what, problem):
    usage, user = shutil.disk_usage, os.getuid()
    if what == "a file":
        cache_of_user.write_text("")
    elif what == "full":
        monkeypatch.setattr(
            files.shutil, "disk_usage", lambda one: SimpleNamespace(free=usage(one).free * (one != cache_of_user))
        )
    else:
        monkeypatch.setattr(files.os, "getuid", lambda: user + 1)
    found = files.user_cache()
    assert found.parent == Path(files.tempfile.gettempdir())
    assert problem in caplog.text
    assert files.user_cache() == found, "in the whole process"

"""A save of several files that ends early: what is read afterwards is of one save, and what is missing is said."""

import os

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import read_described, sidecar_path, write_described
from napari_gpubio.core.quantity import GUIDE, HALVES, QUANTITY, STANDARD_ERROR, Quantity
from napari_gpubio.core.volumes import read_volume, write_volume
from napari_gpubio.diffusion.io.gradients import read_fsl_gradients, write_fsl_gradients
from tests.light.result_files import full_disk

SHAPE = (4, 5, 6)
HELD = (STANDARD_ERROR, HALVES, GUIDE)
EVERY_SUFFIX = pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])


class Killed(BaseException):
    """The end of the program."""


def save(path, version, **more):
    arrays = {n: np.full(SHAPE, version, np.float32) for n in (STANDARD_ERROR, "half_1", "half_2", GUIDE)}
    about = {QUANTITY: Quantity("fluence", "1/mm2", source=f"version {version}"), **more}
    write_described(path, np.full(SHAPE, version, np.float32), np.eye(4), about, arrays)


def versions_in(path):
    """The version of the volume, of its quantity, and of all that is held beside it."""
    volume, _ = read_volume(path)
    held = read_described(path, volume.shape)["metadata"]
    beside = {name: set(np.unique(held[name]).tolist()) for name in HELD if name in held}
    return set(np.unique(volume).tolist()), held[QUANTITY].source, beside


def killed_at(monkeypatch, which):
    """Let the program end before it renames a file for that many times (counted from 0)."""
    rename, done = os.replace, []

    def replace(*paths):
        if len(done) == which:
            raise Killed
        done.append(paths)
        return rename(*paths)

    monkeypatch.setattr(os, "replace", replace)


@EVERY_SUFFIX
def test_a_save_that_ends_at_any_renaming_mixes_nothing(tmp_path, monkeypatch, caplog, name):
    path, whole = tmp_path / name, []
    for which in range(100):
        save(path, 1)
        with monkeypatch.context() as patch:
            killed_at(patch, which)
            try:
                save(path, 2)
            except Killed:
                pass
            else:
                break
        caplog.clear()
        volume, source, beside = versions_in(path)
        assert source == f"version {volume.copy().pop():.0f}"
        assert all(found == volume for found in beside.values())
        assert (len(beside) == len(HELD)) != ("is left out" in caplog.text)
        whole.append(len(beside) == len(HELD))
    assert which == 7, "four files beside the volume, and what describes them before and after"
    assert whole[:2] == [True, True]
    save(path, 3)
    assert versions_in(path) == ({3.0}, "version 3", {n: {3.0} for n in HELD})


def test_a_full_disk_leaves_all_of_the_older_save(tmp_path):
    path = tmp_path / "a.nii"
    save(path, 1)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with full_disk(700), pytest.raises(InvalidInput, match=r"a\.nii could not be written.*unchanged"):
        save(path, 2)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@EVERY_SUFFIX
def test_an_error_is_not_that_of_a_volume_which_another_program_has_changed(tmp_path, caplog, name):
    path = tmp_path / name
    save(path, 1)
    nib.save(nib.Nifti1Image(np.ones(SHAPE, np.float32) * 5, np.eye(4)), path)
    _, source, beside = versions_in(path)
    assert (source, beside) == ("version 1", {})
    assert "was changed after both were saved together" in caplog.text


def test_a_gradient_table_that_ends_at_any_renaming_is_of_one_save_or_incomplete(tmp_path, monkeypatch):
    paths = tmp_path / "a.bval", tmp_path / "a.bvec"
    tables = [(np.full(3, 1000.0 + n), np.roll(np.eye(3), n, axis=0)) for n in range(2)]
    for which in range(2):
        write_fsl_gradients(*paths, *tables[0], np.eye(4))
        with monkeypatch.context() as patch:
            killed_at(patch, which)
            with pytest.raises(Killed):
                write_fsl_gradients(*paths, *tables[1], np.eye(4))
        with pytest.raises(InvalidInput, match="does not exist"):
            read_fsl_gradients(*paths, 3, np.eye(4))
    write_fsl_gradients(*paths, *tables[1], np.eye(4))
    np.testing.assert_array_equal(read_fsl_gradients(*paths, 3, np.eye(4))[0], tables[1][0])


def test_a_save_over_a_changed_volume_is_whole(tmp_path):
    path = tmp_path / "a.nii.gz"
    save(path, 1)
    write_volume(path, np.zeros(SHAPE, np.float32), np.eye(4))
    save(path, 2)
    assert versions_in(path) == ({2.0}, "version 2", {n: {2.0} for n in HELD})
    assert "before" not in sidecar_path(path).read_text(encoding="utf-8")

"""Writers of all formats: a file is written whole or not at all, and bad paths are named."""

import errno
import sys
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio import layered as layers
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.io import MciRun, write_mci, write_mco
from napari_gpubio.layered.io import results as layered_results
from napari_gpubio.layered.summary import every_curve, write_curves
from napari_gpubio.light.io import save_result, write_fluence
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.mcx.io import write_mcx
from napari_gpubio.optics.io import write_table
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Pencil
from tests.light.result_files import full_disk
from tests.light.result_samples import sample_result

MEDIA = (Medium(label=1), Medium(label=2))
SLAB = layers.LayeredMedium(layers=[layers.Layer(mua_per_mm=1)])


def media(count):
    return [Medium(label=label) for label in range(1, count + 1)]


def domain(size):
    return Domain(labels=np.random.default_rng(0).integers(1, 3, (size,) * 3), affine=np.eye(4), media=MEDIA)


def runs(count):
    return [MciRun(medium=SLAB, settings=layers.LayeredSettings(), output=f"{i}.mco") for i in range(count)]


def layered(bins):
    return layers.simulate(SLAB, layers.LayeredSettings(photons=99, radial_bins=bins, batches=2), device="cpu")


def sample(size):
    return sample_result((size,) * 3)


WRITERS = {  # file: how something of a size is written into it, and a size that makes it larger than 6 kB
    "t.csv": (lambda path, size: write_table(path, media(size)), 400),
    "t.json": (lambda path, size: write_table(path, media(size)), 400),
    "case.json": (lambda path, size: write_mcx(path, domain(size), Pencil(), LightSettings()), 40),
    "runs.mci": (lambda path, size: write_mci(path, runs(size)), 100),
    "slab.mco": (lambda path, size: write_mco(path, layered(size)), 200),
    "curves.csv": (lambda path, size: write_curves(path, every_curve(layered(size))), 200),
    "voxels.npz": (lambda path, size: save_result(path, sample(size)), 20),
    "packed.npz": (lambda path, size: save_result(path, sample(size), compress=True), 20),
    "layers.npz": (lambda path, size: layered_results.save_result(path, layered(size)), 200),
    "f.nii": (lambda path, size: write_fluence(path, sample(size)), 20),
    "f.nii.gz": (lambda path, size: write_fluence(path, sample(size)), 20),
}
EACH_WRITER = pytest.mark.parametrize(("name", "write", "large"), [(name, *rest) for name, rest in WRITERS.items()])


@pytest.mark.skipif(sys.platform == "win32", reason="a process's files have no limit there")
@pytest.mark.parametrize("room", [64, 6000], ids=["nothing", "a part"])  # the sidecar of a NIfTI file, not the volume
@EACH_WRITER
def test_a_full_disk_leaves_the_old_files(tmp_path, name, write, large, room):
    write(tmp_path / name, 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(room), pytest.raises(InvalidInput, match=r"could not be written \(File too large\); free"):
        write(tmp_path / name, large)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@EACH_WRITER
def test_a_missing_folder_or_another_ending_is_refused(tmp_path, name, write, large):
    with pytest.raises(InvalidInput, match=r"folder .*none does not exist"):
        write(tmp_path / "none" / name, 2)
    if name not in ("runs.mci", "slab.mco", "curves.csv"):  # any ending will do for these
        with pytest.raises(InvalidInput, match=r"a\.xyz does not end in \."):
            write(tmp_path / "a.xyz", 2)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*_args, **_keywords):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(InvalidInput, match=r"t\.csv could not be written \(Permission denied\)"):
        write_table(tmp_path / "t.csv", MEDIA)

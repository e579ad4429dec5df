"""Fixels and peaks that are refused, each with a sentence; damaged files give nothing else."""

import gzip

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import given

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.mif import read_mif
from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.io.fixel_folders import write_fixels
from napari_gpubio.diffusion.io.fixels import read_fixels, write_peaks
from tests.diffusion.fods import fixel_samples as samples
from tests.diffusion.fods.fixel_samples import AMPLITUDES, THERE, WORLD, fixels, folder_of, save
from tests.diffusion.tensor_samples import AFFINES
from tests.fuzzing import fuzzed, refusal
from tests.tractograms.test_tractogram_fuzz import MUTATIONS, mutated

AFFINE = AFFINES["rotated"]


def changed_folder(tmp_path, name, change):
    folder = folder_of(tmp_path, AFFINE)
    image = read_mif(folder / f"{name}.mif")
    write_mif(folder / f"{name}.mif", change(image.data), image.affine)
    return folder


def put(place, value):
    def change(data):
        data = data.copy()
        data[place] = value
        return data

    return change


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("index", put((0, 0, 1, 0), 2), "counts .* fixels and there are .* directions"),
        ("index", put((0, 0, 1, 1), 9999), "no integers from 0 to"),
        ("index", put((0, 0, 1, 1), 5), "gives some fixels to two voxels or none"),
        ("index", lambda data: data[..., :1], r"has shape \(4, 5, 6, 1\)"),
        ("index", lambda data: data + 0.5, "no integers"),
        ("directions", lambda data: data[:-1], "counts .* fixels and there are"),
        ("directions", lambda data: data[:, :2], r"directions of fixels have \(n, 3, 1\)"),
        ("directions", lambda data: data * np.nan, "no fixel with a direction"),
        ("directions", lambda data: data * 0, "no fixel with a direction"),
    ],
)
def test_folders_that_do_not_add_up(name, change, sentence, tmp_path):
    with pytest.raises(InvalidInput, match=sentence):
        read_fixels(changed_folder(tmp_path, name, change))


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        ((3, 3, 3), {}, r"has shape \(3, 3, 3\); an image of peaks has"),
        ((3, 3, 3, 7), {}, "three numbers for each peak"),
        ((3, 3, 3, 2, 4), {}, "three numbers for each peak"),
        ((3, 3, 3, 3), {"kind": "slicer"}, "kind is 'slicer'; choose one of 'auto', 'mrtrix', 'peaks'"),
        ((3, 3, 3, 3), {"frame": "lps"}, "frame is 'lps'; choose one of 'auto', 'world'"),
        ((3, 3, 3, 3), {"kind": "bedpostx"}, "is no folder"),
        ((3, 3, 3, 3), {"kind": "pam5"}, "cannot be read as HDF5"),
        ((3, 3, 3, 3), {"kind": "mrtrix"}, "has no index.mif or index.nii"),
        ((3, 3, 3, 3), {}, "has no fixel whose direction"),
    ],
)
def test_images_that_are_refused(shape, options, sentence, tmp_path):
    with pytest.raises(InvalidInput, match=sentence):
        read_fixels(save(tmp_path / "a.nii", np.zeros(shape), AFFINE), **options)


def test_paths_that_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="neither index and directions"):
        read_fixels(tmp_path)
    with pytest.raises(InvalidInput, match="does not exist"):
        read_fixels(tmp_path / "a.nii")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidInput, match=r"the ending of a.txt is unknown; .* and .pam5, .fib.gz"):
        read_fixels(tmp_path / "a.txt")


def test_folders_of_bedpostx_without_any_fiber_are_refused(tmp_path):
    folder = samples.bedpostx(tmp_path, AFFINE)
    for path in folder.glob("dyads*"):
        save(path, nib.load(path).get_fdata()[1:], AFFINE)
    with pytest.raises(InvalidInput, match="of fiber 1 have shape"):
        read_fixels(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({f"index{n}": np.full((20, 6), 32767, np.int16) for n in range(3)}, "none of 0 to"),
        ({f"index{n}": np.full((20, 6), -1, np.int16) for n in range(3)}, "none of 0 to"),
        (
            {f"index{n}": np.zeros((20, 5), np.int16) for n in range(3)},
            "of a.fib.gz has 100 values for 120 voxels; copy",
        ),
        ({"dimension": [[4, 5, 0]]}, r"dimension of a.fib.gz is \[4.*three positive integers"),
        ({"dimension": None}, "has no dimension"),
        ({"odf_vertices": None}, "has no odf_vertices"),
        ({"odf_vertices": np.zeros((2, 642))}, r"has shape \(2, 642\)"),
        (dict.fromkeys(("fa0", "fa1", "fa2")), "has no fa0, so it has no fibers"),
        (dict.fromkeys(("index0", "index1", "index2")), "has no dir2"),
        ({"trans": np.ones((4, 4))}, "trans of a.fib.gz is no affine"),
        ({"trans": np.ones((3, 4))}, r"trans of a.fib.gz has shape \(3, 4\)"),
        ({"trans": None, "voxel_size": [[1, 0, 1]]}, "three lengths in mm"),
        ({"mask": np.ones((3, 3))}, "mask of a.fib.gz has 9 values"),
    ],
)
def test_files_of_dsi_studio_that_are_refused(changes, sentence, tmp_path):
    content = {k: v for k, v in (samples.dsi_content(AFFINE) | changes).items() if v is not None}
    with pytest.raises(InvalidInput, match=sentence):
        read_fixels(samples.save_dsi(tmp_path / "a.fib.gz", content))


def test_other_versions_of_matlab_and_bombs(tmp_path):
    path = tmp_path / "a.fib.gz"
    path.write_bytes(gzip.compress(b"MATLAB 5.0 MAT-file, Platform".ljust(300)))
    with pytest.raises(InvalidInput, match="does not begin as a MATLAB file of version 4"):
        read_fixels(path)
    path.write_bytes(30 * gzip.compress(bytes(10 * 2**20), 9))  # members of a file follow one another
    with pytest.raises(InvalidInput, match="times its size"):
        read_fixels(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"peak_values": np.zeros((4, 5, 6, 2))}, r"peak_dirs of shape \(4, 5, 6, 3, 3\) and peak_values"),
        ({"peak_dirs": None}, "has no peak_dirs"),
        ({"peak_dirs": 1.0}, r"peak_dirs of shape \(\)"),
        ({"peak_dirs": 1.0, "peak_values": None}, r"peak_dirs of shape \(\)"),
        ({"affine": np.zeros((4, 4))}, "the affine cannot be inverted"),
        ({"peak_dirs": b"text"}, "real numbers are needed"),
        ({"peak_dirs": h5py.ExternalLink("b.h5", "/x")}, r"peaks\.pam5: /pam/peak_dirs leads to another file, 'b\.h5'"),
    ],
)
def test_files_of_dipy_that_are_refused(changes, sentence, tmp_path):
    path = samples.pam5(tmp_path, AFFINE)
    with h5py.File(path, "a") as file:
        for name, values in changes.items():
            del file["pam"][name]
            if values is not None:
                file["pam"][name] = values
    with pytest.raises(InvalidInput, match=sentence):
        read_fixels(path)
    with h5py.File(path, "w") as file:
        file["x"] = 1
    with pytest.raises(InvalidInput, match="no group 'pam'"):
        read_fixels(path)


def test_a_file_of_dsi_studio_that_ends_within_a_name(tmp_path):
    (tmp_path / "a.fib").write_bytes(np.array([10, 1, 0, 0, 900], "<i4").tobytes() + b"fa0")
    with pytest.raises(InvalidInput, match=r"a\.fib has no dimension"):
        read_fixels(tmp_path / "a.fib")


def test_writing_that_is_refused(tmp_path):
    for name in ("amplitude", "index", "../x", ""):
        with pytest.raises(InvalidInput, match="cannot be a file of their name"):
            write_fixels(tmp_path / "f", fixels(**{name: np.zeros(THERE.sum())}))
    with pytest.raises(InvalidInput, match=r"ending is '\.png'"):
        write_fixels(tmp_path / "f", fixels(), ending=".png")
    with pytest.raises(InvalidInput, match="does not exist"):
        write_fixels(tmp_path / "x" / "f", fixels())
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "mine.txt").write_text("x")
    with pytest.raises(InvalidInput, match="exists and is no empty folder"):
        write_fixels(tmp_path / "f", fixels())
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    (tmp_path / "f" / "mine.txt").unlink()
    write_fixels(tmp_path / "f", fixels())
    none = FixelField.from_dense(WORLD * 0, AMPLITUDES, AFFINE)
    for write in (write_fixels, write_peaks):
        with pytest.raises(InvalidInput, match="no fixels to write"):
            write(tmp_path / "n.nii", none)
    with pytest.raises(InvalidInput, match="most is 0"):
        write_peaks(tmp_path / "n.nii", fixels(), most=0)
    with pytest.raises(InvalidInput, match=r"not end in \.nii"):
        write_peaks(tmp_path / "n.txt", fixels())


@pytest.mark.parametrize("kind", ["a.fib", "a.fz", "inside.fib.gz"])
def test_damaged_files_of_dsi_studio(kind, tmp_path):
    path = tmp_path / kind
    good = samples.save_dsi(path, samples.dsi_content(AFFINE, masked=kind == "a.fz")).read_bytes()
    plain = gzip.decompress(good) if kind.startswith("inside") else good
    refused = []

    @fuzzed(150)
    @given(MUTATIONS)
    def run(changes):
        data = mutated(plain, changes)
        refused.append(bool(refusal(read_fixels, path, gzip.compress(data, 1) if plain is not good else data)))

    run()
    assert sum(refused) > len(refused) // 10


def test_damaged_files_of_dipy(tmp_path):
    path = samples.pam5(tmp_path, AFFINE)
    good, refused = path.read_bytes(), []

    @fuzzed(8)  # each starts a process
    @given(MUTATIONS)
    def run(changes):
        refused.append(bool(refusal(read_fixels, path, mutated(good, changes))))

    run()
    assert any(refused)


@pytest.mark.parametrize("name", ["index", "directions"])
def test_damaged_files_of_mrtrix(name, tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    good = (folder / f"{name}.mif").read_bytes()
    for length in (*range(0, len(good), 37), len(good) - 1):
        (folder / f"{name}.mif").write_bytes(good[:length])
        with pytest.raises(InvalidInput, match=f"{name}.mif|{folder.name}"):
            read_fixels(folder)

"""Fixels and peaks of every program on every affine: the same axes in the world come out."""

import h5py
import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.mif import read_mif
from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.io.fixel_folders import write_fixels
from napari_gpubio.diffusion.io.fixels import read_fixels, write_peaks
from tests.diffusion.fods import fixel_samples as samples
from tests.diffusion.fods.fixel_samples import AMPLITUDES, COUNTS, MOST, SHAPE, THERE, WORLD, fixels, folder_of, save
from tests.diffusion.tensor_samples import AFFINES
from tests.sentences import says

EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
PROGRAMS = {
    name: getattr(samples, name)
    for name in (
        "peaks", "tractseg", "dipy", "pam5", "bedpostx", "bedpostx_samples",
        "dsi_studio", "dsi_studio_plain", "dsi_studio_masked",
    )
}  # fmt: skip
AFFINE = AFFINES["rotated"]


def assert_phantom(found, affine, *, degrees=0.02, tolerance=2e-5):
    """The axes of the phantom, whatever their signs, and its amplitudes."""
    np.testing.assert_array_equal(found.counts, COUNTS)
    np.testing.assert_allclose(found.affine, affine, atol=1e-5)
    cosines = np.abs((found.directions * WORLD[THERE]).sum(axis=1))
    sines = np.linalg.norm(np.cross(found.directions, WORLD[THERE]), axis=1)
    assert np.degrees(np.arctan2(sines, cosines)).max() < degrees
    np.testing.assert_allclose(found.amplitudes, AMPLITUDES[THERE], atol=tolerance)


@EVERY_AFFINE
@pytest.mark.parametrize("program", PROGRAMS)
def test_files_of_other_programs(program, affine, tmp_path):
    """Recognized without a hint; axes are those of the world on every affine."""
    found = read_fixels(PROGRAMS[program](tmp_path, affine))
    assert_phantom(found, affine, degrees=0.1 if program == "bedpostx_samples" else 0.02)
    assert any("directions were taken in" in note for note in found.notes)


@EVERY_AFFINE
@pytest.mark.parametrize("ending", [".mif", ".nii", ".nii.gz"])
def test_folders_of_mrtrix(affine, ending, tmp_path):
    folder = folder_of(tmp_path, affine, order=np.random.default_rng(1), ending=ending)
    found = read_fixels(folder)
    assert_phantom(found, affine)
    np.testing.assert_allclose(found.numbers["disp"], 1 - found.amplitudes, atol=1e-6)
    assert list(found.numbers) == ["disp"]
    assert "amplitudes are afd" in found.notes
    assert read_fixels(folder / f"index{ending}").path == folder


@pytest.mark.parametrize("turned", [[[1, 0, 0], [0, 0, 1], [0, 1, 0]], [[0, -1, 0], [0, 0, 2], [1, 0, 0]]])
def test_axes_that_the_affine_orders(turned, tmp_path):
    """MRtrix's own NIfTI has directions as (n, 1, 3), and an affine that says so."""
    folder = folder_of(tmp_path, AFFINE, ending=".nii")
    affine = np.eye(4)
    affine[:3, :3] = turned
    for name in ("directions", "afd", "disp"):
        values = nib.load(folder / f"{name}.nii").get_fdata()
        values = values.transpose(np.argmax(np.abs(turned), axis=0))
        values = np.flip(values, [axis for axis in range(3) if affine[:3, axis].min() < 0])
        save(folder / f"{name}.nii", values, affine)
    assert_phantom(read_fixels(folder), AFFINE)


def test_other_amplitudes(tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    found = read_fixels(folder, amplitude="disp")
    assert set(found.numbers) == {"afd"}
    several = COUNTS.ravel() > 1
    first = found.first.ravel()[several]
    assert (found.amplitudes[first] >= found.amplitudes[first + 1]).all()
    np.testing.assert_allclose(found.amplitudes, 1 - found.numbers["afd"], atol=1e-6)
    (folder / "afd.mif").unlink()
    found = read_fixels(folder)
    assert (found.amplitudes == 1).all()
    assert any("numbers: disp" in note for note in found.notes)
    with pytest.raises(InvalidInput, match="no numbers 'fd' of its fixels; there are disp"):
        read_fixels(folder, amplitude="fd")
    with pytest.raises(InvalidInput, match="names a file of an MRtrix folder"):
        read_fixels(samples.peaks(tmp_path, AFFINE), amplitude="fd")


@pytest.mark.parametrize("frame", ["world", "fsl", "voxel"])
@EVERY_AFFINE
def test_frames_can_be_chosen(frame, affine, tmp_path):
    values = samples.own(affine, frame) * AMPLITUDES[..., None]
    found = read_fixels(save(tmp_path / "a.nii", values, affine), frame=frame)
    assert_phantom(found, affine)
    assert "as requested" in found.notes[-1]
    flat = save(tmp_path / "b.nii", values.reshape(*SHAPE, -1), affine)
    assert_phantom(read_fixels(flat, kind="dipy", frame=frame), affine)


def test_notes_name_the_other_frames(tmp_path):
    note = read_fixels(samples.dipy(tmp_path, AFFINE)).notes[-1]
    assert says(note, "axes of the bvec file", "DIPY", "'world'", "'voxel'")


@EVERY_AFFINE
@pytest.mark.parametrize("ending", [".mif", ".mif.gz", ".nii", ".nii.gz"])
def test_round_trip_of_folders(affine, ending, tmp_path):
    given_ = fixels(affine, rank=np.arange(THERE.sum()), **{"in cst": np.arange(THERE.sum()) % 2 == 0})
    write_fixels(tmp_path / "f", given_, ending=ending)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f"]
    found = read_fixels(tmp_path / "f")
    assert_phantom(found, affine, degrees=1e-4, tolerance=0)
    for name, values in given_.numbers.items():
        np.testing.assert_array_equal(found.numbers[name], values)


@EVERY_AFFINE
@pytest.mark.parametrize("ending", [".mif", ".mif.gz", ".nii", ".nii.gz"])
@pytest.mark.parametrize("missing", [np.nan, 0])
def test_round_trip_of_peaks(affine, ending, missing, tmp_path):
    path = tmp_path / f"peaks{ending}"
    write_peaks(path, fixels(affine), missing=missing)
    assert_phantom(read_fixels(path), affine)
    write_peaks(path, fixels(affine), most=1)
    found = read_fixels(path)
    np.testing.assert_array_equal(found.counts, np.minimum(COUNTS, 1))
    write_peaks(path, fixels(affine), most=5, missing=missing)
    assert_phantom(read_fixels(path), affine)


def test_more_fixels_than_nifti_1_can_hold(tmp_path):
    counts = np.full((20, 20, 85), 1)
    directions = np.tile(np.float32([0, 0, 1]), (counts.size, 1))
    many = FixelField(
        counts=counts, directions=directions, amplitudes=np.arange(counts.size, dtype=np.float32), affine=AFFINE
    )
    write_fixels(tmp_path / "f", many, ending=".nii")
    assert isinstance(nib.load(tmp_path / "f" / "directions.nii"), nib.Nifti2Image)
    np.testing.assert_array_equal(read_fixels(tmp_path / "f").amplitudes, many.amplitudes)


def test_a_number_for_each_fixel_only(tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    save(folder / "mask.nii", np.ones(SHAPE), AFFINE)
    (folder / "notes.txt").write_text("hello")
    assert any("mask.nii (4, 5, 6)" in note for note in read_fixels(folder).notes)


def test_amplitudes_that_are_not_finite(tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    afd = read_mif(folder / "afd.mif").data.copy()
    afd[3] = np.nan
    write_mif(folder / "afd.mif", afd, np.eye(4))
    found = read_fixels(folder)
    assert "amplitudes are afd; 1 of them are not finite and were set to 0" in found.notes
    assert np.isfinite(found.amplitudes).all()


def test_peaks_that_are_not_finite(tmp_path):
    values = nib.load(samples.peaks(tmp_path, AFFINE)).get_fdata()
    values[0, 0, 1, 4] = np.nan
    values[0, 0, 1, 8] = np.inf
    found = read_fixels(save(tmp_path / "b.nii", values, AFFINE))
    assert found.counts[0, 0, 1] == 1
    assert any(says(note, "2 peaks", "not finite", "left out") for note in found.notes)


def test_any_file_of_bedpostx_stands_for_its_folder(tmp_path):
    """One of its files alone would be peaks of MRtrix, in other axes and without fractions."""
    folder = samples.bedpostx(tmp_path, AFFINE)
    whole = read_fixels(folder)
    for name in ("dyads1.nii.gz", "mean_f2samples.nii.gz"):
        found = read_fixels(folder / name)
        np.testing.assert_array_equal(found.directions, whole.directions)
        np.testing.assert_array_equal(found.amplitudes, whole.amplitudes)
        assert found.path == folder
    other = save(folder / "peaks.nii.gz", samples.own(AFFINE, "world").reshape(*SHAPE, -1), AFFINE)
    assert read_fixels(other).parameters["kind"] == "dipy"  # all lengths are 1


def test_small_fractions_are_left_out(tmp_path):
    folder = samples.bedpostx(tmp_path, AFFINE)
    fractions = AMPLITUDES[..., 2].copy()
    fractions[0, 0, 1] = 0.049
    save(folder / "mean_f3samples.nii.gz", fractions, AFFINE)
    found = read_fixels(folder)
    assert found.counts[0, 0, 1] == MOST - 1
    assert any(says(note, "1 fibers", "0.05", "left out") for note in found.notes)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dyads2", None),
        ("dyads2", lambda data: data[..., :2]),
        ("dyads2", lambda data: data[0]),
        ("mean_f2samples", lambda data: data[1:]),
    ],
)
def test_a_fiber_of_bedpostx_that_cannot_be_read(name, change, tmp_path):
    """It costs that fiber, not the folder."""
    folder = samples.bedpostx(tmp_path, AFFINE)
    path = folder / f"{name}.nii.gz"
    data = nib.load(path).get_fdata()
    path.unlink()
    if change is not None:
        save(path, change(data), AFFINE)
    found = read_fixels(folder)
    np.testing.assert_array_equal(found.counts, (COUNTS > 0).astype(int) + (COUNTS > 2))
    assert any(says(note, "fiber 2", "left out") for note in found.notes)


def test_bedpostx_without_fractions(tmp_path):
    folder = samples.bedpostx(tmp_path, AFFINE)
    for path in folder.glob("mean_f*"):
        path.unlink()
    found = read_fixels(folder)
    np.testing.assert_array_equal(found.counts, COUNTS)
    assert (found.amplitudes == 1).all()
    assert any(says(note, "mean_f1samples", "not known", "assumed") for note in found.notes)


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_fixels_without_a_direction_are_left_out(value, tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    directions = read_mif(folder / "directions.mif").data.copy()
    directions[2] = value
    write_mif(folder / "directions.mif", directions, np.eye(4))
    found, whole = read_fixels(folder), fixels(AFFINE)
    assert len(found.directions) == len(whole.directions) - 1
    assert (whole.counts.astype(int) - found.counts).sum() == 1
    assert any(says(note, f"1 of {len(whole.directions)} directions", "left out") for note in found.notes)


def test_numbers_that_are_damaged_are_left_out(tmp_path):
    folder = folder_of(tmp_path, AFFINE)
    (folder / "disp.mif").write_bytes((folder / "disp.mif").read_bytes()[:60])
    found = read_fixels(folder)
    assert_phantom(found, AFFINE)
    assert any(says(note, "1 files", "left out", "disp.mif") for note in found.notes)


def test_a_fiber_of_dsi_studio_that_cannot_be_read(tmp_path):
    content = samples.dsi_content(AFFINE)
    for broken in ({"index1": np.zeros((20, 5), np.int16)}, {"fa1": None}, {"index1": None}):
        changed = {name: values for name, values in (content | broken).items() if values is not None}
        found = read_fixels(samples.save_dsi(tmp_path / "a.fib.gz", changed))
        np.testing.assert_array_equal(found.counts, (COUNTS > 0).astype(int) + (COUNTS > 2))
    changed = content | {"index1": content["index1"].copy()}
    changed["index1"][tuple(np.argwhere(content["fa1"] > 0)[0])] = 30_000
    found = read_fixels(samples.save_dsi(tmp_path / "a.fib.gz", changed))
    assert found.counts.sum() == COUNTS.sum() - 1
    assert any(says(note, "1 directions of fiber 1", "left out") for note in found.notes)


def test_files_of_dipy_without_affine_or_values(tmp_path):
    path = samples.pam5(tmp_path, AFFINE)
    with h5py.File(path, "a") as file:
        del file["pam/peak_values"], file["pam/affine"]
    found = read_fixels(path)
    np.testing.assert_array_equal(found.counts, COUNTS)
    np.testing.assert_array_equal(found.affine, np.eye(4))
    assert any(says(note, "no affine", "1 mm", "assumed") for note in found.notes)
    assert any(says(note, "no peak_values", "lengths") for note in found.notes)


def test_dsi_studio_without_an_affine(tmp_path):
    """Its own default, LPS: to the left, to the back, up; the volume's corners lie at 0."""
    affine = np.array([[-2.0, 0, 0, 6], [0, -2.5, 0, 10], [0, 0, 3, 0], [0, 0, 0, 1]])
    content = samples.dsi_content(affine)
    del content["trans"]
    found = read_fixels(samples.save_dsi(tmp_path / "a.fib.gz", content))
    assert_phantom(found, affine)
    assert any("taken to be in LPS order" in note for note in found.notes)


@EVERY_AFFINE
def test_dsi_studio_as_matlab_writes_it(affine, tmp_path):
    """An upright matrix, a row of values for each volume, and directions instead of indices."""
    content = samples.dsi_content(affine) | {"trans": affine}
    for n in range(MOST):
        del content[f"index{n}"]
        content[f"fa{n}"] = content[f"fa{n}"].reshape(1, -1, order="F")
        content[f"dir{n}"] = np.moveaxis(samples.own(affine, "voxel")[..., n, :], 3, 0).reshape(3, -1, order="F")
    assert_phantom(read_fixels(samples.save_dsi(tmp_path / "a.fib.gz", content)), affine)


def test_a_file_that_dipy_itself_wrote(tmp_path):
    """With the group's other members."""
    from dipy.data import default_sphere
    from dipy.direction.peaks import PeaksAndMetrics
    from dipy.io.peaks import save_pam

    pam = PeaksAndMetrics()
    pam.affine, pam.sphere, pam.B, pam.total_weight, pam.ang_thr = AFFINE, default_sphere, None, 0.5, 60
    pam.peak_dirs, pam.peak_values = samples.own(AFFINE, "fsl"), AMPLITUDES
    pam.peak_indices = np.where(THERE, 0, -1).astype(np.int32)
    pam.gfa = pam.qa = pam.odf = pam.shm_coeff = None
    save_pam(str(tmp_path / "a.pam5"), pam)
    assert_phantom(read_fixels(tmp_path / "a.pam5"), AFFINE)


def test_a_large_file_of_dipy(tmp_path):
    """More values than are read at once."""
    directions = np.zeros((40, 40, 30, 1, 3))
    directions[1:, ..., 2] = 1
    with h5py.File(tmp_path / "a.pam5", "w") as file:
        group = file.create_group("pam")
        group["affine"], group["peak_dirs"], group["peak_values"] = np.eye(4), directions, directions[..., 2]
    assert (read_fixels(tmp_path / "a.pam5").counts == directions[..., 0, 2]).all()

"""The verbs ``track``, ``track-fods`` and ``track-fixels``."""

import signal

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import diffusion, fibers
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations import command_runs, digest, read_record, run
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.core.report import Exit
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io import write_fixels, write_fods, write_tensors
from napari_gpubio.diffusion.operations import HeldFixels, HeldFods, HeldTensors, SphereRegion
from napari_gpubio.diffusion.phantom.crossings import crossing
from napari_gpubio.fibers import Cone, EuDX, FixelGeodesic, FromFod, Hamiltonian, Principal, SDStream, Usual
from napari_gpubio.fibers.operations import Track, TrackInFixels, TrackInFods, tracking
from napari_gpubio.fibers.seeds import AtPoints, InRegion, InWhiteMatterByFa, ball, label_points, white_matter
from napari_gpubio.tractograms.io import read_tractogram
from tests.shell import run_verb

DWI = str(sample_path("brain_phantom/dwi.nii.gz"))
LABELS = str(sample_path("brain_phantom/bundles.nii.gz"))
SEED = ("--seed", 0, -5, 22)
QUICK = ("--max-length-mm", 40, "--device", "cpu")


@pytest.fixture(scope="module")
def field():
    return diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device="cpu")


def same(found, expected):
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_allclose(found.points, expected.points, atol=1e-4)


@pytest.mark.daily
def test_fibers_of_a_scan_and_their_record(capsys, tmp_path, field):
    out, record = tmp_path / "cc.trk", tmp_path / "cc.json"
    words = "track", DWI, *SEED, "--radius-mm", 2, "--points", 3, "--count", 20, *QUICK
    assert run_verb(*words, "--out", out, "--record", record) == 0
    expected = fibers.track(
        field, ball((0, -5, 22), 2.0, 3), Cone(count=20), Hamiltonian(max_length_mm=40.0), device="cpu"
    )
    same(read_tractogram(out), expected)
    assert f"{len(expected):,} fibers" in capsys.readouterr().out
    again = read_record(record)
    assert again.seeds == AtPoints(seed=((0, -5, 22),), radius_mm=2, points=3)
    same(run(again, device="cpu"), expected)


def test_settings_are_options(capsys, tmp_path):
    out = tmp_path / "cc.trx"
    options = ("--method", "vanaart2011", "--step-mm", 1, "--no-both-ways", "--directions", "isotropic", "--count", 9)
    assert run_verb("track", DWI, *SEED, *QUICK, *options, "--fa-stop", 0, "--out", out) == 0
    parameters = read_tractogram(out).parameters
    assert parameters["tracking"]["kind"] == "vanaart2011"
    assert (parameters["tracking"]["step_mm"], parameters["tracking"]["max_length_mm"]) == (1.0, 40.0)
    assert parameters["directions"] == {"kind": "isotropic", "count": 9, "both_ways": False}
    assert parameters["launched"] == 9
    assert "9 fibers" in capsys.readouterr().out


def test_an_option_of_another_method_is_refused(tmp_path):
    for words in (("--corner-weight", 0.5), ("--method", "eudx", "--metric", "sharpened"), ("--power", 3)):
        with pytest.raises(InvalidInput, match="which is not chosen"):
            run_verb("track", DWI, *SEED, *words, "--out", tmp_path / "cc.trk")
    with pytest.raises(InvalidInput, match="eudx has one direction"):
        run_verb("track", DWI, *SEED, "--method", "eudx", "--count", 5, "--out", tmp_path / "cc.trk")


def test_seeds_from_a_label(capsys, tmp_path):
    voxels, counts = int((np.asarray(nib.load(LABELS).dataobj) == 2).sum()), []
    words = "track", DWI, "--seeds", "region", "--region", f"{LABELS}:2", "--directions", "principal"
    for per_voxel in (1, 2):
        out = tmp_path / f"{per_voxel}.tck"
        more = "--max-length-mm", 20, "--device", "cpu", "--per-voxel", per_voxel
        assert run_verb(*words, *more, "--out", out) == 0
        counts.append(len(read_tractogram(out)))
    assert 0.5 * voxels < counts[0] <= voxels < counts[1] <= 2 * voxels


def test_seeds_give_the_points_that_the_functions_give(field):
    labels = np.asarray(nib.load(LABELS).dataobj)
    region = diffusion.regions.Region(name="2", voxels=labels == 2, affine=field.affine)
    expected = label_points(labels, field.affine, 2, per_voxel=3)
    np.testing.assert_array_equal(InRegion(per_voxel=3).points_in(field, region), expected)
    whole = InWhiteMatterByFa(least_fa=0.4).points_in(field)
    assert len(whole) == np.count_nonzero(white_matter(field, 0.4)) < np.count_nonzero(white_matter(field))
    two = AtPoints(seed=((0, 0, 0), (1, 2, 3)), radius_mm=2, points=5).points_in(field)
    np.testing.assert_array_equal(two, [*ball((0, 0, 0), 2, 5), *ball((1, 2, 3), 2, 5, seed=1)])
    sphere = diffusion.regions.Sphere(name="ball", center_mm=(0, -5, 22), radius_mm=6)
    inside = InRegion().points_in(field, sphere)
    assert len(inside) > 5
    assert (np.linalg.norm(inside - (0, -5, 22), axis=1) <= 6).all()
    with pytest.raises(InvalidInput, match="has no voxel"):
        InRegion().points_in(field, diffusion.regions.Sphere(name="far", center_mm=(500, 0, 0), radius_mm=5))


def test_a_region_and_its_seeds_come_together(field):
    held, points = HeldTensors.of(field), AtPoints(seed=((0, -5, 22),))
    with pytest.raises(InvalidInput, match="there is no region; give one"):
        Track(field=held, seeds=InRegion())
    with pytest.raises(InvalidInput, match="a region is given; choose its seeds"):
        Track(field=held, seeds=points, region=SphereRegion(center_mm=(0, 0, 0), radius_mm=3))
    for wrong in ({"points": 5}, {"radius_mm": 2.0}):
        with pytest.raises(InvalidInput, match="a ball of seeds needs both"):
            AtPoints(seed=((0, 0, 0),), **wrong)


def test_the_operation_gives_what_the_function_gives(field):
    seeds = AtPoints(seed=((0, -5, 22),), radius_mm=3, points=8)
    made = Track(field=HeldTensors.of(field), seeds=seeds, method=EuDX(corner_weight=0.5))
    expected = fibers.track(field, seeds.points_in(field), method=EuDX(corner_weight=0.5), device="cpu")
    assert digest(run(made, device="cpu")) == digest(expected)


def test_fibers_of_a_tensor_image(capsys, tmp_path, field):
    write_tensors(tmp_path / "tensors.nii.gz", field)
    assert (
        run_verb("track", tmp_path / "tensors.nii.gz", *SEED, "--count", 10, *QUICK, "--out", tmp_path / "a.trk") == 0
    )
    expected = fibers.track(field, [(0, -5, 22)], Cone(count=10), Hamiltonian(max_length_mm=40.0), device="cpu")
    found = read_tractogram(tmp_path / "a.trk")
    assert len(found) == len(expected) > 0
    np.testing.assert_allclose(found.lengths_mm(), expected.lengths_mm(), rtol=0.02)
    assert "of which tensors makes" not in capsys.readouterr().err


def test_fods_and_fixels_have_verbs_of_their_own(tmp_path, capsys):
    sample = crossing(90)
    write_fods(tmp_path / "fod.nii.gz", sample.fods)
    write_fixels(tmp_path / "fixels", sample.fixels)
    out, seed = tmp_path / "a.tck", ("--seed", 0, 0, 0)
    fods, fixels = diffusion.io.read_fods(tmp_path / "fod.nii.gz"), diffusion.io.read_fixels(tmp_path / "fixels")
    assert run_verb("track-fods", tmp_path / "fod.nii.gz", *seed, "--count", 9, "--device", "cpu", "--out", out) == 0
    same(read_tractogram(out), fibers.track(fods, [(0, 0, 0)], FromFod(count=9), device="cpu"))
    words = "--method", "sd_stream", "--directions", "principal", "--step-mm", 0.3, "--device", "cpu", "--force"
    assert run_verb("track-fods", tmp_path / "fod.nii.gz", *seed, *words, "--out", out) == 0
    same(read_tractogram(out), fibers.track(fods, [(0, 0, 0)], Principal(), SDStream(step_mm=0.3), device="cpu"))
    assert run_verb("track-fixels", tmp_path / "fixels", *seed, "--device", "cpu", "--out", out, "--force") == 0
    same(read_tractogram(out), fibers.track(fixels, [(0, 0, 0)], None, FixelGeodesic(), device="cpu"))
    capsys.readouterr()
    words = "--min-length-mm", 900, "--max-length-mm", 1000, "--device", "cpu", "--force", "--out", out
    assert run_verb("track-fixels", tmp_path / "fixels", *seed, *words) == 0
    assert "no fiber is as long as 900 mm" in capsys.readouterr().err


def test_a_mask_is_used_and_checked(tmp_path, field):
    left = field.mask.copy()
    left[: left.shape[0] // 2] = False
    middle = field.affine[:3] @ [*np.argwhere(left & white_matter(field))[500], 1]
    write_volume(tmp_path / "mask.nii.gz", left, field.affine)
    words = "track", DWI, "--seed", *middle, "--device", "cpu", "--out", tmp_path / "a.trk", "--force", "--mask"
    assert run_verb(*words, tmp_path / "mask.nii.gz") == 0
    write_volume(tmp_path / "other.nii.gz", left, field.affine + 5 * np.eye(4, k=3))
    with pytest.raises(InvalidInput, match="lies elsewhere"):
        run_verb(*words, tmp_path / "other.nii.gz")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.nii.gz", *SEED, "--out", "x.trk"], "nowhere.nii.gz"),
        ([DWI, *SEED], "nothing is to be written; give --out"),
        ([DWI, "--out", "x.trk"], "there is no seed; give"),
        ([DWI, "--seed", "500", "0", "0", "--out", "x.trk"], "outside the volume"),
        ([DWI, "--seed", "nan", "0", "0", "--out", "x.trk"], "finite number"),
        ([DWI, "--seed", "a", "0", "0", "--out", "x.trk"], "a seed is 'a 0 0'; give three numbers"),
        ([DWI, *SEED, "--points", "0", "--out", "x.trk"], "points is 0; it must be at least 1"),
        ([DWI, *SEED, "--points", "5", "--radius-mm", "-1", "--out", "x.trk"], "radius_mm is -1 mm"),
        ([DWI, *SEED, "--step-mm", "0", "--out", "x.trk"], "step_mm is 0 mm; it must be greater than 0 mm"),
        ([DWI, *SEED, "--device", "gpu", "--out", "x.trk"], "device is 'gpu'; choose"),
        ([DWI, *SEED, "--out", "no/such/folder/x.trk"], "the folder"),
        ([DWI, *SEED, "--out", "x.docx"], "x.docx"),
        ([DWI, "--seeds", "region", "--region", f"{LABELS}:77", "--out", "x.trk"], "77"),
        ([DWI, "--seeds", "region", "--out", "x.trk"], "there is no region"),
        ([DWI, "--seeds", "region", "--per-voxel", "0", "--out", "x.trk"], "per_voxel is 0"),
        ([LABELS, *SEED, "--out", "x.trk"], "bundles.nii.gz"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    device = () if "--device" in arguments else ("--device", "cpu")
    with pytest.raises(InvalidInput) as caught:
        run_verb("track", *arguments, *device)
    assert sentence in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["f.tck", "f.trk"])
def test_tracking_that_is_interrupted_keeps_its_fibers(tmp_path, monkeypatch, out):
    """A request to end is taken as Ctrl-C is."""
    usual = signal.getsignal(signal.SIGTERM)

    def end(step):
        if step.message == "tracing fibers" and step.done and signal.getsignal(signal.SIGTERM) is not usual:
            signal.raise_signal(signal.SIGTERM)  # the second one would end the tests

    monkeypatch.setattr(command_runs, "draw_progress", end)
    words = "track", DWI, "--seeds", "white-matter", "--count", 3, "--out", tmp_path / out, "--device", "cpu"
    assert run_verb(*words) == Exit.STOPPED
    assert signal.getsignal(signal.SIGTERM) is usual
    assert 0 < len(read_tractogram(tmp_path / out)) < 60_000


@pytest.mark.parametrize(("out", "is_held"), [("f.trx", False), ("f.vtk", True)])
def test_fibers_go_into_files_as_they_come(tmp_path, monkeypatch, field, out, is_held):
    """Where the format allows that, and the file has the record of what made them."""
    held = []

    def hold(*args, **options):
        held.append(args)
        return fibers.run.track_steps(*args, **options)

    monkeypatch.setattr(tracking, "track_steps", hold)
    words = "track", DWI, *SEED, "--count", 20, *QUICK
    assert run_verb(*words, "--out", tmp_path / out, "--record", tmp_path / "f.json") == 0
    assert bool(held) == is_held
    found = read_tractogram(tmp_path / out)
    same(found, fibers.track(field, [(0, -5, 22)], Cone(count=20), Hamiltonian(max_length_mm=40.0), device="cpu"))
    if not is_held:
        assert output_of_record(found.parameters[RECORD]) == read_record(tmp_path / "f.json").output("fibers")


def test_many_seeds_in_fods_and_fixels_have_one_fiber_each():
    sample, middle = crossing(90), ((0.0, 0.0, 0.0),)
    fods, fixels = HeldFods.of(sample.fods), HeldFixels.of(sample.fixels)
    one, many = AtPoints(seed=middle), AtPoints(seed=middle, radius_mm=1.0, points=7)
    for operation, launched in (
        (TrackInFods(field=fods, seeds=one), 100),
        (TrackInFods(field=fods, seeds=many), 7),
        (TrackInFods(field=fods, seeds=many, directions=Usual(count=3)), 21),
        (TrackInFixels(field=fixels, seeds=one), 100),
        (TrackInFixels(field=fixels, seeds=many), 7),
    ):
        assert run(operation.output(), device="cpu").parameters["launched"] == launched

"""Operations of tractography: records of all of them, what opens files and held values, and the verb ``tensors``."""

import dataclasses
import json

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import Store, digest, from_graph, graph, read_record, run, script, verbs
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import file
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion import operations as diffusion_operations
from napari_gpubio.diffusion.fods import TwoTissues
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.io import read_tensors, write_fixels, write_fods, write_peaks, write_tensors
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.diffusion.operations.regions import OpenAtlas, OpenRegion, region_source
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Box, Region, Sphere
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map
from napari_gpubio.tractograms import operations as tractograms_operations
from napari_gpubio.tractograms.dissection import through
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.fibers import FiberFile
from napari_gpubio.tractograms.places import UNKNOWN_LENGTHS, UNKNOWN_PLACE, placed_in
from tests.core.operations.randoms import Records
from tests.core.operations.test_scripts import _executed
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.gui.tensor_samples import saved, sticks
from tests.shell import run_verb

OWN = [one for one in verbs().values() if one.__module__.split(".")[1] in ("diffusion", "tractograms", "fibers")]


@pytest.fixture
def scan(tmp_path):
    """A scan as files."""
    found = coarse_brain(3)
    write_volume(tmp_path / "dwi.nii.gz", found.data, found.affine)
    write_fsl_gradients(tmp_path / "dwi.bval", tmp_path / "dwi.bvec", found.bvals, found.directions, found.affine)
    return found


def tensors(*words):
    return run_verb("tensors", *words, "--device", "cpu")


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.verb)
def test_scripts_and_files_of_random_records_build_equal_ones(cls, tmp_path, monkeypatch):
    path = tmp_path / "a'b\"c.txt"
    path.write_text("abc")
    store = Store()
    records = Records(7, store, [path])
    for _ in range(12):
        made = records.operation(cls)
        found = _executed(script(made, folder=tmp_path, store=store), monkeypatch)
        assert found == made
        again = [*from_graph(json.loads(json.dumps(graph(made), allow_nan=False))).values()][-1]
        assert again == made


def _same(one, other):
    assert type(one) is type(other)
    assert digest(one) == digest(other)


def _fixels():
    directions = np.array([[1.0, 0, 0], [0, 0.6, 0.8], [0, 0, 1]], np.float32)
    counts = np.zeros((3, 2, 2), np.uint8)
    counts[0, 1, 1], counts[2, 0, 0] = 2, 1
    numbers = {"fd": np.arange(3.0, dtype=np.float32)}
    amplitudes = np.array([3, 2, 1], np.float32)
    affine = np.diag([2.0, 2, 3, 1])
    return FixelField(counts=counts, directions=directions, amplitudes=amplitudes, affine=affine, numbers=numbers)


def _fods():
    mask = np.zeros((3, 4, 5), bool)
    mask[1:, 1:3] = True
    coefficients = np.random.default_rng(0).normal(0, 0.02, (3, 4, 5, 15)).astype(np.float32) * mask[..., None]
    coefficients[mask, 0] = 1
    tissues = {"csf": np.ones((3, 4, 5), np.float32)}
    return FodField(coefficients=coefficients, mask=mask, affine=np.diag([2.0, 2, 2, 1]), tissues=tissues)


def _fibers():
    points = np.arange(15, dtype=np.float32).reshape(5, 3)
    per = {"per_fiber": {"weight": np.array([1.0, 2])}, "per_point": {"fa": np.arange(5, dtype=np.float32)}}
    per["per_group"] = {"CST": {"mean_fa": np.array([0.5])}, "AF": {}}
    return Tractogram(points=points, offsets=np.array([0, 2, 5]), affine=np.eye(4), shape=(9, 9, 9), **per)


def _region():
    return Region(name="roi", voxels=np.eye(3, dtype=bool)[..., None], affine=np.eye(4), is_oriented=False)


def _atlas():
    labels = np.arange(8, dtype=np.int16).reshape(2, 2, 2)
    return Atlas(labels=labels, affine=np.eye(4), names={1: "left", 2: "right"})


def _tensors():
    return diffusion.fit_tensors(coarse_brain(3), device="cpu")


@pytest.mark.parametrize(
    ("cls", "make"),
    [
        (diffusion_operations.HeldScan, lambda: coarse_brain(3)),
        (diffusion_operations.HeldTensors, _tensors),
        (diffusion_operations.HeldFods, _fods),
        (diffusion_operations.HeldFixels, _fixels),
        (tractograms_operations.HeldTractogram, _fibers),
        (diffusion_operations.HeldRegion, _region),
        (diffusion_operations.HeldAtlas, _atlas),
    ],
)
def test_a_held_value_is_what_it_was(cls, make):
    value, store = make(), Store()
    held = cls.of(value, store=store)
    found = run(held, device="cpu", store=store)
    _same(found, value)
    assert isinstance(found, cls.makes[next(iter(cls.makes))])
    for field in dataclasses.fields(value):
        if field.name in {one.name for one in dataclasses.fields(cls)}:
            np.testing.assert_equal(getattr(found, field.name), getattr(value, field.name))


@pytest.mark.parametrize("about", [UNKNOWN_PLACE, UNKNOWN_PLACE | UNKNOWN_LENGTHS])
def test_held_fibers_tell_where_they_lie(about):
    store, lost = Store(), dataclasses.replace(_fibers(), parameters=about)
    placed = placed_in(lost, np.eye(4) + 4.0 * np.eye(4, k=3), lost.shape)
    for fibers in (lost, placed):
        held = tractograms_operations.HeldTractogram.of(fibers, store=store)
        assert run(held, device="cpu", store=store).parameters == fibers.parameters
        assert held != tractograms_operations.HeldTractogram.of(_fibers(), store=store)


def test_a_box_comes_from_its_numbers():
    box = Box(name="a box", low_mm=(-1.0, 0.0, 0.0), high_mm=(5.0, 2.0, 3.0))
    output = region_source(box, None, 1)
    assert output.of == diffusion_operations.BoxRegion(corner_mm=(-1, 0, 0), opposite_mm=(5, 2, 3))
    _same(run(output, device="cpu"), box)


def test_results_that_settings_leave_out_are_not_there(scan, tmp_path):
    at = diffusion_operations.OpenScan.at(tmp_path / "dwi.nii.gz")
    responses = [diffusion_operations.OpenResponse(file=file(tmp_path / "dwi.bval")) for _ in range(3)]
    (tmp_path / "a.tck").write_bytes(b"x")
    alone = tractograms_operations.OpenBundle.at(tmp_path / "a.tck", subject="a", bundle="b")
    measured = tractograms_operations.OpenBundle.at(
        tmp_path / "a.tck", image=[("FA", str(tmp_path / "dwi.nii.gz"))], subject="a", bundle="b"
    )
    for makes, lacks, name in (
        (
            diffusion_operations.EstimateTissueResponses(scan=at),
            diffusion_operations.EstimateTissueResponses(scan=at, tissues=TwoTissues()),
            "gm",
        ),
        (
            diffusion_operations.DeconvolveTissues(scan=at, responses=responses),
            diffusion_operations.DeconvolveTissues(scan=at, responses=responses[:2]),
            "gm",
        ),
        (
            tractograms_operations.MeasureBundles(bundles=[alone, measured]),
            tractograms_operations.MeasureBundles(bundles=[alone]),
            "profiles",
        ),
    ):
        assert {one for one in makes.makes if makes.has(one)} == {*makes.makes}
        assert {one for one in lacks.makes if not lacks.has(one)} == {name}


def test_files_are_opened_as_what_was_written(tmp_path):
    field, fods, fixels = _tensors(), _fods(), _fixels()
    write_tensors(tmp_path / "t.nii.gz", field)
    write_fods(tmp_path / "fod.nii.gz", fods)
    write_fixels(tmp_path / "fixels", fixels)
    write_peaks(tmp_path / "peaks.nii.gz", fixels)
    write_tractogram(tmp_path / "f.trx", _fibers())
    for path, opens in (
        ("t.nii.gz", diffusion_operations.OpenTensors),
        ("fod.nii.gz", diffusion_operations.OpenFods),
        ("fixels", diffusion_operations.OpenFixels),
        ("fixels/index.mif", diffusion_operations.OpenFixels),
        ("peaks.nii.gz", diffusion_operations.OpenFixels),
        ("f.trx", tractograms_operations.OpenTractogram),
    ):
        opened = opens.at(tmp_path / path)
        found = run(opened.output(), device="cpu", store=Store())
        assert isinstance(found, opened.output().kind)
        assert opened.title == path.partition("/")[0].partition(".")[0]
    whole = diffusion_operations.OpenFixels.at(tmp_path / "fixels")
    assert len(whole.beside) >= 2
    (tmp_path / "fixels" / "directions.mif").write_bytes(b"x")
    with pytest.raises(InvalidInput, match=r"directions\.mif has changed"):
        run(whole, device="cpu", store=Store())


def test_a_region_is_named_as_in_a_command(tmp_path):
    labels = np.zeros((4, 4, 4), np.int16)
    labels[1, 1], labels[2, 2, 2] = 5, 17
    write_volume(tmp_path / "a.nii.gz", labels, np.eye(4))
    (tmp_path / "a.tsv").write_text("index\tname\n5\tstem\n17\tcortex\n")
    whole, one, named = (
        run(OpenRegion.at(f"{tmp_path / 'a.nii.gz'}{more}"), device="cpu", store=Store())
        for more in ("", ":17", ":Stem")
    )
    assert [int(region.voxels.sum()) for region in (whole, one, named)] == [5, 1, 4]
    assert (whole.name, one.name, named.name) == ("a.nii.gz", "cortex", "stem")
    sphere, box = (run(OpenRegion.at(text), device="cpu") for text in ("sphere:1,2,3,4", "box:5,0,0,-1,2,3"))
    assert [type(one) for one in (sphere, box)] == [Sphere, Box]
    assert all(isinstance(one, AnyRegion) for one in (whole, sphere, box))
    assert (sphere.center_mm, sphere.radius_mm, box.low_mm, box.high_mm) == ((1, 2, 3), 4, (-1, 0, 0), (5, 2, 3))
    for text in ("sphere:1,2,3", "box:1,2,3,4,5,x", "sphere:1,2,3,-1"):
        with pytest.raises(InvalidInput):
            OpenRegion.at(text)


def test_the_names_of_labels_are_a_file_of_the_record(tmp_path):
    """What they are called decides which voxels a region has."""
    labels, path, table = np.zeros((4, 4, 4), np.int16), tmp_path / "a.nii.gz", tmp_path / "a.tsv"
    labels[1, 1], labels[2, 2, 2] = 5, 17
    write_volume(path, labels, np.eye(4))
    assert OpenAtlas.at(path).table is None
    made = []
    for five, other in (("left", "right"), ("right", "left")):
        table.write_text(f"index\tname\n5\t{five}\n17\t{other}\n")
        made.append((OpenRegion.at(f"{path}:left"), OpenAtlas.at(path)))
    (first, whole), (second, other) = made
    assert first != second
    assert whole != other
    assert second.table.path == str(table)
    assert int(run(second, device="cpu", store=Store()).voxels.sum()) == 1
    for stale in (first, whole):
        with pytest.raises(InvalidInput, match=r"a\.tsv has changed"):
            run(stale, device="cpu", store=Store())
    assert OpenRegion.at(path).table is None  # a mask needs none


@pytest.mark.parametrize("label", ["--5", "²", "5-"])
def test_a_label_that_is_no_number_is_a_name(tmp_path, label):
    write_volume(tmp_path / "a.nii.gz", np.eye(4, dtype=np.int16)[..., None] * 5, np.eye(4))
    with pytest.raises(InvalidInput, match="no label is called"):
        run(OpenRegion.at(f"{tmp_path / 'a.nii.gz'}:{label}"), device="cpu", store=Store())


def test_what_counts_of_conditions_fibers_and_tensors(tmp_path, scan):
    """Contents do, names and places of files do not."""
    first, other = (through(Sphere(name="a", center_mm=(0, 0, x), radius_mm=2)) for x in (0, 1))
    assert digest(first) == digest(through(Sphere(name="a", center_mm=(0, 0, 0), radius_mm=2))) != digest(other)
    files = [tmp_path / f"{name}.tck" for name in "abc"]
    for path, shift in zip(files, (0.0, 0.0, 1.0), strict=True):
        points = np.arange(12.0).reshape(4, 3) + shift
        write_tractogram(
            path, tractograms.Tractogram(points=points, offsets=[0, 2, 4], affine=np.eye(4), shape=(9, 9, 9))
        )
    whole = [digest(FiberFile(path)) for path in files]
    assert whole[0] == whole[1] != whole[2]
    assert digest(FiberFile(files[0], np.array([True, False]))) != whole[0]
    field = diffusion.fit_tensors(scan, device="cpu")
    assert digest(field) != digest(dataclasses.replace(field, s0=None))


# -- the verb tensors -------------------------------------------------------------------------------------------------


def test_tensors_and_maps_are_written(scan, tmp_path, capsys):
    names = ("fa", "md", "ad", "rd", "v1", "dec", "s0")
    files = [word for name in names for word in (f"--{name}-out", tmp_path / f"{name}.nii.gz")]
    record = tmp_path / "fit.json"
    words = "--estimator", "ols", "--out", tmp_path / "t.nii.gz", "--record", record, *files
    assert tensors(tmp_path / "dwi.nii.gz", *words) == 0
    settings = diffusion.FitSettings(estimator=diffusion.OrdinaryLeastSquares())
    expected = diffusion.fit_tensors(scan, settings=settings, device="cpu")
    for name in names:
        found = np.asarray(nib.load(tmp_path / f"{name}.nii.gz").dataobj)
        np.testing.assert_array_equal(found, scalar_map(expected, name.upper()))
    np.testing.assert_allclose(read_tensors(tmp_path / "t.nii.gz").tensors, expected.tensors, atol=1e-9)
    assert read_record(record) == diffusion_operations.FitTensors(
        scan=diffusion_operations.OpenScan.at(tmp_path / "dwi.nii.gz"), settings=settings
    )
    assert f"{expected.mask.sum():,} tensors" in capsys.readouterr().out


def test_a_mask_cuts_and_an_empty_one_is_refused(scan, tmp_path):
    mask = np.zeros(scan.shape, np.uint8)
    write_volume(tmp_path / "none.nii.gz", mask, scan.affine)
    mask[8:12, 8:12, 8:12] = 1
    write_volume(tmp_path / "mask.nii.gz", mask, scan.affine)
    out = tmp_path / "fa.nii.gz"
    assert tensors(tmp_path / "dwi.nii.gz", "--mask", tmp_path / "mask.nii.gz", "--fa-out", out) == 0
    assert not np.asarray(nib.load(out).dataobj)[mask == 0].any()
    with pytest.raises(InvalidInput, match="no voxel that is not 0"):
        tensors(tmp_path / "dwi.nii.gz", "--mask", tmp_path / "none.nii.gz", "--fa-out", tmp_path / "b.nii.gz")


def test_a_wrong_table_is_warned_of(tmp_path, capsys):
    for flip in (False, True):
        path = saved(sticks(flip=flip), tmp_path)
        assert tensors(path, "--md-out", tmp_path / f"{flip}.nii.gz") == 0
        assert ("warning: " in capsys.readouterr().err) is flip


def test_an_opened_image_has_maps_too(tmp_path):
    field = _tensors()
    write_tensors(tmp_path / "t.nii.gz", field)
    assert run_verb("open-tensors", tmp_path / "t.nii.gz", "--fa-out", tmp_path / "fa.nii.gz") == 0
    found = np.asarray(nib.load(tmp_path / "fa.nii.gz").dataobj)
    np.testing.assert_allclose(found, scalar_map(field, "FA"), atol=1e-5)


def test_every_kind_has_what_its_verbs_need():
    for cls in OWN:
        for kind in cls.makes.values():
            known = kind_registered(kind)
            assert known.opens is None or issubclass(next(iter(known.opens.makes.values())), kind)

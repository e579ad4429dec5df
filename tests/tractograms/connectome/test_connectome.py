"""Connectomes against MRtrix's tck2connectome, files of any size, and runs that go on."""

import csv
import dataclasses
import functools
import json
import threading

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.operations import command_runs
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion import fit_tensors, phantom
from napari_gpubio.diffusion import io as diffusion_io
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers import GeodesicSettings, geodesic_connectome, geodesic_connectome_steps
from napari_gpubio.tractograms import io as tractograms_io
from napari_gpubio.tractograms.connectome import (
    AllVoxels,
    Backwards,
    Connectome,
    ConnectomeSettings,
    EndVoxels,
    Radial,
    connectome,
    connectome_steps,
)
from napari_gpubio.tractograms.io import blocks
from napari_gpubio.tractograms.io.blocks import open_blocks
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.model import Tractogram
from tests.killed_runs import killed

FIBERS, ATLAS = sample_path("brain_phantom/bundles.trk"), sample_path("brain_phantom/atlas.nii.gz")


@pytest.fixture(scope="module")
def atlas():
    return diffusion_io.read_atlas(ATLAS)


@pytest.fixture(scope="module")
def fibers():
    return tractograms_io.read_tractogram(FIBERS)


@functools.cache
def bundle_ends(folder):
    """An atlas of the ends of all bundles, 133 regions."""
    labels, affine = np.zeros(0), None
    for number, path in enumerate(sorted(folder.glob("*.nii.gz")), 1):
        region, affine = diffusion_io.read_volume(path)
        labels = labels if labels.size else np.zeros(region.shape, np.int16)
        labels[region > 0] = number
    return Atlas(labels=labels, affine=affine)


@pytest.fixture
def reference(shared_data):
    """400 streamlines and an atlas of 133 regions, with MRtrix's figures."""
    folder = shared_data.parent / "reference" / "code" / "hardi"
    figures = json.loads((folder / "tractogram_reference.json").read_text(encoding="utf-8"))
    return folder / "small400.tck", bundle_ends(shared_data / "dwi" / "whole_brain_b1000" / "endings"), figures


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("count", {}, {}),
        ("radius2", {"assignment": Radial(radius_mm=2.0)}, {}),
        ("end_voxels", {"assignment": EndVoxels()}, {}),
        ("reverse", {"assignment": Backwards(backwards_mm=10.0)}, {}),
        ("invnodevol", {}, {"per_node_volume": True}),
        ("length", {}, {"of": "length_mm"}),
        ("invlength_invnodevol", {}, {"per_node_volume": True, "per_length": True}),
    ],
)
def test_matrices_are_those_of_mrtrix(reference, name, settings, options):
    path, regions, figures = reference
    expected = figures[f"connectome_{name}"]
    found = connectome(path, regions, ConnectomeSettings(**settings))
    upper = np.triu(np.nan_to_num(found.matrix(**options)))
    assert upper.sum() == pytest.approx(expected["sum_upper"], rel=1e-6)
    assert np.count_nonzero(upper) == expected["nonzero_upper"]
    one, other, value = expected["top3"][0]
    place = [int(np.flatnonzero(found.labels == label)[0]) for label in (one, other)]
    assert upper[tuple(place)] == pytest.approx(value, rel=1e-6)


def line(*points):
    return np.array(points, np.float32)


def tractogram(*lines):
    return Tractogram(
        points=np.concatenate(lines), offsets=np.cumsum([0, *map(len, lines)]), affine=np.eye(4), shape=(9, 9, 9)
    )


@pytest.fixture
def two_regions():
    """Labels 4 and 7 on the voxels x = 1 and x = 7 of a grid."""
    labels = np.zeros((9, 9, 9), np.int32)
    labels[1], labels[7] = 4, 7
    return Atlas(labels=labels, affine=np.eye(4), names={4: "left"})


def test_ends_belong_to_the_nearest_voxel_that_is_near_enough(two_regions):
    lines = tractogram(line((2.9, 4, 4), (5.2, 4, 4)), line((3.1, 4, 4), (5.2, 4, 4)), line((1, 4, 4), (7, 4, 4)))
    found = connectome(lines, two_regions, ConnectomeSettings(assignment=Radial(radius_mm=2.0)))
    assert found.pairs.tolist() == [[0, 1], [-1, 1], [0, 1]]
    assert found.fibers_of(7, 4).tolist() == [0, 2]
    assert found.fibers_at(7).tolist() == [0, 1, 2]
    assert (found.assigned, found.names) == (2, ("left", "7"))
    np.testing.assert_array_equal(found.matrix(), [[0, 2], [2, 0]])
    np.testing.assert_allclose(found.matrix("length_mm", statistic="min"), [[np.nan, 2.3], [2.3, np.nan]], rtol=1e-6)
    weighted = found.matrix("length_mm", weights=[3, 1, 1])
    assert weighted[0, 1] == pytest.approx((3 * 2.3 + 6) / 4)
    assert found.matrix(per_node_volume=True)[0, 1] == pytest.approx(2 * 2 / (81 + 81))


def test_all_regions_on_the_way_and_fibers_without_points(two_regions):
    lines = tractogram(line((1, 4, 4), (4, 4, 4), (7, 4, 4)), np.zeros((0, 3), np.float32), line((1, 1, 1)))
    passed = connectome(lines, two_regions, ConnectomeSettings(assignment=AllVoxels()))
    np.testing.assert_array_equal(passed.matrix(), [[1, 1], [1, 1]])
    for assignment in (Radial(), EndVoxels(), Backwards()):
        found = connectome(lines, two_regions, ConnectomeSettings(assignment=assignment))
        last = [-1, 0] if isinstance(assignment, Backwards) else [0, 0]  # a point is the way back of one end only
        assert found.pairs.tolist() == [[0, 1], [-1, -1], last]


@pytest.mark.parametrize(
    ("points", "first", "last"),
    [
        (3, [0, 1], [2]),
        (4, [0, 1], [3]),
        (5, [0, 1, 2], [3, 4]),
        (6, [0, 1, 2], [4, 5]),
        (7, [0, 1, 2, 3], [4, 5, 6]),
        (8, [0, 1, 2, 3], [5, 6, 7]),
    ],
)
@pytest.mark.parametrize("way", [0.0, 10.0])
def test_which_points_belong_to_the_ways_back_is_as_in_mrtrix(points, first, last, way):
    # From tck2connectome 3.0.3 -assignment_reverse_search -out_assignments: one labeled voxel at each point in turn.
    labels = np.zeros((40, 3, 3), np.uint8)
    labels[20, 1, 1], labels[0, 0, 0] = 1, 2
    along = 20.0 + np.arange(points)[None, :] - np.arange(points)[:, None]
    lines = np.stack([along, np.ones_like(along), np.ones_like(along)], axis=2).astype(np.float32)
    offsets = np.arange(points + 1) * points
    fibers = Tractogram(points=lines.reshape(-1, 3), offsets=offsets, affine=np.eye(4), shape=labels.shape)
    settings = ConnectomeSettings(assignment=Backwards(backwards_mm=way))
    pairs = connectome(fibers, Atlas(labels=labels, affine=np.eye(4)), settings).pairs
    assert np.flatnonzero((pairs == 0).any(axis=1)).tolist() == first + last


@pytest.mark.parametrize("suffix", [".tck", ".trx", ".trk"])
def test_a_file_is_read_in_blocks(fibers, atlas, tmp_path, monkeypatch, suffix):
    path = tmp_path / f"fibers{suffix}"
    write_tractogram(path, fibers)
    with open_blocks(path) as file:
        assert len(file) == len(fibers)
        np.testing.assert_allclose(file.part(3, 9).points, fibers.part(3, 9).points, atol=1e-4)
        assert len(file.part(5, 5)) == 0
    monkeypatch.setattr(blocks, "BLOCK", 100)
    found = connectome(path, atlas)
    np.testing.assert_array_equal(found.pairs, connectome(tractograms_io.read_tractogram(path), atlas).pairs)
    assert found.matrix().sum() > 0


def test_a_run_that_was_stopped_goes_on(fibers, atlas, monkeypatch, tmp_path):
    monkeypatch.setattr(blocks, "BLOCK", 100)
    whole = connectome(fibers, atlas)
    stop = threading.Event()
    steps = connectome_steps(fibers, atlas, stop=stop)
    next(steps)
    stop.set()
    part = drive(steps)
    assert not part.complete
    part.save(tmp_path / "part.npz")
    known = Connectome.load(tmp_path / "part.npz")
    rest = drive(connectome_steps(fibers, atlas, known=known))
    assert rest.complete
    for of in ("count", "length_mm"):
        np.testing.assert_array_equal(rest.matrix(of), whole.matrix(of))
    with pytest.raises(InvalidInput, match=r"begun with other settings: .*radius_mm=4.0.*this run has .*radius_mm=1.0"):
        drive(connectome_steps(fibers, atlas, ConnectomeSettings(assignment=Radial(radius_mm=1.0)), known=known))


def test_a_run_goes_on_with_the_same_inputs_only(fibers, atlas, monkeypatch, tmp_path):
    """Another subject's tractogram, or an atlas with the same labels elsewhere, is not what was begun."""
    monkeypatch.setattr(blocks, "BLOCK", 100)
    mine, theirs = tmp_path / "mine.tck", tmp_path / "theirs.tck"
    write_tractogram(mine, fibers)
    write_tractogram(theirs, dataclasses.replace(fibers, points=fibers.points * np.float32([-1, 1, 1])))
    stop = threading.Event()
    stop.set()
    part = drive(connectome_steps(mine, atlas, stop=stop))
    part.save(tmp_path / "part.npz", compress=False)
    known = Connectome.load(tmp_path / "part.npz")
    assert not known.complete
    assert drive(connectome_steps(mine, atlas, known=known)).complete
    with pytest.raises(InvalidInput, match=r"begun with other fibers: .*mine\.tck, and this run has .*theirs\.tck"):
        drive(connectome_steps(theirs, atlas, known=known))
    for other in (
        dataclasses.replace(atlas, labels=np.roll(atlas.labels, 1, axis=0)),
        dataclasses.replace(atlas, affine=np.diag([1, 1, 1.1, 1]) @ atlas.affine),
    ):
        with pytest.raises(InvalidInput, match=r"begun with other regions: .*atlas\.nii\.gz"):
            drive(connectome_steps(mine, other, known=known))
    with pytest.raises(InvalidInput, match="does not say what it was made of"):
        drive(connectome_steps(mine, atlas, known=dataclasses.replace(known, parameters={})))


def test_a_killed_run_goes_on_with_what_was_kept(fibers, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(blocks, "BLOCK", 40)
    write_tractogram(tmp_path / "mine.tck", fibers)
    write_tractogram(
        tmp_path / "theirs.tck", dataclasses.replace(fibers, points=fibers.points * np.float32([-1, 1, 1]))
    )

    def run(name, out):
        return cli.main(
            ["connectome", str(tmp_path / name), "--atlas", str(ATLAS), "--connectome-out", str(tmp_path / out)]
        )

    with killed(monkeypatch, command_runs, after=4):  # the first two read
        run("mine.tck", "c.npz")
    assert len(Connectome.unfinished(tmp_path / "c.npz").numbers["length_mm"]) == 80
    assert run("theirs.tck", "c.npz") == 2
    printed = capsys.readouterr().err
    assert "begun with other fibers: " in printed
    assert "mine.tck, and this run has " in printed
    assert run("mine.tck", "c.npz") == run("mine.tck", "whole.npz") == 0
    assert "goes on with c.npz" in capsys.readouterr().err
    found, whole = (Connectome.load(tmp_path / name) for name in ("c.npz", "whole.npz"))
    np.testing.assert_array_equal(found.pairs, whole.pairs)
    np.testing.assert_array_equal(found.numbers["length_mm"], whole.numbers["length_mm"])
    assert Connectome.unfinished(tmp_path / "c.npz") is None


@pytest.mark.parametrize("first", [True, False])
def test_a_block_that_meets_no_region_keeps_its_numbers(fibers, atlas, monkeypatch, first):
    monkeypatch.setattr(blocks, "BLOCK", len(fibers))
    far = dataclasses.replace(fibers, points=fibers.points + np.float32(500))
    both = Tractogram.join([far, fibers] if first else [fibers, far])
    settings = ConnectomeSettings(assignment=AllVoxels())
    found, alone = connectome(both, atlas, settings), connectome(fibers, atlas, settings)
    assert len(found.numbers["length_mm"]) == len(both)
    for how in ({}, {"of": "length_mm"}, {"per_length": True}):
        np.testing.assert_array_equal(found.matrix(**how), alone.matrix(**how))


def test_bad_input(fibers, atlas, two_regions, tmp_path):
    found = connectome(fibers, atlas)
    for act, what in (
        (lambda: found.matrix("nothing"), "nothing"),
        (lambda: found.matrix(weights=[1, 2]), "one for each"),
        (lambda: found.fibers_of(1, 999), "999"),
        (lambda: Connectome.load(ATLAS), r"atlas\.nii\.gz"),
    ):
        with pytest.raises(InvalidInput, match=what):
            act()
    assert connectome(fibers.part(0, 0), atlas).matrix().sum() == 0


def test_the_verb(fibers, atlas, tmp_path, capsys):
    matrix, everything = tmp_path / "matrix.csv", tmp_path / "all.npz"
    words = ["connectome", str(FIBERS), "--atlas", str(ATLAS), "--of", "length_mm"]
    assert cli.main([*words, "--out", str(matrix), "--connectome-out", str(everything)]) == 0
    assert "21 regions" in capsys.readouterr().out
    with matrix.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][1:] == [row[0] for row in rows[1:]] == list(connectome(fibers, atlas).names)
    assert float(rows[1][2]) == pytest.approx(connectome(fibers, atlas).matrix("length_mm")[0, 1], rel=1e-6)
    assert Connectome.load(everything).complete
    text = tmp_path / "weights.txt"
    np.savetxt(text, np.full(len(fibers), 2.0))
    assert cli.main([*words, "--of", "count", "--weights", str(text), "--out", str(matrix), "--force", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert np.sum(np.triu(printed["matrix"])) == 2 * printed["connections"]
    assert cli.main([*words, "--statistic", "min", "--weights", str(text)]) == 2
    assert "no effect on the min" in capsys.readouterr().err


def test_the_verb_of_geodesics(tmp_path, capsys):
    scan = str(sample_path("brain_phantom/dwi.nii.gz"))
    matrix, best = tmp_path / "scores.csv", tmp_path / "best.trx"
    words = ["geodesics", scan, "--atlas", str(ATLAS), "--seeds-per-region", "5", "--count", "3", "--device", "cpu"]
    fods = tmp_path / "fods.nii.gz"
    volume = nib.load(scan)
    write_volume(fods, np.ones((*volume.shape[:3], 15), np.float32) * np.eye(1, 15, dtype=np.float32)[0], volume.affine)
    files = ["--fods", str(fods), "--out", str(matrix), "--best-out", str(best)]
    assert cli.main([*words, "--of", "alignment_fa", "--statistic", "max", *files]) == 0
    printed = capsys.readouterr()
    assert "21 regions" in printed.out
    assert "On 0 % of the way" in printed.out + printed.err
    kept = tractograms_io.read_tractogram(best)
    with matrix.open(encoding="utf-8") as file:
        scores = [float(value) for row in list(csv.reader(file))[1:] for value in row[1:] if value]
    assert max(scores) == pytest.approx(kept.per_fiber["alignment_fa"].max(), rel=1e-6)


def test_geodesics_join_the_regions_that_a_tract_joins():
    field = fit_tensors(phantom.load_brain_phantom(), device="cpu")
    labels = np.zeros(field.shape, np.int16)
    centers = apply_affine(np.linalg.inv(field.affine), [(-9, -5, 22), (9, -5, 22), (0, 32, 8)])
    for label, center in enumerate(np.rint(centers).astype(int), 1):
        labels[tuple(slice(c - 1, c + 2) for c in center)] = label
    atlas = Atlas(labels=labels, affine=field.affine)
    found = geodesic_connectome(field, atlas, GeodesicSettings(seeds_per_region=30, best_per_pair=2), device="cpu")
    assert "one direction a voxel" in found.notes[0]
    counts, scores = found.matrix(), found.matrix("alignment_fa", statistic="max")
    assert counts[0, 1] > counts[0, 2] + counts[1, 2]  # the callosum joins left and right
    assert scores[0, 1] == found.numbers["alignment_fa"][found.fibers_of(1, 2)].max() > 0.4
    assert found.assigned == len(found.fibers)
    of_pair = found.fibers_of(1, 2)
    best = np.isin(found.best.per_fiber["fiber"], of_pair)
    assert np.count_nonzero(best) == 4  # two from each of the regions
    assert found.best.per_fiber["alignment_fa"][best].max() == found.numbers["alignment_fa"][of_pair].max()
    stop = threading.Event()
    stop.set()
    assert not drive(geodesic_connectome_steps(field, atlas, device="cpu", stop=stop)).complete
    with pytest.raises(InvalidInput, match="two at least"):
        geodesic_connectome(field, Atlas(labels=(labels == 1).astype(int), affine=field.affine))


WRONG = {
    "pairs of three": {"pairs": np.zeros((5, 3), np.int32)},
    "region 99": {"pairs": np.full((5, 2), 99, np.int32)},
    "region -7": {"pairs": np.full((5, 2), -7, np.int32)},
    "fiber 99": {"fibers": np.arange(5) + 99},
    "fewer labels": {"labels": np.arange(1)},
    "pairs of reals": {"pairs": np.zeros((5, 2))},
    "pairs of text": {"pairs": np.full((5, 2), "a")},
    "pairs without columns": {"pairs": np.full(5, "a")},
    "lengths of text": {"number length_mm": np.array(list("abcde"))},
    "lengths without a row": {"number length_mm": np.array(1.0)},
    "no labels": {"labels": None},
    "no lengths": {"number length_mm": None},
    "other numbers": {"number fa": np.ones(4)},
    "numbers of text": {"number fa": np.array(list("abcde"))},
    "length NaN": {"number length_mm": np.full(5, np.nan)},
    "a list": {"about": np.array("[1]")},
    "names a number": {"about": np.array('{"names": 5, "parameters": {}, "complete": true}')},
    "complete a word": {"about": np.array('{"names": ["a", "b"], "parameters": {}, "complete": "yes"}')},
    "deep": {"about": np.array("[" * 100_000)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_damaged_connectome_is_refused_in_a_sentence(tmp_path, changes):
    about = json.dumps({"names": ["a", "b"], "parameters": {}, "complete": True})
    held = {
        "labels": np.arange(2), "voxels": np.full(2, 3), "pairs": np.zeros((5, 2), np.int32), "fibers": np.arange(5),
        "about": np.array(about), "number length_mm": np.ones(5),
    }  # fmt: skip
    np.savez(tmp_path / "good.npz", **held)
    assert Connectome.load(tmp_path / "good.npz").matrix()[0, 0] == 5
    np.savez(tmp_path / "c.npz", **{name: value for name, value in (held | changes).items() if value is not None})
    with pytest.raises(InvalidInput, match=r"^c\.npz"):
        Connectome.load(tmp_path / "c.npz")

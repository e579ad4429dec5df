"""Regions in files, their tables, and the options of the command line for them."""

import csv

import nibabel
import numpy as np
import pytest
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, contrast, region_curves
from napari_gpubio.speckle.io import read_regions, write_beats_csv, write_pulsatility_csv, write_regions
from napari_gpubio.speckle.pulsatility import PulsatilitySettings, region_pulsatility
from napari_gpubio.speckle.settings import FlowIndex
from tests.shell import run_verb
from tests.speckle.pulse_samples import relative_flow

SHAPE = (16, 20)
LABELS = np.zeros(SHAPE, np.uint8)
LABELS[3:13, 3:10], LABELS[3:13, 11:17] = 1, 4
FPS = 40.0


def beating_frames(count=400, rate_hz=2.0, seed=0):
    """Frames whose flow beats on the left, with an index of 0.5, and is steady on the right."""
    rng = np.random.default_rng(seed)
    flow = relative_flow(rate_hz * np.arange(count) / FPS, 0.5, "sine")
    k = np.full((count, *SHAPE), 0.1)
    k[..., :10] = 0.1 / np.sqrt(flow)[:, None, None]
    return (3000.0 * (1.0 + k * rng.normal(size=k.shape))).astype(np.uint16)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_regions_that_overlap_come_back_with_their_names(tmp_path):
    regions = {"vessel, left": LABELS == 1, "all": np.ones(SHAPE, bool)}
    write_regions(tmp_path / "r.tif", regions)
    back = read_regions(tmp_path / "r.tif", SHAPE)
    assert list(back) == list(regions)
    for name, pixels in regions.items():
        np.testing.assert_array_equal(back[name], pixels)


def test_labels_of_tiff_and_nifti(tmp_path):
    tifffile.imwrite(tmp_path / "l.tif", LABELS)
    nibabel.save(nibabel.Nifti1Image(LABELS.T[:, :, None], np.eye(4)), tmp_path / "l.nii.gz")
    for name in ("l.tif", "l.nii.gz"):
        regions = read_regions(tmp_path / name, SHAPE)
        assert list(regions) == ["region 1", "region 4"]
        np.testing.assert_array_equal(regions["region 4"], LABELS == 4)


def shapes_csv(path, *shapes):
    lines = ["index,shape-type,vertex-index,axis-0,axis-1,axis-2"]
    for index, (kind, vertices) in enumerate(shapes):
        lines += [f"{index},{kind},{n},0.0,{y},{x}" for n, (y, x) in enumerate(vertices)]
    path.write_text("\n".join(lines))
    return path


def test_shapes_that_napari_saved_hold_the_pixels_whose_centers_lie_within(tmp_path):
    box = [(2.5, 2.5), (2.5, 9.5), (12.5, 9.5), (12.5, 2.5)]
    hourglass = [(0.5, 0.5), (0.5, 8.5), (8.5, 0.5), (8.5, 8.5)]
    circle = [(1, 1), (1, 11), (11, 11), (11, 1)]
    path = shapes_csv(tmp_path / "s.csv", ("rectangle", box), ("polygon", hourglass), ("ellipse", circle))
    regions = read_regions(path, SHAPE)
    np.testing.assert_array_equal(regions["region 1"], LABELS == 1)
    y, x = np.indices(SHAPE)
    np.testing.assert_array_equal(regions["region 3"], (y - 6) ** 2 + (x - 6) ** 2 <= 25)
    assert regions["region 2"][1, 4]
    assert not regions["region 2"][4, 1]
    assert regions["region 2"].sum() == pytest.approx(32, abs=4)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tif", np.zeros(SHAPE, np.uint8), "is 0 everywhere"),
        ("a.tif", np.zeros((5, *SHAPE), np.uint8), r"has the shape \(5, 16, 20\)"),
        ("a.tif", np.ones((4, 4), np.uint8), r"has the shape \(4, 4\) and a map \(16, 20\)"),
        ("a.tif", np.random.default_rng(0).normal(size=SHAPE), "different values"),
        ("a.csv", "time,value\n1,2\n", "is no table of shapes"),
        ("a.csv", "index,shape-type,vertex-index,axis-0,axis-1\n", "holds no shapes"),
        ("a.csv", "index,shape-type,vertex-index,axis-0,axis-1\n0,line,0,1,1\n0,line,1,5,5\n", "shape 1 is a line"),
        ("a.csv", "index,shape-type,vertex-index,axis-0,axis-1\n" + "0,polygon,0,99,99\n" * 3, "has no pixel in maps"),
        ("a.csv", "index,shape-type,vertex-index,axis-0,axis-1\n" + "0,polygon,0,nan,1\n" * 3, "is not finite"),
        ("a.txt", "x", "holds no regions"),
    ],
)  # fmt: skip
def test_files_without_regions(tmp_path, name, content, words):
    if isinstance(content, str):
        (tmp_path / name).write_text(content)
    else:
        tifffile.imwrite(tmp_path / name, content)
    with pytest.raises(InvalidInput, match=words):
        read_regions(tmp_path / name, SHAPE)
    with pytest.raises(InvalidInput, match="no regions to write"):
        write_regions(tmp_path / "b.tif", {})


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    tifffile.imwrite(tmp_path / "frames.tif", beating_frames(), photometric="minisblack")
    tifffile.imwrite(tmp_path / "labels.tif", LABELS)
    return tmp_path


def call(folder, verb, *arguments):
    return run_verb(verb, folder / "frames.tif", "--regions", folder / "labels.tif", *arguments, "--device", "cpu")


def test_curves_and_pulsatility_from_the_shell(files, capsys):
    names = {name: files / f"{name}.csv" for name in ("curves", "pulsatility", "beats")}
    outputs = ["--out", names["pulsatility"], "--beats-out", names["beats"], "--curves-out", names["curves"]]
    assert call(files, "pulsatility", "--rate-hz", FPS, "--exposure-ms", 4, *outputs) == 0
    printed = capsys.readouterr().out
    maps = contrast(beating_frames(), ContrastSettings(index=FlowIndex(exposure_ms=4.0)), device="cpu")
    curves = region_curves(maps, {"region 1": LABELS == 1, "region 4": LABELS == 4})
    head, *rows = rows_of(names["curves"])
    np.testing.assert_array_equal([float(row[head.index("region 4 K²")]) for row in rows], curves[1].k2)
    assert float(rows[-1][head.index("time [s]")]) == 399 / FPS
    assert call(files, "region-curves", "--rate-hz", FPS, "--exposure-ms", 4, "--out", files / "again.csv") == 0
    assert (files / "again.csv").read_bytes() == names["curves"].read_bytes()
    pulses = [region_pulsatility(curve, FPS) for curve in curves]
    head, beating, steady = rows_of(names["pulsatility"])
    assert float(beating[head.index("beat rate [1/min]")]) == pulses[0].rate_bpm
    assert abs(pulses[0].rate_bpm - 120.0) < 4 * pulses[0].rate_error_bpm
    assert float(beating[head.index("pulsatility index")]) == pulses[0].index
    assert abs(pulses[0].index - 0.5) < 4 * pulses[0].index_error
    assert steady[head.index("beat rate [1/min]")] == "nan"
    assert "no beat between" in steady[-1]
    head, *rows = rows_of(names["beats"])
    assert head == ["phase", "region 1 sfi [1/s]", "region 1 sfi s.e. [1/s]"]
    np.testing.assert_array_equal([float(row[1]) for row in rows], pulses[0].course)
    assert "region 1: 120." in printed
    assert "region 4: no beat between 40 and 800 /min" in printed


def test_the_band_and_the_index_of_flow_are_options(files, capsys):
    out = files / "pulse.csv"
    arguments = ["--slowest-bpm", 200, "--fastest-bpm", 600, "--flow", "ict"]
    assert call(files, "pulsatility", "--rate-hz", FPS, "--out", out, *arguments) == 0
    head, row, _ = rows_of(out)
    assert row[head.index("flow")] == "ict"
    assert "no beat between 200 and 600 /min" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["region-curves"], "nothing is to be written; give --out"),
        (["pulsatility", "--out", "p.csv"], "rate_hz is not given"),
        (["pulsatility", "--out", "p.csv", "--rate-hz", 0], "rate_hz is 0"),
        (["region-curves", "--out", "c.txt"], "does not end in .csv"),
        (["region-curves", "--out", "no/c.csv"], "does not exist; create it"),
        (["region-curves", "--regions", "gone.tif", "--out", "c.csv"], "gone.tif does not exist"),
        (["pulsatility", "--out", "p.csv", "--rate-hz", 9, "--slowest-bpm", 900], "slowest beat is 900"),
        (["region-curves", "--out", "c.csv", "--flow", "sfi", "--beta", "0.5"], "--beta is an option of ict"),
    ],
)
def test_what_has_no_meaning_is_reported_before_the_run(files, monkeypatch, arguments, sentence):
    monkeypatch.chdir(files)
    monkeypatch.setattr("napari_gpubio.speckle.operations.contrast_steps", None)
    with pytest.raises(InvalidInput, match=sentence):
        call(files, *arguments)


def test_tables_of_no_regions_and_of_no_beat(tmp_path):
    maps = contrast(beating_frames(60), device="cpu")
    (curve,) = region_curves(maps, {"right": LABELS == 4})
    pulse = region_pulsatility(curve, FPS, PulsatilitySettings())
    with pytest.raises(InvalidInput, match="no table of no regions"):
        write_pulsatility_csv(tmp_path / "p.csv", [])
    with pytest.raises(InvalidInput, match="no region has a beat"):
        write_beats_csv(tmp_path / "p.csv", [pulse])

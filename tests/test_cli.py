"""The command line: what it prints and writes, and the status it leaves."""

import argparse
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from napari_gpubio import __version__, cli, demo, tracts
from napari_gpubio.core.command_line import STOPPED, add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.report import add_common, measured, reporting, tell, warn, wrote
from napari_gpubio.tracts import Cone, FitSettings, Hamiltonian
from napari_gpubio.tracts import cli as tracts_cli
from tests.sentences import says
from tests.shell import at, command

DWI = str(sample_path("brain_phantom/dwi.nii.gz"))
LABELS = str(sample_path("brain_phantom/bundles.nii.gz"))
SEED = ("--seed", "0", "-5", "22")
QUICK = ("--max-length-mm", "40", "--device", "cpu")


def fails(capsys, *arguments):
    """The last line on stderr of a call that must end with status 2."""
    assert cli.main(arguments) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("napari-gpubio: ")
    return last


def exits(capsys, *arguments):
    """Status, stdout and stderr of a call that the parser ends."""
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    return end.value.code, *capsys.readouterr()


# -- info and help ----------------------------------------------------------------------------------------------------


def test_info_has_versions_and_devices(capsys, monkeypatch):
    assert cli.main(["info"]) == 0
    printed = capsys.readouterr().out
    for word in ("napari-gpubio", __version__, "numba", "cpu (", "gpu", "auto"):
        assert word in printed
    monkeypatch.setenv("NAPARI_GPUBIO_DEVICE", "cpu")
    assert cli.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["napari-gpubio"] == __version__
    assert facts["numpy"] == np.__version__
    assert facts["devices"][0].startswith("cpu (")
    assert facts["gpu"]
    assert facts["auto"].startswith("cpu")
    assert {"platform", "python", "cores", "napari", "nibabel"} <= set(facts)


@pytest.mark.parametrize(
    "verb",
    [
        "demo",
        "check",
        "bench",
        "info",
        "run",
        "compare",
        "show",
        "tracts",
        "light",
        "mcml",
        "denoise",
        "denoise-fluence",
        "dvh",
        "dose-sum",
        "dose-difference",
        "dose-surface",
        "speckle",
        "mesi",
        "region-curves",
        "pulsatility",
        "register-frames",
        "measure-dark",
    ],
)
def test_every_verb_has_help(capsys, verb):
    status, printed, _ = exits(capsys, verb, "--help")
    assert status == 0
    assert f"usage: napari-gpubio {verb}" in printed


def test_help_and_the_version(capsys):
    assert exits(capsys, "--help")[0] == 0
    assert exits(capsys, "--version")[:2] == (0, f"napari-gpubio {__version__}\n")


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["check", "dance"], ["tracts"], ["tracts", DWI, "--step-mm", "x"]]
)
def test_arguments_that_make_no_sense_have_status_two(capsys, arguments):
    status, _, printed = exits(capsys, *arguments)
    assert status == 2
    assert "usage: napari-gpubio" in printed


# -- what every verb does ----------------------------------------------------------------------------------------------


def tiny_verb(*words):
    """Options of a verb that has those of all verbs only."""
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers()
    verbs.add_parser("tiny")
    add_common(verbs.choices)
    return parser.parse_args(["tiny", *words])


def test_text_is_held_back_and_notes_are_told_at_once_and_once(capsys):
    with reporting(tiny_verb()):
        wrote("a.csv", "3 rows in a.csv")
        tell(["a.nii: units are micrometers", "units are micrometers", "units are micrometers"])
        warn("it is small")
        held = capsys.readouterr()
    assert held.out == ""
    assert held.err.splitlines() == ["note: a.nii: units are micrometers", "warning: it is small"]
    assert capsys.readouterr().out == "3 rows in a.csv\n"


def test_numbers_as_json(capsys):
    with reporting(tiny_verb("--json")):
        wrote("a.csv", "3 rows in a.csv")
        tell(["it is small"])
        measured(mean_mm=np.float32(0.5), parts=(np.arange(2), {1: float("nan")}), size=np.int64(3))
    printed = capsys.readouterr()
    expected = {"mean_mm": 0.5, "parts": [[0, 1], {"1": None}], "size": 3}
    assert json.loads(printed.out) == {**expected, "files": ["a.csv"], "notes": ["it is small"]}
    assert printed.err == "note: it is small\n"


def test_a_quiet_verb_tells_errors_only(capsys):
    with reporting(tiny_verb("--quiet")):
        wrote("a.csv")
        warn("it is small")
        logging.getLogger("napari_gpubio.core").warning("it is slow")
    assert capsys.readouterr() == ("", "")


def test_what_was_found_is_printed_in_an_error_too(capsys):
    def fail():
        wrote("a.csv")
        raise InvalidInput("no space for b.csv")

    with pytest.raises(InvalidInput, match="no space"), reporting(tiny_verb()):
        fail()
    assert capsys.readouterr().out == "a.csv\n"


def test_how_much_is_logged_is_of_the_run(caplog):
    logger = logging.getLogger("napari_gpubio")
    before = logger.level
    for words, told in ((["--verbose"], ["slow", "wrong"]), ([], ["wrong"]), (["--quiet"], [])):
        caplog.clear()
        with reporting(tiny_verb(*words)):
            logger.info("slow")
            logger.warning("wrong")
        assert caplog.messages == told
        assert logger.level == before


def test_a_name_cannot_begin_another_line_of_the_log(tmp_path):
    code = (
        "import argparse, logging; from napari_gpubio.core.report import reporting\n"
        "with reporting(argparse.Namespace(json=False, quiet=False, verbose=False)):\n"
        "    logging.getLogger('napari_gpubio').warning('%s is missing', 'a\\nERROR: \\x1b[31mdisk')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], **at(tmp_path), capture_output=True, text=True, check=True)
    assert done.stderr == "WARNING: a ERROR: \\x1b[31mdisk is missing\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("info"), **at(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert says(done.stderr, "cannot be printed")
    assert len(done.stderr.splitlines()) == 1


# -- tracts -----------------------------------------------------------------------------------------------------------


def tracted():
    return tracts.fit_tensors(tracts.phantom.load_brain_phantom(), device="cpu")


@pytest.mark.daily
def test_fibers_and_maps_of_a_scan(capsys, tmp_path):
    out, maps = tmp_path / "cc.trk", tmp_path / "maps"
    arguments = ["tracts", DWI, *SEED, "--radius-mm", "2", "--points", "3", "--count", "20", *QUICK]
    assert cli.main([*arguments, "--out", str(out), "--maps", str(maps)]) == 0
    printed = capsys.readouterr()
    field, found = tracted(), tracts.io.read_tractogram(out)
    settings = Cone(count=20), Hamiltonian(max_length_mm=40.0)
    expected = tracts.track(field, tracts.seeds.ball((0, -5, 22), 2.0, 3), *settings, device="cpu")
    assert f"{len(expected)} fibers in {out}" in printed.out
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_allclose(found.points, expected.points, atol=1e-4)
    for name in ("FA", "MD", "DEC"):
        assert str(maps / f"{name}.nii.gz") in printed.out
        image = nib.load(maps / f"{name}.nii.gz")
        np.testing.assert_allclose(image.affine, field.affine, atol=1e-5)
        np.testing.assert_array_equal(image.get_fdata(dtype=np.float32), tracts.tensors.scalar_map(field, name))


def test_settings_are_options(capsys, tmp_path):
    out = tmp_path / "cc.trx"
    options = [
        "--method",
        "vanaart2011",
        "--step-mm",
        "1",
        "--no-both-ways",
        "--directions",
        "isotropic",
        "--count",
        "9",
        "--fa-stop",
        "0",
    ]
    assert cli.main(["tracts", DWI, *SEED, *QUICK, *options, "--estimator", "ols", "--out", str(out)]) == 0
    parameters = tracts.io.read_tractogram(out).parameters
    assert parameters["tracking"]["kind"] == "vanaart2011"
    assert (parameters["tracking"]["step_mm"], parameters["tracking"]["max_length_mm"]) == (1.0, 40.0)
    assert (parameters["directions"]["both_ways"], parameters["directions"]["kind"]) == (False, "isotropic")
    assert parameters["launched"] == 9
    assert "9 fibers" in capsys.readouterr().out


@pytest.mark.parametrize("settings", [Cone(), Hamiltonian(), FitSettings()], ids=lambda s: type(s).__name__)
def test_every_parameter_is_an_option_with_its_default(settings):
    parser = argparse.ArgumentParser()
    add_settings(parser, settings, "settings")
    assert read_settings(parser.parse_args([]), settings) == settings


def test_seeds_from_a_label_volume(capsys, tmp_path):
    out = tmp_path / "bundle.tck"
    options = [
        "--labels",
        LABELS,
        "--label",
        "2",
        "--directions",
        "principal",
        "--max-length-mm",
        "20",
        "--device",
        "cpu",
    ]
    voxels, counts = int((np.asarray(nib.load(LABELS).dataobj) == 2).sum()), []
    for more in ([], ["--per-voxel", "2"]):
        assert cli.main(["tracts", DWI, *options, *more, "--out", str(out), "--force"]) == 0
        counts.append(int(capsys.readouterr().out.split(" fibers in")[0].split()[-1]))
        assert tracts.io.read_tractogram(out).parameters["launched"] <= voxels * len(counts)
    assert 0.5 * voxels < counts[0] <= voxels < counts[1] <= 2 * voxels


def test_fibers_of_a_tensor_image(capsys, tmp_path):
    field = tracted()
    tracts.io.write_tensors(tmp_path / "tensors.nii.gz", field)
    out = tmp_path / "cc.trk"
    arguments = ["tracts", str(tmp_path / "tensors.nii.gz"), *SEED, "--count", "10", *QUICK, "--out", str(out)]
    assert cli.main(arguments) == 0
    assert "fibers in" in capsys.readouterr().out
    expected = tracts.track(field, [(0, -5, 22)], Cone(count=10), Hamiltonian(max_length_mm=40.0), device="cpu")
    found = tracts.io.read_tractogram(out)
    assert len(found) == len(expected) > 0
    np.testing.assert_allclose(found.lengths_mm(), expected.lengths_mm(), rtol=0.02)


def test_a_mask_is_used_and_checked(capsys, tmp_path):
    field = tracted()
    left = field.mask.copy()
    left[: left.shape[0] // 2] = False
    tracts.io.write_volume(tmp_path / "mask.nii.gz", left, field.affine)
    shifted = field.affine + 5 * np.eye(4, k=3)
    tracts.io.write_volume(tmp_path / "other.nii.gz", left, shifted)
    call = ["tracts", DWI, "--maps", str(tmp_path / "maps"), "--device", "cpu", "--force", "--mask"]
    assert cli.main([*call, str(tmp_path / "mask.nii.gz")]) == 0
    assert not np.asarray(nib.load(tmp_path / "maps" / "MD.nii.gz").dataobj)[~left].any()
    capsys.readouterr()
    assert "lies elsewhere" in fails(capsys, *call, str(tmp_path / "other.nii.gz"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.nii.gz", *SEED, "--out", "x.trk"], "nowhere.nii.gz does not exist"),
        ([DWI, *SEED], "there is nothing to write; give --out"),
        ([DWI, "--out", "x.trk"], "there are no seeds; give --seed X Y Z"),
        ([DWI, "--seed", "500", "0", "0", "--out", "x.trk"], "outside the volume"),
        ([DWI, "--seed", "nan", "0", "0", "--out", "x.trk"], "not finite"),
        ([DWI, *SEED, "--points", "0", "--out", "x.trk"], "a ball of 0 points"),
        ([DWI, *SEED, "--points", "5", "--radius-mm", "-1", "--out", "x.trk"], "radius -1.0 mm"),
        ([DWI, *SEED, "--step-mm", "0", "--out", "x.trk"], "step_mm is 0 mm; it must be greater than 0 mm"),
        ([DWI, *SEED, "--device", "gpu", "--out", "x.trk"], "device is 'gpu'; choose"),
        ([DWI, *SEED, "--out", "no/such/folder/x.trk"], "the folder"),
        ([DWI, *SEED, "--out", "x.docx"], "x.docx"),
        ([DWI, "--labels", LABELS, "--label", "77", "--out", "x.trk"], "no voxel has label 77"),
        ([DWI, "--labels", LABELS, "--per-voxel", "0", "--out", "x.trk"], "0"),
        ([DWI, "--labels", "nowhere.nii", "--out", "x.trk"], "nowhere.nii does not exist"),
        ([LABELS, *SEED, "--out", "x.trk"], "bundles.nii.gz"),
    ],
)
def test_bad_input_gives_status_two_and_a_sentence(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    device = () if "--device" in arguments else ("--device", "cpu")
    assert sentence in fails(capsys, "tracts", *arguments, "--count", "3", *device)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_maps_that_is_a_file_is_bad_input(capsys, tmp_path):
    (tmp_path / "maps").write_text("not a folder")
    assert "maps" in fails(capsys, "tracts", DWI, "--maps", str(tmp_path / "maps"), "--device", "cpu")


# -- demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_the_demonstration_without_a_window_writes_its_files(capsys, tmp_path):
    folder = tmp_path / "new" / "demo"
    assert cli.main(["demo", "--headless", "--out", str(folder), "--device", "cpu"]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(folder / name) for name in ("fibers.png", "callosum.trk", "corticospinal.trk")]
    for name, crosses in (("callosum", True), ("corticospinal", False)):
        fibers = tracts.io.read_tractogram(folder / f"{name}.trk")
        assert len(fibers) > 100
        both_sides = [f[:, 0].min() < -5 and f[:, 0].max() > 5 for f in fibers]
        assert (np.mean(both_sides) > 0.5) == crosses
    picture = np.asarray(Image.open(folder / "fibers.png"))
    assert picture.ndim == 3
    assert (picture.max(axis=2) > picture.min(axis=2) + 60).mean() > 0.005  # colors, not only gray


def test_the_demonstration_needs_no_window_where_there_is_no_display(capsys, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(cli, "has_display", lambda: False)
    monkeypatch.setattr(demo, "run_headless", lambda *arguments: calls.append(arguments) or [tmp_path / "a.png"])
    assert cli.main(["demo", "--out", str(tmp_path), "--device", "cpu"]) == 0
    assert calls == [(tmp_path, "cpu")]
    assert capsys.readouterr().out == f"{tmp_path / 'a.png'}\n"


@pytest.mark.parametrize(
    ("variables", "there"), [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True)]
)
def test_a_display_is_known_by_its_variables_on_linux(monkeypatch, variables, there):
    monkeypatch.setattr(cli.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cli.has_display() == there


@pytest.mark.parametrize("out", ["f.tck", "f.trk"])
def test_tracking_that_is_interrupted_keeps_its_fibers(tmp_path, monkeypatch, out):
    """A request to end is taken as Ctrl-C is."""
    usual = signal.getsignal(signal.SIGTERM)

    def end(step):
        if step.done and signal.getsignal(signal.SIGTERM) is not usual:  # the second one would end the tests
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(tracts_cli, "draw_progress", end)
    words = ["tracts", DWI, "--white-matter", "--count", "3", "--out", str(tmp_path / out), "--device", "cpu"]
    assert cli.main(words) == STOPPED
    assert signal.getsignal(signal.SIGTERM) is usual
    assert 0 < len(tracts.io.read_tractogram(tmp_path / out)) < 60_000

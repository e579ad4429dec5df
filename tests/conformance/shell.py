"""The command line: what stands in the way of its files and of its text."""

import dataclasses
import io
import json
import subprocess
from contextlib import chdir, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.cli import make_parser
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.report import Exit
from napari_gpubio.diffusion.io import read_atlas
from napari_gpubio.light.io import load_result, save_result
from napari_gpubio.tractograms.connectome import Connectome, connectome_steps
from napari_gpubio.tractograms.io import read_tractogram
from tests.conformance import Did, Rows
from tests.conformance.shell_files import (
    ATLAS,
    PROSTATE,
    crossing,
    dose_files,
    fibers,
    frames,
    head,
    image,
    in_micrometers,
)
from tests.mcx.samples import written
from tests.mcx.test_output import root
from tests.shell import at as at_folder
from tests.shell import command, program, run_verb

ROWS = Rows("The command line")
DWI = sample_path("brain_phantom/dwi.nii.gz")
MINE = b"what was there before"
VERBS = (
    "demo", "check", "bench", "warm", "info", "report", "track", "track-fods", "track-fixels", "track-along", "tensors",
    "response", "tissue-responses", "fod", "tissue-fods", "peaks", "mppca", "dissect", "bootstrap", "bootstrap-fods",
    "connect", "connectome", "flow", "flow-bootstrap", "flow-from", "flow-routes", "geodesics", "bundles",
    "profiles", "light", "jacobians", "mcml", "simulate-layers", "under-beam", "mcx", "forward", "denoise", "dvh",
    "speckle", "mesi", "tracts", "dose", "register", "transform-image", "transform-labels", "sample",
)  # fmt: skip


# -- what rows do ------------------------------------------------------------------------------------------------------


def run(folder: Path, *words: object) -> str:
    """Run a verb in a folder; returns what it prints on stdout."""
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        assert run_verb(*words) == 0
    return printed.getvalue()


def numbers(folder: Path, *words: object) -> Any:
    """Run a verb with ``--json``; returns what that says."""
    return json.loads(run(folder, *words, "--json"))


def keeps(folder: Path, name: str, *words: object) -> str:
    """Run a verb that must not replace a file, nor write any other; returns what it prints, if it does."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(MINE)
    before = sorted(folder.rglob("*"))
    try:
        return run(folder, *words)
    finally:
        assert (folder / name).read_bytes() == MINE
        assert sorted(folder.rglob("*")) == before


def encoded(folder: Path, encoding: str) -> Any:
    """Run ``dvh`` with a table in a process whose streams have an encoding."""
    done = program(folder, *dose_files(folder), "--metrics-out", "t.csv", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert PROSTATE in (folder / "t.csv").read_text(encoding="utf-8")
    (row,) = [line for line in done.stdout.decode("ascii").splitlines() if line.startswith("\\u524d")]
    assert float(row.split()[1]) == 2
    return done


# -- streams -----------------------------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio dvh", "stdout in cp1252, and a structure named in another script", Did.READ)
def _(folder):
    encoded(folder, "cp1252")


@ROWS.row("napari-gpubio dvh", "stdout in ASCII, and a structure named in another script", Did.READ)
def _(folder):
    encoded(folder, "ascii")


@ROWS.row("napari-gpubio VERB --help-all", "stdout in ASCII, and a help with β and Å", Did.READ)
def _(folder):
    text = f"""
from napari_gpubio.cli import main
for verb in {VERBS}:
    try:
        main([verb, "--help-all"])
    except SystemExit as end:
        assert end.code == 0, verb
"""
    python = command()[0]
    done = subprocess.run([python, "-c", text], **at_folder(folder, PYTHONIOENCODING="ascii"), capture_output=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode("ascii")
    for verb in VERBS:
        assert f"usage: napari-gpubio {verb}" in printed
    for option in ("--force", "--json", "--quiet", "--verbose"):
        assert printed.count(f"\n  {option} ") == len(VERBS)


@ROWS.row("napari-gpubio dvh", "a pipe whose reader has gone", Did.READ)
def _(folder):
    words = command(*dose_files(folder), "--metrics-out", "t.csv")
    with subprocess.Popen(
        words, **at_folder(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        process.stdout.close()
        printed = process.stderr.read()
    assert process.returncode == Exit.PIPE_CLOSED
    assert printed == b""
    assert PROSTATE in (folder / "t.csv").read_text(encoding="utf-8")


@ROWS.row("napari-gpubio denoise", "stderr whose reader has gone, and a note to tell there", Did.READ)
def _(folder):
    words = command(*in_micrometers(folder), "--out", "out.nii")
    with subprocess.Popen(words, **at_folder(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stderr.close()
        printed = process.stdout.read().decode()
    assert process.returncode == 0
    assert printed.split() == ["out.nii"]
    assert (folder / "out.nii").is_file()


@ROWS.row("napari-gpubio dvh --quiet", "text that nobody asked for", Did.READ)
def _(folder):
    done = program(folder, *dose_files(folder), "--metrics-out", "t.csv", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (folder / "t.csv").is_file()


@ROWS.row("napari-gpubio dvh --quiet", "a file that is missing", Did.READ)
def _(folder):
    done = program(folder, "dvh", "gone.dcm", "--structures", "s.dcm", "--quiet")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"gone.dcm does not exist" in done.stderr


# -- numbers for scripts -----------------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio dvh --json", "a structure named in another script", Did.READ)
def _(folder):
    printed = numbers(folder, *dose_files(folder), "D95%[cGy]", "--metrics-out", "t.csv")
    (structure,) = printed["structures"]
    assert structure["structure"] == PROSTATE
    assert [(one["value"], one["unit"]) for one in structure["metrics"]] == [(2.0, "Gy"), (200.0, "cGy")]
    assert printed["files"] == ["t.csv"]


@ROWS.row("napari-gpubio dvh --json", "a number that there is not", Did.READ)
def _(folder):
    printed = numbers(folder, *dose_files(folder))
    assert printed["structures"][0]["metrics"][0]["below"] is None
    assert printed["reference_dose"] is None


@ROWS.row("napari-gpubio denoise --json", "noise of a standard deviation that is known", Did.READ)
def _(folder):
    printed = numbers(folder, *image(folder), "--out", "out.nii")
    assert printed["noise_sd_median"] == 5
    assert printed["files"] == ["out.nii"]


@ROWS.row("napari-gpubio region-curves --json", "regions without a table to write", Did.READ)
def _(folder):
    one, two = numbers(folder, "region-curves", *frames(folder)[1:], "--regions", "l.tif")["regions"]
    np.testing.assert_allclose(one["k2"], [0.25] * 6, rtol=0.3)
    np.testing.assert_allclose(two["k2"], [0.0625] * 6, rtol=0.3)


@ROWS.row("napari-gpubio light --json", "a finding about the run", Did.READ, "Energy balance")
def _(folder):
    (rows,) = numbers(folder, *head(folder))["results"]
    energy = {row["name"]: row["value"] for row in rows if row["label"] is None}
    parts = ("Specular", "Missed", "Escaped (diffuse)", "Absorbed", "Truncated", "Roulette")
    assert abs(sum(energy.get(name, 0) for name in parts) - 1) < 1e-4


@ROWS.row("napari-gpubio dissect --json", "a condition that one of three fibers meets", Did.READ)
def _(folder):
    printed = numbers(folder, *fibers(folder), "--out", "out.trx")
    assert (printed["kept"], printed["fibers"], printed["files"]) == (1, 3, ["out.trx"])


@ROWS.row("napari-gpubio bundles --json", "no table to write", Did.READ)
def _(folder):
    fibers(folder)
    (row,) = numbers(folder, "bundles", "in.trx")["bundles"]
    assert row["fibers"] == 3
    assert row["length_mm_mean"] == 16


@ROWS.row("napari-gpubio connectome --json", "no matrix to write", Did.READ)
def _(folder):
    printed = numbers(folder, *crossing(folder))
    assert printed["connections"] == 3
    first, second = (printed["labels"].index(label) for label in (1, 2))
    assert printed["matrix"][first][second] == 3


# -- files that are there ----------------------------------------------------------------------------------------------


def row_of_kept(verb: str, trait: str, prepare: Any, name: str, *options: object) -> None:
    """Add a row: a file that is there is kept, and the refusal names it and the option."""

    @ROWS.row(f"napari-gpubio {verb}", trait, Did.REFUSED, name, "--force")
    def _(folder: Path) -> None:
        keeps(folder, name, *prepare(folder), *options)


TRACK = ("track", str(DWI), "--seed", 0, -5, 22, "--device", "cpu")
row_of_kept("dvh", "a table that is there", dose_files, "t.csv", "--metrics-out", "t.csv")
row_of_kept("dvh", "histograms that are there", dose_files, "h.json", "--out", "h.json")
row_of_kept("denoise", "a result that is there", image, "out.nii", "--out", "out.nii")
row_of_kept("denoise", "a residual that is there", image, "r.nii", "--out", "out.nii", "--residual-out", "r.nii")
row_of_kept("speckle", "a map that is there", frames, "k.tif", "--out", "k.tif")
row_of_kept("region-curves", "a table of regions that is there", lambda folder: ("region-curves", *frames(folder)[1:]),
            "c.csv", "--regions", "l.tif", "--out", "c.csv")  # fmt: skip
row_of_kept("mesi", "one of the files beside its map", lambda folder: ("mesi", *frames(folder)[1:2]), "fit_rho.tif",
            "--exposures-ms", *range(1, 7), "--out", "fit.tif")  # fmt: skip
row_of_kept("track", "a tractogram that is there", lambda _: TRACK, "cc.trk", "--out", "cc.trk")
row_of_kept("tensors", "one of their maps", lambda _: ("tensors", str(DWI)), "md.nii.gz", "--md-out", "md.nii.gz")
row_of_kept("bootstrap", "one of its files", lambda _: ("bootstrap", *TRACK[1:]), "repeats.trx",
            "--out", "p.nii.gz", "--repeats-out", "repeats.trx")  # fmt: skip
row_of_kept("mppca", "the bvec file beside the result", lambda _: ("mppca", str(DWI)), "clean.bvec",
            "--out", "clean.nii.gz")  # fmt: skip
row_of_kept("tissue-responses", "one of its files", lambda _: ("tissue-responses", str(DWI)), "csf.txt",
            "--out", "wm.txt", "--csf-out", "csf.txt")  # fmt: skip
row_of_kept("dissect", "a map that is there", fibers, "n.nii.gz", "--out", "out.trx", "--density-out", "n.nii.gz")
row_of_kept("connect", "a table that is there", lambda _: ("connect", str(DWI), "--source", "sphere:0,0,0,5"), "r.csv",
            "--target", "sphere:9,0,0,5", "--table-out", "r.csv")  # fmt: skip


def lit(folder: Path) -> tuple[object, ...]:
    """A run of light with detected photons; returns the words of its Jacobians."""
    run(folder, *head(folder), "--detector", 4, 0, 0, 3, "--run-out", "r.npz")
    return "jacobians", "r.npz", "--device", "cpu"


row_of_kept("light", "the JSON file of a volume", head, "f.json", "--out", "f.nii.gz")
row_of_kept("light", "the errors of a volume", head, "f_standard_error.nii.gz", "--out", "f.nii.gz")
row_of_kept("jacobians", "a Jacobian of several", lit, "j_ln_intensity_musp.nii.gz", "--out", "j.nii.gz",
            "--of", "mua", "musp")  # fmt: skip
row_of_kept("demo", "a picture in a folder of the user's", lambda _: ("demo", "--headless"), "mine/fibers.png",
            "--out", "mine")  # fmt: skip


@ROWS.row("napari-gpubio mcx", "a folder that is there", Did.REFUSED, "results", "--force")
def _(folder):
    keeps(folder, "results/slab.jnii", "mcx", str(written(folder, root())), "--out", "results")


@ROWS.row("napari-gpubio fod", "the JSON file of FODs that are there", Did.REFUSED, "fod.json", "--force")
def _(folder):
    (folder / "fod.json").write_text('{"basis": "mrtrix"}')
    run(folder, "fod", DWI, "--out", "fod.nii.gz")


@ROWS.row("napari-gpubio connectome", "a whole connectome that is there", Did.REFUSED, "all.npz", "--force")
def _(folder):
    words = *crossing(folder), "--connectome-out", "all.npz"
    run(folder, *words)
    run(folder, *words)


@ROWS.row("napari-gpubio dvh --force", "a table that is there", Did.READ)
def _(folder):
    (folder / "t.csv").write_bytes(MINE)
    run(folder, *dose_files(folder), "--metrics-out", "t.csv", "--force")
    assert PROSTATE in (folder / "t.csv").read_text(encoding="utf-8")


@ROWS.row("napari-gpubio dvh --force", "its input as its output", Did.REFUSED, "same file", "d.dcm")
def _(folder):
    words = dose_files(folder)
    keeps(folder, "d.dcm", *words, "--sequence-out", "d.dcm", "--force")


@ROWS.row("napari-gpubio denoise", "two outputs of one name", Did.REFUSED, "same file", "out.nii")
def _(folder):
    run(folder, *image(folder), "--out", "out.nii", "--residual-out", "out.nii")


@ROWS.row("napari-gpubio track", "a folder of the name of its file", Did.REFUSED, "cc.trk", "folder")
def _(folder):
    (folder / "cc.trk").mkdir()
    run(folder, *TRACK, "--out", "cc.trk", "--force")


@ROWS.row("napari-gpubio dvh", "a name that is too long for the disk", Did.REFUSED, "cannot be written")
def _(folder):
    keeps(folder, "other.csv", *dose_files(folder), "--metrics-out", 300 * "t" + ".csv")


@ROWS.row("napari-gpubio dissect", "a map whose name no format has", Did.REFUSED, "n.png", ".nii")
def _(folder):
    keeps(folder, "other.png", *fibers(folder), "--density-out", "n.png")


# -- runs that go on ---------------------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio add-photons", "the result that it goes on with as its result", Did.REFUSED, "same file")
def _(folder):
    run(folder, *head(folder), "--run-out", "r.npz")
    run(folder, "add-photons", "r.npz", "--photons", 800, "--out", "r.npz", "--force", "--device", "cpu")


def unfinished(folder: Path) -> tuple[object, ...]:
    """A result of a run that did not come to its end; returns the words of the run."""
    words = *head(folder), "--run-out", "r.npz"
    run(folder, *words)
    with chdir(folder):
        save_result("r.npz", dataclasses.replace(load_result("r.npz"), complete=False))
    return words


@ROWS.row("napari-gpubio light --run-out", "a result whose run did not come to its end", Did.READ, "Energy balance")
def _(folder):
    run(folder, *unfinished(folder))
    with chdir(folder):
        assert load_result("r.npz").complete


@ROWS.row("napari-gpubio light --run-out", "a result that was begun with another seed", Did.REFUSED, "other seed: 1")
def _(folder):
    run(folder, *unfinished(folder), "--seed", 5)


@ROWS.row("napari-gpubio connectome --connectome-out", "a connectome that was interrupted", Did.READ, "goes on with")
def _(folder):
    words = crossing(folder)
    with chdir(folder):
        steps = connectome_steps(Path("in.tck"), read_atlas(ATLAS))
        next(steps).preview.save("all.npz")
        assert not Connectome.load("all.npz").complete
    run(folder, *words, "--connectome-out", "all.npz")
    assert Connectome.load(folder / "all.npz").complete


# -- notes -------------------------------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio denoise", "a note that a reader and the result have", Did.ASSUMED, "units")
def _(folder):
    done = program(folder, *in_micrometers(folder), "--out", "out.nii")
    assert done.returncode == 0, done.stderr
    printed = done.stderr.decode().splitlines()
    assert len(set(printed)) == len(printed)
    assert all(line.startswith("note: ") for line in printed)
    return SimpleNamespace(notes=printed)


@ROWS.row("napari-gpubio track --json", "voxels without a signal", Did.LEFT_OUT, "171")
def _(folder):
    printed = numbers(folder, *TRACK, "--count", 3, "--max-length-mm", 20, "--out", "cc.trk")
    assert any("171" in note for note in printed["notes"])
    assert printed["fibers"] == len(read_tractogram(folder / "cc.trk")) > 0


@ROWS.row("napari-gpubio", "a word that is no verb", Did.READ)
def _(folder):
    done = program(folder, "dance")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@ROWS.row("napari-gpubio mesi --json", "what its exposures cannot tell", Did.ASSUMED, "exposures")
def _(folder):
    words = "mesi", *frames(folder)[1:2], "--exposures-ms", *range(1, 7), "--out", "fit.tif", "--device", "cpu"
    printed = numbers(folder, *words)
    assert printed["exposures_ms"] == [1, 2, 3, 4, 5, 6]
    assert printed["units"]["tau_ms"] == "ms"
    assert len(printed["files"]) == 12


# -- words of the command line -----------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio dvh", "an output that is given twice", Did.REFUSED, "--metrics-out", "twice", "b.csv")
def _(folder):
    run(folder, *dose_files(folder), "--metrics-out", "a.csv", "--metrics-out", "b.csv")


@ROWS.row("napari-gpubio dvh", "outputs that only case tells apart", Did.REFUSED, "--metrics-out", "the same file")
def _(folder):
    run(folder, *dose_files(folder), "--metrics-out", "a.csv", "--out", "A.CSV")


@ROWS.row("napari-gpubio dvh", "a table to /dev/stdout", Did.READ)
def _(folder):
    done = program(folder, *dose_files(folder), "--metrics-out", "/dev/stdout", "--quiet", PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stdout.decode().splitlines()[1:]) == (0, [f"{PROSTATE},2.0"])


@ROWS.row("napari-gpubio light", "a number of photons written as 1e3", Did.READ)
def _(folder):
    assert vars(make_parser().parse_args(["light", "x.nii", "--photons", "1e3"]))["field settings.photons"] == 1000
    for wrong in ("1.5", "1e999", "nan"):
        with pytest.raises(SystemExit):
            make_parser().parse_args(["light", "x.nii", "--photons", wrong])


@ROWS.row("napari-gpubio light", "an input file of MCML", Did.REFUSED, "a.mci", "napari-gpubio mcml")
def _(folder):
    (folder / "a.mci").write_text("1.0")
    run(folder, "light", "a.mci")


@ROWS.row("napari-gpubio mcml", "an input file of MCX", Did.REFUSED, "a.json", "napari-gpubio mcx")
def _(folder):
    (folder / "a.json").write_text("{}")
    run(folder, "mcml", "a.json", "--out", "out")


@ROWS.row("napari-gpubio denoise", "a header that says vectors", Did.ASSUMED, "vector")
def _(folder):
    volume = nib.Nifti1Image(np.random.default_rng(0).normal(9, 1, (12, 12, 12, 1, 3)).astype(np.float32), np.eye(4))
    volume.header.set_intent("vector")
    nib.save(volume, folder / "in.nii")
    run(folder, "denoise", "in.nii", "--out", "out.nii", "--sigma", 1, "--patches", "small", "--device", "cpu")

"""The command line: what it prints and writes, and the status it leaves."""

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from napari_gpubio import __version__, cli, demo, tractograms
from napari_gpubio.core import operations
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.report import add_common, measured, reporting, tell, warn, wrote
from napari_gpubio.verbs import OF_ENGINES
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
        "sample",
        "run",
        "compare",
        "show",
        "track",
        "light",
        "mcml",
        "mcx",
        "denoise",
        "denoise-fluence",
        "clean-fluence",
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
        "register",
        "transform-image",
        "transform-labels",
    ],
)
def test_every_verb_has_help(capsys, verb):
    status, printed, _ = exits(capsys, verb, "--help")
    assert status == 0
    assert f"usage: napari-gpubio {verb}" in printed


def test_help_and_the_version(capsys):
    assert exits(capsys, "--help")[0] == 0
    assert exits(capsys, "--version")[:2] == (0, f"napari-gpubio {__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["dance"], ["check", "dance"], ["track"], ["track", DWI, "--step-mm", "x"]])
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


def test_text_is_held_back_and_notes_are_reported_at_once_and_once(capsys):
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
    for words, expected in ((["--verbose"], ["slow", "wrong"]), ([], ["wrong"]), (["--quiet"], [])):
        caplog.clear()
        with reporting(tiny_verb(*words)):
            logger.info("slow")
            logger.warning("wrong")
        assert caplog.messages == expected
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
def test_a_full_disk_is_reported(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("info"), **at(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert says(done.stderr, "cannot be printed")
    assert len(done.stderr.splitlines()) == 1


# -- demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_the_demonstration_without_a_window_writes_its_files(capsys, tmp_path):
    folder = tmp_path / "new" / "demo"
    assert cli.main(["demo", "--headless", "--out", str(folder), "--device", "cpu"]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(folder / name) for name in ("fibers.png", "callosum.trk", "corticospinal.trk")]
    for name, crosses in (("callosum", True), ("corticospinal", False)):
        fibers = tractograms.io.read_tractogram(folder / f"{name}.trk")
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


def test_every_verb_is_in_the_table_of_engines():
    found = {engine: set() for engine in OF_ENGINES}
    for verb, operation in operations.verbs().items():
        if (
            operation.__module__.startswith("napari_gpubio.")
            and (engine := operation.__module__.split(".")[1]) in found
        ):
            found[engine].add(verb)
    assert {engine: set(verbs) for engine, verbs in OF_ENGINES.items()} == found


@pytest.mark.parametrize(
    ("arguments", "engines"), [(["dvh", "x.dcm"], {"dose"}), (["info"], set()), (["fod"], {"diffusion"})]
)
def test_a_command_imports_the_engine_that_it_names_and_no_other(arguments, engines):
    code = (
        "import sys; from napari_gpubio.cli import make_parser; make_parser(sys.argv[1:]); "
        "print(*[name.split('.')[1] for name in sys.modules if name.count('.') == 2 and name.endswith('.operations')])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"core"} == engines

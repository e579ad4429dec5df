"""The verb ``mcml``: published numbers from an MCML input file, complete output files, a run that can be stopped."""

import dataclasses
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import command_runs, read_record, save
from napari_gpubio.core.report import Exit
from napari_gpubio.layered import operations
from napari_gpubio.layered.io.mci import read_mci
from napari_gpubio.layered.io.mco import read_mco
from napari_gpubio.layered.run import simulate
from tests.shell import run_verb

# The slab of the manual of MCML (chapter 6), for which van de Hulst (1980) has Rd .09739 and T .66096, and its
# semi-infinite medium, for which Giovanelli (1955) has Rsp + Rd = .2600.
TWO_RUNS = """\
1.0                     # file version
2                       # number of runs
slab.mco A
20000                   # photons
0.002 0.02              # dz, dr
10 20 15
1
1.0
1 10 90 0.75 0.02
1.0
deep.mco A
10000
0.002 0.02
10 20 15
1
1.0
1.5 10 90 0 1E8
1.0
"""
VAN_DE_HULST, GIOVANELLI = {"Rd": 0.09739, "T": 0.66096}, 0.2600


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two.mci, which is not the current one."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "two.mci").write_text(TWO_RUNS)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def run(file, *arguments):
    """Run the verb on the CPU, to a folder beside the file by default; return its exit status."""
    out = () if "--out" in arguments else ("--out", Path(file).parent / "out")
    return run_verb("mcml", file, "--device", "cpu", *out, *arguments)


def printed_numbers(output, name):
    """Numbers printed for a run: symbol to (value, error)."""
    block = output.split(f"{name}: ")[1].splitlines()[1:5]
    pattern = re.compile(r"  (\w+) .*?\(?([\d.]+)(?: ± ([\d.]+))?(?:\)(e-\d+))?$")
    rows = [pattern.match(line).groups() for line in block]
    return {
        symbol: (float(value + (power or "")), float((error or "nan") + (power or "")))
        for symbol, value, error, power in rows
    }


def test_published_numbers_are_printed_and_written(folder, capsys):
    assert run(folder / "two.mci", "--seed", 7) == 0
    printed = capsys.readouterr().out
    slab, deep = (printed_numbers(printed, name) for name in ("slab.mco", "deep.mco"))
    for symbol, published in VAN_DE_HULST.items():
        value, error = slab[symbol]
        assert 0 < error < 0.005
        assert abs(value - published) < 4 * error
    assert deep["Rsp"][0] == pytest.approx(0.04)
    assert abs(deep["Rsp"][0] + deep["Rd"][0] - GIOVANELLI) < 4 * deep["Rd"][1]
    found = read_mco(folder / "out" / "slab.mco")
    assert found.transmittance.value == pytest.approx(slab["T"][0], abs=slab["T"][1])
    assert printed.splitlines()[-1] == str(folder / "out")
    assert "20,000 photons in " in printed


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (["--photons", 3000, "--seed", 4, "--absorption", "drop"], {"photons": 3000, "seed": 4, "absorption": "drop"}),
        (["--absorption", "off", "--photons", 1000], {"photons": 1000, "absorption": "off"}),
    ],
    ids=["other settings", "no absorption"],
)
def test_it_does_what_the_api_does(folder, arguments, changes):
    assert run(folder / "two.mci", *arguments) == 0
    for index, one in enumerate(read_mci(folder / "two.mci")):
        settings = dataclasses.replace(one.settings, **changes)
        settings = dataclasses.replace(settings, seed=settings.seed + index)
        expected, found = simulate(one.medium, settings, device="cpu"), read_mco(folder / "out" / one.output)
        assert found.launched == changes["photons"]
        assert (found.A_rz is None) == (expected.A_rz is None) == (changes["absorption"] == "off")
        if expected.A_rz is not None:
            np.testing.assert_allclose(found.A_rz.value, expected.A_rz.value, rtol=1e-4)
        np.testing.assert_allclose(found.Rd_ra.value, expected.Rd_ra.value, rtol=1e-4)


def test_runs_of_the_same_layers_differ(folder):
    """People put a run several times into a file to see how far its results scatter."""
    slab = TWO_RUNS.partition("deep.mco")[0]
    again = slab.partition("slab.mco")[2]
    (folder / "same.mci").write_text(slab + "slab2.mco" + again)
    assert run(folder / "same.mci", "--photons", 1000) == 0
    first, second = (read_mco(folder / "out" / name).diffuse_reflectance.value for name in ("slab.mco", "slab2.mco"))
    assert first != second


def test_files_have_the_names_of_the_input_in_the_folder_that_is_named(folder, tmp_path):
    (folder / "two.mci").write_text(TWO_RUNS.replace("slab.mco", str(tmp_path / "data" / "slab.mco")))
    assert run(folder / "two.mci", "--photons", 100, "--record", "r.json") == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["deep.mco", "slab.mco"]
    assert sorted(path.name for path in folder.iterdir()) == ["out", "two.mci"]
    save(read_record("r.json"), tmp_path / "again", device="cpu")
    for name in ("deep.mco", "slab.mco"):
        numbers = [read_mco(one / name).Rd_ra.value for one in (folder / "out", tmp_path / "again")]
        np.testing.assert_array_equal(*numbers)


def test_an_interrupt_keeps_what_was_done(folder, monkeypatch, capsys):
    def interrupt(step):
        if step.done and signal.getsignal(signal.SIGINT) is not usual:  # the second one would end the tests
            signal.raise_signal(signal.SIGINT)

    usual = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(command_runs, "draw_progress", interrupt)
    assert run(folder / "two.mci", "--photons", 10**8) == Exit.STOPPED
    assert signal.getsignal(signal.SIGINT) is usual
    found, printed = read_mco(folder / "out" / "slab.mco"), capsys.readouterr()
    assert 0 < found.launched < 10**8
    assert f"{found.launched:,} of 100,000,000 photons" in printed.out
    assert "stopping; what was done is kept" in printed.err
    assert [path.name for path in (folder / "out").iterdir()] == ["slab.mco"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.mci"], r"none\.mci does not exist"),
        (["{}/bad.mci"], r"bad\.mci, line 4: photons is 0"),
        (["{}/two.mci", "--photons", "0"], "photons is 0; it must be at least 1"),
        (["{}/two.mci", "--seed", "-1"], "seed is -1; it must be at least 0"),
        (["{}/two.mci", "--device", "toaster"], "toaster"),
        (["{}/two.mci", "--out", "none/out"], "the folder none does not exist; create it"),
        (["{}/two.mci", "--out", ".."], r"there is already \.\.; .* --force to write into it"),
        (["{}/two.mci", "--out", "{}", "--force"], r"where two\.mci lies, which is read"),
        (["{}/two.mci", "--out", "{}/bad.mci", "--force"], "which is a file; name a folder"),
        (["{}/alike.mci"], r"two runs would write x\.mco; rename one of their output files"),
        (["{}/a.json"], "named like an input file of MCX; run it with napari-gpubio mcx"),
    ],
)
def test_bad_input_gives_a_sentence_and_writes_nothing(folder, arguments, sentence):
    (folder / "a.json").write_text("{}")
    (folder / "bad.mci").write_text(TWO_RUNS.replace("20000", "0"))
    (folder / "alike.mci").write_text(TWO_RUNS.replace("slab.mco", "/a/x.mco").replace("deep.mco", "/b/x.mco"))
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(InvalidInput, match=sentence):
        run(*(word.format(folder) for word in arguments))
    assert sorted(folder.parent.rglob("*")) == before


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(folder, monkeypatch):
    def write(path, result):
        if path.name == "slab.mco":
            raise InvalidInput("slab.mco could not be written (No space left on device)")
        written.append(path.name)

    written = []
    monkeypatch.setattr(operations, "write_mco", write)
    with pytest.raises(InvalidInput, match="No space left"):
        run(folder / "two.mci", "--photons", "100")
    assert written == ["deep.mco"]


def test_layers_are_said_in_words_and_looked_at_under_a_beam(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layers = "--layers", 1.37, 0.1, 10, 0.9, 1, "--layers", 1.4, 0.02, 5, 0.9, "inf"
    assert run_verb("simulate-layers", *layers, "--photons", 2000, "--device", "cpu", "--record", "run.json") == 0
    medium = read_record(Path("run.json")).medium
    assert [(one.mua_per_mm, one.is_endless) for one in medium.layers] == [(0.1, False), (0.02, True)]
    for name, beam in (("plain", ()), ("wide", ("--beam", "gaussian", "--radius-mm", 0.5))):
        assert run_verb("under-beam", "run.json", *beam, "--curves-out", f"{name}.csv", "--device", "cpu") == 0
    assert Path("plain.csv").read_text(encoding="utf-8") != Path("wide.csv").read_text(encoding="utf-8")
    with pytest.raises(InvalidInput, match="10 x 1'; give its n"):
        run_verb("simulate-layers", "--layers", 1.37, 0.1, 10, "x", 1, "--out", "a.mco")

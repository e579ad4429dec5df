"""The verb ``mcx``: its record, and what a run has done is written, whatever becomes of its replay."""

import dataclasses
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core import keeping
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from napari_gpubio.core.operations import STORE, command_runs, digest, file, read_record, save
from napari_gpubio.core.operations import run as do
from napari_gpubio.core.report import Exit
from napari_gpubio.light.io import load_result
from napari_gpubio.mcx import operations
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.optics import batches
from tests.killed_runs import Killed, killed
from tests.light.result_files import check_same
from tests.light.shell import mcx
from tests.light.voxel_samples import check_same_bits
from tests.mcx.samples import case, written
from tests.mcx.test_output import loaded, root
from tests.mcx.test_sources import HIT, ON_RECTANGLE, SMALL, STACK, side_by_side
from tests.shell import run_verb

CPU = ("--device", "cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_fewer_photons_have_fewer_trajectories(folder):
    """The file has more photons than its trajectories, the command line fewer."""
    file = written(folder, root(DebugFlag="M", Photons=100_000))
    assert mcx(str(file), *CPU, "--photons", "50") == 0
    assert names(folder / "out") == ["run.npz", "slab.jnii", "slab_detp.jdat", "slab_traj.jdat"]
    assert load_result("out/run.npz").launched == 50


def test_what_a_replay_does_not_need_is_written_when_it_fails(folder, monkeypatch):
    def fail(*_arguments, **_keywords):
        raise OutOfGpuMemory(100.0, 1.0)

    file = str(written(folder, root(OutputType="J")))
    with monkeypatch.context() as patch:
        patch.setattr(operations, "replay_steps", fail)
        with pytest.raises(InvalidInput, match="MB"):
            mcx(file, *CPU)
    assert names(folder / "out") == ["run.npz", "slab_detp.jdat", "unfinished.txt"]
    assert mcx(file, *CPU) == 0
    assert names(folder / "out") == ["run.npz", "slab.jnii", "slab_detp.jdat"]


def test_a_replay_that_is_stopped_is_not_called_complete(folder, monkeypatch, capsys):
    def interrupted(step):
        if step.message == "photons traced again" and "stopping" not in seen:
            seen.append("stopping")
            signal.raise_signal(signal.SIGINT)

    seen = []
    monkeypatch.setattr(command_runs, "draw_progress", interrupted)
    content = root(OutputType="J")
    content["Optode"]["Detector"] *= 2
    content["Optode"]["Detector"][1] = {"Pos": [2, 5.5, 0], "R": 2}
    assert mcx(str(written(folder, content)), *CPU) == Exit.STOPPED
    assert seen
    made = names(folder / "out")
    assert {"run.npz", "slab_detp.jdat", "unfinished.txt"} <= set(made)
    assert ("slab.jnii" in made) != ("without a whole replay" in capsys.readouterr().err)


def test_no_photons_are_refused(folder):
    file = written(folder, root())
    with pytest.raises(InvalidInput, match="photons"):
        mcx(str(file), *CPU, "--photons", "0")
    assert loaded(file)["Session"]["ID"] == "slab"


def with_volume_file(folder):
    """A file that names its volume; returns the content of that."""
    content = root()
    content.pop("Shapes")
    content["Domain"]["VolumeFile"] = "head.jnii"
    volume = {"NIFTIHeader": {"Dim": [10, 11, 6]}, "NIFTIData": encode_array(np.ones((10, 11, 6), np.uint8))}
    (folder / "head.jnii").write_text(json.dumps(volume))
    (folder / "case.json").write_text(json.dumps(content))
    return volume


def test_outputs_do_not_replace_what_the_file_is_made_of(folder):
    volume = with_volume_file(folder)
    with pytest.raises(InvalidInput, match=r"where case\.json lies"):
        mcx("case.json", *CPU, "--out", ".", "--force")
    assert json.loads((folder / "head.jnii").read_text()) == volume


def test_the_record_makes_the_same_files_of_the_same_inputs_only(folder):
    with_volume_file(folder)
    assert mcx("case.json", *CPU, "--photons", "100", "--record", "r.json") == 0
    record = read_record("r.json")
    made = digest(do(record, device="cpu"))
    STORE.clear()
    save(record, "again", device="cpu")
    assert digest(do(record, device="cpu")) == made
    assert digest(do(dataclasses.replace(record, photons=99), device="cpu")) != made
    for name in ("slab.jnii", "slab_detp.jdat"):
        assert (folder / "out" / name).read_bytes() == (folder / "again" / name).read_bytes()
    STORE.clear()
    (folder / "head.jnii").write_text((folder / "head.jnii").read_text() + " ")
    with pytest.raises(InvalidInput, match=r"head\.jnii has changed"):
        save(read_record("r.json"), "third", device="cpu")


def test_a_record_that_lacks_a_file_is_refused(folder):
    with_volume_file(folder)
    record = operations.RunMcx(case=operations.OpenMcx(file=file("case.json")))
    with pytest.raises(InvalidInput, match=r"names head\.jnii, which its record lacks"):
        save(record, "out", device="cpu")


def test_a_folder_that_is_there_is_written_with_force_only(folder):
    words = str(written(folder, root(Photons=50))), *CPU
    (folder / "out").mkdir()
    assert mcx(*words) == 0, "an empty one is as good as none"
    with pytest.raises(InvalidInput, match=r"there is already out; .* --force"):
        mcx(*words)
    assert mcx(*words, "--force") == 0
    assert names(folder / "out") == ["run.npz", "slab.jnii", "slab_detp.jdat"]


@pytest.mark.parametrize("verb", ["light", "fibers-in-tissue"])
@pytest.mark.parametrize("name", ["case.json", "case.inp"])
def test_verbs_of_labels_name_the_verb_that_runs_such_a_file(folder, verb, name):
    (folder / name).write_text(json.dumps(root()))
    more = ("--tensors", "t.nii.gz") if verb == "fibers-in-tissue" else ()
    with pytest.raises(InvalidInput, match=rf"{name} is .* napari-gpubio mcx"):
        run_verb(verb, name, *more, "--out" if verb == "light" else "--record", "f.nii.gz")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_session_whose_name_no_file_can_have_is_refused_before_the_run(folder, name):
    with pytest.raises(InvalidInput, match=r"Session\.ID"):
        mcx(str(written(folder, root(ID=name))), *CPU)


# -- several results that are kept by time ----------------------------------------------------------------------------

PLACES = [[4, 4, 0], [2, 2, 0], [5, 3, 0]]
SEVERAL = {  # how a file has several results, their number, and how the command asks for them
    "sources": ({"Pos": PLACES, "Dir": [[0, 0, 1]] * 3}, 3, ("--source-number", "-1")),
    "patterns": (ON_RECTANGLE | {"Pattern": {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}, "SrcNum": 2}, 2, ()),
}
EACH = pytest.mark.parametrize("kind", SEVERAL)
EVERYWHERE = pytest.mark.parametrize("after", [3, 12, 20, 28])  # steps; three sources have some twenty each


def run(kind, out, **changes):
    source, _, asked = SEVERAL[kind]
    whole = SMALL | {"Session": SMALL["Session"] | {"RNGSeed": 1} | changes}
    content = case(**whole, Optode={"Source": source, "Detector": HIT})
    return mcx(str(written(Path(), content)), *CPU, *asked, "--out", out, "--force")


def check_files(kind):
    """Compare the files of a run that was killed with those of one that was not; those of patterns have no state."""
    assert names(Path("r")) == names(Path("whole"))
    for number in range(1, 1 + SEVERAL[kind][1]):
        found, expected = (load_result(f"{name}/run_{number}.npz") for name in ("r", "whole"))
        assert (found.state is None) == (kind == "patterns")
        if found.state is None:
            check_same(*([one.gates, one.gates_error, one.energy, one.detected] for one in (found, expected)))
        else:
            check_same_bits(found, expected)


def kept(folder):
    """What is kept of each result, and its file."""
    return {path: load_result(path).launched for path in sorted(folder.glob("r/run_*.npz"))}


def within(steps, start, stop):
    """Steps at which fewer photons were done than at the end of a range, and more than at its start."""
    return [step.done for step in steps if start < step.done < stop]


@pytest.fixture
def in_steps(folder, monkeypatch, in_chunks_of):
    """Runs whose results so far can be had at every step."""
    in_chunks_of(50)
    monkeypatch.setattr(batches, "PREVIEW_SECONDS", 0.0)


@EACH
@EVERYWHERE
def test_a_killed_run_of_several_results_goes_on_with_what_was_kept(in_steps, folder, monkeypatch, capsys, kind, after):
    run(kind, "whole")
    STORE.clear()
    with killed(monkeypatch, command_runs, after=after):
        run(kind, "r")
    done = kept(folder)
    capsys.readouterr()
    steps = []
    monkeypatch.setattr(command_runs, "draw_progress", steps.append)
    assert run(kind, "r") == 0
    assert "goes on with unfinished.txt" in capsys.readouterr().err
    assert sum(done.values()) > 0
    for number, launched in enumerate(done.values()):
        assert not within(steps, 300 * number, 300 * number + launched)
    check_files(kind)


@EACH
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"RNGSeed": 5}, "other seed: 1, and this run has 5"),
        ({"Photons": 30}, "request at least that many"),
    ],
    ids=["seed", "photons"],
)
def test_several_results_go_on_with_their_own_inputs_only(in_steps, folder, monkeypatch, kind, changes, sentence):
    with killed(monkeypatch, command_runs, after=6):
        run(kind, "r")
    before = {path: path.read_bytes() for path in kept(folder)}
    assert before
    with pytest.raises(InvalidInput, match=sentence):
        run(kind, "r", **changes)
    assert {path: path.read_bytes() for path in kept(folder)} == before


def test_other_sources_than_were_kept_are_refused(in_steps, folder, monkeypatch):
    with killed(monkeypatch, command_runs, after=25):
        run("sources", "r")
    with pytest.raises(InvalidInput, match="is of other sources"):
        run_verb("mcx", *folder.glob("case*.json"), *CPU, "--source-number", "1", "--out", "r")


def test_an_older_run_that_force_replaces_is_not_gone_on_with(in_steps, folder, monkeypatch):
    run("sources", "whole")
    run("sources", "r", RNGSeed=5)
    STORE.clear()
    with killed(monkeypatch, command_runs, after=25):
        run("sources", "r")
    assert [path.name for path in kept(folder)] == ["run_1.npz", "run_2.npz"]
    assert run("sources", "r") == 0
    check_files("sources")


def test_a_source_that_is_lost_is_run_again_and_no_other(in_steps, folder, monkeypatch):
    run("sources", "whole")
    STORE.clear()
    with killed(monkeypatch, command_runs, after=45):
        run("sources", "r")
    assert [*kept(folder).values()][:2] == [300, 300]
    (folder / "r" / "run_2.npz").unlink()
    steps = []
    monkeypatch.setattr(command_runs, "draw_progress", steps.append)
    run("sources", "r")
    assert not within(steps, 0, 300)
    assert within(steps, 300, 600)
    check_files("sources")


@EACH
def test_several_results_go_on_after_an_interrupt(in_steps, folder, monkeypatch, kind):
    def interrupt(step):
        if step.done > 400 and not stopping:
            stopping.append(step)
            signal.raise_signal(signal.SIGINT)

    run(kind, "whole")
    STORE.clear()
    stopping = []
    with monkeypatch.context() as patch:
        patch.setattr(command_runs, "draw_progress", interrupt)
        assert run(kind, "r") == Exit.STOPPED
    assert "small.jnii" in names(folder / "r")
    steps = []
    monkeypatch.setattr(command_runs, "draw_progress", steps.append)
    assert run(kind, "r") == 0
    assert not within(steps, 300 if kind == "sources" else 0, 400)
    check_files(kind)


@EACH
@pytest.mark.parametrize("saved", [0, 1])
def test_a_kill_while_the_results_are_written_loses_nothing(in_steps, folder, monkeypatch, kind, saved):
    def write(path, *arguments):
        if path.name == f"run_{saved + 1}.npz":
            raise Killed
        return write_result(path, *arguments)

    run(kind, "whole")
    STORE.clear()
    write_result = operations.save_result_steps
    with monkeypatch.context() as patch:
        patch.setattr(operations, "save_result_steps", write)
        patch.setattr(keeping, "EVERY_SECONDS", 0.0)
        patch.setattr(keeping, "_REST", 0.0)
        with pytest.raises(Killed):
            run(kind, "r")
    STORE.clear()
    assert run(kind, "r") == 0
    check_files(kind)


def test_a_folder_that_lacks_a_file_goes_on(in_steps, folder, monkeypatch):
    """Also where there was a moment to keep what was done."""

    def fail(*_arguments, **_keywords):
        raise InvalidInput("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(operations, "write_mcx_output", fail)
        patch.setattr(keeping, "EVERY_SECONDS", 0.0)
        patch.setattr(keeping, "_REST", 0.0)
        with pytest.raises(InvalidInput, match="no space left"):
            run("patterns", "r")
    assert names(folder / "r") == ["run_1.npz", "run_2.npz", "unfinished.txt"]
    assert run("patterns", "r") == 0
    assert names(folder / "r") == ["run_1.npz", "run_2.npz", "small.jnii"]

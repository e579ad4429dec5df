"""MCX files on the command line: what a run has done is written, whatever becomes of its replay."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core import keeping
from napari_gpubio.core.command_line import STOPPED
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from napari_gpubio.light import batches, mcx_cli
from napari_gpubio.light.io import load_result
from napari_gpubio.light.io.mcx.jdata import encode_array
from tests.killed_runs import Killed, killed
from tests.light.io.mcx.samples import case, written
from tests.light.io.mcx.test_output import loaded, root
from tests.light.io.mcx.test_sources import HIT, ON_RECTANGLE, SMALL, STACK, side_by_side
from tests.light.result_files import check_same
from tests.light.shell import mcx
from tests.light.voxel_samples import check_same_bits

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
    assert {"slab.jnii", "slab_detp.jdat", "slab_traj.jdat"} < set(names(folder))


def test_what_a_replay_does_not_need_is_written_when_it_fails(folder, monkeypatch):
    def fail(*_arguments, **_keywords):
        raise OutOfGpuMemory(100.0, 1.0)

    monkeypatch.setattr(mcx_cli, "replay_steps", fail)
    with pytest.raises(InvalidInput, match="MB"):
        mcx(str(written(folder, root(OutputType="J"))), *CPU, "--run-out", "run.npz")
    assert {"slab_detp.jdat", "run.npz"} < set(names(folder))
    assert "slab.jnii" not in names(folder)


def test_a_replay_that_is_stopped_is_not_called_complete(folder, monkeypatch, capsys):
    def interrupted(step):
        if step.message == "photons traced again" and "stopping" not in seen:
            seen.append("stopping")
            signal.raise_signal(signal.SIGINT)

    seen = []
    monkeypatch.setattr(mcx_cli, "draw_progress", interrupted)
    content = root(OutputType="J")
    content["Optode"]["Detector"] *= 2
    content["Optode"]["Detector"][1] = {"Pos": [2, 5.5, 0], "R": 2}
    assert mcx(str(written(folder, content)), *CPU) == STOPPED
    assert seen
    assert "slab_detp.jdat" in names(folder)
    assert ("slab.jnii" in names(folder)) != ("without a whole replay" in capsys.readouterr().err)


def test_no_photons_are_refused(folder):
    file = written(folder, root())
    with pytest.raises(InvalidInput, match="photons"):
        mcx(str(file), *CPU, "--photons", "0")
    assert loaded(file)["Session"]["ID"] == "slab"


def test_outputs_do_not_replace_what_the_file_is_made_of(folder):
    content = root()
    content.pop("Shapes")
    content["Session"].pop("ID")
    content["Domain"]["VolumeFile"] = "head.jnii"
    volume = {"NIFTIHeader": {"Dim": [10, 11, 6]}, "NIFTIData": encode_array(np.ones((10, 11, 6), np.uint8))}
    (folder / "head.jnii").write_text(json.dumps(volume))
    (folder / "head.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"are the same file"):
        mcx("head.json", *CPU)
    assert json.loads((folder / "head.jnii").read_text()) == volume
    with pytest.raises(InvalidInput, match="are the same file"):
        mcx(str(written(folder, root())), *CPU, "--out", str(next(folder.glob("case*.json")).with_suffix(".nii.gz")))


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_session_whose_name_no_file_can_have_is_refused_before_the_run(folder, name):
    with pytest.raises(InvalidInput, match=r"Session\.ID"):
        mcx(str(written(folder, root(ID=name))), *CPU)


# -- several results that are kept by time ----------------------------------------------------------------------------

PLACES = [[4, 4, 0], [2, 2, 0], [5, 3, 0]]
SEVERAL = {  # how a file has several results, their number, and how the command asks for them
    "sources": ({"Pos": PLACES, "Dir": [[0, 0, 1]] * 3}, 3, ("--srcid", "-1")),
    "patterns": (ON_RECTANGLE | {"Pattern": {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}, "SrcNum": 2}, 2, ()),
}
EACH = pytest.mark.parametrize("kind", SEVERAL)
EVERYWHERE = pytest.mark.parametrize("after", [3, 12, 20, 28])  # steps; three sources have some twenty each


def run(kind, *options, **changes):
    source, _, asked = SEVERAL[kind]
    whole = SMALL | {"Session": SMALL["Session"] | {"RNGSeed": 1} | changes}
    content = case(**whole, Optode={"Source": source, "Detector": HIT})
    return mcx(str(written(Path(), content)), *CPU, *asked, *options, "--force")


def check_files(kind):
    """Compare the files of a run that was killed with those of one that was not; those of patterns have no state."""
    for number in range(1, 1 + SEVERAL[kind][1]):
        found, expected = (load_result(f"{name}_{number}.npz") for name in ("r", "whole"))
        assert (found.state is None) == (kind == "patterns")
        if found.state is None:
            check_same(*([one.gates, one.gates_error, one.energy, one.detected] for one in (found, expected)))
        else:
            check_same_bits(found, expected)


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
    run(kind, "--run-out", "whole.npz")
    with killed(monkeypatch, mcx_cli, after=after):
        run(kind, "--run-out", "r.npz")
    kept = [load_result(path).launched for path in sorted(folder.glob("r_*.npz"))]
    capsys.readouterr()
    steps = []
    monkeypatch.setattr(mcx_cli, "draw_progress", steps.append)
    assert run(kind, "--run-out", "r.npz") == 0
    assert "goes on with r_1.npz" in capsys.readouterr().err
    assert sum(kept) > 0
    for number, launched in enumerate(kept):
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
    with killed(monkeypatch, mcx_cli, after=6):
        run(kind, "--run-out", "r.npz")
    before = {path.name: path.read_bytes() for path in folder.glob("r_*.npz")}
    assert before
    with pytest.raises(InvalidInput, match=sentence):
        run(kind, "--run-out", "r.npz", **changes)
    assert {path.name: path.read_bytes() for path in folder.glob("r_*.npz")} == before


def test_a_kill_between_two_sources_loses_neither(in_steps, folder, monkeypatch):
    """What is there is complete, and a result is missing."""
    run("sources", "--run-out", "r.npz")
    expected = [load_result(f"r_{number}.npz") for number in (1, 2, 3)]
    (folder / "r_2.npz").unlink()
    steps = []
    monkeypatch.setattr(mcx_cli, "draw_progress", steps.append)
    run("sources", "--run-out", "r.npz")
    assert not within(steps, 0, 300)
    assert within(steps, 300, 600)
    assert not within(steps, 600, 900)
    for number, result in enumerate(expected, 1):
        check_same_bits(load_result(f"r_{number}.npz"), result)


@EACH
def test_several_results_go_on_after_an_interrupt(in_steps, folder, monkeypatch, kind):
    def interrupt(step):
        if step.done > 400 and not stopping:
            stopping.append(step)
            signal.raise_signal(signal.SIGINT)

    run(kind, "--run-out", "whole.npz")
    stopping = []
    with monkeypatch.context() as patch:
        patch.setattr(mcx_cli, "draw_progress", interrupt)
        assert run(kind, "--run-out", "r.npz") == STOPPED
    steps = []
    monkeypatch.setattr(mcx_cli, "draw_progress", steps.append)
    assert run(kind, "--run-out", "r.npz") == 0
    assert not within(steps, 300 if kind == "sources" else 0, 400)
    check_files(kind)


@EACH
@pytest.mark.parametrize("saved", [0, 1])
def test_a_kill_while_the_results_are_written_loses_nothing(in_steps, folder, monkeypatch, kind, saved):
    def write(*arguments):
        if len(written_files) == saved:
            raise Killed
        written_files.append(write_result(*arguments))

    run(kind, "--run-out", "whole.npz")
    written_files, write_result = [], mcx_cli._write
    with monkeypatch.context() as patch:
        patch.setattr(mcx_cli, "_write", write)
        patch.setattr(keeping, "EVERY_SECONDS", 0.0)
        patch.setattr(keeping, "_REST", 0.0)
        with pytest.raises(Killed):
            run(kind, "--run-out", "r.npz")
    assert run(kind, "--run-out", "r.npz") == 0
    check_files(kind)


def test_other_results_that_force_replaces_are_not_gone_on_with(in_steps, folder, monkeypatch):
    run("sources", "--run-out", "r.npz", RNGSeed=5)
    with killed(monkeypatch, mcx_cli, after=25):
        run("sources", "--run-out", "r.npz")
    assert sorted(path.name for path in folder.glob("r_*.npz")) == ["r_1.npz", "r_2.npz"]
    assert run("sources", "--run-out", "r.npz") == 0
    assert [load_result(f"r_{number}.npz").settings.seed for number in (1, 2, 3)] == [1, 2, 3]

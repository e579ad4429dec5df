"""MCX files on the command line: what a run has done is written, whatever becomes of its replay."""

import json
import signal

import numpy as np
import pytest

from napari_gpubio.core.command_line import STOPPED
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from napari_gpubio.light import mcx_cli
from napari_gpubio.light.io.mcx.jdata import encode_array
from tests.light.io.mcx.samples import written
from tests.light.io.mcx.test_output import loaded, root
from tests.light.shell import light

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
    assert light(str(file), *CPU, "--photons", "50") == 0
    assert {"slab.jnii", "slab_detp.jdat", "slab_traj.jdat"} < set(names(folder))


def test_what_a_replay_does_not_need_is_written_when_it_fails(folder, monkeypatch):
    def fail(*_arguments, **_keywords):
        raise OutOfGpuMemory(100.0, 1.0)

    monkeypatch.setattr(mcx_cli, "replay_steps", fail)
    with pytest.raises(InvalidInput, match="MB"):
        light(str(written(folder, root(OutputType="J"))), *CPU, "--result", "run.npz")
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
    assert light(str(written(folder, content)), *CPU) == STOPPED
    assert seen
    assert "slab_detp.jdat" in names(folder)
    assert ("slab.jnii" in names(folder)) != ("without a whole replay" in capsys.readouterr().err)


@pytest.mark.parametrize("wanted", ["--jacobian", "--trajectories"])
def test_detectors_are_missed_before_the_run(folder, wanted):
    content = root()
    content["Optode"]["Detector"] = []
    with pytest.raises(InvalidInput, match=r"add Optode\.Detector"):
        light(str(written(folder, content)), *CPU, wanted, "x.npz")


def test_no_photons_are_refused(folder):
    file = written(folder, root())
    with pytest.raises(InvalidInput, match="photons"):
        light(str(file), *CPU, "--photons", "0")
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
        light("head.json", *CPU)
    assert json.loads((folder / "head.jnii").read_text()) == volume
    with pytest.raises(InvalidInput, match="are the same file"):
        light(str(written(folder, root())), *CPU, "--out", str(next(folder.glob("case*.json")).with_suffix(".nii.gz")))


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_session_whose_name_no_file_can_have_is_refused_before_the_run(folder, name):
    with pytest.raises(InvalidInput, match=r"Session\.ID"):
        light(str(written(folder, root(ID=name))), *CPU)

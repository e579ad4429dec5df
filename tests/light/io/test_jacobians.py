"""Files of Jacobians hold all of it; the shell writes what the API gives; damaged files are refused."""

import argparse
import dataclasses
import functools
import json

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light import cli
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io import load_jacobians, load_trajectories, save_jacobians, write_jacobian, write_table
from napari_gpubio.light.replay import replay
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from tests.light.result_samples import layered_domain
from tests.light.test_replay_backends import check_same

HEAD = layered_domain((8, 9, 10), 2.0)
PLACE = Source(position_mm=(0, 0, 1), direction=(0, 0, -1))
SPOTS = ((4.0, 0.0, 1.0, 5.0), (-4.0, 2.0, 1.0, 5.0))


@functools.cache
def run():
    detectors = [
        Detector(position_mm=tuple(spot), radius_mm=radius, name=f"D{number}")
        for number, (*spot, radius) in enumerate(SPOTS, 1)
    ]
    return simulate(HEAD, PLACE, LightSettings(photons=2000, batches=4), detectors=detectors, device="cpu")


@functools.cache
def jacobians():
    return replay(run(), of=("mua", "musp"), gates_ns=(0.0, 0.1, 1.0), frequency_mhz=100.0)


def test_a_file_holds_all_of_it(tmp_path):
    save_jacobians(tmp_path / "j.npz", jacobians())
    found = load_jacobians(tmp_path / "j.npz")
    check_same(found, jacobians())
    np.testing.assert_array_equal(found.domain.labels, HEAD.labels)
    assert found.method == "replay"
    assert found.parameters["frequency_mhz"] == 100.0
    assert found.of("musp", gate=1).gate_ns == (0.1, 1.0)
    assert found.region(found.of(), [1])[0] == jacobians().region(jacobians().of(), [1])[0]


def test_volumes_have_errors_and_all_else_beside_them(tmp_path):
    part = jacobians().of("mua", "phase")
    beside = json.loads(write_jacobian(tmp_path / "phase.nii.gz", jacobians(), part).read_text())
    image = nib.load(tmp_path / "phase.nii.gz")
    np.testing.assert_array_equal(np.moveaxis(np.asarray(image.dataobj), -1, 0), part.values)
    np.testing.assert_allclose(image.affine, HEAD.affine)
    assert beside["unit"] == "rad mm"
    assert [channel["detector"] for channel in beside["channels"]] == ["D1", "D2"]
    np.testing.assert_allclose(beside["label_sums"], part.label_sums)
    errors = np.asarray(nib.load(tmp_path / beside["napari_gpubio"]["standard_error"]).dataobj)
    np.testing.assert_array_equal(np.moveaxis(errors, -1, 0), part.errors)


@pytest.mark.parametrize("name", ["values", "label_sums", "measured"])
def test_damaged_files_are_refused(tmp_path, name):
    part = jacobians().parts[0]
    changed = dataclasses.replace(part, **{name: getattr(part, name)[:1]})
    save_jacobians(tmp_path / "j.npz", dataclasses.replace(jacobians(), parts=(changed,)))
    with pytest.raises(InvalidInput, match=rf"j\.npz.*'{name}' has shape"):
        load_jacobians(tmp_path / "j.npz")


def test_other_files_are_named(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InvalidInput, match="not a result of Jacobians"):
        load_jacobians(tmp_path / "other.npz")


# -- the shell --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_volume(tmp_path / "head.nii.gz", HEAD.labels, HEAD.affine)
    write_table(tmp_path / "head.csv", HEAD.media)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def light(*arguments):
    parser = argparse.ArgumentParser()
    cli.add_verb(parser.add_subparsers())
    options = parser.parse_args(["light", *arguments])
    return options.run(options)


def light_head(*arguments, detectors=SPOTS):
    places = [word for *spot, radius in detectors for word in ("--detector", *map(str, spot), str(radius))]
    return light(
        "head.nii.gz", "--properties", "head.csv", "--position", "0", "0", "1", "--direction", "0", "0", "-1",
        "--device", "cpu", "--photons", "2000", "--batches", "4", *places, *arguments,
    )  # fmt: skip


def test_the_shell_gives_what_the_api_gives(folder, capsys):
    wanted = ("--jacobian-of", "mua", "musp", "--jacobian-gates-ns", "0", "0.1", "1", "--jacobian-frequency-mhz", "100")
    assert light_head("--jacobian", "j.npz", *wanted, "--trajectories", "ways.npz", "--result", "run.npz") == 0
    check_same(load_jacobians("j.npz"), jacobians())
    assert len(load_trajectories("ways.npz")) == min(1000, len(run().detected))
    shown = capsys.readouterr().out
    assert "S1-D2" in shown
    assert "ways.npz" in shown
    assert light("--resume", "run.npz", "--jacobian", "later.npz", *wanted) == 0
    check_same(load_jacobians("later.npz"), jacobians())


def test_the_shell_writes_volumes(folder):
    assert light_head("--jacobian", "j.nii.gz") == 0
    volume = np.asarray(nib.load("j.nii.gz").dataobj)
    np.testing.assert_array_equal(np.moveaxis(volume, -1, 0), jacobians().of("mua").values)
    assert light_head("--jacobian", "k.nii.gz", "--jacobian-of", "mua", "mus", "--jacobian-mean-time") == 0
    assert sorted(path.name for path in folder.glob("k_*a.nii.gz")) == [
        "k_ln_intensity_mua.nii.gz", "k_mean_time_mua.nii.gz",
    ]  # fmt: skip


def test_a_detector_that_nobody_reached_is_named(folder, capsys):
    assert light_head("--jacobian", "j.npz", detectors=(*SPOTS, (6.0, 7.0, -20.0, 0.05))) == 0
    assert "no photon has reached D3" in capsys.readouterr().err
    assert len(load_jacobians("j.npz").channels) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--jacobian", "j.npz", "--jacobian-gates-ns", "1", "0"), "each later"),
        (("--jacobian", "j.npz", "--jacobian-frequency-mhz", "-3"), "greater than 0"),
        (("--jacobian", "j.txt"), "nii"),
        (("--trajectories", "ways.txt"), r"\.npz"),
        (("--jacobian", "nowhere/j.npz"), "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(folder, capsys, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        light_head(*arguments)
    assert "fluence" not in capsys.readouterr().out


def test_without_detectors_there_is_nothing_to_replay(folder):
    with pytest.raises(InvalidInput, match="place detectors: --detector"):
        light_head("--jacobian", "j.npz", detectors=())

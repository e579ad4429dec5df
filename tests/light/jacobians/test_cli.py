"""Jacobians and trajectories from the shell are those of the API."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io import load_jacobians, load_trajectories
from tests.light.jacobians.samples import SPOTS, jacobians, run
from tests.light.jacobians.test_replay_backends import check_same
from tests.light.shell import light


def light_head(*arguments, detectors=SPOTS):
    places = [word for *spot, radius in detectors for word in ("--detector", *map(str, spot), str(radius))]
    return light(
        "head.nii.gz", "--properties", "head.csv", "--position", "0", "0", "1", "--direction", "0", "0", "-1",
        "--device", "cpu", "--photons", "2000", "--batches", "4", *places, *arguments,
    )  # fmt: skip


def test_the_shell_gives_what_the_api_gives(head_files, capsys):
    wanted = ("--jacobian-of", "mua", "musp", "--jacobian-gates-ns", "0", "0.1", "1", "--jacobian-frequency-mhz", "100")
    assert light_head("--jacobian", "j.npz", *wanted, "--trajectories", "paths.npz", "--result", "run.npz") == 0
    check_same(load_jacobians("j.npz"), jacobians())
    assert len(load_trajectories("paths.npz")) == min(1000, len(run().detected))
    shown = capsys.readouterr().out
    assert "S1-D2" in shown
    assert "paths.npz" in shown
    assert light("--resume", "run.npz", "--jacobian", "later.npz", *wanted) == 0
    check_same(load_jacobians("later.npz"), jacobians())


def test_the_shell_writes_volumes(head_files):
    assert light_head("--jacobian", "j.nii.gz") == 0
    volume = np.asarray(nib.load("j.nii.gz").dataobj)
    np.testing.assert_array_equal(np.moveaxis(volume, -1, 0), jacobians().of("mua").values)
    assert light_head("--jacobian", "k.nii.gz", "--jacobian-of", "mua", "mus", "--jacobian-mean-time") == 0
    assert sorted(path.name for path in head_files.glob("k_*a.nii.gz")) == [
        "k_ln_intensity_mua.nii.gz", "k_mean_time_mua.nii.gz",
    ]  # fmt: skip


def test_a_detector_that_nobody_reached_is_named(head_files, capsys):
    assert light_head("--jacobian", "j.npz", detectors=(*SPOTS, (6.0, 7.0, -20.0, 0.05))) == 0
    assert "no photon has reached D3" in capsys.readouterr().err
    assert len(load_jacobians("j.npz").channels) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--jacobian", "j.npz", "--jacobian-gates-ns", "1", "0"), "each later"),
        (("--jacobian", "j.npz", "--jacobian-frequency-mhz", "-3"), "greater than 0"),
        (("--jacobian", "j.txt"), "nii"),
        (("--trajectories", "paths.txt"), r"\.npz"),
        (("--jacobian", "nowhere/j.npz"), "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(head_files, capsys, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        light_head(*arguments)
    assert "fluence" not in capsys.readouterr().out


def test_without_detectors_there_is_nothing_to_replay(head_files):
    with pytest.raises(InvalidInput, match="place detectors: --detector"):
        light_head("--jacobian", "j.npz", detectors=())

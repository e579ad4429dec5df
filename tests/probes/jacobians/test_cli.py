"""Jacobians and trajectories from the shell are those of the API."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io import save_result
from napari_gpubio.probes.io import load_jacobians, load_trajectories
from tests.probes.jacobians.samples import SPOTS, jacobians, run
from tests.probes.jacobians.test_replay_backends import check_same
from tests.shell import run_verb


@pytest.fixture
def saved(head_files):
    """A run that was saved, in the folder."""
    save_result("run.npz", run())


def verb(name, *arguments):
    return run_verb(name, "run.npz", "--device", "cpu", *arguments)


def lit(*detectors):
    """Make a run with such detectors in the folder."""
    places = [word for *spot, radius in detectors for word in ("--detector", *map(str, spot), str(radius))]
    run_verb(
        "light", "head.nii.gz", "--media", "head.csv", "--position-mm", 0, 0, 1, "--device", "cpu", "--photons", 2000,
        "--batches", 4, *places, "--run-out", "run.npz",
    )  # fmt: skip


def test_the_shell_gives_what_the_api_gives(saved, capsys):
    wanted = ("--of", "mua", "musp", "--gates-ns", "0", "0.1", "1", "--frequency-mhz", "100")
    assert verb("jacobians", "--out", "j.npz", *wanted) == 0
    check_same(load_jacobians("j.npz"), jacobians())
    assert verb("trajectories", "--out", "paths.npz") == 0
    assert len(load_trajectories("paths.npz")) == min(1000, len(run().detected))
    shown = capsys.readouterr().out
    assert "S1-D2" in shown
    assert "paths.npz" in shown


def test_the_shell_writes_volumes(saved, head_files):
    assert verb("jacobians", "--out", "j.nii.gz") == 0
    volume = np.asarray(nib.load("j.nii.gz").dataobj)
    np.testing.assert_array_equal(np.moveaxis(volume, -1, 0), jacobians().of("mua").values)
    assert verb("jacobians", "--out", "k.nii.gz", "--of", "mua", "mus", "--mean-time") == 0
    assert sorted(path.name for path in head_files.glob("k_*a.nii.gz")) == [
        "k_ln_intensity_mua.nii.gz", "k_mean_time_mua.nii.gz",
    ]  # fmt: skip


def test_a_detector_that_nobody_reached_is_named(head_files, capsys):
    lit(*SPOTS, (6.0, 7.0, -20.0, 0.05))
    assert verb("jacobians", "--out", "j.npz") == 0
    assert "no photon has reached D3" in capsys.readouterr().err
    assert len(load_jacobians("j.npz").channels) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jacobians", "--out", "j.npz", "--gates-ns", "1", "0"), "each later"),
        (("jacobians", "--out", "j.npz", "--frequency-mhz", "-3"), "greater than 0"),
        (("jacobians", "--out", "j.txt"), "nii"),
        (("jacobians", "--out", "j.npz", "--of", "g"), "'g'"),
        (("trajectories", "--out", "paths.txt"), r"\.npz"),
        (("jacobians", "--out", "nowhere/j.npz"), "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(saved, capsys, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        verb(*arguments)
    assert "S1" not in capsys.readouterr().out


def test_without_detectors_there_is_nothing_to_replay(head_files):
    lit()
    with pytest.raises(InvalidInput, match="detect"):
        verb("jacobians", "--out", "j.npz")

"""``napari-gpubio bootstrap``."""

import nibabel as nib
import numpy as np

from napari_gpubio import cli
from napari_gpubio.core.files import sample_path
from napari_gpubio.tractograms.io import read_tractogram


def test_the_verb_writes_what_the_bootstrap_found(tmp_path, capsys):
    scan, out = str(sample_path("brain_phantom/dwi.nii.gz")), tmp_path / "found"
    options = ["--seed", "0", "-5", "22", "--repeats", "4", "--kept-repeats", "2", "--device", "cpu"]
    out.mkdir()
    files = {"--out": "probability.nii.gz", "--fibers-out": "fibers.trx", "--repeats-out": "repeats.trx"}
    files["--intervals-out"] = "intervals.csv"
    words = [word for flag, name in files.items() for word in (flag, str(out / name))]
    assert cli.main(["bootstrap", scan, *options, *words]) == 0
    assert "length_mm," in capsys.readouterr().out
    shares = nib.load(out / "probability.nii.gz").get_fdata()
    assert set(np.unique(shares * 4)) <= {0, 1, 2, 3, 4}
    assert shares.max() > 0
    assert len(read_tractogram(out / "fibers.trx")) == 1
    assert len(read_tractogram(out / "repeats.trx")) == 2
    assert (out / "intervals.csv").read_text().startswith("number,")


def test_half_a_ball_and_no_seed_are_refused(capsys):
    scan = str(sample_path("brain_phantom/dwi.nii.gz"))
    for words, problem in (
        (["--seed", "0", "-5", "22", "--points", "4"], "a ball of seeds needs both"),
        (["--seed", "0", "-5", "22", "--radius-mm", "4"], "a ball of seeds needs both"),
        (["--seed", "0", "a", "22"], "three numbers"),
        ([], "no seed"),
    ):
        assert cli.main(["bootstrap", scan, *words, "--record", "none.json"]) == 2
        assert problem in capsys.readouterr().err

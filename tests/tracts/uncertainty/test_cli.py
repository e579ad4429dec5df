"""``napari-gpubio bootstrap``."""

import nibabel as nib
import numpy as np

from napari_gpubio import cli
from napari_gpubio.core.files import sample_path
from napari_gpubio.tracts.io import read_tractogram


def test_the_verb_writes_what_the_bootstrap_found(tmp_path, capsys):
    scan, out = str(sample_path("brain_phantom/dwi.nii.gz")), tmp_path / "found"
    options = ["--seed", "0", "-5", "22", "--repeats", "4", "--kept-repeats", "2", "--device", "cpu"]
    assert cli.main(["bootstrap", scan, *options, "--out", str(out)]) == 0
    assert "length_mm," in capsys.readouterr().out
    shares = nib.load(out / "probability.nii.gz").get_fdata()
    assert set(np.unique(shares * 4)) <= {0, 1, 2, 3, 4}
    assert shares.max() > 0
    assert len(read_tractogram(out / "fibers.trx")) == 1
    assert len(read_tractogram(out / "repeats.trx")) == 2
    assert (out / "intervals.csv").read_text().startswith("number,")

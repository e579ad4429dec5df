"""A tiny BIDS dataset: a part of the sample brain, a head with a probe, and a plan, each of a subject."""

import json
from pathlib import Path

import numpy as np

from napari_gpubio.core.files import sample_path
from napari_gpubio.core.volumes import read_array, write_volume
from tests.conformance.shell_files import dose_files
from tests.operation_samples import PART
from tests.probes.forward.samples import block, probe

BRAIN, BARE, HEAD, PLAN = "01", "02", "03", "04"
NAMES = "index\tname\n1\tscalp\n2\tGM\n"


def study(folder: Path) -> Path:
    """Write the dataset; returns its folder. The b-vectors of one subject are missing."""
    folder.mkdir()
    about = {"Name": "study", "BIDSVersion": "1.10.0"}
    for home in (folder, made(folder, "derivatives", "seg")):
        (home / "dataset_description.json").write_text(json.dumps(about))
    image, (_, affine) = part_of("dwi"), read_array(sample_path("brain_phantom/dwi.nii.gz"))
    affine = affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [one.start for one in PART]
    for subject in (BRAIN, BARE):
        write_volume(made(folder, f"sub-{subject}", "dwi") / f"sub-{subject}_run-1_dwi.nii.gz", image, affine)
    for kind in ("bval", "bvec"):  # of the subject, which the scan of its run inherits
        text = sample_path(f"brain_phantom/dwi.{kind}").read_text()
        (folder / f"sub-{BRAIN}" / f"sub-{BRAIN}_dwi.{kind}").write_text(text)
    write_volume(made(folder, f"sub-{BRAIN}", "anat") / f"sub-{BRAIN}_T1w.nii.gz", image[..., 0], affine)
    labels = np.zeros(image.shape[:3], np.int16)
    labels[:5], labels[9:] = 1, 2
    write_volume(made(folder, "derivatives", "seg", f"sub-{BRAIN}", "dwi") / f"sub-{BRAIN}_dseg.nii.gz", labels, affine)
    _head(folder)
    dose_files(made(folder, f"sub-{PLAN}", "rt"))
    return folder


def _head(folder: Path) -> None:
    head, given = block(), probe()
    segmentation = made(folder, "derivatives", "seg", f"sub-{HEAD}", "anat") / f"sub-{HEAD}_dseg.nii.gz"
    write_volume(segmentation, head.labels, head.affine)
    (folder / "derivatives" / "seg" / "dseg.tsv").write_text(NAMES)
    rows = ["name\ttype\tx\ty\tz"]
    for kind, names, places in (
        ("source", given.sources, given.source_positions_mm),
        ("detector", given.detectors, given.detector_positions_mm),
    ):
        rows += [f"{name}\t{kind}\t{x}\t{y}\t{z}" for name, (x, y, z) in zip(names, places, strict=True)]
    (made(folder, f"sub-{HEAD}", "nirs") / f"sub-{HEAD}_optodes.tsv").write_text("\n".join(rows) + "\n")
    (folder / "coordsystem.json").write_text('{"NIRSCoordinateUnits": "mm"}')


def part_of(name: str) -> np.ndarray:
    """Signals of the part of the sample brain."""
    assert name == "dwi"
    whole, _ = read_array(sample_path("brain_phantom/dwi.nii.gz"))
    return np.ascontiguousarray(whole[PART])


def made(*parts: object) -> Path:
    """A folder, which is made."""
    folder = Path(*map(str, parts))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

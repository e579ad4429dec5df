"""What the story opens: the sample brain or a real scan, and images of it on a grid that is tilted to it."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import affine_transform

from napari_gpubio import diffusion
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io.dwi import read_volume
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map

Array = npt.NDArray[np.float32]
TILT_DEGREES = (10.0, 4.0, -6.0)  # about x, y, z: as heads lie
VOXEL_MM = 1.6
CLICK_MM = (0.0, -5.0, 22.0)  # in the corpus callosum of the sample
ENDINGS = {  # of bundles on both sides: names of files in the folder "endings" beside a scan
    "right motor cortex": "CST_right_b",
    "right brainstem": "CST_right_e",
    "left motor cortex": "CST_left_b",
    "left brainstem": "CST_left_e",
    "right sensory cortex": "CC_5_b",
    "left sensory cortex": "CC_5_e",
}
MCX_PHOTONS = 1_000_000
MCX_ABSORBED, MCX_TOLERANCE = 0.1769, 0.005  # as MCX's own benchmark script expects of cube60
CROSSING_MM = (24.0, -18.0, 25.0)  # of corona radiata and corpus callosum, in a head in the space of a template


@dataclass(frozen=True)
class Brain:
    """Files of one head; ``click_mm`` lies in white matter, ``crossing_mm`` where two bundles cross."""

    scan: Path
    t1: Path
    fa: Path
    atlas: Path
    click_mm: tuple[float, float, float]
    crossing_mm: tuple[float, float, float]


def brain(folder: Path, data: Path | None) -> Brain:
    """Write a T1-like image and FA of a scan on a tilted grid into a folder; returns all files.

    ``data`` is a folder in which a diffusion scan is looked for; without it, the sample brain is taken.
    """
    path = sample_path("brain_phantom") / "dwi.nii.gz" if data is None else _scan_in(data)
    scan = diffusion.io.read_dwi(path)
    field = diffusion.fit_tensors(scan)
    fa = np.asarray(scalar_map(field, "FA"), np.float32)
    affine, shape = _tilted_grid(scan.affine, scan.shape)
    like_t1 = np.where(field.mask, 0.25 + 0.75 * np.sqrt(fa.clip(0, 1)), 0.0).astype(np.float32)
    written = []
    for name, values in (("T1 on a tilted grid", like_t1), ("FA on a tilted grid", fa)):
        written.append(folder / f"{name}.nii")
        write_volume(written[-1], _resampled(values, scan.affine, affine, shape), affine)
    click = CLICK_MM if data is None else _white_matter(fa, scan.affine)
    atlas = path.with_name("atlas.nii.gz") if data is None else atlas_of_endings(path, folder, ENDINGS)
    return Brain(scan=path, t1=written[0], fa=written[1], atlas=atlas, click_mm=click, crossing_mm=CROSSING_MM)


def bids_study(folder: Path, data: Path | None) -> tuple[Path, tuple[float, float, float]]:
    """Write a dataset of two subjects with the same scan; returns it, and a place in white matter."""
    path, study = sample_path("brain_phantom") / "dwi.nii.gz" if data is None else _scan_in(data), folder / "study"
    for subject in ("sub-01", "sub-02"):
        (study / subject / "dwi").mkdir(parents=True)
        for ending in (".nii.gz", ".bval", ".bvec"):
            beside = path.with_name(path.name.replace(".nii.gz", ending))
            shutil.copyfile(beside, study / subject / "dwi" / f"{subject}_dwi{ending}")
    description = {"Name": "Two subjects", "BIDSVersion": "1.10.0"}
    (study / "dataset_description.json").write_text(json.dumps(description), encoding="utf-8")
    if data is None:
        return study, CLICK_MM
    field = diffusion.fit_tensors(diffusion.io.read_dwi(path))
    return study, _white_matter(np.asarray(scalar_map(field, "FA"), np.float32), field.affine)


def mcx_case(folder: Path) -> Path:
    """Write the file of MCX's benchmark cube60, with fewer photons."""
    media = [{"mua": 0, "mus": 0, "g": 1, "n": 1}, {"mua": 0.005, "mus": 1.0, "g": 0.01, "n": 1.37}]
    detectors = [{"Pos": [x, y, 0], "R": 1} for x, y in ((29, 19), (29, 39), (19, 29), (39, 29))]
    case = {
        "Session": {"ID": "cube60", "Photons": MCX_PHOTONS, "RNGSeed": 1648335518, "DoMismatch": False},
        "Forward": {"T0": 0.0, "T1": 5e-9, "Dt": 5e-9},
        "Domain": {"Dim": [60, 60, 60], "OriginType": 1, "LengthUnit": 1, "Media": media},
        "Optode": {"Source": {"Type": "pencil", "Pos": [29, 29, 0], "Dir": [0, 0, 1]}, "Detector": detectors},
        "Shapes": [{"Grid": {"Tag": 1, "Size": [60, 60, 60]}}],
    }
    path = folder / "cube60.json"
    path.write_text(json.dumps(case), encoding="utf-8")
    return path


def dicom_plan(folder: Path, data: Path | None) -> Path:
    """A folder of DICOM: the given one, or that of the treatment phantom, as the documentation's script writes it."""
    if data is not None:
        return data
    sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "extensions"))
    from sample_plan import write_study

    return Path(write_study(folder / "plan"))


def all_endings(scan: Path) -> dict[str, str]:
    """Names of the ends of all bundles beside a scan, and of their files."""
    files = sorted(scan.with_name("endings").glob("*.nii.gz"))
    return {path.name.removesuffix(".nii.gz").replace("_", " "): path.name.removesuffix(".nii.gz") for path in files}


def atlas_of_endings(scan: Path, folder: Path, names: Mapping[str, str]) -> Path:
    """Write an atlas of where bundles end; where two do, the first of the names counts."""
    masks = [read_volume(scan.with_name("endings") / f"{name}.nii.gz") for name in names.values()]
    labels = np.zeros(masks[0][0].shape, np.uint8)
    for number, (values, _) in enumerate(masks, start=1):
        labels[(np.asarray(values) > 0) & (labels == 0)] = number
    path = folder / "endings.nii.gz"
    write_volume(path, labels, masks[0][1])
    there = {*np.unique(labels).tolist()}
    rows = [f"{number}\t{name}" for number, name in enumerate(names, start=1) if number in there]
    (folder / "endings.tsv").write_text("\n".join(["index\tname", *rows]) + "\n", encoding="utf-8")
    return path


def _scan_in(folder: Path) -> Path:
    for path in sorted(folder.rglob("*.nii.gz")):
        if path.with_name(path.name.replace(".nii.gz", ".bval")).is_file():
            return path
    raise InvalidInput(f"no diffusion scan (.nii.gz with .bval and .bvec beside it) in {folder}")


def _tilted_grid(affine: npt.NDArray[np.float64], shape: tuple[int, ...]) -> tuple[npt.NDArray[np.float64], Array]:
    """A grid about the middle of a scan, as large as the scan."""
    turn = np.eye(3)
    for axis, angle in enumerate(np.radians(TILT_DEGREES)):
        a, b = (axis + 1) % 3, (axis + 2) % 3
        one = np.eye(3)
        one[a, a] = one[b, b] = np.cos(angle)
        one[b, a], one[a, b] = np.sin(angle), -np.sin(angle)
        turn = one @ turn
    corners = apply_affine(affine, np.array([(0, 0, 0), np.array(shape) - 1.0]))
    count = np.ceil(np.abs(corners[1] - corners[0]) / VOXEL_MM).astype(int) + 1
    tilted = np.eye(4)
    tilted[:3, :3] = turn * VOXEL_MM
    tilted[:3, 3] = corners.mean(axis=0) - tilted[:3, :3] @ ((count - 1) / 2)
    return tilted, count


def _resampled(values: Array, own: npt.NDArray[np.float64], other: npt.NDArray[np.float64], shape: Array) -> Array:
    to_own = np.linalg.inv(own) @ other
    return affine_transform(values, to_own[:3, :3], to_own[:3, 3], output_shape=tuple(shape), order=1)


def _white_matter(fa: Array, affine: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """A place of high FA near the middle of the head."""
    places = np.argwhere(fa > 0.7)
    middle = np.array(fa.shape) / 2
    nearest = places[np.argmin(np.linalg.norm(places - middle, axis=1))]
    x, y, z = apply_affine(affine, nearest[None].astype(float))[0]
    return float(x), float(y), float(z)

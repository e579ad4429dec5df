"""Brain masks: how right are they, without a skull and in scalps, beside MRtrix and DIPY, and how long do they take.

The real brain beside the repository comes without its scalp, so the truth is known when one is put around it. The mask
of an earlier commit is measured in the same run::

    python benchmarks/diffusion_mask.py [--before dd613bb4]
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from common import (
    ROOT,
    Array,
    Report,
    argument_parser,
    header,
    line,
    result_path,
    table,
    versions,
)
from fibers.brain import BRAIN
from scipy import ndimage

from napari_gpubio.core.device import CPU
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.tensors.mask import brain_mask
from tests.diffusion.head_samples import Head, dice, with_scalp

MASK = "napari_gpubio/diffusion/tensors/mask.py"
BEFORE = "dd613bb4"  # the last commit whose mask had one threshold and no distances
PAD = 8  # voxels of air put around the brain
DIMMED = 0.5  # signal of the scalp in a weighted volume over that in b0
PEERS = {"DIPY": ("dipy", "dipy")}
OURS, EARLIER = "this", "earlier"


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A volume without weighting, the true brain, what is not brain though bright, and a whole series for MRtrix."""

    name: str
    b0: Array
    brain: Array
    scalp: Array
    sizes: Array
    series: DiffusionScan | None = None


# --------------------------------------------------------------------------------------------------------------- cases
def real_cases() -> Iterator[Case]:
    """The real brain, bare and in four scalps."""
    scan = read_dwi(BRAIN / "dwi.nii.gz")
    bare = read_mask(BRAIN / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    sizes = voxel_sizes_mm(scan.affine)
    yield Case("no scalp", scan.b0_mean(), bare, np.zeros_like(bare), sizes, scan)
    b0, brain = np.pad(scan.b0_mean(), PAD), np.pad(bare, PAD)
    data = np.pad(scan.data, [*[(PAD, PAD)] * 3, (0, 0)])
    for gap in (3.0, 5.0):
        for bridges in (False, True):
            signal, scalp = with_scalp(b0, brain, sizes, gap, bridges=bridges)
            share = np.where(scan.is_b0, 1.0, DIMMED)
            around = np.where(brain[..., None], data, signal[..., None] * share).astype(np.float32)
            series = DiffusionScan(data=around, bvals=scan.bvals, directions=scan.directions, affine=scan.affine)
            yield Case(f"gap {gap:g} mm{', bridges' if bridges else ''}", signal, brain, scalp, sizes, series)


def hard_cases() -> Iterator[Case]:
    """One of the scalps, with a field, noise, eyes or a cut; heads of formulas with other voxels and sizes."""
    narrow = next(case for case in real_cases() if case.name == "gap 3 mm, bridges")
    b0, brain, scalp, sizes = narrow.b0, narrow.brain, narrow.scalp, narrow.sizes
    rng = np.random.default_rng(0)
    along = [
        np.linspace(-1, 1, n).reshape([-1 if a == axis else 1 for a in range(3)]) for axis, n in enumerate(b0.shape)
    ]
    for factor in (2, 4):
        for axis, name in ((0, "left to right"), (2, "up")):
            yield Case(f"field x {factor}, {name}", b0 * factor ** (along[axis] / 2), brain, scalp, sizes)
    typical = float(np.median(b0[brain]))
    for ratio in (20, 10, 5, 3):
        noisy = np.hypot(b0 + rng.normal(0, typical / ratio, b0.shape), rng.normal(0, typical / ratio, b0.shape))
        yield Case(f"signal / noise {ratio}", noisy, brain, scalp, sizes)
    for name, part in (
        ("cut below", np.s_[:, :, 38:]),
        ("cut above", np.s_[:, :, :60]),
        ("cut at the side", np.s_[44:]),
        ("6 slices", np.s_[:, :, 45:51]),
    ):
        yield Case(name, b0[part], brain[part], scalp[part], sizes)
    for name, made, scale in (
        ("formulas, 2.5 mm", Head(), 1.0),
        ("formulas, eyes", Head(eyes=True), 1.0),
        ("formulas, 2 x 2 x 4 mm", Head((2.0, 2.0, 4.0)), 1.0),
        ("formulas, 1.25 mm", Head((1.25, 1.25, 1.25)), 1.0),
        ("formulas, an eighth of the size", Head(), 0.125),
    ):
        yield Case(name, made.signal, made.brain, made.scalp, made.sizes * scale)


# ------------------------------------------------------------------------------------------------------------- methods
def earlier_mask(commit: str) -> Callable[[Array], Array] | None:
    """`brain_mask` of a commit, which took a volume only; None where the history is not there."""
    git = shutil.which("git")
    words = [git or "git", "show", f"{commit}:{MASK}"]
    text = subprocess.run(words, cwd=ROOT, capture_output=True, text=True) if git else None
    if text is None or text.returncode:
        return None
    module = ModuleType("earlier_mask")
    exec(compile(text.stdout, f"{commit}:{MASK}", "exec"), module.__dict__)
    mask: Callable[[Array], Array] = module.brain_mask
    return mask


def median_otsu(radius: int, passes: int) -> Callable[[Case], Array]:
    from dipy.segment.mask import median_otsu as of_dipy

    return lambda case: np.asarray(of_dipy(case.b0, median_radius=radius, numpass=passes)[1], bool)


def processor_seconds() -> float:
    """Of this process and of the programs that it ran."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def of_mrtrix(case: Case) -> tuple[Array, float]:
    """Mask by ``dwi2mask``, on one thread, and its processor seconds, which include reading the series."""
    import nibabel as nib

    series = case.series
    assert series is not None
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / each for each in ("dwi.nii", "dwi.bvec", "dwi.bval", "mask.nii")]
        nib.save(nib.Nifti1Image(np.asarray(series.data, np.float32), series.affine), paths[0])
        for path, theirs in zip(paths[1:3], ("dwi.bvec", "dwi.bval"), strict=True):
            shutil.copy(BRAIN / theirs, path)
        before = processor_seconds()
        words = ["dwi2mask", *map(str, (paths[0], paths[3])), "-fslgrad", str(paths[1]), str(paths[2])]
        subprocess.run([*words, "-quiet", "-nthreads", "1"], check=True)
        seconds = processor_seconds() - before
        return np.asarray(nib.load(paths[3]).dataobj) > 0, seconds


def methods(commit: str) -> dict[str, Callable[[Case], Array]]:
    """What makes a mask of a case's b0, by name."""
    found: dict[str, Callable[[Case], Array]] = {OURS: lambda case: brain_mask(case.b0, case.sizes)}
    if (earlier := earlier_mask(commit)) is not None:
        found[EARLIER] = lambda case: earlier(case.b0)
    if versions(PEERS):
        found |= {f"median_otsu {r}, {n}": median_otsu(r, n) for r, n in ((4, 4), (2, 1))}
    return found


# ------------------------------------------------------------------------------------------------------------- figures
def judged(case: Case, method: str, mask: Array, seconds: float) -> dict[str, Any]:
    """Overlap with the truth, scalp in the mask, the largest hole, pieces, and processor seconds."""
    holes, _ = ndimage.label(ndimage.binary_fill_holes(mask) & ~mask)
    largest = int(np.bincount(holes.ravel())[1:].max(initial=0))
    return {
        "case": case.name,
        "method": method,
        "dice": dice(mask, case.brain),
        "scalp_percent": 100 * np.count_nonzero(mask & case.scalp) / max(np.count_nonzero(mask), 1),
        "hole_cm3": largest * float(np.prod(case.sizes)) / 1000,
        "pieces": int(ndimage.label(mask)[1]),
        "cpu_seconds": seconds,
        "voxels": int(mask.size),
    }


def measured(case: Case, method: str, work: Callable[[Case], Array], repeats: int) -> dict[str, Any]:
    """The best of some runs."""
    seconds = []
    for _ in range(repeats):
        before = time.process_time()
        mask = work(case)
        seconds.append(time.process_time() - before)
    return judged(case, method, mask, min(seconds))


def rows_of(cases: Iterator[Case], ways: dict[str, Callable[[Case], Array]]) -> list[dict[str, Any]]:
    """Every method in every case."""
    rows = []
    for case in cases:
        rows += [measured(case, name, work, 5 if name in (OURS, EARLIER) else 1) for name, work in ways.items()]
        if case.series is not None and shutil.which("dwi2mask"):
            rows.append(judged(case, "dwi2mask", *of_mrtrix(case)))
    return rows


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """A table to read, the methods side by side."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    cells = []
    for case in dict.fromkeys(row["case"] for row in rows):
        of_case = {row["method"]: row for row in rows if row["case"] == case}
        text = [
            f"{row['dice']:.4f} / {row['scalp_percent']:.2f} / {row['hole_cm3']:.1f} / {row['cpu_seconds']:.2f}"
            for row in map(of_case.__getitem__, names)
        ]
        cells.append(line(case, *text))
    return ["Dice / scalp in the mask, % / largest hole, cm³ / CPU seconds.", "", *table(("", *names), cells)]


def mrtrix_version() -> str | None:
    """Of ``dwi2mask``, if it is there."""
    if shutil.which("dwi2mask") is None:
        return None
    text = subprocess.run(["dwi2mask", "-version"], capture_output=True, text=True, check=True).stdout
    return next((word for word in text.split() if word[:1].isdigit()), text.strip())


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--before", default=BEFORE, help="commit whose mask is measured, too")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    peers = versions(PEERS) | ({"MRtrix": version} if (version := mrtrix_version()) else {})
    facts = {**header(quick=False), "peers": peers, "before": arguments.before}
    text = f"Earlier: commit {arguments.before}. " + ", ".join(f"{name} {version}" for name, version in peers.items())
    path = result_path(arguments.json, "diffusion_mask", facts["date"], CPU)
    report = Report(path, "Brain masks of known answer", facts, text + ". One thread.")
    ways = methods(arguments.before)
    if not BRAIN.is_dir():
        print(f"{BRAIN} is absent")
        return
    found = rows_of(real_cases(), ways)
    report.add(
        "real",
        "The real brain, without and with a scalp of 6 mm",
        found,
        f"The scalp has 0.7 of the brain's signal, and {DIMMED:g} of that in weighted volumes, for dwi2mask.",
        *lines_of(found),
    )
    found = rows_of(hard_cases(), {name: ways[name] for name in (OURS, EARLIER) if name in ways})
    report.add("hard", "Gap 3 mm, bridges: fields, noise, cuts; heads of formulas", found, *lines_of(found))


if __name__ == "__main__":
    main()

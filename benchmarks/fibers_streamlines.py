"""Streamlines in FODs: how many a second, how soon those of a click, and how near to MRtrix's.

Run from anywhere; see `benchmarks/README.md`::

    python benchmarks/fibers_streamlines.py  # beside tckgen: 10 minutes
    python benchmarks/fibers_streamlines.py --device cuda:0 --brain brain.npz  # made by diffusion_fods.py --export

Seeds are random points in the mask, one streamline each, with each method's usual settings. Beside MRtrix: density
(voxels that each streamline passes, counted once) and lengths of iFOD2, and SD_STREAM from the seeds and first
directions of tckgen's.
"""

import dataclasses
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, argument_parser, header, line, result_path, table, timed_on
from diffusion_fods import BRAIN, Brain, load, response_of
from scipy.spatial import cKDTree
from scipy.stats import ks_2samp

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.settings import kind_of
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.run import deconvolve
from napari_gpubio.fibers.directions import FromFod, Principal
from napari_gpubio.fibers.kernels.streamlines.problem import StreamlineProblem
from napari_gpubio.fibers.run import trace_problem, track
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import IFOD1, IFOD2, SDStream
from napari_gpubio.tractograms.model import Tractogram

ONE, STREAMLINES = FromFod(count=1), (IFOD2(), IFOD1(), SDStream())
CLICK_MM = (24.0, -18.0, 25.0)  # where corona radiata and corpus callosum cross
DENSITY, TWINS, ON_CPU, ON_GPU = 100_000, 5000, 4000, 200_000


def random_seeds(fods: FodField, count: int) -> Any:
    """Random points in the voxels of the mask, world mm."""
    random, voxels = np.random.default_rng(0), np.argwhere(fods.mask)
    return apply_affine(fods.affine, voxels[random.choice(len(voxels), count)] + random.uniform(-0.5, 0.5, (count, 3)))


def speed_rows(fods: FodField, device: Device) -> list[dict[str, Any]]:
    """Streamlines a second of many seeds, and seconds of a click."""
    rows, seeds = [], random_seeds(fods, ON_GPU if device.is_gpu else ON_CPU)
    for settings in STREAMLINES:
        kept = list[Tractogram]()
        timing = timed_on(device, lambda: kept.append(track(fods, seeds, ONE, settings, device=device)), 2)  # noqa: B023
        click = partial(track, fods, [CLICK_MM], FromFod(count=1000), settings, device=device)
        rows.append(
            {
                "method": kind_of(settings),
                "streamlines": len(kept[-1]),
                "seconds": timing.seconds,
                "per_second": len(kept[-1]) / timing.seconds,
                "per_cpu_second": None if device.is_gpu else len(kept[-1]) / timing.cpu_seconds,
                "mean_mm": float(kept[-1].lengths_mm().mean()),
                "click_seconds": timed_on(device, click, 5).seconds,
            }
        )
    return rows


def against_the_cpu(fods: FodField, device: Device) -> list[dict[str, Any]]:
    """How far the streamlines of a GPU are from the CPU's."""
    rows, seeds = [], random_seeds(fods, 20_000)
    for settings in STREAMLINES:
        gpu, cpu = (track(fods, seeds, ONE, settings, device=one) for one in (device, CPU))
        lengths = [fibers.per_fiber["length_mm"] for fibers in (gpu, cpu)]
        rows.append(
            {
                "what": f"{kind_of(settings)}, GPU beside CPU, {len(cpu)} streamlines",
                "density_correlation": correlation(density(gpu), density(cpu), fods),
                "p_of_lengths": float(ks_2samp(*lengths).pvalue),
            }
        )
    return rows


def density(fibers: Tractogram) -> Any:
    """Number of streamlines that pass each voxel."""
    voxels = np.floor(apply_affine(np.linalg.inv(fibers.affine), fibers.points) + 0.5).astype(int)
    size = int(np.prod(fibers.shape))
    keys = fibers.fiber_of_point() * size + np.ravel_multi_index(tuple(voxels.T), fibers.shape, mode="clip")
    return np.bincount(np.unique(keys) % size, minlength=size)


def correlation(one: Any, other: Any, fods: FodField) -> float:
    inside = fods.mask.ravel()
    return float(np.corrcoef(one[inside], other[inside])[0, 1])


# -- MRtrix -----------------------------------------------------------------------------------------------------------


def against_mrtrix(fods: FodField, mask: Path, folder: Path) -> list[dict[str, Any]]:
    """Density of iFOD2, and SD_STREAM from the same starts; CPU seconds of tckgen on one thread."""
    from napari_gpubio.diffusion.io import write_fods
    from napari_gpubio.tractograms.io import read_tractogram

    write_fods(folder / "fod.nii.gz", fods)

    def tckgen(name: str, algorithm: str, count: int, *more: str) -> tuple[Tractogram, float]:
        words = [
            "tckgen",
            str(folder / "fod.nii.gz"),
            str(folder / name),
            "-algorithm",
            algorithm,
            "-select",
            str(count),
        ]
        words += ["-seed_image", str(mask), "-mask", str(mask), "-nthreads", "1", "-quiet", *more]
        begun = time.perf_counter()
        subprocess.run(words, check=True)
        seconds = time.perf_counter() - begun
        return read_tractogram(folder / name, reference=(fods.affine, fods.shape)), seconds

    theirs, seconds = tckgen("ifod2.tck", "iFOD2", DENSITY)
    settings = IFOD2()
    ours = track(fods, random_seeds(fods, round(1.7 * DENSITY)), ONE, settings, device="cpu")
    ours = ours.part(0, min(len(ours), DENSITY))
    halves = [theirs.part(0, DENSITY // 2), theirs.part(DENSITY // 2, DENSITY)]
    twins, twin_seconds = tckgen("sd.tck", "SD_STREAM", TWINS, "-output_seeds", str(folder / "seeds.txt"))
    return [
        {
            "what": f"iFOD2, {len(ours)} streamlines beside tckgen's {DENSITY}",
            "density_correlation": correlation(density(ours), density(theirs), fods),
            "their_halves": correlation(*map(density, halves), fods),
            "mean_mm": [float(fibers.lengths_mm().mean()) for fibers in (ours, theirs)],
            "ks_of_lengths": float(ks_2samp(ours.lengths_mm(), theirs.lengths_mm()).statistic),
            "ks_of_their_halves": float(ks_2samp(*(half.lengths_mm() for half in halves)).statistic),
            "their_streamlines_per_second": DENSITY / seconds,
        },
        {
            "what": f"SD_STREAM, {TWINS} from the starts of tckgen's",
            **twin_numbers(fods, twins, np.loadtxt(folder / "seeds.txt", delimiter=",", usecols=range(5))),
            "their_streamlines_per_second": TWINS / twin_seconds,
        },
    ]


def twin_numbers(fods: FodField, theirs: Tractogram, starts: Any) -> dict[str, float]:
    """Share of streamlines that are within a voxel of each other over their whole length, and the distance of ends."""
    seeds, places = starts[:, 2:5], starts[:, 1].astype(int)
    directions = [_direction(line_, place) for line_, place in zip(theirs, places, strict=True)]
    usual = SDStream()
    settings = dataclasses.replace(usual, min_length_mm=0.0)
    launch = Launch(seeds, np.array(directions), Principal())
    ours = trace_problem(StreamlineProblem(fods, launch, settings), CPU)
    edge, near, ends = float(fods.voxel_sizes_mm.max()), [], []
    for seed, fiber in zip(ours.per_fiber["seed"], ours, strict=True):
        other = theirs[int(seed)]
        near.append(max(cKDTree(a).query(b)[0].max() for a, b in ((fiber, other), (other, fiber))) < edge)
        pairs = ((fiber, other), (fiber[::-1], other))
        ends.append(min(max(np.linalg.norm(a[n] - b[n]) for n in (0, -1)) for a, b in pairs))
    return {"within_a_voxel": sum(near) / len(theirs), "median_end_distance_mm": float(np.median(ends))}


def _direction(points: Any, place: int) -> Any:
    ahead = points[place + 1] - points[place] if place + 1 < len(points) else points[place] - points[place - 1]
    return ahead / np.linalg.norm(ahead)


def run_brain(report: Report, brain: Brain, device: Device, mask: Path) -> None:
    """All tables of one brain."""
    fods = deconvolve(brain.scan, response_of(brain.scan), brain.mask, device=device)
    rows = speed_rows(fods, device)
    cells = [
        line(
            r["method"], r["streamlines"], f"{r['per_second']:,.0f}", f"{r['per_cpu_second'] or 0:,.0f}",
            f"{r['mean_mm']:.1f}", f"{1e3 * r['click_seconds']:.0f}",
        )
        for r in rows
    ]  # fmt: skip
    head = ["method", "streamlines", "a second", "a CPU second", "mean mm", "1000 of a click, ms"]
    report.add("speed", "Speed", rows, *table(head, cells))
    if device.is_gpu:
        found = against_the_cpu(fods, device)
    elif shutil.which("tckgen") and mask.is_file():
        with tempfile.TemporaryDirectory() as folder:
            found = against_mrtrix(fods, mask, Path(folder))
    else:
        found = []
    lines = [line(one["what"], ", ".join(f"{k}: {v}" for k, v in one.items() if k != "what")) for one in found]
    report.add("agreement", "Agreement", found, *table(["what", "found"], lines))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--scan", type=Path, default=BRAIN, help="folder of dwi.nii.gz and nodif_brain_mask.nii.gz")
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="the scan, as diffusion_fods.py --export writes it")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    arguments = parser.parse_args()
    brain, device = load(arguments.scan, arguments.brain), choose_device(arguments.device)
    head = header(quick=False)
    path = result_path(arguments.json, "fibers_streamlines", head["date"], device)
    report = Report(path, "Streamlines in FODs", head, "FODs of order 8, response of dwi2response tournier.")
    mask = arguments.scan / "nodif_brain_mask.nii.gz"
    report.run({"brain": partial(run_brain, report, brain, device, mask)})


if __name__ == "__main__":
    main()

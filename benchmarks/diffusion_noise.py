"""Marchenko-Pastur PCA of diffusion scans: seconds, beside dwidenoise, and how far the two are apart.

Run from anywhere; see `benchmarks/README.md`::

    python benchmarks/diffusion_noise.py                                 # the brain beside the repository, on the CPU
    python benchmarks/diffusion_noise.py --export series.npz             # write that brain and do nothing else
    python benchmarks/diffusion_noise.py --device cuda:0 --series series.npz --many

dwidenoise of MRtrix runs on as many threads, in the same run, where it is installed. A GPU machine needs no nibabel;
there the GPU is held against the CPU in double precision.
"""

import argparse
import importlib.util
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
    time_lines,
    timed_on,
)

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.jit import thread_count
from napari_gpubio.diffusion.kernels.mppca.problem import pca_problem
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.noise.run import denoise_scan
from napari_gpubio.diffusion.noise.settings import NoiseSettings

BRAIN = ROOT.parent / "shared" / "data" / "dwi" / "whole_brain_b1000"
PRECISIONS = ("single", "double")
REPEATS = 3
MANY = ((64, 5), (125, 5), (280, 5), (300, 7))  # volumes, and the edge of the window
MANY_SIZE, MANY_VOXELS = 32, 10_000


class Series(NamedTuple):
    """A scan, and the voxels that are denoised."""

    scan: DiffusionScan
    mask: Array


class Answer(NamedTuple):
    """Signals (M, N), noise levels and, where they are known, components (M,) of the voxels of a mask."""

    signals: Array
    sigma: Array
    rank: Array | None


def load(folder: Path, packed: Path | None) -> Series:
    """The series of an npz, or of a folder with dwi.nii.gz and its mask."""
    if packed is not None:
        with np.load(packed) as z:
            table_of = {name: z[name] for name in ("bvals", "directions", "affine")}
            return Series(DiffusionScan(data=z["data"], **table_of), z["mask"])
    from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask

    scan = read_dwi(folder / "dwi.nii.gz")
    return Series(scan, read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine))


def export(series: Series, path: Path) -> None:
    """Write what `load` reads."""
    scan = series.scan
    np.savez_compressed(
        path, data=scan.data, mask=series.mask, bvals=scan.bvals, directions=scan.directions, affine=scan.affine
    )


def denoised(series: Series, precision: str, device: Device) -> Answer:
    """What this program makes of a series."""
    found = denoise_scan(series.scan, series.mask, NoiseSettings(precision=precision), device=device)
    at = series.mask
    return Answer(found.denoised.data[at], found.noise[at], found.rank[at].astype(int))


def own_rows(series: Series, device: Device) -> tuple[list[dict[str, Any]], dict[str, Answer]]:
    """Seconds of whole calls in both precisions, and what they give."""
    rows, answers = [], {}
    for precision in PRECISIONS:
        settings = NoiseSettings(precision=precision)
        work = partial(denoise_scan, series.scan, series.mask, settings, device=device)
        timing = timed_on(device, work, REPEATS)
        row = {"by": f"{precision} precision", "seconds": timing.seconds, "median": timing.median}
        rows.append(row if device.is_gpu else {**row, "cpu_seconds": timing.cpu_seconds})
        answers[precision] = denoised(series, precision, device)
    return rows, answers


def kernel_rows(series: Series, device: Device) -> Iterator[dict[str, Any]]:
    """Seconds of the kernel with the series on the GPU already, and its output copied back."""
    from napari_gpubio.diffusion.kernels.mppca import gpu

    data = np.asarray(series.scan.data, np.float32)
    window = NoiseSettings().edges(data.shape[:3], data.shape[3])
    for precision in PRECISIONS:
        problem = pca_problem(data, series.mask, window, exact=True, double=precision == "double")
        run = gpu.Run(problem, device=device)

        def work(run: Any = run, count: int = len(problem.voxels)) -> None:
            run.advance(0, count)
            run.take()

        timing = timed_on(device, work, REPEATS)
        yield {"by": f"{precision} precision, kernel and output", "seconds": timing.seconds, "median": timing.median}
        run.close()


def peer_rows(series: Series, folder: Path) -> Iterator[tuple[dict[str, Any], Answer]]:
    """dwidenoise in both precisions: best of several runs, with reading and writing of files that are not packed."""
    from napari_gpubio.core.volumes import read_array, write_volume

    scan, mask, out, noise = (folder / f"{name}.nii" for name in ("scan", "mask", "out", "noise"))
    write_volume(scan, series.scan.data, series.scan.affine)
    write_volume(mask, series.mask, series.scan.affine)
    for kind in ("float32", "float64"):
        words = ["dwidenoise", "-quiet", "-force", "-nthreads", thread_count(), "-datatype", kind]
        times = [timed_process(*words, "-mask", mask, "-noise", noise, scan, out) for _ in range(REPEATS)]
        wall, busy = zip(*times, strict=True)
        row = {"by": f"dwidenoise, {kind}", "seconds": min(wall), "median": sorted(wall)[REPEATS // 2]}
        signals, sigma = (read_array(path)[0][series.mask] for path in (out, noise))
        yield {**row, "cpu_seconds": min(busy)}, Answer(signals, sigma, None)


def timed_process(*words: object) -> tuple[float, float]:
    """Wall and processor seconds of a program."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(list(map(str, words)), check=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def agreement(what: str, found: Answer, expected: Answer) -> dict[str, Any]:
    """Shares of the voxels that agree, and the percentiles of differences."""
    relative = np.abs(found.sigma / expected.sigma - 1)
    apart = np.abs(found.signals - expected.signals).max(axis=1)
    ranks = None if expected.rank is None or found.rank is None else float(np.mean(found.rank == expected.rank))
    return {
        "what": what,
        "sigma_1e-4": float(np.mean(relative < 1e-4)),
        "signal_0.2": float(np.mean(apart < 0.2)),
        "same_rank": ranks,
        "signal_p99": float(np.percentile(apart, 99)),
        "signal_max": float(apart.max()),
    }


def many_rows(device: Device) -> Iterator[dict[str, Any]]:
    """Seconds of whole calls on made-up series of many volumes."""
    rng = np.random.default_rng(1)
    shape = (MANY_SIZE,) * 3
    mask = (np.arange(MANY_SIZE**3) < MANY_VOXELS).reshape(shape)
    for volumes, edge in MANY:
        signals = rng.normal(size=(*shape, 4)).astype(np.float32) @ rng.normal(size=(4, volumes)).astype(np.float32)
        data = 1000 + 300 * signals + rng.normal(0, 30, signals.shape).astype(np.float32)
        bvals, directions = np.zeros(volumes), np.zeros((volumes, 3))
        scan = DiffusionScan(data=data, bvals=bvals, directions=directions, affine=np.eye(4))
        for precision in PRECISIONS:
            settings = NoiseSettings(precision=precision, window=edge)
            timing = timed_on(device, partial(denoise_scan, scan, mask, settings, device=device), 1)
            yield {"volumes": volumes, "window": edge, "precision": precision, "seconds": timing.seconds}


def agreement_lines(rows: list[dict[str, Any]]) -> list[str]:
    columns = ("", "σ within 1e-4, %", "signal within 0.2, %", "same rank, %", "signal apart, p99", "most")
    lines = []
    for row in rows:
        rank = "" if row["same_rank"] is None else f"{100 * row['same_rank']:.2f}"
        shares = (f"{100 * row[name]:.2f}" for name in ("sigma_1e-4", "signal_0.2"))
        lines.append(line(row["what"], *shares, rank, f"{row['signal_p99']:.3g}", f"{row['signal_max']:.3g}"))
    return table(columns, lines)


def run_series(report: Report, series: Series, device: Device) -> None:
    """Time and agreement on one scan."""
    rows, answers = own_rows(series, device)
    compared = [agreement("single beside double precision", answers["single"], answers["double"])]
    if device.is_gpu:
        rows += kernel_rows(series, device)
        here = denoised(series, "double", CPU)
        compared += [agreement(f"{name} beside the CPU in double", answers[name], here) for name in PRECISIONS]
    elif shutil.which("dwidenoise") and importlib.util.find_spec("nibabel"):
        with tempfile.TemporaryDirectory() as folder:
            for row, theirs in peer_rows(series, Path(folder)):
                rows.append(row)
                compared += [agreement(f"{name} beside {row['by']}", answers[name], theirs) for name in PRECISIONS]
    voxels, sizes = int(series.mask.sum()), " x ".join(map(str, series.scan.data.shape))
    sigma, rank = np.median(answers["double"].sigma), np.median(answers["double"].rank)
    about = (
        f"σ {sigma:.4g} and {rank:g} components (medians); signals of b = 0 have the median {b0_median(series):.4g}."
    )
    report.add(
        "seconds",
        f"{voxels:,} voxels of {sizes}",
        rows,
        *time_lines([{**row, "voxels": voxels} for row in rows]),
        "",
        about,
    )
    report.add("agreement", "Agreement", compared, *agreement_lines(compared))


def b0_median(series: Series) -> float:
    return float(np.median(series.scan.data[series.mask][:, series.scan.is_b0]))


def run_many(report: Report, device: Device) -> None:
    """Time on series of many volumes."""
    rows = list(many_rows(device))
    lines = [line(r["volumes"], r["window"], r["precision"], f"{r['seconds']:.3g}") for r in rows]
    columns = ("volumes", "edge of the window", "precision", "s")
    report.add("many", f"Many volumes, {MANY_VOXELS:,} voxels", rows, *table(columns, lines))


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--scan", type=Path, default=BRAIN, help="folder of dwi.nii.gz and nodif_brain_mask.nii.gz")
    parser.add_argument("--series", type=Path, metavar="NPZ", help="the scan, as --export writes it")
    parser.add_argument("--export", type=Path, metavar="NPZ", help="write the scan and do nothing else")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--many", action="store_true", help="also made-up series of many volumes")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    series = load(arguments.scan, arguments.series)
    if arguments.export is not None:
        return export(series, arguments.export)
    device, head = choose_device(arguments.device), {**header(quick=False), "threads": thread_count()}
    series = Series(replace(series.scan, notes=()), series.mask)
    path = result_path(arguments.json, "diffusion_noise", head["date"], device)
    report = Report(path, "Marchenko-Pastur PCA of a diffusion scan", head, f"{head['threads']} threads of the CPU.")
    parts = {"series": partial(run_series, report, series, device)}
    if arguments.many:
        parts["many"] = partial(run_many, report, device)
    return report.run(parts)


if __name__ == "__main__":
    main()

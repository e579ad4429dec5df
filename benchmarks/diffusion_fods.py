"""Spherical deconvolution, peaks and responses: seconds, beside MRtrix, and how far the two are apart.

Run from anywhere; see `benchmarks/README.md`::

    python benchmarks/diffusion_fods.py                                    # the brain beside the repository, on the CPU
    python benchmarks/diffusion_fods.py --tournier                         # also dwi2response tournier: minutes
    python benchmarks/diffusion_fods.py --export brain.npz                 # write that brain and do nothing else
    python benchmarks/diffusion_fods.py --device cuda:0 --brain brain.npz

dwi2fod, sh2peaks and dwi2response of MRtrix run on as many threads, in the same run, where they are installed. A GPU
machine needs no nibabel; there the GPU is held against the CPU.
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
from napari_gpubio.diffusion.fods.estimate import estimate_response
from napari_gpubio.diffusion.fods.harmonics import half_sphere
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.response import Response, write_response
from napari_gpubio.diffusion.fods.run import deconvolve, find_peaks
from napari_gpubio.diffusion.fods.settings import CsdSettings, HighestFa, Tournier, TwoTissues
from napari_gpubio.diffusion.fods.tissues import estimate_tissue_responses
from napari_gpubio.diffusion.model import DiffusionScan

BRAIN = ROOT.parent / "shared" / "data" / "dwi" / "whole_brain_b1000"
# Of dwi2response tournier (MRtrix 3.0.3) on that brain, with which all deconvolve.
RESPONSE = (7167.16, -2418.77, 548.423, -76.154, 9.303, -10.556)
ORDERS, PRECISIONS = (8, 6), ("double", "single")
REPEATS, ON_GPU = 2, 9
EVERY = 10  # voxel in which several tissues are deconvolved


class Brain(NamedTuple):
    """A scan, its mask, and the voxels of it in which several tissues are deconvolved."""

    scan: DiffusionScan
    mask: Array
    some: Array


def load(folder: Path, packed: Path | None) -> Brain:
    """The scan of an npz, or of a folder with dwi.nii.gz and its mask."""
    if packed is not None:
        with np.load(packed) as z:
            table_of = {name: z[name] for name in ("bvals", "directions", "affine")}
            return brain_of(DiffusionScan(data=z["data"], **table_of), z["mask"])
    from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask

    scan = read_dwi(folder / "dwi.nii.gz")
    return brain_of(replace(scan, notes=()), read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine))


def brain_of(scan: DiffusionScan, mask: Array) -> Brain:
    some = np.zeros(mask.shape, bool)
    some[tuple(np.argwhere(mask)[::EVERY].T)] = True
    return Brain(scan, mask, some)


def export(brain: Brain, path: Path) -> None:
    """Write what `load` reads."""
    scan = brain.scan
    np.savez_compressed(
        path, data=scan.data, mask=brain.mask, bvals=scan.bvals, directions=scan.directions, affine=scan.affine
    )


def response_of(scan: DiffusionScan) -> Response:
    return Response(coefficients=np.array(RESPONSE), bvals=(scan.shells()[-1],))


# -- this program -----------------------------------------------------------------------------------------------------


def timed_row(by: str, device: Device, voxels: int, work: Any, repeats: int | None = None) -> dict[str, Any]:
    timing = timed_on(device, work, repeats or (ON_GPU if device.is_gpu else REPEATS))
    row = {"by": by, "voxels": voxels, "seconds": timing.seconds, "median": timing.median}
    return row if device.is_gpu else {**row, "cpu_seconds": timing.cpu_seconds}


def own_rows(brain: Brain, device: Device) -> tuple[list[dict[str, Any]], dict[str, FodField]]:
    """Seconds of whole calls, and the FODs of each."""
    scan, response, rows, fods = brain.scan, response_of(brain.scan), [], dict[str, FodField]()
    voxels = int(brain.mask.sum())
    for lmax in ORDERS:
        for precision in PRECISIONS:
            settings = CsdSettings(lmax=lmax, precision=precision)
            work = partial(deconvolve, scan, response, brain.mask, settings, device=device)
            name = f"one tissue, lmax {lmax}, {precision}"
            rows.append(timed_row(name, device, voxels, work))
            fods[name] = work()
    first = next(iter(fods.values()))
    rows.append(timed_row("peaks, lmax 8", device, voxels, partial(find_peaks, first, device=device)))
    tissues = estimate_tissue_responses(scan, brain.mask, TwoTissues(), device=device)
    work = partial(deconvolve, scan, tissues, brain.some, device=device)
    rows.append(timed_row("two tissues, lmax 8", device, int(brain.some.sum()), work, 1))
    fods["two tissues, lmax 8"] = work()
    for settings in (HighestFa(), Tournier()):
        work = partial(estimate_response, scan, brain.mask, settings, device=device)
        rows.append(timed_row(f"response, {settings.kind}", device, voxels, work, 1))
    work = partial(estimate_tissue_responses, scan, brain.mask, TwoTissues(), device=device)
    rows.append(timed_row("responses of two tissues", device, voxels, work, 1))
    return rows, fods


# -- MRtrix -----------------------------------------------------------------------------------------------------------


class Peer:
    """MRtrix on the same brain, with files in a folder."""

    def __init__(self, brain: Brain, folder: Path) -> None:
        from napari_gpubio.core.volumes import write_volume
        from napari_gpubio.diffusion.io.gradients import write_fsl_gradients

        self.folder, scan = folder, brain.scan
        write_volume(self.path("scan.nii"), scan.data, scan.affine)
        table_files = self.path("scan.bval"), self.path("scan.bvec")
        write_fsl_gradients(*table_files, scan.bvals, scan.directions, scan.affine)
        bval, bvec = table_files
        self.run("mrconvert", self.path("scan.nii"), "-fslgrad", bvec, bval, self.path("scan.mif"))
        write_volume(self.path("mask.nii"), brain.mask, scan.affine)
        write_volume(self.path("some.nii"), brain.some, scan.affine)
        write_response(self.path("wm.txt"), response_of(scan))
        x, y, z = half_sphere(CsdSettings().constraint_directions).T
        np.savetxt(self.path("same.txt"), np.stack([np.arctan2(y, x), np.arccos(z)], axis=1), fmt="%.12f")

    def path(self, name: str) -> Path:
        """A file in the folder."""
        return self.folder / name

    def run(self, program: str, *words: object) -> tuple[float, float]:
        """Run a program; wall and processor seconds."""
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        options = ["-quiet", "-force", "-nthreads", thread_count()]
        subprocess.run([program, *map(str, (*words, *options))], check=True, cwd=self.folder)
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def row(self, by: str, voxels: int, *words: Any) -> dict[str, Any]:
        """Run a program; a line of the results."""
        wall, busy = self.run(*words)
        return {"by": by, "voxels": voxels, "seconds": wall, "median": wall, "cpu_seconds": busy}

    def read(self, name: str) -> Array:
        """The array of an image in the folder."""
        from napari_gpubio.core.volumes import read_array

        return np.asarray(read_array(self.path(name))[0])


def peer_rows(
    brain: Brain, fods: dict[str, FodField], tissues: tuple[Response, ...], folder: Path, tournier: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Seconds of MRtrix's programs with reading and writing of plain files, and how far FODs are apart."""
    peer, rows, compared = Peer(brain, folder), list[dict[str, Any]](), list[dict[str, Any]]()
    voxels, few = int(brain.mask.sum()), int(brain.some.sum())
    csd = ("dwi2fod", "csd", "scan.mif", "wm.txt", "fod.nii", "-mask", "mask.nii", "-lmax")
    for lmax in ORDERS[::-1]:
        for which, more in (("its own directions", ()), ("the same directions", ("-directions", "same.txt"))):
            row = peer.row(f"dwi2fod csd, lmax {lmax}, {which}", voxels, *csd, lmax, *more)
            rows += [row] if not more else []
            for precision in PRECISIONS:
                own = fods[f"one tissue, lmax {lmax}, {precision}"]
                compared.append(agreement(f"lmax {lmax}, {precision}, {which}", own, peer.read("fod.nii"), brain.mask))
    rows.append(peer.row("sh2peaks, lmax 8", voxels, "sh2peaks", "fod.nii", "peaks.nii", "-mask", "mask.nii"))
    for tissue, response in zip(("white", "fluid"), tissues, strict=True):
        write_response(peer.path(f"{tissue}.txt"), response)
    msmt = ("dwi2fod", "msmt_csd", "scan.mif", "white.txt", "w.nii", "fluid.txt", "f.nii", "-mask", "some.nii")
    for which, more in (("its own directions", ()), ("the same directions", ("-directions", "same.txt"))):
        row = peer.row(f"dwi2fod msmt_csd, {which}", few, *msmt, *more)
        rows += [row] if not more else []
        compared.append(agreement(f"two tissues, {which}", fods["two tissues, lmax 8"], peer.read("w.nii"), brain.some))
    if tournier:
        words = ("dwi2response", "tournier", "scan.mif", "t.txt", "-mask", "mask.nii")
        rows.append(peer.row("dwi2response tournier", voxels, *words))
    return rows, compared


# -- both -------------------------------------------------------------------------------------------------------------


def agreement(what: str, own: FodField, theirs: Array, mask: Array) -> dict[str, Any]:
    """Angular correlation (Anderson 2005) and differences of FODs."""
    a, b = own.coefficients[mask].astype(np.float64), theirs[mask].astype(np.float64)
    both = np.isfinite(b).all(axis=1) & (b != 0).any(axis=1) & own.mask[mask]
    a, b = a[both], b[both]
    x, y = a[:, 1:], b[:, 1:]
    correlation = (x * y).sum(axis=1) / np.maximum(np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1)), 1e-30)
    apart = np.abs(a - b).max(axis=1)
    return {
        "what": what,
        "acc_median": float(np.median(correlation)),
        "acc_p1": float(np.percentile(correlation, 1)),
        "apart_p99": float(np.percentile(apart, 99)),
        "apart_max": float(apart.max()),
    }


def agreement_lines(rows: list[dict[str, Any]]) -> list[str]:
    columns = ("", "ACC, median", "ACC, 1 %", "apart, 99 %", "apart, most")
    figures = ("acc_median", "acc_p1")
    return table(
        columns,
        [
            line(
                row["what"],
                *(f"{row[name]:.5f}" for name in figures),
                f"{row['apart_p99']:.2g}",
                f"{row['apart_max']:.2g}",
            )
            for row in rows
        ],
    )


def on_the_gpu(brain: Brain, fods: dict[str, FodField]) -> Iterator[dict[str, Any]]:
    """How far the GPU's FODs are from the CPU's."""
    for name, field in fods.items():
        if name.startswith("one tissue"):
            settings = CsdSettings(**field.parameters["deconvolution"])
            here = deconvolve(brain.scan, response_of(brain.scan), brain.mask, settings, device=CPU)
            yield agreement(f"{name}, beside the CPU", field, here.coefficients, brain.mask)


def run_brain(report: Report, brain: Brain, device: Device, tournier: bool) -> None:
    """Time and agreement on one scan."""
    rows, fods = own_rows(brain, device)
    compared = list[dict[str, Any]]()
    if device.is_gpu:
        compared += on_the_gpu(brain, fods)
    elif shutil.which("dwi2fod") and importlib.util.find_spec("nibabel"):
        tissues = estimate_tissue_responses(brain.scan, brain.mask, TwoTissues(), device=device)
        with tempfile.TemporaryDirectory() as folder:
            more, compared = peer_rows(brain, fods, tissues, Path(folder), tournier)
        rows += more
    sizes = " x ".join(map(str, brain.scan.data.shape))
    report.add("seconds", f"Seconds, a brain of {sizes}", rows, *time_lines(rows))
    report.add("agreement", "Agreement of FODs", compared, *agreement_lines(compared))


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--scan", type=Path, default=BRAIN, help="folder of dwi.nii.gz and nodif_brain_mask.nii.gz")
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="the scan, as --export writes it")
    parser.add_argument("--export", type=Path, metavar="NPZ", help="write the scan and do nothing else")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--tournier", action="store_true", help="also dwi2response tournier, which takes minutes")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    brain = load(arguments.scan, arguments.brain)
    if arguments.export is not None:
        return export(brain, arguments.export)
    device, head = choose_device(arguments.device), {**header(quick=False), "threads": thread_count()}
    path = result_path(arguments.json, "diffusion_fods", head["date"], device)
    about = "Response of dwi2response tournier; two tissues in every tenth voxel, of b0 and one shell."
    report = Report(path, "Spherical deconvolution", head, f"{head['threads']} threads of the CPU. {about}")
    return report.run({"brain": partial(run_brain, report, brain, device, arguments.tournier)})


if __name__ == "__main__":
    main()

"""Connectomes and density maps beside MRtrix: every cell, every assignment, every voxel, and the time.

The fibers are a whole brain of the phantom, traced from its white matter, and copies of it that are shifted a little::

    python benchmarks/tractograms_connectome.py --fibers 200000          # needs MRtrix's tck2connectome and tckmap
    python benchmarks/tractograms_connectome.py --fibers 10000000 --no-mrtrix
"""

import argparse
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, header, line, result_path, table, written
from tractograms_dissection import first, whole_brain

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.files import sample_path
from napari_gpubio.fibers import GeodesicSettings, geodesic_connectome
from napari_gpubio.tractograms.connectome import (
    AllVoxels,
    Backwards,
    ConnectomeSettings,
    EndVoxels,
    Radial,
    connectome,
)
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.model import Tractogram

ATLAS = sample_path("brain_phantom/atlas.nii.gz")
MAPPED = 2000  # fibers whose density is compared
FINE_MM = 0.01  # between their points
WAYS: dict[str, tuple[ConnectomeSettings, list[str], dict[str, Any], list[str]]] = {
    "radial search, 4 mm": (ConnectomeSettings(), [], {}, []),
    "radial search, 2 mm": (
        ConnectomeSettings(assignment=Radial(radius_mm=2.0)), ["-assignment_radial_search", "2"], {}, [],
    ),
    "end voxels": (ConnectomeSettings(assignment=EndVoxels()), ["-assignment_end_voxels"], {}, []),
    "search backwards, 10 mm": (
        ConnectomeSettings(assignment=Backwards(backwards_mm=10.0)), ["-assignment_reverse_search", "10"], {}, [],
    ),
    "all voxels": (ConnectomeSettings(assignment=AllVoxels()), ["-assignment_all_voxels"], {}, []),
    "mean length": (ConnectomeSettings(), [], {"of": "length_mm"}, ["-scale_length", "-stat_edge", "mean"]),
    "per volume of regions": (ConnectomeSettings(), [], {"per_node_volume": True}, ["-scale_invnodevol"]),
    "per length": (ConnectomeSettings(), [], {"per_length": True}, ["-scale_invlength"]),
}  # fmt: skip


def timed(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and processor seconds, and what it returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = act()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def mrtrix(*words: object) -> tuple[float, float]:
    """Run a program of MRtrix on one thread; wall and processor seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*map(str, words), "-quiet", "-force", "-nthreads", "1"], check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def beside_mrtrix(path: Path, folder: Path) -> list[dict[str, Any]]:
    """The same matrices of the same file."""
    rows, atlas = [], diffusion.io.read_atlas(ATLAS)
    for name, (settings, assignment, options, scale) in WAYS.items():
        out = folder / "matrix.csv"
        _, theirs = mrtrix("tck2connectome", path, ATLAS, out, *assignment, *scale, "-symmetric", "-zero_diagonal")
        expected = np.loadtxt(out, delimiter=",")
        _, ours, found = timed(lambda s=settings: connectome(path, atlas, s))
        matrix = np.nan_to_num(found.matrix(**options))
        np.fill_diagonal(matrix, 0.0)
        wrong = ~np.isclose(matrix, expected, rtol=1e-4, atol=1e-6)
        rows.append(
            {"way": name, "sum": matrix.sum(), "theirs": expected.sum(), "different": int(wrong.sum()),
             "cpu_seconds": ours, "their_cpu_seconds": theirs}
        )  # fmt: skip
    return rows


def finely(fibers: Tractogram) -> Tractogram:
    """The same curves with points at most `FINE_MM` apart."""
    counts = np.maximum(np.ceil(fibers.lengths_mm() / FINE_MM).astype(int), 1) + 1
    lines = []
    for fiber, count in zip(fibers, counts, strict=True):
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(fiber, axis=0), axis=1))])
        at = np.unique(np.concatenate([along, np.linspace(0.0, along[-1], count)]))
        lines.append(np.stack([np.interp(at, along, axis) for axis in fiber.T], axis=1))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lines])])
    return Tractogram(
        points=np.concatenate(lines).astype(np.float32), offsets=offsets, affine=fibers.affine, shape=fibers.shape
    )


def density_beside_mrtrix(fibers: Tractogram, folder: Path) -> dict[str, Any]:
    """Number of fibers in each voxel: ours is exact, tckmap's counts voxels that hold a point."""
    fine, path, out = finely(fibers), folder / "fine.tck", folder / "density.nii"
    write_tractogram(path, fine)
    mrtrix("tckmap", path, out, "-template", ATLAS, "-upsample", "1")
    expected, affine = diffusion.io.read_volume(out)
    density = tractograms.maps.density(fine, shape=expected.shape, affine=affine, device="cpu")
    difference = density - np.rint(expected).astype(np.int64)
    return {
        "fibers": len(fine), "visits": int(density.sum()), "their_visits": int(np.rint(expected).sum()),
        "voxels": int((density > 0).sum()), "different": int((difference != 0).sum()),
        "more": int(difference.clip(0).sum()), "fewer": int((-difference).clip(0).sum()),
    }  # fmt: skip


def lines_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    columns = ("matrix", "sum", "MRtrix's sum", "cells that differ", "CPU s", "MRtrix's CPU s", "ratio")
    cells = [
        line(
            one["way"], f"{one['sum']:.6g}", f"{one['theirs']:.6g}", one["different"], f"{one['cpu_seconds']:.2f}",
            f"{one['their_cpu_seconds']:.2f}", f"{one['their_cpu_seconds'] / one['cpu_seconds']:.1f}",
        )
        for one in rows
    ]  # fmt: skip
    return table(columns, cells)


def sentence_of(found: dict[str, Any]) -> str:
    return (
        f"Density of {found['fibers']:,} fibers with points at most {FINE_MM} mm apart, in {found['voxels']:,} voxels: "
        f"{found['visits']:,} visits, tckmap {found['their_visits']:,}; {found['different']:,} voxels differ, ours has "
        f"{found['more']:,} more visits there (corners without a point) and {found['fewer']:,} fewer."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fibers", type=int, default=200_000)
    parser.add_argument("--device", default="auto", help="for tracking")
    parser.add_argument("--no-mrtrix", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    fibers = first(whole_brain(arguments.fibers, arguments.device), arguments.fibers)
    atlas, rows, density = diffusion.io.read_atlas(ATLAS), [], {}
    for settings, *_ in WAYS.values():
        connectome(first(fibers, 100), atlas, settings)  # compiles
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "fibers.tck"
        write_tractogram(path, fibers)
        wall, cpu, found = timed(lambda: connectome(path, atlas))
        if not arguments.no_mrtrix:
            rows = beside_mrtrix(path, folder)
            density = density_beside_mrtrix(fibers.select(range(MAPPED)), folder)
    field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device=device)
    small = GeodesicSettings(seeds_per_region=2)
    geodesic_connectome(field, atlas, small, device=device)  # compiles
    shot, _, geodesics = timed(lambda: geodesic_connectome(field, atlas, device=device))
    facts = header(quick=False) | {"device": device.describe(), "fibers": len(fibers), "points": len(fibers.points)}
    name = "tractograms_connectome_cuda" if device.is_gpu else "tractograms_connectome"
    report = Report(result_path(arguments.json, name, facts["date"]), "Connectome", facts, __doc__ or "")
    speed = {
        "connectome of a tck": {"seconds": wall, "cpu_seconds": cpu, "found": found.assigned},
        f"geodesic connectome, {len(atlas)} regions": {"seconds": shot, "found": len(geodesics.fibers)},
    }
    cells = [line(what, f"{one['seconds']:.2f}", f"{one['found']:,}") for what, one in speed.items()]
    report.add("speed", f"{len(fibers):,} fibers", speed, *table(("", "seconds", "connections"), cells))
    if rows:
        report.add("mrtrix", "Beside tck2connectome of MRtrix, one thread, files and all", rows, *lines_of(rows))
        report.add("density", "Beside tckmap of MRtrix", density, sentence_of(density))
    print(written(report.path))


if __name__ == "__main__":
    main()

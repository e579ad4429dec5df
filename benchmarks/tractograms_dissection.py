"""Speed of dissection: many fibers against three regions, a sphere that is dragged, a density map; beside MRtrix.

The fibers are a whole brain of the phantom, traced from its white matter, and copies of it that are shifted a little::

    python benchmarks/tractograms_dissection.py --fibers 10000000 --sphere-fibers 1000000     # a GPU
    python benchmarks/tractograms_dissection.py --device cpu --fibers 200000 --mrtrix         # a CPU, tckedit beside it
"""

import argparse
import dataclasses
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, header, line, result_path, table, written

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.regions import Region, Sphere
from napari_gpubio.tractograms.dissection import Dissector, through
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.model import Tractogram

LABELS = (3, 21, 15)  # motor cortex, brain stem, and a nucleus
SHIFT_MM = 0.5
DRAG = 20  # places of the sphere


def whole_brain(count: int, device: str) -> Tractogram:
    """So many fibers: those of the phantom's white matter, again and again, each copy a little beside the others."""
    field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device=device)
    seeds = fiber_tracking.seeds.white_matter_points(field, per_voxel=4)
    settings = fiber_tracking.EuDX(step_mm=0.5, points_every=2)
    fibers = fiber_tracking.track(field, seeds, fiber_tracking.Principal(), settings, device=device)
    copies = -(-count // len(fibers))
    shifts = np.random.default_rng(1).uniform(-SHIFT_MM, SHIFT_MM, (copies, 3)).astype(np.float32)
    points = np.concatenate([fibers.points + shift for shift in shifts])
    offsets = np.concatenate([[0], np.cumsum(np.tile(fibers.counts, copies))])[: count + 1]
    return Tractogram(points=points[: offsets[-1]], offsets=offsets, affine=field.affine, shape=field.shape)


def first(fibers: Tractogram, count: int) -> Tractogram:
    """The first fibers, without a copy."""
    offsets = fibers.offsets[: count + 1]
    return dataclasses.replace(fibers, points=fibers.points[: offsets[-1]], offsets=offsets)


def regions() -> list[Region]:
    atlas = diffusion.io.read_atlas(sample_path("brain_phantom/atlas.nii.gz"))
    return [atlas.region(label) for label in LABELS]


def timed(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and processor seconds, and what it returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = act()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def condition_of(asked: list[Region]) -> Any:
    first, second, third = (through(region) for region in asked)
    return first & (second | ~third)


def rows_of(fibers: Tractogram, sphere_fibers: Tractogram, device: str) -> dict[str, dict[str, float]]:
    asked, rows = regions(), {}
    small = fibers.select(range(100))
    Dissector(small, device=device).select(condition_of(asked) & through(ball(0)))  # compiles
    tractograms.maps.density(small, device=device)
    dissector = Dissector(fibers, device=device)
    wall, cpu, kept = timed(lambda: dissector.select(condition_of(asked)))
    rows["three regions, first time"] = {"seconds": wall, "cpu_seconds": cpu, "kept": int(kept.sum())}
    dissector._known.clear()
    wall, cpu, kept = timed(lambda: dissector.select(condition_of(asked)))
    rows["three regions, fibers in place"] = {"seconds": wall, "cpu_seconds": cpu, "kept": int(kept.sum())}
    dissector.close()
    dragged = Dissector(sphere_fibers, device=device)
    dragged.select(through(ball(0)))
    each = [timed(lambda n=n: dragged.select(through(ball(n)))) for n in range(1, DRAG)]
    rows[f"a dragged sphere over {len(sphere_fibers):,}"] = {
        "seconds": float(np.median([wall for wall, _, _ in each])),
        "cpu_seconds": float(np.median([cpu for _, cpu, _ in each])),
        "kept": int(np.mean([found.sum() for _, _, found in each])),
    }
    dragged.close()
    wall, cpu, density = timed(lambda: tractograms.maps.density(sphere_fibers, device=device))
    rows[f"density of {len(sphere_fibers):,}"] = {"seconds": wall, "cpu_seconds": cpu, "kept": int(density.max())}
    return rows


def ball(n: int) -> Sphere:
    return Sphere(name="ball", center_mm=(-30.0 + 3.0 * n, -5.0, 20.0), radius_mm=8.0)


def beside_mrtrix(fibers: Tractogram) -> dict[str, dict[str, float]]:
    """Tckedit with the same three regions, one after the other; it reads points, so it may keep fewer."""
    rows = {}
    asked = regions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fibers.tck"
        write_tractogram(path, fibers)
        dissector = Dissector(tractograms.io.read_tractogram(path), device="cpu")
        for region in asked:
            mask, out = Path(folder) / "mask.nii.gz", Path(folder) / "kept.tck"
            write_volume(mask, region.voxels.astype(np.uint8), region.affine)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            words = ["tckedit", str(path), str(out), "-include", str(mask), "-force", "-quiet", "-nthreads", "1"]
            subprocess.run(words, check=True)
            wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            count = len(tractograms.io.read_tractogram(out))
            rows[f"tckedit, {region.name}"] = {"seconds": wall, "cpu_seconds": cpu, "kept": count}
            dissector._known.clear()
            wall, cpu, found = timed(lambda r=region: dissector.select(through(r)))
            rows[f"ours, {region.name}"] = {"seconds": wall, "cpu_seconds": cpu, "kept": int(found.sum())}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--fibers", type=int, default=200_000)
    parser.add_argument("--sphere-fibers", type=int, default=100_000)
    parser.add_argument("--mrtrix", action="store_true", help="time tckedit beside it, on one core")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    fibers = whole_brain(max(arguments.fibers, arguments.sphere_fibers), arguments.device)
    some, fibers = first(fibers, arguments.sphere_fibers), first(fibers, arguments.fibers)
    size = (fibers.points.nbytes + fibers.offsets.nbytes) / 1e9
    facts = header(False) | {"device": device.describe(), "fibers": len(fibers), "points": len(fibers.points)}
    name = "tractograms_dissection_cuda" if device.is_gpu else "tractograms_dissection"
    report = Report(result_path(arguments.json, name, facts["date"]), "Dissection", facts, __doc__ or "")
    rows = rows_of(fibers, some, arguments.device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    title = f"{len(fibers):,} fibers, {len(fibers.points):,} points, {size:.2f} GB; {peak:.1f} GB of memory at most"
    report.add("rows", title, rows, *lines_of(rows))
    if arguments.mrtrix and shutil.which("tckedit"):
        found = beside_mrtrix(dataclasses.replace(fibers, per_fiber={}, per_point={}))
        report.add("mrtrix", "Beside tckedit of MRtrix, one thread, files and all", found, *lines_of(found))
    print(written(report.path))


def lines_of(rows: dict[str, dict[str, float]]) -> list[str]:
    cells = [line(name, f"{r['seconds']:.4f}", f"{r['cpu_seconds']:.3f}", f"{r['kept']:,}") for name, r in rows.items()]
    return table(["", "seconds", "cpu s", "kept"], cells)


if __name__ == "__main__":
    main()

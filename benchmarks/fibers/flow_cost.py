"""Seconds and memory of the flow, in processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, Report, line, load_average, table

from fibers.flow_brain import end_regions, load_brain
from napari_gpubio.core.device import choose_device
from napari_gpubio.diffusion import FixelField
from napari_gpubio.diffusion.regions import Atlas, Region
from napari_gpubio.fibers.flow import FlowSettings, flow
from napari_gpubio.fibers.flow.run import transport_problem
from napari_gpubio.fibers.kernels.transport.cpu import transport_of
from napari_gpubio.fibers.kernels.transport.gpu import transport_of as gpu_transport_of
from tests.fibers.flow.flow_samples import field_of, grid

# What is freed goes back to the system at once, so that the most is that of the arrays.
ALONE = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


def halved(fixels: FixelField, masks: Array) -> tuple[FixelField, Array]:
    """The same fixels and regions in voxels of half the size, with directions turned by 3 degrees."""
    fine = [np.repeat(np.arange(n), 2) for n in fixels.shape]
    at = np.ix_(*fine)
    counts, first = fixels.counts[at], fixels.first[at].ravel()
    repeats = counts.ravel().astype(np.int64)
    which = np.repeat(first - (np.cumsum(repeats) - repeats), repeats) + np.arange(repeats.sum())
    noise = np.random.default_rng(0).normal(size=(len(which), 3)) * np.tan(np.radians(3.0)) / np.sqrt(2.0)
    directions = fixels.directions[which] + noise
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    affine = fixels.affine @ np.diag([0.5, 0.5, 0.5, 1.0])
    affine[:3, 3] -= 0.25 * fixels.affine[:3, :3].sum(axis=1)
    finer = FixelField(
        counts=counts,
        directions=directions.astype(np.float32),
        amplitudes=fixels.amplitudes[which],
        affine=affine,
    )
    return finer, np.stack([mask[at] for mask in masks])


def cost(report: Report, device: str) -> None:
    """Seconds and memory at 2.5 mm and at half of it, each in a process of its own; on a CPU of one thread and two."""
    on_gpu = choose_device(device).is_gpu
    subject, regions = load_brain(), end_regions()
    masks = np.stack([region.voxels for region in regions])
    fine, fine_masks = halved(subject.fixels, masks if on_gpu else masks[:: len(masks) // 12])
    found, rows = [], []
    with tempfile.TemporaryDirectory() as name:
        for text, fixels, held in (("2.5 mm", subject.fixels, masks), ("1.25 mm", fine, fine_masks)):
            path = Path(name) / "case.npz"
            names = ("counts", "directions", "amplitudes", "affine")
            np.savez(path, masks=held, **{one: getattr(fixels, one) for one in names})
            for threads in (None,) if on_gpu else (1, 2):
                words = [sys.executable, sys.argv[0], "--alone", str(path), "--device", device]
                where = os.environ | ({} if threads is None else ALONE | {"NUMBA_NUM_THREADS": str(threads)})
                made = subprocess.run(words, env=where, capture_output=True, text=True, check=True)
                numbers = json.loads(made.stdout.splitlines()[-1])
                found.append({"voxels": text, "threads": threads, "load_average": load_average(), **numbers})
                each = [f"{numbers[key]:.2f} ({numbers[f'{key}_cpu']:.2f})" for key in ("nodes_s", "transport_s")]
                each.append(
                    f"{numbers['flow_s'] / numbers['regions']:.3f} ({numbers['flow_s_cpu'] / numbers['regions']:.3f})"
                )
                each += [f"{1e3 * numbers[key]:.0f}" for key in ("transport_again_s", "flow_again_s")]
                memory = [f"{numbers[key]:.0f}" for key in ("imports_mb", "fixels_mb", "transport_mb", "flow_mb")]
                rows.append(
                    line(text, threads or "GPU", f"{numbers['fixels']:,}", f"{numbers['regions']}", *each, *memory)
                )
    columns = ["voxels", "threads", "fixels", "regions", "nodes, s", "matrix T, s", "s a region"]
    columns += ["T again, ms", "all regions again, ms"]
    columns += ["program, MB", "with fixels and regions", "most until T", "most until the end"]
    text = (
        "Wall seconds, and those of processors in brackets, the first time, with what is compiled for it; resident "
        "memory of the whole process. Again: at once afterwards, T with the nodes. The finer voxels "
        "hold the same fixels, turned by 3 degrees."
    )
    report.add("cost", "Seconds and memory of the flow", found, *table(columns, rows), "", text)


def alone(path: str, device: str) -> dict[str, Any]:
    """Seconds and memory of this process, which does nothing else."""
    chosen = choose_device(device)
    made_of = partial(gpu_transport_of, device=chosen) if chosen.is_gpu else transport_of
    affine, x = grid((24, 9, 9))
    inside = np.abs(x[..., 1:]).max(axis=-1) < 6.0
    small = field_of([(inside, np.broadcast_to([1.0, 0.0, 0.0], x.shape))], affine)
    flow(small, [Region(name="compiles", voxels=inside & (x[..., 0] < -18.0), affine=affine)], device=chosen)
    numbers: dict[str, Any] = {"imports_mb": megabytes("VmRSS")}
    with np.load(path) as file:
        fixels = FixelField(**{name: file[name] for name in ("counts", "directions", "amplitudes", "affine")})
        labels = np.zeros(fixels.shape, np.int32)
        for label, mask in enumerate(file["masks"], start=1):
            labels[mask & (labels == 0)] = label
    regions = Atlas(labels=labels, affine=fixels.affine)
    numbers |= {"regions": len(regions)}
    numbers |= {"fixels": len(fixels.directions), "fixels_mb": megabytes("VmRSS")}
    stages = {
        "nodes_s": lambda: transport_problem(fixels, regions, FlowSettings()),
        "transport_s": lambda: made_of(transport_problem(fixels, regions, FlowSettings())[0]),
        "flow_s": lambda: flow(fixels, regions, device=chosen),
    }
    stages |= {"transport_again_s": lambda: again(stages["transport_s"]), "flow_again_s": stages["flow_s"]}

    def again(work: Callable[[], Any]) -> Any:
        fixels.cache.clear()
        return work()

    for name, work in stages.items():
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most so far becomes what there is now
        begun, used = time.perf_counter(), time.process_time()
        made = work()
        numbers |= {name: time.perf_counter() - begun, f"{name}_cpu": time.process_time() - used}
        numbers[name.replace("_s", "_mb")] = megabytes("VmHWM")
        numbers[f"{name.replace('_s', '_kept_mb')}"] = megabytes("VmRSS")
    return numbers | {"visits": len(made.visited)}


def megabytes(what: str) -> float:
    """A number of Linux about the memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(text.split()[1]) for text in lines if text.startswith(what)) / 1e3

"""Rows h: EuDX beside DIPY's."""

import importlib.util
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import numpy as np
from common import Array, Row, limited_threads, row, skipped, thread_counts, threads_text, timed

from fibers.brain import Plan, white_matter_seeds
from fibers.tracing import recorded
from napari_gpubio.core.device import CPU
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.settings import EuDX, InTensors


def peers(plan: Plan) -> Iterator[Row]:
    """Rows h: DIPY's EuDX beside ours, the same tensors, seeds, step and FA stop, one thread and all."""
    name = "h EuDX beside DIPY"
    if isinstance(plan.brain, str) or importlib.util.find_spec("dipy") is None:
        yield skipped(name, plan.brain if isinstance(plan.brain, str) else "dipy is not installed")
        return
    field = plan.brain.field
    seeds = white_matter_seeds(field, 2000 if plan.quick else 10_000)
    settings = EuDX(integrator="euler", step_mm=0.5, fa_stop=0.1, min_length_mm=0.0, max_length_mm=500.0)
    for threads in thread_counts():
        yield _our_eudx(plan, field, seeds, settings, threads)
    for label, threads, work in dipy_trackers(field, seeds):
        kept: list[Any] = []
        timing = timed(lambda w=work, k=kept: (k.clear(), k.extend(w())), min(plan.repeats, 3))
        points = int(sum(map(len, kept)))
        yield row(
            f"h {label}", CPU, timing, points, "points", threads=threads, fibers=len(kept),
            fibers_per_second=len(kept) / timing.seconds, mean_steps=points / max(len(kept), 1),
            version=metadata.version("dipy"),
        )  # fmt: skip


def _our_eudx(plan: Plan, field: TensorField, seeds: Array, settings: InTensors, threads: int) -> Row:
    with limited_threads(threads):
        directions = Principal()
        timing = timed(lambda: track(field, seeds, directions, settings, device="cpu"), plan.repeats)
        fibers = track(field, seeds, directions, settings, device="cpu")
    return row(
        f"h ours: track(), EuDX, {threads_text(threads)}", CPU, timing, len(fibers.points), "points", threads=threads,
        fibers=len(fibers), fibers_per_second=len(fibers) / timing.seconds,
        mean_steps=len(fibers.points) / max(len(fibers), 1), settings=recorded(settings),
    )  # fmt: skip


def dipy_trackers(field: TensorField, seeds: Array) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """DIPY's two EuDX trackers on our principal directions: name, threads, function that gives the streamlines."""
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion
    from dipy.tracking.tracker import eudx_tracking

    fa = fa_map(field).astype(np.float64)
    peaks = dipy_peaks(field, fa)

    def local() -> Any:
        stop = ThresholdStoppingCriterion(fa, 0.1)
        return list(LocalTracking(peaks, stop, seeds, field.affine, step_size=0.5, maxlen=1000))

    def parallel(threads: int) -> Any:
        stop = ThresholdStoppingCriterion(fa, 0.1)
        made = eudx_tracking(
            seeds, stop, field.affine, pam=peaks, step_size=0.5, max_len=500, nbr_threads=threads, max_cross=1
        )
        return list(getattr(made, "streamlines", made))

    yield "DIPY LocalTracking, EuDX, 1 thread", 1, local
    for threads in thread_counts():
        yield f"DIPY eudx_tracking, {threads_text(threads)}", threads, lambda t=threads: parallel(t)


def dipy_peaks(field: TensorField, fa: Array) -> Any:
    """Our principal directions as DIPY's peaks, in its voxel axes."""
    from dipy.data import get_sphere
    from dipy.direction.peaks import PeaksAndMetrics

    sphere = get_sphere(name="repulsion724")
    axes = field.affine[:3, :3] / np.linalg.norm(field.affine[:3, :3], axis=0)
    directions = field.eigen.vectors[..., 0, :] @ axes
    nearest = np.abs(directions.reshape(-1, 3) @ sphere.vertices.T).argmax(axis=1).reshape(fa.shape)
    peaks = PeaksAndMetrics()
    peaks.sphere, peaks.affine, peaks.shm_coeff = sphere, field.affine, None
    peaks.peak_dirs = np.where(field.mask[..., None], directions, 0.0)[..., None, :]
    peaks.peak_values, peaks.qa, peaks.gfa = fa[..., None], fa[..., None], fa
    peaks.peak_indices = np.where(field.mask, nearest, -1)[..., None].astype(np.int64)
    peaks.ang_thr, peaks.qa_thr, peaks.total_weight = 60.0, 0.0, 0.5
    return peaks

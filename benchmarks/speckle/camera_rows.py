"""Rows c and d: the seed's table, frame by frame from the host to maps on the host; whole stacks, on several GPUs."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from common import Row, row, skipped, timed
from jobs import Job

from napari_gpubio.core.device import Device
from napari_gpubio.speckle.run import contrast
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.stream import ContrastStream
from speckle.plan import FRAME_TARGET_MS, SEED_SHAPE, SEED_TABLE, Plan, frames_of
from speckle.rows import pixel_row

_SETTINGS = ContrastSettings(mask=False)
_STACK = 200


# -------------------------------------------------------------------------------------------------- rows c: the camera
def camera(plan: Plan) -> Iterator[Job]:
    """From a frame in the host's memory (on a GPU page-locked) to both maps there."""
    for rows, columns, cpu_ms, gpu_ms in SEED_TABLE:
        paper = f"{cpu_ms:g} ms CPU, {gpu_ms:g} ms GPU"
        yield Job(f"c {columns} x {rows}", partial(_frame, (rows, columns), paper, False, plan))
    yield Job("c 1392 x 1040, copied into the stream", partial(_frame, SEED_SHAPE, "", True, plan))


def _frame(shape: tuple[int, int], paper: str, copied: bool, plan: Plan, name: str) -> Row:
    (frame,) = frames_of(1, shape)
    with ContrastStream(_SETTINGS, shape, np.uint16, device=plan.device) as stream:
        for _ in range(2):  # both of a GPU's slots
            stream.slot()[...] = frame
            stream.push(stream.slot())

        def work() -> None:
            stream.push(frame if copied else stream.slot())

        timing = timed(work, plan.repeats)
    target = f"target {FRAME_TARGET_MS:g} ms" if shape == SEED_SHAPE and plan.device.is_gpu else ""
    return pixel_row(name, plan.device, timing, frame.size, paper=paper, target=target)


# ------------------------------------------------------------------------------------------------ rows d: whole stacks
def stacks(plan: Plan) -> Iterator[Job]:
    """A stack in one call, frames and maps in the host's memory."""
    counts = [n for n in (1, 2, 4, 8) if n <= len(plan.device.indices)] or [0]
    for gpus in counts:
        told = "CPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        yield Job(f"d {_STACK} frames, {told}", partial(_whole, gpus, plan))


def _whole(gpus: int, plan: Plan, name: str) -> Row:
    frames = frames_of(_STACK // (10 if plan.quick else 1))
    device = Device("cuda", plan.device.indices[:gpus]) if gpus else plan.device
    timing = timed(lambda: contrast(frames, _SETTINGS, device=device), 2 if plan.quick else 4)
    return row(
        name, device, timing, frames.size, "pixels", processors=max(1, gpus), compared_with=f"d {_STACK} frames, 1 GPU"
    )


def needs_gpu(letter: str) -> Iterator[Job]:
    """One row that says that a part is for GPUs."""
    yield Job(letter, lambda name: skipped(name, "needs a GPU: --device cuda:0"))

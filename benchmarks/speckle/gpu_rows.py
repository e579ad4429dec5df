"""Rows c to e: frames of a camera and whole stacks, from the host to the host; bandwidth of a GPU."""

from collections.abc import Iterator
from functools import partial
from unittest import mock

import numpy as np
from common import Row, row, timed, timed_by_events
from speed import Job

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.speckle.kernels.contrast import gpu
from napari_gpubio.speckle.registration import ShiftFinder, shift_frame
from napari_gpubio.speckle.run import ContrastStream, contrast
from napari_gpubio.speckle.settings import ContrastSettings
from speckle.plan import (
    COPY_SHARE_TARGET,
    FRAME_TARGET_MS,
    REGISTRATION_TARGET_MS,
    SEED_SHAPE,
    SEED_TABLE,
    Plan,
    frames_of,
    recipe_of,
    timed_resident,
)

_SETTINGS = ContrastSettings(mask=False)
_STACK = 200


# -------------------------------------------------------------------------------------------------- rows c: the camera
def camera(plan: Plan) -> Iterator[Job]:
    """From a frame in the host's memory (on a GPU page-locked) to both maps there."""
    for rows, columns, cpu_ms, gpu_ms in SEED_TABLE:
        paper = f"{cpu_ms:g} ms CPU, {gpu_ms:g} ms GPU"
        yield Job(f"c {columns} x {rows}", partial(_frame, (rows, columns), paper, False, plan))
    yield Job("c 1392 x 1040, copied into the stream", partial(_frame, SEED_SHAPE, "", True, plan))
    for told, shift in (("at rest", (0, 0)), ("moved", (7, -11))):
        yield Job(f"c 1392 x 1040, registration of a frame {told}", partial(_registration, shift, plan))


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
    return row(name, plan.device, timing, frame.size, "pixels", paper=paper, target=target)


def _registration(shift: tuple[int, int], plan: Plan, name: str) -> Row:
    """A frame of structure under speckle is shifted onto a reference, on one core of the host."""
    margin, rng = 16, np.random.default_rng(0)
    structure = 0.5 + rng.random([n // 8 + margin for n in SEED_SHAPE]).repeat(8, 0).repeat(8, 1)
    reference, frame = (
        (structure[margin - d[0] :, margin - d[1] :][: SEED_SHAPE[0], : SEED_SHAPE[1]] * light[0]).astype(np.uint16)
        for d, light in (((0, 0), frames_of(1)), (shift, frames_of(1)[:, ::-1]))
    )
    finder = ShiftFinder(reference)
    found = finder.find(frame)
    assert found == (-shift[0], -shift[1])
    timing = timed(lambda: shift_frame(frame, finder.find(frame) or (0, 0)), plan.repeats)
    return row(name, CPU, timing, frame.size, "pixels", target=f"target {REGISTRATION_TARGET_MS:g} ms")


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


_PIXELS = SEED_SHAPE[0] * SEED_SHAPE[1]
_BATCH, _COPY_BYTES = 256, 4 << 30
COPY = "e copy on the device"
BYTES_PER_PIXEL = 10  # 2 of the frame, 4 of each map


def bandwidth(plan: Plan) -> Iterator[Job]:
    """A copy, and K and SFI of a batch and of one frame; with IEEE divisions and with those within 1 ulp of them."""
    yield Job(COPY, partial(_copy, plan))
    for frames in (_BATCH, 8, 1):
        for window in (5, 7):
            for ieee in (0, 1):
                told = f"e {frames} frames, {window} x {window}{', IEEE divisions' if ieee else ''}"
                yield Job(told, partial(_kernels, frames, window, ieee, plan))


def _copy(plan: Plan, name: str) -> Row:
    import cupy

    with cupy.cuda.Device(plan.device.indices[0]):
        source, target = (cupy.zeros(_COPY_BYTES, np.uint8) for _ in range(2))
        here = cupy.cuda.get_current_stream()
        timing = timed_by_events(
            plan.device, lambda: target.data.copy_from_device_async(source.data, _COPY_BYTES, here), plan.repeats, 10
        )
    moved = 2 * _COPY_BYTES
    return row(name, plan.device, timing, moved // BYTES_PER_PIXEL, "pixels", bandwidth=moved / timing.seconds)


def _kernels(frames: int, window: int, ieee: int, plan: Plan, name: str) -> Row:
    with mock.patch.object(gpu, "IEEE", ieee):
        timing = timed_resident(recipe_of(ContrastSettings(window=window, mask=False)), frames, plan)
    pixels = frames * _PIXELS
    target = f"target {100 * COPY_SHARE_TARGET:g} % of a copy" if frames == _BATCH and not ieee else ""
    told = {"bandwidth": BYTES_PER_PIXEL * pixels / timing.seconds, "target": target, "compared_with": COPY}
    return row(name, plan.device, timing, pixels, "pixels", **told)

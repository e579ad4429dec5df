"""Rows e: kernels against the bandwidth of the device's memory, for batches larger than its cache and for one frame."""

from collections.abc import Iterator
from functools import partial
from unittest import mock

import numpy as np
from common import Row
from jobs import Job

from napari_gpubio.speckle.kernels.contrast import gpu
from napari_gpubio.speckle.settings import ContrastSettings
from speckle.plan import COPY_SHARE_TARGET, SEED_SHAPE, Plan, recipe_of
from speckle.rows import pixel_row, timed_by_events, timed_resident

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
        timing = timed_by_events(
            lambda: target.data.copy_from_device_async(source.data, _COPY_BYTES, _here()), plan.repeats
        )
    return pixel_row(
        name, plan.device, timing, 2 * _COPY_BYTES // BYTES_PER_PIXEL, bandwidth=2 * _COPY_BYTES / timing.seconds
    )


def _here() -> object:
    import cupy

    return cupy.cuda.get_current_stream()


def _kernels(frames: int, window: int, ieee: int, plan: Plan, name: str) -> Row:
    with mock.patch.object(gpu, "IEEE", ieee):
        timing = timed_resident(recipe_of(ContrastSettings(window=window, mask=False)), frames, plan)
    pixels = frames * _PIXELS
    target = f"target {100 * COPY_SHARE_TARGET:g} % of a copy" if frames == _BATCH and not ieee else ""
    told = {"bandwidth": BYTES_PER_PIXEL * pixels / timing.seconds, "target": target, "compared_with": COPY}
    return pixel_row(name, plan.device, timing, pixels, **told)

"""Rows a and b: one frame of the seed on a CPU beside others; windows and modes on any device."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Row, skipped, thread_counts, threads_told, timed
from jobs import Job

from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.settings import ContrastSettings
from speckle import peers
from speckle.plan import CORE_TARGET_NS, SEED_SHAPE, Plan, frames_of, recipe_of
from speckle.rows import pixel_row, timed_resident

_PIXELS = SEED_SHAPE[0] * SEED_SHAPE[1]
OURS, MASKED = "a ours, 1 thread", "a ours, 1 thread, with mask"
WINDOWS = (3, 5, 7, 9, 11, 15, 21, 31)
MODES: dict[str, dict[str, Any]] = {
    "5 x 5 with mask": {"mask": True},
    "5 x 5, K alone": {"index": "none"},
    "5 x 5, inverse correlation time": {"index": "ict"},
    "25 frames": {"mode": "temporal"},
    "5 x 5 x 25": {"mode": "spatio-temporal"},
}


# ------------------------------------------------------------------------------------------------------- rows a: peers
def beside(plan: Plan) -> Iterator[Job]:
    """K and SFI of 1392 x 1040, 5 x 5, frames and maps in memory."""
    for threads in thread_counts():
        yield Job(f"a ours, {threads_told(threads)}", partial(_ours, threads, {}, plan))
    yield Job(MASKED, partial(_ours, 1, {"mask": True}, plan))
    theirs: dict[str, tuple[str, Callable[[type], Any]]] = {
        "SciPy uniform_filter": ("scipy", peers.scipy_contrast),
        "OpenCV boxFilter": ("cv2", peers.opencv_contrast),
    }
    for told, (module, make) in theirs.items():
        for kind in (np.float64, np.float32):
            yield Job(f"a {told}, {kind.__name__}", partial(_peer, module, make, kind, plan))


def _ours(threads: int, options: dict[str, Any], plan: Plan, name: str) -> Row:
    recipe = recipe_of(ContrastSettings(**{"mask": False, **options}))
    timing = timed_resident(recipe, 1, Plan(CPU, plan.quick), threads or None)
    target = f"target {CORE_TARGET_NS:g} ns a pixel" if name in (OURS, MASKED) else ""
    return pixel_row(name, CPU, timing, _PIXELS, target=target, compared_with=OURS)


def _peer(module: str, make: Callable[[type], Any], kind: type, plan: Plan, name: str) -> Row:
    if (why := peers.missing(module)) is not None:
        return skipped(name, why)
    work, frame = make(kind), frames_of(1)[0]
    return pixel_row(name, CPU, timed(lambda: work(frame), plan.repeats), _PIXELS, compared_with=OURS)


# ------------------------------------------------------------------------------------------- rows b: windows and modes
def windows(plan: Plan) -> Iterator[Job]:
    """All windows, K and SFI, and what else may be asked for; on a GPU many frames at a time."""
    for window in WINDOWS:
        yield Job(f"b {window} x {window}", partial(_resident, {"window": window}, plan))
    for told, options in MODES.items():
        yield Job(f"b {told}", partial(_resident, options, plan))


def _resident(options: dict[str, Any], plan: Plan, name: str) -> Row:
    maps = 64 if plan.device.is_gpu else 8 if "mode" in options else 1
    timing = timed_resident(recipe_of(ContrastSettings(**{"mask": False, **options})), maps, plan)
    return pixel_row(name, plan.device, timing, maps * _PIXELS, maps=maps, compared_with="b 5 x 5")

"""Rows a and b: one frame on the CPU compared with SciPy and OpenCV; windows and modes on any device."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Array, Row, missing, row, skipped, thread_counts, threads_told, timed
from scipy.ndimage import uniform_filter
from speed import Job

from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.settings import ContrastSettings
from speckle.plan import CORE_TARGET_NS, SEED_SHAPE, Plan, frames_of, recipe_of, timed_resident

PACKAGES = {"SciPy": ("scipy", "scipy"), "OpenCV": ("cv2", "opencv-python-headless", "opencv-python")}


def _indices(mean: Array, squares: Array, window: int, exposure_s: float) -> tuple[Array, Array]:
    """K and SFI of local means of I and I²."""
    n = window**2
    k2 = (squares - mean * mean) * mean.dtype.type(n / (n - 1)) / (mean * mean)
    return np.sqrt(k2), mean.dtype.type(0.5 / exposure_s) / k2


def scipy_contrast(kind: type) -> Callable[[Array], tuple[Array, Array]]:
    """Make the contrast of `scipy.ndimage.uniform_filter` in a precision, 5 x 5."""

    def work(frame: Array) -> tuple[Array, Array]:
        values = frame.astype(kind)
        return _indices(uniform_filter(values, 5), uniform_filter(values * values, 5), 5, 0.01)

    return work


def opencv_contrast(kind: type) -> Callable[[Array], tuple[Array, Array]]:
    """Make the contrast of OpenCV's box filters in a precision, 5 x 5, on as many threads as it likes."""
    import cv2

    depth = cv2.CV_64F if kind is np.float64 else cv2.CV_32F

    def work(frame: Array) -> tuple[Array, Array]:
        mean = cv2.boxFilter(frame, depth, (5, 5), borderType=cv2.BORDER_REFLECT)
        squares = cv2.sqrBoxFilter(frame, depth, (5, 5), borderType=cv2.BORDER_REFLECT)
        return _indices(mean, squares, 5, 0.01)

    return work


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
        "SciPy uniform_filter": ("SciPy", scipy_contrast),
        "OpenCV boxFilter": ("OpenCV", opencv_contrast),
    }
    for told, (package, make) in theirs.items():
        for kind in (np.float64, np.float32):
            yield Job(f"a {told}, {kind.__name__}", partial(_peer, package, make, kind, plan))


def _ours(threads: int, options: dict[str, Any], plan: Plan, name: str) -> Row:
    recipe = recipe_of(ContrastSettings(**{"mask": False, **options}))
    timing = timed_resident(recipe, 1, Plan(CPU, plan.quick), threads or None)
    target = f"target {CORE_TARGET_NS:g} ns a pixel" if name in (OURS, MASKED) else ""
    return row(name, CPU, timing, _PIXELS, "pixels", target=target, compared_with=OURS)


def _peer(package: str, make: Callable[[type], Any], kind: type, plan: Plan, name: str) -> Row:
    if (why := missing(PACKAGES, package)) is not None:
        return skipped(name, why)
    work, frame = make(kind), frames_of(1)[0]
    timing = timed(lambda: work(frame), plan.repeats)
    return row(name, CPU, timing, _PIXELS, "pixels", compared_with=OURS)


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
    return row(name, plan.device, timing, maps * _PIXELS, "pixels", maps=maps, compared_with="b 5 x 5")

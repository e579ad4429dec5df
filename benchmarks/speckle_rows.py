"""Rows of speed of the speckle engine, how frames are timed, and times of others to compare with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import speed
from common import Array, Row, Timing, missing, row, skipped, thread_counts, threads_text, timed, timed_by_events
from scipy.ndimage import uniform_filter
from speed import Job

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.speckle.checks import speckle_frames
from napari_gpubio.speckle.kernels.contrast import cpu, gpu
from napari_gpubio.speckle.kernels.contrast.problem import ContrastRecipe
from napari_gpubio.speckle.model import kernel_dtype
from napari_gpubio.speckle.registration import ShiftFinder, shift_frame
from napari_gpubio.speckle.run import ContrastStream, contrast
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    InverseCorrelationTime,
    NoIndex,
    NoiseModel,
    NoMask,
    Spatial,
    SpatioTemporal,
    Temporal,
)

SEED_SHAPE = (1040, 1392)
# Rows, columns, and milliseconds of CPU and GPU (5 x 5, transfers included) in table 1 of Yang et al. 2011.
SEED_TABLE = (
    (240, 320, 6.8, 1.5), (320, 480, 13.5, 2.8), (480, 640, 38.0, 5.3), (600, 800, 59.8, 7.2), (768, 1024, 69.8, 10.9),
    (1000, 1000, 124.1, 15.8), (1024, 1280, 116.7, 17.3), (1200, 1200, 129.2, 18.7), (1040, 1392, 130.2, 18.8),
    (1200, 1600, 171.8, 24.4), (1400, 1400, 176.4, 28.8), (1600, 1600, 228.4, 32.1), (1440, 1920, 246.8, 34.4),
    (1536, 2048, 280.3, 39.0), (1600, 2560, 365.5, 50.5), (2048, 3072, 562.2, 76.9), (2592, 3872, 897.6, 120.4),
    (4000, 4000, 1431.7, 192.1),
)  # fmt: skip
CORE_TARGET_NS = 2.0  # per pixel, 5 x 5, K and SFI, one core
COPY_SHARE_TARGET = 0.7  # of the bandwidth of a copy on the device
FRAME_TARGET_MS = 0.5  # from the host to both maps on the host
REGISTRATION_TARGET_MS = 33.0  # a frame of a camera of 30 frames/s


@dataclass(frozen=True, slots=True)
class Plan(speed.Plan):
    """What to run, and where."""

    @property
    def repeats(self) -> int:
        """How often each thing is timed; often, since others share the machine and a frame takes a millisecond."""
        return 10 if self.quick else 60


def recipe_of(
    settings: ContrastSettings, shape: tuple[int, int] = SEED_SHAPE, noise: NoiseModel | None = None
) -> ContrastRecipe:
    """Return the recipe for 16-bit frames of a size."""
    return ContrastRecipe(settings=settings, noise=noise or NoiseModel(), shape=shape, dtype=kernel_dtype(np.uint16))


def frames_of(count: int, shape: tuple[int, int] = SEED_SHAPE) -> Array:
    return np.ascontiguousarray(np.broadcast_to(speckle_frames(1, shape), (count, *shape)))


_LAUNCHES = 10  # that one timing on a GPU is the mean of


def timed_resident(recipe: ContrastRecipe, maps: int, plan: Plan, threads: int | None = None) -> Timing:
    """Time the making of so many maps from frames that are there; transfers left out."""
    s = recipe.settings
    frames = frames_of((maps - 1) * s.step + s.depth, recipe.shape)
    if plan.device.is_gpu:
        return timed_on_gpu(recipe, frames, maps, plan)
    maker, made = cpu.Maker(recipe, threads), recipe.empty_maps(maps)
    return timed(lambda: maker.fill(frames, made), plan.repeats)


def timed_on_gpu(recipe: ContrastRecipe, frames: Any, maps: int, plan: Plan) -> Timing:
    """Time the kernels by the GPU's own clock."""
    import cupy

    with cupy.cuda.Device(plan.device.indices[0]):
        maker, there = gpu.Maker(recipe, plan.device), cupy.asarray(frames)
        made = gpu.map_buffer(cupy.empty(gpu.bytes_of(recipe, maps), np.uint8), recipe, maps).maps
        return timed_by_events(plan.device, lambda: maker.fill(there, made), plan.repeats, _LAUNCHES)


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
PLAIN = ContrastSettings(mask=NoMask())
MODES = {
    "5 x 5 with mask": ContrastSettings(),
    "5 x 5, K alone": ContrastSettings(index=NoIndex(), mask=NoMask()),
    "5 x 5, inverse correlation time": ContrastSettings(index=InverseCorrelationTime(), mask=NoMask()),
    "25 frames": ContrastSettings(mode=Temporal(), mask=NoMask()),
    "5 x 5 x 25": ContrastSettings(mode=SpatioTemporal(), mask=NoMask()),
}


# ------------------------------------------------------------------------------------------------------- rows a: peers
def beside(plan: Plan) -> Iterator[Job]:
    """K and SFI of 1392 x 1040, 5 x 5, frames and maps in memory."""
    for threads in thread_counts():
        yield Job(f"a ours, {threads_text(threads)}", partial(_ours, threads, PLAIN, plan))
    yield Job(MASKED, partial(_ours, 1, ContrastSettings(), plan))
    theirs: dict[str, tuple[str, Callable[[type], Any]]] = {
        "SciPy uniform_filter": ("SciPy", scipy_contrast),
        "OpenCV boxFilter": ("OpenCV", opencv_contrast),
    }
    for peer, (package, make) in theirs.items():
        for kind in (np.float64, np.float32):
            yield Job(f"a {peer}, {kind.__name__}", partial(_peer, package, make, kind, plan))


def _ours(threads: int, settings: ContrastSettings, plan: Plan, name: str) -> Row:
    timing = timed_resident(recipe_of(settings), 1, Plan(CPU, plan.quick), threads or None)
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
    """All windows, K and SFI, and other maps and modes; on a GPU many frames at a time."""
    for window in WINDOWS:
        settings = ContrastSettings(mode=Spatial(window=window), mask=NoMask())
        yield Job(f"b {window} x {window}", partial(_resident, settings, plan))
    for mode, settings in MODES.items():
        yield Job(f"b {mode}", partial(_resident, settings, plan))


def _resident(settings: ContrastSettings, plan: Plan, name: str) -> Row:
    maps = 64 if plan.device.is_gpu else 8 if settings.depth > 1 else 1
    timing = timed_resident(recipe_of(settings), maps, plan)
    return row(name, plan.device, timing, maps * _PIXELS, "pixels", maps=maps, compared_with="b 5 x 5")


_SETTINGS = ContrastSettings(mask=NoMask())
_STACK = 200


# -------------------------------------------------------------------------------------------------- rows c: the camera
def camera(plan: Plan) -> Iterator[Job]:
    """From a frame in the host's memory (on a GPU page-locked) to both maps there."""
    for rows, columns, cpu_ms, gpu_ms in SEED_TABLE:
        paper = f"{cpu_ms:g} ms CPU, {gpu_ms:g} ms GPU"
        yield Job(f"c {columns} x {rows}", partial(_frame, (rows, columns), paper, False, plan))
    yield Job("c 1392 x 1040, copied into the stream", partial(_frame, SEED_SHAPE, "", True, plan))
    for motion, shift in (("at rest", (0, 0)), ("moved", (7, -11))):
        yield Job(f"c 1392 x 1040, registration of a frame {motion}", partial(_registration, shift, plan))


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
        devices = "CPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        yield Job(f"d {_STACK} frames, {devices}", partial(_whole, gpus, plan))


def _whole(gpus: int, plan: Plan, name: str) -> Row:
    frames = frames_of(_STACK // (10 if plan.quick else 1))
    device = Device("cuda", plan.device.indices[:gpus]) if gpus else plan.device
    timing = timed(lambda: contrast(frames, _SETTINGS, device=device), 2 if plan.quick else 4)
    return row(
        name, device, timing, frames.size, "pixels", processors=max(1, gpus), compared_with=f"d {_STACK} frames, 1 GPU"
    )


_BATCH, _COPY_BYTES = 256, 4 << 30
COPY = "e copy on the device"
BYTES_PER_PIXEL = 10  # 2 of the frame, 4 of each map


def bandwidth(plan: Plan) -> Iterator[Job]:
    """A copy, and K and SFI of a batch and of one frame; with IEEE divisions and with those within 1 ulp of them."""
    yield Job(COPY, partial(_copy, plan))
    for frames in (_BATCH, 8, 1):
        for window in (5, 7):
            for ieee in (0, 1):
                job = f"e {frames} frames, {window} x {window}{', IEEE divisions' if ieee else ''}"
                yield Job(job, partial(_kernels, frames, window, ieee, plan))


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
        timing = timed_resident(recipe_of(ContrastSettings(mode=Spatial(window=window), mask=NoMask())), frames, plan)
    pixels = frames * _PIXELS
    target = f"target {100 * COPY_SHARE_TARGET:g} % of a copy" if frames == _BATCH and not ieee else ""
    facts = {"bandwidth": BYTES_PER_PIXEL * pixels / timing.seconds, "target": target, "compared_with": COPY}
    return row(name, plan.device, timing, pixels, "pixels", **facts)

"""What to measure and where, how frames are timed, and times of others to compare with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import speed
from common import Array, Timing, timed, timed_by_events

from napari_gpubio.speckle.checks import speckle_frames
from napari_gpubio.speckle.kernels.contrast import cpu
from napari_gpubio.speckle.kernels.contrast.problem import Recipe
from napari_gpubio.speckle.model import kernel_dtype
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.settings import ContrastSettings

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
) -> Recipe:
    """What is done to 16-bit frames of a size."""
    return Recipe(settings=settings, noise=noise or NoiseModel(), shape=shape, dtype=kernel_dtype(np.uint16))


def frames_of(count: int, shape: tuple[int, int] = SEED_SHAPE) -> Array:
    return np.ascontiguousarray(np.broadcast_to(speckle_frames(1, shape), (count, *shape)))


_LAUNCHES = 10  # that one timing on a GPU is the mean of


def timed_resident(recipe: Recipe, maps: int, plan: Plan, threads: int | None = None) -> Timing:
    """Time the making of so many maps from frames that are there; transfers left out."""
    s = recipe.settings
    frames = frames_of((maps - 1) * s.step + s.depth, recipe.shape)
    if plan.device.is_gpu:
        return timed_on_gpu(recipe, frames, maps, plan)
    maker, made = cpu.Maker(recipe, threads), recipe.empty_maps(maps)
    return timed(lambda: maker.fill(frames, made), plan.repeats)


def timed_on_gpu(recipe: Recipe, frames: Any, maps: int, plan: Plan) -> Timing:
    """Time the kernels by the GPU's own clock."""
    import cupy

    from napari_gpubio.speckle.kernels.contrast.gpu import Maker, bytes_of, map_buffer

    with cupy.cuda.Device(plan.device.indices[0]):
        maker, there = Maker(recipe, plan.device), cupy.asarray(frames)
        made = map_buffer(cupy.empty(bytes_of(recipe, maps), np.uint8), recipe, maps).maps
        return timed_by_events(plan.device, lambda: maker.fill(there, made), plan.repeats, _LAUNCHES)

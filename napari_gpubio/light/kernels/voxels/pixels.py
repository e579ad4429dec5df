"""From which source or which pixel photons started, in Numba: the random numbers of their starts are drawn again."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel, run_blocks
from napari_gpubio.core.sfc import stream, uniform
from napari_gpubio.light.kernels.voxels.fold import writable
from napari_gpubio.light.kernels.voxels.photon import Floats
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.source_table import running_chances
from napari_gpubio.light.kernels.voxels.start import first_above, pixel_of
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.optics.batches import Words

_MIN_PHOTONS = 4096


class Pixels(NamedTuple):
    """From which pixel each of some photons started; the first two fields are as in `Scene`."""

    pattern: Floats
    seed: np.uint64
    photons: Words
    found: npt.NDArray[np.int64]


@kernel
def find_pixels(start, stop, pixels):
    """Find the pixels of the photons ``start`` to ``stop - 1`` of a list."""
    for i in range(start, stop):
        pixels.found[i] = pixel_of(pixels, pixels.pattern, pixels.photons[i])


class Draws(NamedTuple):
    """At which of several sources each of some photons started; see `Several`."""

    chances: Floats
    seed: np.uint64
    photons: Words
    found: npt.NDArray[np.int64]


@kernel
def find_sources(start, stop, draws):
    """Find the sources of the photons ``start`` to ``stop - 1`` of a list."""
    for i in range(start, stop):
        u, _ = uniform(stream(draws.seed, draws.photons[i]))
        draws.found[i] = first_above(draws.chances, u)


def drawn_sources(weights: Sequence[float], seed: int, photons: Words) -> npt.NDArray[np.int64]:
    """Which source, from 0, each of some photons started at, shape (N,)."""
    listed, found = writable(np.ascontiguousarray(photons)), np.zeros(len(photons), np.int64)
    draws = Draws(running_chances(weights), np.uint64(seed), listed, found)
    run_blocks(find_sources, len(photons), draws, least=_MIN_PHOTONS)
    return found


def detected_pixels(problem: VoxelProblem, tally: VoxelTally) -> npt.NDArray[np.int64]:
    """Pixels that the detected photons started from, in the order of the list."""
    photons = writable(np.ascontiguousarray(tally.detected.photons))
    found = np.zeros(len(photons), np.int64)
    pixels = Pixels(writable(problem.packed_sources[0].pattern), np.uint64(problem.settings.seed), photons, found)
    run_blocks(find_pixels, len(photons), pixels, least=_MIN_PHOTONS)
    return found

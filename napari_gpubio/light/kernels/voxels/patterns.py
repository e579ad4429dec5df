"""Patterns that share photons: each photon is traced once, with a weight for every pattern by where it starts.

Let p_k be the patterns, each of sum 1 over the pixels, and q the density from which photons start. A photon from pixel
x has the weight p_k(x) / q(x) for pattern k, so each pattern's tally has the mean that a run with it alone has, and the
variance of what a photon deposits, summed over the patterns, grows as sum_x (sum_k p_k(x)^2) / q(x). That is least for
q in proportion to sqrt(sum_k p_k^2), which also keeps every weight below the number of patterns; a uniform q would
have weights up to the number of pixels.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.kernels.voxels.problem import ENERGY_PARTS, LAUNCHED, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList, LaunchedWeights, OpenBatch, VoxelTally
from napari_gpubio.optics.batches import Words

_NUMBERS = 2.0**23  # that `unit_float` gives


def start_density(patterns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Density from which photons start, from patterns of any scale, shape (K, rows, columns); see the head."""
    shares = patterns / patterns.sum(axis=(1, 2), keepdims=True)
    return np.asarray(np.sqrt(np.square(shares).sum(axis=0)))


def sharing(problem: VoxelProblem, patterns: npt.NDArray[np.float64]) -> VoxelProblem:
    """Return a problem whose source is of kind ``pattern`` with the density, for patterns that share its photons.

    Weights are over the density that the backends draw from, with running sums of single precision and random numbers
    of 23 bits.
    """
    sums = problem.packed_sources[0].pattern.astype(np.float64)
    numbers = np.ceil(sums * _NUMBERS - 0.5)  # of the (k + 1/2) / _NUMBERS that are drawn, those below each sum
    density = (np.diff(numbers, prepend=0.0) / _NUMBERS)[:, None]
    wanted = (patterns / patterns.sum(axis=(1, 2), keepdims=True)).reshape(len(patterns), -1).T
    shares = np.divide(wanted, density, out=np.zeros_like(wanted), where=density > 0).astype(np.float32)
    return dataclasses.replace(problem, shares=np.ascontiguousarray(shares), heaviest=float(shares.max()))


def part_of(problem: VoxelProblem, tally: VoxelTally, k: int, pixels: npt.NDArray[np.int64]) -> VoxelTally:
    """Return the tallies of one pattern, as its problem alone has them, from those of all.

    ``pixels`` are those of the detected photons. Photons that do not weigh for the pattern are not in its list.
    """
    count = problem.patterns
    weights = problem.shares[pixels, k] if problem.shares is not None else np.ones(len(pixels), np.float32)
    listed = tally.detected.numbers[weights > 0]
    listed[:, 1] *= weights[weights > 0]
    return VoxelTally(
        batch_size=tally.batch_size,
        key=tally.key,
        sums=tally.sums.reshape(count, -1)[k],
        squares=tally.squares.reshape(count, -1, 2)[k],
        exits=np.ascontiguousarray(tally.exits.reshape(-1, count)[:, k]),
        detected=DetectedList(tally.detected.photons[weights > 0], listed, tally.detected.dropped),
        batches={batch: _numbers(numbers, count, k) for batch, numbers in tally.batches.items()},
        open={
            batch: OpenBatch(
                part.done, np.ascontiguousarray(part.path.reshape(-1, count)[:, k]), _numbers(part.energy, count, k)
            )
            for batch, part in tally.open.items()
        },
    )


def _numbers(numbers: Words, count: int, k: int) -> Words:
    """The energy tally of one pattern, and what its media rows absorbed where that is known."""
    parts = numbers[: LAUNCHED * count].reshape(ENERGY_PARTS, count)[:, k]
    absorbed = numbers[(LAUNCHED + 1) * count :]
    return np.concatenate([parts, absorbed.reshape(count, -1)[k]])


def launched_weights(problem: VoxelProblem, tally: VoxelTally, k: int) -> LaunchedWeights:
    """Weight that the photons of a pattern started with."""
    place, unit = LAUNCHED * problem.patterns + k, 1.0 / problem.energy_scale
    whole = [int(tally.batches[batch][place]) * unit for batch in sorted(tally.batches)]
    return LaunchedWeights(np.array(whole), sum(int(part.energy[place]) * unit for part in tally.open.values()))

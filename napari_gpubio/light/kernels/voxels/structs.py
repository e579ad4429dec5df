"""What both backends number alike, and the structs in which the CPU kernels take their parameters.

The counterparts of the numbers are in ``photon.cuh``. A position is a voxel (`cell`, an index into the grid padded by
one voxel) and mm from its low corner (x, y, z).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Rows of the media table that are no tissue: label 0, and the rim of the grid.
OUTSIDE, EDGE = 0, 1
DEFAULT, ESCAPE, FRESNEL, MIRROR, CYCLIC = range(5)
PENCIL, ISOTROPIC, CONE, FIBER, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN = range(11)
# Parts of the energy tally.
SPECULAR, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE = range(6)
ENERGY_PARTS = 6
MEDIUM_NUMBERS, SOURCE_NUMBERS, DETECTOR_NUMBERS, DETECTED_NUMBERS = 8, 16, 8, 10
NEVER = np.float32(1e30)

Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]


class Scene(NamedTuple):
    """What a photon meets: the padded grid of media, boundaries, time gates, the source and the detectors.

    Parameters
    ----------
    nx, ny, nz, stride_x, stride_y
        Size without the rim, and strides with it.
    hx, hy, hz
        Voxel edges, mm.
    rows, media, mua, mus
        Media row of each voxel, the table of media, and coefficients of each voxel (empty without continuous media).
    faces
        Rules of the six faces, three bits each.
    refraction, specular
        Whether light is refracted at all, and partly reflected where it enters.
    threshold
        Weight below which packets play roulette.
    edges
        Edges of the time gates as optical path, mm.
    kind, source, pattern, columns
        The source; see `VoxelProblem`.
    detectors
        Shape (D, DETECTOR_NUMBERS).
    seed
        Of the random numbers, uint64.
    """

    nx: int
    ny: int
    nz: int
    stride_x: int
    stride_y: int
    hx: np.float32
    hy: np.float32
    hz: np.float32
    rows: npt.NDArray[Any]
    media: Floats
    mua: Floats
    mus: Floats
    faces: int
    refraction: bool
    specular: bool
    threshold: np.float32
    edges: Floats
    kind: int
    source: Floats
    pattern: Floats
    columns: int
    detectors: Floats
    seed: np.uint64


class Tallies(NamedTuple):
    """Where photons add up.

    Parameters
    ----------
    path, half_stride, gate_stride, scale
        Weight times path of each voxel in quanta of 1 / scale mm, for each half and each gate.
    energy, energy_scale
        The energy tally, shape (ENERGY_PARTS,), in quanta of 1 / energy_scale.
    exits
        Escaped weight of each voxel in the same quanta, or empty.
    detected, photons, numbers
        Number of photons detected, and their list: indices, shape (N,), and what `list_photon` notes of each, shape
        (N, DETECTED_NUMBERS + rows).
    """

    path: Words
    half_stride: int
    gate_stride: int
    scale: np.float32
    energy: Words
    energy_scale: np.float32
    exits: Words
    detected: npt.NDArray[np.int64]
    photons: Words
    numbers: Floats


class Absorbers(NamedTuple):
    """What turns a tally into absorbed energy: media rows, their table, mu_a of each voxel (or nothing), the scale."""

    rows: npt.NDArray[Any]
    media: Floats
    mua: Floats
    scale: float


class Fold(NamedTuple):
    """A finished batch, and the sums that it is added to.

    Parameters
    ----------
    path, sums
        Tally of the batch, and that of the whole batches, shape (halves * gates * cells,).
    squares
        Sums of squares as two words, shape (gates * cells, 2), or ((gates + 1) * cells, 2) with more than one gate: the
        last part is that of all gates together.
    absorbers, absorbed
        What each media row absorbed is added to ``absorbed``, in units of 1 / ``absorbers.scale``.
    """

    path: Words
    sums: Words
    squares: Words
    cells: int
    gates: int
    halves: int
    absorbers: Absorbers
    absorbed: Words


class Spread(NamedTuple):
    """Tallies of one gate, and the fluence and standard error to be made of them.

    Parameters
    ----------
    total, whole
        Tally of all photons, and of those in whole batches, flat with the rim.
    squares
        Sum of the squares of the batches' tallies, two words of each cell, shape (cells, 2) or flat for the kernel.
    ny, nz
        Size without the rim.
    per_photon
        Fluence per photon of one quantum.
    batches, batch_size, rest_photons
        Number of whole batches, photons of one of them, and photons that are left over.
    in_batches, largest
        Photons in whole batches, at least 1; and the larger of a batch's and those that are left over.
    freedom
        See `light.tallies.freedom`; not a number where there are too few batches for an error.
    mean, error
        Shape (nx, ny, nz).
    """

    total: Words
    whole: Words
    squares: Words
    ny: int
    nz: int
    per_photon: float
    batches: int
    batch_size: int
    rest_photons: int
    in_batches: float
    largest: int
    freedom: float
    mean: Floats
    error: Floats

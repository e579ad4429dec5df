"""One photon packet on its way through voxels, in Numba. Counterpart: ``photon.cuh``.

A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z). Between
two scattering events the packet goes straight; absorption is continuous along the path and is booked when a voxel is
left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
"""

import numba as nb
import numpy as np

from napari_gpubio.light.kernels.physics import ONE, ZERO

_F, _I, _U, _L = np.float32, np.int32, np.uint32, np.uint64

# Rows of the media table that are no tissue: label 0, and the rim of the grid.
OUTSIDE, EDGE = 0, 1
DEFAULT, ESCAPE, FRESNEL, MIRROR, CYCLIC = range(5)
PENCIL, ISOTROPIC, CONE, FIBER, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN = range(11)
SPECULAR, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE = range(6)
LEDGER = 6
MEDIUM_NUMBERS, SOURCE_NUMBERS, DETECTOR_NUMBERS, DETECTED_NUMBERS = 8, 16, 8, 10
NEVER = _F(1e30)


@nb.njit(inline="always")
def slowness(u):
    """1 / abs(u), large but finite for a component that is 0."""
    return ONE / max(abs(u), _F(1e-12))


@nb.njit(inline="always")
def within(value, high):
    """The value, kept between 0 and `high`."""
    return min(max(value, ZERO), high)


@nb.njit(inline="always")
def refracted(ux, uy, uz, axis, ct, ratio):
    """Direction behind a face, Snell's law."""
    vx, vy, vz = ux * ratio, uy * ratio, uz * ratio
    if axis == 0:
        vx = ct if ux > ZERO else -ct
    elif axis == 1:
        vy = ct if uy > ZERO else -ct
    else:
        vz = ct if uz > ZERO else -ct
    return vx, vy, vz


@nb.njit(inline="always")
def to_face(hx, hy, hz, px, py, pz, ux, uy, uz):
    """Distance (mm) along the path to the voxel's face, and the axis of that face."""
    tx = (hx - px if ux > ZERO else px) * slowness(ux)
    ty = (hy - py if uy > ZERO else py) * slowness(uy)
    tz = (hz - pz if uz > ZERO else pz) * slowness(uz)
    nearest, axis = tx, 0
    if ty < nearest:
        nearest, axis = ty, 1
    if tz < nearest:
        nearest, axis = tz, 2
    return nearest, axis

"""Scans of fibers with known directions, and of tissues with known densities."""

import numpy as np

from napari_gpubio.diffusion import DiffusionScan
from napari_gpubio.diffusion.fods.harmonics import (
    coefficient_count,
    convolution_factors,
    half_sphere,
    harmonics,
    orders,
)

S0 = 1000.0
ALONG, ACROSS = 1.7e-3, 0.2e-3  # mm^2/s
THREE_SHELLS = (0, 700, 1400, 2800)
# Zonal coefficients of white matter, gray matter and fluid for these shells, as they are in brains.
TISSUES = (
    [[3500, 0, 0, 0, 0], [2200, -650, 90, -8, 0.5], [1700, -800, 210, -35, 4], [1200, -800, 340, -100, 24]],
    [[4200], [2400], [1500], [750]],
    [[9500], [1400], [280], [60]],
)


def scan_of(signals, bvals, directions, affine=None):
    """A scan whose voxels lie in a row, from signals (M, V)."""
    signals = np.asarray(signals, np.float32)
    directions = np.where(np.asarray(bvals)[:, None] > 0, directions, 0.0)
    affine = np.eye(4) if affine is None else affine
    return DiffusionScan(
        data=signals[:, None, None, :], bvals=np.asarray(bvals, float), directions=directions, affine=affine
    )


def everywhere(scan):
    return np.ones(scan.shape, bool)


def one_shell(directions=60, b=3000.0, b0=1):
    """b-values and directions of some b0 volumes and one shell."""
    table = np.concatenate([np.zeros((b0, 3)), half_sphere(directions)])
    return np.r_[np.zeros(b0), np.full(directions, b)], table


def several_shells(each=45, b0=4):
    """b-values and directions of `THREE_SHELLS`, turned against each other."""
    bvals, table = [np.zeros(b0)], [np.zeros((b0, 3))]
    for number, b in enumerate(THREE_SHELLS[1:]):
        turn = np.deg2rad(25.0 * number)
        matrix = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
        bvals.append(np.full(each, float(b)))
        table.append(half_sphere(each) @ matrix.T)
    return np.concatenate(bvals), np.concatenate(table)


def fiber_signals(axes, bvals, directions, shares=None):
    """Signals of fibers, each an axially symmetric tensor: axes (M, F, 3), shares (M, F), to (M, V)."""
    axes = axes / np.linalg.norm(axes, axis=-1, keepdims=True)
    shares = np.full(axes.shape[:2], 1.0 / axes.shape[1]) if shares is None else shares
    cosines = axes @ np.asarray(directions).T
    attenuation = np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * cosines**2))
    return S0 * np.einsum("mf,mfv->mv", shares, attenuation)


def crossing_axes(count, angle_deg, seed=0):
    """Two axes at an angle, turned at random, shape (count, 2, 3)."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(count, 3))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    across = np.cross(first, random.normal(size=(count, 3)))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angle = np.deg2rad(angle_deg)
    return np.stack([first, np.cos(angle) * first + np.sin(angle) * across], axis=1)


def noisy(signals, snr, seed=0):
    """Signals with Rician noise, of 1 / snr of `S0`."""
    random = np.random.default_rng(seed)
    real, imaginary = random.normal(0.0, S0 / snr, (2, *np.shape(signals)))
    return np.hypot(signals + real, imaginary)


def tissue_matrix(bvals, directions, responses, lmax):
    """Signals of each harmonic of white matter, and of a unit of each other tissue, shape (V, N + tissues - 1)."""
    shells, order = np.unique(bvals), orders(lmax)[:, 0] // 2
    rows = np.searchsorted(shells, bvals)
    factors = np.zeros((len(shells), lmax // 2 + 1))
    white = convolution_factors(responses[0])[:, : lmax // 2 + 1]
    factors[:, : white.shape[1]] = white
    unit = np.where(bvals[:, None] > 0, directions, [0.0, 0.0, 1.0])
    matrix = np.zeros((len(bvals), coefficient_count(lmax) + len(responses) - 1))
    matrix[:, : len(order)] = harmonics(unit, lmax) * factors[rows][:, order]
    for number, response in enumerate(responses[1:]):
        matrix[:, len(order) + number] = np.asarray(response)[rows, 0]
    return matrix


def tissue_mixture(count, responses, seed=0, blur=0.0):
    """Coefficients of voxels with two fibers, gray matter and fluid of random shares, shape (count, N + others).

    ``blur``: of the fibers, by diffusion on the sphere; with 0.06 their series is nowhere negative.
    """
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(len(responses), 0.7), size=count) / np.sqrt(4.0 * np.pi)
    axes = crossing_axes(count, 70.0, seed)
    lobes = harmonics(axes.reshape(-1, 3), 8).reshape(count, 2, -1).mean(axis=1) * np.sqrt(4.0 * np.pi)
    order = orders(8)[:, 0]
    lobes *= np.exp(-blur * order * (order + 1))
    return np.concatenate([shares[:, :1] * lobes, shares[:, 1:]], axis=1)

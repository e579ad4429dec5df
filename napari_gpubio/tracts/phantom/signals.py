"""From tissue and fibers to diffusion-weighted signals: gradient scheme, signal model, Rician noise."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.philox import uniform
from napari_gpubio.tracts.phantom.brain import Anatomy, Array, Floats

B_VALUE = 1000.0  # s/mm^2
FIBER_PARALLEL, FIBER_ACROSS = 1.7e-3, 0.3e-3  # mm^2/s
LOOSE_PARALLEL, LOOSE_ACROSS = 1.00e-3, 0.72e-3  # white matter outside the bundles, FA = 0.20
GRAY_DIFFUSIVITY, FLUID_DIFFUSIVITY = 0.8e-3, 3.0e-3
S0_WHITE, S0_GRAY, S0_FLUID = 60.0, 75.0, 150.0  # T2-weighted: fluid is bright


def spread_directions(count: int) -> Floats:
    """Unit directions that repel each other as charges at both ends of rods do (Jones et al. 1999), shape (count, 3).

    Starts from a Fibonacci half sphere; rounded to six decimals, as a table in a file would be.
    """
    n = np.arange(count) + 0.5
    z, turn = n / count, n * np.pi * (3.0 - np.sqrt(5.0))
    rods = np.stack([np.sqrt(1 - z * z) * np.cos(turn), np.sqrt(1 - z * z) * np.sin(turn), z], axis=-1)
    for step in np.geomspace(0.3, 0.003, 150) / count:
        ends = np.concatenate([rods, -rods])
        apart = rods[:, None] - ends
        cubed = np.linalg.norm(apart, axis=-1) ** 3
        cubed[cubed < 1e-12] = np.inf
        rods = rods + step * (apart / cubed[..., None]).sum(axis=1)
        rods /= np.linalg.norm(rods, axis=1, keepdims=True)
    return np.round(rods, 6)


def attenuation(axes: Floats, gradients: Floats, b: Floats, parallel: float, across: float) -> Floats:
    """Signal over S0 of axially symmetric tensors, exp(-b g.D.g) with D = across I + (parallel - across) v v^T.

    Parameters
    ----------
    axes
        Fiber directions v, shape (V, 3).
    gradients, b
        Unit gradient directions g, shape (N, 3), and b-values in s/mm^2, shape (N,).
    parallel, across
        Diffusivities in mm^2/s.

    Returns
    -------
    ndarray
        Shape (V, N).
    """
    cosines = axes @ gradients.T
    unit = np.linalg.norm(gradients, axis=1) ** 2
    return np.exp(-b * (across * unit + (parallel - across) * cosines**2))


def clean_signals(
    anatomy: Anatomy,
    fibers: list[tuple[Floats, Floats]],
    gradients: Floats,
    b: Floats,
    mask: npt.NDArray[np.bool_],
) -> Floats:
    """Signals without noise of the voxels of a mask, shape (V, N).

    ``S = sum over tissues of share * S0 * attenuation``; a bundle's share is taken from white matter and deep nuclei.

    Parameters
    ----------
    anatomy
        Tissue fractions.
    fibers
        Share, shape (X, Y, Z), and direction, shape (X, Y, Z, 3), of each bundle; the shares add up to less than 1.
    gradients, b
        Unit gradient directions, shape (N, 3), and b-values in s/mm^2, shape (N,).
    mask
        Voxels wanted, shape (X, Y, Z).
    """
    share = sum(f[mask] for f, _ in fibers) + np.zeros(np.count_nonzero(mask))
    room = (anatomy.white + anatomy.nuclei)[mask]
    white = np.maximum(anatomy.white[mask] - share * room, 0.0)
    nuclei = np.maximum(room - share * room - white, 0.0)
    signal = white[:, None] * attenuation(anatomy.outward[mask], gradients, b, LOOSE_PARALLEL, LOOSE_ACROSS)
    for f, direction in fibers:
        held = f[mask] > 0
        tensor = attenuation(direction[mask][held], gradients, b, FIBER_PARALLEL, FIBER_ACROSS)
        signal[held] += (room * f[mask])[held, None] * tensor
    gray = (anatomy.cortex[mask] + nuclei)[:, None] * np.exp(-b * GRAY_DIFFUSIVITY)
    fluid = anatomy.fluid[mask][:, None] * np.exp(-b * FLUID_DIFFUSIVITY)
    return np.asarray(anatomy.inside[mask][:, None] * (S0_WHITE * signal + S0_GRAY * gray + S0_FLUID * fluid))


def rician(signals: Floats, sigma: float, seed: int) -> Array:
    """Magnitude of a signal with complex Gaussian noise of standard deviation ``sigma`` (Box-Muller over Philox).

    Row ``v`` of the signals, shape (V, N), depends on ``seed`` and ``v`` only.
    """
    voxels, volumes = signals.shape
    draws = uniform(seed, 0, voxels, 2 * volumes).astype(np.float64)
    radius = sigma * np.sqrt(-2.0 * np.log(draws[:, :volumes]))
    turn = 2.0 * np.pi * draws[:, volumes:]
    return np.hypot(signals + radius * np.cos(turn), radius * np.sin(turn))

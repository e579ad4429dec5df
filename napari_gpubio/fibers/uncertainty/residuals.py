"""What is drawn from: the residuals of a tensor fit, and how far each of them shifts its tensor."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.kernels.tensors.problem import design_matrix
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.tensors.run import fit_tensors, select_volumes
from napari_gpubio.diffusion.tensors.settings import FitSettings, Unrepaired, WeightedLeastSquares
from napari_gpubio.fibers.kernels.bootstrap.problem import DrawProblem

Array = npt.NDArray[Any]
Box = tuple[slice, slice, slice]
_UM2_PER_MS = 1e-3  # mm^2/s
_BLOCK = 1024  # voxels at a time
_MIN_S0 = 1e-300  # where the fit has none, since all but a few signals are zero
_MIN_WEIGHT = 1e-30  # squared, of the largest: a measurement below it counts for nothing
_MAX_SHIFT = 10.0  # um^2/ms, three times free water: by one residual more than that, and the fit means nothing
_RIDGE = 1e-13  # of the trace: a voxel whose weights are nearly all zero has an inverse, too
_MIN_FREEDOM = 0.05  # 1 - h below it: the fit goes through the measurement, whose residual tells nothing


def draw_problem(
    scan: DiffusionScan, mask: npt.NDArray[np.bool_], box: Box, fit: FitSettings, *, leverage: str, seed: int
) -> tuple[DrawProblem, npt.NDArray[np.bool_]]:
    """Fit the tensors of a box again, and find what each residual shifts.

    Parameters
    ----------
    scan
        The whole scan.
    mask
        Voxels that have a tensor, shape (X, Y, Z).
    box
        Three ranges of voxels.
    fit
        Settings of the fit; tensors are not repaired here.
    leverage
        ``"hc2"`` or ``"hc3"``; see `residual_shifts`.
    seed
        Of the random numbers.

    Returns
    -------
    problem, inside
        What is drawn from, and the voxels of the box that it holds, in C order.

    Raises
    ------
    InvalidInput
        If there are no more volumes than the seven that a tensor takes.
    """
    volumes = select_volumes(scan, fit.shells)
    if len(volumes) <= 7:
        raise InvalidInput(
            f"{len(volumes)} volumes leave no residual after a fit of 7 unknowns; a bootstrap needs at least 8"
        )
    part = dataclasses.replace(scan, data=scan.data[box])
    field = fit_tensors(part, mask[box], dataclasses.replace(fit, repair=Unrepaired()), device="cpu")
    inside = field.mask
    tensors = np.ascontiguousarray(field.tensors[inside], np.float64)
    assert field.s0 is not None
    coefficients = np.column_stack([tensors / _UM2_PER_MS, np.log(np.maximum(field.s0[inside], _MIN_S0))])
    signals = part.data[inside][:, volumes]
    design = design_matrix(scan.bvals[volumes], scan.directions[volumes])
    weighted, shifts = (
        isinstance(fit.estimator, WeightedLeastSquares),
        np.empty((len(tensors), len(volumes), 6), np.float32),
    )
    for first in range(0, len(tensors), _BLOCK):
        rows = slice(first, first + _BLOCK)
        of_rows = residual_shifts(signals[rows], design, coefficients[rows], weighted=weighted, leverage=leverage)
        shifts[rows] = of_rows * _UM2_PER_MS
    numbers = np.arange(mask.size, dtype=np.uint32).reshape(mask.shape)[box][inside]
    return DrawProblem(tensors=tensors, shifts=shifts, voxels=numbers, seed=seed), inside


def residual_shifts(
    signals: Array, design: Array, coefficients: Array, *, weighted: bool, leverage: str
) -> npt.NDArray[np.float64]:
    """How far each residual of a log-linear fit moves the tensor, were it added to the data again.

    The wild bootstrap of a tensor (Whitcher et al. 2008) fits ``X b + s f(h) e`` with random signs s, where e are the
    residuals and h their leverages; ``f(h) e`` has the variance of the errors also where that differs from
    measurement to measurement (hc2 and hc3 of MacKinnon and White 1985). The weights are those that the fit predicts
    and stay, so a refit adds the sum of these shifts, each with its sign.

    Parameters
    ----------
    signals
        Shape (M, N).
    design
        Shape (N, 7); see `napari_gpubio.diffusion.kernels.tensors.problem.design_matrix`.
    coefficients
        The fit, shape (M, 7): tensor in um^2/ms, ln S0.
    weighted
        Whether by the predicted signals.
    leverage
        ``"hc2"`` for ``f(h) = (1 - h)^-1/2``, ``"hc3"`` for ``1 / (1 - h)``.

    Returns
    -------
    ndarray
        Shape (M, N, 6), um^2/ms; zero in voxels whose fit means nothing, such as those where most signals are zero.
    """
    values = np.asarray(signals, np.float64)
    logs = np.log(np.maximum(values, 1e-6 * values.max(axis=1, keepdims=True)))  # as the fit raises them
    predicted = coefficients @ design.T
    squares = np.ones_like(logs)
    if weighted:
        squares = np.exp(2.0 * (predicted - predicted.max(axis=1, keepdims=True))).clip(_MIN_WEIGHT)
    normal = (squares @ (design[:, :, None] * design[:, None, :]).reshape(len(design), 49)).reshape(-1, 7, 7)
    normal += _RIDGE * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(7)
    solver = squares[:, :, None] * (design @ np.linalg.inv(normal))  # (M, N, 7): what a unit of each datum adds
    free = 1.0 - np.einsum("mni,ni->mn", solver, design)
    own, residuals = free > _MIN_FREEDOM, logs - predicted
    errors = residuals * np.maximum(free, _MIN_FREEDOM) ** (-0.5 if leverage == "hc2" else -1.0)
    variance = (squares * residuals**2 * own).sum(axis=1, keepdims=True) / (len(design) - 7)
    errors = np.where(own, errors, np.sqrt(variance / squares))
    shifts = solver[:, :, :6] * errors[:, :, None]
    shifts[np.abs(shifts).max(axis=(1, 2)) > _MAX_SHIFT] = 0.0
    return np.asarray(shifts)

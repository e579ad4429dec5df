"""Fit tensors to a diffusion scan, on any device."""

import dataclasses
import math
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.rows import finite_rows, row_sums
from napari_gpubio.core.settings import plain
from napari_gpubio.core.space import same_grid, voxel_sizes_mm
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.kernels.tensors.problem import fit_problem
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.mask import brain_mask
from napari_gpubio.diffusion.tensors.repair import repair_rows
from napari_gpubio.diffusion.tensors.settings import FitSettings, Repaired
from napari_gpubio.diffusion.voxels import signals_of, volume_of

Array = npt.NDArray[Any]
_UM2_PER_MS = 1e-3  # mm^2/s
_ROWS = 1 << 16  # voxels whose signals are moved together


def fit_tensors_steps(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: FitSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, TensorField]:
    """Fit a diffusion tensor to every voxel of a mask, step by step.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    mask
        Where to fit, shape (X, Y, Z); None makes a brain mask from the b0 volumes; see `brain_mask`.
    settings
        Estimator, reweightings, shells; see `FitSettings`.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; voxels not reached are then left out of the mask.

    Raises
    ------
    InvalidInput
        If the mask does not fit, or the gradient table cannot determine a tensor.
    """
    settings = settings or FitSettings()
    chosen, clock = choose_device(device), RunClock()
    volumes = select_volumes(scan, settings.shells)
    inside = checked_mask(scan, mask)
    needed = needed_memory(scan, inside, settings, device=CPU)  # a run on a GPU takes as much of the host's
    needed.check("fitting tensors to this scan", "give the mask of a smaller part, or close other programs")
    coefficients, raised, skipped, done = yield from _fitted(scan, inside, volumes, settings, chosen, stop)
    field = _field(scan, inside, coefficients, raised, settings, skipped)
    parameters = how_made(chosen, clock.seconds, fit=plain(settings))
    return dataclasses.replace(field, parameters=parameters, complete=done == len(raised))


fit_tensors = driven(fit_tensors_steps)


def needed_memory(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: FitSettings | None = None,
    *,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `fit_tensors` takes besides the scan: of the CPU's, or on each of some GPUs.

    Arguments are those of `fit_tensors_steps`; without a mask one is made, which itself takes less. The parts of
    volumes in which no voxel of the mask lies are counted, too; the system may never make them.

    Examples
    --------
    >>> from napari_gpubio import diffusion
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> memory = diffusion.tensors.needed_memory(scan, device="cpu")
    >>> memory.results == 58 * scan.data[..., 0].size  # tensors, signals at b = 0, repaired voxels and the mask
    True
    """
    settings, chosen, inside = settings or FitSettings(), choose_device(device), checked_mask(scan, mask)
    volumes, count, voxels = select_volumes(scan, settings.shells), int(np.count_nonzero(inside)), math.prod(scan.shape)
    none = np.empty((0, len(volumes)), np.float32)
    problem = fit_problem(none, scan.bvals[volumes], scan.directions[volumes], settings)
    fitting = dataclasses.replace(problem, signals=unread(count, len(volumes))).memory(chosen)
    if chosen.is_gpu:
        return fitting
    placing = Memory(results=58 * voxels, scratch=67 * count)  # coefficients, signals at b = 0, three marks
    return fullest_moment(scan, inside, volumes, fitting, placing)


def unread(*shape: int) -> npt.NDArray[np.float32]:
    """Signals that are not there yet, of a shape."""
    return np.broadcast_to(np.float32(0), shape)


def fullest_moment(scan: DiffusionScan, inside: Array, volumes: Array, *moments: Memory) -> Memory:
    """The fullest of a run's moments, with the mask, or that in which the signals of a mask are taken from a scan."""
    from napari_gpubio.core.jit import thread_count

    planes = np.sort(np.count_nonzero(inside, axis=(1, 2)))
    some = len(volumes) < scan.data.shape[3]
    row = scan.data.dtype.itemsize * (scan.data.shape[3] + some * len(volumes))
    taking = Memory(inputs=4 * len(volumes) * int(planes.sum()), scratch=row * int(planes[-thread_count() :].sum()))
    fullest = fuller(taking, *moments)
    return dataclasses.replace(fullest, scratch=fullest.scratch + inside.size)


def usable_signals(
    scan: DiffusionScan, inside: npt.NDArray[np.bool_], volumes: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float32], int]:
    """Signals (M, V) of some volumes in the voxels of a mask, from which the unusable ones go; and their number."""
    signals = signals_of(scan.data, inside, volumes)
    usable = usable_rows(signals)
    if usable.all():
        return signals, 0
    inside[inside] = usable
    count = 0
    for start in range(0, len(usable), _ROWS):  # in place, for a copy would take as much again
        some = signals[start : start + _ROWS][usable[start : start + _ROWS]]
        signals[count : count + len(some)] = some
        count += len(some)
    return signals[:count], len(usable) - count


def select_volumes(scan: DiffusionScan, shells: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """Return the indices of the volumes of some shells (all if none is named); InvalidInput if a shell is not there."""
    there = scan.shells()
    if missing := [s for s in shells if s not in there]:
        raise InvalidInput(f"there is no shell b = {missing[0]} s/mm²; this scan has {', '.join(map(str, there))}")
    return np.flatnonzero(np.isin(scan.shell_of, shells)) if shells else np.arange(len(scan.bvals))


def checked_mask(scan: DiffusionScan, mask: Array | None) -> npt.NDArray[np.bool_]:
    """Return a copy of a mask, or a brain mask of the scan; InvalidInput if it is of another shape, or empty."""
    if mask is None:
        return brain_mask(scan.b0_mean(), voxel_sizes_mm(scan.affine))
    if mask.shape != scan.shape:
        raise InvalidInput(
            f"the mask has shape {mask.shape} and the scan {scan.shape}; use a mask drawn on this scan's grid"
        )
    if not mask.any():
        raise InvalidInput("the mask is empty; mark at least one voxel")
    return np.array(mask, bool)


def usable_rows(signals: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Voxels whose signals are all finite, and one of them positive; from shape (M, N) to (M,)."""
    if not signals.size:
        return np.zeros(len(signals), bool)
    sums = row_sums(signals)
    usable = np.asarray(np.isfinite(sums) & (sums > 0))  # so all are finite, and one is positive
    if not usable.all():
        rest = signals[~usable]
        usable[~usable] = np.isfinite(rest).all(axis=1) & (rest.max(axis=1) > 0)
    return usable


def _fitted(
    scan: DiffusionScan,
    inside: npt.NDArray[np.bool_],
    volumes: npt.NDArray[np.intp],
    settings: FitSettings,
    device: Device,
    stop: threading.Event | None,
) -> Generator[Step, None, tuple[Array, Array, int, int]]:
    """Coefficients (M, 7), NaN where none were found; which voxels had low signals; how many had none.

    Then how many were done. The signals are gone with the frame.
    """
    signals, skipped = usable_signals(scan, inside, volumes)
    problem = fit_problem(signals, scan.bvals[volumes], scan.directions[volumes], settings)
    with Runs(problem, device) as runs:
        done = yield from runs.steps("fitting tensors", stop)
        fitted = runs.tally()
    return fitted.coefficients, fitted.raised, skipped, done


def _field(
    scan: DiffusionScan, inside: Array, coefficients: Array, raised: Array, settings: FitSettings, skipped: int
) -> TensorField:
    fitted = finite_rows(coefficients)
    mask = volume_of(fitted, inside)
    if not fitted.all():
        coefficients = coefficients[fitted]
    tensors = coefficients[:, :6]
    tensors *= _UM2_PER_MS  # in place, for a copy would take as much again
    s0 = np.exp(np.minimum(coefficients[:, 6], 80.0))
    repaired, notes = np.zeros(len(tensors), bool), list(scan.notes)
    if isinstance(settings.repair, Repaired):
        repaired = repair_rows(tensors, floor := settings.repair.floor_mm2_per_s)
        if repaired.any():
            notes.append(
                f"{repaired.sum()} of {len(repaired)} tensors were not positive definite and were repaired "
                f"(eigenvalues raised to {floor:g} mm²/s)"
            )
    if raised.any():
        low = _voxels(int(raised.sum()))
        notes.append(f"{low} had signals at or below zero; these were raised before the logarithm")
    if skipped:
        notes.append(f"{_voxels(skipped)} of the mask without a usable signal (zero or not finite) were left out")
    return TensorField(
        tensors=volume_of(tensors, mask),
        mask=mask,
        affine=scan.affine,
        repaired=volume_of(repaired, mask),
        s0=volume_of(s0, mask),
        path=scan.path,
        notes=tuple(notes),
    )


def _voxels(count: int) -> str:
    return "1 voxel" if count == 1 else f"{count} voxels"


def check_same_grid(
    field: TensorField | FodField | FixelField, shape: tuple[int, ...], affine: Array, what: str
) -> None:
    """Raise InvalidInput unless a volume lies on the grid of the tensors, FODs or fixels."""
    if not same_grid(field.shape, field.affine, shape, affine):
        name = {FodField: "FODs", FixelField: "fixels"}.get(type(field), "tensors")
        raise InvalidInput(
            f"{what} has shape {tuple(shape)} and another place in space than the {name} ({field.shape}); "
            "resample it to the scan's grid"
        )

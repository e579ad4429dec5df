"""The response of a single fiber, estimated from the scan itself."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made, open_run
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.settings import plain
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.harmonics import half_sphere, harmonics, lmax_of, orders
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.rows import deconvolved_rows
from napari_gpubio.diffusion.fods.settings import CsdSettings, HighestFa, PeakSettings, Tournier
from napari_gpubio.diffusion.kernels.csd.problem import csd_problem, largest_lmax
from napari_gpubio.diffusion.kernels.multitissue.problem import constrained_problem
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.run import check_same_grid, checked_mask, fit_tensors_steps, usable_signals
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
LEAST_DIRECTIONS, LEAST_BVAL = 28, 700  # of a shell, s/mm^2: coefficients of order 6; below, the contrast is too low
_SAME_DIRECTION = 0.99985  # cosine of a degree
_CANDIDATES = 10  # times the number of voxels: those that are looked at again
_SHRINK = 3  # voxels taken off the mask, where edges and noise have high FA, too
_ORDER = 8  # of the FODs whose peaks are looked at, if there are enough directions
_PASSES = 2  # deconvolutions of the FA method
_ELEVATIONS = 90  # at which the response must not be negative, nor fall on its way to the equator
_LOBE_DIRECTIONS = 600  # on a half sphere, over which the mean of a lobe is taken
_ROWS = 4096  # voxels at once, whose amplitudes take 20 MB
_CONSTRAINED = 1e-9  # of the largest amplitude: ridge of the fit


def estimate_response_steps(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: HighestFa | None = None,
    *,
    shell: int = 0,
    field: TensorField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Response]:
    """Estimate the response of a single fiber from the scan, step by step.

    Single-fiber voxels are those whose FODs have one dominant peak: ``sqrt(a) (1 - b / a)^2`` with the amplitudes a
    and b of the first and second peak (Tournier et al. 2013). Their signals are turned so that the fiber lies along z,
    and one zonal series is fitted to all of them, under the condition that the signal is positive and does not fall
    from the fiber's direction to the plane across it.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    mask
        Voxels of the brain, shape (X, Y, Z); None: those of ``field``.
    settings
        `HighestFa` or `Tournier`: which voxels, and how many.
    shell
        b-value in s/mm^2; 0 for the largest one.
    field
        Tensors of the scan; None fits them.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early, which gives the response so far: that of the last voxels that all were compared for, or
        of those of highest FA.

    Returns
    -------
    Response
        With one row; ``parameters`` tell the voxels that it is of.

    Raises
    ------
    InvalidInput
        If the shell is missing, there are too few directions or voxels, the mask does not fit, a parameter is out of
        range, or the fit of the tensors was stopped.
    """
    settings, chosen, clock = settings or HighestFa(), choose_device(device), RunClock()
    bval, volumes = shell_volumes(scan, shell)
    inside = None if mask is None else checked_mask(scan, mask)
    if field is None:
        field = yield from fit_tensors_steps(scan, inside, device=chosen, stop=stop)
    check_whole(field, scan)
    search = SingleFibers(scan, field, field.mask if inside is None else inside, volumes, settings, chosen)
    if isinstance(settings, Tournier):
        response, rounds = yield from search.from_peaks(settings.iterations, stop)
    else:
        response, rounds = yield from search.from_anisotropy(stop)
    what = {"response": plain(settings), "voxels": search.chosen_voxels.tolist(), "rounds": rounds}
    parameters = how_made(chosen, clock.seconds, **what)
    complete = stop is None or not stop.is_set()
    return Response(coefficients=response[np.newaxis], bvals=(bval,), parameters=parameters, complete=complete)


estimate_response = driven(estimate_response_steps)


def estimate_memory(scan: DiffusionScan, inside: npt.NDArray[np.bool_], shell: int) -> Memory:
    """Memory that `deconvolve` takes until it has a response: tensors of the voxels of a mask, and the usual search.

    Of all voxels tensors, their eigenvalues and eigenvectors, and FA are kept; of candidates the amplitudes of lobes.
    """
    volumes, count = shell_volumes(scan, shell)[1], int(np.count_nonzero(inside))
    candidates = min(count, _CANDIDATES * HighestFa().voxels)
    lobes = 33 * _LOBE_DIRECTIONS * min(candidates, _ROWS)  # cosines, weights, and what they are compared with
    kept = Memory(inputs=(58 + 96) * inside.size, tallies=(4 * len(volumes) + 24 + 8) * count)
    return dataclasses.replace(kept, scratch=lobes + 10 * inside.size)  # FA and two masks


def check_whole(field: TensorField, scan: DiffusionScan) -> None:
    """Raise InvalidInput unless tensors are those of the whole of a scan."""
    check_same_grid(field, scan.shape, scan.affine, "the scan")
    if not field.complete:
        raise InvalidInput(
            "only a part of the volume has tensors, since their fit was stopped, and a response is found by them; "
            "fit them again"
        )


def shell_volumes(scan: DiffusionScan, shell: int) -> tuple[int, npt.NDArray[np.intp]]:
    """b-value of a shell (0: the largest) and the indices of its volumes; InvalidInput if the scan has none."""
    there = [bval for bval in scan.shells() if bval > 0]
    if not there:
        raise InvalidInput("the scan has no diffusion-weighted volume; deconvolution needs a shell of directions")
    if shell and shell not in there:
        raise InvalidInput(f"there is no shell b = {shell} s/mm²; this scan has {', '.join(map(str, there))}")
    bval = shell or there[-1]
    return bval, np.flatnonzero(scan.shell_of == bval)


def supported_shell(scan: DiffusionScan) -> int:
    """b-value of the shell that FODs of one tissue can be trusted of, s/mm^2: the largest with enough directions.

    A response and its deconvolution have checks of their own, which a run makes.

    Raises
    ------
    InvalidInput
        If no shell has 28 directions and a b-value of 700 s/mm^2, or no volume has b = 0; a sentence for the user.
    """
    counts = {bval: _distinct(scan.directions[scan.shell_of == bval]) for bval in scan.shells() if bval > 0}
    if not counts:
        raise InvalidInput("The scan has no diffusion-weighted volume; FODs need 28 directions.")
    if not scan.is_b0.any():
        raise InvalidInput("The scan has no volume of b = 0; FODs need one.")
    dense = [bval for bval, count in counts.items() if count >= LEAST_DIRECTIONS]
    if not dense:
        raise InvalidInput(f"{max(counts.values())} directions; FODs need {LEAST_DIRECTIONS}.")
    if max(dense) < LEAST_BVAL:
        raise InvalidInput(f"b = {max(dense)} s/mm²; FODs need {LEAST_BVAL}.")
    return max(dense)


def _distinct(directions: Floats) -> int:
    """How many directions there are, of those within a degree, or opposite ones, one."""
    near = np.abs(directions @ directions.T) > _SAME_DIRECTION
    return int((~np.tril(near, -1).any(axis=1)).sum())


class SingleFibers:
    """The voxels of a mask, of which those with one fiber are chosen, again and again.

    ``chosen_voxels`` and ``chosen_axes``, both of shape (M, 3), are those of the last response. ``unweighted``: signal
    at b = 0, shape (X, Y, Z), by which peaks are divided, so that neither bright voxels nor those with CSF win.
    """

    def __init__(
        self,
        scan: DiffusionScan,
        field: TensorField,
        mask: npt.NDArray[np.bool_],
        volumes: Array,
        settings: HighestFa,
        device: Device,
        *,
        unweighted: Array | None = None,
    ) -> None:
        self._settings, self._device = settings, device
        self._directions = scan.directions[volumes]
        self._lmax, self._order = settings.lmax, min(_ORDER, largest_lmax(len(volumes)))
        inside = mask & field.mask
        self._fa = fa_map(field)
        self._principal = field.eigen.vectors[..., 0, :]
        self._signals, _ = usable_signals(scan, inside, volumes)
        self._inside = inside
        self._voxels = np.argwhere(inside)
        self._bright = np.ones(len(self._voxels)) if unweighted is None else np.maximum(unweighted[inside], 1e-30)
        self.chosen_voxels, self.chosen_axes = np.empty((0, 3), np.int64), np.empty((0, 3))
        if len(self._voxels) < settings.voxels:
            raise InvalidInput(
                f"the response is to be of {settings.voxels} voxels and the mask has {len(self._voxels)}; "
                "choose fewer, or a larger mask"
            )

    def from_anisotropy(
        self, stop: threading.Event | None, *, shrunk: bool = False
    ) -> Generator[Step, None, tuple[Floats, int]]:
        """Begin with the voxels of highest FA, and choose among ten times as many by their peaks.

        ``shrunk``: the mask has no edge of the brain to be taken off.
        """
        candidates, response = self._most_anisotropic(shrunk=shrunk)
        for number in range(_PASSES):
            merit, axes = yield from self._peaks(candidates, response, self._order, stop)
            if stop is not None and stop.is_set():  # not all candidates may have been reached
                return response, number
            best = np.argsort(-merit, kind="stable")[: self._settings.voxels]
            response = self._fit(candidates[best], axes[best])
        return response, _PASSES

    def from_peaks(self, iterations: int, stop: threading.Event | None) -> Generator[Step, None, tuple[Floats, int]]:
        """Begin with all voxels and a response that is sharp, and choose until the same ones are chosen again."""
        mean = float(self._signals.mean()) * np.sqrt(4.0 * np.pi)
        response, before = mean * np.array([1.0, -1.0, 1.0]), np.empty(0, np.int64)
        candidates, lmax = np.arange(len(self._voxels)), min(4, self._order)
        for number in range(iterations):
            merit, axes = yield from self._peaks(candidates, response, lmax, stop)
            if stop is not None and stop.is_set():
                return response if number else self._most_anisotropic()[1], number
            order = np.argsort(-merit, kind="stable")
            best = order[: self._settings.voxels]
            response, lmax = self._fit(candidates[best], axes[best]), self._order
            chosen = np.sort(candidates[best])
            if np.array_equal(chosen, before):
                return response, number + 1
            before = chosen
            candidates = self._around(candidates[order[: _CANDIDATES * self._settings.voxels]])
        return response, iterations

    def _most_anisotropic(self, *, shrunk: bool = False) -> tuple[npt.NDArray[np.int64], Floats]:
        """Indices of the voxels of highest FA, ten times as many as are needed, and the response of the first ones."""
        core = np.arange(len(self._voxels)) if shrunk else self._core()
        order = core[np.argsort(-self._fa[tuple(self._voxels[core].T)], kind="stable")]
        best = order[: self._settings.voxels]
        response = self._fit(best, self._principal[tuple(self._voxels[best].T)])
        return order[: _CANDIDATES * self._settings.voxels], response

    def _core(self) -> npt.NDArray[np.int64]:
        """Indices of the voxels away from the edge of the mask, as far as enough of them are left."""
        from scipy import ndimage

        for shrink in range(_SHRINK, 0, -1):
            inner = ndimage.binary_erosion(self._inside, iterations=shrink)
            if np.count_nonzero(inner) >= _CANDIDATES * self._settings.voxels:
                return np.flatnonzero(inner[self._inside])
        return np.arange(len(self._voxels))

    def _around(self, which: Array) -> npt.NDArray[np.int64]:
        """Indices of voxels and their neighbors."""
        from scipy import ndimage

        marked = np.zeros(self._inside.shape, bool)
        marked[tuple(self._voxels[which].T)] = True
        return np.flatnonzero(ndimage.binary_dilation(marked)[self._inside])

    def _peaks(
        self, which: Array, response: Floats, lmax: int, stop: threading.Event | None
    ) -> Generator[Step, None, tuple[Floats, Floats]]:
        """How dominant the largest peak of each voxel is, and its direction."""
        message = "looking for single fibers"
        csd = csd_problem(self._signals[which], self._directions, response, CsdSettings(lmax=lmax))
        fods, _, _ = yield from deconvolved_rows(csd, self._device, stop, message)
        problem = PeakProblem(coefficients=np.nan_to_num(fods), settings=PeakSettings(most=2, least_fraction=0.0))
        peaks, counts = np.zeros((len(which), 2, 4)), np.zeros(len(which), np.uint8)
        with Runs(problem, self._device, out=peaks, counts=counts) as runs:
            yield from runs.steps(message, stop)
        first = np.where(counts > 0, peaks[:, 0, 3], 0.0)
        second = np.where(counts > 1, peaks[:, 1, 3], 0.0)
        merit = np.sqrt(first / self._bright[which]) * (1.0 - second / np.maximum(first, 1e-30)) ** 2
        return merit, lobe_axes(problem.coefficients, peaks[:, 0, :3], peaks[:, 1, :3])

    def _fit(self, which: Array, axes: Floats) -> Floats:
        """Coefficients of one response of some voxels, whose fibers have given directions."""
        self.chosen_voxels, self.chosen_axes = self._voxels[which], axes
        return fit_zonal(self._signals[which], self._directions, axes, self._lmax)


def lobe_axes(coefficients: Array, first: Floats, second: Floats) -> Floats:
    """Mean directions of the lobes of the largest peaks, weighted by the amplitudes, as MRtrix takes them.

    In a sharp lobe the maximum follows the noise more than the mean does, and a response around maxima is too sharp.

    Parameters
    ----------
    coefficients
        Of FODs, shape (M, N).
    first, second
        Unit directions of the two largest peaks, shape (M, 3); zero for none.

    Returns
    -------
    ndarray
        Shape (M, 3), unit vectors; the lobe is what is positive and nearer to the first peak than to the second.
    """
    lattice = half_sphere(_LOBE_DIRECTIONS)
    values = harmonics(lattice, lmax_of(coefficients.shape[1])).T.astype(np.float32)
    axes = np.empty((len(coefficients), 3))
    for start in range(0, len(axes), _ROWS):
        rows = slice(start, start + _ROWS)
        cosines = first[rows] @ lattice.T
        weights = np.maximum(coefficients[rows] @ values, 0.0) * np.sign(cosines)
        weights[np.abs(second[rows] @ lattice.T) > np.abs(cosines)] = 0.0
        axes[rows] = weights @ lattice
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    return np.where(lengths > 0, axes / np.maximum(lengths, 1e-30), first)


def fit_zonal(signals: Array, directions: Array, axes: Array, lmax: int) -> Floats:
    """Fit one zonal series to signals around the fiber of each voxel.

    Parameters
    ----------
    signals
        Shape (M, V).
    directions
        Gradient directions, shape (V, 3).
    axes
        Fiber directions, shape (M, 3).
    lmax
        Largest order.

    Returns
    -------
    ndarray
        ``r_0, r_2, ..., r_lmax``, for which the signal is positive and rises from the fiber to the plane across it.
    """
    cosines = np.clip(axes @ directions.T, -1.0, 1.0).ravel()
    values = signals.astype(np.float64).ravel()
    design, scale = _zonal(cosines, lmax), float(np.abs(values).max())
    steps = _zonal(np.cos(np.linspace(0.0, np.pi / 2, _ELEVATIONS)), lmax)
    constraints = np.concatenate([steps[:1], np.diff(steps, axis=0)])
    problem = constrained_problem((values / scale)[np.newaxis], design, constraints, ridge=_CONSTRAINED)
    out, took = np.zeros((1, design.shape[1])), np.zeros(1, np.uint16)
    open_run(problem, CPU, out=out, took=took).advance(0, 1)
    return np.asarray(out[0] * scale)


def _zonal(cosines: Array, lmax: int) -> Floats:
    """Harmonics of m = 0 at some elevations, shape (K, L)."""
    sines = np.sqrt(1.0 - cosines**2)
    places = np.flatnonzero(orders(lmax)[:, 1] == 0)
    return harmonics(np.stack([sines, np.zeros_like(sines), cosines], axis=1), lmax)[:, places]

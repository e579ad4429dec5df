"""One repeat of a bootstrap in FODs: signals are drawn and deconvolved, and fibers tracked in the FODs."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import kind_of
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.diffusion.fods.estimate import shell_volumes
from napari_gpubio.diffusion.fods.harmonics import coefficient_count
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.rows import deconvolved_rows
from napari_gpubio.diffusion.fods.run import shell_problem
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.kernels.csd.problem import CsdProblem
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.voxels import signals_of, volume_of
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.kernels.bootstrap.problem import SignalDraws
from napari_gpubio.fibers.run import make_problem, trace_problem
from napari_gpubio.fibers.settings import AmplitudeMethod, Method
from napari_gpubio.fibers.uncertainty.fod_residuals import USUAL_ORDER, SignalFit, signal_draws, signal_fit
from napari_gpubio.fibers.uncertainty.repeats import SECOND, Place, Repeat, repeat_of, threads_of
from napari_gpubio.fibers.uncertainty.residuals import Box

Array = npt.NDArray[Any]
_MAX_DIFFERENCE = 0.01  # of FODs deconvolved again, relative; devices differ by 1e-6
_SEEDS = 2**53  # of the tracking


class DrawRecipe(NamedTuple):
    """How FODs of one tissue were deconvolved."""

    settings: CsdSettings
    response: Response


class FodRepeats:
    """Draws signals, deconvolves them and tracks; several threads may do so at once.

    A voxel whose draw has no FOD keeps that of the fit.

    Parameters
    ----------
    draws
        What is drawn from.
    csd
        The deconvolution of the same voxels.
    fods
        FODs of the fit, shape (M, N), float32.
    place
        Where.
    device
        One or more GPUs, which take turns, or the CPU.
    stop
        Set it to end a repeat on its way.
    """

    def __init__(
        self,
        draws: SignalDraws,
        csd: CsdProblem,
        fods: Array,
        place: Place,
        device: Device,
        stop: threading.Event | None = None,
    ) -> None:
        self._draws, self._csd, self._fods, self._place, self._stop = draws, csd, fods, place, stop
        self._devices, self.threads = device.each, threads_of(device)

    def trace(
        self, number: int, seeds: Array, directions: Directions, method: Method, *, twice: bool = False
    ) -> Repeat | None:
        """Track in one draw of the FODs, with random numbers that belong to it; None if it was stopped on the way."""
        device = self.device_of(number)
        field = self.field(number, twice=twice)
        if field is None:
            return None
        if isinstance(method, AmplitudeMethod) and method.draws_in(directions):
            method = dataclasses.replace(method, random_seed=(method.random_seed + number + 1) % _SEEDS)
        return repeat_of(trace_problem(make_problem(field, seeds, directions, method), device), device)

    def device_of(self, number: int) -> Device:
        """The one whose turn a repeat is."""
        return self._devices[number % len(self._devices)]

    def field(self, number: int, *, twice: bool = False) -> FodField | None:
        """FODs of a repeat in the box; see `draw`."""
        fods, inside = self.draw(number, self.device_of(number), twice=twice), self._place.inside
        if fods is None:
            return None
        return FodField(coefficients=volume_of(fods, inside), mask=inside, affine=self._place.affine)

    def draw(self, number: int, device: Device, *, twice: bool = False) -> npt.NDArray[np.float32] | None:
        """FODs of a repeat, shape (M, N), which depend on its number and the seed only; None if it was stopped."""
        from napari_gpubio.fibers.kernels.bootstrap.signals import draw_signals

        signals = draw_signals(self._draws, number)
        if twice:
            signals = np.maximum(signals + draw_signals(self._draws, SECOND + number) - self._draws.fitted, 0)
        problem = dataclasses.replace(self._csd, signals=signals)
        fods, _, done = drive(deconvolved_rows(problem, device, self._stop))
        if done < len(fods):
            return None
        lost = ~(np.isfinite(fods).all(axis=1) & (fods[:, 0] > 0))
        fods[lost] = self._fods[lost]
        return fods

    def close(self) -> None:
        """Nothing is kept on GPUs."""


def fod_repeats_steps(
    scan: DiffusionScan, field: FodField, box: Box, seed: int, device: Device, stop: threading.Event | None
) -> Generator[Step, None, FodRepeats]:
    """Fit the signals of a box, see that its FODs are those of the scan, and return what draws them again.

    Parameters
    ----------
    scan, field
        The whole scan, and what `napari_gpubio.diffusion.fods.deconvolve` made of it.
    box
        Three ranges of voxels.
    seed
        Of the random numbers.
    device, stop
        See `FodRepeats`.

    Raises
    ------
    InvalidInput
        If the FODs are those of another scan, or cannot be drawn again; see `recipe_of` and `shell_fit`.
    """
    recipe, inside = recipe_of(field), field.mask[box]
    volumes, fit = shell_fit(scan, recipe)
    signals = signals_of(scan.data[box], inside, volumes)
    csd = shell_problem(scan, volumes, signals, recipe.response, recipe.settings)
    fods = np.ascontiguousarray(field.coefficients[box][inside], np.float32)
    again, _, done = yield from deconvolved_rows(csd, device, stop)
    if done == len(again):
        _check_same(again, fods)
    voxels = np.arange(field.mask.size, dtype=np.uint32).reshape(field.shape)[box][inside]
    draws = signal_draws(signals, fit, voxels, seed)
    return FodRepeats(draws, csd, fods, Place(inside, affine_of(box, field.affine)), device, stop)


def affine_of(box: Box, affine: Array) -> npt.NDArray[np.float64]:
    """Voxel to world, mm, of a box of voxels."""
    shift = np.eye(4)
    shift[:3, 3] = [part.start for part in box]
    return np.asarray(affine @ shift)


def recipe_of(field: FodField) -> DrawRecipe:
    """How FODs were deconvolved, as their parameters tell.

    InvalidInput if they do not, such as those of a file, or are of several tissues.
    """
    made, responses = field.parameters.get("deconvolution"), field.parameters.get("responses", ())
    if len(responses) > 1 or field.tissues:
        raise InvalidInput(
            f"the FODs are of {max(len(responses), 1 + len(field.tissues))} tissues, and a bootstrap draws signals of "
            "one shell for one tissue; deconvolve with the response of a single fiber alone"
        )
    if made is None or not responses:
        raise InvalidInput(
            "the FODs do not tell with which response and settings they were deconvolved, as those of other programs; "
            "deconvolve the scan here"
        )
    try:
        (response,) = responses
        coefficients, bvals = np.array(response["coefficients"], np.float64), tuple(map(int, response["bvals"]))
        settings = CsdSettings(**made)
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidInput(
            f"what the FODs' JSON file tells of their deconvolution cannot be used ({error}); deconvolve the scan here"
        ) from error
    return DrawRecipe(settings, Response(coefficients=coefficients, bvals=bvals))


def shell_fit(scan: DiffusionScan, recipe: DrawRecipe) -> tuple[npt.NDArray[np.intp], SignalFit]:
    """Volumes of the shell that is deconvolved, and the fit of its signals; InvalidInput if they are too few."""
    _, volumes = shell_volumes(scan, recipe.settings.shell)
    return volumes, signal_fit(scan.directions[volumes])


def drawn_notes(scan: DiffusionScan, field: FodField) -> list[str]:
    """What is drawn, in sentences for the user."""
    volumes, fit = shell_fit(scan, recipe_of(field))
    count = coefficient_count(fit.order)
    drawn = f"the signals of {len(volumes)} directions were fitted by {count} harmonics (order {fit.order})"
    notes = [f"{drawn}; each repeat deconvolves this fit with residuals drawn anew"]
    if fit.order < USUAL_ORDER:
        notes.append(
            f"with {len(volumes)} directions the fit misses a part of the signals of crossing fibers, which counts as "
            "noise, so intervals are too wide there, up to 2.5 times"
        )
    return notes


def fod_notes(scan: DiffusionScan, field: FodField, method: Method) -> list[str]:
    """What is drawn, and what tracking adds to it, in sentences for the user."""
    notes = drawn_notes(scan, field)
    if method.draws:
        notes.append(
            f"{kind_of(method)} draws directions at random, anew in each repeat, so intervals have this spread, too; "
            "with sd_stream they have that of noise alone"
        )
    return notes


def _check_same(again: Array, fods: Array) -> None:
    """Raise InvalidInput unless FODs that were deconvolved again are what they were, in most voxels."""
    if again.shape != fods.shape:
        raise InvalidInput(
            f"the FODs have {fods.shape[1]} coefficients, and their deconvolution makes {again.shape[1]}; "
            "deconvolve the scan again"
        )
    size = np.maximum(np.linalg.norm(fods, axis=1), 1e-30)
    differences = np.nan_to_num(np.linalg.norm(again - fods, axis=1) / size, nan=np.inf)
    if len(fods) and (typical := float(np.median(differences))) > _MAX_DIFFERENCE:
        raise InvalidInput(
            f"the FODs are not those of this scan: its deconvolution differs by {100 * typical:.3g} %; give the scan "
            "that they were made from"
        )

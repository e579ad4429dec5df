"""FODs from a diffusion scan by constrained spherical deconvolution, and their peaks, on any device."""

import dataclasses
import math
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.rows import finite_rows
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.estimate import estimate_memory, estimate_response_steps, shell_volumes
from napari_gpubio.diffusion.fods.harmonics import (
    coefficient_count,
    constraint_rows,
    convolution_factors,
    harmonics,
    orders,
)
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.response import TISSUES, Response, check_tissues
from napari_gpubio.diffusion.fods.rows import deconvolved_rows, search_steps
from napari_gpubio.diffusion.fods.settings import CsdSettings, MultiTissueSettings, PeakSettings
from napari_gpubio.diffusion.kernels.csd.problem import CsdProblem, check_directions, csd_problem, largest_lmax
from napari_gpubio.diffusion.kernels.multitissue.problem import ConstrainedProblem, constrained_problem
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.tensors.run import (
    checked_mask,
    fit_tensors_steps,
    fullest_moment,
    unread,
    usable_signals,
)
from napari_gpubio.diffusion.tensors.run import needed_memory as fit_memory
from napari_gpubio.diffusion.voxels import volume_of

Array = npt.NDArray[Any]
Settings = CsdSettings | MultiTissueSettings
_USUAL_LMAX = 8


def deconvolve_steps(
    scan: DiffusionScan,
    responses: Response | Sequence[Response] | None = None,
    mask: Array | None = None,
    settings: Settings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FodField]:
    """Deconvolve FODs from a scan, step by step.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    responses
        Of a single fiber, for one shell (Tournier et al. 2007); or of white matter, gray matter and CSF, in this
        order, or of white matter and CSF, for all shells (Jeurissen et al. 2014); None estimates that of a single
        fiber from the scan.
    mask
        Where to deconvolve, shape (X, Y, Z); None makes a brain mask from the b0 volumes.
    settings
        Order and weights: `CsdSettings` of one tissue, `MultiTissueSettings` of several; None takes the usual ones.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; voxels that were not reached are then left out of the mask.

    Returns
    -------
    FodField
        With several responses also ``tissues``, the densities of the other tissues.

    Raises
    ------
    InvalidInput
        If the mask does not fit, there are too few directions for the order or too few shells for the tissues, or a
        response is of another scan.
    """
    chosen, clock = choose_device(device), RunClock()
    given = None if responses is None else _listed(responses)
    inside, notes = checked_mask(scan, mask), list(scan.notes)
    settings, more = _settled(scan, given, settings)
    notes += more
    tissues = given or (yield from _own_response(scan, inside, settings, chosen, stop))
    if not tissues:
        return _nothing(scan, settings)
    if given is None:
        notes.append("the response was estimated from the voxels of highest FA")
    check_tissues(tissues)
    notes += dict.fromkeys(note for tissue in tissues for note in tissue.notes)
    several = len(tissues) > 1
    _check_memory(scan, tissues, inside, settings)
    fods, done, more = yield from _solved(scan, inside, tissues, settings, chosen, stop)
    notes += more
    if settings.order > tissues[0].lmax:
        notes.append(
            f"the response has the order {tissues[0].lmax} only, so what the FODs have beyond it, up to "
            f"{settings.order}, comes from the condition that amplitudes are positive"
        )
    directions = len(_volumes_of(scan, settings))
    if not several and coefficient_count(settings.order) > directions:
        notes.append(
            f"{coefficient_count(settings.order)} coefficients from {directions} directions (super-resolution): "
            "the condition that amplitudes are positive decides about the finest detail"
        )
    plain_responses = [{"bvals": list(r.bvals), "coefficients": r.coefficients.tolist()} for r in tissues]
    parameters = how_made(chosen, clock.seconds, deconvolution=plain_fields(settings), responses=plain_responses)
    field = _field(scan, inside, fods, coefficient_count(settings.order), tissues, notes)
    return dataclasses.replace(field, parameters=parameters, complete=done == len(fods))


deconvolve = driven(deconvolve_steps)


def needed_memory(
    scan: DiffusionScan,
    responses: Response | Sequence[Response] | None = None,
    mask: Array | None = None,
    settings: Settings | None = None,
    *,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `deconvolve` takes besides the scan: of the CPU's, or on each of some GPUs.

    Arguments are those of `deconvolve_steps`; without a mask one is made, which itself takes less. Without responses
    it is that of the fit of tensors and the search for single fibers, too.

    Examples
    --------
    >>> from napari_gpubio import diffusion
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> memory = diffusion.fods.needed_memory(scan, settings=diffusion.CsdSettings(lmax=6), device="cpu")
    >>> memory.megabytes > 10
    True
    """
    chosen, inside = choose_device(device), checked_mask(scan, mask)
    given = None if responses is None else _listed(responses)
    settings, _ = _settled(scan, given, settings)
    if given is None:
        assert isinstance(settings, CsdSettings)
        bval, _ = shell_volumes(scan, settings.shell)
        like = Response(coefficients=np.array([[1.0, -1.0]]), bvals=(bval,))
        moments = fit_memory(scan, inside, device=chosen), needed_memory(scan, like, inside, settings, device=chosen)
        return fuller(*moments, *(() if chosen.is_gpu else (estimate_memory(scan, inside, settings.shell),)))
    tissues = given
    check_tissues(tissues)
    volumes, count, voxels = _volumes_of(scan, settings), int(np.count_nonzero(inside)), math.prod(scan.shape)
    problem = _problem_of(scan, np.empty((0, len(volumes)), np.float32), volumes, tissues, settings)
    solving = dataclasses.replace(problem, signals=unread(count, len(volumes))).memory(chosen)
    if chosen.is_gpu:
        return solving
    row = 4 * problem.coefficients
    return fullest_moment(scan, inside, volumes, solving, Memory(results=(row + 1) * voxels, scratch=(row + 1) * count))


def _check_memory(scan: DiffusionScan, responses: Sequence[Response] | None, inside: Array, settings: Settings) -> None:
    """Raise InvalidInput if the host has too little memory, which a run on a GPU takes as much of."""
    needed = needed_memory(scan, responses, inside, settings, device=CPU)
    needed.check("deconvolving this scan", "give the mask of a smaller part, a smaller lmax, or close other programs")


def _own_response(
    scan: DiffusionScan, inside: Array, settings: Settings, device: Device, stop: threading.Event | None
) -> Generator[Step, None, list[Response]]:
    """The response of a single fiber, estimated from the scan; none if the fit of the tensors was stopped."""
    assert isinstance(settings, CsdSettings)
    _check_memory(scan, None, inside, settings)
    field = yield from fit_tensors_steps(scan, inside, device=device, stop=stop)
    if not field.complete:
        return []
    found = yield from estimate_response_steps(
        scan, inside, shell=settings.shell, field=field, device=device, stop=stop
    )
    return [found]


def _volumes_of(scan: DiffusionScan, settings: Settings) -> npt.NDArray[np.intp]:
    """Indices of the volumes that are deconvolved: all of them for several tissues, else a shell."""
    return shell_volumes(scan, settings.shell)[1] if isinstance(settings, CsdSettings) else np.arange(len(scan.bvals))


def usual_lmax(scan: DiffusionScan, shell: int = 0) -> tuple[int, list[str]]:
    """The usual order of FODs, or the largest one that a scan's directions allow.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    shell
        b-value of the shell that is deconvolved, s/mm^2; 0 = the largest one.

    Returns
    -------
    tuple
        The order, and a note if it is not the usual one.

    Raises
    ------
    InvalidInput
        If the scan has no such shell.
    """
    usual, count = _USUAL_LMAX, len(shell_volumes(scan, shell)[1])
    fits = max(2, min(usual, largest_lmax(count)))
    note = f"the FODs have the order {fits} instead of {usual}: it is the largest that {count} directions allow"
    return fits, [note] if fits < usual else []


def _settled(
    scan: DiffusionScan, given: Sequence[Response] | None, settings: Settings | None
) -> tuple[Settings, list[str]]:
    """Settings with an order, and a note if that is not the usual one; InvalidInput if they are not for the responses.

    The order is `usual_lmax` unless there is one.
    """
    several = given is not None and len(given) > 1
    settings = settings or (MultiTissueSettings() if several else CsdSettings())
    if isinstance(settings, MultiTissueSettings) != several:
        raise InvalidInput(
            f"the settings are {type(settings).__name__} and there are {len(given or ())} responses; several tissues "
            "are deconvolved together, of all shells, with MultiTissueSettings, and one tissue with CsdSettings"
        )
    if settings.lmax is not None:
        return settings, []
    lmax, notes = usual_lmax(scan, settings.shell if isinstance(settings, CsdSettings) else 0)
    return dataclasses.replace(settings, lmax=lmax), notes


def _nothing(scan: DiffusionScan, settings: Settings) -> FodField:
    """FODs of no voxel, as those of a run that was stopped at once."""
    coefficients = np.zeros((*scan.shape, coefficient_count(settings.order)), np.float32)
    mask = np.zeros(scan.shape, bool)
    return FodField(coefficients=coefficients, mask=mask, affine=scan.affine, path=scan.path, complete=False)


def _listed(given: Response | Sequence[Response]) -> list[Response]:
    """Return a response, or some, as a list; InvalidInput if it is something else."""
    several = [given] if isinstance(given, Response) else list(given) if isinstance(given, Sequence) else []
    if not several or not all(isinstance(one, Response) for one in several):
        raise InvalidInput(
            f"responses is {str(given)[:60]!r}; give a Response, or those of tissues, as "
            "diffusion.fods.read_response reads them from a file"
        )
    return several


def _solved(
    scan: DiffusionScan,
    inside: npt.NDArray[np.bool_],
    tissues: list[Response],
    settings: Settings,
    device: Device,
    stop: threading.Event | None,
) -> Generator[Step, None, tuple[Array, int, list[str]]]:
    """FODs and densities (M, N + tissues - 1), NaN where there are none; how many were done; notes.

    Voxels without usable signals go from the mask; signals are gone with the frame.
    """
    volumes = _volumes_of(scan, settings)
    signals, skipped = usable_signals(scan, inside, volumes)
    notes = []
    if skipped:
        notes.append(f"{skipped} voxels of the mask without a usable signal (zero or not finite) were left out")
    problem = _problem_of(scan, signals, volumes, tissues, settings)
    rows, took, done = yield from deconvolved_rows(problem, device, stop)
    if isinstance(settings, CsdSettings) and (unsettled := np.count_nonzero(took[:done] >= settings.iterations)):
        notes.append(
            f"{unsettled} voxels did not settle within {settings.iterations} iterations, and were left as they were "
            "then; ask for more, or for a smaller lmax"
        )
    return rows, done, notes


def _problem_of(
    scan: DiffusionScan, signals: Array, volumes: Array, tissues: list[Response], settings: Settings
) -> CsdProblem | ConstrainedProblem:
    """The deconvolution of signals (M, V), which those of several tissues are scaled for in place."""
    if isinstance(settings, MultiTissueSettings):
        return _tissues_problem(scan, signals, volumes, tissues, settings)
    return shell_problem(scan, volumes, signals, tissues[0], settings)


def shell_problem(
    scan: DiffusionScan, volumes: Array, signals: Array, response: Response, settings: CsdSettings
) -> CsdProblem:
    """The deconvolution of signals (M, V) of the volumes of one shell, with the response's row for it."""
    bval = int(scan.shell_of[volumes[0]])
    shells = [bval] if len(response.coefficients) == 1 else scan.shells()
    return csd_problem(signals, scan.directions[volumes], response.of_shell(bval, shells), settings)


def _tissues_problem(
    scan: DiffusionScan, signals: Array, volumes: Array, tissues: list[Response], settings: Settings
) -> ConstrainedProblem:
    """The deconvolution of signals (M, V) of all shells into FODs and densities; it scales them in place."""
    shells = scan.shells()
    if len(tissues) > min(3, len(shells)):
        raise InvalidInput(
            f"{len(tissues)} tissues cannot be told apart by the shells {', '.join(map(str, shells))} s/mm²; "
            + ("give the response of a single fiber" if len(shells) < 2 else "give those of white matter and CSF")
        )
    check_directions(scan.directions[scan.shell_of == shells[-1]], settings.order)
    forward = _forward(scan, volumes, tissues, settings.order)
    count = coefficient_count(settings.order)
    constraints = np.zeros((settings.constraint_directions + len(tissues) - 1, forward.shape[1]))
    constraints[: settings.constraint_directions, :count] = constraint_rows(
        settings.constraint_directions, settings.order
    )
    for number in range(len(tissues) - 1):
        constraints[settings.constraint_directions + number, count + number] = 1.0
    scale = float(np.abs(forward).max())
    np.divide(signals, scale, out=signals)
    return constrained_problem(signals, forward / scale, constraints)


def _forward(scan: DiffusionScan, volumes: Array, tissues: list[Response], lmax: int) -> npt.NDArray[np.float64]:
    """Signals of each coefficient of white matter, and of a unit of each other tissue, shape (V, N + tissues - 1)."""
    shells, order = scan.shells(), orders(lmax)[:, 0] // 2
    matrix = np.zeros((len(volumes), len(order) + len(tissues) - 1))
    for bval in shells:
        rows = scan.shell_of[volumes] == bval
        factors = np.zeros(lmax // 2 + 1)
        known = convolution_factors(tissues[0].of_shell(bval, shells))[: len(factors)]
        factors[: len(known)] = known
        directions = scan.directions[volumes[rows]]
        if bval == 0:
            directions = np.broadcast_to([0.0, 0.0, 1.0], directions.shape)
            factors[1:] = 0.0
        matrix[rows, : len(order)] = harmonics(directions, lmax) * factors[order]
        for number, tissue in enumerate(tissues[1:]):
            matrix[rows, len(order) + number] = tissue.of_shell(bval, shells)[0]
    return matrix


def _field(
    scan: DiffusionScan, inside: Array, rows: Array, count: int, tissues: list[Response], notes: list[str]
) -> FodField:
    solved = finite_rows(rows)
    mask = volume_of(solved, inside)
    if not solved.all():
        rows = rows[solved]
    others = TISSUES[1:] if len(tissues) == len(TISSUES) else TISSUES[2:]
    return FodField(
        coefficients=volume_of(rows[:, :count], mask),
        mask=mask,
        affine=scan.affine,
        tissues={name: volume_of(rows[:, count + n], mask) for n, name in enumerate(others[: len(tissues) - 1])},
        path=scan.path,
        notes=tuple(notes),
    )


def find_peaks_steps(
    fods: FodField,
    settings: PeakSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FixelField]:
    """Find the peaks of FODs, step by step.

    Every maximum on a lattice of directions is followed uphill by Newton's method.

    Parameters
    ----------
    fods
        The distributions.
    settings
        Which peaks count; see `PeakSettings`.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; voxels that were not reached have no peaks.

    Returns
    -------
    FixelField
        A fixel for each peak, with its amplitude.
    """
    settings, chosen, clock = settings or PeakSettings(), choose_device(device), RunClock()
    problem = PeakProblem(
        coefficients=np.ascontiguousarray(fods.coefficients[fods.mask], np.float32), settings=settings
    )
    peaks, counts = yield from search_steps(problem, chosen, stop)
    there = np.arange(settings.most) < counts[:, np.newaxis]
    return FixelField(
        counts=volume_of(counts, fods.mask),
        directions=peaks[there][:, :3].astype(np.float32),
        amplitudes=peaks[there][:, 3].astype(np.float32),
        affine=fods.affine,
        path=fods.path,
        notes=fods.notes,
        parameters=how_made(chosen, clock.seconds, peaks=plain_fields(settings), fods=dict(fods.parameters)),
        complete=fods.complete and (stop is None or not stop.is_set()),
    )


find_peaks = driven(find_peaks_steps)

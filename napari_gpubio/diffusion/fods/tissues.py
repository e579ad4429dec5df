"""The responses of white matter, gray matter and CSF, estimated from the scan itself."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import plain
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.estimate import SingleFibers, check_whole, fit_zonal, shell_volumes
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.settings import HighestFa, ThreeTissues, TwoTissues
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.mask import inliers, otsu_threshold
from napari_gpubio.diffusion.tensors.run import checked_mask, fit_tensors_steps
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_MIN_VOXELS = 10  # of a tissue
_MIN_FLUID = 1.5e-3  # mm^2/s; CSF has 3.0e-3 at 37 degrees Celsius, gray matter 0.8e-3
_LARGEST_FOR_FLUID = 1500  # s/mm^2; beyond, little but noise is left of fluid
_MIN_SINGLE = 20  # voxels of one fiber: fewer make no zonal series


def estimate_tissue_responses_steps(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: TwoTissues | None = None,
    *,
    field: TensorField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, tuple[Response, ...]]:
    """Estimate the responses of tissues from the scan, step by step.

    The decay of a voxel's signal is the mean over shells of ``ln(S_0 / S_b)``; that of CSF is the largest. Where FA
    is high there is white matter, and the decay divides the rest into gray matter and CSF (after Dhollander et al.
    2016 and 2019). Of white matter the voxels are taken whose FODs have the most dominant single peak, relative
    to the signal at b = 0 (else as `napari_gpubio.diffusion.estimate_response_steps`); of gray matter those of the
    most typical decay; of CSF those of the largest.

    Parameters
    ----------
    scan
        The diffusion-weighted series, with b0 volumes.
    mask
        Voxels of the brain, shape (X, Y, Z); None makes a brain mask from the b0 volumes.
    settings
        `ThreeTissues`, which is the default, or `TwoTissues`: which tissues, and shares of their voxels.
    field
        Tensors of the scan; None fits them.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early, which leaves the voxels of white matter as they are then.

    Returns
    -------
    tuple of Response
        In this order, each with a row for every shell, b0 included; ``parameters`` tell the voxels that it is of, and
        ``notes`` if those of CSF do not diffuse like a fluid.

    Raises
    ------
    InvalidInput
        If there are too few shells, no b0 volumes, or too few voxels of a tissue.
    """
    settings, chosen, clock = settings or ThreeTissues(), choose_device(device), RunClock()
    _check_shells(scan, 3 if isinstance(settings, ThreeTissues) else 2)
    inside = checked_mask(scan, mask)
    if field is None:
        field = yield from fit_tensors_steps(scan, inside, device=chosen, stop=stop)
    check_whole(field, scan)
    decay = signal_decay(scan, inside & field.mask)
    core, eroded = _eroded(np.isfinite(decay), settings.shrink)
    white, gray, csf = _segmented(decay, fa_map(field), core, settings)
    count = max(_MIN_SINGLE, round(settings.white_percent / 100 * np.count_nonzero(white)))
    _check_voxels("white matter", white, count)
    single = HighestFa(voxels=count, lmax=settings.lmax)
    volumes = shell_volumes(scan, 0)[1]
    search = SingleFibers(scan, field, white, volumes, single, chosen, unweighted=scan.b0_mean())
    yield from search.from_anisotropy(stop, shrunk=True)
    facts = how_made(chosen, clock.seconds, tissues=plain(settings), eroded=eroded)
    found = [_fiber_response(scan, search.chosen_voxels, search.chosen_axes, settings.lmax, facts)]
    if isinstance(settings, ThreeTissues):
        typical = np.abs(decay - np.median(decay[gray])) if gray.any() else decay
        found.append(_isotropic_response(scan, _best(typical, gray, settings.gray_percent, "gray matter"), facts))
    fluid = _best(-decay, csf, settings.csf_percent, "CSF")
    found.append(dataclasses.replace(_isotropic_response(scan, fluid, facts), notes=_fluid_notes(scan, fluid)))
    complete = stop is None or not stop.is_set()
    return tuple(dataclasses.replace(one, complete=complete) for one in found)


estimate_tissue_responses = driven(estimate_tissue_responses_steps)


def signal_decay(scan: DiffusionScan, mask: Mask) -> Floats:
    """Mean over shells of ``ln(S_0 / S_b)``, with the mean signals of each; NaN outside the mask and without signal.

    Returns
    -------
    ndarray
        Shape (X, Y, Z).
    """
    signals, shells = np.asarray(scan.data[mask], np.float64), scan.shells()
    means = np.stack([signals[:, scan.shell_of == bval].mean(axis=1) for bval in shells], axis=1)
    usable = (means > 0).all(axis=1)
    decay = np.full(mask.shape, np.nan)
    logs = np.log(means[usable])
    values = np.full(len(means), np.nan)
    values[usable] = (logs[:, :1] - logs[:, 1:]).mean(axis=1)
    values[values <= 0] = np.nan  # weighted signals above that of b0 are of no tissue
    decay[mask] = values
    return decay


def _check_shells(scan: DiffusionScan, tissues: int) -> None:
    shells = scan.shells()
    if shells[0] != 0:
        raise InvalidInput("the scan has no b0 volume, without which tissues cannot be told apart")
    if len(shells) < tissues:
        raise InvalidInput(
            f"{tissues} tissues cannot be told apart by the shells {', '.join(map(str, shells))} s/mm²; "
            + ("take TwoTissues: white matter and CSF" if len(shells) == 2 else "a shell of directions is missing")
        )


def _eroded(mask: Mask, voxels: int) -> tuple[Mask, int]:
    """The mask without its edge, as far as a quarter of it is left, and how many voxels were taken off."""
    from scipy import ndimage

    for shrink in range(voxels, 0, -1):
        inner = ndimage.binary_erosion(mask, iterations=shrink)
        if np.count_nonzero(inner) > np.count_nonzero(mask) / 4:
            return np.asarray(inner), shrink
    return mask, 0


def _segmented(decay: Floats, fa: Array, core: Mask, settings: TwoTissues) -> tuple[Mask, Mask, Mask]:
    """White matter, gray matter and CSF, without voxels whose decay is unusual for the first two."""
    white = core & (fa > settings.white_fa)
    rest = core & ~white
    if not white.any() or not rest.any():
        raise InvalidInput(
            f"{np.count_nonzero(white)} voxels have an FA above {settings.white_fa:g} and {np.count_nonzero(rest)} "
            "have not; both kinds are needed: choose another mask, or another FA of white matter"
        )
    csf = rest & (decay > otsu_threshold(decay[rest]))
    return _usual(decay, white), _usual(decay, rest & ~csf), csf


def _usual(decay: Floats, tissue: Mask) -> Mask:
    """Voxels of a tissue whose decay is no outlier."""
    usual = tissue.copy()
    if tissue.any():
        usual[tissue] = inliers(decay[tissue])
    return usual


def _check_voxels(name: str, tissue: Mask, needed: int) -> None:
    if (count := np.count_nonzero(tissue)) < needed:
        raise InvalidInput(f"{count} voxels of {name} were found and {needed} are needed; use a larger mask")


def _best(score: Floats, tissue: Mask, percent: float, name: str) -> npt.NDArray[np.int64]:
    """Voxels (M, 3) of a tissue with the smallest scores, a share of them."""
    _check_voxels(name, tissue, _MIN_VOXELS)
    voxels = np.argwhere(tissue)
    count = max(_MIN_VOXELS, round(percent / 100 * len(voxels)))
    return voxels[np.argsort(score[tissue], kind="stable")[:count]]


def _fluid_notes(scan: DiffusionScan, voxels: Array) -> tuple[str, ...]:
    """Say if voxels that are taken for CSF have no diffusivity like it in the smallest shell."""
    signals, bval = scan.data[tuple(voxels.T)], scan.shells()[1]
    unweighted, weighted = (signals[:, scan.shell_of == b].mean(dtype=np.float64) for b in (0, bval))
    diffusivity = np.log(unweighted / weighted) / bval
    if bval > _LARGEST_FOR_FLUID or diffusivity >= _MIN_FLUID:
        return ()
    note = (
        f"there seems to be no CSF in the mask: the {len(voxels)} voxels whose signal decays most have a diffusivity "
        f"of {1e3 * diffusivity:.2g}e-3 mm²/s, and CSF has 3e-3; use a mask that holds ventricles, or the response of "
        "a single fiber"
    )
    return (note,)


def _isotropic_response(scan: DiffusionScan, voxels: Array, facts: dict[str, Any]) -> Response:
    signals, shells = scan.data[tuple(voxels.T)], scan.shells()
    means = [signals[:, scan.shell_of == bval].mean(dtype=np.float64) for bval in shells]
    return Response(
        coefficients=np.sqrt(4.0 * np.pi) * np.array(means)[:, np.newaxis],
        bvals=tuple(shells),
        parameters={**facts, "voxels": voxels.tolist()},
    )


def _fiber_response(scan: DiffusionScan, voxels: Array, axes: Floats, lmax: int, facts: dict[str, Any]) -> Response:
    signals, shells = scan.data[tuple(voxels.T)], scan.shells()
    table = np.zeros((len(shells), lmax // 2 + 1))
    for row, bval in enumerate(shells):
        volumes = scan.shell_of == bval
        if bval == 0:
            table[row, 0] = np.sqrt(4.0 * np.pi) * signals[:, volumes].mean(dtype=np.float64)
        else:
            table[row] = fit_zonal(signals[:, volumes], scan.directions[volumes], axes, lmax)
    return Response(coefficients=table, bvals=tuple(shells), parameters={**facts, "voxels": voxels.tolist()})

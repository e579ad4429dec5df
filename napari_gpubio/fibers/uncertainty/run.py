"""The bootstrap of fibers on any device: tensors or FODs are drawn again and again, and fibers tracked in each draw."""

import dataclasses
import threading
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_unused
from napari_gpubio.core.settings import plain
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.run import check_same_grid, fit_tensors_steps
from napari_gpubio.diffusion.tensors.settings import FitSettings, Repaired
from napari_gpubio.fibers.directions import Directions, Principal
from napari_gpubio.fibers.run import check_method, track_steps
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.fibers.settings import Hamiltonian, Method, SDStream
from napari_gpubio.fibers.uncertainty.fod_repeats import affine_of, fod_notes, fod_repeats_steps
from napari_gpubio.fibers.uncertainty.model import Bootstrap, fiber_numbers
from napari_gpubio.fibers.uncertainty.repeats import Place, Repeat, Repeats, TensorRepeats, in_order
from napari_gpubio.fibers.uncertainty.residuals import Box, draw_problem
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings, FodBootstrapSettings
from napari_gpubio.tractograms.model import StopReason, Tractogram

Array = npt.NDArray[Any]
_TWICE = 100  # repeats that are drawn twice: the error of the bias is a tenth of the spread


def bootstrap_steps(  # noqa: PLR0913 - the same
    scan: DiffusionScan,
    seeds_mm: npt.ArrayLike,
    directions: Directions | None = None,
    method: Method | None = None,
    resampling: FodBootstrapSettings | None = None,
    *,
    fit: FitSettings | None = None,
    field: TensorField | FodField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Bootstrap]:
    """Track fibers in tensors or FODs drawn again and again from the residuals of a fit, repeat by repeat.

    In tensors a repeat changes the sign of each voxel's residuals at random, adds them to what the fit predicts, fits
    again, and tracks from the same seeds (the wild bootstrap: Whitcher et al. 2008 of tensors, Jones 2008 of fibers).
    It tells what noise does to fibers, not whether a tensor is the right model; a repeat has the noise of the scan and
    its own, so numbers that noise shifts one way, such as a low FA, are shifted twice. The first 100 repeats are also
    tracked with a second draw of noise, which shifts them once more: so the bias is known that `Bootstrap.interval`
    takes out. The tensors of a repeat are the same on every device and in every box. Those that are not positive
    definite are repaired.

    In FODs a repeat adds residuals that are drawn from those of the voxel to signals that were fitted by spherical
    harmonics, deconvolves these signals as the scan's, and tracks (the residual bootstrap: Berman et al. 2008,
    Jeurissen et al. 2011). With ``sd_stream`` only noise moves fibers. ``ifod1`` and ``ifod2`` draw directions anew in
    each repeat, since the random seed of repeat 0, 1, ... is that of the method plus 1, 2, ...; intervals and visits
    then have the spread of noise and that of the tracking. With one fiber a seed, that fiber follows the largest peak
    of each repeat, which in a crossing need not always be the same fiber's.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    seeds_mm
        Seed points, world mm, shape (S, 3).
    directions
        The fan at each seed; by default the principal direction, or the largest peak, alone: one fiber a seed.
    method
        Of the tracking, by default `Hamiltonian`, in FODs `SDStream`; see `napari_gpubio.fibers.settings`.
    resampling
        Number of repeats, residuals, margin, random seed; `BootstrapSettings`, in FODs `FodBootstrapSettings`.
    fit
        Of the tensors; see `FitSettings`.
    field
        What `fit_tensors` made of this scan with these settings, perhaps in a mask of your own, or the FODs that
        `deconvolve` made of it with the response of a single fiber; None fits tensors in a simple brain mask.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; the result then holds the repeats that were done.

    Returns
    -------
    Bootstrap
        Each step's preview is one, too, of the repeats so far.

    Raises
    ------
    InvalidInput
        If no seed lies in the mask, the scan has fewer than 8 volumes, or in FODs 19 directions, a parameter is out of
        range, or the FODs are of another scan, of several tissues, or of a file.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> result = fibers.bootstrap(scan, [(0.0, -5.0, 22.0)], resampling=fibers.BootstrapSettings(repeats=20))
    >>> result.interval("length_mm").low > 0
    True
    """
    if method is None:
        method = SDStream() if isinstance(field, FodField) else Hamiltonian()
    resampling, fit = _checked(resampling, in_fods=isinstance(field, FodField)), fit or FitSettings()
    if field is not None:
        check_method(method, field)
    notes = fod_notes(scan, field, method) if isinstance(field, FodField) else []
    if isinstance(field, FodField):
        check_unused(fit, [one.name for one in dataclasses.fields(fit)], "FODs are deconvolved, not fitted")
    directions, chosen, clock = method.directions(directions, Principal()), choose_device(device), RunClock()
    if field is None:
        field = yield from fit_tensors_steps(scan, None, fit, device=chosen)
    check_same_grid(field, scan.shape, scan.affine, "the scan")
    of_any_length = dataclasses.replace(method, min_length_mm=0.0)
    fibers = yield from track_steps(field, seeds_mm, directions, of_any_length, device=chosen, stop=stop)
    seeds = make_launch(field, seeds_mm, directions).points_mm
    box = box_around(np.concatenate([fibers.points, seeds]), field, resampling.margin_mm)
    fibers = _long_enough(fibers, field, method)
    summary = _Summary(fibers, box, resampling, notes)
    repeats: Repeats
    if isinstance(field, FodField):
        repeats = yield from fod_repeats_steps(scan, field, box, resampling.random_seed, chosen, stop)
    else:
        assert isinstance(resampling, BootstrapSettings)
        repeats = _tensor_repeats(scan, field, box, fit, resampling, chosen)
    try:
        trace = partial(_traced, repeats, seeds=seeds, directions=directions, method=method)
        for pair in in_order(trace, resampling.repeats, repeats.threads, stop):
            if pair is None:
                break
            summary.add(*pair)
            yield Step(summary.done, resampling.repeats, "bootstrap", make_preview=summary.result)
    finally:
        repeats.close()
    what = {"bootstrap": dataclasses.asdict(resampling), **_made_by(field, fit), "fibers": dict(fibers.parameters)}
    parameters = how_made(chosen, clock.seconds, **what)
    complete = fibers.complete and summary.done == resampling.repeats
    return dataclasses.replace(summary.result(), parameters=parameters, complete=complete)


bootstrap = driven(bootstrap_steps)


def _traced(repeats: Repeats, number: int, **how: Any) -> tuple[Repeat, Repeat | None] | None:
    """A repeat, and one of the first ones with noise added twice as well; None if it was stopped on the way."""
    once, is_first = repeats.trace(number, **how), number < _TWICE
    twice = repeats.trace(number, **how, twice=True) if is_first and once is not None else None
    return None if once is None or (is_first and twice is None) else (once, twice)


def _checked(resampling: FodBootstrapSettings | None, *, in_fods: bool) -> FodBootstrapSettings:
    """Return the settings, or the usual ones; InvalidInput if they are those of tensors in FODs, or the reverse."""
    resampling = resampling or (FodBootstrapSettings() if in_fods else BootstrapSettings())
    if isinstance(resampling, BootstrapSettings) == in_fods:
        right, what = ("FodBootstrapSettings", "FODs") if in_fods else ("BootstrapSettings", "tensors")
        raise InvalidInput(f"resampling is {type(resampling).__name__}; of {what} give {right}")
    return resampling


def _tensor_repeats(
    scan: DiffusionScan,
    field: TensorField,
    box: Box,
    fit: FitSettings,
    resampling: BootstrapSettings,
    device: Device,
) -> TensorRepeats:
    problem, inside = draw_problem(
        scan, field.mask, box, fit, leverage=resampling.leverage, seed=resampling.random_seed
    )
    repaired = fit.repair if isinstance(fit.repair, Repaired) else Repaired()
    return TensorRepeats(problem, Place(inside, affine_of(box, field.affine)), repaired.floor_mm2_per_s, device)


def _made_by(field: TensorField | FodField, fit: FitSettings) -> dict[str, Any]:
    """How the field was made, and is made in every repeat."""
    if isinstance(field, FodField):
        return {name: field.parameters[name] for name in ("deconvolution", "responses")}
    return {"fit": plain(fit)}


def _long_enough(fibers: Tractogram, field: TensorField | FodField, method: Method) -> Tractogram:
    """Fibers of any length as `track` leaves them with this method."""
    lengths = method.lengths(field.voxel_sizes_mm)
    kept = fibers.select(fibers.per_fiber["length_mm"] >= lengths.min_length_mm)
    tracking: dict[str, Any] = {"tracking": plain(method), "lengths": lengths._asdict()}
    return dataclasses.replace(kept, parameters={**fibers.parameters, **tracking})


def box_around(points_mm: Array, field: TensorField | FodField, margin_mm: float) -> Box:
    """Return the ranges of voxels that hold world points (P, 3) and a margin, as far as the field has voxels."""
    voxels = apply_affine(np.linalg.inv(field.affine), points_mm)
    margin = margin_mm / field.voxel_sizes_mm
    low = np.maximum(np.floor(voxels.min(axis=0) - margin), 0).astype(int)
    high = np.minimum(np.ceil(voxels.max(axis=0) + margin) + 1, field.shape).astype(int)
    x, y, z = (slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
    return x, y, z


class _Summary:
    """What is known of the repeats so far."""

    def __init__(self, fibers: Tractogram, box: Box, resampling: FodBootstrapSettings, notes: list[str]) -> None:
        self.done, self._notes = 0, notes
        self._fibers, self._box, self._resampling = fibers, box, resampling
        self._visits = np.zeros(fibers.shape, np.int32)
        self._numbers: list[dict[str, float]] = []
        self._numbers_twice: list[dict[str, float]] = []
        self._kept: list[Tractogram] = []
        self._kept_twice: list[Tractogram] = []
        self._traced = self._cut = self._empty = 0

    def add(self, one: Repeat, twice: Repeat | None) -> None:
        """Add a repeat, and the same with noise added twice; they come in order."""
        fibers = self._added(one, self._numbers, self._kept)
        if twice is not None:
            self._added(twice, self._numbers_twice, self._kept_twice)
        self._visits[self._box] += one.visited
        self._traced += len(fibers)
        self._cut += self._cut_off(fibers)
        self._empty += not len(fibers)
        self.done += 1

    def _added(self, one: Repeat, numbers: list[dict[str, float]], kept: list[Tractogram]) -> Tractogram:
        """Add the numbers and the fibers of a repeat, which are returned on the grid of the scan."""
        fibers = dataclasses.replace(one.fibers, affine=self._fibers.affine, shape=self._fibers.shape)
        numbers.append(fiber_numbers(fibers))
        if self.done < self._resampling.kept_repeats:
            number = np.full(len(fibers), self.done, np.int32)
            kept.append(dataclasses.replace(fibers, per_fiber={**fibers.per_fiber, "repeat": number}))
        return fibers

    def result(self) -> Bootstrap:
        """Return a result of the repeats so far."""
        none = self._fibers.select(np.zeros(0, np.int64))
        none = dataclasses.replace(none, per_fiber={**none.per_fiber, "repeat": np.zeros(0, np.int32)})
        found = Bootstrap(
            fibers=self._fibers,
            visits=self._visits.copy(),
            repeats=self.done,
            numbers=_by_name(self._numbers),
            kept=Tractogram.join(self._kept or [none]),
            complete=False,
            numbers_twice=_by_name(self._numbers_twice),
            kept_twice=Tractogram.join(self._kept_twice or [none]),
        )
        return dataclasses.replace(found, notes=(*self._found(), *_shift_notes(found)))

    def _found(self) -> list[str]:
        notes = list(self._notes)
        if not len(self._fibers):
            notes.append("the fit has no fibers from these seeds; choose others, or settings that let fibers go on")
        if self._empty:
            notes.append(f"{self._empty:,} of {self.done:,} repeats have no fiber; intervals leave them out")
        if self._cut:
            notes.append(
                f"{self._cut:,} of the {self._traced:,} fibers of the repeats end where the box of the draws does; "
                f"a margin of more than {self._resampling.margin_mm:g} mm lets them go on"
            )
        return notes

    def _cut_off(self, fibers: Tractogram) -> int:
        """How many fibers end at a side of the box that is no side of the volume."""
        cut = np.zeros(len(fibers), bool)
        to_voxel, low = np.linalg.inv(fibers.affine), np.array([part.start for part in self._box])
        high = np.array([part.stop for part in self._box])
        for reason, ends in (("stop_reason", fibers.offsets[1:] - 1), ("stop_reason_back", fibers.offsets[:-1])):
            which = np.flatnonzero(fibers.per_fiber[reason] == StopReason.VOLUME)
            at = apply_affine(to_voxel, fibers.points[ends[which]])
            outside = ((at < low + 1) & (low > 0)) | ((at > high - 2) & (high < fibers.shape))
            cut[which] |= outside.any(axis=1)
        return int(cut.sum())


def _by_name(rows: list[dict[str, float]]) -> dict[str, npt.NDArray[np.float64]]:
    """Each number of all repeats."""
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else {})}


def _shift_notes(found: Bootstrap) -> list[str]:
    """Which numbers noise shifts most, in a sentence for the user."""
    if not (shifted := found.shifted()):
        return []
    shifts = ", ".join(f"{name} by {found.bias(name):+.3g} to {found.of_fit(name):.4g}" for name in shifted)
    return [f"noise shifts numbers of the fit by more than they spread: {shifts}; estimates are without that bias"]

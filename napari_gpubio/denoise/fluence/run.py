"""Fluence denoising on any device."""

import functools
import threading
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import in_slabs
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.denoise.fluence.inputs import (
    checked_fluence,
    checked_guide,
    checked_labels,
    checked_mueff,
    checked_second,
    split_in_two,
)
from napari_gpubio.denoise.fluence.model import FluenceResult, FluenceSettings
from napari_gpubio.denoise.inputs import checked_mask, checked_noise, checked_voxel_size
from napari_gpubio.denoise.kernels.fluence.problem import FluenceProblem, Smoothed, limit_of, regions_of
from napari_gpubio.denoise.model import provenance
from napari_gpubio.denoise.run import OpenVolume, denoise_volumes, scaled

Array = npt.NDArray[Any]
_UNGUIDED = (
    "the optical properties of the run are not known here, so the result may be too bright inside vessels and other "
    "thin, strong absorbers, and its error too small; use Clean in the light panel or workflows.clean_fluence, which "
    "know them"
)
_SINGLE = (
    "there is one buffer only: its noise was {}, and it was split in two with random numbers; "
    "the error that is left may be larger than reported"
)


def denoise_fluence_steps(  # noqa: PLR0913 - what a user may know of a run
    first: npt.ArrayLike,
    second: npt.ArrayLike | None = None,
    settings: FluenceSettings | None = None,
    *,
    labels: npt.ArrayLike | None = None,
    guide: npt.ArrayLike | None = None,
    refractive_index: npt.ArrayLike | None = None,
    mueff_per_mm: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    voxel_size_mm: Sequence[float] = (1.0, 1.0, 1.0),
    noise: npt.ArrayLike | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FluenceResult]:
    """Denoise fluence step by step: yields a `Step` after every few windows that were tried and returns the result.

    Windows from narrow to wide are tried, and every voxel keeps the one with the least error, which two half-buffers
    give without any model: see ``scale_selection.py``. The result does not depend on the number of threads.

    Parameters
    ----------
    first, second
        Fluence of even and of odd photons, each per photon of its own half, so that their mean is the whole; shape
        (X, Y, Z), or (X, Y, Z, N) for gates, each of which is denoised alone. Without a second buffer the first is
        the whole, and its noise is measured; that is less good.
    settings
        Scales and choice; see `FluenceSettings`.
    labels
        Refractive indices or tissues as integers, shape (X, Y, Z): nothing is averaged across their borders.
        Needed where the refractive index steps, since fluence steps there too. With a guide: tissues, across whose
        borders errors are not compared.
    guide
        Fluence of the same run without noise, shape (X, Y, Z), right up to a factor that varies slowly:
        `napari_gpubio.light.guide.diffusion_guide`. The ratio to it is smoothed, which is right inside of strong
        absorbers and beside sources as well. It must be that of the very run; one of other media does harm.
    refractive_index
        Beside a guide, shape (X, Y, Z): nothing is averaged across its steps.
    mueff_per_mm
        Effective attenuation, one number or a map (X, Y, Z): windows then end at ``settings.cap`` penetration depths.
        Not used with a guide.
    mask
        Voxels to denoise, shape (X, Y, Z). The others stay as they are and are not averaged.
    voxel_size_mm
        Edge lengths of a voxel; windows are as long in mm along every axis.
    noise
        Standard error of a single buffer where it is known: one number, one for each gate, or a map.
    device
        See `napari_gpubio.core.device.choose_device`; of several GPUs the first is used.
    stop
        Set it to stop early; windows that were not tried are left out, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If a buffer or what comes with it cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.denoise.fluence import denoise_fluence
    >>> rng, truth = np.random.default_rng(0), np.exp(-0.2 * np.indices((30, 30, 30))[2])
    >>> even, odd = (rng.poisson(20 * truth) / 20 for _ in range(2))
    >>> result = denoise_fluence(even, odd, device="cpu")
    >>> bool(result.snr_gain_db > 10)
    True
    """
    settings, clock = settings or FluenceSettings(), RunClock()
    known = _Known(labels, guide, refractive_index, mueff_per_mm, mask)
    gates = _Gates(first, second, settings, known, voxel_size_mm, noise)
    chosen = choose_device(device)
    complete = yield from gates.denoise(chosen, stop)
    parameters = {
        **provenance(settings, gates.voxel_size_mm, chosen, clock),
        "buffers": 1 if second is None else 2,
        "labeled": labels is not None,
        "guided": guide is not None,
        "masked": mask is not None,
        "capped": mueff_per_mm is not None and guide is None,
    }
    return gates.result(parameters, complete=complete)


denoise_fluence = driven(denoise_fluence_steps)


class _Known(NamedTuple):
    """What is known beside the fluence, as it was given."""

    labels: npt.ArrayLike | None
    guide: npt.ArrayLike | None
    refractive_index: npt.ArrayLike | None
    mueff_per_mm: npt.ArrayLike | None
    mask: npt.ArrayLike | None


class _Gates:
    """The gates of a run, denoised one after another."""

    def __init__(
        self,
        first: npt.ArrayLike,
        second: npt.ArrayLike | None,
        settings: FluenceSettings,
        known: _Known,
        voxel_size_mm: Sequence[float],
        noise: npt.ArrayLike | None,
    ) -> None:
        self._settings = settings
        self._first, self._notes = checked_fluence(first, "first buffer")
        self._second, self._noise, shape = None, None, self._first.shape[:3]
        if second is not None:
            self._second, notes = checked_second(second, self._first)
            self._notes += notes
            if noise is not None:
                raise InvalidInput("the noise is given, but it follows from the two buffers; leave one of them out")
        else:
            self._noise = checked_noise(noise, self._first.shape)
            self._notes += (_SINGLE.format("measured" if noise is None else "given"),)
        inside = None if known.mask is None else checked_mask(known.mask, shape) != 0
        self._mask = None if inside is None or inside.all() else inside
        labels, mueff = checked_labels(known.labels, shape), checked_mueff(known.mueff_per_mm, shape)
        index = checked_labels(known.refractive_index, shape, "refractive indices")
        self._guide = checked_guide(known.guide, shape, self._mask)
        is_guided = self._guide is not None
        self._notes += () if is_guided else (_UNGUIDED,)
        self._regions = regions_of(index if is_guided else labels, self._mask)
        self._tissues = regions_of(labels, self._mask) if is_guided else None
        self._limit = None if is_guided else limit_of(mueff, settings, shape)
        self.voxel_size_mm = checked_voxel_size(voxel_size_mm)
        self._kept: Smoothed | None = None

    def denoise(self, device: Device, stop: threading.Event | None) -> Generator[Step, None, bool]:
        """Denoise all gates; returns whether the end was reached."""
        lit: list[Any] = []
        for n in np.ndindex(self._first.shape[3:]):
            if any(in_slabs(np.any, self._first[(..., *n)])):
                lit.append((..., *n))
            else:
                self._notes += (f"gate {n[0]} of the first buffer is zero everywhere and was left as it is",)
        opened = (self._open_gate(where, device) for where in lit)
        return (yield from denoise_volumes(opened, len(lit), "denoising fluence", stop))

    def result(self, parameters: dict[str, Any], *, complete: bool) -> FluenceResult:
        """The gates as they are now."""
        found = self._so_far()
        return FluenceResult(
            image=found.values,
            noise=found.error,
            raw_noise=found.raw_error,
            scale_mm=found.scale,
            parameters=parameters,
            notes=self._notes,
            complete=complete,
        )

    def _so_far(self) -> Smoothed:
        """Fluence, scales and errors of all gates; what was not reached is as it was."""
        if self._kept is None:
            whole = self._first.copy() if self._second is None else (self._first + self._second) / 2
            scales = np.zeros(whole.shape, np.float32)
            self._kept = Smoothed(whole, scales, np.zeros_like(whole), np.zeros_like(whole))
        return self._kept

    def _open_gate(self, where: Any, device: Device) -> OpenVolume:
        """Put the halves of a gate on the device; ``where`` it is in the arrays."""
        first = self._first[where]
        if self._second is not None:
            pair = first, self._second[where]
        else:
            pair = split_in_two(first, self._settings.seed, None if self._noise is None else self._noise[where])
        problem = FluenceProblem(
            halves=pair,
            regions=self._regions,
            is_masked=self._mask is not None,
            limit=self._limit,
            voxel_size_mm=self.voxel_size_mm,
            settings=self._settings,
            guide=self._guide,
            tissues=self._tissues,
        )
        runs = Runs(problem, device.first)
        (run,) = runs.each
        return OpenVolume(runs, functools.partial(self._keep, run, where), functools.partial(self._preview, run, where))

    def _preview(self, run: Any, where: Any) -> Array:
        """All gates as they are now."""
        images = self._so_far().values.copy()
        new, old = run.values() * np.float64(run.problem.scale), images[where]
        images[where] = new if self._mask is None else np.where(self._mask, new, old)
        return images

    def _keep(self, run: Any, where: Any, _: int) -> tuple[()]:
        """Store a denoised gate in its own unit; outside the mask nothing changes."""
        found, factor = run.snapshot(), self._first.dtype.type(run.problem.scale)
        values, error, raw_error = (scaled(x, factor) for x in (found.values, found.error, found.raw_error))
        np.maximum(values, 0, out=values)  # where sums cancel, rounding may leave -1e-20, which is no light
        found = Smoothed(values, found.scale, error, raw_error)
        if self._first.ndim == 3 and self._mask is None:
            self._kept = found  # not copied: new pages take longer than the numbers on them
            return ()
        for kept, new in zip(self._so_far(), found, strict=True):
            np.copyto(kept[where], new, where=True if self._mask is None else self._mask)
        return ()

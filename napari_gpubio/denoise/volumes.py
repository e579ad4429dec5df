"""Volumes as they are opened, denoised: logarithms, gaps and volumes of a series are taken out, and put back."""

import dataclasses
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.volumes import Volume, array_on_grid
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.volumes import one_volume
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence_steps
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.noise import SeriesNoise, estimate, is_across_volumes
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.denoise.values import from_log10, in_place, mean_of_halves, to_log10, without_gaps

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which values of an image are denoised.

    Parameters
    ----------
    mask
        Voxels: not 0. The others stay as they are and are not averaged.
    volumes
        First and last volume of a series, counted from 0; None: all of them.
    log10
        Whether the values are decimal logarithms, of which the linear values are filtered; None: as the image says.
    skip_gaps
        Whether voxels that are NaN or infinite are left out, instead of being an error.
    """

    mask: Volume | None = None
    volumes: tuple[int, int] | None = None
    log10: bool | None = None
    skip_gaps: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class DenoisedVolume(MadeOf, main="result"):
    """A denoised image in the place of the one that was given, and what was found on the way.

    Parameters
    ----------
    denoised
        Of the shape of the image; volumes, gaps and voxels that were left out are as they were.
    noise
        Standard deviation of the noise (of fluence: of what is left), 0 in volumes that were left out.
    residual
        The image minus the denoised one.
    before
        What was denoised where that is not the image itself: the mean of it and the other half; else None.
    scale
        Of fluence: standard deviation of the window of each voxel, mm; else None.
    result
        What the filter returned, on the linear scale.
    has_halves
        Whether two halves of the data were denoised.
    """

    denoised: Volume
    noise: Volume
    residual: Volume
    before: Volume | None = None
    scale: Volume | None = None
    result: DenoiseResult | FluenceResult
    has_halves: bool = False


def denoise_volume_steps(  # noqa: PLR0913 - what a user may know of a run
    image: Volume,
    settings: DenoiseSettings | FluenceSettings | None = None,
    selection: Selection | None = None,
    *,
    noise: float | Volume | SeriesNoise | None = None,
    second: Volume | None = None,
    labels: Volume | None = None,
    guide: Volume | None = None,
    mueff_per_mm: float | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, DenoisedVolume]:
    """Denoise an image as it was opened, step by step.

    Parameters
    ----------
    image
        A plane, a volume or a series.
    settings
        How: by adaptive non-local means, `denoise_steps`, or as fluence of a Monte Carlo run, `denoise_fluence_steps`.
    selection
        Which values; all of them by default.
    noise
        Standard deviation of the noise where it is known: a number, or a map on the image's grid.
    second, labels, guide, mueff_per_mm
        Of fluence, as of `denoise_fluence_steps`. Where the image carries both halves of its photons, and the guide of
        its run, these are taken.
    device, stop
        As of `denoise_steps`.

    Raises
    ------
    InvalidInput
        As of these, or if an input lies on another grid.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import denoise
    >>> from napari_gpubio.core.operations import Volume
    >>> noisy = 100 + np.random.default_rng(0).normal(size=(20, 20, 20))
    >>> clean = denoise.denoise_volume(Volume(array=noisy, affine=np.eye(4)), device="cpu").denoised
    >>> bool(clean.array.std() < 0.2)
    True
    """
    yield Step(0, 1, "reading the image")
    settings, work = settings or DenoiseSettings(), _Work(image, selection or Selection())
    known: dict[str, Any] = {"voxel_size_mm": image.voxel_size_mm, "device": device, "stop": stop}
    if isinstance(settings, DenoiseSettings):
        values, mask = work.linear(image.array)
        known |= {"mask": mask, "noise": work.noise(noise, settings)}
        result: DenoiseResult | FluenceResult = yield from denoise_steps(values, settings, **known)
        return work.finished(result)
    first, other, guide_values = work.halves(second, guide)
    known |= {"mask": work.mask, "noise": work.noise(noise, None), "guide": guide_values, "mueff_per_mm": mueff_per_mm}
    known["labels"] = None if labels is None else one_volume(array_on_grid(labels, image), labels.name)
    result = yield from denoise_fluence_steps(first, other, settings, **known)
    whole = None if second is None or other is None else mean_of_halves(first, other)
    return work.finished(result, whole, has_halves=other is not None)


denoise_volume = driven(denoise_volume_steps)


def linear_values(image: Volume, selection: Selection) -> tuple[Array, Mask | None]:
    """Return the values of an image as the filter takes them, and the mask without its gaps."""
    return _Work(image, selection).linear(image.array)


def is_log(image: Volume, selection: Selection) -> bool:
    """Whether the values of an image are logarithms: as is said, or else as the image says."""
    said = image.quantity is not None and image.quantity.is_log
    return said if selection.log10 is None else selection.log10


class _Work:
    """The values of an image that are filtered, and the way back."""

    def __init__(self, image: Volume, selection: Selection) -> None:
        self._image, self._skip_gaps = image, selection.skip_gaps
        self._is_log = is_log(image, selection)
        self._volumes = _chosen_volumes(image, selection.volumes)
        self.mask = None if selection.mask is None else mask_on_grid(selection.mask, image)

    def linear(self, array: Array, *, all_volumes: bool = False) -> tuple[Array, Mask | None]:
        """Return an array as the filter takes it, and the mask without its gaps."""
        values = array if all_volumes else self._chosen(array)
        values = from_log10(values) if self._is_log else values
        return without_gaps(values, self.mask) if self._skip_gaps else (values, self.mask)

    def _chosen(self, array: Array) -> Array:
        return array if self._volumes is None or array.ndim != 4 else array[..., self._volumes]

    def noise(self, noise: Any, settings: DenoiseSettings | None) -> Any:
        """Return the noise of the chosen volumes; where a series tells it, of all of its volumes."""
        if isinstance(noise, Volume):
            return self._chosen(array_on_grid(noise, self._image))
        image = self._image
        if noise is not None or settings is None or self._volumes is None:
            return noise
        if not is_across_volumes(settings, image.array.shape):
            return None
        series, inside = self.linear(image.array, all_volumes=True)
        return estimate(series, mask=inside)

    def halves(self, second: Volume | None, guide: Volume | None) -> tuple[Array, Array | None, Array | None]:
        """Return both halves of fluence and its guide, as they were given or the image carries them."""
        image = self._image
        guided = None if guide is None else array_on_grid(guide, image)
        if second is None and image.halves is not None:  # which are linear
            first, other = map(self._chosen, image.halves)
            guided = image.guide if guided is None else guided
            return first, other, None if guided is None else self._chosen(guided)
        first, self.mask = self.linear(image.array)
        if second is None:
            return first, None, None if guided is None else self._chosen(guided)
        raw = array_on_grid(second, image)
        other, self.mask = self.linear(raw)
        if self._skip_gaps and raw.shape == image.array.shape:  # a voxel that only one half lacks is as in the other
            other = np.where(np.isfinite(self._chosen(raw)) | self._is_log, other, first)
        return first, other, None if guided is None else self._chosen(guided)

    def finished(
        self, result: DenoiseResult | FluenceResult, whole: Array | None = None, *, has_halves: bool = False
    ) -> DenoisedVolume:
        """Return the volumes of a result; ``whole``: linear values that it is compared with, if not the image's."""
        image, quantity = self._image, self._image.quantity
        before = image.array if whole is None else self._in_place(image.array, whole)
        clean = self._in_place(before, result.image)
        with np.errstate(invalid="ignore"):
            rest = (before - clean).astype(np.float32)
        scale: Any = "log10" if self._is_log else "linear"
        unit = "" if quantity is None else quantity.unit
        of_image = (
            None
            if quantity is None
            else dataclasses.replace(quantity, scale=scale, source=f"denoised: {quantity.source or image.name}")
        )
        left = isinstance(result, FluenceResult)
        noise = Quantity("standard error that is left" if left else "standard deviation of the noise", unit, scale)
        return DenoisedVolume(
            denoised=image.like(clean, name=f"denoised {image.name}", quantity=of_image),
            noise=image.like(self._in_place(np.zeros_like(clean), result.noise), name=noise.name, quantity=noise),
            residual=image.like(
                rest,
                name="input minus denoised",
                quantity=Quantity("input minus denoised", "" if self._is_log else unit),
            ),
            before=None if whole is None else image.like(before, quantity=quantity),
            scale=self._scale(result.scale_mm) if isinstance(result, FluenceResult) else None,
            result=result,
            has_halves=has_halves,
        )

    def _scale(self, scale: Array) -> Volume:
        found = in_place(np.zeros(self._image.array.shape, scale.dtype), scale, self._volumes, keeps_gaps=False)
        name = "standard deviation of the window"
        return self._image.like(found, name=name, quantity=Quantity(name, "mm"))

    def _in_place(self, before: Array, linear: Array) -> Array:
        """The whole image, with the denoised volumes in their place, and gaps as they were."""
        shown = to_log10(linear) if self._is_log else linear
        return in_place(before, shown, self._volumes, keeps_gaps=self._skip_gaps and not self._is_log)


def mask_on_grid(mask: Volume, image: Volume) -> Mask:
    """Return where a mask on the grid of an image is not 0, of the shape of its volume."""
    array = array_on_grid(mask, image)
    volume = one_volume(array.reshape(array.shape + (1,) * (3 - array.ndim)), mask.name)
    return np.asarray(volume.reshape(image.array.shape[:3]) != 0)


def _chosen_volumes(image: Volume, volumes: tuple[int, int] | None) -> slice | None:
    if volumes is None:
        return None
    if image.array.ndim != 4:
        raise InvalidInput(f"{image.name} has shape {image.array.shape} and is no series; leave the volumes out")
    (first, last), count = volumes, image.array.shape[3]
    if not 0 <= first <= last < count:
        raise InvalidInput(f"the volumes are {first} to {last}; {image.name} has the volumes 0 to {count - 1}")
    return slice(first, last + 1)

"""A request of the panel, read in the GUI thread, and the run that answers it in a worker."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.numbers import Numbers
from napari_gpubio.denoise.gui.recipes import Recipe, Result
from napari_gpubio.denoise.io import to_log10, without_gaps
from napari_gpubio.denoise.napari_io import Array, LayerVolume, Part


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """Everything that one run needs.

    Parameters
    ----------
    image
        What is denoised.
    recipe
        How.
    volumes
        Which volumes of a series, or None: all of them.
    mask
        Voxels to denoise, shape (X, Y, Z), or None.
    skips_gaps
        Whether voxels that are not finite are left out, instead of being an error.
    device
        As the API takes it.
    """

    image: LayerVolume
    recipe: Recipe
    volumes: slice | None
    mask: npt.NDArray[np.bool_] | None
    skips_gaps: bool
    device: str

    def cut(self, part: Part) -> "Request":
        """Return the same for a part of the image."""
        return dataclasses.replace(
            self,
            image=self.image.cut(part),
            recipe=self.recipe.cut(part),
            volumes=None,
            mask=None if self.mask is None else self.mask[part.box].transpose(part.axes),
        )

    def linear(self) -> tuple[Array, npt.NDArray[np.bool_] | None]:
        """Values and mask as the filter takes them."""
        values = self.image.values.cut(Part(volumes=self.volumes)).linear()
        return without_gaps(values, self.mask) if self.skips_gaps else (values, self.mask)

    def filter_steps(
        self, values: Array, mask: npt.NDArray[np.bool_] | None, stop: threading.Event
    ) -> Generator[Step, None, Result]:
        """Denoise values of the image's shape."""
        sizes = self.image.voxel_size_mm
        steps = self._recipe().steps(values, mask, voxel_size_mm=sizes, device=self.device, stop=stop)
        return (yield from _without_previews(steps))

    def before(self, values: Array) -> Array | None:
        """Return what is denoised, if that is not the image itself but made of it and other inputs."""
        return self._recipe().before(values)

    def _recipe(self) -> Recipe:
        """The recipe for the chosen volumes."""
        return self.recipe.cut(Part(volumes=self.volumes))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Denoised:
    """Result of a run, ready to be shown: arrays with the axes of the input's layer and its logarithm.

    Parameters
    ----------
    request
        What was denoised and how.
    result
        Of the engine.
    clean, residual, noise
        Denoised image, what was denoised minus that, and the standard deviation of the noise.
    before
        What was denoised, if that is not the image itself.
    scale
        How far voxels were smoothed, mm, if the mode chooses that.
    stored
        The denoised image in the order of the file.
    residual_limit
        Largest absolute residual that the colors resolve.
    numbers
        Noise and gain.
    """

    request: Request
    result: Result
    clean: Array
    residual: Array
    noise: Array
    before: Array | None
    scale: Array | None
    stored: Array
    residual_limit: float
    numbers: Numbers


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Denoised]:
    """Denoise what is requested, and make the layers of it."""
    yield Step(0, 1, "reading the image")
    values, mask = request.linear()
    result = yield from request.filter_steps(values, mask, stop)
    numbers = yield from request.recipe.numbers_steps(request, result, stop)
    return _denoised(request, request.before(values), result, numbers)


def _denoised(request: Request, whole: Array | None, result: Result, numbers: Numbers) -> Denoised:
    image, scale = request.image, request.recipe.scale(result)
    before = np.asarray(image.values.array)
    if whole is not None:
        before = in_place(request, before, after(request, whole))
    clean = in_place(request, before, after(request, result.image))
    noise = in_place(request, np.zeros_like(clean), after(request, result.noise))
    with np.errstate(invalid="ignore"):
        residual = (before - clean).astype(np.float32)
    return Denoised(
        request=request,
        result=result,
        clean=image.shown(clean),
        residual=image.shown(residual),
        noise=image.shown(noise),
        before=None if whole is None else image.shown(before),
        scale=None if scale is None else image.shown(in_place(request, np.zeros(before.shape, scale.dtype), scale)),
        stored=clean,
        residual_limit=_limit(residual),
        numbers=numbers,
    )


def _without_previews(steps: Generator[Step, None, Result]) -> Generator[Step, None, Result]:
    """The same steps without previews, which the GUI thread would make while the worker goes on."""
    try:
        while True:
            yield next(steps).showing(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()


def after(request: Request, linear: Array) -> Array:
    """Return linear values as the input's layer shows them."""
    return to_log10(linear) if request.image.values.is_log else linear


def in_place(request: Request, before: Array, denoised: Array) -> Array:
    """Return the whole image, with the denoised volumes in their place, and gaps as they were."""
    whole = before.astype(denoised.dtype)
    where: Any = ... if request.volumes is None else (..., request.volumes)
    if request.skips_gaps and not request.image.values.is_log:
        denoised = np.where(np.isfinite(whole[where]), denoised, whole[where])
    whole[where] = denoised
    return whole


def _limit(residual: Array) -> float:
    """Nearly the largest absolute residual, of those that are not 0."""
    sizes = np.abs(residual[np.isfinite(residual) & (residual != 0)])
    if not sizes.size:
        return 1.0
    return float(np.percentile(sizes[:: max(1, sizes.size // 1_000_000)], 99))

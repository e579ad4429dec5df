"""A request of the panel, read in the GUI thread: what is denoised, and how; a worker takes its steps."""

import dataclasses
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence_steps
from napari_gpubio.denoise.fluence.model import PROVABLE_TIMES
from napari_gpubio.denoise.inputs import checked_mask
from napari_gpubio.denoise.io import in_place, mean_of_halves, to_log10, without_gaps
from napari_gpubio.denoise.kernels.anlm.problem import Triple, make_windows
from napari_gpubio.denoise.level import find_level
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.napari_io import EVERYTHING, Array, LayerVolume, Part, Values
from napari_gpubio.denoise.noise import SeriesNoise, estimate, is_across_volumes
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings

Result = DenoiseResult | FluenceResult
Noise = SeriesNoise | Values | None
# Largest scales around a voxel: what lies farther away changes fluence of 100 000 photons by < 2 %.
_FLUENCE_REACH = 2.5


_AT_MOST = "≤"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResultTexts:
    """Texts about the results of a mode."""

    noise_title: str  # name of the layer of the noise, with a place for that of the image
    noise: str  # what that layer holds
    gain: str
    gain_tip: str  # where the gain comes from
    times: str  # what so many times more of would do the same without a filter
    about: str = "≈"  # before the gain: about so much, or at most
    trusted_times: float = math.inf  # beyond which it is at most
    stopped: str  # status after a run that was stopped

    def before_gain(self, times: float) -> str:
        """What stands before a gain that is worth so many times as many photons."""
        return _AT_MOST if times > self.trusted_times else self.about


_ANLM_TEXTS = ResultTexts(
    noise_title="noise σ of {}",
    noise="standard deviation of the noise",
    gain="Gain (estimate)",
    times="photons or averages",
    gain_tip=(
        "From how much of a little added noise the filter removes in one block of the image; uncertain by about 1 dB. "
        "A change in bias is not included."
    ),
    stopped="stopped; the rest of the image is unchanged",
)
_FLUENCE_TEXTS = ResultTexts(
    noise_title="noise left in {}",
    noise="standard error that is left",
    gain="Gain",
    times="photons",
    gain_tip=(
        "From the noise before, and the noise and bias that are left, as the two halves show them, over voxels with "
        "more signal than noise; bright voxels count more. More than 15 times the photons is an upper bound: halves "
        "cannot show an error that is so much smaller than the noise."
    ),
    trusted_times=PROVABLE_TIMES,
    stopped="stopped; wider windows were not tried",
)
_FLUENCE_ALONE_TEXTS = dataclasses.replace(
    _FLUENCE_TEXTS,
    noise="remaining standard error, at least",
    gain="Gain, at most",
    gain_tip=(
        "From the noise before and after, estimated from the single volume, which reveals only part of what remains: "
        "on the sample, whose truth is known, the gain is about 5 dB less."
    ),
    about=_AT_MOST,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recipe(ABC):
    """How an image is denoised: settings, and the inputs beside the image by their keywords in the API.

    Of an image that carries both halves of its photons these are ``first`` and ``second``.
    """

    settings: Any
    inputs: Mapping[str, float | Values | SeriesNoise]
    partner: str = ""  # name of the layer that is the other half of the image; empty if the image is the whole
    is_part: bool = False  # whether the inputs are those of a part of the image

    @property
    def has_halves(self) -> bool:
        """Whether there are two halves: the image and another layer, or both beside the image."""
        return "second" in self.inputs

    @property
    @abstractmethod
    def texts(self) -> ResultTexts:
        """Texts about its results."""

    @abstractmethod
    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """How many voxels around a voxel its result depends on, along each axis; what changes little aside."""

    def near(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """How many of them a first preview needs."""
        return self.reach(voxel_size_mm)

    def cut(self, part: Part) -> "Recipe":
        """Return the recipe for a part of the image."""
        inputs = {name: value.cut(part) if isinstance(value, Values) else value for name, value in self.inputs.items()}
        return dataclasses.replace(self, inputs=inputs, is_part=self.is_part or part.box != EVERYTHING)

    def steps(self, values: Array, **known: Any) -> Generator[Step, None, Result]:
        """Denoise linear values of shape (X, Y, Z) or (X, Y, Z, N) by the API, which takes what else is known."""
        for name, value in self.inputs.items():
            if name != "first":  # those are the values
                known[name] = value.linear() if isinstance(value, Values) else value
        if isinstance(self.settings, DenoiseSettings):
            return (yield from denoise_steps(values, settings=self.settings, **known))
        second = known.get("second")
        if self.is_part and second is not None and not (values.any() and second.any()):
            # no photon of one half came here; elsewhere there may be some
            return _as_it_is(mean_of_halves(values, second))
        return (yield from denoise_fluence_steps(values, settings=self.settings, **known))

    def before(self, values: Array) -> Array | None:
        """Return the mean of the image and its other half, if there is one of the same shape: that is denoised."""
        if not isinstance(second := self.inputs.get("second"), Values) or "first" in self.inputs:
            return None
        other = second.linear()
        return mean_of_halves(values, other) if other.shape == values.shape else None


class AnlmRecipe(Recipe):
    """Adaptive non-local means; the noise is shown as it was before."""

    __slots__ = ()

    @property
    def texts(self) -> ResultTexts:
        """Texts about its results."""
        return _ANLM_TEXTS

    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """Search, patch, and the box in which residuals are taken."""
        return self._beside(voxel_size_mm, patches=1)

    def near(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """All candidates; patches that go beyond are mirrored, which changes a result by some 2 % of the noise."""
        return self._beside(voxel_size_mm, patches=0)

    def _beside(self, voxel_size_mm: tuple[float, ...], *, patches: int) -> Triple:
        """Candidates, with so many patches around them, and at a border room for a patch."""
        windows = make_windows(self.settings, voxel_size_mm)
        x, y, z = (
            max(search + box + patches * patch, 2 * max(patch, box), 1)
            for search, patch, box in zip(windows.search, windows.largest_patch, windows.box, strict=True)
        )
        return x, y, z


class FluenceRecipe(Recipe):
    """Fluence; the noise is shown as it is after denoising, and from one buffer only part of it is known."""

    __slots__ = ()

    @property
    def texts(self) -> ResultTexts:
        """Texts about its results."""
        return _FLUENCE_TEXTS if self.has_halves else _FLUENCE_ALONE_TEXTS

    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """Nearly all of the widest window; with less, whole scales would be missing."""
        settings: FluenceSettings = self.settings
        widest = _FLUENCE_REACH * settings.largest_scale * min(voxel_size_mm)
        x, y, z = (int(np.ceil(widest / size)) for size in voxel_size_mm)
        return x, y, z


def _as_it_is(image: Array) -> FluenceResult:
    """The result where there is nothing to denoise."""
    zero = np.zeros_like(image)
    return FluenceResult(image=image, noise=zero, raw_noise=zero, scale_mm=np.zeros(image.shape, np.float32))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """Everything that one run needs."""

    image: LayerVolume
    recipe: Recipe
    volumes: slice | None  # of a series; None: all of them
    mask: npt.NDArray[np.bool_] | None  # voxels to denoise, shape (X, Y, Z)
    skips_gaps: bool  # whether voxels that are not finite are left out, instead of being an error
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
        first = self.recipe.inputs.get("first")
        given = first if isinstance(first, Values) else self.image.values
        values = given.cut(Part(volumes=self.volumes)).linear()
        return without_gaps(values, self.mask) if self.skips_gaps else (values, self.mask)

    @property
    def is_across_volumes(self) -> bool:
        """Whether the noise is one number that all volumes of a series are needed for."""
        settings = self.recipe.settings
        is_open = isinstance(settings, DenoiseSettings) and "noise" not in self.recipe.inputs
        return is_open and is_across_volumes(settings, self.image.shape)

    def estimate_noise(self) -> SeriesNoise:
        """Estimate the noise from all volumes of the series, whichever are denoised; takes a second."""
        values, mask = dataclasses.replace(self, volumes=None).linear()
        return estimate(values, mask=mask)

    @property
    def needs_noise(self) -> bool:
        """Whether there is a noise to be found in more than a part of the image."""
        settings = self.recipe.settings
        is_open = isinstance(settings, DenoiseSettings) and "noise" not in self.recipe.inputs
        return is_open and (self.is_across_volumes or settings.noise_from == "detail")

    def find_noise(self, volume: int) -> Noise:
        """Find the noise that a run would: across the volumes, or a map of one of them; None if patches tell it."""
        if self.is_across_volumes:
            return self.estimate_noise()
        values, mask = dataclasses.replace(self, volumes=slice(volume, volume + 1)).linear()
        values = values.reshape(values.shape[:3])
        if not np.isfinite(values).all() or not np.any(values):  # of which the filter tells
            return None
        level = find_level(values, checked_mask(mask, values.shape), is_rician=self.recipe.settings.is_rician)
        return None if level.sigma is None else Values(level.sigma)

    def with_noise(self, noise: Noise) -> "Request":
        """Return the same with a noise that is known, or with none but that of patches."""
        if noise is None:
            settings = dataclasses.replace(self.recipe.settings, noise_from="patches")
            return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, settings=settings))
        recipe = dataclasses.replace(self.recipe, inputs={**self.recipe.inputs, "noise": noise})
        return dataclasses.replace(self, recipe=recipe)

    def filter_steps(
        self, values: Array, mask: npt.NDArray[np.bool_] | None, stop: threading.Event
    ) -> Generator[Step, None, Result]:
        """Denoise values of the image's shape; without previews, which the GUI thread would make meanwhile."""
        recipe = self.recipe.cut(Part(volumes=self.volumes))
        known = {"mask": mask, "voxel_size_mm": self.image.voxel_size_mm, "device": self.device, "stop": stop}
        steps = recipe.steps(values, **known)
        try:
            while True:
                yield next(steps).showing(None)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            steps.close()

    def before(self, values: Array) -> Array | None:
        """Return what is denoised, if that is not the image itself but made of it and other inputs."""
        return self.recipe.cut(Part(volumes=self.volumes)).before(values)

    def as_shown(self, linear: Array) -> Array:
        """Return linear values as the input's layer shows them."""
        return to_log10(linear) if self.image.values.is_log else linear

    def in_place(self, before: Array, denoised: Array) -> Array:
        """Return the whole image, with the denoised volumes in their place, and gaps as they were."""
        return in_place(before, denoised, self.volumes, keeps_gaps=self.skips_gaps and not self.image.values.is_log)

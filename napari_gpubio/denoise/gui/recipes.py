"""Recipes: how an image is denoised, with every input of a mode; used in a worker."""

import dataclasses
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence_steps
from napari_gpubio.denoise.gui.numbers import Numbers, answer_gain_steps, block_of, numbers_of
from napari_gpubio.denoise.kernels.anlm.problem import Triple, Windows, make_windows
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.napari_io import EVERYTHING, Array, Part, Values
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings

if TYPE_CHECKING:
    from napari_gpubio.denoise.gui.request import Request

Result = DenoiseResult | FluenceResult


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResultTexts:
    """Texts about the results of a mode.

    Parameters
    ----------
    noise_title
        Name of the layer of the noise, with a place for that of the image.
    noise
        What that layer holds.
    gain, gain_tip
        What the gain is called, and where it comes from.
    times
        What so many times more of would do the same without a filter.
    about
        A sign before the gain: about so much, or at most.
    stopped
        Message after a run that was stopped.
    """

    noise_title: str
    noise: str
    gain: str
    gain_tip: str
    times: str
    about: str = "≈"
    stopped: str


class Recipe(ABC):
    """How an image is denoised, with every input that the mode has; used in a worker."""

    __slots__ = ()

    @property
    def partner(self) -> str:
        """Name of the layer that is the other half of the image; empty if the image is the whole."""
        return ""

    @property
    @abstractmethod
    def texts(self) -> ResultTexts:
        """Texts about its results."""

    @abstractmethod
    def steps(
        self,
        values: Array,
        mask: npt.NDArray[Any] | None,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, Any]:
        """Denoise linear values of shape (X, Y, Z) or (X, Y, Z, N)."""

    @abstractmethod
    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """How many voxels around a voxel its result depends on, along each axis; what changes little aside."""

    @abstractmethod
    def near(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """How many of them a first preview needs."""

    @abstractmethod
    def cut(self, part: Part) -> "Recipe":
        """Return the recipe for a part of the image."""

    def before(self, values: Array) -> Array | None:  # noqa: ARG002 - for recipes that join inputs
        """Return what is denoised, in linear values, if that is not the chosen image itself."""
        return None

    def scale(self, result: Any) -> Array | None:  # noqa: ARG002 - for recipes that choose windows
        """Return how far each voxel was smoothed, mm, if the mode chooses that."""
        return None

    @abstractmethod
    def numbers_steps(self, request: "Request", result: Any, stop: threading.Event) -> Generator[Step, None, Numbers]:
        """Compute the numbers of a result."""


# -- adaptive non-local means -----------------------------------------------------------------------------------------

_ANLM_TEXTS = ResultTexts(
    noise_title="noise σ of {}",
    noise="standard deviation of the noise",
    gain="Gain (estimate)",
    times="photons or averages",
    gain_tip=(
        "From what the filter leaves of a little noise that is added to a block of the image; about 1 dB uncertain. A "
        "change of bias is not seen."
    ),
    stopped="stopped; what was not reached is as it was",
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnlmRecipe(Recipe):
    """Settings of the filter and the noise, which is estimated where it is None."""

    settings: DenoiseSettings
    noise: float | Values | None = None

    @property
    def texts(self) -> ResultTexts:
        """The noise shown is that before denoising."""
        return _ANLM_TEXTS

    def steps(
        self,
        values: Array,
        mask: Any,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, DenoiseResult]:
        """Denoise; see `napari_gpubio.denoise.denoise_steps`."""
        noise = self.noise.linear() if isinstance(self.noise, Values) else self.noise
        return (
            yield from denoise_steps(
                values, self.settings, mask=mask, voxel_size_mm=voxel_size_mm, noise=noise, device=device, stop=stop
            )
        )

    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """Search, patch and the box in which residuals are taken."""
        return _beside(make_windows(self.settings, voxel_size_mm), patches=1)

    def near(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """All candidates; patches that go beyond are mirrored, which changes a result by some 2 % of the noise."""
        return _beside(make_windows(self.settings, voxel_size_mm), patches=0)

    def cut(self, part: Part) -> "AnlmRecipe":
        """Return the same for a part of the image."""
        if not isinstance(self.noise, Values):
            return self
        return dataclasses.replace(self, noise=self.noise.cut(part))

    def numbers_steps(
        self, request: "Request", result: DenoiseResult, stop: threading.Event
    ) -> Generator[Step, None, Numbers]:
        """Estimate the gain from the answer to added noise."""
        gain_db = math.nan
        if result.complete:
            yield Step(1, 1, "estimating the gain")
            block = block_of(request, result)
            gain_db = yield from answer_gain_steps(block, stop, magnitudes=self.settings.is_rician)
        return numbers_of(result.image, result.noise, gain_db)


def _beside(windows: Windows, *, patches: int) -> Triple:
    """Voxels beside a slice: candidates, with so many patches around them, and at a border room for a patch."""
    x, y, z = (
        max(search + box + patches * patch, 2 * max(patch, box), 1)
        for search, patch, box in zip(windows.search, windows.largest_patch, windows.box, strict=True)
    )
    return x, y, z


# -- fluence ----------------------------------------------------------------------------------------------------------

# Largest scales around a voxel: what lies farther away changes fluence of 100 000 photons by < 2 %.
_FLUENCE_REACH = 2.5
_FLUENCE_TEXTS = ResultTexts(
    noise_title="noise left in {}",
    noise="standard error that is left",
    gain="Gain",
    times="photons",
    gain_tip=(
        "From the noise before and after, by the two halves, median over voxels with more signal than noise. A "
        "change of bias is not seen; with it the gain is about 2 dB less on the sample, whose truth is known."
    ),
    stopped="stopped; wider windows were not tried",
)
_FLUENCE_ALONE_TEXTS = dataclasses.replace(
    _FLUENCE_TEXTS,
    noise="standard error that is left, at least",
    gain="Gain, at most",
    gain_tip=(
        "From the noise before and after, as it was measured in one buffer, which shows only part of what is left: "
        "on the sample, whose truth is known, the gain is about 5 dB less."
    ),
    about="≤",
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FluenceRecipe(Recipe):
    """Settings, the second half and its name if there is one, labels; ``is_part`` of a slice and what is around it."""

    settings: FluenceSettings
    second: Values | None = None
    partner: str = ""
    labels: Array | None = None
    is_part: bool = False

    @property
    def texts(self) -> ResultTexts:
        """The noise shown is that after denoising; from one buffer only part of it is known."""
        return _FLUENCE_TEXTS if self.partner else _FLUENCE_ALONE_TEXTS

    def steps(
        self,
        values: Array,
        mask: Any,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, FluenceResult]:
        """Denoise; see `napari_gpubio.denoise.denoise_fluence_steps`."""
        second = None if self.second is None else self.second.linear()
        if self.is_part and second is not None and not (values.any() and second.any()):
            return _as_it_is(_mean(values, second))  # no photon of one half came here; elsewhere there may be some
        return (
            yield from denoise_fluence_steps(
                values,
                second,
                self.settings,
                labels=self.labels,
                mask=mask,
                voxel_size_mm=voxel_size_mm,
                device=device,
                stop=stop,
            )
        )

    def reach(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """Nearly all of the widest window."""
        finest = min(voxel_size_mm)
        x, y, z = (int(np.ceil(_FLUENCE_REACH * self.settings.largest_scale * finest / size)) for size in voxel_size_mm)
        return x, y, z

    def near(self, voxel_size_mm: tuple[float, ...]) -> Triple:
        """The same: without it whole scales would be missing."""
        return self.reach(voxel_size_mm)

    def cut(self, part: Part) -> "FluenceRecipe":
        """Return the same for a part of the image."""
        return dataclasses.replace(
            self,
            second=None if self.second is None else self.second.cut(part),
            labels=None if self.labels is None else self.labels[part.box].transpose(part.axes),
            is_part=self.is_part or part.box != EVERYTHING,
        )

    def before(self, values: Array) -> Array | None:
        """Return the mean of both halves: all photons."""
        second = None if self.second is None else self.second.linear()
        return None if second is None or second.shape != values.shape else _mean(values, second)

    def scale(self, result: FluenceResult) -> Array:
        """Return the windows that were chosen."""
        return result.scale_mm

    def numbers_steps(
        self,
        request: "Request",  # noqa: ARG002 - as every recipe
        result: FluenceResult,
        stop: threading.Event,  # noqa: ARG002
    ) -> Generator[Step, None, Numbers]:
        """Return the numbers that follow from the halves."""
        yield Step(1, 1, "the numbers")
        left = result.noise if self.partner else None
        return numbers_of(result.image, result.raw_noise, result.snr_gain_db, left)


def _mean(first: Array, second: Array) -> Array:
    return np.add(first, second, dtype=np.result_type(first, second, np.float32)) / 2  # integers may overflow


def _as_it_is(image: Array) -> FluenceResult:
    """The result where there is nothing to denoise."""
    zero = np.zeros_like(image)
    return FluenceResult(image=image, noise=zero, raw_noise=zero, scale_mm=np.zeros(image.shape, np.float32))

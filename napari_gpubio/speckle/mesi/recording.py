"""A multi-exposure fit from frames: contrast at each exposure, β of a static target, and the fit."""

import dataclasses
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.mesi.calibration import BetaMeasurement, measure_beta
from napari_gpubio.speckle.mesi.model import MesiRecipe, exposure_contrast
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.mesi.run import fit_mesi_steps
from napari_gpubio.speckle.model import ContrastMaps, FrameStack
from napari_gpubio.speckle.registration import Registered
from napari_gpubio.speckle.run import contrast_steps
from napari_gpubio.speckle.settings import ContrastSettings, Noise, Spatial, Squared, WindowSettings

Array = npt.NDArray[Any]
NOT_SPATIAL = (
    "a multi-exposure fit takes contrast over a square of pixels of each frame, since frames follow each other with "
    "other exposures; choose the mode 'spatial'"
)
SINGLE_FRAME = "a multi-exposure fit needs several frames and this is a single one; open the whole stack"
NOTHING_FITTED = (
    "nothing could be fitted: no pixel has a contrast at every exposure; look whether long exposures are saturated, "
    "or whether more noise is subtracted than there is"
)
_FIT_STARTS = "multi-exposure fit (the first on a machine compiles, up to a minute)"


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameFit(ShortRepr):
    """A fit of frames, with β as it was measured in ``recipe``, and what it was computed from.

    ``contrast`` is K at each exposure, (exposures, Y, X), ``maps`` are those of K² of each frame.
    """

    fit: MesiResult
    recipe: MesiRecipe
    contrast: Array
    maps: ContrastMaps
    beta: BetaMeasurement | None = None
    was_registered: bool = False

    @property
    def complete(self) -> bool:
        """Whether all of it was done."""
        return self.maps.complete and self.fit.complete

    @property
    def has_begun(self) -> bool:
        """Whether a pixel was fitted before a stop."""
        return bool(np.isfinite(self.fit.tau_ms).any())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, in sentences: on β, the pixels within the border that were not fitted, and the maps."""
        measured = self.beta
        of_beta = () if measured is None else (
            f"the static target gives β = {measured.beta:.4g} ± {measured.error:.2g}", *measured.notes
        )  # fmt: skip
        return (*of_beta, *self.fit.notes, *self._missed(), *self.maps.notes)

    def _missed(self) -> tuple[str, ...]:
        edge = self.maps.settings.width // 2
        inner = self.fit.tau_ms[edge : self.fit.tau_ms.shape[0] - edge, edge : self.fit.tau_ms.shape[1] - edge]
        missed = int(np.count_nonzero(~np.isfinite(inner)))
        if not self.complete or not missed:
            return ()
        why = "saturated, too dark or below the noise at some exposure"
        if self.was_registered:
            why += ", or shifted out of the frame"
        return (f"{100 * missed / self.fit.tau_ms.size:.3g} % of the pixels were not fitted: {why}",)


def fit_frames_steps(
    frames: Any,
    recipe: MesiRecipe,
    windows: WindowSettings | None = None,
    *,
    noise: Noise | None = None,
    target: Any = None,
    region: npt.ArrayLike | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FrameFit]:
    """Fit frames of several exposures, step by step.

    Parameters
    ----------
    frames
        A stack (T, Y, X), or one that was registered; see `napari_gpubio.speckle.contrast_steps`.
    recipe
        Exposures of the frames, and the fit.
    windows
        Window and mask of K, which is taken over a square of pixels of each frame.
    noise
        Noise of the camera.
    target, region
        Frames of a static target, which β is measured on, and its pixels, booleans (Y, X); None for all.
    device, stop
        As of `napari_gpubio.speckle.contrast_steps`; the fit is made on the CPU.

    Raises
    ------
    InvalidInput
        If exposures and frames do not fit together, contrast is not taken of single frames, β is given and measured,
        or nothing can be fitted.
    """
    given, stack = windows or WindowSettings(), FrameStack(frames)
    if stack.is_single:
        raise InvalidInput(SINGLE_FRAME)
    if not isinstance(given.mode, Spatial):
        raise InvalidInput(NOT_SPATIAL)
    recipe.repeats(stack.count)
    settings, beta = ContrastSettings(mode=given.mode, mask=given.mask, index=Squared()), None
    maps = yield from contrast_steps(frames, settings, noise=noise, device=device, stop=stop)
    contrast = exposure_contrast(maps, recipe)
    if target is not None:
        yield Step(0, contrast[0].size, "β of the static target")
        beta = measure_beta(target, settings, noise=noise, region=region, device=device)
        recipe = dataclasses.replace(recipe, settings=beta.applied_to(recipe.settings))
    yield Step(0, contrast[0].size, _FIT_STARTS)
    fit = yield from fit_mesi_steps(contrast, recipe.exposures_ms, recipe.settings, stop=stop)
    made = FrameFit(
        fit=fit, recipe=recipe, contrast=contrast, maps=maps, beta=beta, was_registered=isinstance(frames, Registered)
    )
    if made.complete and not made.has_begun:
        raise InvalidInput(NOTHING_FITTED)
    return made

"""β of an instrument: K² of a static target."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.mesi.model import GivenBeta, MesiSettings
from napari_gpubio.speckle.model import LEFT_OUT, FrameStack
from napari_gpubio.speckle.run import contrast
from napari_gpubio.speckle.settings import ContrastSettings, Noise, Spatial, Squared, Validity, WindowSettings

Array = npt.NDArray[Any]
_MAX_FRAMES = 64  # more of the same pattern tell no more
_MIN_AT_REST = 0.95  # share of K² that stays when the frames are averaged
_MIN_TILES = 8  # for a standard error


@dataclass(frozen=True, kw_only=True)
class BetaMeasurement:
    """K² of a static target.

    Parameters
    ----------
    beta
        β.
    error
        Its standard error, from the scatter between parts of the image.
    notes
        Remarks for the user, in sentences.
    """

    beta: float
    error: float
    notes: tuple[str, ...] = ()

    def applied_to(self, settings: MesiSettings) -> MesiSettings:
        """Return settings of a fit with this β and its error."""
        return dataclasses.replace(settings, beta=GivenBeta(static_k2=self.beta, static_k2_error=self.error))


def measure_beta(
    frames: Any,
    settings: WindowSettings | None = None,
    *,
    noise: Noise | None = None,
    region: npt.ArrayLike | None = None,
    device: str | Device = "auto",
) -> BetaMeasurement:
    """Measure β on frames of a static target, such as paper, taken with the optics of the fit.

    β is the mean of K² in windows: what the model (Parthasarathy et al. 2008, eq. 11) and maps give where ρ = 0. Near
    β = 1, the mean level of the windows varies, too, and this is several % less than K² of the whole image.

    Parameters
    ----------
    frames
        A frame (Y, X) or a stack (T, Y, X) of any exposures; of a long stack, frames from first to last are used.
    settings
        Those of the maps that are fitted: β depends on the window.
    noise
        Noise of the camera, which would count as β.
    region
        Pixels of the target, booleans (Y, X); all if left out.
    device
        As in `napari_gpubio.speckle.contrast`.

    Raises
    ------
    InvalidInput
        If no pixel of the target has a contrast, or K² is above 1.
    """
    given = settings or ContrastSettings()
    spatial = ContrastSettings(
        mode=given.mode if isinstance(given.mode, Spatial) else Spatial(),
        index=Squared(),
        mask=given.mask if isinstance(given.mask, Validity) else Validity(),
    )
    stack = FrameStack(frames)
    chosen = np.unique(np.linspace(0, stack.count - 1, min(stack.count, _MAX_FRAMES)).round().astype(int))
    loaded = np.concatenate([stack.load(int(n), int(n) + 1) for n in chosen])
    k2 = _mean_k2(loaded, spatial, noise, device)
    if region is not None:
        pixels = np.asarray(region, bool)
        if pixels.shape != k2.shape:
            raise InvalidInput(f"the region of the target has shape {pixels.shape} and a frame {k2.shape}")
        k2 = np.where(pixels, k2, np.nan)
    if not np.isfinite(k2).any():
        raise InvalidInput("no pixel of the static target has a contrast; look whether it is saturated or dark")
    beta = float(np.nanmean(k2))
    if not 0 < beta <= 1:
        raise InvalidInput(
            f"K² of the static target is {beta:.3g} and β must be above 0 and at most 1; look for uneven light or "
            "reflections, and subtract the right noise of the camera"
        )
    notes = []
    if len(loaded) > 1:
        at_rest = _mean_k2(loaded.mean(axis=0, dtype=np.float64)[None], spatial, None, device)
        share = float(np.nanmean(np.where(np.isfinite(k2), at_rest, np.nan))) / beta
        if share < _MIN_AT_REST:
            notes.append(
                f"only {100 * share:.2g} % of the static target's K² is the same in all frames: it moves, or the noise "
                "of the camera is not subtracted, and β is wrong; fix the target, and measure dark frames and gain"
            )
    error = _standard_error(k2, 2 * spatial.width)
    if math.isnan(error):
        notes.append(f"the static target holds fewer than {_MIN_TILES} windows, so the error of β is unknown")
    return BetaMeasurement(beta=beta, error=0.0 if math.isnan(error) else error, notes=tuple(notes))


def _mean_k2(frames: Array, settings: ContrastSettings, noise: Noise | None, device: str | Device) -> Array:
    """Return K² averaged over frames, (Y, X); NaN where it is not valid in any."""
    maps = contrast(frames, settings, noise=noise, device=device)
    assert maps.mask is not None
    k2 = np.where(maps.mask & LEFT_OUT, np.nan, maps.squared.astype(np.float64))
    return np.asarray(np.ma.masked_invalid(k2).mean(axis=0).filled(np.nan))


def _standard_error(k2: Array, tile: int) -> float:
    """Return the standard error of the mean from tiles, since the windows of neighbors overlap; NaN of few tiles."""
    rows, columns = (n // tile for n in k2.shape)
    tiles = k2[: rows * tile, : columns * tile].reshape(rows, tile, columns, tile).swapaxes(1, 2).reshape(-1, tile**2)
    known = tiles[np.isfinite(tiles).mean(axis=1) > 0.5]
    if len(known) < _MIN_TILES:
        return math.nan
    return float(np.nanmean(known, axis=1).std(ddof=1) / math.sqrt(len(known)))

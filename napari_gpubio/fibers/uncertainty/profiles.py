"""How certain a profile is: that of the fit without the bias of noise, and its interval at each node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.fibers.uncertainty.intervals import SHARE, Repeated, check_level, limits_of
from napari_gpubio.fibers.uncertainty.model import Bootstrap
from napari_gpubio.tractograms.bundles.profile import profile
from napari_gpubio.tractograms.bundles.settings import ProfileSettings
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_MIN_REPEATS = 2


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ProfileInterval(ShortRepr):
    """A profile with an interval at each node.

    Parameters
    ----------
    estimate, low, high
        Mean at each node without the bias of noise, and the interval that contains it, shape (K,); found as those of
        `napari_gpubio.fibers.Bootstrap.interval`.
    bias
        What noise adds to the profile of the fit: that less the estimate, shape (K,).
    line_mm
        Mean line of the fibers of the fit, shape (K, 3), world mm.
    repeats
        Repeats that have fibers, from which the interval is taken.
    """

    estimate: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    line_mm: npt.NDArray[np.float64]
    repeats: int

    def __len__(self) -> int:
        return len(self.estimate)


def profile_interval(
    found: Bootstrap,
    image: npt.ArrayLike | str = "fa",
    affine: npt.ArrayLike | None = None,
    settings: ProfileSettings | None = None,
    *,
    level: float = 0.95,
) -> ProfileInterval:
    """Return the profile of a bootstrap's fibers without the bias of noise, and its interval at each node.

    Parameters
    ----------
    found
        Only the repeats whose fibers it has kept count.
    image, affine
        As of `napari_gpubio.tractograms.bundles.profile`. With ``"fa"`` each repeat has the FA of its own tensors, so
        the interval is that of both the values and the places of fibers; an image is the same for all repeats, so the
        interval is that of the places alone.
    settings
        Nodes and weights of the profiles.
    level
        Share of such intervals that hold the value of a scan without noise.

    Raises
    ------
    InvalidInput
        If the fit has no fibers, fewer than two kept repeats have some, the level is not between 0 and 1, or as
        `napari_gpubio.tractograms.bundles.profile`.
    """
    check_level(level)
    settings = settings or ProfileSettings()
    if not len(found.fibers):
        raise InvalidInput("the fit has no fibers, so it has no profile; choose other seeds")
    of_fit = profile(found.fibers, image, affine, settings.nodes, settings.weighting)

    def mean(fibers: Tractogram) -> Array:
        return profile(fibers, image, affine, settings.nodes, settings.weighting, start=of_fit.line_mm).mean

    nothing = np.full_like(of_fit.mean, np.nan)
    once, twice = (_by_repeat(kept, mean, nothing) for kept in (found.kept, found.kept_twice))
    count = int(np.isfinite(once).any(axis=1).sum())
    if count < _MIN_REPEATS:
        raise InvalidInput(f"{count} of the kept repeats have fibers; keep those of more repeats")
    repeated = Repeated(of_fit.mean, once, twice[: len(once)])
    limits = SHARE if isinstance(image, str) and image == "fa" else limits_of(repeated)
    estimate, low, high = repeated.interval(level, limits)
    return ProfileInterval(
        estimate=estimate,
        low=low,
        high=high,
        bias=of_fit.mean - estimate,
        line_mm=of_fit.line_mm,
        repeats=count,
    )


def _by_repeat(kept: Tractogram | None, mean: Callable[[Tractogram], Array], nothing: Array) -> Array:
    """Profiles of all repeats up to the last that has fibers, shape (R, K); those of the others are ``nothing``."""
    if kept is None or not len(kept):
        return np.empty((0, len(nothing)))
    numbers = np.asarray(kept.per_fiber["repeat"])
    some = {number: mean(kept.select(numbers == number)) for number in np.unique(numbers)}
    return np.array([some.get(number, nothing) for number in range(numbers.max() + 1)])

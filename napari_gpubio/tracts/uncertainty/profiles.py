"""How certain a profile is: that of the fit, and the percentiles of it over the repeats of a bootstrap."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.bundles.profile import profile
from napari_gpubio.tracts.bundles.settings import ProfileSettings
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.uncertainty.model import Bootstrap, check_level

_LEAST_REPEATS = 2


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ProfileInterval:
    """A profile with an interval at each node.

    Parameters
    ----------
    estimate, low, high
        Of the fibers of the fit, and the percentiles over the repeats, shape (K,).
    line_mm
        Mean line of the fibers of the fit, shape (K, 3), world mm.
    repeats
        Repeats that have fibers, from which the percentiles are taken.
    """

    estimate: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
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
    """Return the profile of a bootstrap's fibers, and its percentile interval at each node.

    Parameters
    ----------
    found
        Only the repeats whose fibers it has kept count.
    image, affine
        As of `napari_gpubio.tracts.bundles.profile`. With ``"fa"`` each repeat has the FA of its own tensors, so the
        interval is that of both the values and the places of fibers; an image is the same for all repeats, so the
        interval is that of the places alone.
    settings
        Nodes and weights of the profiles.
    level
        Share of the repeats within the interval.

    Raises
    ------
    InvalidInput
        If the fit has no fibers, fewer than two kept repeats have some, the level is not between 0 and 1, or as
        `napari_gpubio.tracts.bundles.profile`.
    """
    check_level(level)
    settings = settings or ProfileSettings()
    if not len(found.fibers):
        raise InvalidInput("the fit has no fibers, so it has no profile; choose other seeds")
    of_fit = profile(found.fibers, image, affine, settings.nodes, settings.weighting)
    repeats = [
        profile(fibers, image, affine, settings.nodes, settings.weighting, start=of_fit.line_mm).mean
        for fibers in _repeats(found.kept)
    ]
    if len(repeats) < _LEAST_REPEATS:
        raise InvalidInput(f"{len(repeats)} of the kept repeats have fibers; keep those of more repeats")
    low, high = np.nanquantile(repeats, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return ProfileInterval(
        estimate=of_fit.mean, low=low, high=high, line_mm=of_fit.line_mm, repeats=len(repeats)
    )  # fmt: skip


def _repeats(kept: Tractogram) -> list[Tractogram]:
    """The fibers of each repeat that has some."""
    numbers = np.asarray(kept.per_fiber["repeat"])
    return [kept.select(numbers == number) for number in np.unique(numbers)]

"""Phase functions that are given as a table instead of by Henyey and Greenstein."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr

MAX_POINTS = 1 << 20
_FINE = 1 << 16  # steps of the cosine, from which a density is integrated
_COSINE_TOLERANCE = 1e-6  # for rounded numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class TabulatedPhaseFunction(ShortRepr):
    """The cosine of the scattering angle at equal steps of its cumulative distribution.

    Photons take a uniform number u from 0 to 1, and the cosine that the table has there, interpolated linearly between
    its points. Light is scattered evenly around its direction.

    Parameters
    ----------
    cosines
        Shape (N,), from u = 0 to u = 1, none smaller than the one before it, all within -1 to 1. Where some are equal,
        a part of the light is scattered by just that angle.

    Raises
    ------
    InvalidInput
        If there are fewer than two, or one is not finite, out of range or smaller than the one before it.

    Examples
    --------
    Rayleigh scattering::

        TabulatedPhaseFunction.from_density(lambda cosine: 1 + cosine**2)
    """

    cosines: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.asarray(self.cosines, np.float64)
        if values.ndim != 1 or not 2 <= values.size <= MAX_POINTS:
            raise InvalidInput(
                f"the phase function has a table of shape {values.shape}; give 2 to {MAX_POINTS} cosines in a row"
            )
        wrong = ~(np.abs(values) <= 1.0 + _COSINE_TOLERANCE)
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidInput(
                f"cosine {place + 1} of the phase function is {values[place]:g}; cosines must lie between -1 and 1"
            )
        falls = np.diff(values) < 0
        if falls.any():
            place = int(falls.argmax()) + 1
            raise InvalidInput(
                f"cosine {place + 1} of the phase function is {values[place]:g}, less than the one before it, "
                f"{values[place - 1]:g}; they must increase, as those of an inverse cumulative distribution do"
            )
        object.__setattr__(self, "cosines", np.clip(values, -1.0, 1.0))

    @classmethod
    def from_density(
        cls, density: Callable[[npt.NDArray[np.float64]], npt.ArrayLike], *, points: int = 4096
    ) -> "TabulatedPhaseFunction":
        """Tabulate a phase function that is known as a density.

        Parameters
        ----------
        density
            Takes cosines, shape (M,), from -1 to 1, and returns the probability density of the cosine there, on any
            scale: p(cos) of the field, which is that per solid angle times a constant. It is integrated by steps of
            1/32768.
        points
            Points of the table.

        Raises
        ------
        InvalidInput
            If the density is not finite, negative somewhere, zero everywhere, or of another shape; or the number of
            points is less than two.
        """
        if not 2 <= points <= MAX_POINTS:
            raise InvalidInput(f"points is {points}; give 2 to {MAX_POINTS}")
        cosines = np.linspace(-1.0, 1.0, _FINE + 1)
        values = np.asarray(density(cosines), np.float64)
        if values.shape != cosines.shape:
            raise InvalidInput(f"the density has shape {values.shape} for cosines of shape {cosines.shape}")
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidInput(
                f"the density is {values[place]:g} at the cosine {cosines[place]:g}; it must be finite and not negative"
            )
        sums = np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1])])
        if not sums[-1] > 0:
            raise InvalidInput("the density is zero at all cosines; give one that is positive somewhere")
        # Where nothing is scattered the sums do not rise, and only the ends of such a stretch count.
        rises = np.concatenate([[False], np.diff(sums) > 0])
        rises[:-1] |= rises[1:]
        return cls(cosines=np.interp(np.linspace(0.0, 1.0, points), (sums / sums[-1])[rises], cosines[rises]))

    @cached_property
    def g(self) -> float:
        """Mean cosine of the scattering angle: mu_s' = mu_s (1 - g)."""
        return float((self.cosines[1:] + self.cosines[:-1]).mean() / 2.0)

    def density(self, cosines: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Probability density of the cosine, constant between the points of the table; infinite where some are equal.

        Its integral from -1 to 1 is 1.
        """
        at = np.asarray(cosines, np.float64)
        steps = np.diff(self.cosines)
        place = np.clip(np.searchsorted(self.cosines, at, "right") - 1, 0, len(steps) - 1)
        inside = (at >= self.cosines[0]) & (at <= self.cosines[-1])
        with np.errstate(divide="ignore"):
            return np.where(inside, 1.0 / (len(steps) * steps[place]), 0.0)

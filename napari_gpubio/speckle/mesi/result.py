"""Results of multi-exposure fits: maps, standard errors, intervals, and what the exposures cannot tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded

Array = npt.NDArray[Any]
LONG_TAU = 1  # the longest exposure is less than 3 τ
SHORT_TAU = 2  # the shortest exposure is more than 2 τ
DEGENERATE = 4  # ρ and β are known together rather than each
AT_LIMIT = 8  # ρ = 0, β = 1, or τ, β at an end of their range; ρ = 1 and ν = 0 are answers
UNCERTAIN = 16  # the standard error of τ is more than a quarter of it
NAMES = {
    LONG_TAU: "long τ",
    SHORT_TAU: "short τ",
    DEGENERATE: "degenerate",
    AT_LIMIT: "at a limit",
    UNCERTAIN: "uncertain",
}
_LOGARITHMIC = ("tau_ms", "beta")  # fitted as logarithms, so that their intervals stay above 0
_BOUNDS = {"tau_ms": (0.0, np.inf), "rho": (0.0, 1.0), "beta": (0.0, 1.0), "noise": (0.0, np.inf)}
_ERRORS = {"tau_ms": "tau_error_ms", "rho": "rho_error", "beta": "beta_error", "noise": "noise_error"}


@dataclass(frozen=True, eq=False, kw_only=True)
class MesiResult(Gridded):
    """Maps of fitted parameters, float32, of the shape of a contrast map; NaN where there was no fit.

    Parameters
    ----------
    tau_ms
        Correlation time of the field.
    rho
        Fraction of light scattered by what moves.
    beta, noise
        β and ν.
    tau_error_ms, rho_error, beta_error, noise_error
        Standard errors; 0 of what was not fitted, infinite where the data say nothing. At a limit of the fit they are
        those without the limit.
    residual
        Root mean square of relative differences of K.
    mask
        Bits as named in `NAMES`, uint8: what cannot be known there, and why.
    freedom
        Degrees of freedom of the errors, which Student's distribution needs; infinite if the error of K was stated.
    parameters
        Settings, exposures and software version, as JSON can hold them.
    notes
        Remarks for the user, in sentences.
    complete
        False if the run was stopped.
    """

    tau_ms: Array
    rho: Array
    beta: Array
    noise: Array
    tau_error_ms: Array
    rho_error: Array
    beta_error: Array
    noise_error: Array
    residual: Array
    mask: npt.NDArray[np.uint8]
    freedom: float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def ict(self) -> Array:
        """Inverse correlation time, 1/s."""
        return np.asarray(1e3 / self.tau_ms)

    @property
    def ict_error(self) -> Array:
        """Standard error of the inverse correlation time, 1/s."""
        return np.asarray(self.ict * (self.tau_error_ms / self.tau_ms))

    def interval(self, part: str, level: float = 0.95) -> tuple[Array, Array]:
        """Return the limits of the confidence interval of a parameter in every pixel.

        Parameters
        ----------
        part
            ``"tau_ms"``, ``"rho"``, ``"beta"`` or ``"noise"``. Those of τ and β are symmetric in their logarithms;
            none reaches beyond what a parameter can be.
        level
            Share of such intervals that hold the truth.

        Raises
        ------
        InvalidInput
            If there is no such parameter, or the level is not between 0 and 1.
        """
        from scipy.special import ndtri, stdtrit

        if part not in _ERRORS:
            raise InvalidInput(f"part is {part!r}; choose {', '.join(map(repr, _ERRORS))}")
        if not 0 < level < 1:
            raise InvalidInput(f"level is {level:g}; give a share between 0 and 1, for instance 0.95")
        upper = 0.5 + level / 2
        reach = ndtri(upper) if np.isinf(self.freedom) else stdtrit(self.freedom, upper)
        found, error = (np.asarray(getattr(self, name), np.float64) for name in (part, _ERRORS[part]))
        if part in _LOGARITHMIC:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                factor = np.exp(reach * error / found)
                low, high = found / factor, found * factor
        else:
            low, high = found - reach * error, found + reach * error
        return np.clip(low, *_BOUNDS[part]), np.clip(high, *_BOUNDS[part])

"""Settings of multi-exposure fits."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param

MODELS = {"lorentzian": 1.0, "gaussian": 2.0, "multiple": 0.5}  # n in the decay of the field correlation, exp(-(t/τ)ⁿ)


@dataclass(frozen=True, slots=True, kw_only=True)
class MesiSettings:
    """Model and fitted parameters of multi-exposure imaging (Parthasarathy et al. 2008; Kazmi et al. 2015).

    The same curve hardly separates β, the static fraction and the noise term: if possible, measure β on a static
    scatterer and keep it fixed.
    """

    model: str = param(
        "lorentzian",
        "Decay",
        "Decay of the field correlation: exp(-t/τ) (lorentzian, single scattering by unordered motion), exp(-(t/τ)²) "
        "(gaussian, ordered motion), exp(-√(t/τ)) (multiple scattering by unordered motion).",
        choices=tuple(MODELS),
    )
    beta: float = param(1.0, "β", "K² of a static scatterer; the start value if β is fitted.", above=0.0, maximum=1.0)
    fit_beta: bool = param(False, "Fit β", "Fit β as well.", advanced=True)
    fit_rho: bool = param(
        True, "Fit static fraction", "Fit the fraction ρ of light scattered by what moves; otherwise it is 1."
    )
    fit_noise: bool = param(True, "Fit noise", "Fit a term ν that does not depend on the exposure; otherwise it is 0.")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def power(self) -> float:
        """The power n of the decay."""
        return MODELS[self.model]

    @property
    def free(self) -> int:
        """Number of parameters that are fitted."""
        return 1 + self.fit_rho + self.fit_noise + self.fit_beta

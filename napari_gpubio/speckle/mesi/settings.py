"""How multi-exposure contrast is fitted: written once, for the form, the command line and the checks."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param

MODELS = {"lorentzian": 1.0, "gaussian": 2.0, "multiple": 0.5}  # the power n of the field's decay exp(-(t/τ)ⁿ)


@dataclass(frozen=True, slots=True, kw_only=True)
class MesiSettings:
    """Multi-exposure speckle imaging (Parthasarathy et al. 2008; Kazmi et al. 2015): what is known and what is fitted.

    β, the static fraction and the noise term are hardly told apart by the same curve: measure β on a static scatterer
    and keep it fixed, where that can be done.
    """

    model: str = param(
        "lorentzian",
        "Decay",
        "Of the light's field: exp(-t/τ) (lorentzian, unordered motion seen once), exp(-(t/τ)²) (gaussian, ordered "
        "motion), exp(-√(t/τ)) (multiple scattering by unordered motion).",
        choices=tuple(MODELS),
    )
    beta: float = param(1.0, "β", "K² of a static scatterer; where β is fitted, its start.", above=0.0, maximum=1.0)
    fit_beta: bool = param(False, "Fit β", "Fit β too, instead of keeping it fixed.", advanced=True)
    fit_rho: bool = param(
        True, "Fit static fraction", "Fit the fraction ρ of light that is scattered by what moves; else it is 1."
    )
    fit_noise: bool = param(True, "Fit noise", "Fit a term ν that does not depend on the exposure; else it is 0.")

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

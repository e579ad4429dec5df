"""Settings of the tensor fit."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """How tensors are fitted to the logarithm of the signals."""

    estimator: str = param(
        "wls",
        "Estimator",
        "Weighted least squares (weights = signals, then predicted signals), or ordinary least squares.",
        choices=("wls", "ols"),
    )
    iterations: int = param(
        2, "Reweightings", "How often the weights of 'wls' are renewed from the fitted signals.", minimum=0, maximum=20
    )
    floor_mm2_per_s: float = param(
        1e-6,
        "Smallest eigenvalue",
        "Tensors that are not positive definite are repaired by raising their eigenvalues to this.",
        unit="mm²/s",
        above=0.0,
        maximum=1e-3,
        advanced=True,
    )
    repair: bool = param(
        True, "Repair tensors", "Make every tensor positive definite; tracking needs it.", advanced=True
    )
    shells: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_params(self)

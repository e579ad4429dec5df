"""Settings of the tensor fit."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """How tensors are fitted to the logarithm of the signals."""

    estimator: str = param(
        "wls",
        "Estimator",
        "Least squares weighted by the signals, then by the predicted signals (wls), or ordinary least squares (ols).",
        choices=("wls", "ols"),
    )
    iterations: int = param(
        2,
        "Reweightings",
        "How often wls fits again, weighted by the signals that the last fit predicts.",
        minimum=0,
        maximum=20,
        where={"estimator": ("wls",)},
    )
    floor_mm2_per_s: float = param(
        1e-6,
        "Smallest eigenvalue",
        "Tensors that are not positive definite are repaired by raising smaller eigenvalues to this.",
        unit="mm²/s",
        above=0.0,
        maximum=1e-3,
        advanced=True,
        where={"repair": (True,)},
    )
    repair: bool = param(
        True, "Repair tensors", "Make every tensor positive definite, which tracking requires.", advanced=True
    )
    shells: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_params(self)

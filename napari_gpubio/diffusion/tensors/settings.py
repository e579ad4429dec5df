"""Settings of the tensor fit."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part


@dataclass(frozen=True, kw_only=True)
class WeightedLeastSquares(Settings):
    """Weighted by the signals, then by the predicted signals."""

    kind: ClassVar[str] = "wls"
    iterations: int = param(
        2,
        "Reweightings",
        "Fits with weights of the last one: the signals that it predicts.",
        minimum=0,
        maximum=20,
    )


@dataclass(frozen=True, kw_only=True)
class OrdinaryLeastSquares(Settings):
    """All signals count alike."""

    kind: ClassVar[str] = "ols"


@dataclass(frozen=True, kw_only=True)
class Repaired(Settings):
    """Every tensor is made positive definite, which tracking requires."""

    floor_mm2_per_s: float = param(
        1e-6,
        "Smallest eigenvalue",
        "Smaller eigenvalues of tensors that are not positive definite are raised to this.",
        unit="mm²/s",
        above=0.0,
        maximum=1e-3,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class Unrepaired(Settings):
    """Tensors stay as they were fitted."""


@dataclass(frozen=True, kw_only=True)
class FitSettings(Settings):
    """How tensors are fitted to the logarithm of the signals."""

    estimator: WeightedLeastSquares | OrdinaryLeastSquares = part(
        "Estimator",
        "Least squares: weighted by the signals, then by the predicted signals (wls), or ordinary (ols).",
        default=WeightedLeastSquares(),
    )
    repair: Repaired | Unrepaired = part(
        "Tensors", "Made positive definite, which tracking requires, or as they were fitted.",
        default=Repaired(), advanced=True,
    )  # fmt: skip
    shells: tuple[int, ...] = part(
        "Shells", "b-values of the volumes that are fitted; all of them by default.", unit="s/mm²", default=()
    )

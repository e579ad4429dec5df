"""Settings of profiles."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param

WEIGHTINGS = ("afq", "none", "dipy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSettings:
    """How an image is averaged over a bundle."""

    nodes: int = param(100, "Nodes", "Places along the bundle, at equal distances.", minimum=2, maximum=1000, step=10)
    weighting: str = param(
        "afq",
        "Weights",
        "afq: fibers near the middle of the bundle count more (1 / Mahalanobis distance); none: all alike; dipy: as "
        "DIPY computes the distance.",
        choices=WEIGHTINGS,
    )

    def __post_init__(self) -> None:
        check_params(self)

"""Settings of profiles."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings

WEIGHTINGS = ("afq", "none", "dipy")


@dataclass(frozen=True, kw_only=True)
class ProfileSettings(Settings):
    """How an image is averaged over a bundle."""

    nodes: int = param(100, "Nodes", "Places along the bundle, at equal distances.", minimum=2, maximum=1000, step=10)
    weighting: str = param(
        "afq",
        "Weights",
        "afq: fibers near the middle of the bundle count more (1 / Mahalanobis distance); none: all alike; dipy: as "
        "DIPY computes the distance.",
        choices=WEIGHTINGS,
    )

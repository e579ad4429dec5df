"""Settings of the bootstrap."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class FodBootstrapSettings(Settings):
    """How often FODs are drawn again, from residuals that are divided by the square root of 1 - leverage."""

    repeats: int = param(
        1000,
        "Repeats",
        "How often tensors or FODs are drawn and fibers tracked again.",
        minimum=1,
        maximum=1_000_000,
        step=100,
    )
    kept_repeats: int = param(
        100,
        "Keep fibers of",
        "Fibers of so many repeats, the first ones, are kept; those of the others are only counted.",
        unit="repeats",
        minimum=0,
        maximum=1_000_000,
        step=10,
    )
    margin_mm: float = param(
        10.0,
        "Margin",
        "Tensors or FODs are drawn again in a box around the fibers of the fit that is larger by this on every side.",
        unit="mm",
        minimum=0.0,
        maximum=1000.0,
        advanced=True,
    )
    random_seed: int = param(
        1, "Random seed", "The same seed gives the same repeats.", minimum=0, maximum=2**31 - 1, advanced=True
    )


@dataclass(frozen=True, kw_only=True)
class BootstrapSettings(FodBootstrapSettings):
    """How often tensors are drawn again, and from what residuals."""

    leverage: str = param(
        "hc3",
        "Residuals",
        "They are divided by 1 - h (hc3: intervals nearer to their level) or by its square root (hc2: the variance is "
        "without bias); h is a measurement's leverage.",
        choices=("hc3", "hc2"),
        advanced=True,
    )

"""All parameters of a registration."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RegistrationSettings(Settings):
    """How an image is registered to another one."""

    method: str = param(
        "rigid", "Method",
        "Rigid for the same person, affine (also sizes and shear) for a template, nonlinear: affine, then a warp.",
        choices=("rigid", "affine", "nonlinear"),
    )  # fmt: skip
    iterations: int = param(200, "Iterations", "Most of each level.", minimum=1, maximum=10_000, advanced=True)
    blocks_mm: float = param(20.0, "Blocks", "Edge of the checkerboard's blocks.", unit="mm", above=0.0)

"""All parameters of a registration."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings

METHODS = ("rigid", "affine")


@dataclass(frozen=True, kw_only=True)
class RegistrationSettings(Settings):
    """How an image is registered to another one."""

    method: str = param(
        "rigid", "Method", "rigid: of the same person; affine: also sizes and shear, for a template or an atlas.",
        choices=METHODS,
    )  # fmt: skip
    resolution_mm: float | None = param(
        None, "Resolution", "Of the last level; that of the coarser image by default.", unit="mm", above=0.0,
        advanced=True,
    )  # fmt: skip
    bins: int = param(32, "Bins", "Of each axis of the joint histogram.", minimum=8, maximum=256, advanced=True)
    iterations: int = param(200, "Iterations", "Most of each level.", minimum=1, maximum=10_000, advanced=True)
    seed: int = param(1, "Seed", "Of the voxels that are drawn.", minimum=1, maximum=2**31 - 1, advanced=True)
    blocks_mm: float = param(20.0, "Blocks", "Edge of the checkerboard's blocks.", unit="mm", above=0.0)

"""Settings of fluence denoising."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param


@dataclass(frozen=True, slots=True, kw_only=True)
class FluenceSettings:
    """Smoothing on several scales, chosen voxel by voxel from two half-buffers."""

    largest_scale: float = param(
        5.0,
        "Largest scale",
        "Standard deviation of the widest Gaussian, along the finest axis; others are as long in mm.",
        unit="voxels",
        minimum=0.8,
        maximum=12.0,
        step=0.5,
    )
    flat: bool = param(
        True,
        "Flat windows",
        "Also try windows that are flat along x, y or z, for layers, faces and strong absorbers.",
    )
    smoothness: float = param(
        3.0,
        "Smoothness",
        "Weight of the noise against the bias where scales are compared: 1 is the unbiased estimate of the error, "
        "more makes up for the luck of the choice and gives smoother images.",
        minimum=1.0,
        maximum=10.0,
        step=0.5,
        advanced=True,
    )
    cap: float = param(
        1.25,
        "Cap",
        "Windows that are not flat end at this many penetration depths, where mu_eff is given; 0 = no cap.",
        minimum=0.0,
        maximum=10.0,
        step=0.25,
        advanced=True,
    )
    seed: int = param(
        1,
        "Seed",
        "Of the random numbers that split a single buffer in two.",
        minimum=0,
        maximum=2**31 - 1,
        advanced=True,
    )

    def __post_init__(self) -> None:
        check_params(self)

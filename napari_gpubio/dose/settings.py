"""Settings of dose-volume histograms."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param

OUTSIDE = ("zero", "exclude", "refuse")
BIN_SCALES = ("linear", "logarithmic")
INTERPOLATIONS = ("slab", "shape")
CAPS = ("half", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class DvhSettings:
    """Conventions and accuracy of dose-volume histograms."""

    accuracy_percent: float = param(
        0.05,
        "Accuracy",
        "About the largest error of a curve that sampling leaves, as a share of the structure's volume.",
        unit="%",
        minimum=0.002,
        maximum=10.0,
        step=0.01,
    )
    spacing_mm: float = param(
        0.0,
        "Spacing",
        "Distance of the samples in every structure; 0 = chosen for each structure from the accuracy.",
        unit="mm",
        minimum=0.0,
        maximum=100.0,
        step=0.1,
        advanced=True,
    )
    outside: str = param(
        "zero",
        "Outside the dose",
        "Volume outside the dose grid: counted with no dose (zero), left out of curve and volume (exclude), or not "
        "accepted (refuse). It is reported in any case.",
        choices=OUTSIDE,
    )
    interpolation: str = param(
        "slab",
        "Between contours",
        "Each contour holds half way to its neighbors (slab), or its shape goes over into theirs (shape).",
        choices=INTERPOLATIONS,
    )
    caps: str = param(
        "half",
        "End caps",
        "What the first and last contour of a structure hold beyond their plane: half a slice, or nothing.",
        choices=CAPS,
        advanced=True,
    )
    bins: int = param(
        4096,
        "Bins",
        "Dose bins between the least and the largest dose; curves are interpolated inside a bin.",
        minimum=10,
        maximum=8192,
        advanced=True,
    )
    bin_scale: str = param(
        "linear",
        "Bin widths",
        "Bins of equal width, or of nearly equal ratio for doses over many decades, such as light.",
        choices=BIN_SCALES,
        advanced=True,
    )
    any_frame: bool = param(
        False,
        "Any frame of reference",
        "Also count contours whose coordinates refer to another frame than the dose's, as if they were the same.",
        advanced=True,
    )

    def __post_init__(self) -> None:
        check_params(self)

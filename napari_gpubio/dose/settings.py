"""Settings of dose-volume histograms."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part, record_fields

if TYPE_CHECKING:
    from napari_gpubio.dose.model import Dose

OUTSIDE = ("zero", "exclude", "refuse")
AUTO, LINEAR, LOGARITHMIC = "auto", "linear", "logarithmic"
BIN_SCALES = (AUTO, LINEAR, LOGARITHMIC)
INTERPOLATED, CONSTANT = "interpolated", "constant"
WITHIN_VOXELS = (AUTO, INTERPOLATED, CONSTANT)
INTERPOLATIONS = ("slab", "shape")
CAPS = ("half", "none")


@dataclass(frozen=True, kw_only=True)
class ByAccuracy(Settings):
    """As many samples in each structure as an accuracy takes."""

    kind: ClassVar[str] = "accuracy"
    accuracy_percent: float = param(
        0.05, "Accuracy", "Largest sampling error of a curve. About, in % of the structure's volume.",
        unit="%", minimum=0.002, maximum=10.0, step=0.01,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BySpacing(Settings):
    """Samples at the same distance in all structures."""

    kind: ClassVar[str] = "spacing"
    spacing_mm: float = param(
        1.0, "Spacing", "Distance between samples in all structures.", unit="mm", above=0.0, maximum=100.0, step=0.1
    )


@dataclass(frozen=True, kw_only=True)
class _Reading(Settings):
    """How doses are read in structures."""

    outside: str = param(
        "zero", "Outside the dose",
        "Volume outside the dose grid: counted with no dose (zero), left out of curve and volume (exclude), or not "
        "accepted (refuse). It is reported in any case.",
        choices=OUTSIDE, advanced=True,
    )  # fmt: skip
    caps: str = param(
        "half", "End caps",
        "How far the first and last contours of a structure extend beyond their planes: half a slice, or not at all.",
        choices=CAPS, advanced=True,
    )  # fmt: skip
    within_voxels: str = param(
        AUTO, "Dose within voxels",
        "Interpolated between voxel centers, or constant in each voxel: Monte Carlo light is a mean over each voxel, "
        "so that a structure's mean times its volume is all of its light. Auto: constant for light, interpolated for "
        "all else.",
        choices=WITHIN_VOXELS, advanced=True,
    )  # fmt: skip
    any_frame: bool = param(
        False, "Any frame of reference",
        "Count contours even if their frame of reference differs from the dose's, as if the two were the same.",
        advanced=True,
    )  # fmt: skip

    def resolved(self, dose: "Dose") -> Self:
        """Return these settings with what is ``"auto"`` decided for a dose."""
        if self.within_voxels != AUTO:
            return self
        return dataclasses.replace(self, within_voxels=CONSTANT if _is_light(dose) else INTERPOLATED)


@dataclass(frozen=True, kw_only=True)
class DvhSettings(_Reading):
    """Conventions and accuracy of dose-volume histograms."""

    sampling: ByAccuracy | BySpacing = part(
        "Samples", "How far apart they are. Chosen for each structure from an accuracy, or given.",
        default=ByAccuracy(), advanced=True,
    )  # fmt: skip
    interpolation: str = param(
        "slab", "Between contours",
        "How contours become a volume. Each extends halfway to its neighbors (slab), or its shape is interpolated to "
        "theirs (shape). Slabs narrow smoothly towards a first or last contour of nearly no area.",
        choices=INTERPOLATIONS,
    )  # fmt: skip
    bins: int = param(
        4096, "Number of bins",
        "Dose bins between the least and the largest dose; curves are interpolated inside a bin.",
        minimum=10, maximum=8192, advanced=True,
    )  # fmt: skip
    bin_scale: str = param(
        AUTO, "Bins",
        "Bins of equal width (linear), or of nearly equal ratio over as many decades as the dose has, with the volume "
        "of no dose counted apart (logarithmic). Auto: logarithmic for light, linear for all else.",
        choices=BIN_SCALES, advanced=True,
    )  # fmt: skip

    @property
    def spacing_mm(self) -> float | None:
        """Distance between samples, None where it is chosen for each structure."""
        return self.sampling.spacing_mm if isinstance(self.sampling, BySpacing) else None

    def resolved(self, dose: "Dose") -> Self:
        """Return these settings with what is ``"auto"`` decided for a dose."""
        chosen = super().resolved(dose)
        if self.bin_scale != AUTO:
            return chosen
        return dataclasses.replace(chosen, bin_scale=LOGARITHMIC if _is_light(dose) else LINEAR)

    @property
    def of_surfaces(self) -> "SurfaceSettings":
        """What of these settings also holds for dose-surface histograms."""
        shared = {field.name: getattr(self, field.name) for field in record_fields(_Reading)}
        return SurfaceSettings(resolution_mm=self.spacing_mm, **shared)


@dataclass(frozen=True, kw_only=True)
class SurfaceSettings(_Reading):
    """Conventions of dose-surface histograms."""

    resolution_mm: float | None = param(
        None, "Resolution",
        "Edge of the voxels that contours are drawn with; a 160th of the structure's largest extent by default.",
        unit="mm", above=0.0,
    )  # fmt: skip


def _is_light(dose: "Dose") -> bool:
    """Whether a dose is counted as light."""
    return dose.is_light and dose.least >= 0

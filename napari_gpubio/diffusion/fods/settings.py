"""Settings of the spherical deconvolution, of responses, and of the peaks of FODs."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.diffusion.fods.harmonics import LARGEST_LMAX


@dataclass(frozen=True, kw_only=True)
class _Deconvolution(Settings):
    """What all of them have."""

    lmax: int | None = param(
        None,
        "Maximum order (lmax)",
        "Maximum order of the spherical harmonics, even; 8 has 45 coefficients. It may ask for more coefficients than "
        "there are directions (super-resolution), up to twice as many. By default 8, or the largest that the "
        "directions allow.",
        minimum=2,
        maximum=LARGEST_LMAX,
        step=2,
    )
    constraint_directions: int = param(
        300,
        "Constraint directions",
        "Directions, evenly spread over half a sphere, in which amplitudes must not be negative.",
        minimum=60,
        maximum=1024,
        step=60,
        advanced=True,
    )

    def check(self) -> None:
        """Raise InvalidInput if the order is odd."""
        _check_even(self.lmax)

    @property
    def order(self) -> int:
        """Maximum order, which must be given by now."""
        if self.lmax is None:
            raise InvalidInput("lmax is not given, and there is no scan to find it by; give an even order such as 8")
        return self.lmax


@dataclass(frozen=True, kw_only=True)
class MultiTissueSettings(_Deconvolution):
    """How FODs and densities of several tissues are deconvolved together, of all shells (Jeurissen et al. 2014)."""


@dataclass(frozen=True, kw_only=True)
class CsdSettings(_Deconvolution):
    """How FODs of one tissue are deconvolved from the signals of a shell (Tournier et al. 2007)."""

    shell: int = param(
        0,
        "Shell",
        "b-value of the shell that is deconvolved; 0 = the largest one.",
        unit="s/mm²",
        minimum=0,
        maximum=100_000,
        step=100,
    )
    neg_lambda: float = param(
        1.0,
        "Non-negativity weight",
        "How strongly negative amplitudes are penalized; 1 is MRtrix's default.",
        above=0.0,
        maximum=100.0,
        step=0.1,
        advanced=True,
    )
    norm_lambda: float = param(
        1.0,
        "Norm weight",
        "How strongly large coefficients are penalized; 1 is MRtrix's default.",
        minimum=0.0,
        maximum=1000.0,
        step=0.1,
        advanced=True,
    )
    iterations: int = param(
        50,
        "Maximum iterations",
        "Iterations after which a voxel is left as it is; most take 4 to 8.",
        minimum=1,
        maximum=250,
        advanced=True,
    )
    precision: str = param(
        "double",
        "Precision",
        "Floating-point precision of the deconvolution.",
        choices=("double", "single"),
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class HighestFa(Settings):
    """A single fiber's response from the voxels of highest FA, sharpened by two deconvolutions."""

    kind: ClassVar[str] = "fa"
    voxels: int = param(
        300, "Voxels", "Number of single-fiber voxels that are averaged.", minimum=10, maximum=100_000, step=50
    )
    lmax: int = param(
        10, "Maximum order (lmax)", "Maximum order of the response, even.", minimum=2, maximum=LARGEST_LMAX, step=2
    )

    def check(self) -> None:
        """Raise InvalidInput if the order is odd."""
        _check_even(self.lmax)


@dataclass(frozen=True, kw_only=True)
class Tournier(HighestFa):
    """A single fiber's response from voxels whose FODs have one dominant peak, in repeated deconvolutions of all."""

    kind: ClassVar[str] = "tournier"
    iterations: int = param(
        10,
        "Maximum iterations",
        "How often the voxels are chosen again, unless they stay.",
        minimum=1,
        maximum=50,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class TwoTissues(Settings):
    """Of which voxels the responses of white matter and CSF are taken, all that b0 and one shell tell apart."""

    kind: ClassVar[str] = "two"

    white_percent: float = param(
        0.5,
        "White matter",
        "White matter's voxels that are taken: a share, for voxels of one fiber.",
        unit="%",
        above=0.0,
        maximum=100.0,
        step=0.1,
    )
    csf_percent: float = param(
        10.0, "CSF", "CSF's voxels that are taken.", unit="%", above=0.0, maximum=100.0, step=1.0
    )
    white_fa: float = param(
        0.2, "FA of white matter", "White matter has a larger FA.", minimum=0.0, maximum=1.0, step=0.05
    )
    shrink: int = param(
        3, "Erode mask", "Voxels that are taken off the edge of the mask.", minimum=0, maximum=20, advanced=True
    )
    lmax: int = param(
        10,
        "Maximum order (lmax)",
        "Even order of white matter's response.",
        minimum=2,
        maximum=LARGEST_LMAX,
        step=2,
    )

    def check(self) -> None:
        """Raise InvalidInput if the order is odd."""
        _check_even(self.lmax)


@dataclass(frozen=True, kw_only=True)
class ThreeTissues(TwoTissues):
    """Of which voxels the responses of white matter, gray matter and CSF are taken (Dhollander et al. 2016, 2019)."""

    kind: ClassVar[str] = "three"
    gray_percent: float = param(
        2.0,
        "Gray matter",
        "Gray matter's voxels that are taken.",
        unit="%",
        above=0.0,
        maximum=100.0,
        step=0.5,
    )


@dataclass(frozen=True, kw_only=True)
class PeakSettings(Settings):
    """Which maxima of an FOD are taken for fibers."""

    most: int = param(3, "Peaks per voxel", "Maximum number of peaks of a voxel.", minimum=1, maximum=10)
    least_fraction: float = param(
        0.1,
        "Relative threshold",
        "Peaks lower than this fraction of the voxel's highest are left out.",
        minimum=0.0,
        maximum=1.0,
        step=0.05,
    )
    least_amplitude: float = param(
        0.0,
        "Amplitude threshold",
        "Peaks lower than this are left out; 0.1 is usual for FODs of one tissue.",
        minimum=0.0,
        maximum=1e6,
        step=0.05,
    )
    least_angle_deg: float = param(
        25.0,
        "Minimum separation",
        "Of peaks closer than this, only the largest is kept.",
        unit="°",
        minimum=0.0,
        maximum=90.0,
        step=5.0,
        advanced=True,
    )


def _check_even(lmax: int | None) -> None:
    if lmax is not None and lmax % 2:
        raise InvalidInput(f"lmax is {lmax}; only even orders describe fibers, so choose {lmax - 1}")

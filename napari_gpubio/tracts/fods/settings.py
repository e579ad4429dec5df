"""Settings of the spherical deconvolution, of responses, and of the peaks of FODs."""

from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.tracts.fods.harmonics import LARGEST_LMAX

OF_ONE_TISSUE = ("shell", "neg_lambda", "norm_lambda", "iterations", "precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsdSettings:
    """How FODs are deconvolved from the signals (Tournier et al. 2007; several tissues: Jeurissen et al. 2014)."""

    lmax: int = param(
        8,
        "Maximum order (lmax)",
        "Maximum order of the spherical harmonics, even; 8 has 45 coefficients. It may ask for more coefficients than "
        "there are directions (super-resolution), up to twice as many.",
        minimum=2,
        maximum=LARGEST_LMAX,
        step=2,
    )
    shell: int = param(
        0,
        "Shell",
        "One tissue: b-value of the shell that is deconvolved; 0 = the largest one.",
        unit="s/mm²",
        minimum=0,
        maximum=100_000,
        step=100,
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
    neg_lambda: float = param(
        1.0,
        "Non-negativity weight",
        "One tissue: how strongly negative amplitudes are penalized; 1 is MRtrix's default.",
        above=0.0,
        maximum=100.0,
        step=0.1,
        advanced=True,
    )
    norm_lambda: float = param(
        1.0,
        "Norm weight",
        "One tissue: how strongly large coefficients are penalized; 1 is MRtrix's default.",
        minimum=0.0,
        maximum=1000.0,
        step=0.1,
        advanced=True,
    )
    iterations: int = param(
        50,
        "Maximum iterations",
        "One tissue: iterations after which a voxel is left as it is; most take 4 to 8.",
        minimum=1,
        maximum=250,
        advanced=True,
    )
    precision: str = param(
        "double",
        "Precision",
        "One tissue: floating-point precision of the deconvolution.",
        choices=("double", "single"),
        advanced=True,
    )

    def __post_init__(self) -> None:
        check_params(self)
        _check_even(self.lmax)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSettings:
    """How the response of a single fiber is estimated from the scan itself."""

    method: str = param(
        "fa",
        "Response",
        "From the voxels of highest FA, sharpened by two deconvolutions (fa), or from the voxels whose FODs have a "
        "single dominant peak, found by repeated deconvolution of the whole mask (tournier).",
        choices=("fa", "tournier"),
    )
    voxels: int = param(
        300, "Voxels", "Number of single-fiber voxels that are averaged.", minimum=10, maximum=100_000, step=50
    )
    lmax: int = param(
        10, "Maximum order (lmax)", "Maximum order of the response, even.", minimum=2, maximum=LARGEST_LMAX, step=2
    )
    iterations: int = param(
        10,
        "Maximum iterations",
        "Tournier's method: how often the voxels are chosen again, unless they stay.",
        minimum=1,
        maximum=50,
        advanced=True,
        where={"method": ("tournier",)},
    )

    def __post_init__(self) -> None:
        check_params(self)
        _check_even(self.lmax)


@dataclass(frozen=True, slots=True, kw_only=True)
class TissueSettings:
    """Of which voxels the responses of tissues are taken (after Dhollander et al. 2016 and 2019)."""

    white_percent: float = param(
        0.5,
        "White matter",
        "Share of the white matter's voxels that is taken for voxels of one fiber.",
        unit="%",
        above=0.0,
        maximum=100.0,
        step=0.1,
    )
    gray_percent: float = param(
        2.0,
        "Gray matter",
        "Share of the gray matter's voxels that is taken.",
        unit="%",
        above=0.0,
        maximum=100.0,
        step=0.5,
    )
    csf_percent: float = param(
        10.0, "CSF", "Share of the voxels of CSF that is taken.", unit="%", above=0.0, maximum=100.0, step=1.0
    )
    white_fa: float = param(
        0.2, "FA of white matter", "Voxels of larger FA count as white matter.", minimum=0.0, maximum=1.0, step=0.05
    )
    shrink: int = param(
        3, "Erode mask", "Voxels that are taken off the edge of the mask.", minimum=0, maximum=20, advanced=True
    )
    lmax: int = param(
        10,
        "Maximum order (lmax)",
        "Maximum order of the response of white matter, even.",
        minimum=2,
        maximum=LARGEST_LMAX,
        step=2,
    )

    def __post_init__(self) -> None:
        check_params(self)
        _check_even(self.lmax)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakSettings:
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

    def __post_init__(self) -> None:
        check_params(self)


def _check_even(lmax: int) -> None:
    if lmax % 2:
        raise InvalidInput(f"lmax is {lmax}; only even orders describe fibers, so choose {lmax - 1}")

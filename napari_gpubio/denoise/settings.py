"""Settings of the adaptive non-local means filter."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part

PRESELECTIONS = ("seed", "coupe", "itk", "none")
NOISE_MODELS = ("gaussian", "rician", "rician-simple")
NOISE_SOURCES = ("detail", "patches")


@dataclass(frozen=True, kw_only=True)
class Mixed(Settings):
    """Patches of radius 1 and of radius 2, whose images are mixed."""

    radii: ClassVar[tuple[int, ...]] = (1, 2)
    mixing: str = param(
        "auto", "Mixing",
        "How both patches become one image. Automatic: the large one, and the small one where both differ by more than "
        "noise; by wavelets where the noise is measured by patches. By wavelet sub-bands: fine detail from the large "
        "one and the rest from the small one, as in Yuan et al. 2018. The mean of both is 0.3 dB better than wavelets "
        "on MRI whose noise is measured by patches.",
        choices=("auto", "wavelet", "mean"), advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Small(Settings):
    """Patches of radius 1."""

    radii: ClassVar[tuple[int, ...]] = (1,)


@dataclass(frozen=True, kw_only=True)
class Large(Settings):
    """Patches of radius 2."""

    radii: ClassVar[tuple[int, ...]] = (2,)


@dataclass(frozen=True, kw_only=True)
class DenoiseSettings(Settings):
    """Adaptive non-local means (Yuan et al. 2018, after Manjon et al. 2010 and Coupe et al. 2008).

    Radii are in voxels of the finest axis; along coarser axes they are shorter, so that they mean the same length.
    """

    patches: Mixed | Small | Large = part(
        "Patches", "Compare patches of radius 1, of radius 2, or of both and mix them.", default=Mixed()
    )
    search_radius: int = param(
        3, "Search radius", "How far away similar patches are searched for.", unit="voxels", minimum=1, maximum=15
    )
    noise_model: str = param(
        "gaussian", "Noise",
        "Gaussian (Monte Carlo, CT), or Rician (magnitude MRI): with Koay's correction, or with the plain subtraction "
        "of Yuan et al. 2018.",
        choices=NOISE_MODELS,
    )  # fmt: skip
    noise_from: str = param(
        "detail", "Noise from",
        "Where the noise is not given: from the finest detail of the volume, which fine anatomy hardly reaches, or by "
        "how much patches differ, as in Yuan et al. 2018. Fluence and very small volumes are measured by patches in "
        "any case.",
        choices=NOISE_SOURCES, advanced=True,
    )  # fmt: skip
    preselection: str = param(
        "seed", "Pre-selection",
        "Which candidates are compared at all, by mean A, inverted mean B and variance C: A or (B and C) as in the "
        "code of Yuan et al. 2018, A and C (Coupe et al. 2008), (A or B) and C (ITK), or all of them.",
        choices=PRESELECTIONS, advanced=True,
    )  # fmt: skip
    center: str = param(
        "one", "Center weight",
        "The voxel's own weight: 1 as in Yuan et al. 2018, or the largest weight among its candidates.",
        choices=("one", "largest"), advanced=True,
    )  # fmt: skip
    cutoff: float = param(
        0.0, "Cut-off",
        "Candidates farther apart than this, in units of the local noise, get no weight; 0 = no limit. 3 with the "
        "largest center weight is best on MRI whose noise is measured by patches.",
        minimum=0.0, maximum=80.0, step=1.0, advanced=True,
    )  # fmt: skip
    skip_zeros: bool = param(
        False, "Skip empty voxels",
        "Leave voxels that are not positive out of every average, as the code of Yuan et al. 2018 does; in sparse "
        "fluence this raises the mean by up to 1 dB.",
        advanced=True,
    )  # fmt: skip

    @property
    def radii(self) -> tuple[int, ...]:
        """Patch radii along the finest axis, in voxels."""
        return self.patches.radii

    @property
    def mixing(self) -> str:
        """How two patches become one image."""
        return self.patches.mixing if isinstance(self.patches, Mixed) else "auto"

    @property
    def is_rician(self) -> bool:
        """Whether squares are averaged and a bias is taken off."""
        return self.noise_model != "gaussian"

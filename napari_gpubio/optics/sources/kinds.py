"""Kinds of light sources, a class for each; it has the numbers that make a difference to it, and no others."""

import math
import typing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import apply_affine, checked_affine, voxel_sizes_mm
from napari_gpubio.optics.sources.base import (
    MAX_CELLS,
    AllRound,
    Array,
    Collimated,
    Focusable,
    Frame,
    High,
    Linear,
    Modulated,
    Opening,
    Patterned,
    Rectangle,
    Ring,
    Round,
    Scattered,
    Sector,
    Source,
    Turned,
)

# -- points -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Pencil(Collimated):
    """All photons along the direction."""


@dataclass(frozen=True, kw_only=True)
class Isotropic(AllRound):
    """A point that emits in all directions."""


@dataclass(frozen=True, kw_only=True)
class Cone(Opening):
    """A point that emits uniformly (per solid angle) into a cone."""


@dataclass(frozen=True, kw_only=True)
class EvenCone(Opening):
    """A point whose polar angle is uniform up to the half angle."""

    kind: ClassVar[str] = "even_cone"


@dataclass(frozen=True, kw_only=True)
class NormalCone(Scattered):
    """A point whose polar angle is normally distributed."""

    kind: ClassVar[str] = "normal_cone"


@dataclass(frozen=True, kw_only=True)
class ZGaussian(Scattered):
    """A point with the distribution that MCX has under this name.

    It is the normal one, times a uniform number from -1 to 1 instead of a cosine, with 2/3 of the variance.
    """


# -- round ones -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fiber(Round):
    """A disk (the core) that emits uniformly into the cone of its numerical aperture in the medium where it ends."""

    numerical_aperture: float = param(0.39, "NA", "Numerical aperture of the fiber.", above=0.0, maximum=2.0, step=0.01)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Focusable, Round):
    """A collimated beam whose irradiance falls to 1/e² at its radius."""


@dataclass(frozen=True, kw_only=True)
class Disk(Focusable, Ring):
    """A collimated flat-top beam: a disk, a ring, or a sector of these."""


@dataclass(frozen=True, kw_only=True)
class Lambertian(Ring):
    """A disk, a ring, or a sector of these, which emits by the cosine law."""


@dataclass(frozen=True, kw_only=True)
class Hyperboloid(Round):
    """A Gaussian beam that narrows to its 1/e² radius at the focus; rays are the lines of a hyperboloid."""

    focus_mm: float = param(
        0.0, "Focus", "Distance ahead where the beam is narrowest.", unit="mm", minimum=-1e6, maximum=1e6, step=1.0
    )
    rayleigh_mm: float = param(
        10.0, "Rayleigh length", "Distance from the waist at which its area doubles.", unit="mm", above=0.0,
        maximum=1e6, step=1.0,
    )  # fmt: skip

    @property
    def outer_radius_mm(self) -> float:
        """1/e² radius where it starts, mm."""
        return self.radius_mm * math.hypot(1.0, self.focus_mm / self.rayleigh_mm)


# -- rectangles -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Planar(High):
    """A collimated rectangle, evenly lit."""


@dataclass(frozen=True, kw_only=True)
class PatternArea(High):
    """Where a `Pattern` is: all of it but the image."""

    kind: ClassVar[str] = "pattern"


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern(Patterned, PatternArea):
    """A collimated rectangle with the irradiance of an image.

    Parameters
    ----------
    pattern
        Irradiance, shape (rows, columns): columns run along the width and rows along the height.
    """

    def _check_shape(self, values: Frame) -> None:
        if values.ndim == 3:
            raise InvalidInput(
                f"the source's pattern has shape {values.shape}, a stack of images; trace it with simulate_patterns"
            )
        if values.ndim != 2 or not 0 < values.size <= MAX_CELLS:
            raise InvalidInput(f"the source's pattern has shape {values.shape}; give a two-dimensional image")


@dataclass(frozen=True, kw_only=True)
class Slit(Rectangle):
    """A collimated line along the width, a light sheet.

    The slopes of its rays are normally distributed where there is a spread along the width or across it.
    """

    spread_along: float = param(
        0.0, "Spread along", "Standard deviation of the rays' slope along the width.", minimum=0.0, maximum=100.0,
        step=0.1,
    )  # fmt: skip
    spread_across: float = param(
        0.0, "Spread across", "Standard deviation of the rays' slope across the width.", minimum=0.0, maximum=100.0,
        step=0.1,
    )  # fmt: skip

    @property
    def spreads(self) -> bool:
        """Whether its rays are not parallel."""
        return bool(self.spread_along or self.spread_across)

    @property
    def bent_by(self) -> str:
        """What gives rays other angles than the direction's."""
        return "a spread of its own" if self.spreads else super().bent_by

    def check(self) -> None:
        """Raise InvalidInput if rays that spread are focused, or come at an angle."""
        super().check()
        if self.spreads and self.focus_mm:
            raise InvalidInput(
                f"the source has a spread and a focus at {self.focus_mm:g} mm; give one of them, the other as 0"
            )
        if self.spreads and self.height_axis is not None:
            raise InvalidInput("the source has a height_axis and a spread; leave one of them out")


@dataclass(frozen=True, kw_only=True)
class PencilArray(High):
    """Pencil beams in columns and rows that fill a rectangle up to its edges."""

    kind: ClassVar[str] = "pencil_array"
    columns: int = param(3, "Columns", "Beams along the width.", minimum=1, maximum=10_000)
    rows: int = param(3, "Rows", "Beams along the height.", minimum=1, maximum=10_000)


@dataclass(frozen=True, kw_only=True)
class Fourier(Modulated):
    """A collimated rectangle for spatial frequency domain imaging.

    Its irradiance is 1 + m cos 2 pi (c u + r v + phase / 360), with u and v from 0 to 1 along width and height, and
    as many cycles c and r as ``cycles_across`` and ``cycles_up`` say.
    """


@dataclass(frozen=True, kw_only=True)
class Fourier2D(Modulated):
    """A collimated rectangle with the irradiance 1 + m sin 2 pi (c u + phase / 360) sin 2 pi (r v + phase_up / 360)."""

    kind: ClassVar[str] = "fourier_2d"
    phase_up_deg: float = param(
        0.0, "Phase up", "Phase along the height.", unit="°", minimum=-360.0, maximum=360.0, step=10.0
    )


# -- lines and volumes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Line(Linear):
    """Isotropic emission along a segment."""


@dataclass(frozen=True, kw_only=True)
class RadialLine(Sector, Linear):
    """A segment from which light leaves at right angles, evenly all around or into a sector."""

    kind: ClassVar[str] = "radial_line"


@dataclass(frozen=True, kw_only=True)
class Cylinder(Linear):
    """A cylindrical diffuser: Lambertian emission outwards from its side."""

    radius_mm: float = param(1.0, "Radius", "Radius of the cylinder.", unit="mm", above=0.0, maximum=1e4, step=0.1)


@dataclass(frozen=True, kw_only=True)
class EmittingBox(Turned, AllRound):
    """Where an `EmittingVolume` is: all of it but the emission."""

    kind: ClassVar[str] = "volume"
    width_mm: float = param(10.0, "Width", "Width of the box.", unit="mm", above=0.0, maximum=1e4, step=1.0)
    height_mm: float = param(10.0, "Height", "Height of the box.", unit="mm", above=0.0, maximum=1e4, step=1.0)
    length_mm: float = param(10.0, "Length", "Length along the direction.", unit="mm", above=0.0, maximum=1e4, step=1.0)

    @property
    def across_mm(self) -> float:
        """Extent across the width and the direction, mm."""
        return self.height_mm


@dataclass(frozen=True, kw_only=True, eq=False)
class EmittingVolume(Patterned, EmittingBox):
    """A box whose cells emit in all directions, each as much as an array says (bioluminescence, fluorescence).

    `emitting_volume` makes one of a volume with an affine.

    Parameters
    ----------
    pattern
        Emission of the cells, shape (X, Y, Z), along width, height and direction.
    """

    kind: ClassVar[str] = "volume"

    def _check_shape(self, values: Frame) -> None:
        if values.ndim != 3 or not 0 < values.size <= MAX_CELLS:
            raise InvalidInput(f"the source's pattern has shape {values.shape}; give a three-dimensional array")


PlacedSource = (
    Pencil | Isotropic | Cone | Fiber | Gaussian | Disk | Planar | PatternArea | Line | Cylinder | Lambertian | Slit
    | PencilArray | Fourier | Fourier2D | RadialLine | Hyperboloid | EvenCone | NormalCone | ZGaussian
)  # fmt: skip
"""Every kind that can be put somewhere by hand; of a pattern, without the image."""


@dataclass(frozen=True, kw_only=True)
class SourceChoice(Settings):
    """One of the kinds that can be put somewhere, for forms and command lines."""

    source: PlacedSource = part("Source", "Shape of the source.", default=Pencil())


KINDS: dict[str, type[Source]] = {
    one.kind: one for one in (*typing.get_args(PlacedSource), Pattern, EmittingVolume)
}  # with their arrays


def emitting_volume(emission: Array, affine: npt.ArrayLike) -> EmittingVolume:
    """Return a source whose cells are the voxels of a volume; planes without emission are left out.

    Parameters
    ----------
    emission
        What each voxel emits, shape (X, Y, Z), any non-negative scale.
    affine
        Voxel to world, mm; its axes must be perpendicular.

    Raises
    ------
    InvalidInput
        If the emission is negative, not finite or zero everywhere, or has no three dimensions.
    """
    values, matrix = np.asarray(emission), checked_affine(affine)
    if values.ndim != 3 or not values.any():
        raise InvalidInput(
            f"the emission has shape {values.shape} and is zero everywhere, or no volume; give a volume of what its "
            "voxels emit"
        )
    planes = [np.flatnonzero(values.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3)]
    low, high = np.array([plane[0] for plane in planes]), np.array([plane[-1] for plane in planes])
    cells = values[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))]
    sizes = voxel_sizes_mm(matrix)
    if np.linalg.det(matrix[:3, :3]) < 0:  # the frame of a source is right-handed
        cells = cells[:, ::-1]
    width, height, length = (float(edge) for edge in cells.shape * sizes)
    return EmittingVolume(
        position_mm=tuple(apply_affine(matrix, (low + high) / 2)), direction=tuple(matrix[:3, 2]),
        width_axis=tuple(matrix[:3, 0]), width_mm=width, height_mm=height, length_mm=length, pattern=cells,
    )  # fmt: skip

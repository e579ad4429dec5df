"""What kinds of sources have in common: where they are, and what their light can do."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, kind_of, part

Array = npt.NDArray[Any]
Frame = npt.NDArray[np.float64]
Vector = tuple[float, float, float]
Kind = TypeVar("Kind", bound="Source")

MAX_ANGLES = 1 << 20
MAX_CELLS = 1 << 30  # of a pattern or a volume
ENTRIES = ("auto", "smooth", "faces")
ACROSS = 1e-6  # sine of the least angle, and volume of the least parallelepiped, of unit vectors that span something


@dataclass(frozen=True, kw_only=True)
class Source(Settings):
    """Base of light sources: where one is, and which way it looks.

    Parameters
    ----------
    position_mm
        Center, world mm.
    direction
        Direction of emission, or axis of a line, world axes, of any length but zero.
    weight
        Share of the photons that start here where there are several sources, on any scale.

    Raises
    ------
    InvalidInput
        If a number is out of range, or the direction is zero.
    """

    kind: ClassVar[str]  # its name in files and sentences

    position_mm: Vector = part("Position", "Center, world axes.", default=(0.0, 0.0, 0.0), unit="mm")
    direction: Vector = part("Direction", "Direction of emission, or axis of a line.", default=(0.0, 0.0, 1.0))
    weight: float = part("Weight", "Share of the photons, where there are several sources.", default=1.0, advanced=True)

    def __init_subclass__(cls) -> None:
        cls.kind = kind_of(cls)

    def check(self) -> None:
        """Raise InvalidInput if the direction or the weight is zero."""
        if not any(self.direction):
            raise InvalidInput("the source's direction is (0, 0, 0); give the direction of emission")
        if not self.weight > 0:
            raise InvalidInput(
                f"the source's weight is {self.weight:g}; give a number greater than 0, or leave the source out"
            )

    def frame(self) -> Frame:
        """Rows: unit vectors of the width, the height and the direction, world axes.

        They are at right angles to each other unless there is a height axis.
        """
        return frame_along(self.direction)

    def changed_to(self, kind: type[Kind], **changes: Any) -> Kind:
        """Return a source of another kind, with what both have in common, and with other values."""
        names = {one.name for one in dataclasses.fields(kind)}
        common = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name in names}
        return kind(**{**common, **changes})

    def described(self) -> dict[str, Any]:
        """Return its kind and all of its numbers; arrays are left out."""
        names = [one.name for one in dataclasses.fields(self) if one.name != "pattern"]
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, kw_only=True)
class AllRound(Source):
    """Base of sources that emit in all directions; light that comes from outside enters through faces of voxels."""


@dataclass(frozen=True, kw_only=True)
class Directed(Source):
    """Base of sources that emit to one side.

    Parameters
    ----------
    entry
        What reflects and refracts light that comes from outside: ``smooth``, the smoothed surface of the labels where
        the axis of the source meets it, at any angle; ``faces``, the faces of the voxels, whose steps lose between 0
        and 100 % of the light; ``auto``, the smoothed surface if the direction is along its normal (within 5 degrees),
        else the faces. Where the tissue is a box, its faces count.
    """

    entry: str = param(
        "auto", "Entry", "What reflects and refracts light that enters: the smoothed surface, or faces of voxels.",
        choices=ENTRIES,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Collimated(Directed):
    """Base of sources whose rays are parallel, unless a table says otherwise.

    Parameters
    ----------
    launch_angles_deg
        Polar angles about the direction, increasing, at equal steps of their distribution function from 0 to 1, and
        linear between them.
    launch_angles_are_discrete
        Whether only these angles occur, all equally often.
    """

    launch_angles_deg: tuple[float, ...] | None = part(
        "Launch angles", "Polar angles at equal steps of their distribution function.", default=None, unit="°",
        advanced=True,
    )  # fmt: skip
    launch_angles_are_discrete: bool = part(
        "Discrete angles", "Only these launch angles occur, all equally often.", default=False, advanced=True
    )

    @property
    def bent_by(self) -> str:
        """What else gives rays other angles than the direction's; empty if nothing does."""
        return ""

    def check(self) -> None:
        """Raise InvalidInput if there are launch angles that cannot be used."""
        super().check()
        if self.launch_angles_deg is None:
            if self.launch_angles_are_discrete:
                raise InvalidInput("launch_angles_are_discrete is True without launch angles; give both or neither")
            return
        if self.bent_by:
            raise InvalidInput(f"the source has launch angles and {self.bent_by}; leave one of them out")
        angles = np.asarray(self.launch_angles_deg)
        least = 1 if self.launch_angles_are_discrete else 2
        if not least <= len(angles) <= MAX_ANGLES:
            raise InvalidInput(f"the source has {len(angles)} launch angles; give {least} to {MAX_ANGLES:,}")
        if angles[0] < 0 or angles[-1] > 180:
            raise InvalidInput("the source's launch angles must be numbers from 0 to 180 degrees")
        if (fall := np.flatnonzero(np.diff(angles) < 0)).size:
            low, high = angles[fall[0] : fall[0] + 2]
            raise InvalidInput(
                f"the source's launch angles fall from {low:g} to {high:g} degrees; give them in increasing order, at "
                "equal steps of their distribution function"
            )


@dataclass(frozen=True, kw_only=True)
class Focusable(Collimated):
    """Base of collimated beams with a width, whose rays meet ahead, or part as if they came from a point behind."""

    focus_mm: float = param(
        0.0, "Focus", "Distance ahead where rays meet; negative: behind, from where they part; 0: none.", unit="mm",
        minimum=-1e6, maximum=1e6, step=1.0,
    )  # fmt: skip

    @property
    def bent_by(self) -> str:
        """What gives rays other angles than the direction's."""
        return f"a focus at {self.focus_mm:g} mm" if self.focus_mm else ""


# -- shapes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Turned(Source):
    """Base of sources that look different when they are turned about their direction."""

    width_axis: Vector | None = part(
        "Width axis", "Direction of the width, or of the azimuth 0; some direction across, if it is left out.",
        default=None,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if the width axis is along the direction."""
        super().check()
        if self.width_axis is not None and np.linalg.norm(np.cross(self.width_axis, self.direction)) < ACROSS:
            raise InvalidInput("the source's width axis is along its direction; give one across it")

    def frame(self) -> Frame:
        """Rows: unit vectors of the width, the height and the direction, world axes."""
        return frame_along(self.direction, self.width_axis)


@dataclass(frozen=True, kw_only=True)
class Rectangle(Turned, Focusable):
    """Base of collimated beams with a rectangular cross-section.

    Parameters
    ----------
    width_axis
        World direction of the width; by default some direction across ``direction``.
    height_axis
        World direction of the height, for a parallelogram, or one that is lit at an angle: both axes are then taken as
        they are. None: across the width and the direction.
    """

    width_mm: float = param(10.0, "Width", "Width of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0)
    height_axis: Vector | None = part(
        "Height axis", "Direction of the height, for a parallelogram.", default=None, advanced=True
    )

    @property
    def across_mm(self) -> float:
        """Extent across the width, mm."""
        return 0.0

    def check(self) -> None:
        """Raise InvalidInput if the axes span no parallelogram that light meets."""
        super().check()
        if self.height_axis is None:
            return
        if self.width_axis is None:
            raise InvalidInput("the source has a height_axis and no width_axis; give both, or leave it out")
        if abs(np.linalg.det(self.frame())) < ACROSS:
            raise InvalidInput(
                "the source's width_axis, height_axis and direction lie in one plane; light would not meet the "
                "parallelogram: change one of them"
            )
        if self.launch_angles_deg is not None:
            raise InvalidInput("the source has a height_axis and launch angles; leave one of them out")

    def frame(self) -> Frame:
        """Rows: unit vectors of the width, the height and the direction, world axes."""
        if self.height_axis is None or self.width_axis is None:
            return super().frame()
        ahead = np.asarray(self.direction) / np.linalg.norm(self.direction)
        axes = (np.asarray(axis) / (np.linalg.norm(axis) or 1.0) for axis in (self.width_axis, self.height_axis))
        return np.array([*axes, ahead])


@dataclass(frozen=True, kw_only=True)
class High(Rectangle):
    """Base of rectangles with a height."""

    height_mm: float = param(10.0, "Height", "Height of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0)

    @property
    def across_mm(self) -> float:
        """Extent across the width, mm."""
        return self.height_mm


@dataclass(frozen=True, kw_only=True)
class Modulated(High):
    """Base of rectangles whose irradiance is modulated."""

    cycles_across: float = param(
        3.0, "Cycles across", "Periods of the irradiance along the width.", minimum=-1e4, maximum=1e4, step=0.5
    )
    cycles_up: float = param(
        0.0, "Cycles up", "Periods of the irradiance along the height.", minimum=-1e4, maximum=1e4, step=0.5
    )
    phase_deg: float = param(
        0.0, "Phase", "Phase of the irradiance at the rectangle's corner.", unit="°", minimum=-360.0, maximum=360.0,
        step=10.0,
    )  # fmt: skip
    modulation: float = param(
        1.0, "Modulation", "Amplitude of the irradiance over its mean.", minimum=0.0, maximum=1.0, step=0.1
    )


@dataclass(frozen=True, kw_only=True)
class Round(Directed):
    """Base of sources with a round cross-section."""

    radius_mm: float = param(
        1.0, "Radius", "Radius of the core, disk or cylinder; 1/e² radius of a Gaussian beam.", unit="mm", above=0.0,
        maximum=1e4, step=0.1,
    )  # fmt: skip

    @property
    def outer_radius_mm(self) -> float:
        """Radius where it starts, mm."""
        return self.radius_mm


@dataclass(frozen=True, kw_only=True)
class Sector(Turned):
    """Base of sources that may fill a sector only.

    Parameters
    ----------
    sector_deg
        Part of a disk that emits, or into which a line does: from and to these azimuths, counted from ``width_axis``
        on; None: all of it.
    """

    sector_deg: tuple[float, float] | None = part(
        "Sector", "From and to these azimuths, counted from the width axis on.", default=None, unit="°", advanced=True
    )

    def check(self) -> None:
        """Raise InvalidInput if the sector is empty, or more than everything."""
        super().check()
        if self.sector_deg is not None and not 0 < self.sector_deg[1] - self.sector_deg[0] <= 360:
            raise InvalidInput(
                f"the source's sector_deg is {self.sector_deg!r}; give two angles, the second up to 360 degrees larger"
            )


@dataclass(frozen=True, kw_only=True)
class Ring(Sector, Round):
    """Base of disks, which may have a dark middle."""

    inner_radius_mm: float = param(
        0.0, "Inner radius", "Radius of the dark middle of a disk.", unit="mm", minimum=0.0, maximum=1e4, step=0.1
    )

    def check(self) -> None:
        """Raise InvalidInput if nothing of the disk emits."""
        super().check()
        if not self.inner_radius_mm < self.radius_mm:
            raise InvalidInput(
                f"the disk's inner radius is {self.inner_radius_mm:g} mm and its radius {self.radius_mm:g} mm; give a "
                "smaller inner radius, 0 for a full disk"
            )


@dataclass(frozen=True, kw_only=True)
class Linear(AllRound):
    """Base of sources along a segment in ``direction``, centered on the position."""

    length_mm: float = param(
        10.0, "Length", "Length of the line, cylinder or box.", unit="mm", above=0.0, maximum=1e4, step=1.0
    )


@dataclass(frozen=True, kw_only=True)
class Opening(Directed):
    """Base of points whose light has a largest polar angle."""

    half_angle_deg: float = param(
        20.0, "Half angle", "Half angle of the cone.", unit="°", above=0.0, maximum=180.0, step=5.0
    )


@dataclass(frozen=True, kw_only=True)
class Scattered(Directed):
    """Base of points whose polar angles are normally distributed."""

    angle_sd_deg: float = param(
        10.0, "Angle SD", "Standard deviation of the polar angle.", unit="°", above=0.0, maximum=180.0, step=1.0
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Patterned(Turned):
    """Base of sources with an array of how much each part of them emits.

    Parameters
    ----------
    pattern
        Any non-negative scale.
    """

    pattern: Array = field(repr=False)

    def check(self) -> None:
        """Raise InvalidInput if the pattern cannot be used."""
        super().check()
        values = np.asarray(self.pattern, np.float64)
        self._check_shape(values)
        if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
            raise InvalidInput("the source's pattern must be finite, nowhere negative and somewhere positive")
        object.__setattr__(self, "pattern", values)

    def _check_shape(self, values: Frame) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        assert isinstance(other, Patterned)
        return self.described() == other.described() and np.array_equal(self.pattern, other.pattern)

    def __hash__(self) -> int:
        return hash((type(self), self.position_mm, self.direction))


def frame_along(direction: Vector, across: Vector | None = None) -> Frame:
    """Return a right-handed frame, rows of which are unit vectors across a direction, and along it.

    Parameters
    ----------
    direction
        The third row, of any length.
    across
        Gives the first row, at right angles to the direction; None: x where possible, so that a square stays a square.
    """
    w = np.asarray(direction) / np.linalg.norm(direction)
    if across is None:
        across = tuple(np.eye(3)[0 if abs(w[0]) < 0.9 else 1])
    u = np.asarray(across) - w * (np.asarray(across) @ w)
    u /= np.linalg.norm(u)
    return np.array([u, np.cross(w, u), w])

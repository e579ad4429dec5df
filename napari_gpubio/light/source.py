"""Light sources."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param

Array = npt.NDArray[Any]
Vector = tuple[float, float, float]

# What each kind is, and the sizes that it has; the widget shows only those.
KINDS: dict[str, tuple[str, ...]] = {
    "pencil": (),
    "isotropic": (),
    "cone": ("half_angle_deg",),
    "fiber": ("radius_mm", "numerical_aperture"),
    "gaussian": ("radius_mm", "focus_mm"),
    "disk": ("radius_mm", "inner_radius_mm", "focus_mm"),
    "planar": ("width_mm", "height_mm", "focus_mm"),
    "pattern": ("width_mm", "height_mm", "focus_mm"),
    "line": ("length_mm",),
    "cylinder": ("radius_mm", "length_mm"),
    "lambertian": ("radius_mm", "inner_radius_mm"),
    "slit": ("width_mm", "spread_along", "spread_across", "focus_mm"),
    "pencil_array": ("width_mm", "height_mm", "columns", "rows", "focus_mm"),
    "fourier": ("width_mm", "height_mm", "cycles_across", "cycles_up", "phase_deg", "modulation", "focus_mm"),
    "fourier_2d": (
        "width_mm",
        "height_mm",
        "cycles_across",
        "cycles_up",
        "phase_deg",
        "phase_up_deg",
        "modulation",
        "focus_mm",
    ),
    "radial_line": ("length_mm",),
    "hyperboloid": ("radius_mm", "focus_mm", "rayleigh_mm"),
    "even_cone": ("half_angle_deg",),
    "normal_cone": ("angle_sd_deg",),
    "zgaussian": ("angle_sd_deg",),
}
_LEAST_SLANT = 1e-6  # volume of the unit vectors of a parallelogram and its light
RECTANGLES = (
    "planar",
    "pattern",
    "slit",
    "pencil_array",
    "fourier",
    "fourier_2d",
)  # kinds that have a direction of the width
DISKS = ("fiber", "gaussian", "disk", "lambertian", "hyperboloid")  # kinds that have a radius across the direction


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """A light source.

    * ``pencil``: all photons along ``direction``. ``isotropic``: a point that emits in all directions.
    * ``cone``: a point that emits uniformly (per solid angle) into a cone of half angle ``half_angle_deg``.
    * ``fiber``: a disk of radius ``radius_mm`` (the core) that emits uniformly into the cone of its numerical aperture
      in the medium where it ends.
    * ``gaussian``: a collimated beam whose irradiance falls to 1/e^2 at ``radius_mm``. ``disk``: a collimated flat-top.
    * ``planar``: a collimated rectangle, ``width_mm`` along ``width_axis`` and ``height_mm`` across. ``pattern``: the
      same with the irradiance of an image, whose columns run along the width and rows along the height.
    * ``line``: isotropic emission along a segment of length ``length_mm`` in ``direction``, centered on the position.
      ``cylinder``: a cylindrical diffuser: Lambertian emission outwards from its side.
      ``radial_line``: the same segment, from which light leaves at right angles, evenly all around or into the sector
      ``sector_deg``.
    * ``lambertian``: a disk that emits by the cosine law. It and ``disk`` are rings with an ``inner_radius_mm``, and
      sectors with ``sector_deg``.
    * ``slit``: a collimated line of length ``width_mm`` along ``width_axis``, a light sheet; the slopes of its rays are
      normally distributed where ``spread_along`` (the width) or ``spread_across`` is not 0. ``pencil_array``:
      ``columns`` by ``rows`` pencil beams that fill a rectangle up to its edges. ``fourier``: a rectangle whose
      irradiance is 1 + m cos 2 pi (c u + r v + phase / 360), with u and v from 0 to 1 along width and height, and as
      many cycles c and r as ``cycles_across`` and ``cycles_up`` say (spatial frequency domain imaging).
      ``fourier_2d``: 1 + m sin 2 pi (c u + phase / 360) sin 2 pi (r v + phase_up / 360).
    * ``hyperboloid``: a Gaussian beam that narrows to the 1/e^2 radius ``radius_mm`` at ``focus_mm`` ahead; rays are
      the lines of a hyperboloid with the Rayleigh length ``rayleigh_mm``.
    * ``even_cone``: a point whose polar angle is uniform up to ``half_angle_deg``. ``normal_cone``: one whose polar
      angle is normally distributed; ``zgaussian``: the distribution that MCX has under this name, the same times a
      uniform number from -1 to 1 instead of a cosine, with 2/3 of the variance.

    Where a kind that is collimated has a ``focus_mm`` other than 0, its rays meet so far ahead, or part as if they came
    from a point so far behind (negative).

    Parameters
    ----------
    kind
        One of the above.
    position_mm
        Center, world mm.
    direction
        Direction of emission (or axis of a line), world axes, of any length but zero.
    sector_deg
        Part of a disk that shines, or into which a ``radial_line`` does: from and to these azimuths, counted from
        ``width_axis`` on; None: all of it.
    width_axis
        World direction of the width of a rectangle; by default some direction across ``direction``.
    height_axis
        World direction of the height, for a parallelogram, or one that is lit at an angle: both axes are then taken as
        they are. None: across the width and the direction.
    pattern
        Irradiance of a ``pattern``, shape (rows, columns), any non-negative scale.

    Raises
    ------
    InvalidInput
        If a number is out of range, the direction is zero, or a pattern is missing or empty.
    """

    kind: str = param("pencil", "Kind", "Shape of the source.", choices=tuple(KINDS))
    position_mm: Vector = (0.0, 0.0, 0.0)
    direction: Vector = (0.0, 0.0, 1.0)
    radius_mm: float = param(
        1.0, "Radius", "Radius of the core, disk or cylinder; 1/e² radius of a Gaussian beam.", unit="mm", above=0.0,
        maximum=1e4, step=0.1,
    )  # fmt: skip
    numerical_aperture: float = param(0.39, "NA", "Numerical aperture of the fiber.", above=0.0, maximum=2.0, step=0.01)
    half_angle_deg: float = param(
        20.0, "Half angle", "Half angle of the cone.", unit="°", above=0.0, maximum=180.0, step=5.0
    )
    width_mm: float = param(10.0, "Width", "Width of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0)
    height_mm: float = param(10.0, "Height", "Height of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0)
    length_mm: float = param(
        10.0, "Length", "Length of the line or cylinder.", unit="mm", above=0.0, maximum=1e4, step=1.0
    )
    inner_radius_mm: float = param(
        0.0, "Inner radius", "Radius of the dark middle of a disk.", unit="mm", minimum=0.0, maximum=1e4, step=0.1
    )
    focus_mm: float = param(
        0.0, "Focus", "Distance ahead where rays meet; negative: behind, from where they part; 0: none.", unit="mm",
        minimum=-1e6, maximum=1e6, step=1.0,
    )  # fmt: skip
    rayleigh_mm: float = param(
        10.0, "Rayleigh length", "Distance from the waist at which its area doubles.", unit="mm", above=0.0,
        maximum=1e6, step=1.0,
    )  # fmt: skip
    columns: int = param(3, "Columns", "Beams along the width.", minimum=1, maximum=10_000)
    rows: int = param(3, "Rows", "Beams along the height.", minimum=1, maximum=10_000)
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
    phase_up_deg: float = param(
        0.0, "Phase up", "Phase along the height, where width and height have one each.", unit="°", minimum=-360.0,
        maximum=360.0, step=10.0,
    )  # fmt: skip
    modulation: float = param(
        1.0, "Modulation", "Amplitude of the irradiance over its mean.", minimum=0.0, maximum=1.0, step=0.1
    )
    spread_along: float = param(
        0.0, "Spread along", "Standard deviation of the rays' slope along the width.", minimum=0.0, maximum=100.0,
        step=0.1,
    )  # fmt: skip
    spread_across: float = param(
        0.0, "Spread across", "Standard deviation of the rays' slope across the width.", minimum=0.0, maximum=100.0,
        step=0.1,
    )  # fmt: skip
    angle_sd_deg: float = param(
        10.0, "Angle SD", "Standard deviation of the polar angle.", unit="°", above=0.0, maximum=180.0, step=1.0
    )
    sector_deg: tuple[float, float] | None = None
    width_axis: Vector | None = None
    height_axis: Vector | None = None
    pattern: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_params(self)
        for name in ("position_mm", "direction"):
            object.__setattr__(self, name, finite_vector(f"the source's {name}", getattr(self, name)))
        if not any(self.direction):
            raise InvalidInput("the source's direction is (0, 0, 0); give the direction of emission")
        if self.width_axis is not None:
            object.__setattr__(self, "width_axis", finite_vector("the source's width_axis", self.width_axis))
            if np.linalg.norm(np.cross(self.width_axis, self.direction)) < 1e-6:
                raise InvalidInput("the source's width axis is along its direction; give one across it")
        if self.height_axis is not None:
            self._check_height_axis()
        self._check_disk()
        if self.kind == "pattern":
            if self.pattern is None:
                raise InvalidInput("a source of kind 'pattern' needs its pattern: an image of the irradiance")
            image = np.asarray(self.pattern, np.float64)
            if image.ndim != 2 or not image.size:
                raise InvalidInput(f"the source's pattern has shape {image.shape}; give a two-dimensional image")
            if not np.isfinite(image).all() or (image < 0).any() or image.sum() <= 0:
                raise InvalidInput("the source's pattern must be finite, nowhere negative and somewhere positive")
            object.__setattr__(self, "pattern", image)

    def _check_height_axis(self) -> None:
        object.__setattr__(self, "height_axis", finite_vector("the source's height_axis", self.height_axis))
        if self.width_axis is None or self.kind not in RECTANGLES:
            raise InvalidInput("the source has a height_axis; that is for rectangles with a width_axis: leave it out")
        if abs(np.linalg.det(self.frame())) < _LEAST_SLANT:
            raise InvalidInput(
                "the source's width_axis, height_axis and direction lie in one plane; light would not meet the "
                "parallelogram: change one of them"
            )
        if self.focus_mm or (self.kind == "slit" and (self.spread_along or self.spread_across)):
            raise InvalidInput("the source has a height_axis, and a focus or a spread; leave one of them out")

    def _check_disk(self) -> None:
        if "inner_radius_mm" in KINDS[self.kind] and not self.inner_radius_mm < self.radius_mm:
            raise InvalidInput(
                f"the disk's inner radius is {self.inner_radius_mm:g} mm and its radius {self.radius_mm:g} mm; give a "
                "smaller inner radius, 0 for a full disk"
            )
        if self.sector_deg is None:
            return
        edges = np.asarray(self.sector_deg, np.float64).ravel()
        if edges.shape != (2,) or not np.isfinite(edges).all() or not 0 < edges[1] - edges[0] <= 360:
            raise InvalidInput(
                f"the source's sector_deg is {self.sector_deg!r}; give two angles, the second up to 360 degrees larger"
            )
        object.__setattr__(self, "sector_deg", (float(edges[0]), float(edges[1])))

    @property
    def can_focus(self) -> bool:
        """Whether it is a collimated beam, whose rays meet at a focus where one is given."""
        return "focus_mm" in KINDS[self.kind] and self.kind != "hyperboloid"

    @property
    def across_mm(self) -> float:
        """Height of a rectangle, mm; a slit has none."""
        return 0.0 if self.kind == "slit" else self.height_mm

    @property
    def outer_radius_mm(self) -> float:
        """Radius of a disk or beam where it starts, mm."""
        if self.kind != "hyperboloid":
            return self.radius_mm
        return self.radius_mm * math.hypot(1.0, self.focus_mm / self.rayleigh_mm)

    def frame(self) -> npt.NDArray[np.float64]:
        """Rows: unit vectors of the width, the height and the direction, world axes.

        They are at right angles to each other unless there is a ``height_axis``.
        """
        w = np.asarray(self.direction) / np.linalg.norm(self.direction)
        if self.height_axis is not None and self.width_axis is not None:
            axes = (np.asarray(axis) / (np.linalg.norm(axis) or 1.0) for axis in (self.width_axis, self.height_axis))
            return np.array([*axes, w])
        across = self.width_axis
        if across is None:
            across = tuple(np.eye(3)[0 if abs(w[0]) < 0.9 else 1])  # x where possible, so that a square stays a square
        u = np.asarray(across) - w * (np.asarray(across) @ w)
        u /= np.linalg.norm(u)
        return np.array([u, np.cross(w, u), w])


def finite_vector(name: str, value: Any) -> Vector:
    """Return three finite numbers as a tuple, or raise InvalidInput with the name of what they are."""
    numbers = np.asarray(value, np.float64).ravel()
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise InvalidInput(f"{name} is {value!r}; give three finite numbers (x, y, z)")
    x, y, z = (float(v) for v in numbers)
    return x, y, z

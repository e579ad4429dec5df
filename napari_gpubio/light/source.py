"""Light sources."""

import math
from collections.abc import Sequence
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
    "slit": ("width_mm", "focus_mm"),
    "pencil_array": ("width_mm", "height_mm", "columns", "rows", "focus_mm"),
    "fourier": ("width_mm", "height_mm", "cycles_across", "cycles_up", "phase_deg", "modulation", "focus_mm"),
    "hyperboloid": ("radius_mm", "focus_mm", "rayleigh_mm"),
    "even_cone": ("half_angle_deg",),
    "normal_cone": ("angle_sd_deg",),
    "zgaussian": ("angle_sd_deg",),
}
WITH_ANGLES = tuple(kind for kind in KINDS if kind == "pencil" or ("focus_mm" in KINDS[kind] and kind != "hyperboloid"))
MOST_ANGLES, MOST_SOURCES, MOST_PATTERNS = 1 << 20, 1 << 16, 4096
RECTANGLES = ("planar", "pattern", "slit", "pencil_array", "fourier")  # kinds that have a direction of the width
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
    * ``lambertian``: a disk that emits by the cosine law. It and ``disk`` are rings with an ``inner_radius_mm``, and
      sectors with ``sector_deg``.
    * ``slit``: a collimated line of length ``width_mm`` along ``width_axis``, a light sheet. ``pencil_array``:
      ``columns`` by ``rows`` pencil beams that fill a rectangle up to its edges. ``fourier``: a rectangle whose
      irradiance is 1 + m cos 2 pi (c u + r v + phase / 360), with u and v from 0 to 1 along width and height, and as
      many cycles c and r as ``cycles_across`` and ``cycles_up`` say (spatial frequency domain imaging).
    * ``hyperboloid``: a Gaussian beam that narrows to the 1/e^2 radius ``radius_mm`` at ``focus_mm`` ahead; rays are
      the lines of a hyperboloid with the Rayleigh length ``rayleigh_mm``.
    * ``even_cone``: a point whose polar angle is uniform up to ``half_angle_deg``. ``normal_cone``: one whose polar
      angle is normally distributed; ``zgaussian``: the distribution that MCX has under this name, the same times a
      uniform number from -1 to 1 instead of a cosine, with 2/3 of the variance.

    Where a kind that is collimated has a ``focus_mm`` other than 0, its rays meet so far ahead, or part as if they came
    from a point so far behind (negative). With ``launch_angles_deg`` it has the polar angles of a table instead.

    Parameters
    ----------
    kind
        One of the above.
    position_mm
        Center, world mm.
    direction
        Direction of emission (or axis of a line), world axes, of any length but zero.
    sector_deg
        Part of a disk that shines: from and to these azimuths, counted from ``width_axis`` on; None: all of it.
    width_axis
        World direction of the width of a rectangle; by default some direction across ``direction``.
    pattern
        Irradiance of a ``pattern``, shape (rows, columns), any non-negative scale.
    weight
        Share of the photons that start here where there are several sources, on any scale.
    launch_angles_deg
        Polar angles about the direction, increasing, at equal steps of their distribution function from 0 to 1, and
        linear between them; for the kinds that are collimated otherwise.
    launch_angles_are_discrete
        Whether only these angles occur, all equally often.

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
    modulation: float = param(
        1.0, "Modulation", "Amplitude of the irradiance over its mean.", minimum=0.0, maximum=1.0, step=0.1
    )
    angle_sd_deg: float = param(
        10.0, "Angle SD", "Standard deviation of the polar angle.", unit="°", above=0.0, maximum=180.0, step=1.0
    )
    sector_deg: tuple[float, float] | None = None
    width_axis: Vector | None = None
    pattern: Array | None = field(default=None, repr=False)
    weight: float = 1.0
    launch_angles_deg: tuple[float, ...] | None = None
    launch_angles_are_discrete: bool = False

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
        self._check_disk()
        self._check_angles()
        weight = float(self.weight)
        if not 0 < weight < math.inf:
            raise InvalidInput(
                f"the source's weight is {weight:g}; give a number greater than 0, or leave the source out"
            )
        object.__setattr__(self, "weight", weight)
        if self.kind == "pattern":
            if self.pattern is None:
                raise InvalidInput("a source of kind 'pattern' needs its pattern: an image of the irradiance")
            image = np.asarray(self.pattern, np.float64)
            if image.ndim == 3:
                raise InvalidInput(
                    f"the source's pattern has shape {image.shape}, a stack of images; trace it with simulate_patterns"
                )
            if image.ndim != 2 or not image.size:
                raise InvalidInput(f"the source's pattern has shape {image.shape}; give a two-dimensional image")
            if not np.isfinite(image).all() or (image < 0).any() or image.sum() <= 0:
                raise InvalidInput("the source's pattern must be finite, nowhere negative and somewhere positive")
            object.__setattr__(self, "pattern", image)

    def _check_angles(self) -> None:
        if self.launch_angles_deg is None:
            return
        if self.kind not in WITH_ANGLES:
            raise InvalidInput(
                f"a source of kind {self.kind!r} has angles of its own; launch angles are for {', '.join(WITH_ANGLES)}"
            )
        if self.can_focus and self.focus_mm:
            raise InvalidInput(
                f"the source has launch angles and a focus at {self.focus_mm:g} mm; give one of them, with focus_mm = 0"
            )
        angles = np.asarray(self.launch_angles_deg, np.float64).ravel()
        least = 1 if self.launch_angles_are_discrete else 2
        if not least <= len(angles) <= MOST_ANGLES:
            raise InvalidInput(f"the source has {len(angles)} launch angles; give {least} to {MOST_ANGLES:,}")
        if not (np.isfinite(angles).all() and angles[0] >= 0 and angles[-1] <= 180):
            raise InvalidInput("the source's launch angles must be numbers from 0 to 180 degrees")
        if (fall := np.flatnonzero(np.diff(angles) < 0)).size:
            low, high = angles[fall[0] : fall[0] + 2]
            raise InvalidInput(
                f"the source's launch angles fall from {low:g} to {high:g} degrees; give them in increasing order, at "
                "equal steps of their distribution function"
            )
        object.__setattr__(self, "launch_angles_deg", tuple(angles.tolist()))

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
        """Rows: unit vectors of the width, the height and the direction, world axes."""
        w = np.asarray(self.direction) / np.linalg.norm(self.direction)
        across = self.width_axis
        if across is None:
            across = tuple(np.eye(3)[0 if abs(w[0]) < 0.9 else 1])  # x where possible, so that a square stays a square
        u = np.asarray(across) - w * (np.asarray(across) @ w)
        u /= np.linalg.norm(u)
        return np.array([u, np.cross(w, u), w])


AnySource = Source | tuple[Source, ...]


def all_sources(source: Source | Sequence[Source]) -> tuple[Source, ...]:
    """Return one or several sources as a tuple.

    Raises
    ------
    InvalidInput
        If there is none, something is no source, or there are too many.
    """
    sources = (source,) if isinstance(source, Source) else tuple(source)
    if odd := [one for one in sources if not isinstance(one, Source)]:
        raise InvalidInput(f"{odd[0]!r} is not a Source; give a Source, or a list of them")
    if not 1 <= len(sources) <= MOST_SOURCES:
        raise InvalidInput(f"there are {len(sources)} sources; give 1 to {MOST_SOURCES:,}")
    return sources


def one_or_all(sources: tuple[Source, ...]) -> AnySource:
    """Return the source, where there is one, or all of them."""
    return sources[0] if len(sources) == 1 else sources


def single_source(source: AnySource, what: str) -> Source:
    """Return the only source, or raise InvalidInput with the name of what needs a single one."""
    if isinstance(source, Source):
        return source
    raise InvalidInput(f"there are {len(source)} sources, and {what} needs a single one; simulate it alone")


def checked_patterns(patterns: Array) -> npt.NDArray[np.float64]:
    """Return a stack of patterns, shape (K, rows, columns), or raise InvalidInput with the number of a bad one."""
    images = np.asarray(patterns, np.float64)
    if images.ndim != 3 or not images.size:
        raise InvalidInput(f"the patterns have shape {images.shape}; give a stack of images (patterns, rows, columns)")
    if len(images) > MOST_PATTERNS:
        raise InvalidInput(f"there are {len(images):,} patterns; at most {MOST_PATTERNS:,} can share photons")
    for number, image in enumerate(images, 1):
        if not np.isfinite(image).all() or (image < 0).any() or not image.sum() > 0:
            raise InvalidInput(
                f"pattern {number} of {len(images)} must be finite, nowhere negative and somewhere positive; signed "
                "patterns are differences of two of these"
            )
    return images


def finite_vector(name: str, value: Any) -> Vector:
    """Return three finite numbers as a tuple, or raise InvalidInput with the name of what they are."""
    numbers = np.asarray(value, np.float64).ravel()
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise InvalidInput(f"{name} is {value!r}; give three finite numbers (x, y, z)")
    x, y, z = (float(v) for v in numbers)
    return x, y, z

"""Light sources."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.core.space import apply_affine, checked_affine, voxel_sizes_mm

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
    "volume": ("width_mm", "height_mm", "length_mm"),
}


def _with(size: str) -> dict[str, tuple[str, ...]]:
    """The kinds that have a size."""
    return {"kind": tuple(kind for kind, sizes in KINDS.items() if size in sizes)}


_LEAST_SLANT = 1e-6  # volume of the unit vectors of a parallelogram and its light
WITH_ANGLES = tuple(kind for kind in KINDS if kind == "pencil" or ("focus_mm" in KINDS[kind] and kind != "hyperboloid"))
MOST_ANGLES, MOST_SOURCES, MOST_PATTERNS = 1 << 20, 1 << 16, 4096
# kinds that have a direction of the width
RECTANGLES = ("planar", "pattern", "slit", "pencil_array", "fourier", "fourier_2d")
DISKS = ("fiber", "gaussian", "disk", "lambertian", "hyperboloid")  # kinds that have a radius across the direction
WITH_SECTOR = ("disk", "lambertian", "radial_line")
ALL_ROUND = ("isotropic", "line", "cylinder", "volume", "radial_line")  # kinds that emit in all directions
WITH_PATTERN = ("pattern", "volume")
MOST_CELLS = 1 << 30  # of a volume
ENTRIES = ("auto", "smooth", "faces")


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
    * ``volume``: a box of ``width_mm`` along ``width_axis``, ``length_mm`` along the direction and ``height_mm`` across
      both, centered on the position, whose cells emit in all directions, each as much as an array says
      (bioluminescence, fluorescence). `emitting_volume` makes one of a volume with an affine.

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
        Part of a disk that emits, or into which a ``radial_line`` does: from and to these azimuths, counted from
        ``width_axis`` on; None: all of it.
    width_axis
        World direction of the width of a rectangle; by default some direction across ``direction``.
    height_axis
        World direction of the height, for a parallelogram, or one that is lit at an angle: both axes are then taken as
        they are. None: across the width and the direction.
    pattern
        Irradiance of a ``pattern``, shape (rows, columns); emission of the cells of a ``volume``, shape (X, Y, Z),
        along width, height and direction. Any non-negative scale.
    weight
        Share of the photons that start here where there are several sources, on any scale.
    entry
        What reflects and refracts light that comes from outside: ``smooth``, the smoothed surface of the labels where
        the axis of the source meets it, at any angle; ``faces``, the faces of the voxels, whose steps lose between 0
        and 100 % of the light; ``auto``, the smoothed surface if the direction is along its normal (within 5 degrees),
        else the faces. Where the tissue is a box, its faces count, as for sources that emit in all directions.
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
        maximum=1e4, step=0.1, where=_with("radius_mm"),
    )  # fmt: skip
    numerical_aperture: float = param(
        0.39, "NA", "Numerical aperture of the fiber.", above=0.0, maximum=2.0, step=0.01,
        where=_with("numerical_aperture"),
    )  # fmt: skip
    half_angle_deg: float = param(
        20.0, "Half angle", "Half angle of the cone.", unit="°", above=0.0, maximum=180.0, step=5.0,
        where=_with("half_angle_deg"),
    )  # fmt: skip
    width_mm: float = param(
        10.0, "Width", "Width of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0, where=_with("width_mm"),
    )  # fmt: skip
    height_mm: float = param(
        10.0, "Height", "Height of the rectangle.", unit="mm", above=0.0, maximum=1e4, step=1.0,
        where=_with("height_mm"),
    )  # fmt: skip
    length_mm: float = param(
        10.0, "Length", "Length of the line, cylinder or box.", unit="mm", above=0.0, maximum=1e4, step=1.0,
        where=_with("length_mm"),
    )  # fmt: skip
    inner_radius_mm: float = param(
        0.0, "Inner radius", "Radius of the dark middle of a disk.", unit="mm", minimum=0.0, maximum=1e4, step=0.1,
        where=_with("inner_radius_mm"),
    )  # fmt: skip
    focus_mm: float = param(
        0.0, "Focus", "Distance ahead where rays meet; negative: behind, from where they part; 0: none.", unit="mm",
        minimum=-1e6, maximum=1e6, step=1.0, where=_with("focus_mm"),
    )  # fmt: skip
    rayleigh_mm: float = param(
        10.0, "Rayleigh length", "Distance from the waist at which its area doubles.", unit="mm", above=0.0,
        maximum=1e6, step=1.0, where=_with("rayleigh_mm"),
    )  # fmt: skip
    columns: int = param(3, "Columns", "Beams along the width.", minimum=1, maximum=10_000, where=_with("columns"))
    rows: int = param(3, "Rows", "Beams along the height.", minimum=1, maximum=10_000, where=_with("rows"))
    cycles_across: float = param(
        3.0, "Cycles across", "Periods of the irradiance along the width.", minimum=-1e4, maximum=1e4, step=0.5,
        where=_with("cycles_across"),
    )  # fmt: skip
    cycles_up: float = param(
        0.0, "Cycles up", "Periods of the irradiance along the height.", minimum=-1e4, maximum=1e4, step=0.5,
        where=_with("cycles_up"),
    )  # fmt: skip
    phase_deg: float = param(
        0.0, "Phase", "Phase of the irradiance at the rectangle's corner.", unit="°", minimum=-360.0, maximum=360.0,
        step=10.0, where=_with("phase_deg"),
    )  # fmt: skip
    phase_up_deg: float = param(
        0.0, "Phase up", "Phase along the height, where width and height have one each.", unit="°", minimum=-360.0,
        maximum=360.0, step=10.0, where=_with("phase_up_deg"),
    )  # fmt: skip
    modulation: float = param(
        1.0, "Modulation", "Amplitude of the irradiance over its mean.", minimum=0.0, maximum=1.0, step=0.1,
        where=_with("modulation"),
    )  # fmt: skip
    spread_along: float = param(
        0.0, "Spread along", "Standard deviation of the rays' slope along the width.", minimum=0.0, maximum=100.0,
        step=0.1, where=_with("spread_along"),
    )  # fmt: skip
    spread_across: float = param(
        0.0, "Spread across", "Standard deviation of the rays' slope across the width.", minimum=0.0, maximum=100.0,
        step=0.1, where=_with("spread_across"),
    )  # fmt: skip
    angle_sd_deg: float = param(
        10.0, "Angle SD", "Standard deviation of the polar angle.", unit="°", above=0.0, maximum=180.0, step=1.0,
        where=_with("angle_sd_deg"),
    )  # fmt: skip
    sector_deg: tuple[float, float] | None = None
    width_axis: Vector | None = None
    height_axis: Vector | None = None
    pattern: Array | None = field(default=None, repr=False)
    weight: float = 1.0
    entry: str = param(
        "auto", "Entry", "What reflects and refracts light that enters: the smoothed surface, or faces of voxels.",
        choices=ENTRIES,
    )  # fmt: skip
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
        if self.height_axis is not None:
            self._check_height_axis()
        self._check_disk()
        self._check_angles()
        weight = float(self.weight)
        if not 0 < weight < math.inf:
            raise InvalidInput(
                f"the source's weight is {weight:g}; give a number greater than 0, or leave the source out"
            )
        object.__setattr__(self, "weight", weight)
        if self.pattern is not None and self.kind not in WITH_PATTERN:
            raise InvalidInput(
                f"the source has a pattern, which a source of kind {self.kind!r} does not have; leave it out, or "
                f"choose one of {', '.join(WITH_PATTERN)}"
            )
        if self.entry == "smooth" and self.kind in ALL_ROUND:
            raise InvalidInput(
                f"the source's entry is 'smooth', and one of kind {self.kind!r} emits in all directions, so that light "
                "that comes from outside enters through the faces of voxels; leave it out"
            )
        if self.launch_angles_are_discrete and self.launch_angles_deg is None:
            raise InvalidInput("launch_angles_are_discrete is True without launch angles; give both or neither")
        if self.kind == "pattern":
            self._check_pattern(2, "an image of the irradiance", "a two-dimensional image")
        elif self.kind == "volume":
            self._check_pattern(3, "the emission of its cells", "a three-dimensional array")

    def _check_pattern(self, axes: int, what: str, how: str) -> None:
        if self.pattern is None:
            raise InvalidInput(f"a source of kind {self.kind!r} needs its pattern: {what}")
        values = np.asarray(self.pattern, np.float64)
        if axes == 2 and values.ndim == 3:
            raise InvalidInput(
                f"the source's pattern has shape {values.shape}, a stack of images; trace it with simulate_patterns"
            )
        if values.ndim != axes or not 0 < values.size <= MOST_CELLS:
            raise InvalidInput(f"the source's pattern has shape {values.shape}; give {how}")
        if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
            raise InvalidInput("the source's pattern must be finite, nowhere negative and somewhere positive")
        object.__setattr__(self, "pattern", values)

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
        if self._spreads:
            raise InvalidInput("the source has launch angles and a spread of its own; leave one of them out")
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

    def _check_height_axis(self) -> None:
        object.__setattr__(self, "height_axis", finite_vector("the source's height_axis", self.height_axis))
        if self.width_axis is None or self.kind not in RECTANGLES:
            raise InvalidInput("the source has a height_axis; that is for rectangles with a width_axis: leave it out")
        if abs(np.linalg.det(self.frame())) < _LEAST_SLANT:
            raise InvalidInput(
                "the source's width_axis, height_axis and direction lie in one plane; light would not meet the "
                "parallelogram: change one of them"
            )
        if self._spreads:
            raise InvalidInput("the source has a height_axis and a spread; leave one of them out")
        if self.launch_angles_deg is not None:
            raise InvalidInput("the source has a height_axis and launch angles; leave one of them out")

    def _check_disk(self) -> None:
        if "inner_radius_mm" in KINDS[self.kind] and not self.inner_radius_mm < self.radius_mm:
            raise InvalidInput(
                f"the disk's inner radius is {self.inner_radius_mm:g} mm and its radius {self.radius_mm:g} mm; give a "
                "smaller inner radius, 0 for a full disk"
            )
        if self.sector_deg is None:
            return
        if self.kind not in WITH_SECTOR:
            raise InvalidInput(
                f"the source has a sector_deg, which a source of kind {self.kind!r} does not have; leave it out, or "
                f"choose one of {', '.join(WITH_SECTOR)}"
            )
        edges = np.asarray(self.sector_deg, np.float64).ravel()
        if edges.shape != (2,) or not np.isfinite(edges).all() or not 0 < edges[1] - edges[0] <= 360:
            raise InvalidInput(
                f"the source's sector_deg is {self.sector_deg!r}; give two angles, the second up to 360 degrees larger"
            )
        object.__setattr__(self, "sector_deg", (float(edges[0]), float(edges[1])))

    @property
    def _spreads(self) -> bool:
        return self.kind == "slit" and bool(self.spread_along or self.spread_across)

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


def emitting_volume(emission: Array, affine: npt.ArrayLike) -> Source:
    """Return a source of kind ``volume`` whose cells are the voxels of a volume; planes without emission are left out.

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
    part = values[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))]
    sizes = voxel_sizes_mm(matrix)
    if np.linalg.det(matrix[:3, :3]) < 0:  # the frame of a source is right-handed
        part = part[:, ::-1]
    width, height, length = (float(edge) for edge in part.shape * sizes)
    return Source(
        kind="volume", position_mm=tuple(apply_affine(matrix, (low + high) / 2)), direction=tuple(matrix[:3, 2]),
        width_axis=tuple(matrix[:3, 0]), width_mm=width, height_mm=height, length_mm=length, pattern=part,
    )  # fmt: skip


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

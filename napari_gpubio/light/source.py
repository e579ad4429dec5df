"""Light sources."""

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
    "gaussian": ("radius_mm",),
    "disk": ("radius_mm",),
    "planar": ("width_mm", "height_mm"),
    "pattern": ("width_mm", "height_mm"),
    "line": ("length_mm",),
    "cylinder": ("radius_mm", "length_mm"),
    "lambertian": ("radius_mm",),
}


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
    * ``lambertian``: a disk that emits by the cosine law.

    Parameters
    ----------
    kind
        One of the above.
    position_mm
        Center, world mm.
    direction
        Direction of emission (or axis of a line), world axes, of any length but zero.
    width_axis
        World direction of the width of a rectangle; by default some direction across ``direction``.
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
    width_axis: Vector | None = None
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
        if self.kind == "pattern":
            if self.pattern is None:
                raise InvalidInput("a source of kind 'pattern' needs its pattern: an image of the irradiance")
            image = np.asarray(self.pattern, np.float64)
            if image.ndim != 2 or not image.size:
                raise InvalidInput(f"the source's pattern has shape {image.shape}; give a two-dimensional image")
            if not np.isfinite(image).all() or (image < 0).any() or image.sum() <= 0:
                raise InvalidInput("the source's pattern must be finite, nowhere negative and somewhere positive")
            object.__setattr__(self, "pattern", image)

    def frame(self) -> npt.NDArray[np.float64]:
        """Rows: unit vectors of the width, the height and the direction, world axes."""
        w = np.asarray(self.direction) / np.linalg.norm(self.direction)
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

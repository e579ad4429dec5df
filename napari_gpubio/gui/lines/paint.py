"""Colors of packed lines: by direction, all the same, or by a number.

A paint is a small value that holds everything the colors depend on besides the lines themselves. So a worker can
paint lines before a layer has them, and the layer can check whether they have the right colors already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.jit import kernel

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
DIRECTION, UNIFORM = "direction", "uniform"
AUTO, LINES, LIT, TUBES = STYLES = ("auto", "lines", "lit", "tubes")  # how lines are drawn in 3-D
NO_VALUE_RGB = (128, 128, 128)  # values that are not finite are drawn gray
_PERCENTILE_SAMPLE = 100_000
_DIRECTION_DIGITS = 6  # colors have 8 bits
_MOST_CODES = 12  # that a color bar names
_codes: dict[str, Mapping[int, str]] = {}  # the names of values, by the number whose values they are


class Painted(Protocol):
    """What is painted: `packed.Lines`, as far as colors need them."""

    @property
    def vertices(self) -> Floats:
        """Positions and colors, shape (P, 4)."""

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each line begins and ends, shape (F + 1,)."""

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of points of each line, shape (F,)."""

    @property
    def per_fiber(self) -> Mapping[str, Array]:
        """Named numbers of lines, shape (F,)."""

    def numbers(self, name: str) -> Array | None:
        """Return the numbers of a name, shape (F,) or (P,), or None if there are none."""


@dataclass(frozen=True)
class ByDirection:
    """Color by the direction of a line in the world: red along x, green along y, blue along z.

    Parameters
    ----------
    linear
        3 x 3 map from data to world, or a 4 x 4 affine, in layer axes z, y, x. It is kept without its scale and
        rounded, as far as colors can show, so that matrices that were computed in two ways are equal.
    """

    linear: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

    def __post_init__(self) -> None:
        matrix: Array = np.asarray(self.linear, np.float64)[:3, :3]
        matrix = np.round(matrix / (np.abs(matrix).max() or 1.0), _DIRECTION_DIGITS)
        object.__setattr__(self, "linear", tuple(map(tuple, matrix.tolist())))

    def fits(self, _lines: Painted) -> bool:
        """Whether these lines can be colored this way: all can."""
        return True

    def apply(self, lines: Painted) -> None:
        """Write the colors into the vertices."""
        linear = np.ascontiguousarray(np.array(self.linear, np.float32)[::-1, ::-1])
        _paint_direction(lines.vertices, lines.offsets, linear)


@dataclass(frozen=True)
class Uniform:
    """One color for all.

    Parameters
    ----------
    rgb
        Red, green and blue, 0 to 1.
    """

    rgb: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "rgb", tuple(map(float, self.rgb)))

    def fits(self, _lines: Painted) -> bool:
        """Whether these lines can be colored this way: all can."""
        return True

    def apply(self, lines: Painted) -> None:
        """Write the colors into the vertices."""
        lines.vertices[:, 3] = pack_rgb(self.rgb)


@dataclass(frozen=True)
class ByNumber:
    """Color by a number of each line or each point; what is not finite becomes gray.

    Parameters
    ----------
    name
        Which number.
    lut
        Packed colors (see `pack_rgb`) from the lower to the upper limit.
    limits
        Lower and upper limit, in units of the number; None takes `limits_of`.
    """

    name: str
    lut: Any
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lut", tuple(map(float, self.lut)))

    def fits(self, lines: Painted) -> bool:
        """Whether these lines have the number."""
        return lines.numbers(self.name) is not None

    def apply(self, lines: Painted) -> None:
        """Write the colors into the vertices."""
        values = lines.numbers(self.name)
        if values is None:
            raise InvalidInput(f"the streamlines have no number {self.name!r}")
        low, high = self.limits or limits_of(self.name, values)
        if values.dtype != np.float32 and values.dtype != np.float64:
            values = values.astype(np.float64)
        gray = pack_rgb(np.divide(NO_VALUE_RGB, 255))
        colors = np.empty(len(values), np.float32)
        _color_values(
            np.ascontiguousarray(values), np.array(self.lut, np.float32), float(low), float(high), float(gray), colors
        )
        lines.vertices[:, 3] = np.repeat(colors, lines.counts) if self.name in lines.per_fiber else colors


Paint = ByDirection | Uniform | ByNumber


def pack_rgb(rgb: npt.ArrayLike) -> Floats:
    """Pack colors (..., 3 or more), 0 to 1, into one float32 each: red * 65536 + green * 256 + blue."""
    whole = np.clip(np.asarray(rgb, np.float64)[..., :3] * 255 + 0.5, 0, 255).astype(np.uint32)
    return (whole[..., 0] * 65536 + whole[..., 1] * 256 + whole[..., 2]).astype(np.float32)


def unpack_rgb(packed: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Undo `pack_rgb` and `mark_ends`: shape (..., 3), 0 to 255."""
    colors = np.asarray(packed)
    whole = np.where(colors < 0, -1 - colors, colors).astype(np.uint32)
    return np.stack([whole >> 16, (whole >> 8) & 255, whole & 255], axis=-1).astype(np.uint8)


def mark_ends(lines: Painted) -> None:
    """Make the colors of the last points of lines -1 - color, by which a shader knows that no segment begins there."""
    ends = lines.offsets[1:][lines.counts > 0] - 1
    lines.vertices[ends, 3] = -1 - lines.vertices[ends, 3]


def register_codes(name: str, names: Mapping[int, str]) -> None:
    """Say that a number of lines is a code: what each value means, or nothing where it is only a number of a group."""
    _codes[name] = names


def code_names(name: str, values: Array) -> dict[int, str] | None:
    """Return what the values that occur mean, in ascending order; None where they are no codes, or too many."""
    if name not in _codes:
        return None
    found = np.unique(values[np.isfinite(values)]).astype(np.int64).tolist()
    return {code: _codes[name].get(code, str(code)) for code in found} if 0 < len(found) <= _MOST_CODES else None


def limits_of(name: str, values: Array) -> tuple[float, float]:
    """Return the values at the ends of the colormap: those of all codes, so that each always has the same color."""
    if name not in _codes:
        return automatic_limits(values)
    known = np.concatenate([np.fromiter(_codes[name], np.float64), values[np.isfinite(values)]])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return low, max(high, low + 1.0)


def automatic_limits(values: Array) -> tuple[float, float]:
    """2nd and 98th percentile of the finite values (of 100,000 evenly spaced ones if there are more)."""
    some = values[:: max(1, len(values) // _PERCENTILE_SAMPLE)].astype(np.float64)
    some = some[np.isfinite(some)]
    if not len(some):
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(some, (2, 98)))
    return (low, high) if high > low else (low, low + 1.0)


@kernel
def _paint_direction(vertices: Floats, offsets: npt.NDArray[np.int64], linear: Floats) -> None:
    """Pack |tangent| / length, from central differences (one-sided at the ends)."""
    for line in range(len(offsets) - 1):
        start, stop = offsets[line], offsets[line + 1]
        for n in range(start, stop):
            before, after = max(n - 1, start), min(n + 1, stop - 1)
            dx = vertices[after, 0] - vertices[before, 0]
            dy = vertices[after, 1] - vertices[before, 1]
            dz = vertices[after, 2] - vertices[before, 2]
            x = abs(linear[0, 0] * dx + linear[0, 1] * dy + linear[0, 2] * dz)
            y = abs(linear[1, 0] * dx + linear[1, 1] * dy + linear[1, 2] * dz)
            z = abs(linear[2, 0] * dx + linear[2, 1] * dy + linear[2, 2] * dz)
            length = np.sqrt(x * x + y * y + z * z)
            scale = np.float32(255.0) / length if length > 0 else np.float32(0.0)
            red, green = np.floor(x * scale + np.float32(0.5)), np.floor(y * scale + np.float32(0.5))
            blue = np.floor(z * scale + np.float32(0.5))
            vertices[n, 3] = red * np.float32(65536.0) + green * np.float32(256.0) + blue


@kernel
def _color_values(values: Array, lut: Floats, low: float, high: float, no_value: float, colors: Floats) -> None:
    top = len(lut) - 1
    scale = top / (high - low)
    for n in range(len(values)):
        if np.isfinite(values[n]):
            colors[n] = lut[np.int64(min(max((values[n] - low) * scale, 0.0), top) + 0.5)]
        else:
            colors[n] = no_value

"""What colors the lines of a layer: a choice, a color, a colormap, limits for each number, and a color bar."""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import ensure_colormap
from napari.utils.colormaps.standardize_color import transform_color

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.lines import DIRECTION, UNIFORM, ByDirection, ByNumber, Lines, Paint, Uniform, painted
from napari_gpubio.gui.lines.paint import automatic_limits, pack_rgb, unpack_rgb

_LUT_COLORS = 256


class Coloring:
    """The settings behind a layer's colors; it knows neither the layer nor its lines, which are handed to it.

    Parameters
    ----------
    color
        Any napari color, for ``'uniform'``.
    colormap
        Any napari colormap, for numbers.

    Attributes
    ----------
    color_by
        ``'direction'``, ``'uniform'`` or the name of a number.

    Raises
    ------
    InvalidInput
        If napari does not know the color or the colormap.
    """

    def __init__(self, color: Any, colormap: Any) -> None:
        self.color_by = DIRECTION
        self.color = color
        self.colormap = colormap
        self._limits: dict[str, tuple[float, float]] = {}

    @property
    def color(self) -> npt.NDArray[np.float32]:
        """RGB from 0 to 1; any napari color can be set."""
        return self._color

    @color.setter
    def color(self, color: Any) -> None:
        try:
            self._color = np.asarray(transform_color(color), np.float32)[0, :3]
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InvalidInput(f"the color {color!r} is not one that napari knows; give a name or RGB") from error

    @property
    def colormap(self) -> Any:
        """A napari colormap; its name can be set as well."""
        return self._colormap

    @colormap.setter
    def colormap(self, colormap: Any) -> None:
        try:
            self._colormap = ensure_colormap(colormap)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the colormap {colormap!r} is not one that napari knows") from error

    @staticmethod
    def choices(lines: Lines) -> list[str]:
        """Return what can color these lines."""
        return [DIRECTION, UNIFORM, *lines.names]

    def choose(self, choice: str, lines: Lines) -> None:
        """Color by this, or say what else could be chosen."""
        choices = self.choices(lines)
        if choice not in choices:
            raise InvalidInput(f"color_by is {choice!r}; choose one of {', '.join(map(repr, choices))}")
        self.color_by = choice

    def settle(self, lines: Lines) -> None:
        """Color by direction if these lines do not have the number that was chosen."""
        if self.color_by not in self.choices(lines):
            self.color_by = DIRECTION

    @property
    def own_limits(self) -> tuple[float, float] | None:
        """Limits that were set for the present choice, None if they are automatic."""
        return self._limits.get(self.color_by)

    def limits(self, lines: Lines) -> tuple[float, float] | None:
        """Return the values at the ends of the colormap, None if no number colors the lines."""
        values = lines.numbers(self.color_by)
        return None if values is None else self.own_limits or automatic_limits(values)

    def set_limits(self, limits: tuple[float, float] | None, lines: Lines) -> None:
        """Set the limits of the number that colors the lines, if one does; None makes them automatic."""
        if limits is None:
            self._limits.pop(self.color_by, None)
        elif lines.numbers(self.color_by) is not None:
            self._limits[self.color_by] = _checked(limits)

    def paint(self, linear: npt.ArrayLike) -> Paint:
        """Return what the colors depend on; ``linear`` maps data to world, layer axes z, y, x."""
        if self.color_by == DIRECTION:
            return ByDirection(linear)
        if self.color_by == UNIFORM:
            return Uniform(self._color)
        return ByNumber(self.color_by, pack_rgb(self._ramp(_LUT_COLORS)), self.own_limits)

    def bar(self, height: int, width: int) -> npt.NDArray[np.uint8]:
        """Picture of the colormap, shape (height, width, 4), RGBA, lower limit at the bottom or at the left."""
        row = np.round(255 * self._ramp(max(height, width))).astype(np.uint8)
        if height > width:
            return np.repeat(row[::-1, None], width, axis=1)
        return np.repeat(row[None], height, axis=0)

    def _ramp(self, count: int) -> npt.NDArray[Any]:
        return np.asarray(self._colormap.map(np.linspace(0, 1, count)))


def _checked(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(value) for value in limits)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidInput(f"contrast limits are {low:g} and {high:g}; the first must be smaller than the second")
    return low, high


class ColoredLayer:
    """Color properties of a layer that has lines, a `Coloring`, events and a transform."""

    lines: Any  # `Lines`; a property of the layer
    events: Any
    data_to_world_matrix: Any
    _coloring: Coloring
    _ready: bool
    _color_by: str  # of napari's Tracks, while the layer is being made
    _colormap: str
    _manager: Any
    _update_thumbnail: Any

    @property
    def color_choices(self) -> list[str]:
        """What `color_by` can be."""
        return self._coloring.choices(self.lines)

    @property
    def properties_to_color_by(self) -> list[str]:
        """Same as `color_choices`; napari's own controls ask for it."""
        return self.color_choices if self._ready else ["track_id"]

    @property
    def color_by(self) -> str:
        """What colors the lines: ``'direction'``, ``'uniform'``, or the name of a number."""
        return self._coloring.color_by if self._ready else self._color_by

    @color_by.setter
    def color_by(self, choice: str) -> None:
        if self._ready:
            self._coloring.choose(choice, self.lines)
            self._recolor_tracks()

    @property
    def color(self) -> npt.NDArray[np.float32]:
        """Color for ``'uniform'``, RGB from 0 to 1; any napari color can be set."""
        return self._coloring.color

    @color.setter
    def color(self, color: Any) -> None:
        self._coloring.color = color
        self._recolor_tracks()

    @property
    def colormap(self) -> str:
        """Name of the colormap for numbers; any napari colormap can be set."""
        return self._coloring.colormap.name if self._ready else self._colormap

    @colormap.setter
    def colormap(self, colormap: Any) -> None:
        if self._ready:
            self._coloring.colormap = colormap
            self._recolor_tracks()
            self.events.colormap()

    @property
    def contrast_limits(self) -> tuple[float, float] | None:
        """Values at the ends of the colormap, None if no number colors the lines; None sets automatic limits."""
        return self._coloring.limits(self.lines)

    @contrast_limits.setter
    def contrast_limits(self, limits: tuple[float, float] | None) -> None:
        self._coloring.set_limits(limits, self.lines)
        self._recolor_tracks()

    @property
    def color_bar_limits(self) -> tuple[float, float] | None:
        """Values at the ends of a color bar, None if no number colors the lines."""
        return self.contrast_limits

    def color_bar_image(self, height: int, width: int) -> npt.NDArray[np.uint8] | None:
        """Picture of the color bar, shape (height, width, 4), RGBA; None if no number colors the lines.

        The lower limit is at the bottom of an upright bar and at the left of a lying one.
        """
        return None if self.contrast_limits is None else self._coloring.bar(height, width)

    @property
    def track_colors(self) -> npt.NDArray[np.float32]:
        """RGBA of each point, 0 to 1, shape (P, 4); a copy."""
        rgb = unpack_rgb(self.lines.vertices[:, 3]) / np.float32(255)
        return np.column_stack([rgb, np.ones(len(rgb), np.float32)])

    @property
    def paint(self) -> Paint:
        """How the lines are colored, for `pack_lines` in a worker thread."""
        return self._coloring.paint(self.data_to_world_matrix()[0])

    def _paint(self) -> None:
        self._manager.lines = painted(self.lines, self.paint)

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._paint()
            self.events.coloring()
            self.events.color_by()
            self._update_thumbnail()

    def _on_transform_change(self) -> None:
        if self.color_by == DIRECTION:
            self._recolor_tracks()

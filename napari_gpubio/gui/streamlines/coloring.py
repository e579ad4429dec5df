"""What colors the lines of a layer: a choice, a color, a colormap, limits for each number, and a color bar."""

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.utils.colormaps import ensure_colormap
from napari.utils.colormaps.standardize_color import transform_color

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried, grid_of, volume_of
from napari_gpubio.gui.lines import DIRECTION, UNIFORM, ByDirection, ByNumber, Lines, Paint, Uniform, painted
from napari_gpubio.gui.lines.paint import code_names, limits_of, pack_rgb, unpack_rgb
from napari_gpubio.gui.lines.sampling import LineImage, free_name, title_of

Limits = tuple[float, float]
_LUT_COLORS = 256


class ColoredLayer:
    """Color properties of a layer that has lines, events and a transform."""

    lines: Any  # `Lines`; a property of the layer
    events: Any
    data_to_world_matrix: Any
    _ready: bool
    _color_by: str  # napari's Tracks sets it too, while the layer is being made
    _colormap: str  # of napari's Tracks, while the layer is being made
    _manager: Any
    _update_thumbnail: Any

    def _begin_coloring(self, color: Any, colormap: Any, color_by: str, limits: Limits | None, lines: Lines) -> None:
        """Take the first settings; `_recolor_tracks` then paints."""
        self._limits: dict[str, Limits] = {}  # that were set, by the name of the number
        self._known_limits: tuple[Any, Limits] = (None, (0.0, 1.0))  # automatic ones, of an array of numbers
        self._images: dict[str, LineImage] = {}  # that may color the lines, by the name of the number
        self._rgb, self._map = _rgb_of(color), _colormap_of(colormap)
        self._color_by = _choice_of(color_by, lines)
        if limits is not None and lines.numbers(color_by) is not None:
            self._limits[color_by] = _checked(limits)

    @property
    def color_choices(self) -> list[str]:
        """What `color_by` can be: colors, numbers, and images that were given to `color_by_image`."""
        return list(dict.fromkeys([*_choices(self.lines), *self._images]))

    @property
    def properties_to_color_by(self) -> list[str]:
        """Same as `color_choices`; napari's own controls ask for it."""
        return self.color_choices if self._ready else ["track_id"]

    @property
    def color_by(self) -> str:
        """What colors the lines: ``'direction'``, ``'uniform'``, or the name of a number."""
        return self._color_by

    @color_by.setter
    def color_by(self, choice: str) -> None:
        if self._ready:
            if choice not in self._images:
                _choice_of(choice, self.lines)
            self._color_by = choice
            self._recolor_tracks()

    def color_by_image(self, image: Any) -> None:
        """Color by the values of an image along the lines, wherever its grid lies; new lines are colored by it, too.

        Parameters
        ----------
        image
            A napari image layer of three dimensions, or a `LineImage`. Its values are taken as they are now.

        Raises
        ------
        InvalidInput
            If the layer is not one volume of numbers.
        """
        if not isinstance(image, LineImage):
            image = line_image(image)
        own = [name for name in self.lines.names if name not in self._images]
        name = free_name(image.name, [DIRECTION, UNIFORM, *own])
        is_new = name not in self.color_choices
        self._images[name] = image
        self._forget_samples()
        self._color_by = name
        self._recolor_tracks()
        if is_new:
            self.events.properties()

    @property
    def image_names(self) -> list[str]:
        """Names among `color_choices` that are those of images."""
        return list(self._images)

    @property
    def color_image(self) -> LineImage | None:
        """The image that colors the lines, None if none does."""
        return self._images.get(self.color_by)

    @property
    def color_title(self) -> str:
        """What colors the lines, for people and with its unit: "length (mm)"."""
        image = self._images.get(self.color_by)
        return title_of(self.color_by, "" if image is None else image.unit)

    def follow_coloring(self, layer: Any) -> None:
        """Take the colors of a layer that shows the same lines, and shares them."""
        self._color_by, self._map, self._rgb = layer._color_by, layer._map, layer._rgb
        self._limits, self._images = layer._limits, layer._images
        self._manager.lines = layer.lines
        self.events.coloring()
        self.events.color_by()

    @property
    def color(self) -> npt.NDArray[np.float32]:
        """Color for ``'uniform'``, RGB from 0 to 1; any napari color can be set."""
        return self._rgb

    @color.setter
    def color(self, color: Any) -> None:
        self._rgb = _rgb_of(color)
        self._recolor_tracks()

    @property
    def colormap(self) -> str:
        """Name of the colormap for numbers; any napari colormap can be set."""
        return str(self._map.name) if self._ready else self._colormap

    @colormap.setter
    def colormap(self, colormap: Any) -> None:
        if self._ready:
            self._map = _colormap_of(colormap)
            self._recolor_tracks()
            self.events.colormap()

    @property
    def color_map(self) -> Any:
        """The colormap itself."""
        return self._map

    @property
    def own_limits(self) -> Limits | None:
        """Contrast limits that were set for the present choice, None if they are automatic."""
        return self._limits.get(self.color_by)

    @property
    def contrast_limits(self) -> Limits | None:
        """Values at the ends of the colormap, None if no number colors the lines; None sets automatic limits."""
        values = self.lines.numbers(self.color_by)
        return None if values is None else self.own_limits or self._automatic_limits(values)

    @contrast_limits.setter
    def contrast_limits(self, limits: Limits | None) -> None:
        if limits is None:
            self._limits.pop(self.color_by, None)
        elif self.lines.numbers(self.color_by) is not None:
            self._limits[self.color_by] = _checked(limits)
        self._recolor_tracks()

    def _automatic_limits(self, values: npt.NDArray[Any]) -> Limits:
        """Limits of numbers, which are looked for once: every legend asks for them at every change of a layer."""
        known, limits = self._known_limits
        if known is None or known() is not values:
            limits = limits_of(self.color_by, values)
            self._known_limits = weakref.ref(values), limits
        return limits

    @property
    def code_names(self) -> dict[int, str] | None:
        """What the values that color the lines mean, in ascending order, None if they are no codes."""
        values = self.lines.numbers(self.color_by)
        return None if values is None else code_names(self.color_by, values)

    @property
    def color_bar_limits(self) -> Limits | None:
        """Values at the ends of a color bar, None if no number colors the lines."""
        return self.contrast_limits

    def color_bar_image(self, height: int, width: int) -> npt.NDArray[np.uint8] | None:
        """Picture of the color bar, shape (height, width, 4), RGBA; None if no number colors the lines.

        The lower limit is at the bottom of an upright bar and at the left of a lying one.
        """
        if self.contrast_limits is None:
            return None
        row = np.round(255 * self._ramp(max(height, width))).astype(np.uint8)
        if height > width:
            return np.repeat(row[::-1, None], width, axis=1)
        return np.repeat(row[None], height, axis=0)

    @property
    def track_colors(self) -> npt.NDArray[np.float32]:
        """RGBA of each point, 0 to 1, shape (P, 4); a copy."""
        rgb = unpack_rgb(self.lines.vertices[:, 3]) / np.float32(255)
        return np.column_stack([rgb, np.ones(len(rgb), np.float32)])

    @property
    def paint(self) -> Paint:
        """How the lines are colored, for `pack_lines` in a worker thread."""
        if self.color_by == DIRECTION:
            return ByDirection(self.data_to_world_matrix()[0])
        if self.color_by == UNIFORM:
            return Uniform(self._rgb)
        return ByNumber(self.color_by, pack_rgb(self._ramp(_LUT_COLORS)), self.own_limits)

    def _keep_choice(self) -> None:
        """Color by direction if the lines do not have the number that was chosen (any more)."""
        if self._color_by not in self.color_choices:
            self._color_by = DIRECTION

    def _ramp(self, count: int) -> npt.NDArray[Any]:
        """RGBA of the colormap, from its lower to its upper end."""
        return np.asarray(self._map.map(np.linspace(0, 1, count)))

    def _paint(self) -> None:
        image = self._images.get(self._color_by)
        if image is not None and self.lines.numbers(self._color_by) is None:
            values = image.along(self.lines, *self.data_to_world_matrix())
            per_point = {**self.lines.per_point, self._color_by: values}
            self._manager.lines = self.lines.with_numbers(self.lines.per_fiber, per_point)
        self._manager.lines = painted(self.lines, self.paint)

    def _forget_samples(self) -> None:
        """Let images be sampled anew when they color the lines."""
        kept = {name: values for name, values in self.lines.per_point.items() if name not in self._images}
        if len(kept) < len(self.lines.per_point):
            self._manager.lines = self.lines.with_numbers(self.lines.per_fiber, kept)

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._paint()
            self.events.coloring()
            self.events.color_by()
            self._update_thumbnail()

    def _on_transform_change(self) -> None:
        self._forget_samples()
        if self.color_by == DIRECTION or self.color_by in self._images:
            self._recolor_tracks()

    def _on_translate(self) -> None:
        self._forget_samples()
        if self.color_by in self._images:
            self._recolor_tracks()


def line_image(layer: Any) -> LineImage:
    """Return what colors lines of an image layer; InvalidInput if it is not one volume of numbers."""
    if not is_line_image(layer):
        raise InvalidInput(f"{layer.name!r} cannot color fibers; give an image layer of one volume of numbers")
    unit = carried(layer, "unit")
    return LineImage(
        name=layer.name, array=volume_of(layer), affine=grid_of(layer)[0], unit=unit if isinstance(unit, str) else ""
    )


def is_line_image(layer: Any) -> bool:
    """Whether a layer is an image that can color lines: one volume, not in colors."""
    return isinstance(layer, Image) and layer.ndim == 3 and not layer.rgb and not layer.multiscale


def _choices(lines: Lines) -> list[str]:
    return [DIRECTION, UNIFORM, *lines.names]


def _choice_of(choice: str, lines: Lines) -> str:
    if choice not in _choices(lines):
        raise InvalidInput(f"color_by is {choice!r}; choose one of {', '.join(map(repr, _choices(lines)))}")
    return choice


def _rgb_of(color: Any) -> npt.NDArray[np.float32]:
    try:
        return np.asarray(transform_color(color), np.float32)[0, :3]
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InvalidInput(f"the color {color!r} is not one that napari knows; give a name or RGB") from error


def _colormap_of(colormap: Any) -> Any:
    try:
        return ensure_colormap(colormap)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"the colormap {colormap!r} is not one that napari knows") from error


def _checked(limits: Limits) -> Limits:
    low, high = (float(value) for value in limits)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidInput(f"contrast limits are {low:g} and {high:g}; the first must be smaller than the second")
    return low, high

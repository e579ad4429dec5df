"""The streamlines layer: 100,000 fibers as one napari layer.

It is a Tracks layer without time: its three axes are z, y, x, so that it shares the sliders of a volume. It has its own
drawing (`napari_gpubio.viewer.streamlines_visual`) and its own controls; where napari's internals have moved it falls
back to those of Tracks, which is slower but right.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from napari.layers import Tracks
from napari.utils.colormaps import ensure_colormap
from napari.utils.colormaps.standardize_color import transform_color
from napari.utils.events import Event

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.viewer.line_buffers import (
    Lines,
    automatic_limits,
    checked_table,
    nearest_line,
    pack_lines,
    pack_rgb,
    paint_direction,
    paint_values,
    ray_frame,
    unpack_rgb,
)
from napari_gpubio.viewer.streamlines_controls import register_controls
from napari_gpubio.viewer.streamlines_visual import register_visual

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]
DIRECTION, UNIFORM = "direction", "uniform"
_PICK_PIXELS = 4.0
_THUMBNAIL_POINTS = 4096
_EVERYTHING = 10**6  # longer than any head or tail


class Streamlines(Tracks):
    """Many polylines in space, coloured, filtered and picked at once.

    Parameters
    ----------
    points
        Shape (P, 3), float32, layer axes z, y, x, one line behind the other.
    offsets
        Shape (F + 1,), int64; fiber ``f`` is ``points[offsets[f]:offsets[f + 1]]``.
    per_fiber, per_point
        Named numbers, shape (F,) and (P,), to colour by; a name may occur only once.
    color_by
        ``'direction'``, ``'uniform'`` or one of the names.
    color
        Any napari colour, for ``'uniform'``.
    colormap
        Any napari colormap, for numbers.
    contrast_limits
        Values at the ends of the colormap; by default the 2nd and the 98th percentile.
    slab_mm
        In 2-D, show what lies within this distance on either side of the slice, fading; 0 shows everything.
    line_width
        Pixels, as far as the graphics driver draws lines wider than 1.
    blending, name, **layer_options
        As for every napari layer: ``affine``, ``opacity``, ``units``, ``metadata``, ...

    Attributes
    ----------
    events.shown, events.slab_mm, events.streamlines
        The filter, the slab, or the lines themselves have changed.
    events.coloring
        Anything that a colour bar shows has changed.
    events.picked
        Another fiber is selected: ``event.fiber``, an index or None.

    Raises
    ------
    InvalidInput
        If the arrays do not fit each other.
    """

    _type_string = "tracks"
    _ready = False  # Tracks.__init__ sets data, colours and features of a placeholder: those are passed over

    def __init__(  # noqa: PLR0913 - the display settings of a layer
        self,
        points: npt.ArrayLike,
        offsets: npt.ArrayLike,
        *,
        per_fiber: Mapping[str, npt.ArrayLike] | None = None,
        per_point: Mapping[str, npt.ArrayLike] | None = None,
        color_by: str = DIRECTION,
        color: Any = "white",
        colormap: Any = "viridis",
        contrast_limits: tuple[float, float] | None = None,
        slab_mm: float = 5.0,
        line_width: float = 1.0,
        blending: str = "translucent",
        name: str = "Streamlines",
        **layer_options: Any,
    ) -> None:
        lines = pack_lines(points, offsets)
        tables = _checked_tables(lines, per_fiber, per_point)
        super().__init__(np.zeros((2, 4)), blending=blending, name=name, tail_width=line_width, **layer_options)
        self.events.add(streamlines=Event, shown=Event, coloring=Event, picked=Event, slab_mm=Event)
        self._selected_fiber: int | None = None
        self._limits: dict[str, tuple[float, float]] = {}
        self._color = _rgb_of(color)
        self._colormap_object = _colormap_of(colormap)
        self._use(lines, tables)
        self._color_by = self._checked_choice(color_by)
        self._ready = True
        if contrast_limits is not None and self._values() is not None:
            self._limits[color_by] = _checked_limits(contrast_limits)
        self.slab_mm = slab_mm
        self._recolor_tracks()
        self._clear_extent()
        self._update_thumbnail()
        for event in (self.events.affine, self.events.scale, self.events.rotate, self.events.shear):
            event.connect(self._on_transform_change)

    # ------------------------------------------------------------------------------------------- the lines

    @property
    def lines(self) -> Lines:
        """The lines as the graphics card has them."""
        return self._manager.lines

    @property
    def points(self) -> npt.NDArray[np.float32]:
        """Points in layer axes z, y, x, shape (P, 3); a view, not to be written to."""
        return self.lines.points

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each fiber starts in `points`, and the number of points; shape (F + 1,)."""
        return self.lines.offsets

    @property
    def per_fiber(self) -> Mapping[str, Array]:
        """Named numbers of each fiber, shape (F,)."""
        return MappingProxyType(self._tables[0])

    @property
    def per_point(self) -> Mapping[str, Array]:
        """Named numbers of each point, shape (P,)."""
        return MappingProxyType(self._tables[1])

    def set_streamlines(
        self,
        points: npt.ArrayLike,
        offsets: npt.ArrayLike,
        per_fiber: Mapping[str, npt.ArrayLike] | None = None,
        per_point: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """Replace all lines and numbers; all are shown, none is selected, the display settings stay.

        If the name that colours the lines is gone, they are coloured by direction. Parameters and errors as for the
        layer itself.
        """
        lines = pack_lines(points, offsets)
        tables = _checked_tables(lines, per_fiber, per_point)
        choices = self.color_choices
        self._use(lines, tables)
        if self._color_by not in self.color_choices:
            self._color_by = DIRECTION
        self._paint()
        self.events.streamlines()
        self.events.rebuild_tracks()
        if self.color_choices != choices:
            self.events.properties()
        self.events.coloring()
        self.select_fiber(None)
        self.refresh()
        self.events.data(value=self.points)

    @property
    def data(self) -> npt.NDArray[np.float32]:
        """Points in layer axes z, y, x, shape (P, 3); as many others can be set, to bend the lines.

        Ordinary Tracks have (fiber, time, z, y, x) here: `as_layer_data_tuple` gives that. napari reads this property
        too often for anything that has to be computed.
        """
        return self._manager.data

    @data.setter
    def data(self, points: npt.ArrayLike) -> None:
        if self._ready:
            self.set_streamlines(points, self.offsets, self.per_fiber, self.per_point)

    @property
    def features(self) -> "pd.DataFrame":
        """Table of the numbers of each fiber, one row for each."""
        import pandas as pd

        return pd.DataFrame(self._tables[0] if self._ready else {})

    @features.setter
    def features(self, table: Any) -> None:
        if not self._ready:
            return
        per_fiber = {str(name): np.asarray(table[name]) for name in table}
        self._tables = _checked_tables(self.lines, per_fiber, self.per_point)
        self.events.properties()
        self.color_by = self._color_by if self._color_by in self.color_choices else DIRECTION

    def _use(self, lines: Lines, tables: tuple[dict[str, Array], dict[str, Array]]) -> None:
        self._manager = _TracksView(lines)
        self._tables = tables

    # ----------------------------------------------------------------------------------- what is shown of them

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Fibers that are drawn and can be picked, shape (F,), not to be written to; None shows all."""
        shown = self.lines.shown.view()
        shown.flags.writeable = False
        return shown

    @shown.setter
    def shown(self, shown: npt.ArrayLike | None) -> None:
        count = len(self.lines)
        mask = np.ones(count, bool) if shown is None else np.array(shown)
        if mask.shape != (count,) or mask.dtype != bool:
            raise InvalidInput(
                f"shown has shape {mask.shape} and type {mask.dtype}; give one boolean for each of {count} fibers"
            )
        self._manager.lines = dataclasses.replace(self.lines, shown=mask)
        self.events.shown()
        self.events.rebuild_tracks()

    @property
    def slab_mm(self) -> float:
        """Half thickness of what a 2-D slice shows, in world units (mm); 0 shows everything."""
        return self._slab_mm

    @slab_mm.setter
    def slab_mm(self, slab_mm: float) -> None:
        if not 0 <= slab_mm < np.inf:
            raise InvalidInput(f"slab_mm is {slab_mm}; give 0 mm or more")
        self._slab_mm = float(slab_mm)
        # the Tracks visual, if it has to stand in, does the same with head and tail, along the first axis
        step = np.linalg.norm(self.data_to_world_matrix()[0][:, 0])
        self.head_length = self.tail_length = int(np.ceil(slab_mm / step)) if slab_mm else _EVERYTHING
        self.events.slab_mm()

    @property
    def line_width(self) -> float:
        """Width in pixels, 0.5 to 20, as far as the graphics driver draws lines wider than 1."""
        return float(self.tail_width)

    @line_width.setter
    def line_width(self, width: float) -> None:
        self.tail_width = width

    # --------------------------------------------------------------------------------------------- colours

    @property
    def color_choices(self) -> list[str]:
        """What `color_by` can be."""
        return [DIRECTION, UNIFORM, *self._tables[0], *self._tables[1]]

    @property
    def properties_to_color_by(self) -> list[str]:
        """Same as `color_choices`; napari's own controls ask for it."""
        return self.color_choices if self._ready else ["track_id"]

    @property
    def color_by(self) -> str:
        """What colours the lines: ``'direction'``, ``'uniform'``, or the name of a number."""
        return self._color_by

    @color_by.setter
    def color_by(self, choice: str) -> None:
        if self._ready:
            self._color_by = self._checked_choice(choice)
            self._recolor_tracks()

    @property
    def color(self) -> npt.NDArray[np.float32]:
        """Colour for ``'uniform'``, RGB from 0 to 1; any napari colour can be set."""
        return self._color

    @color.setter
    def color(self, color: Any) -> None:
        self._color = _rgb_of(color)
        self._recolor_tracks()

    @property
    def colormap(self) -> str:
        """Name of the colormap for numbers; any napari colormap can be set."""
        return self._colormap_object.name if self._ready else self._colormap

    @colormap.setter
    def colormap(self, colormap: Any) -> None:
        if self._ready:
            self._colormap_object = _colormap_of(colormap)
            self._recolor_tracks()
            self.events.colormap()

    @property
    def contrast_limits(self) -> tuple[float, float] | None:
        """Values at the ends of the colormap, None if no number colours the lines; None sets automatic limits."""
        values = self._values()
        if values is None:
            return None
        return self._limits.get(self._color_by) or automatic_limits(values)

    @contrast_limits.setter
    def contrast_limits(self, limits: tuple[float, float] | None) -> None:
        if limits is None:
            self._limits.pop(self._color_by, None)
        elif self._values() is not None:
            self._limits[self._color_by] = _checked_limits(limits)
        self._recolor_tracks()

    @property
    def color_bar_limits(self) -> tuple[float, float] | None:
        """Values at the ends of a colour bar, None if no number colours the lines."""
        return self.contrast_limits

    def color_bar_image(self, height: int, width: int) -> npt.NDArray[np.uint8] | None:
        """Picture of the colour bar, shape (height, width, 4), RGBA; None if no number colours the lines.

        The lower limit is at the bottom of an upright bar and at the left of a lying one.
        """
        if self._values() is None:
            return None
        row = self._colormap_object.map(np.linspace(0, 1, max(height, width)))
        row = np.round(255 * np.asarray(row)).astype(np.uint8)
        if height > width:
            return np.repeat(row[::-1, None], width, axis=1)
        return np.repeat(row[None], height, axis=0)

    @property
    def track_colors(self) -> npt.NDArray[np.float32]:
        """RGBA of each point, 0 to 1, shape (P, 4); a copy."""
        rgb = unpack_rgb(self.lines.vertices[:, 3]) / np.float32(255)
        return np.column_stack([rgb, np.ones(len(rgb), np.float32)])

    def _checked_choice(self, choice: str) -> str:
        if choice not in self.color_choices:
            raise InvalidInput(f"color_by is {choice!r}; choose one of {', '.join(map(repr, self.color_choices))}")
        return choice

    def _values(self) -> Array | None:
        """Return the numbers that colour the lines, or None."""
        per_fiber, per_point = self._tables
        return per_fiber.get(self._color_by, per_point.get(self._color_by))

    def _paint(self) -> None:
        if self._color_by == DIRECTION:
            paint_direction(self.lines, self.data_to_world_matrix()[0])
        elif self._color_by == UNIFORM:
            self.lines.vertices[:, 3] = pack_rgb(self._color)
        else:
            lut = pack_rgb(self._colormap_object.map(np.linspace(0, 1, 256)))
            paint_values(self.lines, self._values(), lut, self.contrast_limits)

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._paint()
            self.events.coloring()
            self.events.color_by()
            self._update_thumbnail()

    def _on_transform_change(self) -> None:
        if self._color_by == DIRECTION:
            self._recolor_tracks()

    # --------------------------------------------------------------------------------------------- picking

    @property
    def selected_fiber(self) -> int | None:
        """Index of the fiber that is drawn in white over the others, or None."""
        return self._selected_fiber

    def select_fiber(self, index: int | None) -> None:
        """Draw one fiber in white over the others, or none; sends ``events.picked`` if that changes anything.

        Raises
        ------
        InvalidInput
            If there is no such fiber.
        """
        if index is not None and not 0 <= index < len(self.lines):
            raise InvalidInput(f"there is no fiber {index}; the layer has {len(self.lines)}, counted from 0")
        if index != self._selected_fiber:
            self._selected_fiber = None if index is None else int(index)
            self.events.picked(fiber=self._selected_fiber)

    def pick(
        self,
        position: npt.ArrayLike,
        view_direction: npt.ArrayLike | None = None,
        dims_displayed: list[int] | None = None,
        tolerance_mm: float | None = None,
    ) -> int | None:
        """Find the shown fiber under a click, or None; the arguments are those of a napari mouse event.

        Parameters
        ----------
        position
            World position, (..., z, y, x).
        view_direction
            World direction of the view; None in 2-D.
        dims_displayed
            World axes on the canvas; by default those in which the layer is shown.
        tolerance_mm
            Largest distance from the click or its ray, world units; by default 4 pixels.
        """
        position = np.asarray(position, np.float64)
        shown_axes = self._slice_input.displayed
        if dims_displayed is not None:
            shown_axes = [axis - max(len(position) - 3, 0) for axis in dims_displayed]
        if view_direction is not None:
            direction, half_slab = np.asarray(view_direction, np.float64)[-3:], np.inf
        else:
            hidden = [axis for axis in range(3) if axis not in shown_axes]
            if len(hidden) != 1:
                return None
            direction, half_slab = np.eye(3)[hidden[0]], self.slab_mm or np.inf
        if not np.linalg.norm(direction):
            return None
        frame = ray_frame(*self.data_to_world_matrix(), position[-3:], direction)
        tolerance = _PICK_PIXELS * self.scale_factor if tolerance_mm is None else tolerance_mm
        return nearest_line(self.lines, frame, tolerance, half_slab, in_slice=view_direction is None)

    def _get_value(self, position: npt.ArrayLike) -> int | None:
        return self.pick(self.data_to_world(position))

    def _get_value_3d(
        self,
        start_point: npt.ArrayLike | None,
        end_point: npt.ArrayLike | None,
        dims_displayed: list[int],
    ) -> int | None:
        if start_point is None or end_point is None:
            return None
        start, end = np.array(self.data_to_world(start_point)), np.array(self.data_to_world(end_point))
        return self.pick(start, end - start, dims_displayed)

    # ------------------------------------------------------------------------------- what napari asks of a layer

    def data_to_world_matrix(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the 3 x 3 map from data to world and the translation, layer axes z, y, x."""
        origin = np.array(self.data_to_world((0.0, 0.0, 0.0)))
        return np.column_stack([self.data_to_world(unit) - origin for unit in np.eye(3)]), origin

    def as_layer_data_tuple(self) -> tuple[Array, dict[str, Any], str]:
        """Return data, settings and type from which napari makes an ordinary Tracks layer that looks alike.

        The data have shape (P, 5): fiber, time, z, y, x. Streamlines have no time: it is 0 for every point. Tracks
        cannot be empty: if there is no line, they get one of a single point. `from_layer_data` undoes both.
        """
        linear, translate = self.data_to_world_matrix()
        affine = np.eye(5)
        affine[1:4, 1:4], affine[1:4, 4] = linear, translate
        by_point = {name: np.repeat(values, self.lines.counts) for name, values in self.per_fiber.items()}
        by_point.update(self.per_point)
        state = {
            **self._get_base_state(),
            "affine": affine,
            "axis_labels": ("t", *self.axis_labels),
            "units": ("pixel", *self.units),
            "metadata": {**self.metadata, "streamlines": self._settings()},
            "properties": by_point,
            "color_by": self._color_by if self._values() is not None else "track_id",
            "colormap": self.colormap,
            "tail_width": self.tail_width,
        }
        for part in ("scale", "translate", "rotate", "shear"):
            del state[part]
        tracks = np.zeros((len(self.points), 5))
        tracks[:, 0] = np.repeat(np.arange(len(self.lines)), self.lines.counts)
        tracks[:, 2:] = self.points
        if not len(tracks):
            tracks = np.zeros((1, 5))
            state["properties"] = {name: np.zeros(1) for name in by_point}
        return tracks, state, self._type_string

    @classmethod
    def from_layer_data(cls, data: npt.ArrayLike, state: Mapping[str, Any]) -> "Streamlines":
        """Make a layer from what `as_layer_data_tuple` returned, or from the Tracks layer that napari made of it.

        Raises
        ------
        InvalidInput
            If the data did not come from a streamlines layer.
        """
        metadata = dict(state.get("metadata", {}))
        settings = dict(metadata.pop("streamlines", {}))
        offsets = settings.pop("offsets", np.zeros(0, np.int64))
        if not len(offsets) or len(data) < offsets[-1]:
            raise InvalidInput("these tracks were not made from streamlines; give points and offsets instead")
        columns = {name: np.asarray(values)[: offsets[-1]] for name, values in state["properties"].items()}
        return cls(
            np.asarray(data)[: offsets[-1], -3:],
            offsets,
            per_point={name: columns[name] for name in settings.pop("per_point")},
            affine=np.asarray(state["affine"])[-4:, -4:],
            metadata=metadata,
            **settings,
            **{key: state[key] for key in ("name", "opacity", "blending", "visible")},
            **{key: state[key][-3:] for key in ("axis_labels", "units")},
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "offsets": self.offsets,
            "per_fiber": dict(self.per_fiber),
            "per_point": list(self.per_point),
            "color_by": self._color_by,
            "color": self._color.tolist(),
            "colormap": self.colormap,
            "contrast_limits": self._limits.get(self._color_by),
            "slab_mm": self._slab_mm,
            "line_width": self.line_width,
        }

    @property
    def _extent_data(self) -> npt.NDArray[np.float64]:
        return self.lines.extent if self._ready else np.zeros((2, 3))

    def _update_thumbnail(self) -> None:
        if self._ready:
            self.thumbnail = _thumbnail(self.lines, self._slice_input.displayed[-2:], self._thumbnail_shape)


class _TracksView:
    """What `Tracks` and its visual ask of their track manager, answered from `Lines`."""

    graph: Mapping[int, list[int]] | None = None
    graph_vertices = graph_connex = graph_times = None
    hide_completed_tracks = False
    current_time: float | None = None
    max_time = 0
    ndim = 3

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.graph = {}

    @property
    def data(self) -> npt.NDArray[np.float32]:
        return self.lines.points

    @property
    def properties(self) -> dict[str, Array]:
        return {}

    @property
    def track_vertices(self) -> npt.NDArray[np.float32]:
        return self.lines.points

    @property
    def track_times(self) -> npt.NDArray[np.float32]:
        return self.lines.vertices[:, 2]

    @property
    def track_connex(self) -> npt.NDArray[np.bool_]:
        connected = np.repeat(self.lines.shown, self.lines.counts)
        connected[self.lines.offsets[1:][self.lines.counts > 0] - 1] = False
        return connected

    def track_labels(self, _time: float) -> tuple[None, None]:
        return None, None

    def build_graph(self) -> None:
        pass


def _checked_tables(
    lines: Lines,
    per_fiber: Mapping[str, npt.ArrayLike] | None,
    per_point: Mapping[str, npt.ArrayLike] | None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    tables = (
        checked_table(per_fiber, len(lines), "fiber"),
        checked_table(per_point, len(lines.vertices), "point"),
    )
    names = [DIRECTION, UNIFORM, *tables[0], *tables[1]]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InvalidInput(f"the name {twice[0]!r} is taken; give every number of the streamlines its own name")
    return tables


def _checked_limits(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(value) for value in limits)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidInput(f"contrast limits are {low:g} and {high:g}; the first must be smaller than the second")
    return low, high


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


def _thumbnail(lines: Lines, axes: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Picture of evenly spaced points, projected on two layer axes."""
    picture = np.zeros(shape, np.uint8)
    picture[..., 3] = 255
    some = lines.vertices[:: max(1, len(lines.vertices) // _THUMBNAIL_POINTS)]
    if len(some):
        low, high = lines.extent[:, axes]
        scale = (min(shape[:2]) - 1) / max(float((high - low).max()), 1e-6)
        row, column = ((some[:, 2::-1][:, axes] - low) * scale).astype(np.intp).T
        picture[row, column, :3] = unpack_rgb(some[:, 3])
    return picture


register_visual()
register_controls()

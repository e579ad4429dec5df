"""The streamlines layer: 100,000 fibers as one napari layer.

It is a Tracks layer without time: its three axes are z, y, x, so that it shares the sliders of a volume. It has its own
drawing and its own controls; where napari's internals have moved it falls back to those of Tracks, which is slower but
right. The numbers behind it are `napari_gpubio.gui.lines`.
"""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from napari.layers import Tracks
from napari.utils.events import Event

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM
from napari_gpubio.gui.lines import DIRECTION, Lines, pack_lines
from napari_gpubio.gui.lines.packed import thumbnail
from napari_gpubio.gui.lines.paint import AUTO, STYLES
from napari_gpubio.gui.streamlines.coloring import ColoredLayer
from napari_gpubio.gui.streamlines.legends import add_legends
from napari_gpubio.gui.streamlines.picked_layer import PickedLayer
from napari_gpubio.gui.streamlines.tracks_view import TracksView, streamlines_of, tracks_of

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]
Numbers = Mapping[str, npt.ArrayLike]


class Filter(Protocol):
    """Tells which fibers are shown by their numbers, so that it holds for other fibers, too."""

    def passes(self, per_fiber: Mapping[str, Array], /) -> npt.NDArray[np.bool_] | None:
        """Which fibers pass, shape (F,); None if all do."""


SHOWN, ALL = SAVED = ("shown", "all")  # which fibers a file gets
_EVERYTHING = 10**6  # longer than any head or tail


class Streamlines(ColoredLayer, PickedLayer, Tracks):
    """Many polylines in space, colored, filtered and picked at once.

    Parameters
    ----------
    points
        Shape (P, 3), float32, layer axes z, y, x, one line behind the other.
    offsets
        Shape (F + 1,), int64; fiber ``f`` is ``points[offsets[f]:offsets[f + 1]]``.
    lines
        Instead of points, offsets and numbers: what `napari_gpubio.gui.lines.pack_lines` made of them, in a worker
        thread if there are many. They are the layer's from now on, which paints them in place.
    per_fiber, per_point
        Named numbers, shape (F,) and (P,), to color by; a name may occur only once.
    color_by
        ``'direction'``, ``'uniform'`` or one of the names.
    color
        Any napari color, for ``'uniform'``.
    colormap
        Any napari colormap, for numbers.
    contrast_limits
        Values at the ends of the colormap; by default the 2nd and the 98th percentile.
    slab_mm
        In 2-D, show what lies within this distance on either side of the slice, fading; 0 shows everything.
    slider_step
        How far one tick of the viewer's sliders should go, shape (3,), world units; by default one data unit. Give the
        distance between slices of the volume that the lines belong to.
    line_width
        Pixels: of lines as far as the graphics driver draws them wider than 1, of tubes 3 or more.
    line_style
        In 3-D: ``'lines'`` (flat), ``'lit'`` (lines that are shaded), ``'tubes'`` (shaded, with a dark rim), or
        ``'auto'``: tubes up to 20,000 shown fibers, lit lines beyond. Lit lines take the place of tubes where the
        driver has no geometry shaders, and while clipping planes cut the layer.
    legend
        Show a color bar, or a sphere with the colors of directions, in a corner of the canvas.
    saves
        What files get: ``'shown'`` fibers or ``'all'``.
    blending, name, **layer_options
        As for every napari layer: ``affine``, ``opacity``, ``metadata``, ...; ``units`` are mm if none are given.

    Attributes
    ----------
    events.shown, events.slab_mm, events.line_style, events.legend, events.saves, events.streamlines
        The filter, the slab, the style, the legend, what is saved, or the lines themselves have changed.
    events.coloring
        Anything that a color bar shows has changed.
    events.picked
        Another fiber is selected: ``event.fiber``, an index or None.

    Raises
    ------
    InvalidInput
        If the arrays do not fit each other.
    """

    _type_string = "tracks"
    _ready = False  # Tracks.__init__ sets data, colors and features of a placeholder: those are passed over

    def __init__(  # noqa: PLR0913 - the display settings of a layer
        self,
        points: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        *,
        lines: Lines | None = None,
        per_fiber: Numbers | None = None,
        per_point: Numbers | None = None,
        color_by: str = DIRECTION,
        color: Any = "white",
        colormap: Any = "viridis",
        contrast_limits: tuple[float, float] | None = None,
        slab_mm: float = 5.0,
        slider_step: npt.ArrayLike | None = None,
        line_width: float = 1.0,
        line_style: str = AUTO,
        legend: bool = True,
        saves: str = SHOWN,
        blending: str = "translucent",
        name: str = "Streamlines",
        **layer_options: Any,
    ) -> None:
        lines = _lines_of(lines, points, offsets, per_fiber, per_point)
        layer_options = {**IN_MM, **layer_options}
        super().__init__(np.zeros((2, 4)), blending=blending, name=name, tail_width=line_width, **layer_options)
        names = ("streamlines", "shown", "coloring", "picked", "slab_mm", "line_style", "legend", "saves")
        self.events.add(**dict.fromkeys(names, Event))
        self._begin_coloring(color, colormap, color_by, contrast_limits, lines)
        self._manager, self._filters = TracksView(lines), _filters_in(lines)
        self._slider_step = None if slider_step is None else np.asarray(slider_step, np.float64)
        self._ready = True
        self.slab_mm, self.line_style, self.saves, self._legend = slab_mm, line_style, saves, legend
        add_legends(self)
        self._recolor_tracks()
        self._clear_extent()
        for event in (self.events.affine, self.events.scale, self.events.rotate, self.events.shear):
            event.connect(self._on_transform_change)
        self.events.translate.connect(self._on_translate)

    # ------------------------------------------------------------------------------------------- the lines

    @property
    def lines(self) -> Lines:
        """The lines as the graphics card has them."""
        return self._manager.lines

    @functools.cached_property
    def extent(self) -> Any:
        """Bounds in data and world, and the step that the viewer's sliders should make."""
        own = super().extent
        return own if self._slider_step is None else own._replace(step=self._slider_step)

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
        return MappingProxyType(self.lines.per_fiber)

    @property
    def per_point(self) -> Mapping[str, Array]:
        """Named numbers of each point, shape (P,)."""
        return MappingProxyType(self.lines.per_point)

    def set_streamlines(
        self,
        points: npt.ArrayLike,
        offsets: npt.ArrayLike,
        per_fiber: Numbers | None = None,
        per_point: Numbers | None = None,
    ) -> None:
        """Replace all lines and numbers; none is selected, the display settings stay, and of `filters` the rules.

        If the name that colors the lines is gone, they are colored by direction. Parameters and errors as for the
        layer itself. This packs the lines where it is called; `set_lines` takes what a worker has packed.
        """
        self.set_lines(pack_lines(points, offsets, per_fiber=per_fiber, per_point=per_point))

    def set_lines(self, lines: Lines) -> None:
        """Replace all lines and numbers by packed ones; none is selected, the display settings stay.

        Of the `filters` those stay that are rules, which hold for the new lines; masks were of the old ones.

        Parameters
        ----------
        lines
            What `napari_gpubio.gui.lines.pack_lines` made, best in a worker thread with ``paint=layer.paint``,
            which leaves nothing to compute here. They are the layer's from now on, which paints them in place.
        """
        choices, selected = self.color_choices, self._selected_fiber
        rules = {name: one for name, one in self._filters.items() if hasattr(one, "passes")}
        self._filters = rules | _filters_in(lines)
        passed = self._passed(lines)
        self._manager = TracksView(lines if np.array_equal(passed, lines.shown) else lines.with_shown(passed))
        self._selected_fiber = None  # before any event about the new lines, which may be fewer
        self._keep_choice()
        self._paint()
        self.events.streamlines()
        self.events.rebuild_tracks()
        if self.color_choices != choices:
            self.events.properties()
        self.events.coloring()
        if selected is not None:
            self.events.picked(fiber=None)
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

        return pd.DataFrame(dict(self.per_fiber) if self._ready else {})

    @features.setter
    def features(self, table: Any) -> None:
        if not self._ready:
            return
        per_fiber = {str(name): np.asarray(table[name]) for name in table}
        self._manager.lines = self.lines.with_numbers(per_fiber, self.per_point)
        self.events.properties()
        self._keep_choice()
        self._recolor_tracks()

    # ----------------------------------------------------------------------------------- what is shown of them

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Fibers that pass all `filters`: drawn, picked, counted and saved; shape (F,), not to be written to.

        Set it to show exactly these, instead of what any filter says; None shows all.
        """
        shown = self.lines.shown.view()
        shown.flags.writeable = False
        return shown

    @shown.setter
    def shown(self, shown: npt.ArrayLike | None) -> None:
        self.filters = {} if shown is None else {"": shown}

    @property
    def filters(self) -> Mapping[str, npt.ArrayLike | Filter]:
        """What hides fibers, by the name of who set it: a mask of shape (F,), or a rule (`Filter`).

        Set one with `set_filter`, or all of them.
        """
        return MappingProxyType(dict(self._filters))

    @filters.setter
    def filters(self, filters: Mapping[str, npt.ArrayLike | Filter]) -> None:
        before, self._filters = self._filters, dict(filters)
        try:
            self._manager.lines = self.lines.with_shown(self._passed(self.lines))
        except InvalidInput:
            self._filters = before
            raise
        self.events.shown()
        self.events.rebuild_tracks()

    def set_filter(self, name: str, chosen: npt.ArrayLike | Filter | None) -> None:
        """Let one filter hide other fibers, whatever the others hide; None removes it."""
        others = {other: one for other, one in self._filters.items() if other != name}
        self.filters = others if chosen is None else {**others, name: chosen}

    def passing(self, *, but: str | None = None) -> npt.NDArray[np.bool_]:
        """Which fibers pass all filters, shape (F,), whatever the one of the name ``but`` says."""
        return self._passed(self.lines, but)

    def _passed(self, lines: Lines, but: str | None = None) -> npt.NDArray[np.bool_]:
        passing = np.ones(len(lines), bool)
        for name, one in self._filters.items():
            mask = one.passes(lines.per_fiber) if hasattr(one, "passes") else one
            if name != but and mask is not None:
                passing &= lines.with_shown(mask).shown
        return passing

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

    @property
    def line_style(self) -> str:
        """How lines are drawn in 3-D: ``'auto'``, ``'lines'``, ``'lit'`` or ``'tubes'``."""
        return self._line_style

    @line_style.setter
    def line_style(self, style: str) -> None:
        if style not in STYLES:
            raise InvalidInput(f"line_style is {style!r}; choose one of {', '.join(STYLES)}")
        self._line_style = style
        self.events.line_style()

    @property
    def legend(self) -> bool:
        """Whether the canvas shows what the colors mean: a color bar, or a sphere for directions."""
        return self._legend

    @legend.setter
    def legend(self, legend: bool) -> None:
        self._legend = bool(legend)
        self.events.legend()

    @property
    def saves(self) -> str:
        """What files get, by File > Save as well as from a panel: ``'shown'`` fibers or ``'all'``."""
        return self._saves

    @saves.setter
    def saves(self, saves: str) -> None:
        if saves not in SAVED:
            raise InvalidInput(f"saves is {saves!r}; choose one of {', '.join(SAVED)}")
        self._saves = saves
        self.events.saves()

    # ------------------------------------------------------------------------------- what napari needs of a layer

    def data_to_world_matrix(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the 3 x 3 map from data to world and the translation, layer axes z, y, x."""
        origin = np.array(self.data_to_world((0.0, 0.0, 0.0)))
        return np.column_stack([self.data_to_world(unit) - origin for unit in np.eye(3)]), origin

    def as_layer_data_tuple(self) -> tuple[Array, dict[str, Any], str]:
        """Return data, settings and type from which napari makes an ordinary Tracks layer that looks alike.

        The data have shape (P, 5): fiber, time, z, y, x. Streamlines have no time: it is 0 for every point. Tracks
        cannot be empty: if there is no line, they get one of a single point. `from_layer_data` undoes both.
        """
        return tracks_of(self)

    @classmethod
    def from_layer_data(cls, data: npt.ArrayLike, state: Mapping[str, Any]) -> "Streamlines":
        """Make a layer from what `as_layer_data_tuple` returned, or from the Tracks layer that napari made of it.

        Raises
        ------
        InvalidInput
            If the data did not come from a streamlines layer.
        """
        made: Streamlines = streamlines_of(cls, data, state)
        return made

    @property
    def _extent_data(self) -> npt.NDArray[np.float64]:
        return self.lines.extent if self._ready else np.zeros((2, 3))

    def _update_thumbnail(self) -> None:
        if self._ready:
            self.thumbnail = thumbnail(self.lines, self._slice_input.displayed[-2:], self._thumbnail_shape)


def _filters_in(lines: Lines) -> dict[str, npt.ArrayLike | Filter]:
    """What hides lines that were packed with some of them hidden."""
    return {} if lines.shown.all() else {"": lines.shown}


def _lines_of(
    lines: Lines | None,
    points: npt.ArrayLike | None,
    offsets: npt.ArrayLike | None,
    per_fiber: Numbers | None,
    per_point: Numbers | None,
) -> Lines:
    parts = (points, offsets, per_fiber, per_point)
    if lines is not None and any(part is not None for part in parts):
        raise InvalidInput("packed lines hold points, offsets and numbers; give either those or the lines, not both")
    if lines is not None:
        return lines
    if points is None or offsets is None:
        raise InvalidInput("there are no streamlines; give points and offsets, or packed lines")
    return pack_lines(points, offsets, per_fiber=per_fiber, per_point=per_point)

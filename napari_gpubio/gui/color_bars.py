"""The color bar of a layer on the canvas: what its colors mean, with the unit, between the layer's contrast limits.

Layers share legends, so that they do not cover the picture. Of the images of a viewer one has a bar: the active one,
or else the topmost, unless another image covers it. Fibers whose colors mean the same have one bar or sphere together.
Where a canvas has no room for all legends, that of the active layer comes first, and how many more there are below it.
"""

import dataclasses
import textwrap
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from napari.components.overlays import ColorBarOverlay
from napari.layers import Image

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.quantity import power_of_ten, quantity_of
from napari_gpubio.gui.connections import Connection, Connections
from napari_gpubio.gui.overlays import can_draw

_NAPARI_COLOR_BAR = "colorbar"
_OWN_EVENTS = ("coloring", "color_by", "legend", "visible", "name")
_COVERING_EVENTS = ("visible", "opacity", "blending", "colormap")
_SEEN_THROUGH = ("additive", "minimum", "multiplicative")
_TITLE_LINE_CHARACTERS = 22
_ROOM_BESIDE = 40  # pixels that a row of legends leaves free, for a letter
SCALE_BAR = (170, 60)  # pixels that napari's scale bar takes at most in the lower right corner
_ROOM_BELOW = SCALE_BAR[1] + 24  # pixels that legends leave free, for the scale bar and a letter
_MORE = (70, 16)  # pixels that the number of other legends takes
_ROW, _COLUMN = "horizontal", "vertical"
_NEAR = 0.08  # of a limit, as a share of the bar: no other label has room there


class TitledColorBarOverlay(ColorBarOverlay):
    """A color bar with a title above it, small, on a box that keeps it legible over a bright image."""

    size: tuple[float, float] = (16, 120)
    font_size: float = 8.0
    title_size: float = 9.0
    box: bool = True


def color_title(layer: Any) -> str:
    """What the colors of a layer mean, with the unit; the layer's name where that is not known."""
    return _known_title(layer) or str(layer.name)


def add_color_bar(layer: Any) -> None:
    """Give an image a titled color bar in the place of napari's, shown at once if it is known what its numbers mean."""
    bar = layer._overlays[_NAPARI_COLOR_BAR]
    if not layer.rgb and not isinstance(bar, TitledColorBarOverlay) and can_draw("color bars", titled_bar_visuals):
        is_wanted = bar.visible or bool(_known_title(layer))
        layer._overlays[_NAPARI_COLOR_BAR] = TitledColorBarOverlay(visible=is_wanted and layer.visible)
        if is_wanted and not layer.visible:
            layer.events.visible.connect(_show_color_bar)


def _show_color_bar(event: Any) -> None:
    """Show the bar of a layer that was hidden so far: to make one takes napari a moment."""
    layer = event.source
    layer.events.visible.disconnect(_show_color_bar)
    layer._overlays[_NAPARI_COLOR_BAR].visible = True


def _known_title(layer: Any) -> str:
    own = getattr(layer, "color_title", None) or carried(layer, "title")
    quantity = quantity_of(layer)
    if own or quantity is None:
        return str(own or "")
    return dataclasses.replace(quantity, scale="linear").text  # the ticks of a logarithm are powers of ten


def _code_names(layer: Any) -> dict[int, str]:
    return getattr(layer, "code_names", None) or {}


def _is_log(layer: Any) -> bool:
    quantity = quantity_of(layer)
    return quantity is not None and quantity.is_log


def _is_covered(layer: Any, viewer: Any) -> bool:
    """Whether an opaque image lies above an image that is not the active one."""
    order = list(viewer.layers)
    if not isinstance(layer, Image) or layer is viewer.layers.selection.active or viewer.canvas.grid.enabled:
        return False
    return any(_is_opaque(above) for above in order[order.index(layer) + 1 :])


def _is_opaque(layer: Any) -> bool:
    if not isinstance(layer, Image) or not layer.visible or layer.opacity < 1 or layer.blending in _SEEN_THROUGH:
        return False
    return bool(layer.rgb or np.min(layer.colormap.colors[:, 3]) == 1)


class _Legends:
    """The legends of a viewer, which decide anew which of them are drawn when something about its layers changes."""

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self.every: list[SharedLegend] = []
        self._of_layers = Connections(self._layer_pairs, self.refresh)
        self._of_viewer = Connections(self._viewer_pairs, self._of_layers.attach)

    def add(self, legend: "SharedLegend") -> None:
        """Follow the viewer, from the first legend on."""
        self.every.append(legend)
        (self._of_viewer if len(self.every) == 1 else self._of_layers).attach()

    def remove(self, legend: "SharedLegend") -> None:
        """Follow nothing any more when the last legend has gone."""
        self.every.remove(legend)
        if self.every:
            self._of_layers.attach()
        else:
            self._of_viewer.detach()
            self._of_layers.detach()

    def refresh(self, *_: Any) -> None:
        """Let each legend decide whether it is drawn, as far as there is room."""
        _fold(self._viewer, [one for one in self.every if one.asks_for_room()])
        for legend in list(self.every):
            if legend.node.visible != legend._should_be_visible():
                legend._on_visible_change()

    def _viewer_pairs(self) -> list[Connection]:
        layers, canvas = self._viewer.layers, self._viewer.canvas
        changed = [(event, self._follow_layers) for event in (layers.events.inserted, layers.events.removed)]
        others = (layers.events.reordered, layers.selection.events.active, canvas.grid.events.enabled)
        resized = (canvas.events.size, self._on_resize)
        return [*changed, resized, *((event, self.refresh) for event in others)]

    def _follow_layers(self, *_: Any) -> None:
        self._of_layers.attach()

    def _on_resize(self, *_: Any) -> None:
        self.refresh()
        for legend in self.every:
            legend._on_position_change()

    def _layer_pairs(self) -> Iterator[Connection]:
        """What changes the legend of a layer, and what lets an image cover others."""
        own = {id(legend.layer) for legend in self.every}
        for layer in self._viewer.layers:
            names = {*(_OWN_EVENTS if id(layer) in own else ())}
            names |= {*(_COVERING_EVENTS if isinstance(layer, Image) else ())}
            yield from ((getattr(layer.events, name), self.refresh) for name in names if hasattr(layer.events, name))


_legends: "weakref.WeakValueDictionary[int, _Legends]" = weakref.WeakValueDictionary()  # by the viewer's id


def _legends_of(viewer: Any) -> list["SharedLegend"]:
    found = _legends.get(id(viewer))
    return found.every if found else []


class SharedLegend:
    """The visual of a legend of several layers of a viewer, of which one is drawn."""

    layer: Any
    viewer: Any
    overlay: Any
    node: Any
    _on_visible_change: Any
    _on_position_change: Any
    _get_fgcolor: Any
    x_size: float
    y_size: float
    usual_size: ClassVar[tuple[float, float]]  # pixels, before it has been drawn
    more: Any  # the text below it
    _shared: _Legends | None = None  # before it is one of them
    _is_folded = False
    _more_count = 0
    _size: tuple[float, float] | None = None  # when it was drawn last, without the text below it

    def share(self) -> None:
        """Be one of the viewer's legends, which decide which of them are drawn."""
        self._shared = _legends.setdefault(id(self.viewer), _Legends(self.viewer))
        self._shared.add(self)

    def unshare(self) -> None:
        """Be none of them any more."""
        assert self._shared is not None  # it was one
        self._shared.remove(self)
        self._shared.refresh()
        self.viewer.canvas.events._overlay_positions_changed()

    def asks_for_room(self) -> bool:
        """Whether it is to be drawn if there is room."""
        raise NotImplementedError

    def _should_be_visible(self) -> bool:
        return self.asks_for_room() and not self._is_folded

    @property
    def own_size(self) -> tuple[float, float]:
        """Width and height, pixels, without the text below it; about, before it has been drawn."""
        return self._size or self.usual_size

    def fold(self, *, is_folded: bool, more: int) -> None:
        """Be drawn or not; ``more``: how many others are not, which is written below this one."""
        self._is_folded = is_folded
        if more != self._more_count:
            self._more_count = more
            if self.node.visible:
                self._on_visible_change()

    def take_place(self) -> None:
        """Take its place on the canvas: none while it is not drawn; napari counts a size and a gap for each."""
        self.more.visible = self.node.visible and self._more_count > 0
        if not self.node.visible:
            self.x_size, self.y_size = (-gap for gap in self.viewer.canvas.overlay_tiling.padding)
            self._on_position_change()
            return
        before, self._size = self._size, (self.x_size, self.y_size)
        if self._more_count:
            self.more.text, self.more.color = f"+{self._more_count} more", self._get_fgcolor()
            self.more.pos = (0, self.y_size + _MORE[1] / 2)
            self.x_size, self.y_size = max(self.x_size, _MORE[0]), self.y_size + _MORE[1]
        self._on_position_change()
        if before != self._size and self._shared is not None:
            self._shared.refresh()

    def _on_box_change(self, *_: Any) -> None:
        if self.x_size >= 0:  # it has a place
            super()._on_box_change()  # type: ignore[misc] # of napari's overlay that stands beside this class

    def is_wanted(self) -> bool:
        """Whether it would be drawn if there were no other one."""
        return bool(self.overlay.visible and self.layer.visible)

    def meaning(self) -> object:
        """What is the same for layers that share a legend."""
        return type(self)

    def is_chosen(self) -> bool:
        """Whether it is the one of the active layer or, without that, of the topmost; in a grid each has its own."""
        order = list(self.viewer.layers)
        if self.layer not in order or self.viewer.canvas.grid.enabled:
            return self.layer in order
        same = [
            other.layer
            for other in _legends_of(self.viewer)
            if other.layer in order and other.is_wanted() and other.meaning() == self.meaning()
        ]
        active = self.viewer.layers.selection.active
        chosen = active if active in same else max(same, key=order.index, default=self.layer)
        return chosen is self.layer


def legends_corner(viewer: Any) -> tuple[float, float]:
    """Return how wide and how high, in pixels, the legends at the upper right of a canvas are with their gaps."""
    sizes = _sizes_on(viewer)
    if not sizes or viewer.canvas.grid.enabled:
        return 0.0, 0.0
    widths, heights = zip(*sizes, strict=True)
    is_row = str(viewer.canvas.overlay_tiling.top_right) == _ROW
    gap_x, gap_y = viewer.canvas.overlay_tiling.padding
    width, height = (sum(widths), max(heights)) if is_row else (max(widths), sum(heights))
    return width + gap_x, height + gap_y


def _sizes_on(viewer: Any) -> list[tuple[float, float]]:
    """Width and height of each legend that is drawn, with the gap beside it."""
    gap_x, gap_y = viewer.canvas.overlay_tiling.padding
    drawn = [one for one in _legends_of(viewer) if one.node.visible]
    return [(one.x_size + gap_x, one.y_size + gap_y) for one in drawn]


def _fold(viewer: Any, legends: list[SharedLegend]) -> None:
    """Let as many legends be drawn as a canvas has room for, in a row, or else below each other."""
    order, active = list(viewer.layers), viewer.layers.selection.active
    legends.sort(key=lambda one: (one.layer is active, order.index(one.layer)), reverse=True)
    count, arranged = len(legends), _ROW
    if not viewer.canvas.grid.enabled:
        sizes = [one.own_size for one in legends]
        tried = ((n, _arranged(sizes[:n], viewer, is_all=n == len(sizes))) for n in range(len(sizes), 0, -1))
        count, arranged = next(((n, way) for n, way in tried if way), (0, _ROW))
    if viewer.canvas.overlay_tiling.top_right != arranged:
        viewer.canvas.overlay_tiling.top_right = arranged
    for number, one in enumerate(legends):
        one.fold(is_folded=number >= count, more=len(legends) - count if number == 0 else 0)


def _arranged(sizes: list[tuple[float, float]], viewer: Any, *, is_all: bool) -> str:
    """How legends of these sizes stand in the upper right corner of a canvas; nothing where they have no room."""
    (height, width), (gap_x, gap_y) = viewer.canvas.size, viewer.canvas.overlay_tiling.padding
    (first, _), *_ = sizes
    widths, heights = [across + gap_x for across, _ in sizes], [down + gap_y for _, down in sizes]
    free_x, free_y = width - _ROOM_BESIDE, height - _ROOM_BELOW - gap_y
    if not is_all:
        widths[0], free_y = gap_x + max(first, _MORE[0]), free_y - _MORE[1]
    if sum(widths) <= free_x and max(heights) <= free_y:
        return _ROW
    return _COLUMN if max(widths) <= free_x and sum(heights) <= free_y else ""


def titled_bar_visuals() -> dict[type[Any], type[Any]]:
    """Return the visual of `TitledColorBarOverlay`, of classes of napari's that may have moved."""
    from napari._vispy.overlays.colorbar import VispyColorBarOverlay
    from napari._vispy.visuals.text import Text
    from vispy.visuals.axis import Ticker

    class LimitTicker(Ticker):
        """Labels both ends of an axis, and where it holds logarithms, the numbers that they are of."""

        is_log = False
        names: Sequence[str] = ()  # of codes, which share the axis alike, instead of numbers

        def _get_tick_frac_labels(self) -> tuple[Any, Any, list[str]]:
            if self.names:
                return (np.arange(len(self.names)) + 0.5) / len(self.names), np.empty(0), list(self.names)
            _, minor, labels = super()._get_tick_frac_labels()
            low, high = self.axis.domain
            values = bar_ticks(low, high, [float(label) for label in labels], is_log=self.is_log)
            places = (np.array(list(values)) - low) / ((high - low) or 1.0)
            return places, minor, list(values.values())

    class VispyTitledColorBar(SharedLegend, VispyColorBarOverlay):
        """napari's color bar with a title."""

        usual_size = (110.0, 170.0)

        def __init__(self, font_info: Any, **keywords: Any) -> None:
            self._title, self.more = (
                Text("", anchor_x="left", anchor_y="center", font_info=font_info) for _ in range(2)
            )
            super().__init__(font_info=font_info, **keywords)
            self._title.parent = self.more.parent = self.node
            self.more.font_size = self.overlay.title_size
            self.node.ticks.ticker = LimitTicker(self.node.ticks)
            for name in ("color_by", "name"):
                if hasattr(self.layer.events, name):
                    getattr(self.layer.events, name).connect(self._on_ticks_change)
            self.share()
            self._on_ticks_change()

        def close(self) -> None:
            self.unshare()
            super().close()

        def meaning(self) -> object:
            """What is the same for layers that share a bar: of images there is one for all."""
            if isinstance(self.layer, Image):
                return type(self)
            return color_title(self.layer), self.layer.colormap, self.layer.contrast_limits

        def _on_data_change(self) -> None:
            super()._on_data_change()
            if codes := list(_code_names(self.layer)):
                rows = np.linspace(len(codes), 0, self.node._texture_size, endpoint=False)
                self.node.img.set_data(np.array(codes, np.float32)[np.ceil(rows).astype(int) - 1, None])

        def asks_for_room(self) -> bool:
            return self.is_wanted() and self.is_chosen() and not _is_covered(self.layer, self.viewer)

        def _on_visible_change(self) -> None:
            super()._on_visible_change()
            if not self.node.visible:
                self.take_place()

        def _on_ticks_change(self) -> None:
            if not self.node.visible or self.layer.contrast_limits is None:
                return
            self.node.ticks.ticker.is_log = _is_log(self.layer)
            self.node.ticks.ticker.names = list(_code_names(self.layer).values())
            super()._on_ticks_change()
            lines = textwrap.wrap(color_title(self.layer), _TITLE_LINE_CHARACTERS)
            self._title.text, self._title.font_size = "\n".join(lines), self.overlay.title_size
            self._title.color = self._get_fgcolor()
            width, line = self._title.get_width_height()[0], self._title.get_line_height()
            down = (len(lines) + 0.3) * line
            for part in (self.node.img, self.node.box, self.node.ticks):
                part.transform.translate = (0, self.overlay.font_size / 2 + down)
            self._title.pos = (0, 0.5 * len(lines) * line)
            self.x_size, self.y_size = max(self.x_size, width), self.y_size + down
            self.take_place()

    return {TitledColorBarOverlay: VispyTitledColorBar}


def bar_ticks(low: float, high: float, between: Iterable[float], *, is_log: bool) -> dict[float, str]:
    """Return where a color bar has ticks, and their texts: at both limits, and at those values between that have room.

    Between the limits of logarithms there are whole powers of ten, if there are any.
    """
    room = _NEAR * (high - low)
    inner = [value for value in between if low + room < value < high - room]
    whole = [value for value in inner if is_log and float(value).is_integer()]
    return {value: _tick_text(value, is_log=is_log) for value in (low, *(whole or inner), high)}


def _tick_text(value: float, *, is_log: bool) -> str:
    if not is_log:
        return f"{value:.4g}"
    return power_of_ten(round(value)) if float(value).is_integer() else f"{10**value:.2g}"

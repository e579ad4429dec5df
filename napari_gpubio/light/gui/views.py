"""Layers of a displayed result, changed in place while a run goes on; what the user set on a layer stays."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from napari.utils.colormaps import Colormap, ensure_colormap

from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.gui.actions import MADE_OF
from napari_gpubio.gui.connections import Connection, Connections
from napari_gpubio.gui.layers import set_visible
from napari_gpubio.gui.views import camera_of
from napari_gpubio.layered.napari_io import AXIS_UNITS, border_layers
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.result import LightResult

SENSITIVITY = "sensitivity "  # begins the parts that are maps of a detector
KEPT = "kept"  # a layer that was the panel's and is the user's
_FADE = 0.35  # share of the colors, from the dark end, over which they fade into the labels below
_LINE_PIXELS = 1.25
_SHARE = 0.95  # of the canvas that the map fills
_MAP = "layered fluence"
_BORDERS = {"vectors": "layered borders", "points": "layered names"}


def fading(name: str) -> Colormap:
    """Return a colormap whose dark end is transparent, so that weak light lets the anatomy be seen."""
    places = np.linspace(0.0, 1.0, 64)
    colors = ensure_colormap(name).map(places)
    colors[:, 3] = np.clip(places / _FADE, 0.0, 1.0)
    return Colormap(colors, name=f"{name}, fading", controls=places)


_VOXEL_STYLE: dict[str, dict[str, Any]] = {
    "fluence": {"blending": "translucent_no_depth", "opacity": 0.85, "colormap": fading("inferno")},
    "error": {"blending": "translucent_no_depth", "opacity": 0.7},
}
SENSITIVITY_STYLE = _VOXEL_STYLE["fluence"] | {"colormap": fading("viridis")}


class ResultView:
    """Layers that belong to a panel, marked in their metadata by part; ``parts`` has the most important one first."""

    def __init__(self, viewer: Any, parts: tuple[str, ...]) -> None:
        self._viewer, self._parts = viewer, parts
        self._limits: dict[str, tuple[float, float]] = {}  # as they were set here last
        self._hidden: list[Any] = []  # while the other mode is on screen
        self._is_away = False  # the other mode is on screen

    def layer(self, part: str = "") -> Any | None:
        """The layer of a part, or of the first one; None if there is none."""
        part = part or self._parts[0]
        return next((layer for layer in self._viewer.layers if carried(layer, "panel") == part), None)

    def layers(self) -> list[Any]:
        """The layers that are there."""
        return [layer for part in self._parts if (layer := self.layer(part)) is not None]

    def hide(self) -> None:
        """Make room for the other mode; what is added from now on is hidden, too."""
        self._is_away = True
        self._hide_layers()

    def _hide_layers(self) -> None:
        for layer in [layer for layer in self.layers() if layer.visible]:
            self._hidden.append(layer)
            set_visible(layer, False)

    def unhide(self) -> None:
        """Show again what `hide` has hidden."""
        self._is_away = False
        for layer in self._hidden:
            set_visible(layer, True)
        self._hidden = []

    def release(self, *parts: str) -> str:
        """Leave layers to the user as they are, so that the next run adds new ones; returns the name of the first."""
        released = [layer for part in parts if (layer := self.layer(part)) is not None]
        for layer in released:
            layer.metadata[KEY]["panel"] = KEPT
        return str(released[0].name) if released else ""

    def remove(self, part: str) -> None:
        """Remove the layer of a part, if there is one."""
        if (layer := self.layer(part)) is not None:
            self._viewer.layers.remove(layer.name)

    def add(self, part: str, made: LayerData, **style: Any) -> Any:
        """Add a layer; the user's active layer stays active."""
        data, keywords, kind = made
        keywords = {**keywords, **style}
        keywords.setdefault("metadata", {}).setdefault(KEY, {})["panel"] = part
        if self._is_away:
            keywords["visible"] = False
        active = self._viewer.layers.selection.active
        layer = getattr(self._viewer, f"add_{kind}")(data, **keywords)
        if self._is_away:
            self._hidden.append(layer)
        if kind == "image":
            self._limits[part] = tuple(keywords["contrast_limits"])
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active
        return layer

    def change(self, part: str, layer: Any, made: LayerData) -> None:
        """Give an image layer other values; limits that the user chose stay, and follow another unit."""
        data, keywords, _ = made
        old, new = layer.metadata[KEY], keywords["metadata"][KEY]
        new["panel"] = part
        layer.data, layer.metadata[KEY] = data, new  # before the name and the limits, whose listeners read it
        other_quantity = _meaning(old) != _meaning(new)
        if other_quantity or old.get("unit") != new.get("unit"):
            layer.name = keywords["name"]
        limits = tuple(keywords["contrast_limits"])
        if other_quantity or np.allclose(layer.contrast_limits, self._limits.get(part, limits)):
            _set_limits(layer, limits, limits)
        elif (shift := float(np.log10(new.get("factor", 1.0) / old.get("factor", 1.0)))) != 0:
            own = tuple(limit + shift for limit in layer.contrast_limits)
            _set_limits(layer, own, (min(own[0], limits[0]), max(own[1], limits[1])))
        self._limits[part] = limits


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PutAway:
    """A result that is not on show, and its layers, with what they were marked as and whether they were visible."""

    displayed: Displayed[LightResult] | None
    layers: tuple[tuple[Any, str | None, bool], ...]
    limits: dict[str, tuple[float, float]]
    aside: bool


class VoxelView(ResultView):
    """Fluence of a volume, and its relative error; ``show_legend`` gets the layer (or None) and the time gate."""

    def __init__(
        self, viewer: Any, show_legend: Callable[[Any, str], None], bring_marks_to_front: Callable[[], None]
    ) -> None:
        super().__init__(viewer, tuple(_VOXEL_STYLE))
        self._show_legend, self._bring_marks_to_front = show_legend, bring_marks_to_front
        self._aside = False
        self.displayed: Displayed[LightResult] | None = None
        self._connections = Connections(self._list_events, self._update_legend)

    def display(self, displayed: Displayed[LightResult]) -> None:
        """Display a result in place of the last one; sources and detectors stay above it."""
        added = False
        for part in self._parts:
            if part in displayed.layers:
                added |= self._display_part(part, displayed.layers[part])
            else:
                self.remove(part)
        if self.displayed is None or displayed.result is not self.displayed.result:
            self.end_aside()
        self.displayed = displayed  # at the end: a layer that is replaced counts as removed by the user
        self._update_legend()
        if added:
            self._bring_marks_to_front()

    def keep(self) -> str:
        """Leave the layers to the user; returns the name of the fluence, or an empty text."""
        name = self.release(*self._parts)
        self.displayed = None
        self._update_legend()
        return name

    def put_away(self) -> PutAway:
        """Hide the result and what was made of it, since another volume comes on show; `take_back` shows it again."""
        layers = []
        for layer in self._viewer.layers:
            mark = carried(layer, "panel")
            is_own = mark in self._parts or str(mark).startswith(SENSITIVITY)
            if is_own or carried(layer, MADE_OF) is not None:
                layers.append((layer, mark, layer.visible or layer in self._hidden))
        found = PutAway(self.displayed, tuple(layers), self._limits, self._aside)
        for layer, mark, _ in layers:
            set_visible(layer, False)
            if mark is not None:
                layer.metadata[KEY]["panel"] = KEPT
        self.displayed, self._limits, self._aside, self._hidden = None, {}, False, []
        self._update_legend()
        return found

    def take_back(self, put_away: PutAway) -> None:
        """Show what was put away, as far as it is still there."""
        for layer, mark, visible in put_away.layers:
            if layer in self._viewer.layers:
                if mark is not None:
                    layer.metadata[KEY]["panel"] = mark
                set_visible(layer, visible)
        self._limits, self._aside = put_away.limits, put_away.aside
        self.displayed = None if self.layer() is None else put_away.displayed
        self._update_legend()

    def set_aside(self) -> None:
        """Hide the fluence until the next result, so that what is drawn over it can be seen."""
        layer = self.layer()
        if layer is not None and layer.visible:
            layer.visible, self._aside = False, True

    def end_aside(self) -> None:
        """Show the fluence that was set aside, and no more what was made of the result before."""
        layer = self.layer()
        if self._aside and layer is not None:
            self._aside = False
            set_visible(layer, True)
            for other in self._viewer.layers:
                if carried(other, MADE_OF) is not None:
                    set_visible(other, False)

    def adopt(self, layer: Any) -> None:
        """Take a fluence layer that came from a file as the panel's own; one that is there stays with the user."""
        self.keep()
        layer.metadata[KEY]["panel"] = "fluence"
        for name, value in _VOXEL_STYLE["fluence"].items():
            setattr(layer, name, value)
        self._limits["fluence"] = tuple(layer.contrast_limits)

    def attach(self) -> None:
        """Follow the time gate on screen, and layers that the user removes."""
        self._connections.attach()

    def detach(self) -> None:
        """Stop following the viewer, and hold none of its layers."""
        self._connections.detach()
        self._hidden = []
        self._show_legend(None, "")

    def _list_events(self) -> tuple[Connection, ...]:
        layers, dims = self._viewer.layers.events, self._viewer.dims.events
        return (dims.point, self._update_legend), (layers.removed, self._on_removed)

    def _display_part(self, part: str, made: LayerData) -> bool:
        data, keywords, _ = made
        layer = self.layer(part)
        if layer is not None and not _same_grid(layer, data, keywords):
            self.keep()  # it is of other labels, and stays with the user
            layer = None
        elif layer is not None and layer.data.shape != data.shape:  # other time gates
            self._viewer.layers.remove(layer.name)
            layer = None
        if layer is None:
            self.add(part, made, **_VOXEL_STYLE[part])
            return True
        self.change(part, layer, made)
        return False

    def _on_removed(self, *_: Any) -> None:
        """Forget the result if the user removed its layer: the next run displays it again."""
        if self.layer() is None:
            self.displayed = None
        self._update_legend()

    def _update_legend(self, *_: Any) -> None:
        self._show_legend(self.layer(), self._gate_text())

    def _gate_text(self) -> str:
        """The time gate on screen, or an empty text."""
        if self.displayed is None or self.displayed.result.settings.gate_count == 1 or self._viewer.dims.ndim < 4:
            return ""
        edges = self.displayed.result.settings.time_gates_ns
        index = int(np.clip(round(self._viewer.dims.point[-4]), 0, len(edges) - 2))
        return f"{short_number(edges[index])} to {short_number(edges[index + 1])} ns"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class VolumesAway:
    """How volumes were shown before the map of layers took their place."""

    layers: tuple[Any, ...]  # that were visible
    order: tuple[int, ...]
    ndisplay: int
    center: tuple[float, ...]
    zoom: float


class LayerView(ResultView):
    """Fluence or absorbed energy over r and z, and the borders of the layers.

    The map lies in no place of a head: while it is shown, volumes and what belongs to them are hidden. A volume that is
    opened or made meanwhile takes its place.

    ``show_legend`` gets the layer of the map (or None); ``borders`` tells whether the borders are to be drawn.
    """

    def __init__(self, viewer: Any, show_legend: Callable[[Any], None], borders: Callable[[], bool]) -> None:
        super().__init__(viewer, (_MAP, *_BORDERS.values()))
        self._show_legend, self._borders = show_legend, borders
        self._bordered: tuple[Any, ...] | None = None  # what the borders were drawn of
        self._volumes: VolumesAway | None = None  # while the map is shown
        self.displayed: Displayed[LayeredResult] | None = None
        self._connections = Connections(self._list_events, lambda: self._show_legend(self.layer()))

    def display(self, displayed: Displayed[LayeredResult]) -> None:
        """Display a result in place of the last one, and of volumes, unless the other mode is on screen."""
        before = self.layer()
        if not self._is_away:
            self.unhide()
        if (made := displayed.layers.get("fluence")) is None:
            self.remove(_MAP)
        else:
            self._display_map(made)
        self.displayed = displayed
        self.update_borders()
        layer = self.layer()
        self._show_legend(layer)
        if layer is None:
            self._show_volumes()
        elif layer is not before and not self._is_away:  # it lies elsewhere
            self._go_to(layer)

    def update_borders(self) -> None:
        """Draw the borders of the layers, or take them away."""
        if self.displayed is None or not self.displayed.layers or not self._borders():
            for part in _BORDERS.values():
                self.remove(part)
            self._bordered = None
            return
        medium, settings = self.displayed.result.medium, self.displayed.result.settings
        wanted = (medium, settings.depth_bins * settings.dz_mm, settings.dr_mm)
        if wanted == self._bordered and all(self.layer(part) is not None for part in _BORDERS.values()):
            return
        self._bordered = wanted
        for made in border_layers(medium, settings):
            part = _BORDERS[made[2]]
            self.remove(part)
            self._add_part(part, made)
        self._on_zoom()

    def keep(self) -> str:
        """Leave the map to the user; returns its name, or an empty text."""
        name = self.release(_MAP)
        if name:
            self.displayed = None
            self._show_legend(None)
        return name

    def hide(self) -> None:
        """Make room for the other mode."""
        self._is_away = True
        self.make_room()

    def make_room(self) -> None:
        """Show volumes instead of the map, until there is another result."""
        if (layer := self.layer()) is not None and layer.visible:
            self._show_scale_bar(visible=False)
        self._hide_layers()
        self._show_volumes()

    def unhide(self) -> None:
        """Show again what was hidden, instead of volumes."""
        is_back = bool(self._hidden)
        super().unhide()
        if self.layers():
            self._show_scale_bar(visible=True)
        if is_back and (layer := self.layer()) is not None:
            self._go_to(layer)

    def _go_to(self, layer: Any) -> None:
        """Hide volumes, and let the map fill the canvas; napari counts hidden layers, too."""
        self._hide_volumes()
        camera, canvas = camera_of(self._viewer), np.array(self._viewer.canvas.size, np.float64)
        first, last = np.asarray(layer.extent.world)
        camera.center = (0.0, *(first + last) / 2)
        camera.zoom = float((canvas / (last - first + layer.scale)).min()) * _SHARE

    def _hide_volumes(self) -> None:
        """Hide volumes, and look at planes as they lie; `_show_volumes` undoes it."""
        own, dims, camera = self.layers(), self._viewer.dims, camera_of(self._viewer)
        there = [one for one in self._viewer.layers if one not in own and one.visible and one.ndim > len(AXIS_UNITS)]
        if self._volumes is not None or not there:
            return
        self._volumes = VolumesAway(tuple(there), tuple(dims.order), dims.ndisplay, tuple(camera.center), camera.zoom)
        for layer in there:
            set_visible(layer, False)
        dims.ndisplay = 2
        dims.order = tuple(range(dims.ndim))

    def _show_volumes(self) -> None:
        """Show volumes as they were shown, as far as they are still there."""
        before, self._volumes = self._volumes, None
        if before is None:
            return
        for layer in before.layers:
            if layer in self._viewer.layers:
                set_visible(layer, True)
        dims, camera = self._viewer.dims, camera_of(self._viewer)
        if len(before.order) == dims.ndim:
            dims.order, dims.ndisplay = before.order, before.ndisplay
            camera.center, camera.zoom = before.center, before.zoom

    def attach(self) -> None:
        """Follow layers that come and go, and the zoom."""
        self._connections.attach()

    def detach(self) -> None:
        """Stop following the viewer, and hold none of its layers."""
        self._connections.detach()
        self._hidden, self._volumes = [], None
        self._show_legend(None)

    def _list_events(self) -> tuple[Connection, ...]:
        layers, camera = self._viewer.layers.events, camera_of(self._viewer).events
        return (layers.inserted, self._on_inserted), (layers.removed, self._on_removed), (camera.zoom, self._on_zoom)

    def _display_map(self, made: LayerData) -> None:
        data, keywords, _ = made
        layer = self.layer()
        if layer is not None and not _same_place(layer, data, keywords):
            self.remove(_MAP)
            layer = None
        if layer is None:
            self._add_part(_MAP, made)
        else:
            self.change(_MAP, layer, made)

    def _add_part(self, part: str, made: LayerData) -> None:
        """Add a layer, the map below the borders; where no layer was active, the map becomes it."""
        layers = self._viewer.layers
        active = layers.selection.active
        layer = self.add(part, made)
        self._show_scale_bar(visible=True)
        if part == _MAP and (lines := self.layer(_BORDERS["vectors"])) is not None:
            layers.move(layers.index(layer), layers.index(lines))
        if part != _MAP and (active is None or active not in layers):
            layers.selection.active = self.layer()

    def _show_scale_bar(self, *, visible: bool) -> None:
        self._viewer.canvas.overlays.scale_bar.visible = visible

    def _on_inserted(self, event: Any) -> None:
        layer: Any = self.layer()
        if layer is not None and layer.visible and event.value.visible and event.value.ndim > len(AXIS_UNITS):
            self.make_room()

    def _on_removed(self, event: Any) -> None:
        """Forget the result if the user removed its layer: the next run displays it again."""
        if carried(event.value, "panel") == _MAP:
            self._show_volumes()
            self.displayed = None
            self._show_legend(None)

    def _on_zoom(self, *_: Any) -> None:
        """Keep lines equally wide on screen, so that they neither vanish nor hide thin layers."""
        lines = self.layer(_BORDERS["vectors"])
        if lines is not None:
            lines.edge_width = _LINE_PIXELS / camera_of(self._viewer).zoom


def _meaning(metadata: dict[str, Any]) -> str:
    """The quantity of a layer, where it has a choice of them."""
    quantity = metadata.get("quantity")
    return "absorbed" if isinstance(quantity, Quantity) and quantity.name.startswith("absorbed") else ""


def _set_limits(layer: Any, limits: tuple[float, ...], around: tuple[float, ...]) -> None:
    if not np.allclose(layer.contrast_limits, limits):
        layer.contrast_limits_range = around
        layer.contrast_limits = limits


def _same_grid(layer: Any, data: Any, keywords: dict[str, Any]) -> bool:
    """Whether a layer lies on the same grid as other data; time gates do not count."""
    return layer.data.shape[-3:] == data.shape[-3:] and np.allclose(
        carried(layer, "affine"), keywords["metadata"][KEY]["affine"]
    )


def _same_place(layer: Any, data: Any, keywords: dict[str, Any]) -> bool:
    """Whether a map over r and z has the same bins in the same place."""
    same_place = np.allclose(layer.scale, keywords["scale"]) and np.allclose(layer.translate, keywords["translate"])
    return bool(layer.data.shape == data.shape and same_place)

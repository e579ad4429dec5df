"""Regions of interest: shapes that are drawn over the maps, as pixels of the maps."""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.speckle.gui.words import PANEL, REGIONS

Array = npt.NDArray[Any]
PALETTE = ("#4fc3f7", "#ffb74d", "#81c784", "#f06292", "#ba68c8", "#fff176", "#a1887f", "#90a4ae")
NAME = "region"  # the column of the features that names a shape
_LINE, _LEAST_LINE = 0.003, 0.25  # width of a line: share of the picture, and pixels
_DEBOUNCE_MS = 150  # milliseconds after the last change of a shape, in which the mouse may go on


class RegionListener(QObject):
    """Turns the shapes of a layer into masks, once they rest.

    ``changed`` comes when there are other shapes, or another layer of shapes.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.layer: Any = None
        self._count = 0
        self._debouncer = QTimer(self)
        self._debouncer.setSingleShot(True)
        self._debouncer.setInterval(_DEBOUNCE_MS)
        self._debouncer.timeout.connect(self._on_rest)

    def follow(self, layer: Any | None) -> None:
        """Follow another layer, or none."""
        if self.layer is not None:
            self.layer.events.data.disconnect(self._on_change)
        self.layer = layer
        if layer is not None:
            layer.events.data.connect(self._on_change)
        self._debouncer.start()

    def detach(self) -> None:
        """Hear no more of the layer."""
        self.follow(None)
        self._debouncer.stop()

    @property
    def colors(self) -> dict[str, str]:
        """Color of each region, by its name."""
        return {} if self.layer is None else {name: _color(name) for name in _names(self.layer)}

    def masks(self, image: Any, shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of each shape, by its name; shapes beside the picture are left out.

        Parameters
        ----------
        image
            The layer whose pixels are meant, or None for that of the shapes.
        shape
            Of its last two axes.
        """
        if self.layer is None or not len(self.layer.data):
            return {}
        outlines = [_in_pixels(self.layer, image, vertices) for vertices in self.layer.data]
        drawn = Shapes(outlines, shape_type=list(self.layer.shape_type))
        masks = zip(_names(self.layer), drawn.to_masks(mask_shape=shape), strict=True)
        return {name: mask for name, mask in masks if mask.any()}

    def _on_change(self, *_: Any) -> None:
        self._debouncer.start()

    def _on_rest(self) -> None:
        if self.layer is not None and len(self.layer.data):
            self._name_new()
        self.changed.emit()

    def _name_new(self) -> None:
        """Give shapes that have no name of their own one that was not used before, and its color."""
        layer, names, seen = self.layer, _names(self.layer), set()
        self._count = max([self._count, *(_number(name) for name in names)])
        for place, name in enumerate(names):
            if not name or name in seen:
                self._count += 1
                names[place] = f"region {self._count}"
            seen.add(names[place])
        if names == _names(layer):
            return
        with layer.events.data.blocker(self._on_change):
            layer.features = {NAME: names}
            layer.edge_color = [_color(name) for name in names]
            layer.text = {"string": "{" + NAME + "}", "size": 10, "color": "white", "anchor": "upper_left"}


def add_regions(viewer: Any, place: dict[str, Any], width: int) -> Any:
    """Add a layer to draw regions in, ready for polygons; returns it.

    Parameters
    ----------
    viewer
        The napari viewer.
    place
        Scale, translation and units.
    width
        Of the picture, pixels; lines are as wide as suits it.
    """
    layer = viewer.add_shapes(
        None, ndim=2, name="regions", edge_width=_line(width), face_color="#00000000",
        edge_color=PALETTE[0], features={NAME: np.empty(0, dtype=object)}, metadata={KEY: {PANEL: REGIONS}}, **place,
    )  # fmt: skip
    layer.mode = "add_polygon"
    return layer


def draw_more(viewer: Any, layer: Any, width: int) -> None:
    """Make a layer of regions that is there ready for more polygons: on top, seen, with lines that suit the picture."""
    viewer.layers.move(viewer.layers.index(layer), len(viewer.layers))
    layer.visible = True
    layer.selected_data = set()  # else the selected shapes would get the new line
    layer.current_edge_width = _line(width)
    layer.mode = "add_polygon"


def _line(width: int) -> float:
    return max(_LINE * width, _LEAST_LINE)


def _names(layer: Any) -> list[str]:
    features = layer.features
    if NAME not in features:
        return [""] * len(layer.data)
    return [name if isinstance(name, str) else "" for name in features[NAME]]


def _number(name: str) -> int:
    end = name.removeprefix("region ")
    return int(end) if end.isdigit() else 0


def _color(name: str) -> str:
    return PALETTE[(_number(name) - 1) % len(PALETTE)]


def _in_pixels(layer: Any, image: Any, vertices: Array) -> Array:
    """Vertices of a shape, in pixels of an image; of the last two axes, as the shapes mean any frame."""
    flat = np.asarray(vertices)[:, -2:]
    if image is None:
        return flat
    scale, shift = (np.asarray(getattr(layer, name))[-2:] for name in ("scale", "translate"))
    own_scale, own_shift = (np.asarray(getattr(image, name))[-2:] for name in ("scale", "translate"))
    return (flat * scale + shift - own_shift) / own_scale

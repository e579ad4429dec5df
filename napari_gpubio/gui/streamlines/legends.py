"""What the canvas says about the colors of streamlines: a color bar with its unit, or a sphere of directions.

Each layer has both as overlays, of which napari makes the visuals. Layers whose colors mean the same share one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.components.overlays import CanvasOverlay
from napari.utils.events import EmitterGroup, Event

from napari_gpubio.gui.anatomy import ENDS, POSITIVE, orientation_of, screen_axes
from napari_gpubio.gui.color_bars import SharedLegend, TitledColorBarOverlay, titled_bar_visuals
from napari_gpubio.gui.lines import DIRECTION, UNIFORM
from napari_gpubio.gui.overlays import can_draw
from napari_gpubio.gui.views import camera_of

Array = npt.NDArray[Any]
_SPHERE_PIXELS = 72
_LETTERS = 11  # pixels between the sphere and the middle of a letter
_SIDE = _SPHERE_PIXELS + 4 * _LETTERS  # of the legend with its letters
_EVENTS = ("coloring", "color_by", "legend")


class DirectionSphereOverlay(CanvasOverlay):
    """A sphere, each point of which has the color of a line along its radius."""

    position: Any = "top_right"
    font_size: float = 10.0


class ColorScale:
    """What napari's color bar asks about a layer's colors."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self.events = EmitterGroup(source=self, contrast_limits=Event, continuous_colormap=Event)
        self._announced: tuple[Any, Any, Any] = (None, None, None)
        layer.events.coloring.connect(self._on_coloring)

    @property
    def contrast_limits(self) -> tuple[float, float] | None:
        """Values at the ends of the bar."""
        limits: tuple[float, float] | None = self._layer.contrast_limits
        return limits

    @property
    def continuous_colormap(self) -> Any:
        """The colormap."""
        return self._layer.color_map

    def _on_coloring(self) -> None:
        now = self.continuous_colormap, self.contrast_limits, self._layer.code_names
        if now[0] is not self._announced[0]:
            self.events.continuous_colormap()
        if now[1:] != self._announced[1:]:
            self.events.contrast_limits()
        self._announced = now


def add_legends(layer: Any) -> None:
    """Give a layer its legends, where napari can draw them."""
    if not (can_draw("color bars", titled_bar_visuals) and can_draw("the sphere of directions", _visuals)):
        return
    layer.color_scale = ColorScale(layer)
    bar, sphere = TitledColorBarOverlay(colormanager_attribute="color_scale"), DirectionSphereOverlay()
    layer._overlays.update({"color bar": bar, "direction sphere": sphere})

    def update() -> None:
        wanted = layer.legend and layer.color_by != UNIFORM
        bar.visible = wanted and layer.contrast_limits is not None
        sphere.visible = wanted and layer.color_by == DIRECTION

    for name in _EVENTS:
        getattr(layer.events, name).connect(update)
    update()


def sphere_image(axes: Array, size: int = _SPHERE_PIXELS) -> npt.NDArray[np.uint8]:
    """Return the picture of a sphere of directions, shape (size, size, 4), RGBA, the first row on top.

    Parameters
    ----------
    axes
        Rows z, y, x of the world; columns: right, up, and towards the viewer.
    size
        Pixels.
    """
    across = (np.arange(size) + 0.5) / size * 2 - 1
    right, up = np.meshgrid(across, -across)
    distance = np.hypot(right, up)
    towards = np.sqrt(np.clip(1 - distance**2, 0, 1))
    world = np.abs(np.stack([right, up, towards], axis=-1) @ np.asarray(axes).T)  # z, y, x
    rgb = world[..., ::-1] * (0.45 + 0.55 * towards[..., None])
    alpha = np.clip((1 - distance) * size / 2 + 0.5, 0, 1)
    return np.round(255 * np.concatenate([rgb, alpha[..., None]], axis=-1).clip(0, 1)).astype(np.uint8)


def canvas_axes(viewer: Any) -> Array | None:
    """Return where the axes z, y, x of the world point on the canvas, shape (3, 3), or None if it shows others."""
    dims, camera = viewer.dims, camera_of(viewer)
    displayed = [axis - (dims.ndim - 3) for axis in dims.displayed]
    if dims.ndim < 3 or min(displayed) < 0:
        return None
    axes = np.zeros((3, 3))
    if len(displayed) == 3:
        axes[displayed] = screen_axes(camera)
        return axes
    _, vertical, horizontal = orientation_of(camera)
    axes[displayed[1], 0], axes[displayed[0], 1] = POSITIVE[horizontal], POSITIVE[vertical]
    axes[3 - sum(displayed), 2] = 1.0
    return axes


def _visuals() -> dict[type[Any], type[Any]]:
    """The visual of the sphere, of classes of napari's that may have moved."""
    from napari._vispy.overlays.base import LayerOverlayMixin, VispyCanvasOverlay
    from napari._vispy.visuals.text import Text
    from vispy.scene.visuals import Compound, Image

    class VispyDirectionSphere(SharedLegend, LayerOverlayMixin, VispyCanvasOverlay):
        """Draws the sphere, turned as the view is, and the letters of the body's sides around it."""

        usual_size = (_SIDE, _SIDE)

        def __init__(self, font_info: Any, **keywords: Any) -> None:
            self._image = Image(np.zeros((2, 2, 4), np.uint8))
            self._text = Text(pos=np.zeros((6, 2)), text=[""] * 6, font_info=font_info)
            self.more = Text("", anchor_x="left", anchor_y="center", font_info=font_info)
            super().__init__(node=Compound([self._image, self._text]), font_info=font_info, **keywords)
            self.more.parent, self.more.font_size = self.node, self.overlay.font_size
            for event in self._view_events():
                event.connect(self._on_view_change)
            self.share()
            self.reset()

        def close(self) -> None:
            for event in self._view_events():
                event.disconnect(self._on_view_change)
            self.unshare()
            super().close()

        def _view_events(self) -> list[Any]:
            dims, camera, canvas = self.viewer.dims.events, camera_of(self.viewer).events, self.viewer.canvas.events
            return [dims.order, dims.ndisplay, dims.ndim, camera.orientation, camera.angles, canvas.background_color]

        def asks_for_room(self) -> bool:
            return self.is_wanted() and self.is_chosen() and canvas_axes(self.viewer) is not None

        def _on_view_change(self, *_: Any) -> None:
            self._on_visible_change()

        def _on_visible_change(self) -> None:
            self.x_size = self.y_size = _SIDE
            super()._on_visible_change()
            self.take_place()
            axes = canvas_axes(self.viewer)
            if axes is not None and self.node.visible:
                self._draw(axes)

        def _draw(self, axes: Array) -> None:
            self._image.set_data(np.pad(sphere_image(axes), ((2 * _LETTERS,) * 2, (2 * _LETTERS,) * 2, (0, 0))))
            tips = np.concatenate([axes, -axes])
            across = np.hypot(tips[:, 0], tips[:, 1])
            outwards = tips[:, :2] / np.maximum(across, 1e-9)[:, None] * (1, -1)
            middle, letters = _SIDE / 2, [ends[1] for ends in ENDS] + [ends[0] for ends in ENDS]
            self._text.text = [letter if one > 0.6 else " " for letter, one in zip(letters, across, strict=True)]
            self._text.pos = middle + outwards * (_SPHERE_PIXELS / 2 + _LETTERS)
            self._text.font_size, self._text.color = self.overlay.font_size, self._get_fgcolor()

    return {DirectionSphereOverlay: VispyDirectionSphere}

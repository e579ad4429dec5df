"""What a canvas says about the body: letters at its borders in 2-D, a compass of six letters in 3-D.

The viewer's world is (z, y, x) in RAS millimeters, so the letters follow from its axes and its camera alone.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.components.overlays import CanvasOverlay

from napari_gpubio.core.napari_io import KEY, carried, own_units
from napari_gpubio.gui import theme
from napari_gpubio.gui.color_bars import SCALE_BAR, legends_corner
from napari_gpubio.gui.connections import Connection, Connections, Debouncer
from napari_gpubio.gui.overlays import can_draw
from napari_gpubio.gui.preferences import preference
from napari_gpubio.gui.views import VIEWS_KEY, camera_of, set_view, toggle_linked_views

Array = npt.NDArray[Any]
OVERLAY = "napari-gpubio anatomy"
ENDS = (("I", "S"), ("P", "A"), ("L", "R"))  # the lower and the upper end of z, y, x
_NAPARIS_VIEW = ("towards", "down", "right")
_MARGIN, _RADIUS, _CORNER = 14, 34, 64  # pixels
_LETTER = 24  # pixels around the middle of a letter that are to be free
_BEHIND_OPACITY = 0.35
_HIDDEN_BEHIND = 0.3  # of the radius: nearer to the middle the letter in front covers the one behind
_OUTLINE = 1.5 * np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)])  # pixels from a letter
POSITIVE = {"towards": 1, "away": -1, "up": 1, "down": -1, "right": 1, "left": -1}  # of a direction on the screen


def border_letters(displayed: tuple[int, int], orientation: tuple[str, str, str]) -> tuple[str, str, str, str]:
    """Return the letters at the top, bottom, left and right of a slice.

    Parameters
    ----------
    displayed
        The axis of (z, y, x) that runs down or up the canvas, and the one that runs across it.
    orientation
        Of the camera, as napari has it: depth, vertical, horizontal.
    """
    vertical, horizontal = (ENDS[axis] for axis in displayed)
    up, right = POSITIVE[orientation[1]] > 0, POSITIVE[orientation[2]] > 0
    return vertical[up], vertical[not up], horizontal[not right], horizontal[right]


def screen_axes(camera: Any) -> Array:
    """Return where each axis of a 3-D view points: rows are the displayed axes, columns right, up and to the eye."""
    view, up = np.array(camera.view_direction), np.array(camera.up_direction)
    orientation = orientation_of(camera)
    mirrored = (orientation[0] == "away") + (orientation[1] == "up") + (orientation[2] == "left")
    right = np.cross(view, up) * (-1 if mirrored % 2 else 1)  # (z, y, x) is left-handed as napari first shows it
    return np.stack([right, up, -view], axis=1)


def orientation_of(camera: Any) -> tuple[str, str, str]:
    """The orientation of a camera as plain texts."""
    depth, vertical, horizontal = (str(getattr(one, "value", one)) for one in camera.orientation)
    return depth, vertical, horizontal


class BodyView:
    """Shows a viewer as its visible layers ask: bodies upright, with letters and a scale bar; other arrays as stored.

    The user's own choice of left and right is kept for the next time that a body is on screen.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._shows_body = False
        self._orientation: Any = None  # of bodies, when there was one on screen last
        self._before: tuple[Any, bool] | None = None  # orientation and scale bar of what was on screen before
        self._later = Debouncer(self._follow)
        self._visible = Connections(lambda: [(layer.events.visible, self._request) for layer in viewer.layers])
        for event, act in self._pairs():
            event.connect(act)
        self._on_inserted()

    def cancel(self) -> None:
        """Change nothing any more."""
        self._later.cancel()
        with suppress(ReferenceError):  # the viewer is gone
            self._visible.detach()
            for event, act in self._pairs():
                event.disconnect(act)

    def _pairs(self) -> list[Connection]:
        changes = self._viewer.layers.events
        return [(changes.inserted, self._on_inserted), (changes.removed, self._on_removed)]

    def _on_inserted(self, *_: Any) -> None:
        self._visible.attach()
        self._follow()

    def _on_removed(self, *_: Any) -> None:
        self._visible.attach()
        self._later.request()

    def _request(self, *_: Any) -> None:
        self._later.request()

    def _follow(self) -> None:
        with suppress(ReferenceError):
            visible = [layer for layer in self._viewer.layers if layer.visible]
            shows_body = any(map(shows_a_body, visible))
            if visible and shows_body != self._shows_body:
                self._shows_body = shows_body
                self._show(body=shows_body)

    def _show(self, *, body: bool) -> None:
        camera, scale_bar = camera_of(self._viewer), self._viewer.canvas.overlays.scale_bar
        if body:
            self._before = orientation_of(camera), scale_bar.visible
            if self._orientation is not None:
                camera.orientation = self._orientation
            elif orientation_of(camera) == _NAPARIS_VIEW:  # which shows the front below
                set_view(self._viewer, preference("left_right"))
            show_letters(self._viewer)
            self._viewer.bind_key(VIEWS_KEY, toggle_linked_views, overwrite=True)
        elif self._before is not None:
            self._orientation = orientation_of(camera)
            camera.orientation = self._before[0]
        if OVERLAY in self._viewer.canvas.overlays:
            self._viewer.canvas.overlays[OVERLAY].visible = body
        scale_bar.visible = body or (self._before is not None and self._before[1])


def shows_a_body(layer: Any) -> bool:
    """Whether a layer lies in the axes of a body: a volume with a place in the world, fibers, or what we made there."""
    if carried(layer, "affine") is not None or carried(layer, "tractogram") is not None:
        return True
    units = [str(unit) for unit in own_units(layer)]
    return KEY in layer.metadata and layer.ndim >= 3 and units[-3:] == ["millimeter"] * 3


def _free_middle(begin: float, end: float, length: float) -> float:
    """Return the middle of a border where it is free, else of the part that is."""
    middle, half = length / 2, _LETTER / 2
    return middle if begin + half <= middle <= end - half else (begin + end) / 2


class AnatomyOverlay(CanvasOverlay):
    """Letters of the body's sides."""

    position: object = "free"  # not one of napari's corners, where it would be stacked with others
    font_size: float = 12.0


def show_letters(viewer: Any) -> bool:
    """Show the letters on a viewer's canvas; returns whether napari can."""
    if OVERLAY not in viewer.canvas.overlays and can_draw("the letters of the body's sides", _visuals):
        viewer.canvas.overlays[OVERLAY] = AnatomyOverlay(visible=True)
    return OVERLAY in viewer.canvas.overlays


def _visuals() -> dict[type[Any], type[Any]]:
    from napari._vispy.overlays.base import ViewerOverlayMixin, VispyCanvasOverlay
    from napari._vispy.visuals.text import Text
    from vispy.scene.visuals import Compound, Line

    class VispyAnatomyOverlay(ViewerOverlayMixin, VispyCanvasOverlay):
        """Draws the letters, and in 3-D the lines of the compass."""

        def __init__(self, font_info: Any, **keywords: Any) -> None:
            self._text, self._outline = (
                Text(pos=np.zeros((6, 2)), text=[""] * 6, font_info=font_info, bold=True) for _ in range(2)
            )
            self._lines = Line(pos=np.zeros((6, 2)), connect="segments", width=2, antialias=True)
            parts = [self._lines, self._outline, self._text]
            super().__init__(node=Compound(parts), font_info=font_info, **keywords)
            self._camera = camera_of(self.viewer)
            for event in (
                self.viewer.dims.events.order,
                self.viewer.dims.events.ndisplay,
                self.viewer.dims.events.ndim,
                self._camera.events.orientation,
                self._camera.events.angles,
                self.viewer.canvas.events.background_color,
                self.viewer.canvas.events.size,
                self.viewer.canvas.events._overlay_positions_changed,
            ):
                event.connect(self._place)
            self.reset()
            self._place()

        def close(self) -> None:
            """Stop following the viewer."""
            for group in (self.viewer.dims.events, self._camera.events, self.viewer.canvas.events):
                group.disconnect(self._place)
            super().close()

        def _place(self, *_: Any) -> None:
            dims = self.viewer.dims
            axes = [axis - (dims.ndim - 3) for axis in dims.displayed]
            anatomical = dims.ndim >= 3 and min(axes) >= 0
            self._text.visible = self._outline.visible = anatomical
            self._lines.visible = anatomical and len(axes) == 3
            if not anatomical:
                return
            self._text.font_size = self._outline.font_size = self.overlay.font_size
            if len(axes) == 2:
                self._place_letters((axes[0], axes[1]))
            else:
                self._place_compass(axes)

        def _place_letters(self, axes: tuple[int, int]) -> None:
            height, width = self.viewer.canvas.size
            (legends_x, legends_y), (bar_x, bar_y) = legends_corner(self.viewer), SCALE_BAR
            top, bottom = (_free_middle(0, width - taken, width) for taken in (legends_x, bar_x))
            right = _free_middle(legends_y, height - bar_y, height)
            places = [(top, 1), (bottom, height - 1), (1, height / 2), (width - 1, right)]
            inwards = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)]) * _MARGIN
            colors = np.tile(np.asarray(self._get_fgcolor(), float)[:4], (4, 1))
            self._write(list(border_letters(axes, orientation_of(self._camera))), np.array(places) + inwards, colors)

        def _write(self, letters: list[str], places: Array, colors: Array) -> None:
            """Write letters, with an outline that sets them off from an image of any brightness."""
            self._text.text, self._text.pos, self._text.color = letters, places, colors
            around = len(_OUTLINE)
            self._outline.text = [letter for letter in letters for _ in range(around)]
            self._outline.pos = (places[:, None] + _OUTLINE).reshape(-1, 2)
            contrast = np.where(colors[:, :3].mean(axis=1, keepdims=True) > 0.5, 0.0, 1.0)
            opacity = colors[:, 3:] ** 2  # where several lie on each other
            self._outline.color = np.repeat(np.hstack([np.tile(contrast, 3), opacity]), around, axis=0)

        def _place_compass(self, axes: list[int]) -> None:
            directions = screen_axes(self._camera)
            tips = np.concatenate([directions, -directions])
            center = np.array([_CORNER, self.viewer.canvas.size[0] - _CORNER])
            downwards = tips[:, :2] * (1, -1)
            colors = np.tile(np.asarray(self._get_fgcolor(), float)[:4], (6, 1))
            colors[:, 3] = np.where(tips[:, 2] > -1e-6, 1.0, _BEHIND_OPACITY)
            letters = [ENDS[axis][1] for axis in axes] + [ENDS[axis][0] for axis in axes]
            is_hidden = (tips[:, 2] < 0) & (np.hypot(tips[:, 0], tips[:, 1]) < _HIDDEN_BEHIND)
            letters = [" " if hidden else one for one, hidden in zip(letters, is_hidden, strict=True)]
            self._write(letters, center + downwards * (_RADIUS + 14), colors)
            ends = np.empty((6, 2))
            ends[0::2], ends[1::2] = center + downwards[3:] * _RADIUS, center + downwards[:3] * _RADIUS
            shades = np.ones((6, 4))
            shades[0::2, :3] = shades[1::2, :3] = np.array(theme.DIRECTIONS)[axes]
            self._lines.set_data(pos=ends, color=shades)

    return {AnatomyOverlay: VispyAnatomyOverlay}

"""From the mouse to places in the world: positions under a click, and markers that are placed and dragged."""

from collections.abc import Callable, Generator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from qtpy.QtCore import QObject, Signal

from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.views import camera_of

Position = npt.NDArray[np.float64]
_SAMPLES_PER_VOXEL = 2


def clicked_position(
    event: Any, image: Image, *, mode: Literal["first", "maximum"] = "first", threshold: float = 0.5
) -> Position | None:
    """World position (z, y, x) of a click, or None if it misses what the image shows.

    Parameters
    ----------
    event
        A napari mouse event.
    image
        The volume that was clicked. Of more than three dimensions, the current slice counts.
    mode
        In 3-D, ``'first'`` takes the first voxel on the ray that is bright enough, ``'maximum'`` the brightest one,
        which is the one that a maximum projection shows. An image shown as a plane is hit where the ray meets it.
    threshold
        Bright enough for ``'first'``, as a fraction of the contrast limits: 0 is drawn black, 1 is drawn white.
        ``'maximum'`` takes anything above the lower limit.
    """
    if len(event.dims_displayed) == 2:
        return _last_three(event.position)
    axes = _layer_axes(event, image)
    ray = _ray_in_data(event, image)
    if image.depiction == "plane":
        found = _on_image_plane(image, ray, axes)
    else:
        found = _in_volume(image, ray, axes, mode, threshold)
    return None if found is None else _last_three(image.data_to_world(found))


def drag_on_plane(event: Any, anchor: npt.ArrayLike) -> Position:
    """World position (z, y, x) to which a drag has moved something that was at ``anchor``.

    In 3-D it moves on the plane through ``anchor`` that faces the viewer; in 2-D it moves in the slice.

    Parameters
    ----------
    event
        A napari mouse event.
    anchor
        World position (z, y, x) where the drag started.
    """
    position = _last_three(event.position)
    if event.view_direction is None:
        return position
    direction = _view_direction(event)
    return position + direction * ((np.asarray(anchor, np.float64) - position) @ direction)


def screen_distance(event: Any, position: npt.ArrayLike, zoom: float | None = None) -> float:
    """Distance in pixels between a click and where a world position (z, y, x) is drawn.

    Parameters
    ----------
    event
        A napari mouse event.
    position
        World position, for instance of a marker.
    zoom
        Pixels per world unit; by default the camera's at the event.
    """
    difference = np.asarray(position, np.float64) - _last_three(event.position)
    if event.view_direction is None:
        hidden = [axis for axis in range(3) if axis + len(event.position) - 3 not in event.dims_displayed]
        difference[hidden] = 0.0
    else:
        direction = _view_direction(event)
        difference -= direction * (difference @ direction)
    return float(np.linalg.norm(difference) * (event.camera_zoom if zoom is None else zoom))


def _last_three(position: npt.ArrayLike) -> Position:
    return np.array(position, np.float64)[-3:]


def _view_direction(event: Any) -> Position:
    direction = _last_three(event.view_direction)
    return direction / np.linalg.norm(direction)


def _layer_axes(event: Any, image: Image) -> list[int]:
    """Layer axes on the canvas, in the order of the data; a layer has the last axes of the world."""
    return sorted(axis - (len(event.position) - image.ndim) for axis in event.dims_displayed)


def _ray_in_data(event: Any, image: Image) -> tuple[Position, Position]:
    """Return a point of the ray and its direction in data coordinates, both with all axes of the layer."""
    start = image.world_to_data(event.position)
    return start, image.world_to_data(np.add(event.position, event.view_direction)) - start


def _on_image_plane(image: Image, ray: tuple[Position, Position], axes: list[int]) -> Position | None:
    """Where the ray meets an image that is shown as a plane; None beside the image."""
    start, step = ray
    normal = np.asarray(image.plane.normal)
    slope = normal @ step[axes]
    if abs(slope) < 1e-9 * np.linalg.norm(step):
        return None
    hit = start + step * (normal @ (np.asarray(image.plane.position) - start[axes]) / slope)
    low, high = _box(image, axes)
    return hit if (hit[axes] >= low).all() and (hit[axes] <= high).all() else None


def _in_volume(
    image: Image, ray: tuple[Position, Position], axes: list[int], mode: str, threshold: float
) -> Position | None:
    """First sample of the ray that is bright enough, or the brightest one."""
    path = _path_through(image, ray, axes)
    if path is None:
        return None
    values = _values_along(image, path, axes)
    low, high = image.contrast_limits
    bright = values > low + (threshold * (high - low) if mode == "first" else 0.0)
    if not bright.any():
        return None
    return path[(bright if mode == "first" else values).argmax()]


def _path_through(image: Image, ray: tuple[Position, Position], axes: list[int]) -> Position | None:
    """Evenly spaced points where the ray runs through the volume, front to back; None if it misses."""
    start, step = ray
    moving = [axis for axis in axes if abs(step[axis]) > 1e-9 * np.linalg.norm(step)]
    low, high = _box(image, moving)
    first, last = np.sort([(low - start[moving]) / step[moving], (high - start[moving]) / step[moving]], axis=0)
    near, far = start + step * first.max(), start + step * last.min()
    middle = (near + far)[axes] / 2
    low, high = _box(image, axes)
    if first.max() > last.min() or (middle < low).any() or (middle > high).any():
        return None
    return np.linspace(near, far, int(np.ceil(np.linalg.norm((far - near)[axes]))) * _SAMPLES_PER_VOXEL + 2)


def _box(image: Image, axes: list[int]) -> tuple[Position, Position]:
    """Outer faces of the first and the last voxels, data coordinates."""
    low, high = image.extent.data[:, axes]
    return low - 0.5, high + 0.5


def _values_along(image: Image, path: Position, axes: list[int]) -> npt.NDArray[Any]:
    """Values of the voxels on a path in data coordinates, shape (N,); colors count by their brightest channel."""
    data = image.data[-1] if image.multiscale else image.data
    size = np.array(data.shape[: image.ndim])
    # the coarsest level of an image pyramid is what napari shows in 3-D, and all that is read here
    coarser = size / (np.array(image.data[0].shape[: image.ndim]) if image.multiscale else size)
    voxels = np.clip(np.floor((path + 0.5) * coarser), 0, size - 1).astype(np.intp)
    shown = tuple(slice(None) if axis in axes else int(voxels[0, axis]) for axis in range(image.ndim))
    values = np.asarray(data[shown])[tuple(voxels[:, axes].T)]
    if image.rgb:
        values = values[:, :3].max(axis=1)
    return np.where(np.isfinite(values), values, -np.inf)


def fiber_under(viewer: Any, event: Any) -> tuple[Streamlines, int] | None:
    """Return the topmost layer of streamlines and its line under the mouse, or None."""
    for layer in reversed(viewer.layers):
        if isinstance(layer, Streamlines) and layer.visible:
            fiber = layer.pick(event.position, event.view_direction, event.dims_displayed)
            if fiber is not None:
                return layer, fiber
    return None


def is_edited(layer: Any) -> bool:
    """Whether clicks belong to a layer, because it is being painted or drawn on."""
    return layer is not None and str(getattr(layer, "mode", "pan_zoom")) not in ("pan_zoom", "transform")


class MouseTool(QObject):
    """Something that follows the presses of a viewer's mouse while it is attached and its panel is in front."""

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._front = viewer, front_of(viewer)

    @property
    def hint(self) -> str:
        """What a click does, such as "Click: seed"; empty while it does nothing."""
        return ""

    @property
    def is_attached(self) -> bool:
        """Whether it listens to the viewer's mouse."""
        return self._on_press in self._viewer.mouse_drag_callbacks

    def attach(self) -> None:
        """Listen to the viewer's mouse."""
        if not self.is_attached:
            self._viewer.mouse_drag_callbacks.append(self._on_press)
            self._front.tools[self] = None
            self._front.changed.emit()

    def detach(self) -> None:
        """Stop listening to the mouse."""
        if self.is_attached:
            self._viewer.mouse_drag_callbacks.remove(self._on_press)
            self._front.tools.pop(self, None)
            self._front.changed.emit()

    def pressed(self, event: Any) -> Generator[None, None, None]:
        """Follow a press of the left button: run to the first yield, on at each move, past the last on release."""
        raise NotImplementedError

    def _on_press(self, _viewer: Any, event: Any) -> Generator[None, None, None]:
        """Napari's drag callback; a press that belongs to a tool of napari's or to another panel is left alone."""
        is_ours = event.button == 1 and not is_edited(self._viewer.layers.selection.active)
        if is_ours and self._front.allows(self):
            yield from self.pressed(event)


class FiberTool(MouseTool):
    """Turns clicks in a viewer into picked fibers."""

    fiber_clicked = Signal(object, int)  # layer, fiber

    @property
    def hint(self) -> str:
        """What a click does."""
        return "Click: choose a fiber"

    def pressed(self, event: Any) -> Generator[None, None, None]:
        """Pick the fiber of a click."""
        yield
        if event.type != "mouse_move" and (found := fiber_under(self._viewer, event)) is not None:
            self.fiber_clicked.emit(*found)


GRAB_PIXELS = 14.0


class MarkerTool(MouseTool):
    """Turns mouse events of a viewer into clicks and drags of markers.

    A subclass implements `clicked`, `target_of`, and where needed `may_begin` and `may_grab`. Signals carry what
    `target_of` gives: where the mouse is, in the terms of the subclass.

    ``markers`` returns the viewer positions (z, y, x) of what can be grabbed, shape (N, 3); ``reach`` how far from a
    slice a marker is still drawn in it, in world units.
    """

    grabbed = Signal(int)
    dragged = Signal(int, object)
    dropped = Signal(int, object)
    nudged = Signal(object)  # an offset (z, y, x) in world units, by which keys move the marker that is chosen

    def __init__(
        self,
        viewer: Any,
        markers: Callable[[], Position],
        reach: Callable[[], float],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(viewer, parent)
        self._placing = True
        self._markers, self._reach = markers, reach

    @property
    def placing(self) -> bool:
        """Whether clicks place something."""
        return self._placing

    @placing.setter
    def placing(self, placing: bool) -> None:
        self._placing = placing
        self._front.changed.emit()

    def nudge(self, offset: Position) -> bool:
        """Move the chosen marker by an offset (z, y, x); returns whether there is one."""
        is_there = self.placing and len(self._markers()) > 0
        if is_there:
            self.nudged.emit(offset)
        return is_there

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def clicked(self, event: Any) -> None:
        """Do what a click that grabs no marker means."""
        raise NotImplementedError

    def target_of(self, event: Any, anchor: Position) -> Callable[[Any], Any]:
        """Return a function of a later event of the drag: where the marker that was at ``anchor`` is moved to."""
        raise NotImplementedError

    def may_begin(self) -> bool:
        """Whether a press means anything."""
        return True

    def may_grab(self, _event: Any) -> bool:
        """Whether a press on a marker grabs it."""
        return True

    # -- the mouse ------------------------------------------------------------------------------------------------

    def pressed(self, event: Any) -> Generator[None, None, None]:
        """Drag the marker under the mouse, or take the click."""
        if not self.may_begin():
            return
        marker = self._marker_under(event) if self.may_grab(event) else None
        if marker is not None:
            yield from self._drag(event, marker)
            return
        yield
        if event.type == "mouse_move":
            return  # the view is being moved
        self.clicked(event)

    def _drag(self, event: Any, marker: int) -> Generator[None, None, None]:
        self.grabbed.emit(marker)
        target = self.target_of(event, self._markers()[marker])
        moved = False
        camera = camera_of(self._viewer)
        could_pan, camera.mouse_pan = camera.mouse_pan, False
        try:
            yield
            while event.type == "mouse_move":
                moved = True
                self.dragged.emit(marker, target(event))
                yield
        finally:
            camera.mouse_pan = could_pan
        if moved:  # the last move may be some way before the release
            self.dropped.emit(marker, target(event))

    def _marker_under(self, event: Any) -> int | None:
        """The marker that is drawn where the mouse is; in 2-D only one that the slice cuts."""
        distances = [
            screen_distance(event, marker) if self._is_drawn(event, marker) else np.inf for marker in self._markers()
        ]
        nearest = int(np.argmin(distances)) if distances else -1
        return nearest if distances and distances[nearest] <= GRAB_PIXELS else None

    def _is_drawn(self, event: Any, marker: Position) -> bool:
        if event.view_direction is not None:
            return True
        first = len(event.position) - 3
        away = [marker[a] - event.position[first + a] for a in range(3) if first + a not in event.dims_displayed]
        return all(abs(distance) <= self._reach() for distance in away)

"""From a napari mouse event to a position in the world (z, y, x).

In 2-D the event's own position is the answer. In 3-D napari's position only lies somewhere on the ray through the
pixel: what was clicked is found by following the ray through a volume. Only napari's public interface is used.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from napari.layers import Image

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

"""What the viewer does when scans arrive: it shows them upright, in millimeters, and says what is tilted or left out.

Every viewer of the process is followed once a command of the plugin has been run: a reader, a sample or a panel.
"""

import sys
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.utils.notifications import Notification, NotificationSeverity, notification_manager
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried, grid_of, own_units, series_layer, stored_array, volume_layer
from napari_gpubio.core.space import is_oblique, tilt_degrees, world_axes_of
from napari_gpubio.core.world_aligned import WorldAligned
from napari_gpubio.gui.anatomy import BodyView
from napari_gpubio.gui.color_bars import add_color_bar
from napari_gpubio.gui.connections import Debouncer
from napari_gpubio.gui.foreign_files import ForeignFiles
from napari_gpubio.gui.front import Front, front_of
from napari_gpubio.gui.preferences import use_preferred_cache
from napari_gpubio.gui.units import SharedUnits

if TYPE_CHECKING:
    import napari.viewer

_PLANE_MOVERS = ("move_plane_along_normal", "set_plane_position")  # napari's names
_LOOK = ("name", "opacity", "blending", "visible", "metadata")
_IMAGE_LOOK = ("colormap", "contrast_limits", "gamma", "interpolation2d", "interpolation3d", "rendering")
_followed: dict[int, "_Arrivals"] = {}  # by the viewer's id; viewers compare all they hold


def on_activate(_: Any = None) -> None:
    """Follow the viewers that are open, and others as soon as their windows are used (napari's ``on_activate``)."""
    use_preferred_cache()
    _follow_open_viewers()
    application = QApplication.instance()
    if isinstance(application, QApplication):
        # later, since napari learns of it after Qt
        application.focusWindowChanged.connect(lambda _: QTimer.singleShot(0, _follow_open_viewers))


def _follow_open_viewers() -> None:
    napari = sys.modules.get("napari")
    current = None if napari is None else napari.current_viewer()
    if current is not None:
        for viewer in (current, *getattr(type(current), "_instances", ())):  # those in the background, if napari tells
            follow_scans(viewer)


def follow_scans(viewer: Any) -> None:
    """Show scans that are in a viewer, and those that arrive, upright and in mm; a second call does nothing."""
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy
    if id(viewer) not in _followed:
        _followed[id(viewer)] = _Arrivals(viewer)
        weakref.finalize(viewer, _forget, id(viewer))


def unfollow_scans(viewer: Any) -> None:
    """Change nothing in a viewer any more; what it shows stays as it is."""
    _forget(id(getattr(viewer, "__wrapped__", viewer)))


def _forget(viewer_id: int) -> None:
    if (arrivals := _followed.pop(viewer_id, None)) is not None:
        arrivals.cancel()


class _Arrivals:
    """Looks at each layer of a viewer once, and puts new images of ours below fibers, points and shapes."""

    def __init__(self, viewer: Any) -> None:
        self._viewer, self._front = weakref.proxy(viewer), front_of(viewer)
        self._seen: set[bytes] = set()  # affines
        self._new: list[Any] = []  # layers that have not been put in their places
        self._placing = Debouncer(self._place_new)  # later, since napari's list is not to be changed in its own event
        self._files = ForeignFiles(partial(_notify, NotificationSeverity.WARNING))
        for layer in viewer.layers:
            self._look_at(layer)
        self._body, self._units = BodyView(self._viewer), SharedUnits(self._viewer)
        viewer.layers.events.inserted.connect(self._on_inserted)
        viewer.mouse_wheel_callbacks.insert(0, step_slices)

    def cancel(self) -> None:
        """Change nothing any more."""
        self._placing.cancel()
        self._files.cancel()
        self._body.cancel()
        self._units.cancel()
        with suppress(ReferenceError):  # the viewer is gone
            self._viewer.layers.events.inserted.disconnect(self._on_inserted)
            self._viewer.mouse_wheel_callbacks.remove(step_slices)

    def _on_inserted(self, event: Any) -> None:
        self._look_at(event.value)
        self._new.append(event.value)
        self._placing.request()

    def _place_new(self) -> None:
        """Put images of ours that came to the top below what is drawn with lines and points, but above other images."""
        layers, new = self._viewer.layers, self._new
        self._new = []
        for layer in [layer for layer in new if layer in layers and _is_picture(layer) and KEY in layer.metadata]:
            place = now = layers.index(layer)
            while place and not _is_picture(layers[place - 1]):
                place -= 1
            if place < now and all(above in new for above in layers[now + 1 :]):  # else it has been put elsewhere
                layers.move(now, place)

    def _look_at(self, layer: Any) -> None:
        affine = carried(layer, "affine")
        if isinstance(layer, Image):
            layer.events.depiction.connect(partial(_guard_plane, self._front, layer))
            _guard_plane(self._front, layer)
            if KEY in layer.metadata:
                add_color_bar(layer)
        if affine is None:
            self._check_foreign(layer)
            self._files.look_at(layer)
        elif isinstance(layer.data, WorldAligned) and self._is_new(affine):
            _notify(
                NotificationSeverity.INFO,
                f"{layer.name} is tilted by {tilt_degrees(affine):.1f}° to the scanner's axes. Slices are cut along "
                "the scanner's axes (resampled for display only); computations, painting, and saved files use the "
                "scan's own voxels.",
            )

    def _is_new(self, affine: npt.NDArray[Any]) -> bool:
        key = np.round(np.asarray(affine, np.float64), 3).tobytes()
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _check_foreign(self, layer: Any) -> None:
        """Offer the remedy for a layer that napari draws displaced in 2-D."""
        if isinstance(layer, Image | Labels) and is_displaced(layer) and self._is_new(grid_of(layer)[0]):
            _notify(
                NotificationSeverity.WARNING,
                f"{layer.name} is rotated or sheared; napari draws it displaced in 2-D.",
                (("Show in register", lambda *_: show_in_register(self._viewer, layer)),),
            )


def step_slices(viewer: Any, event: Any) -> None:
    """Let Ctrl+wheel step the slices, where napari would step the volumes of a series, which come before them."""
    dims = viewer.dims
    hidden = [axis for axis in dims.not_displayed if axis >= dims.ndim - 3]
    if "Control" in event.modifiers and hidden and dims.last_used not in hidden:
        dims.last_used = hidden[0]


def _guard_plane(front: Front, layer: Any, _: Any = None) -> None:
    """Let napari move an image's plane with the mouse only where it can, and where no panel has the clicks."""
    for callbacks in (layer.mouse_drag_callbacks, layer.mouse_double_click_callbacks):
        for one in list(callbacks):
            if getattr(one, "__name__", "") in _PLANE_MOVERS:
                callbacks[callbacks.index(one)] = partial(_move_plane, front, one)
            elif getattr(one, "func", None) is _move_plane and layer.depiction != "plane":
                callbacks.remove(one)


def _move_plane(front: Front, move: Any, layer: Any, event: Any) -> Any:
    """What napari does, which has no place for the axes of a series."""
    is_ours = front.panel is not None and front.panel.takes_clicks
    return None if is_ours or layer.ndim != len(event.position) else move(layer, event)


def _is_picture(layer: Any) -> bool:
    """Whether a layer covers what lies below it."""
    return isinstance(layer, Image | Labels)


def is_displaced(layer: Any) -> bool:
    """Whether napari cannot slice an image or labels layer where it lies: rotated, sheared, or with swapped axes."""
    if layer.ndim < 3 or layer.multiscale or isinstance(layer.data, WorldAligned):
        return False
    affine = grid_of(layer)[0]
    return is_oblique(affine) or (carried(layer, "affine") is None and world_axes_of(affine) != (0, 1, 2))


def show_in_register(viewer: Any, layer: Any) -> Any:
    """Put a layer that shows the same volume where it lies in the place of a rotated one; returns it.

    Its voxels are resampled for display only; what is computed and saved uses the volume's own.

    Raises
    ------
    InvalidInput
        If the layer has more than four dimensions.
    """
    if layer not in viewer.layers:  # removed since the remedy was offered
        return None
    array, (affine, _) = np.asarray(stored_array(layer)), grid_of(layer)
    is_labels, rgb = isinstance(layer, Labels), bool(getattr(layer, "rgb", False))
    if array.ndim > 4:
        raise InvalidInput(f"layer {layer.name!r} has {array.ndim} dimensions; a series of volumes has four")
    if array.ndim == 4 and not rgb:
        data, keywords, kind = series_layer(array, affine, layer.name, layer.axis_labels[0])
    else:
        data, keywords, kind = volume_layer(array, affine, layer.name, kind="labels" if is_labels else "image")
    look = _LOOK if is_labels or rgb else _LOOK + _IMAGE_LOOK
    metadata = {**layer.metadata, **keywords["metadata"]}
    keywords |= {name: getattr(layer, name) for name in look} | {"metadata": metadata}
    place = viewer.layers.index(layer)
    viewer.layers.remove(layer)
    shown = viewer.add_labels(data, **keywords) if kind == "labels" else viewer.add_image(data, **keywords)
    viewer.layers.move(len(viewer.layers) - 1, place)
    return shown


def new_region(viewer: "napari.viewer.Viewer") -> Any:  # napari gives the viewer by this type
    """Add empty labels on the voxels of the selected scan, to be painted; returns the layer.

    Raises
    ------
    InvalidInput
        If no volume is selected.
    """
    scan = viewer.layers.selection.active
    if not isinstance(scan, Image | Labels) or scan.ndim < 3:
        raise InvalidInput("select the scan (an image of three or more dimensions) on which the region is to be drawn")
    affine, shape = grid_of(scan)
    data, keywords, _ = volume_layer(np.zeros(shape, np.uint8), affine, f"region on {scan.name}", kind="labels")
    if carried(scan, "affine") is None:
        keywords["units"] = own_units(scan)[-3:]
    layer = viewer.add_labels(data, **keywords)
    layer.mode = "paint"
    return layer


def _notify(severity: Any, message: str, actions: Any = ()) -> None:
    notification_manager.dispatch(Notification(message, severity, actions))

"""Left and right: how the viewer shows them, and the choice in a panel.

napari counts axes z, y, x, so a volume in world axes is drawn mirrored unless its camera is set. The view is a choice
of the user and belongs to the whole viewer; arrays are never flipped.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QObject
from qtpy.QtWidgets import QFormLayout, QHBoxLayout, QLineEdit, QWidget

from napari_gpubio.gui.connections import Connections, single_shot
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import text_button

VIEWS: dict[str, tuple[str, str, str]] = {
    "neurological": ("towards", "up", "right"),
    "radiological": ("away", "up", "left"),
}
VIEW_HELP = {
    "neurological": "the patient's left is on the left, as seen from behind or above",
    "radiological": "the patient's left is on the right, as seen from the front or below",
}


def camera_of(viewer: Any) -> Any:
    """Return the viewer's camera; napari 0.9 moved it into the scene."""
    scene = getattr(viewer, "scene", None)
    return viewer.camera if scene is None else scene.camera


def view_of(viewer: Any) -> str | None:
    """Return the name of the view that is set, or None if it is a mirrored one."""
    now = tuple(str(getattr(o, "value", o)) for o in camera_of(viewer).orientation)
    return next((name for name, orientation in VIEWS.items() if orientation == now), None)


def set_view(viewer: Any, name: str) -> None:
    """Show left and right in a named way; see `VIEWS`."""
    camera_of(viewer).orientation = VIEWS[name]


_NEARLY = 0.1  # by how much sliders that came below the canvas change the zoom that fits


def fit_unmoved(viewer: Any) -> bool:
    """Fit layers to the canvas (in 2-D) unless somebody has moved them, since they came; returns whether that was done.

    A drag moves the center, and so does the wheel, which enlarges about the mouse.
    """
    camera = camera_of(viewer)
    center, zoom = camera.center, camera.zoom
    if viewer.dims.ndisplay != 2 or not len(viewer.layers):
        return False
    viewer.reset_view(reset_camera_angle=False)
    if np.allclose(center, camera.center) and abs(zoom / camera.zoom - 1) < _NEARLY:
        return True
    camera.center, camera.zoom = center, zoom
    return False


LINKED_VIEWS, VIEWS_KEY = "Linked views", "Alt-V"
_MIRRORED = "mirrored (napari's default)"


class ViewBox(QWidget):
    """Shows whether the view is neurological, radiological or mirrored, changes it, and opens the linked views.

    What it changed is as before when its panel is closed, unless something else has changed it since.
    """

    keeps_controls = False  # for undo: they are about the view

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._chosen: str | None = None  # in this list
        self._before: tuple[Any, ...] = ()  # the orientation that the first choice replaced
        tip = "\n".join(f"{name}: {text}" for name, text in VIEW_HELP.items())
        entries = {None: _MIRRORED} | {name: name for name in VIEWS}
        self._box = ElidedComboBox(self, characters=6, entries=entries, tip=tip)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        row = QHBoxLayout()
        row.addWidget(self._box, 1)
        if hasattr(viewer, "window"):
            tip = f"Axial, coronal, and sagittal slices beside the canvas, or none ({VIEWS_KEY})"
            self.linked_views = text_button(LINKED_VIEWS, tip, self, lambda: toggle_linked_views(viewer))
            row.addWidget(self.linked_views)
        form.addRow("Left–right", row)
        self._box.activated.connect(self._on_chosen)
        self._connections = Connections(lambda: [(camera_of(viewer).events.orientation, self._show)], self._show)

    def attach(self) -> None:
        """Follow the camera; after a closing that was cancelled, with the view that was chosen."""
        if self._chosen is not None and not self._before:
            self._set(self._chosen)
        self._connections.attach()

    def detach(self) -> None:
        """Stop following the camera, and give it back the orientation that it had."""
        self._connections.detach()
        if self._before and view_of(self._viewer) == self._chosen:
            camera_of(self._viewer).orientation = self._before
        self._before = ()

    def _set(self, name: str) -> None:
        self._before = self._before or tuple(camera_of(self._viewer).orientation)
        self._chosen = name
        set_view(self._viewer, name)

    def _show(self, *_: Any) -> None:
        self._box.setCurrentIndex(self._box.findData(view_of(self._viewer)))

    def _on_chosen(self, *_: Any) -> None:
        name = self._box.currentData()
        if name is not None:
            self._set(name)
        self._show()


def toggle_linked_views(viewer: Any) -> None:
    """Open the dock widget "Linked views", or close it."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    dock = viewer.window.dock_widgets.get(f"{LINKED_VIEWS} (napari-gpubio)")
    if dock is None:
        viewer.window.add_plugin_dock_widget("napari-gpubio", LINKED_VIEWS)
    else:
        viewer.window.remove_dock_widget(dock)


def fit_slider_labels(window: QWidget) -> None:
    """Make room in napari's window for the names of axes beside the sliders, after layers with named axes were added.

    napari makes the room when it makes a slider, which may be before the layer that names the axis was there.
    """
    for label in window.findChildren(QLineEdit, "axis_label"):
        label.textChanged.emit(label.text())


def show_slices_at(viewer: Any, position: npt.ArrayLike) -> None:
    """Move the slices to a viewer position (z, y, x); further axes in front stay.

    Sliders stop at whole steps. A position between two is moved there at once, else everything would be drawn twice.
    """
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy hides what slices the layers
    dims = viewer.dims
    axes = list(range(dims.ndim - 3, dims.ndim))
    point = np.where(np.isin(axes, dims.displayed), position, on_steps(dims, position))
    if np.array_equal(dims.point[-3:], point):
        return
    slice_layers = getattr(viewer, "_update_layers", None)
    with ExitStack() as blockers:
        # in 3-D every slice stays, but napari would upload all volumes again
        if slice_layers is not None and set(axes) == set(dims.displayed):
            for event in (dims.events.point, dims.events.current_step):
                blockers.enter_context(event.blocker(slice_layers))
        dims.set_point(axes, point.tolist())


def on_steps(dims: Any, position: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the place next to a viewer position (z, y, x) at which the sliders of all three axes can stop."""
    starts, _, steps = np.transpose(dims.range[-3:])
    return starts + steps * np.round((np.asarray(position, np.float64) - starts) / steps)


def show_as_plane(layer: Any, position: npt.ArrayLike, axis: int) -> None:
    """Show an image layer in 3-D as the plane through a viewer position, across an axis of (z, y, x).

    The position has as many axes as the layer, (..., z, y, x).
    """
    ahead = np.array(position, np.float64)
    ahead[axis - 3] += 1.0
    origin, ahead = (np.asarray(layer.world_to_data(place))[-3:] for place in (position, ahead))
    layer.depiction = "plane"
    layer.plane.position = tuple(origin.tolist())
    layer.plane.normal = tuple(((ahead - origin) / np.linalg.norm(ahead - origin)).tolist())
    layer.plane.thickness = 1


class SliceGuide(QObject):
    """Moves the slices to a place, and in 3-D once more when the view is in 2-D again: napari sets them anew then.

    ``place`` returns the viewer position (z, y, x) to be shown, or None.
    """

    def __init__(self, viewer: Any, place: Callable[[], npt.ArrayLike | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._place = viewer, place
        self._goes_later = False
        self._connections = Connections(lambda: [(viewer.dims.events.ndisplay, self._on_ndisplay)])
        self.attach = self._connections.attach
        self._later = single_shot(0, self.go, self)  # napari emits no event for slices set while it changes the view

    def go(self) -> None:
        """Move the slices to the place, if there is one."""
        position = self._place()
        if position is not None:
            show_slices_at(self._viewer, position)
            self._goes_later = self._viewer.dims.ndisplay == 3

    def detach(self) -> None:
        """Stop following the viewer."""
        self._connections.detach()
        self._later.stop()

    def _on_ndisplay(self, *_: Any) -> None:
        if self._goes_later and self._viewer.dims.ndisplay == 2:
            self._later.start()

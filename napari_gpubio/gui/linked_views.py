"""Axial, coronal and sagittal slices beside napari's own canvas, with one crosshair in millimeters.

Each pane is a viewer model with a canvas of napari's. Its layers are copies that share the arrays of the main viewer's
layers and follow their settings; what is painted in a pane is painted in the layer itself.
"""

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.qt import QtViewer
from napari.utils.action_manager import action_manager
from qtpy.QtCore import QSize, Qt
from qtpy.QtWidgets import QSplitter, QVBoxLayout, QWidget
from vispy.gloo.glir import GlirObject

from napari_gpubio.gui.anatomy import show_letters
from napari_gpubio.gui.canvas_keys import bind_canvas_keys
from napari_gpubio.gui.connections import Connections, single_shot
from napari_gpubio.gui.crosshair import hide_crosshair, show_crosshair
from napari_gpubio.gui.docking import CloseGuard, share_place
from napari_gpubio.gui.forms import muted_label
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.linked_layer import LinkedLayer
from napari_gpubio.gui.picking import is_edited
from napari_gpubio.gui.turns import Turns
from napari_gpubio.gui.views import VIEWS, camera_of, on_steps, show_as_plane, show_slices_at, view_of

if TYPE_CHECKING:
    import napari.viewer

ORDERS = {"axial": (0, 1, 2), "coronal": (1, 0, 2), "sagittal": (2, 0, 1)}
_QUICK_S, _REST_MS = 0.1, 150  # what the main view may take before it waits until the mouse rests
_SIZE = QSize(400, 720)
_LOOKS = (-0.45, 0.8, 0.4)  # the 3-D view, along (z, y, x): from above, behind and the left, so that left is left


class SlicePane(QWidget):
    """One slice through the layers of the main viewer."""

    def __init__(self, main: Any, name: str, go: Callable[[Any], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = name
        self._go = go
        self.model = ViewerModel(title=name)
        self._main = main
        self._linked: dict[Any, LinkedLayer] = {}
        with action_manager.events.shortcut_changed.blocker():  # else every welcome page lists them anew, for each
            self.view = QtViewer(self.model)
        self.view.dims.setVisible(False)
        for event in self.model.dims.events:  # else hidden sliders are moved, which takes longer than the slices
            self.model.dims.events[event].disconnect(self.view.dims)
        self._fitted_zoom = camera_of(self.model).zoom
        self._fit_later = single_shot(0, self._fit, self)  # when the canvas has its new size, too
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self.waiting = muted_label(self, f"Linked views: drawing {self.name} …")
        layout.addWidget(self.waiting)
        layout.addWidget(self.view)
        show_letters(self.model)
        show_crosshair(self.model)
        self.model.mouse_drag_callbacks.append(self._on_press)
        bind_canvas_keys(main).bind_arrows(self.model)
        events = main.layers.events
        self._connections = Connections(
            lambda: [
                (events.inserted, lambda event: self._add(event.value)),
                (events.removed, lambda event: self._remove(event.value)),
                (events.reordered, lambda _: self._sort()),
                (main.layers.selection.events.active, self._follow_active),
                (main.dims.events.point, self.follow),
                (camera_of(main).events.orientation, self._follow_orientation),
            ]
        )

    def attach(self) -> Generator[None, None, None]:
        """Follow the main viewer, and show its layers one by one."""
        self._connections.attach()
        for layer in list(self._main.layers):
            if layer in self._main.layers:
                self._add(layer)
                yield
        self._follow_active()
        self._follow_orientation()
        self.follow()
        self._fit()
        self.waiting.hide()

    def resizeEvent(self, event: Any) -> None:
        """Qt: the pane has another size; what was seen whole stays so."""
        super().resizeEvent(event)
        if camera_of(self.model).zoom == self._fitted_zoom:
            self._fit_later.start()

    def detach(self) -> None:
        """Let the layers go."""
        self._connections.detach()
        self._fit_later.stop()
        for linked in self._linked.values():
            linked.detach()
        self._linked.clear()
        self.model.layers.clear()  # all at once: for each layer that goes by itself napari collects garbage
        self._free_graphics()

    def _free_graphics(self) -> None:
        """Delete the pane's programs, textures, and buffers.

        Qt shares them among all canvases of a window, so they would stay when the pane's own context goes.
        """
        canvas = self.view.canvas.view.canvas
        if not canvas.native.isValid():  # nothing was drawn yet
            return
        canvas.set_current()
        canvas.context.flush_commands()
        objects = canvas.context.shared.parser._objects
        for one in objects.values():
            if isinstance(one, GlirObject):  # others are marks of what has just been deleted
                one.delete()
        objects.clear()
        canvas.native.doneCurrent()

    def follow(self, *_: Any) -> None:
        """Show the slice through the main viewer's point."""
        self.show_point(self._main.dims.point)

    def show_point(self, point: Any) -> None:
        """Show the slice through a viewer position (..., z, y, x)."""
        dims = self.model.dims
        if not self._linked or min(dims.ndim, len(point)) < 3:
            return
        further = min(dims.ndim, len(point)) - 3
        if further > 0:
            dims.set_point(range(dims.ndim - 3 - further, dims.ndim - 3), list(point)[-3 - further : -3])
        show_slices_at(self.model, list(point)[-3:])

    def _add(self, layer: Any) -> None:
        if layer.ndim < 3 or layer in self._linked:
            return
        first = not self._linked
        self._linked[layer] = LinkedLayer(layer, self._main, self)
        self.model.add_layer(self._linked[layer].copy)
        self._sort()
        spatial = np.array(ORDERS[self.name]) + self.model.dims.ndim - 3
        self.model.dims.order = (*range(self.model.dims.ndim - 3), *spatial.tolist())
        self.follow()
        if first:
            self._fit()

    def _fit(self) -> None:
        self.model.reset_view()
        self._fitted_zoom = camera_of(self.model).zoom

    def _remove(self, layer: Any) -> None:
        linked = self._linked.pop(layer, None)
        if linked is not None:
            linked.detach()
            self.model.layers.remove(linked.copy)

    def _sort(self) -> None:
        """Put the copies in the order of their layers."""
        wanted = [self._linked[layer].copy for layer in self._main.layers if layer in self._linked]
        for place, copy in enumerate(wanted):
            if self.model.layers[place] is not copy:
                self.model.layers.move(self.model.layers.index(copy), place)

    def _follow_active(self, *_: Any) -> None:
        """Select the copy of the selected layer: its tools are the mouse's."""
        linked = self._linked.get(self._main.layers.selection.active)
        self.model.layers.selection.active = None if linked is None else linked.copy

    def _follow_orientation(self, *_: Any) -> None:
        camera_of(self.model).orientation = VIEWS[view_of(self._main) or "neurological"]

    # -- the mouse ------------------------------------------------------------------------------------------------

    def _on_press(self, model: Any, event: Any) -> Generator[None, None, None]:
        """Take the press for the main viewer's tools (a seed, a source, a marker), and move the crosshair."""
        active = self._linked.get(self._main.layers.selection.active)
        if event.button != 1 or (active is not None and is_edited(active.copy)):
            return
        camera, main_camera = camera_of(model), camera_of(self._main)
        could_pan, main_could_pan = camera.mouse_pan, main_camera.mouse_pan
        camera.mouse_pan = False
        tools = [tool for press in self._main.mouse_drag_callbacks if (tool := press(self._main, event)) is not None]
        try:
            tools = _advanced(tools)
            grabbed = main_could_pan and not main_camera.mouse_pan  # a tool that drags a marker holds the camera
            moves = not grabbed and not event.modifiers
            if moves:
                self._go(event.position)
            yield
            while event.type == "mouse_move":
                tools = _advanced(tools)
                if moves:
                    self._go(event.position)
                yield
            _advanced(tools)
        finally:
            camera.mouse_pan = could_pan


class Backdrop:
    """Shows the images of the main viewer's 3-D view as planes through its point; a volume hides the rest.

    A volume becomes a plane across z; what was a plane already keeps its normal.
    """

    def __init__(self, main: Any) -> None:
        self._main = main
        self._before: dict[Any, tuple[str, tuple[float, ...]]] = {}  # depiction, and position of the plane
        self._connections = Connections(
            lambda: [(main.dims.events.point, self.follow), (main.layers.events.inserted, self.follow)], self.follow
        )
        self.attach = self._connections.attach

    def follow(self, *_: Any) -> None:
        """Put the planes where the crosshair is."""
        for layer in self._main.layers:
            if not isinstance(layer, Image) or layer.ndim < 3:
                continue
            depiction, _ = self._before.setdefault(layer, (str(layer.depiction), tuple(layer.plane.position)))
            place = [*[0.0] * (layer.ndim - 3), *self._main.dims.point[-3:]]
            if depiction == "volume":
                show_as_plane(layer, place, 0)
            else:
                layer.plane.position = tuple(np.asarray(layer.world_to_data(place))[-3:].tolist())

    def detach(self) -> None:
        """Show the images as they were shown before."""
        self._connections.detach()
        for layer, (depiction, position) in self._before.items():
            layer.depiction, layer.plane.position = depiction, position
        self._before.clear()


class LinkedViews(QSplitter):
    """The dock widget "Linked views": three panes, beside which the viewer's own canvas shows the same in 3-D."""

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Vertical, parent)
        self.panes: dict[str, SlicePane] = {}
        self._main = getattr(viewer, "__wrapped__", viewer)  # napari's proxy hides what a canvas needs
        self._backdrop, self._turns = Backdrop(self._main), Turns(self)
        self._point: Any = None
        self._is_main_slow = False
        self._main_later = single_shot(_REST_MS, self._move_main_alone, self)
        self._panes_drawn = single_shot(0, self._on_panes_drawn, self)
        self._main_drawn = single_shot(0, self._on_main_drawn, self)
        self._began, self._panes_s = 0.0, 0.0
        self._guard = CloseGuard(self)
        self._guard.closing.connect(self.detach)
        self._guard.stayed.connect(self.attach)
        self._docked = single_shot(0, lambda: share_place(self, as_tab=False), self)
        self._was_shown = False
        self.attach()
        self._main.dims.ndisplay = 3
        self._main.reset_view()
        camera_of(self._main).set_view_direction(_LOOKS, (1.0, 0.0, 0.0))

    def sizeHint(self) -> QSize:
        """Qt: how large the dock is at first."""
        return _SIZE

    def showEvent(self, event: Any) -> None:
        """Qt: it is docked by the time that it is shown first."""
        super().showEvent(event)
        if not self._was_shown:
            self._was_shown = True
            self._docked.start()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size; the panes stand in a column, or in a row where they lie below the canvas."""
        super().resizeEvent(event)
        is_wide = self.width() > self.height()
        self.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)

    def attach(self) -> None:
        """Make the panes, show the layers and follow the main viewer."""
        if self.panes:
            return
        show_letters(self._main)
        show_crosshair(self._main)
        self._backdrop.attach()
        self._turns.begin(self._made_panes(), front_of(self._main).changed.emit)  # whose the keys are

    def _made_panes(self) -> Generator[None, None, None]:
        for name in ORDERS:
            self.panes[name] = SlicePane(self._main, name, self.go, self)
            self.addWidget(self.panes[name])
            yield
            yield from self.panes[name].attach()

    @property
    def is_ready(self) -> bool:
        """Whether the panes show all layers; one after the other they take napari a while."""
        return not self._turns.is_under_way

    def detach(self) -> None:
        """Let everything go."""
        self._turns.end()
        self._panes_drawn.stop()
        self._main_later.stop()
        self._backdrop.detach()
        hide_crosshair(self._main)
        front_of(self._main).changed.emit()
        for pane in self.panes.values():
            pane.detach()
            pane.view.close()
            pane.deleteLater()
        self.panes.clear()

    # -- the crosshair ------------------------------------------------------------------------------------------------

    def go(self, position: Any) -> None:
        """Move the crosshair to a viewer position (..., z, y, x): in the panes at once, then in the main viewer.

        Where the main view takes long to draw, as many fibers in 3-D do without a graphics card, it follows when the
        mouse rests.
        """
        self._point, self._began = on_steps(self._main.dims, position[-3:]), time.perf_counter()
        for pane in self.panes.values():
            pane.show_point(self._point)
        if self._is_main_slow:
            self._main_later.stop()
            self._panes_drawn.start()
        else:
            self._move_main()

    def _move_main(self) -> None:
        show_slices_at(self._main, self._point)
        self._main_drawn.start()

    def _on_panes_drawn(self) -> None:
        """Qt draws before timers of 0 ms are due."""
        self._panes_s = time.perf_counter() - self._began
        self._main_later.start()

    def _move_main_alone(self) -> None:
        self._began = time.perf_counter()
        self._move_main()

    def _on_main_drawn(self) -> None:
        with_panes = 0.0 if self._is_main_slow else self._panes_s
        self._is_main_slow = time.perf_counter() - self._began - with_panes > _QUICK_S


def _advanced(tools: list[Any]) -> list[Any]:
    """The tools that are still busy after their next step."""
    busy = []
    for tool in tools:
        try:
            next(tool)
        except StopIteration:
            continue
        busy.append(tool)
    return busy

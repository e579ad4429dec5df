"""Seeds with the mouse: click to place, drag to move, click a fiber to pick it; in 2-D and 3-D."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.diffusion.gui.source import NO_TENSORS, Trackable
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.fibers.gui.bundles import BundleList, Position
from napari_gpubio.fibers.gui.fiber_display import MARKER_DIAMETER_MM, FiberDisplay, key_of
from napari_gpubio.fibers.gui.inputs import SeedBox
from napari_gpubio.fibers.seeds import check_seed
from napari_gpubio.gui import picking
from napari_gpubio.gui.connections import Connections, Follower, connect_all
from napari_gpubio.gui.layers import LayerListener
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.views import SliceGuide
from napari_gpubio.tractograms.gui.fibers import fibers_of

MISSED = "There are no tensors where you clicked; click in the brain."


class SeedTool(picking.MarkerTool):
    """Turns mouse events of a viewer into seeds; positions are viewer positions (z, y, x).

    ``markers`` gives the positions of the seeds that can be grabbed, (S, 3); ``target`` the clicked layer, or None.
    """

    seed_clicked = Signal(object, bool)  # position, whether to start a new bundle
    fiber_clicked = Signal(object, object)  # layer, fiber
    missed = Signal()

    def __init__(
        self,
        viewer: Any,
        markers: Callable[[], picking.Position],
        target: Callable[[], Any],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(viewer, markers, lambda: MARKER_DIAMETER_MM / 2, parent)
        self._target = target

    @property
    def hint(self) -> str:
        """What clicks do."""
        seeds = "Click: seed · Shift+click: bundle · " if self.placing else ""
        return f"{seeds}Ctrl+click: numbers"

    def may_grab(self, event: Any) -> bool:
        """A seed, unless the click picks a fiber."""
        return self.placing and "Control" not in event.modifiers

    def clicked(self, event: Any) -> None:
        """Report where a seed belongs, or the fiber that was picked."""
        if not self.may_grab(event):
            if (found := picking.fiber_under(self._viewer, event)) is not None:
                self.fiber_clicked.emit(*found)
            return
        layer, position = self._target(), None
        if layer is not None:
            shows_maximum = "mip" in str(getattr(layer, "rendering", "mip"))
            mode: Literal["first", "maximum"] = "maximum" if shows_maximum else "first"
            position = picking.clicked_position(event, layer, mode=mode)
        if position is None:
            self.missed.emit()
        else:
            self.seed_clicked.emit(position, "Shift" in event.modifiers)

    def target_of(self, _event: Any, anchor: picking.Position) -> Callable[[Any], picking.Position]:
        """A seed is moved in the slice, or on the plane that faces the viewer."""
        return lambda later: picking.drag_on_plane(later, anchor)


class SeedController(QObject, Follower):
    """Keeps the bundles in step with the mouse, the list in the panel and the layers on screen.

    ``source`` gives the scan or the tensors that seeds belong to, ``target`` the layer that a click means, or None.
    """

    seed_placed = Signal()
    seed_dragged = Signal(object)  # the bundle as it is being dragged
    bundle_duplicated = Signal(object)  # the layer of the copied fibers, or None if there were none to copy
    bundles_changed = Signal()
    fibers_chosen = Signal(object)  # a layer of fibers that is no bundle, in napari's list of layers
    error_occurred = Signal(str)
    kept = ("bundles",)

    def __init__(
        self,
        box: SeedBox,
        bundles: BundleList,
        display: FiberDisplay,
        source: Callable[[], Trackable | None],
        target: Callable[[], Any],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._box, self._bundles, self._display, self._source = box, bundles, display, source
        tool = self.tool = SeedTool(display.viewer, self._marker_positions, target, self)
        connect_all(
            (
                (tool.seed_clicked, self._place_seed_on_screen),
                (tool.missed, lambda: self.error_occurred.emit(NO_TENSORS if source() is None else MISSED)),
                (tool.grabbed, self._grab),
                (tool.nudged, self._nudge),
                (tool.dragged, lambda _, position: self._drag(position)),
                (tool.dropped, lambda _, position: self._place_seed_on_screen(position, new=False)),
                (box.placing.toggled, functools.partial(setattr, tool, "placing")),
                (box.names.currentRowChanged, self._choose),
                (box.names.itemChanged, lambda item: self._rename(item.text())),
                (box.add.clicked, self._add),
                (box.remove.clicked, self._remove),
                (box.duplicate.clicked, self._duplicate),
            )
        )
        active = Connections(lambda: [(display.viewer.layers.selection.events.active, self._follow_active)])
        listener = LayerListener(
            display.viewer, lambda layer: isinstance(layer, Streamlines), layers_changed=self._follow_names
        )
        self.guide = SliceGuide(display.viewer, self._seed_on_screen, self)
        self.followers = (tool, listener, active, self.guide)

    def place_seed(self, center_mm: Position, *, new: bool = False) -> None:
        """Put the current bundle's seed (or a new one's) at a world position in mm, and report it.

        Raises
        ------
        InvalidInput
            If there are tensors, and none at that position.
        """
        source = self._source()
        if source is not None and not isinstance(source, DiffusionScan):
            check_seed(source, center_mm)
        if new or self._bundles.current is None:
            self._bundles.add(center_mm)
        else:
            self._bundles.move(center_mm)
        self._box.seed_from_click()
        if source is not None:
            self.guide.go()
        self.refresh()
        self.seed_placed.emit()

    def attach(self) -> None:
        """Take part in what happens in the viewer, and take over the bundles of a panel that was closed."""
        known = {bundle.key for bundle in self._bundles}
        self._bundles.adopt(b for b in self._display.bundles_on_screen() if b.key not in known)
        super().attach()

    def refresh(self, *, adds_markers: bool = True) -> None:
        """Show the bundles in the list, as markers (those that were deleted stay away if so wanted) and as layers."""
        self._box.list_bundles(self._bundles, self._display.settings_of)
        self._display.follow_bundles()
        self._display.set_markers(list(self._bundles), self._source(), adds=adds_markers)
        self.bundles_changed.emit()

    def _marker_positions(self) -> Any:
        source = self._source()
        if source is None or not len(self._bundles):
            return []
        return world_to_viewer([b.center_mm for b in self._bundles])

    def _seed_on_screen(self) -> Any | None:
        """Where the current seed is on screen."""
        current = self._bundles.current
        return None if current is None else world_to_viewer(current.center_mm)

    def _world(self, position: Any) -> Position:
        source = self._source()
        if source is None:
            raise InvalidInput(NO_TENSORS)
        x, y, z = viewer_to_world(position)
        return float(x), float(y), float(z)

    # -- what the user does ---------------------------------------------------------------------------------------

    def _place_seed_on_screen(self, position: Any, new: bool) -> None:
        try:
            self.place_seed(self._world(position), new=new)
        except GpuBioError as error:
            self.refresh()  # a marker that was dragged there goes back
            self.error_occurred.emit(str(error))

    def _grab(self, index: int) -> None:
        self._box.seed_from_click()
        current = self._bundles.current
        if current is None or current.center_mm != list(self._bundles)[index].center_mm:
            self._choose(index)  # of seeds that lie on each other, as those of duplicates do, the current one is meant

    def _drag(self, position: Any) -> None:
        source, current = self._source(), self._bundles.current
        if source is None or current is None:
            return
        moved = dataclasses.replace(current, center_mm=self._world(position))
        self._display.set_markers([moved if b is current else b for b in self._bundles], source)
        self.seed_dragged.emit(moved)

    def _nudge(self, offset: picking.Position) -> None:
        if (current := self._bundles.current) is not None:
            self._place_seed_on_screen(world_to_viewer(current.center_mm) + offset, new=False)

    @property
    def bundles(self) -> Any:
        """The bundles as undo keeps them."""
        return self._bundles.kept

    @bundles.setter
    def bundles(self, kept: Any) -> None:
        self._bundles.kept = kept

    def show_kept(self) -> None:
        """Show bundles that undo has brought back."""
        self.refresh()

    def _choose(self, index: int) -> None:
        self._bundles.choose(index)
        self.refresh(adds_markers=False)

    def _rename(self, name: str, key: object = None) -> None:
        bundle = self._bundles.current if key is None else self._bundles.find(key)
        if bundle is None or bundle.name == name:
            return
        try:
            self._bundles.rename(name, bundle.key)
        except InvalidInput as error:
            self.error_occurred.emit(str(error))
        self.refresh(adds_markers=False)

    def _follow_active(self, *_: Any) -> None:
        """Choose the bundle whose layer was chosen in napari's list of layers."""
        layer = self._display.viewer.layers.selection.active
        if not self._display.is_adding and fibers_of(layer) is not None:
            self.choose_layer(layer)

    def choose_layer(self, layer: Any) -> None:
        """Choose the bundle of a layer of fibers, or report one that is of none."""
        keys: list[object] = [bundle.key for bundle in self._bundles]
        if key_of(layer) in keys:
            self._choose(keys.index(key_of(layer)))
        else:
            self.fibers_chosen.emit(layer)

    def _follow_names(self) -> None:
        """Give a bundle the name that its layer was given in napari's list of layers."""
        for bundle in list(self._bundles):
            layer = self._display.fiber_layer(bundle.key)
            if layer is not None:
                self._rename(layer.name, bundle.key)

    def _add(self) -> None:
        """Put a new bundle at the middle of what is shown; the user then drags it or clicks."""
        self._place_seed_on_screen(np.asarray(self._display.viewer.dims.point)[-3:], new=True)

    def _remove(self) -> None:
        self._bundles.remove()
        self.refresh()

    def _duplicate(self) -> None:
        """Start a bundle with the same seed and fibers, for other settings."""
        original = self._bundles.current
        copy = self._bundles.duplicate()
        if original is None or copy is None:
            return
        layer = self._display.copy_fibers(original.key, copy)
        self.refresh()
        self.bundle_duplicated.emit(layer)

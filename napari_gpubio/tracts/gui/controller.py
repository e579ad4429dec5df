"""Keeps named seeds in step with the mouse, the list in the panel and the layers on screen."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.views import show_slices_at
from napari_gpubio.tracts.gui.bundles import BundleList
from napari_gpubio.tracts.gui.inputs import SeedBox
from napari_gpubio.tracts.gui.layers import BundleLayers
from napari_gpubio.tracts.gui.request import Position
from napari_gpubio.tracts.gui.seed_tool import SeedTool
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.seeds import check_seed

NO_TENSORS = "there are no tensors; open a diffusion scan, or File › Open Sample › napari-gpubio"
MISSED = "The click met no voxel of the tensors; click in the brain."


class SeedController(QObject):
    """Keeps bundles, markers and the list in step, and reports where a seed was placed.

    Parameters
    ----------
    viewer
        The napari viewer.
    box
        The list of bundles in the panel.
    source
        Gives the scan or the tensors that seeds belong to, or None.
    target
        Gives the layer whose volume a click means, or None.
    """

    seed_placed = Signal()  # or its move was undone: its fibers have to be traced
    seed_moved = Signal(object)  # the bundle as it is being dragged
    bundles_changed = Signal()
    error_occurred = Signal(str)

    def __init__(
        self,
        viewer: Any,
        box: SeedBox,
        source: Callable[[], DiffusionScan | TensorField | None],
        target: Callable[[], Any],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.bundles = BundleList(theme.REGIONS)
        self.layers = BundleLayers(viewer)
        self.tool = SeedTool(viewer, self._marker_positions, target, self)
        self._viewer, self._box, self._source = viewer, box, source
        self._connect()

    def move_seed(self, center_mm: Position, *, new: bool = False) -> None:
        """Put the current bundle's seed (or a new one's) at a world position in mm, and report it.

        Raises
        ------
        InvalidInput
            If there are tensors, and none at that position.
        """
        source = self._source()
        if isinstance(source, TensorField):
            check_seed(source, center_mm)
        if new or self.bundles.current is None:
            self.bundles.add(center_mm)
        else:
            self.bundles.move(center_mm)
        self._box.seed_from_click()
        self._move_slices(center_mm)
        self.refresh()
        self.seed_placed.emit()

    def seed_position(self) -> Any | None:
        """Viewer position (z, y, x) of the current seed, or None."""
        source, current = self._source(), self.bundles.current
        if source is None or current is None:
            return None
        return world_to_viewer(current.center_mm, source.affine, source.shape)

    def refresh(self) -> None:
        """Show the bundles in the list, as markers and as layers."""
        self._box.list_bundles(self.bundles)
        self.layers.rename_and_remove(self.bundles)
        self._move_markers([b.center_mm for b in self.bundles])
        self.bundles_changed.emit()

    def attach(self) -> None:
        """Listen to the mouse."""
        self.tool.attach()

    def detach(self) -> None:
        """Stop listening to the mouse."""
        self.tool.detach()

    def _connect(self) -> None:
        tool, box = self.tool, self._box
        connect_all(
            (
                (tool.placed, self._on_placed),
                (tool.grabbed, self._on_grabbed),
                (tool.dragged, lambda _, position: self._on_dragged(position)),
                (tool.dropped, lambda _, position: self._on_placed(position, new=False)),
                (tool.missed, self._on_missed),
                (box.placing_changed, self._on_placing),
                (box.chosen, self._on_chosen),
                (box.renamed, self._on_renamed),
                (box.add_clicked, self._on_add),
                (box.remove_clicked, self._on_remove),
                (box.undo_clicked, self._on_undo),
            )
        )

    # -- where things are -----------------------------------------------------------------------------------------

    def _world(self, position: Any) -> Position:
        source = self._source()
        if source is None:
            raise InvalidInput(NO_TENSORS)
        x, y, z = viewer_to_world(position, source.affine, source.shape)
        return float(x), float(y), float(z)

    def _marker_positions(self) -> Any:
        source = self._source()
        if source is None or not len(self.bundles):
            return []
        return world_to_viewer([b.center_mm for b in self.bundles], source.affine, source.shape)

    def _move_markers(self, centers_mm: list[Position]) -> None:
        source = self._source()
        if source is not None:
            self.layers.set_markers(list(self.bundles), centers_mm, source)

    def _move_slices(self, center_mm: Position) -> None:
        """Move the slices on screen to a world position."""
        source = self._source()
        if source is not None:
            show_slices_at(self._viewer, world_to_viewer(center_mm, source.affine, source.shape))

    # -- what the user does ---------------------------------------------------------------------------------------

    def _on_placed(self, position: Any, new: bool) -> None:
        try:
            self.move_seed(self._world(position), new=new)
        except GpuBioError as error:
            self.refresh()  # a marker that was dragged there goes back
            self.error_occurred.emit(str(error))

    def _on_missed(self) -> None:
        self.error_occurred.emit(NO_TENSORS if self._source() is None else MISSED)

    def _on_grabbed(self, index: int) -> None:
        self._box.seed_from_click()
        self._on_chosen(index)

    def _on_dragged(self, position: Any) -> None:
        current = self.bundles.current
        if self._source() is None or current is None:
            return
        moved = dataclasses.replace(current, center_mm=self._world(position))
        centers = [b.center_mm for b in self.bundles]
        centers[self.bundles.current_index] = moved.center_mm
        self._move_markers(centers)
        self.seed_moved.emit(moved)

    def _on_placing(self, placing: bool) -> None:
        self.tool.placing = placing

    def _on_chosen(self, index: int) -> None:
        self.bundles.choose(index)
        self.refresh()

    def _on_renamed(self, name: str) -> None:
        was = self.bundles.current
        if was is None or was.name == name:
            return
        try:
            self.bundles.rename(name)
        except InvalidInput as error:
            self.error_occurred.emit(str(error))
        self.refresh()

    def _on_add(self) -> None:
        """Put a new bundle at the middle of what is shown; the user then drags it or clicks."""
        self._on_placed(np.asarray(self._viewer.dims.point)[-3:], new=True)

    def _on_remove(self) -> None:
        if self.bundles.current is not None:
            self.bundles.remove()
            self.refresh()

    def _on_undo(self) -> None:
        before = {b.key: b.center_mm for b in self.bundles}
        self.bundles.undo()
        self.refresh()
        current = self.bundles.current
        if current is not None and before.get(current.key) != current.center_mm:
            self.seed_placed.emit()

"""A click on a voxel in the viewer."""

from collections.abc import Callable
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.gui.picking import MarkerTool, Position, clicked_position


class VoxelTool(MarkerTool):
    """Tells where the user clicks; ``picked`` carries a viewer position (z, y, x).

    Parameters
    ----------
    viewer
        The napari viewer.
    image
        Gives the layer that is looked at in 3-D, or None: then clicks mean nothing.
    """

    picked = Signal(object)

    def __init__(self, viewer: Any, image: Callable[[], Any | None], parent: QObject | None = None) -> None:
        super().__init__(viewer, lambda: np.empty((0, 3)), lambda: 0.0, parent)
        self._image = image

    def clicked(self, event: Any) -> None:
        """Tell where."""
        image = self._image()
        position = None if image is None else clicked_position(event, image)
        if position is not None:
            self.picked.emit(position)

    def target_of(self, _event: Any, anchor: Position) -> Callable[[Any], Any]:
        """Nothing is dragged here."""
        return lambda _: anchor

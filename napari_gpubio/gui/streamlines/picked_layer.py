"""The part of a streamlines layer that is about the mouse: which fiber lies under it, and which one is selected."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.lines.nearest import nearest_line, ray_frame

_PICK_PIXELS = 4.0


class PickedLayer:
    """Picking and selection for a layer that has lines, a slab, events and a transform."""

    lines: Any  # `Lines`; a property of the layer
    events: Any
    data_to_world: Any
    data_to_world_matrix: Any
    scale_factor: float
    slab_mm: float
    _slice_input: Any
    _selected_fiber: int | None = None

    @property
    def selected_fiber(self) -> int | None:
        """Index of the fiber that is drawn in white over the others, or None."""
        return self._selected_fiber

    def select_fiber(self, index: int | None) -> None:
        """Draw one fiber in white over the others, or none; sends ``events.picked`` if that changes anything.

        Raises
        ------
        InvalidInput
            If there is no such fiber.
        """
        if index is not None and not 0 <= index < len(self.lines):
            raise InvalidInput(f"there is no fiber {index}; the layer has {len(self.lines)}, counted from 0")
        if index != self._selected_fiber:
            self._selected_fiber = None if index is None else int(index)
            self.events.picked(fiber=self._selected_fiber)

    def pick(
        self,
        position: npt.ArrayLike,
        view_direction: npt.ArrayLike | None = None,
        dims_displayed: list[int] | None = None,
        tolerance_mm: float | None = None,
    ) -> int | None:
        """Find the shown fiber under a click, or None; the arguments are those of a napari mouse event.

        Parameters
        ----------
        position
            World position, (..., z, y, x).
        view_direction
            World direction of the view; None in 2-D.
        dims_displayed
            World axes on the canvas; by default those in which the layer is shown.
        tolerance_mm
            Largest distance from the click or its ray, world units; by default 4 pixels.
        """
        position, in_slice = np.asarray(position, np.float64), view_direction is None
        along = self._normal(position, dims_displayed) if in_slice else np.asarray(view_direction, np.float64)[-3:]
        if along is None or not np.linalg.norm(along):
            return None
        linear, origin = self.data_to_world_matrix()
        frame = ray_frame(linear, origin, position[-3:], along)
        tolerance = _PICK_PIXELS * self.scale_factor if tolerance_mm is None else tolerance_mm
        half_slab = self.slab_mm or np.inf if in_slice else np.inf
        return nearest_line(self.lines, frame, tolerance, half_slab, in_slice=in_slice)

    def _normal(self, position: npt.NDArray[Any], dims_displayed: list[int] | None) -> npt.NDArray[np.float64] | None:
        """Return the world axis along which a slice is seen, or None if it is not one axis."""
        displayed = self._slice_input.displayed
        if dims_displayed is not None:
            displayed = [axis - max(len(position) - 3, 0) for axis in dims_displayed]
        hidden = [axis for axis in range(3) if axis not in displayed]
        return np.eye(3)[hidden[0]] if len(hidden) == 1 else None

    def _get_value(self, position: npt.ArrayLike) -> int | None:
        return self.pick(self.data_to_world(position))

    def _get_value_3d(
        self,
        start_point: npt.ArrayLike | None,
        end_point: npt.ArrayLike | None,
        dims_displayed: list[int],
    ) -> int | None:
        if start_point is None or end_point is None:
            return None
        start, end = np.array(self.data_to_world(start_point)), np.array(self.data_to_world(end_point))
        return self.pick(start, end - start, dims_displayed)

"""What lit lines and tubes have in common: the buffers of the flat lines, and a fade into the background by depth."""

from typing import Any

import numpy as np
import numpy.typing as npt
from vispy.visuals import Visual

_FADE = 0.6  # of the color of the farthest point into the background
UNPACK = """
vec3 unpacked(float color) {  // red * 65536 + green * 256 + blue, or -1 minus that at the last point of a line
    if (color < 0.0) color = -1.0 - color;
    float red = floor(color / 65536.0);
    float green = floor((color - red * 65536.0) / 256.0);
    return vec3(red, green, color - red * 65536.0 - green * 256.0) / 255.0;
}
"""


class ShadedVisual(Visual):
    """Draws from the buffers of a `LinesVisual` with an index buffer, which uploads for both."""

    def __init__(self, lines: Any, **shaders: str) -> None:
        super().__init__(**shaders)
        self._lines = lines
        self._draw_mode = "lines"
        self._index_buffer = lines.index_buffer
        self._display = np.eye(3)
        self._corners = np.zeros((8, 3))
        self.shared_program["u_fade"] = _FADE
        self.set_display(self._display)

    def set_display(self, display: npt.ArrayLike) -> None:
        """Set the map from data to the node's coordinates, 3 x 3."""
        self._display = np.asarray(display, np.float32)
        # vispy hands matrices over by rows and OpenGL reads them by columns
        self.shared_program["u_display"] = self._display.T

    def set_box(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        """Set the corners of the box around all lines (x, y, z), between which they fade."""
        self._corners = np.stack(np.meshgrid(*np.transpose([low, high]), indexing="ij"), -1).reshape(-1, 3)

    def _prepare_transforms(self, view: Visual) -> None:
        view.view_program.vert["transform"] = view.transforms.get_transform()

    def _prepare_draw(self, view: Visual | None = None) -> bool:
        if view is None or not self._lines.upload():
            return False
        transforms, program = view.transforms, view.view_program
        corners = transforms.get_transform().map(self._corners @ self._display.T)
        depths = corners[:, 2] / corners[:, 3]
        program["u_depths"] = (depths.min(), max(float(np.ptp(depths)), 1e-9))
        program["u_background"] = transforms.canvas.bgcolor.rgb if hasattr(transforms.canvas, "bgcolor") else (0, 0, 0)
        self._set_buffers(self._lines.vertex_buffer)
        return True

    def _set_buffers(self, buffer: Any) -> None:
        self.shared_program["a_vertex"] = buffer

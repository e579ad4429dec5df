"""The picture of an opaque visual, kept with its depth while nothing in it changes.

A frame then costs a full-canvas rectangle, however much the visual draws, and whatever else moves through the scene (a
slice, a crosshair) is hidden by the visual, and hides it, as before.
"""

import logging
from typing import Any

import numpy as np
from vispy import gloo
from vispy.visuals import Visual

logger = logging.getLogger(__name__)

_VERTEX_SHADER = """
attribute vec2 a_corner;
void main() {
    gl_Position = vec4(a_corner, 0.0, 1.0);
}
"""

_FRAGMENT_SHADER = """
uniform sampler2D u_color;
uniform sampler2D u_depth;
uniform vec2 u_size;          // pixels

void main() {
    vec2 place = gl_FragCoord.xy / u_size;
    float depth = texture2D(u_depth, place).r;
    if (depth == 1.0) discard;    // nothing was drawn here
    gl_FragColor = vec4(texture2D(u_color, place).rgb, 1.0);
    gl_FragDepth = depth;
}
"""


class KeptPictureVisual(Visual):
    """Shows the picture that another visual has drawn; needs the blending and the depth test that the other has."""

    def __init__(self) -> None:
        super().__init__(vcode=_VERTEX_SHADER, fcode=_FRAGMENT_SHADER)
        self._draw_mode = "triangle_strip"
        self._content: Any = None
        self._framebuffer: Any = None
        self._is_possible = True
        self.shared_program["a_corner"] = np.array([(-1, -1), (1, -1), (-1, 1), (1, 1)], np.float32)
        self.freeze()

    def forget(self) -> None:
        """Draw the picture anew when it is shown next."""
        self._content = None

    def keep(self, visual: Visual, content: Any) -> bool:
        """Draw another visual into the picture unless it is there; returns whether the picture can be shown.

        Call it within a draw. ``content`` is whatever the other's picture depends on, and equal while that is the same.
        """
        context = visual.transforms.canvas.context
        x, y, width, height = context.get_viewport()
        shape = (int(y + height), int(x + width))
        if (context, shape, content) == self._content:
            return self._is_possible
        if self._is_possible:
            self._is_possible = self._has_begun(context, shape)
        if self._is_possible:
            visual.draw()
            self._framebuffer.deactivate()
            self._content = (context, shape, content)
        return self._is_possible

    def _has_begun(self, context: Any, shape: tuple[int, int]) -> bool:
        """Make what is drawn go into an empty picture; returns whether the graphics driver can."""
        if self._framebuffer is None or self._framebuffer.shape != shape:
            color, depth = gloo.Texture2D((*shape, 4)), gloo.Texture2D((*shape, 1), format="depth_component")
            self._framebuffer = gloo.FrameBuffer(color, depth)
            self.shared_program["u_color"], self.shared_program["u_depth"] = color, depth
            self.shared_program["u_size"] = shape[::-1]
        self._framebuffer.activate()
        try:
            context.flush_commands()  # so that nothing else is lost where the framebuffer is refused
        except RuntimeError as error:
            logger.info("fibers are drawn anew in every frame: %s", error)
            self._framebuffer.deactivate()
            return False
        context.clear(color=(0, 0, 0, 0), depth=True)
        return True

    def _prepare_transforms(self, view: Visual) -> None:
        """The picture has its place on the canvas."""

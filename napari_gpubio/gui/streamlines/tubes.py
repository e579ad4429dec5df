"""Streamlines as tubes: each segment becomes a flat strip that faces the eye and is shaded as a cylinder is.

A geometry shader makes the strips from the vertices and indices that the lines have on the graphics card already, so
that filters and uploads are those of the lines. Tubes have a dark rim, which lets a fiber stand out from those behind
it, and what is far away fades into the background.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from vispy.visuals import Visual

NARROWEST_PX = 3.0  # a tube of fewer pixels shows neither its rim nor its light
_FADE = 0.6  # of the color of the farthest point into the background

_VERTEX_SHADER = """
#version 150 compatibility
in vec4 a_vertex;             // x, y, z in data units; color as red * 65536 + green * 256 + blue
out vec3 g_color;
uniform mat3 u_display;       // data to the node's local coordinates

void main() {
    gl_Position = $transform(vec4(u_display * a_vertex.xyz, 1.0));
    float red = floor(a_vertex.w / 65536.0);
    float green = floor((a_vertex.w - red * 65536.0) / 256.0);
    float blue = a_vertex.w - red * 65536.0 - green * 256.0;
    g_color = vec3(red, green, blue) / 255.0;
}
"""

_GEOMETRY_SHADER = """
#version 150 compatibility
layout(lines) in;
layout(triangle_strip, max_vertices = 4) out;
in vec3 g_color[];
out vec3 v_color;
out float v_across;           // -1 at one edge of the strip, 1 at the other
out float v_depth;            // 0 nearest, 1 farthest
uniform vec2 u_viewport;      // pixels
uniform float u_radius;       // pixels
uniform vec2 u_depths;        // of the nearest point, and from there to the farthest

void main() {
    vec4 start = gl_in[0].gl_Position, end = gl_in[1].gl_Position;
    vec2 a = start.xy / start.w * u_viewport * 0.5, b = end.xy / end.w * u_viewport * 0.5;
    vec2 along = b - a;
    float pixels = length(along);
    along = pixels > 1e-4 ? along / pixels : vec2(1.0, 0.0);
    vec2 aside = vec2(-along.y, along.x) * u_radius;
    vec2 ahead = along * min(0.5 * u_radius, 1.0);    // strips overlap a little, so that bends have no gaps
    vec2 to_clip = 2.0 / u_viewport;
    for (int corner = 0; corner < 4; corner++) {
        bool is_end = corner > 1;
        vec4 middle = is_end ? end : start;
        v_across = (corner == 0 || corner == 2) ? -1.0 : 1.0;
        v_color = is_end ? g_color[1] : g_color[0];
        v_depth = (middle.z / middle.w - u_depths.x) / u_depths.y;
        vec2 shift = (v_across * aside + (is_end ? ahead : -ahead)) * to_clip * middle.w;
        gl_Position = vec4(middle.xy + shift, middle.zw);
        EmitVertex();
    }
    EndPrimitive();
}
"""

_FRAGMENT_SHADER = """
#version 150 compatibility
in vec3 v_color;
in float v_across;
in float v_depth;
uniform vec3 u_background;
uniform float u_fade;

void main() {
    float facing = sqrt(max(0.0, 1.0 - v_across * v_across));   // cosine between the cylinder's normal and the eye
    vec3 color = v_color * (0.3 + 0.7 * facing) + 0.3 * pow(facing, 12.0);
    if (abs(v_across) > 0.82) color *= 0.35;
    gl_FragColor = vec4(mix(color, u_background, u_fade * clamp(v_depth, 0.0, 1.0)), 1.0);
}
"""


class TubesVisual(Visual):
    """Tubes from the buffers of a `LinesVisual` with an index buffer, which uploads for both."""

    def __init__(self, lines: Any) -> None:
        super().__init__(vcode=_VERTEX_SHADER, gcode=_GEOMETRY_SHADER, fcode=_FRAGMENT_SHADER)
        self._lines = lines
        self._draw_mode = "lines"
        self._index_buffer = lines.index_buffer
        self._display = np.eye(3)
        self._corners = np.zeros((8, 3))
        self.shared_program["u_fade"] = _FADE
        self.set_width(NARROWEST_PX)
        self.set_display(self._display)
        self.freeze()

    def set_width(self, width_px: float) -> None:
        """Set the diameter, pixels."""
        self.shared_program["u_radius"] = max(width_px, NARROWEST_PX) / 2

    def set_display(self, display: npt.ArrayLike) -> None:
        """Set the map from data to the node's coordinates, 3 x 3."""
        self._display = np.asarray(display, np.float32)
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
        self.shared_program["a_vertex"] = self._lines.vertex_buffer
        program["u_viewport"] = transforms.canvas.physical_size
        program["u_depths"] = (depths.min(), max(float(np.ptp(depths)), 1e-9))
        program["u_background"] = transforms.canvas.bgcolor.rgb if hasattr(transforms.canvas, "bgcolor") else (0, 0, 0)
        return True


def has_geometry_shaders(version: str) -> bool:
    """Whether an OpenGL version, as the driver reports it, has geometry shaders beside the older functions."""
    number = version.split(" ")[0].split(".")
    try:
        major, minor = int(number[0]), int(number[1])
    except (ValueError, IndexError):  # "OpenGL ES 3.2", for instance
        return False
    return (major, minor) >= (3, 2) and "Core" not in version

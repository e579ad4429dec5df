"""Streamlines as tubes: each segment becomes a flat strip that faces the eye and is shaded as a cylinder is.

A geometry shader makes the strips from the vertices and indices that the lines have on the graphics card already, so
that filters and uploads are those of the lines. Tubes have a dark rim, which lets a fiber stand out from those behind
it, and what is far away fades into the background.
"""

from typing import Any

from vispy.visuals import Visual

from napari_gpubio.gui.streamlines.shading import UNPACK, ShadedVisual

NARROWEST_PX = 3.0  # a tube of fewer pixels shows neither its rim nor its light

_VERTEX_SHADER = (
    """
#version 150 compatibility
in vec4 a_vertex;             // x, y, z in data units; color
out vec3 g_color;
uniform mat3 u_display;       // data to the node's local coordinates
"""
    + UNPACK
    + """
void main() {
    gl_Position = $transform(vec4(u_display * a_vertex.xyz, 1.0));
    g_color = unpacked(a_vertex.w);
}
"""
)

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


class TubesVisual(ShadedVisual):
    """Tubes from the buffers of a `LinesVisual`."""

    def __init__(self, lines: Any) -> None:
        super().__init__(lines, vcode=_VERTEX_SHADER, gcode=_GEOMETRY_SHADER, fcode=_FRAGMENT_SHADER)
        self.set_width(NARROWEST_PX)
        self.freeze()

    def set_width(self, width_px: float) -> None:
        """Set the diameter, pixels."""
        self.shared_program["u_radius"] = max(width_px, NARROWEST_PX) / 2

    def _prepare_draw(self, view: Visual | None = None) -> bool:
        if view is None or not super()._prepare_draw(view):
            return False
        view.view_program["u_viewport"] = view.transforms.canvas.physical_size
        return True


def has_geometry_shaders(version: str) -> bool:
    """Whether an OpenGL version, as the driver reports it, has geometry shaders beside the older functions."""
    number = version.split(" ")[0].split(".")
    try:
        major, minor = int(number[0]), int(number[1])
    except (ValueError, IndexError):  # "OpenGL ES 3.2", for instance
        return False
    return (major, minor) >= (3, 2) and "Core" not in version

"""Streamlines as lit lines: each is as bright as a thin cylinder under a lamp at the eye, and fades with its depth.

They cost little more than flat lines, however many there are, and need no geometry shaders. A line's direction at a
point comes from the next point: the vertex buffer is read a second time, one vertex later.
"""

from typing import Any

import numpy as np
from vispy.visuals import Visual

from napari_gpubio.gui.streamlines.shading import UNPACK, ShadedVisual

_VERTEX_SHADER = (
    """
attribute vec4 a_vertex;      // x, y, z in data units; color
attribute vec4 a_next;        // of the next vertex
uniform mat3 u_display;       // data to the node's local coordinates
uniform mat3 u_to_scene;      // from there to the scene, which is not stretched
uniform vec3 u_view;          // direction of the view in the scene, of length 1
uniform vec2 u_depths;        // of the nearest point, and from there to the farthest
varying vec3 v_color;
varying float v_depth;        // 0 nearest, 1 farthest
varying float v_along;        // squared cosine between line and view, times v_known
varying float v_known;        // 0 at the last point of a line
"""
    + UNPACK
    + """
void main() {
    gl_Position = $transform(vec4(u_display * a_vertex.xyz, 1.0));
    v_depth = (gl_Position.z / gl_Position.w - u_depths.x) / u_depths.y;
    v_color = unpacked(a_vertex.w);
    vec3 ahead = u_to_scene * (u_display * (a_next.xyz - a_vertex.xyz));
    float along = dot(ahead, u_view) / max(length(ahead), 1e-9);
    v_known = a_vertex.w < 0.0 ? 0.0 : 1.0;
    v_along = v_known > 0.0 ? along * along : 0.0;
}
"""
)

_FRAGMENT_SHADER = """
uniform vec3 u_background;
uniform float u_fade;
varying vec3 v_color;
varying float v_depth;
varying float v_along;
varying float v_known;

void main() {
    float across = sqrt(max(0.0, 1.0 - v_along / max(v_known, 1e-4)));  // the last segment has its first point's
    vec3 color = v_color * (0.35 + 0.7 * across) + 0.15 * pow(across, 24.0);
    gl_FragColor = vec4(mix(color, u_background, u_fade * clamp(v_depth, 0.0, 1.0)), 1.0);
}
"""


class LitLinesVisual(ShadedVisual):
    """Lit lines from the buffers of a `LinesVisual`, whose vertex buffer has a row to spare."""

    def __init__(self, lines: Any) -> None:
        super().__init__(lines, vcode=_VERTEX_SHADER, fcode=_FRAGMENT_SHADER)
        self.freeze()

    def _prepare_draw(self, view: Visual | None = None) -> bool:
        if view is None or not super()._prepare_draw(view):
            return False
        to_render, to_scene = view.transforms.get_transform(), view.transforms.get_transform("visual", "scene")
        ends = to_render.imap(np.array([(0.0, 0.0, -1.0, 1.0), (0.0, 0.0, 1.0, 1.0)]))
        near, far = to_scene.map(ends / ends[:, 3:])[:, :3]
        columns = to_scene.map(np.concatenate([np.eye(3), np.zeros((1, 3))]))[:, :3]
        view.view_program["u_view"] = (far - near) / max(float(np.linalg.norm(far - near)), 1e-12)
        # rows of vispy's matrix are columns of the shader's
        view.view_program["u_to_scene"] = (columns[:3] - columns[3]).astype(np.float32)
        return True

    def _set_buffers(self, buffer: Any) -> None:
        self.shared_program["a_vertex"] = buffer[:-1]
        self.shared_program["a_next"] = buffer[1:]

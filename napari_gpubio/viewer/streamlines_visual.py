"""How a streamlines layer is drawn: a vispy visual, and its registration with napari.

One vertex buffer of vec4 (x, y, z, packed colour) in data coordinates stays on the graphics card; an index buffer says
which segments are drawn, so that a filter never uploads a vertex. Projection on the displayed axes and the slab
around a slice are uniforms, so that neither slicing nor turning the axes uploads anything at all.

napari has no public way to register a visual. Where its internals have moved, `register_visual` says so in the log
and napari draws the layer with its own (slower) Tracks visual.
"""

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from vispy import gloo
from vispy.scene.visuals import create_visual_node
from vispy.visuals import CompoundVisual, Visual
from vispy.visuals.filters.clipping_planes import PlanesClipper

from napari_gpubio.viewer.line_buffers import Lines, display_matrix, pack_rgb, segment_buffer, write_segments

if TYPE_CHECKING:
    from napari_gpubio.viewer.streamlines import Streamlines

logger = logging.getLogger(__name__)

_VERTEX_SHADER = """
attribute vec4 a_vertex;      // x, y, z in data units; colour as red * 65536 + green * 256 + blue
uniform mat3 u_display;       // data to the node's local coordinates
uniform vec4 u_slice;         // (x, y, z, 1) to signed distance from the slice, world units
varying vec3 v_color;
varying float v_distance;

void main() {
    gl_Position = $transform(vec4(u_display * a_vertex.xyz, 1.0));
    v_distance = dot(u_slice, vec4(a_vertex.xyz, 1.0));
    float red = floor(a_vertex.w / 65536.0);
    float green = floor((a_vertex.w - red * 65536.0) / 256.0);
    float blue = a_vertex.w - red * 65536.0 - green * 256.0;
    v_color = vec3(red, green, blue) / 255.0;
}
"""

_FRAGMENT_SHADER = """
uniform float u_half_slab;    // world units; 0 draws everything
varying vec3 v_color;
varying float v_distance;

void main() {
    float fade = 1.0;
    if (u_half_slab > 0.0) {
        fade = 1.0 - pow(v_distance / u_half_slab, 2.0);
        if (fade <= 0.0) discard;
    }
    gl_FragColor = vec4(v_color, fade);
}
"""


class LinesVisual(Visual):
    """Line segments or one line strip with a packed colour at each vertex.

    Parameters
    ----------
    draw_mode
        ``'lines'`` draws pairs of the index buffer, ``'line_strip'`` all vertices in order.
    """

    def __init__(self, draw_mode: str) -> None:
        super().__init__(vcode=_VERTEX_SHADER, fcode=_FRAGMENT_SHADER)
        self._draw_mode = draw_mode
        self._vertex_buffer = gloo.VertexBuffer()
        self._index_buffer = gloo.IndexBuffer() if draw_mode == "lines" else None
        self._count = 0
        self.set_view(np.eye(3), np.zeros(4), 0.0)
        self.freeze()

    def set_vertices(self, vertices: npt.NDArray[np.float32]) -> None:
        """Upload vertices, shape (P, 4), float32; the array is read when the next frame is drawn."""
        if len(vertices):
            self._vertex_buffer.set_data(vertices)
            self.shared_program["a_vertex"] = self._vertex_buffer
        if self._index_buffer is None:
            self._count = len(vertices)
        self.update()

    def set_segments(self, segments: npt.NDArray[np.uint32]) -> None:
        """Upload the vertex pairs to draw, shape (S, 2), uint32; the array is read when the next frame is drawn."""
        if len(segments):
            self._index_buffer.set_data(segments)
        self._count = len(segments)
        self.update()

    def set_view(self, display: npt.ArrayLike, slice_plane: npt.ArrayLike, half_slab: float) -> None:
        """Set the projection (3 x 3), the plane of the slice (4 numbers) and half the slab's thickness."""
        # vispy hands matrices over by rows and OpenGL reads them by columns
        self.shared_program["u_display"] = np.asarray(display, np.float32).T
        self.shared_program["u_slice"] = np.asarray(slice_plane, np.float32)
        self.shared_program["u_half_slab"] = float(half_slab)
        self.update()

    def _prepare_transforms(self, view: Visual) -> None:
        view.view_program.vert["transform"] = view.transforms.get_transform()

    def _prepare_draw(self, view: Visual | None = None) -> bool:  # noqa: ARG002 - vispy's signature
        return self._count > 0


class BundleVisual(CompoundVisual):
    """All shown streamlines, and over them the selected one in white."""

    def __init__(self) -> None:
        self._lines = LinesVisual("lines")
        self._selected = LinesVisual("line_strip")
        self._plane_clipper = PlanesClipper()
        self._segments = np.empty((0, 2), np.uint32)
        self._line_width = 1.0
        super().__init__([self._lines, self._selected])
        self.attach(self._plane_clipper)

    @property
    def clipping_planes(self) -> npt.NDArray[Any]:
        """Planes that cut the lines, shape (N, 2, 3): position and normal, x, y, z."""
        return self._plane_clipper.clipping_planes

    @clipping_planes.setter
    def clipping_planes(self, planes: npt.NDArray[Any]) -> None:
        self._plane_clipper.clipping_planes = planes

    @property
    def line_width(self) -> float:
        """Width in pixels, as far as the graphics driver draws lines wider than 1."""
        return self._line_width

    @line_width.setter
    def line_width(self, width: float) -> None:
        self._line_width = float(width)
        self._apply_line_state()
        self.update()

    def set_lines(self, lines: Lines) -> None:
        """Upload other streamlines."""
        self._segments = segment_buffer(lines)
        self._lines.set_vertices(lines.vertices)
        self.set_shown(lines)

    def set_colors(self, lines: Lines) -> None:
        """Upload the vertices again after their colours have changed."""
        self._lines.set_vertices(lines.vertices)

    def set_shown(self, lines: Lines) -> None:
        """Upload the index buffer of the shown streamlines."""
        self._lines.set_segments(write_segments(lines, self._segments))

    def set_selected(self, lines: Lines, selected: int | None) -> None:
        """Draw one streamline in white over the others, or none."""
        rows = slice(0, 0)
        if selected is not None and lines.shown[selected]:
            rows = slice(lines.offsets[selected], lines.offsets[selected + 1])
        vertices = lines.vertices[rows].copy()
        vertices[:, 3] = pack_rgb((1.0, 1.0, 1.0))
        self._selected.set_vertices(vertices)

    def set_view(self, display: npt.ArrayLike, slice_plane: npt.ArrayLike, half_slab: float) -> None:
        """See `LinesVisual.set_view`."""
        for visual in (self._lines, self._selected):
            visual.set_view(display, slice_plane, half_slab)

    def set_gl_state(self, preset: str | None = None, **kwargs: Any) -> Any:
        """Set blending and depth test, as napari does, and keep what the lines need besides."""
        state = super().set_gl_state(preset=preset, **kwargs)
        self._apply_line_state()
        return state

    def _apply_line_state(self) -> None:
        self._lines.update_gl_state(line_width=self._line_width)
        self._selected.update_gl_state(line_width=self._line_width + 2.0, depth_test=False)


Bundle = create_visual_node(BundleVisual)


def register_visual() -> bool:
    """Tell napari to draw `Streamlines` layers with the visual of this module; doing it again changes nothing.

    Returns
    -------
    bool
        Whether it worked. If not, the log says why and napari draws the layer with its own Tracks visual.
    """
    from napari_gpubio.viewer.streamlines import Streamlines

    try:
        from napari._vispy.utils.visual import layer_to_visual

        create_visual = _visual_factory()
        layer_to_visual[Streamlines] = create_visual
    except (ImportError, AttributeError, TypeError) as error:
        logger.warning("napari draws streamlines with its own Tracks visual, which is slower: %s", error)
        return False
    return True


def _visual_factory() -> Any:
    """Return a function that makes the napari visual of a layer, or napari's own one if that fails."""
    from napari._vispy.layers.base import VispyBaseLayer
    from napari._vispy.layers.tracks import VispyTracksLayer

    class VispyStreamlines(VispyBaseLayer):
        """What stands between a `Streamlines` layer and its visual."""

        def __init__(self, layer: "Streamlines", *args: Any, **kwargs: Any) -> None:
            super().__init__(layer, Bundle(), *args, **kwargs)
            layer.events.streamlines.connect(self._on_streamlines_change)
            layer.events.coloring.connect(self._on_coloring_change)
            layer.events.shown.connect(self._on_shown_change)
            layer.events.picked.connect(self._on_picked)
            layer.events.slab_mm.connect(self._on_view_change)
            layer.events.tail_width.connect(self._on_line_width_change)
            self.reset()

        def reset(self) -> None:
            super().reset()
            self._on_streamlines_change()
            self._on_line_width_change()

        def _on_data_change(self) -> None:
            # napari calls this for every other slice or order of axes
            self._on_matrix_change()

        def _on_matrix_change(self) -> None:
            super()._on_matrix_change()
            self._on_view_change()

        def _on_streamlines_change(self) -> None:
            self.node.set_lines(self.layer.lines)
            self._on_picked()

        def _on_coloring_change(self) -> None:
            self.node.set_colors(self.layer.lines)

        def _on_shown_change(self) -> None:
            self.node.set_shown(self.layer.lines)
            self._on_picked()

        def _on_picked(self) -> None:
            self.node.set_selected(self.layer.lines, self.layer.selected_fiber)

        def _on_line_width_change(self) -> None:
            self.node.line_width = self.layer.line_width

        def _on_view_change(self) -> None:
            linear, translate = self.layer.data_to_world_matrix()
            where = self.layer._slice_input
            plane, half_slab = np.zeros(4), 0.0
            if where.ndisplay == 2:
                axis = where.not_displayed[0]
                plane = np.append(linear[axis, ::-1], translate[axis] - where.world_slice.point[axis])
                half_slab = self.layer.slab_mm
            self.node.set_view(display_matrix(linear, where.displayed), plane, half_slab)

    def create(layer: "Streamlines", *args: Any, **kwargs: Any) -> Any:
        try:
            return VispyStreamlines(layer, *args, **kwargs)
        except (ImportError, AttributeError, TypeError) as error:
            logger.warning("napari draws %s with its own Tracks visual, which is slower: %s", layer.name, error)
            return VispyTracksLayer(layer, *args, **kwargs)

    return create

"""How streamlines are drawn: a vispy visual that knows nothing of napari.

One vertex buffer of vec4 (x, y, z, packed color) in data coordinates stays on the GPU; an index buffer holds the
segments that are drawn, so that a filter never uploads a vertex. The projection on the displayed axes and the slab
around a slice are uniforms. Of many lines, a slice draws only the segments of its slab, which are uploaded for it: a
few percent of all, so that a canvas that shows slices only never needs the rest.
"""

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QEvent, QObject
from vispy import gloo
from vispy.scene.visuals import create_visual_node
from vispy.visuals import CompoundVisual, Visual
from vispy.visuals.filters.clipping_planes import PlanesClipper

from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.lines.packed import write_segments
from napari_gpubio.gui.lines.paint import AUTO, LINES, LIT, TUBES, pack_rgb
from napari_gpubio.gui.lines.slabs import SegmentOrder, ends_of
from napari_gpubio.gui.streamlines.kept_picture import KeptPictureVisual
from napari_gpubio.gui.streamlines.lit_lines import LitLinesVisual
from napari_gpubio.gui.streamlines.shading import UNPACK
from napari_gpubio.gui.streamlines.tubes import TubesVisual, has_geometry_shaders
from napari_gpubio.gui.streamlines.uploads import FrontIndexBuffer, Pace, Screen, Upload, drawable


class CanvasScreen(QObject):
    """Watches the widget of a vispy canvas.

    ``painting``: the present draw was requested by the window, and is not for a screenshot.
    """

    def __init__(self, canvas: Any) -> None:
        super().__init__(canvas.native)
        self.painting = False
        self._canvas = weakref.ref(canvas)
        self._timer = single_shot(0, self._on_timer, self)
        canvas.native.installEventFilter(self)
        canvas.events.draw.connect(self._on_drawn, position="last")

    def eventFilter(self, _widget: QObject, event: QEvent) -> bool:
        """Qt: a paint event comes before the draw that it causes."""
        if event.type() == QEvent.Type.Paint:
            self.painting = True
        return False

    def paint_again(self) -> None:
        """Ask for another frame, from within a draw (where Qt does not listen to the canvas's own `update`)."""
        self._timer.start()

    def stop(self) -> None:
        """Watch no longer."""
        self.painting = False
        self._timer.stop()
        canvas = self._canvas()
        if canvas is not None:
            canvas.events.draw.disconnect(self._on_drawn)
        self.deleteLater()  # which ends the filter, too

    def _on_drawn(self, _event: Any) -> None:
        self.painting = False

    def _on_timer(self) -> None:
        canvas = self._canvas()
        if canvas is not None:
            canvas.update()


MAX_TUBES = 20_000  # shown fibers, beyond which lit lines are drawn if the choice is automatic
_FEW_SEGMENTS = 50_000  # drawing all of them is quicker than cutting a slab, or than showing a kept picture
_VERTEX_SHADER = (
    """
attribute vec4 a_vertex;      // x, y, z in data units; color
uniform mat3 u_display;       // data to the node's local coordinates
uniform vec4 u_slice;         // (x, y, z, 1) to signed distance from the slice, world units
varying vec3 v_color;
varying float v_distance;
"""
    + UNPACK
    + """
void main() {
    gl_Position = $transform(vec4(u_display * a_vertex.xyz, 1.0));
    v_distance = dot(u_slice, vec4(a_vertex.xyz, 1.0));
    v_color = unpacked(a_vertex.w);
}
"""
)

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
    """Line segments or one line strip with a packed color at each vertex.

    The draw mode ``'lines'`` draws pairs of the vertices, or of the index buffer if there is one (``indexed``);
    ``'line_strip'`` draws all vertices in order. Without a ``screen``, the window that shows the lines, everything is
    uploaded with the first draw.
    """

    def __init__(self, draw_mode: str, *, indexed: bool = False) -> None:
        super().__init__(vcode=_VERTEX_SHADER, fcode=_FRAGMENT_SHADER)
        self.screen: Screen | None = None
        self._draw_mode = draw_mode
        self._vertices = Upload(gloo.VertexBuffer(), spare=int(indexed))  # for lit lines, which read one vertex ahead
        self._segments = Upload(FrontIndexBuffer()) if indexed else None
        self._index_buffer = None if self._segments is None else self._segments.buffer
        self._pace = Pace()
        self.set_view(np.eye(3), np.zeros(4), 0.0)
        self.freeze()

    def set_vertices(self, vertices: npt.NDArray[np.float32]) -> None:
        """Take other vertices, shape (P, 4), float32; the array is read when the next frames are drawn."""
        self._vertices.replace(vertices)
        self._pace = Pace()
        if len(vertices):
            self.shared_program["a_vertex"] = self._vertices.buffer
        self.update()

    def renew_vertices(self, vertices: npt.NDArray[np.float32]) -> None:
        """Take as many vertices with other contents; the old ones are drawn until the new ones are there."""
        self._vertices.renew(vertices)
        self._pace.begin()
        self.update()

    def set_segments(self, segments: npt.NDArray[np.uint32]) -> None:
        """Take the vertex pairs to draw, in order, shape (S, 2), uint32; read when the next frames are drawn."""
        if self._segments is None:
            raise TypeError("these lines have no index buffer")
        self._segments.replace(segments)
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

    @property
    def is_uploading(self) -> bool:
        """Whether the graphics card lacks a part of the lines."""
        return self._vertices.pending > 0 or (self._segments is not None and self._segments.pending > 0)

    @property
    def vertex_buffer(self) -> Any:
        """The vertices on the graphics card."""
        return self._vertices.buffer

    @property
    def index_buffer(self) -> Any:
        """The vertex pairs on the graphics card, or None."""
        return self._index_buffer

    def _prepare_draw(self, view: Visual | None = None) -> bool:  # noqa: ARG002 - vispy's signature
        return self.upload()

    def upload(self) -> bool:
        """Upload what this frame may; returns whether there is anything to draw. Call it within a draw."""
        uploads = [upload for upload in (self._vertices, self._segments) if upload is not None]
        if not all(len(upload.array) for upload in uploads):
            return False
        self._send(uploads)
        if self._segments is not None and self._index_buffer is not None:
            self._index_buffer.front = 2 * drawable(self._segments, self._vertices)
        return True

    def _send(self, uploads: list[Upload]) -> None:
        """Upload what this frame may, and ask for another frame if something is left."""
        if not self._vertices.pending:  # then a filter has changed: segments in pieces would flicker
            uploads[-1].send(len(uploads[-1].array))
            return
        screen = self.screen
        rows = self._pace.rows(on_screen=screen is not None and screen.painting)
        for upload in uploads:
            upload.send(rows)
        if screen is not None and any(upload.pending for upload in uploads):
            screen.paint_again()


class BundleVisual(CompoundVisual):
    """All shown streamlines, and over them the selected one in white."""

    def __init__(self) -> None:
        self._lines = LinesVisual("lines", indexed=True)
        self._lit, self._tubes = LitLinesVisual(self._lines), TubesVisual(self._lines)
        self._slab = LinesVisual("lines")
        self._selected = LinesVisual("line_strip")
        self._picture = KeptPictureVisual()
        self._plane_clipper = PlanesClipper()
        self._memory = np.empty((0, 2), np.uint32)  # for the segments that a filter leaves
        self._line_width = 1.0
        self._style = AUTO
        self._drawn: Lines | None = None
        self._is_cut, self._must_cut = False, False
        self._orders: dict[int, SegmentOrder] = {}  # by axis, as far as they were needed
        self._view: tuple[npt.NDArray[np.float64], float] = (np.zeros(4), 0.0)  # plane of the slice, half the slab
        self._display = np.eye(3)
        self._drawn_style = LINES
        self._of_style: dict[str, Visual] = {LINES: self._lines, LIT: self._lit, TUBES: self._tubes}
        super().__init__([self._lines, self._lit, self._tubes, self._slab, self._picture, self._selected])
        for visual in (self._lines, self._lit, self._slab, self._selected):
            visual.attach(self._plane_clipper)

    def set_screen(self, screen: Screen | None) -> None:
        """Set the window that shows the lines, many of them piece by piece; None if there is none."""
        self._lines.screen = self._slab.screen = screen

    @property
    def clipping_planes(self) -> npt.NDArray[Any]:
        """Planes that cut the lines, shape (N, 2, 3): position and normal, x, y, z."""
        return self._plane_clipper.clipping_planes

    @clipping_planes.setter
    def clipping_planes(self, planes: npt.NDArray[Any]) -> None:
        self._plane_clipper.clipping_planes = planes

    @property
    def style(self) -> str:
        """How lines are drawn in 3-D, one of `paint.STYLES`."""
        return self._style

    @style.setter
    def style(self, style: str) -> None:
        self._style = style
        self.update()

    @property
    def drawn_style(self) -> str:
        """How the last draw drew them: ``'lines'`` also where a slice draws the segments of its slab."""
        return self._drawn_style

    @property
    def line_width(self) -> float:
        """Width in pixels, as far as the graphics driver draws lines wider than 1."""
        return self._line_width

    @line_width.setter
    def line_width(self, width: float) -> None:
        self._line_width = float(width)
        self._tubes.set_width(width)
        self._apply_line_state()
        self.update()

    def set_lines(self, lines: Lines) -> None:
        """Upload other streamlines."""
        self._orders.clear()
        self._lines.set_vertices(lines.vertices)
        if len(lines.vertices):
            for visual in (self._lit, self._tubes):
                visual.set_box(*lines.extent[:, ::-1])
        self.set_shown(lines)

    def set_colors(self, lines: Lines) -> None:
        """Upload the vertices again after their colors have changed."""
        self._lines.renew_vertices(lines.vertices)
        self._replace(lines)

    def set_shown(self, lines: Lines) -> None:
        """Upload the index buffer of the shown streamlines."""
        segments = lines.segments
        if not lines.shown.all():
            if len(self._memory) != len(segments):
                self._memory = np.empty_like(segments)
            segments = write_segments(lines, self._memory)
        self._lines.set_segments(segments)
        self._replace(lines)

    def _replace(self, lines: Lines) -> None:
        self._drawn, self._must_cut = lines, True
        self._picture.forget()

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
        for visual in (self._lines, self._slab, self._selected):
            visual.set_view(display, slice_plane, half_slab)
        for shaded in (self._lit, self._tubes):
            shaded.set_display(display)
        self._display = np.asarray(display, np.float64)
        plane = np.asarray(slice_plane, np.float64)
        if half_slab != self._view[1] or not np.array_equal(plane, self._view[0]):
            self._view, self._must_cut = (plane, half_slab), True

    def _cut_slab(self) -> None:
        """Draw the segments of the slab if there is one, or all; a slab across the axes is left to the shader."""
        (*normal, offset), half_slab = self._view
        axis = int(np.argmax(np.abs(normal)))
        across = np.count_nonzero(np.abs(normal) > 1e-9 * abs(normal[axis])) != 1
        lines = self._drawn
        is_cut = half_slab > 0 and not across and lines is not None and len(lines.segments) > _FEW_SEGMENTS
        self._is_cut, self._must_cut = is_cut, False
        if lines is None or not is_cut:
            return
        if axis not in self._orders:
            self._orders[axis] = SegmentOrder(lines, axis)
        center, reach = -offset / normal[axis], half_slab / abs(normal[axis])
        segments = self._orders[axis].within(center - reach, center + reach, lines.shown)
        self._slab.set_vertices(ends_of(segments, lines.vertices))

    def _prepare_draw(self, view: Any = None) -> bool:
        """Cut the slab, once for all changes since the last draw, and choose a style that the driver can draw."""
        if self._must_cut:
            self._cut_slab()
        self._drawn_style = self._chosen_style(view)
        for style, visual in self._of_style.items():
            visual.visible = style == self._drawn_style and not self._is_cut
        self._slab.visible = self._is_cut
        self._picture.visible = self._may_keep(view) and self._keep(view)
        return True

    def _may_keep(self, view: Any) -> bool:
        """Whether what is drawn is worth a picture, and opaque: only then is it the same on every background."""
        return (
            view is not None
            and self._drawn is not None
            and len(self._drawn.segments) > _FEW_SEGMENTS
            and self._view[1] == 0
            and getattr(self, "opacity", 1.0) == 1.0
            and bool(self._lines._vshare.gl_state.get("depth_test"))
            and not getattr(self, "picking", False)
        )

    def _keep(self, view: Any) -> bool:
        """Bring the picture of the lines up to date, and draw it instead of them; returns whether that can be done."""
        visual = self._of_style[self._drawn_style]
        axes = np.eye(4)
        axes[:3, :3] = self._display.T
        places = [view.transforms.get_transform("visual", to).map(axes).tobytes() for to in ("scene", "render")]
        background = tuple(view.transforms.canvas.bgcolor.rgba)
        content = (self._drawn_style, self._line_width, background, self.clipping_planes.tobytes(), *places)
        if not self._picture.keep(visual, content):
            return False
        visual.visible = False
        if self._lines.is_uploading:
            self._picture.forget()
        return True

    def _chosen_style(self, view: Any) -> str:
        is_slice = self._view[1] > 0 or np.any(self._view[0])
        if self._style == LINES or is_slice or self._drawn is None or view is None:
            return LINES
        may_be_tubes = self._style == TUBES or (
            self._style == AUTO
            and getattr(self, "opacity", 1.0) == 1.0  # else one would see where strips overlap
            and np.count_nonzero(self._drawn.shown) <= MAX_TUBES
        )
        if not may_be_tubes or len(self.clipping_planes):
            return LIT
        version = str(view.transforms.canvas.context.shared.parser.capabilities["gl_version"])
        return TUBES if has_geometry_shaders(version) else LIT

    def set_gl_state(self, preset: str | None = None, **kwargs: Any) -> Any:
        """Set blending and depth test, as napari does, and keep what the lines need besides."""
        state = super().set_gl_state(preset=preset, **kwargs)
        self._apply_line_state()
        return state

    def _apply_line_state(self) -> None:
        for visual in (self._lines, self._lit, self._slab):
            visual.update_gl_state(line_width=self._line_width)
        self._selected.update_gl_state(line_width=self._line_width + 2.0, depth_test=False)


Bundle = create_visual_node(BundleVisual)

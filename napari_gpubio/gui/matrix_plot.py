"""A square matrix as colored cells, which tell their names and values and can be picked."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from napari.utils.colormaps import ensure_colormap
from qtpy.QtCore import QRectF, Qt, Signal
from qtpy.QtGui import QTransform
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.numbers import short_number
from napari_gpubio.gui import theme
from napari_gpubio.gui.plots import ThemedPlot

Array = npt.NDArray[Any]
COLORMAP, COLORS = "viridis", 256
_SHARE_OF_NAMES = 0.3  # of the width, at most
_LONGEST_NAME = 18  # characters of a name beside a row; the last of them often say left or right


_TICK_PIXELS = 6  # and a gap


class _UprightAxis(pyqtgraph.AxisItem):
    """An axis at the bottom whose labels are read from top to bottom, so that many have room."""

    def drawPicture(self, painter: Any, axis: Any, ticks: Any, texts: Any) -> None:  # noqa: ARG002 - pyqtgraph's
        """pyqtgraph: draw it, with all labels; ``texts`` lacks those that would stand out at an end if they lay."""
        super().drawPicture(painter, axis, ticks, [])
        painter.setPen(self.textPen())
        height = painter.fontMetrics().height()
        (_, first, last), (low, high) = axis, self.range
        for value, text in (self._tickLevels or [()])[0]:
            painter.save()
            across = (value - low) / (high - low)
            painter.translate(first.x() + across * (last.x() - first.x()), first.y() + _TICK_PIXELS)
            painter.rotate(90)
            width = painter.fontMetrics().horizontalAdvance(text) + 2
            painter.drawText(QRectF(0, -height / 2, width, height), Qt.AlignmentFlag.AlignVCenter, text)
            painter.restore()


class MatrixPlot(ThemedPlot):
    """Shows a matrix, row 0 at the top; values that are not finite, and zeros, stay empty.

    As many rows and columns are named as there is room for.

    ``cell_picked`` carries row and column of a cell that was clicked, ``cell_hovered`` a line about the one under the
    mouse, or an empty text.
    """

    cell_picked = Signal(int, int)
    cell_hovered = Signal(str)

    grid = False

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAxisItems({"bottom": _UprightAxis("bottom")})
        self._color_axes(theme.TEXT)
        self._values: Array = np.zeros((0, 0))
        self._names: Sequence[str] = ()
        self._quantity = ""
        self._image = pyqtgraph.ImageItem(axisOrder="row-major")
        self._image.setLookupTable(ensure_colormap(COLORMAP).map(np.linspace(0, 1, COLORS)) * 255)
        self._frame = pyqtgraph.PlotCurveItem(pen=pyqtgraph.mkPen(theme.TEXT, width=2))
        self.addItem(self._image)
        self.addItem(self._frame)
        self.setAspectLocked(lock=True)
        self.invertY(b=True)
        self.scene().sigMouseClicked.connect(self._on_clicked)
        self.scene().sigMouseMoved.connect(self._on_moved)
        self.plotItem.vb.sigResized.connect(self._show_names)

    def show_matrix(
        self, values: npt.ArrayLike, names: Sequence[str], quantity: str, *, logarithmic: bool = False
    ) -> None:
        """Show a matrix.

        Parameters
        ----------
        values
            Shape (N, N).
        names
            Of rows and columns.
        quantity
            What the values are, with the unit.
        logarithmic
            Whether colors follow the logarithm of values above zero.
        """
        self._values, self._names, self._quantity = np.asarray(values, float), list(names), quantity
        count = len(self._values)
        usable = np.isfinite(self._values) & (self._values != 0)
        shown = np.full((count, count), np.nan)
        shown[usable] = self._values[usable]
        if logarithmic:
            shown = np.log10(shown, where=shown > 0, out=np.full_like(shown, np.nan))
        limits = (np.nanmin(shown), np.nanmax(shown)) if np.isfinite(shown).any() else (0.0, 1.0)
        self._image.setImage(shown, levels=(limits[0], limits[1] if limits[1] > limits[0] else limits[0] + 1.0))
        self._image.setTransform(QTransform.fromTranslate(-0.5, -0.5))  # cells lie around whole numbers
        self.setTitle(self._range_text(self._values[usable], logarithmic=logarithmic), size="9pt")
        self._show_names()
        self.frame_cell(None)

    def _show_names(self, *_: Any) -> None:
        """Name every row and column, or every second, third and so on, as a line of text has room."""
        count, box, metrics = len(self._names), self.plotItem.vb, self.fontMetrics()
        cell = min(box.width(), box.height()) / max(count, 1)
        every = max(1, int(np.ceil(metrics.height() / max(cell, 1e-3))))
        longest = int(np.clip(_SHARE_OF_NAMES * self.width() / metrics.averageCharWidth(), 8, _LONGEST_NAME))
        ticks = [(n, _short(name, longest)) for n, name in enumerate(self._names) if n % every == 0]
        for side in ("left", "bottom"):
            self.getAxis(side).setTicks([ticks])
        self.getAxis("bottom").setHeight(max((metrics.horizontalAdvance(name) for _, name in ticks), default=0) + 12)
        self.setRange(xRange=(-0.5, count - 0.5), yRange=(-0.5, count - 0.5), padding=0.02)

    def frame_cell(self, cell: tuple[int, int] | None) -> None:
        """Draw a frame around a cell, or around none."""
        if cell is None:
            self._frame.setData([], [])
            return
        row, column = cell
        self._frame.setData(column + np.array([-1, 1, 1, -1, -1]) / 2, row + np.array([-1, -1, 1, 1, -1]) / 2)

    def recolor(self, swap: Mapping[str, str]) -> None:
        """Take the colors of another theme."""
        super().recolor(swap)
        self._frame.setPen(pyqtgraph.mkPen(theme.TEXT, width=2))

    def cell_at(self, position: Any) -> tuple[int, int] | None:
        """Return row and column at a position of the scene, or None beside the matrix."""
        at = self.plotItem.vb.mapSceneToView(position)
        row, column = int(np.floor(at.y() + 0.5)), int(np.floor(at.x() + 0.5))
        count = len(self._values)
        return (row, column) if 0 <= row < count and 0 <= column < count else None

    def text_of(self, row: int, column: int) -> str:
        """Return a line about a cell: the names of its row and column, and its value."""
        value = short_number(float(self._values[row, column]))
        return f"{self._names[row]} – {self._names[column]}: {value} {self._quantity}".strip()

    def _range_text(self, values: Array, *, logarithmic: bool) -> str:
        """What the colors go from and to, in two lines as HTML."""
        if not len(values):
            return ""
        scale = ", logarithmic colors" if logarithmic else ""
        ends = f"{short_number(float(values.min()))} to {short_number(float(values.max()))}"
        return f"{html.escape(self._quantity)}<br>{ends}{scale}"

    def _on_clicked(self, event: Any) -> None:
        cell = self.cell_at(event.scenePos())
        if cell is not None:
            self.frame_cell(cell)
            self.cell_picked.emit(*cell)

    def _on_moved(self, position: Any) -> None:
        cell = self.cell_at(position)
        self.cell_hovered.emit("" if cell is None else self.text_of(*cell))


def _short(name: str, longest: int) -> str:
    """A name without its middle if it has more characters."""
    half = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"

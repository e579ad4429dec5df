"""From one dock widget to another: a button with the icon and the whole name, whose menu opens or raises any of them.

It stands for the tabs of dock widgets that share a place, which a dozen names do not fit in.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
from npe2 import PluginManifest
from qtpy.QtCore import QPointF, QRectF, QSize, Qt
from qtpy.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap
from qtpy.QtWidgets import QMenu, QPushButton, QTabBar, QWidget

import napari_gpubio
from napari_gpubio.gui import theme
from napari_gpubio.gui.docking import raise_dock
from napari_gpubio.gui.front import front_of

PLUGIN = "napari-gpubio"
_ICON_PIXELS = 18
_NO_TABS = "QTabBar::tab { height: 0px; width: 0px; padding: 0px; margin: 0px; border: none; }"


@functools.cache
def names_of_panels() -> dict[str, str]:
    """Return the dock widgets of the manifest: their names, and the classes that make them (``module:class``)."""
    manifest = PluginManifest.from_file(Path(napari_gpubio.__file__).with_name("napari.yaml"))
    makers = {command.id: str(command.python_name) for command in manifest.contributions.commands or ()}
    return {widget.display_name: makers[widget.command] for widget in manifest.contributions.widgets or ()}


def name_of(panel: QWidget) -> str:
    """Return the name of a panel in the manifest; that of its class if it has none."""
    own = type(panel)
    for name, maker in names_of_panels().items():
        module, _, made = maker.partition(":")
        if made == own.__name__ and own.__module__.startswith(module):
            return name
    return own.__name__


def open_panel(viewer: Any, name: str) -> Any:
    """Bring the dock widget of a name to the front, or open it; returns it."""
    _, panel = viewer.window.add_plugin_dock_widget(PLUGIN, name, tabify=True)
    raise_dock(panel)
    if panel in front_of(viewer).panels:
        panel.come_to_front()
    return panel


class Switcher(QPushButton):
    """Shows which panel this is; its menu has all of them, those that are open in bold."""

    def __init__(self, viewer: Any, panel: QWidget) -> None:
        super().__init__(panel)
        self._viewer, self._panel, self._name = viewer, panel, name_of(panel)
        self.setText(self._name)
        self.setToolTip("Go to another panel")
        self.setAccessibleName("Panel")
        self.setIconSize(QSize(_ICON_PIXELS, _ICON_PIXELS))
        menu = QMenu(self)
        menu.aboutToShow.connect(self._fill)
        self.setMenu(menu)
        self.recolor({})

    def recolor(self, _swap: Any) -> None:
        """Draw the icon in the color of another theme."""
        self.setIcon(icon_of(self._name))

    def _fill(self) -> None:
        menu, opened = self.menu(), {name_of(panel) for panel in front_of(self._viewer).panels}
        menu.clear()
        for name in names_of_panels():
            action = menu.addAction(icon_of(name), name)
            action.setCheckable(True)
            action.setChecked(name == self._name)
            font = action.font()
            font.setBold(name in opened)
            action.setFont(font)
            action.triggered.connect(functools.partial(self._go, name))

    def _go(self, name: str, *_: Any) -> None:
        if name != self._name:
            open_panel(self._viewer, name)


def fold_tabs(window: QWidget) -> None:
    """Fold the tabs away where all of them are panels, each of which has a `Switcher`; show those of others."""
    mark = f"({PLUGIN})"
    for bar in window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
        titles = [bar.tabText(number) for number in range(bar.count())]
        style = _NO_TABS if titles and all(title.endswith(mark) for title in titles) else ""
        if bar.styleSheet() != style:
            bar.setStyleSheet(style)


# -- icons ------------------------------------------------------------------------------------------------------------


@functools.cache
def _paths() -> dict[str, QPainterPath]:
    """Line drawings in a square of 16 x 16, by the names of panels."""
    return {
        "Diffusion tensors": _ellipses((8, 8, 7, 3.5), (8, 8, 2, 6)),
        "Fiber orientations": _ellipses((4.5, 8, 3.5, 2), (11.5, 8, 3.5, 2), (8, 4.5, 2, 3.5), (8, 11.5, 2, 3.5)),
        "Fiber tracking": _curves((1, 14, 6, 6, 15, 2), (1, 10, 5, 3, 10, 1), (5, 15, 10, 10, 15, 7)),
        "Dissect fibers": _joined(_curves((1, 13, 6, 5, 15, 3), (3, 2, 8, 8, 13, 14)), _ellipses((8, 8, 3.5, 3.5))),
        "Connect regions": _joined(
            _ellipses((3.5, 12.5, 2.5, 2.5), (12.5, 3.5, 2.5, 2.5)), _curves((5, 10, 6, 6, 10, 5))
        ),
        "Fiber flow": _joined(
            _ellipses((2.5, 8, 2, 2)), _curves((5, 8, 9, 8, 15, 2), (5, 8, 10, 8, 15, 8), (5, 8, 9, 8, 15, 14))
        ),
        "Bundle profiles": _curves((1, 1, 1, 8, 1, 15), (1, 15, 8, 15, 15, 15), (2, 12, 8, -4, 14, 11)),
        "Fiber uncertainty": _curves((1, 8, 6, 8, 15, 2), (1, 8, 7, 8, 15, 8), (1, 8, 6, 8, 15, 14)),
        "Connectome": _grid(3),
        "Light transport": _joined(_ellipses((8, 8, 3, 3)), _rays(5, 7.5)),
        "Denoise": _curves((1, 5, 4, -2, 6, 5), (6, 5, 7, 8, 9, 4), (1, 12, 8, 8, 15, 12)),
        "Registration": _joined(_ellipses((6, 8, 4.5, 6)), _curves((8, 3, 17, 4, 12, 14), (12, 14, 9, 15, 7, 13))),
        "Dose-volume histogram": _curves((1, 2, 9, 2, 10, 8), (10, 8, 11, 14, 15, 14), (1, 2, 1, 8, 1, 15)),
        "Laser speckle": _ellipses(
            *((x, y, 1.2, 1.2) for x, y in ((3, 3), (9, 2), (13, 6), (6, 7), (11, 11), (4, 12)))
        ),
        "BIDS dataset": _joined(
            _ellipses((3, 3.5, 1.8, 1.8), (3, 12, 1.8, 1.8)),
            _curves((7, 3.5, 11, 3.5, 15, 3.5), (7, 12, 11, 12, 15, 12)),
        ),
        "Session": _curves((2, 5, 8, 5, 14, 5), (2, 9, 8, 9, 14, 9), (2, 13, 6, 13, 10, 13)),
        "Linked views": _grid(2),
        "Undo": _joined(_curves((3, 6, 14, 1, 12, 13)), _curves((7, 2, 5, 4, 3, 6), (3, 6, 5, 8, 7, 10))),
        "Redo": _joined(_curves((13, 6, 2, 1, 4, 13)), _curves((9, 2, 11, 4, 13, 6), (13, 6, 11, 8, 9, 10))),
    }


def icon_of(name: str) -> QIcon:
    """Return the icon of a panel in the color of secondary text; an empty one if it has none."""
    pixmap = QPixmap(4 * _ICON_PIXELS, 4 * _ICON_PIXELS)  # for screens of any density
    pixmap.fill(Qt.GlobalColor.transparent)
    if (path := _paths().get(name)) is not None:
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(pixmap.width() / 16, pixmap.height() / 16)
        painter.setPen(QPen(QColor(theme.MUTED), 1.3))
        painter.drawPath(path)
        painter.end()
    return QIcon(pixmap)


def _joined(first: QPainterPath, *others: QPainterPath) -> QPainterPath:
    for other in others:
        first.addPath(other)
    return first


def _ellipses(*ellipses: tuple[float, float, float, float]) -> QPainterPath:
    """Ellipses, each by its center and half axes."""
    path = QPainterPath()
    for x, y, across, down in ellipses:
        path.addEllipse(QPointF(x, y), across, down)
    return path


def _curves(*curves: tuple[float, float, float, float, float, float]) -> QPainterPath:
    """Arcs, each by its start, the point that it bends to, and its end."""
    path = QPainterPath()
    for x, y, bent_x, bent_y, end_x, end_y in curves:
        path.moveTo(x, y)
        path.quadTo(bent_x, bent_y, end_x, end_y)
    return path


def _rays(first: float, last: float) -> QPainterPath:
    """Rays around the middle, between two radii."""
    path = QPainterPath()
    for number in range(8):
        x, y = np.cos(number * np.pi / 4), np.sin(number * np.pi / 4)
        path.moveTo(8 + first * x, 8 + first * y)
        path.lineTo(8 + last * x, 8 + last * y)
    return path


def _grid(cells: int) -> QPainterPath:
    path, size = QPainterPath(), 14 / cells
    for number in range(cells * cells):
        row, column = divmod(number, cells)
        path.addRect(QRectF(1 + column * size, 1 + row * size, size, size))
    return path

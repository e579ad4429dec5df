"""Every dock widget of the manifest with every page of it on screen, for what must hold of every control and label."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from napari.utils.theme import get_system_theme, get_theme
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QColor, QWheelEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QScrollArea,
    QScrollBar,
    QTabBar,
    QTabWidget,
    QTreeWidget,
    QTreeWidgetItemIterator,
    QWidget,
)

import napari_gpubio
from napari_gpubio.core.files import sample_path
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import ChoiceButtons, Folded
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.tractograms.gui.fibers import fiber_layer
from napari_gpubio.tractograms.io import read_tractogram

PLUGIN = "napari-gpubio"
NOTCH = 120  # of a wheel, in eighths of a degree
_WORD = re.compile("[^\\W_]")
_CONTROLS = (QComboBox, QAbstractSpinBox, QAbstractSlider, QTabBar, QAbstractScrollArea)


def dock_widgets() -> list[str]:
    """Return the names of all dock widgets of the manifest."""
    manifest = Path(napari_gpubio.__file__).with_name("napari.yaml").read_text(encoding="utf-8")
    return [widget["display_name"] for widget in yaml.safe_load(manifest)["contributions"]["widgets"]]


PANELS = [name for name in dock_widgets() if name != "Linked views"]  # canvases, whose wheel zooms


def add_layers(viewer: Any) -> None:
    """Add two layers of each kind that dock widgets take, so that their lists have entries to choose from."""
    values = np.random.default_rng(1).random((6, 12, 12)).astype(np.float32)
    bundles = read_tractogram(sample_path("brain_phantom/bundles.trk"))
    for number in (1, 2):
        viewer.add_image(values * number, name=f"volume {number}")
        viewer.add_labels((values > 0.5).astype(np.uint8) * number, name=f"labels {number}")
        viewer.add_image((200 * values).astype(np.uint8), name=f"frames {number}")
        viewer.add_layer(fiber_layer(bundles.select(range(5)), f"fibers {number}", beside=viewer.layers))


@contextmanager
def shown_panel(viewer: Any, name: str) -> Iterator[QWidget]:
    """A dock widget in the window of a viewer; laid out, but not painted, which takes time.

    At the end it is taken away, with the layers that were added since.
    """
    before = list(viewer.layers)
    _, panel = viewer.window.add_plugin_dock_widget(PLUGIN, name)
    viewer.window._qt_window.setUpdatesEnabled(False)
    let_live()
    try:
        yield panel
    finally:
        if isinstance(panel, EnginePanel):
            panel.teardown()
        else:
            panel.detach()
        viewer.window.remove_dock_widget(panel)
        for layer in [layer for layer in viewer.layers if layer not in before]:
            viewer.layers.remove(layer)


def pages(panel: QWidget) -> Iterator[str]:
    """Bring every page of a panel on screen: modes, tabs, what is folded, and the rows that choices in lists show."""
    yield from _choices(panel)
    for switch in panel.findChildren(ChoiceButtons):
        for name in switch._buttons:
            if switch._buttons[name].isVisible() and switch._buttons[name].isEnabled():
                switch.choose(name)
                yield from _choices(panel, f"{name}: ")


def _choices(panel: QWidget, prefix: str = "") -> Iterator[str]:
    for folded in panel.findChildren(Folded):
        folded.expand(animate=False)
    adding = [button for button in panel.findChildren(QAbstractButton) if button.text().startswith("Add ")]
    for button in dict.fromkeys((*adding[:1], *adding[-1:])):
        button.click()  # a row, of which kinds have the same controls
    let_live(panel)
    yield f"{prefix}as it opens"
    for tabs in panel.findChildren(QTabWidget):
        for index in range(tabs.count()):
            tabs.setCurrentIndex(index)
            let_live(panel)
            yield f"{prefix}{tabs.tabText(index)}"
    for box in panel.findChildren(QComboBox):
        if isinstance(box, LayerBox) or not box.isVisible() or not box.isEnabled():
            continue
        before = box.currentIndex()
        for index in range(min(box.count(), 12)):
            box.setCurrentIndex(index)
            box.activated.emit(index)
            let_live(panel)
            yield f"{prefix}{box.currentText()}"
        box.setCurrentIndex(before)
        box.activated.emit(before)
        let_live(panel)


def controls(panel: QWidget) -> list[QWidget]:
    """Return what is on screen of a panel and would be changed by a wheel."""
    return [
        widget
        for widget in panel.findChildren(QWidget)
        if isinstance(widget, _CONTROLS) and not isinstance(widget, (QScrollBar, QScrollArea))
        and widget.isVisible() and not isinstance(widget.parentWidget(), QAbstractScrollArea)
        and widget.window() is panel.window()
    ]  # fmt: skip


def scroll_area(panel: QWidget) -> QScrollArea | None:
    """Return what scrolls a panel."""
    return panel.findChild(QScrollArea)


def state(panel: QWidget) -> dict[str, Any]:
    """Return what the wheel could change in a panel: choices, numbers, tabs, ranges of plots, places of tables."""
    found: dict[str, Any] = {}
    for number, widget in enumerate(panel.findChildren(QWidget)):
        key = f"{type(widget).__name__} {number} {widget.toolTip()[:30]}"
        if isinstance(widget, (QComboBox, QTabBar)):
            found[key] = widget.currentIndex()
        elif isinstance(widget, QAbstractSpinBox):
            found[key] = widget.text()
        elif isinstance(widget, QScrollBar):
            around = widget.parentWidget().parentWidget()
            if around is not None and not isinstance(around, QScrollArea):
                found[key] = widget.value()
        elif isinstance(widget, QAbstractSlider):
            found[key] = widget.value()
        elif hasattr(widget, "getPlotItem"):
            found[key] = str(widget.getPlotItem().vb.viewRange())
    return found


def text_contrasts(viewer: Any, panel: QWidget) -> Iterator[tuple[str, str, float]]:
    """Text, color and contrast of each label, button, table and axis of a panel that is on screen."""
    colors = get_theme(get_system_theme() if viewer.theme == "system" else viewer.theme)
    window, inputs = (QColor(color.as_hex()).name() for color in (colors.background, colors.foreground))
    for label in panel.findChildren(QLabel):
        if label.isVisible() and _WORD.search(label.text()):
            yield from _of_label(label, window)
    for kind in (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit):
        for widget in panel.findChildren(kind):
            if widget.isVisible() and widget.isEnabled():
                color = widget.palette().color(widget.foregroundRole()).name()
                yield type(widget).__name__, color, theme.contrast(color, inputs)
    for plot in panel.findChildren(ThemedPlot):
        for side in ("left", "bottom"):
            color = plot.getAxis(side).textPen().color().name()
            yield f"{side} axis {plot.getAxis(side).labelText}", color, theme.contrast(color, window)
    for tree in panel.findChildren(QTreeWidget):
        items = QTreeWidgetItemIterator(tree)
        while (item := items.value()) is not None:
            color = item.foreground(0).color().name() if item.foreground(0).style() != Qt.BrushStyle.NoBrush else ""
            if color:
                yield item.text(0), color, theme.contrast(color, inputs)
            items += 1


def _of_label(label: QLabel, ground: str) -> Iterator[tuple[str, str, float]]:
    """The color of a label, and those of the words in it that have their own."""
    own = re.findall(r"color: ?(#[0-9a-f]{6})[^>]*>([^<]*)", label.text())
    color = label.palette().color(label.foregroundRole()).name()
    for shade, words in [(color, label.text()), *own]:
        if _WORD.search(words):
            yield words[:40], shade, theme.contrast(shade, ground)


def turn_wheel_at(widget: QWidget, notches: int) -> None:
    """Turn the wheel over the middle of what is seen of a widget; as Qt does, from the innermost widget outwards."""
    let_live()
    window, middle = widget.window(), widget.visibleRegion().boundingRect().center()
    everywhere = widget.mapToGlobal(middle)
    under: Any = window.childAt(widget.mapTo(window, middle)) or widget
    while under is not None:
        event = QWheelEvent(
            QPointF(under.mapFromGlobal(everywhere)), QPointF(everywhere), QPoint(), QPoint(0, NOTCH * notches),
            Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        is_handled = QApplication.sendEvent(under, event)
        if (is_handled and event.isAccepted()) or under.isWindow():
            break
        under = under.parentWidget()
    let_live()


def let_live(panel: QWidget | None = None) -> None:
    """Lay out, and let the run end that a choice may have begun."""
    for _ in range(3):
        QApplication.processEvents()
    end = time.monotonic() + 60.0
    while isinstance(panel, EnginePanel) and (panel.running or panel.waiting) and time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.002)

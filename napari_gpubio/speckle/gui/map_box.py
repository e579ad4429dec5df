"""The part of the panel that says how maps look: limits that stay, color bar, baseline, video."""

from typing import Any

from napari.layers import Image
from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.speckle.gui.color_bar import ColorBar
from napari_gpubio.speckle.gui.live_layers import limits_of, set_limits
from napari_gpubio.speckle.gui.words import MAPS, PANEL

NO_MAP = "no map yet"
NO_BASELINE = "none yet"
VIDEO_TIP = "Write the chosen map as a video: GIF, or mp4, which pip install imageio-ffmpeg adds; or as pictures, PNG"


class MapBox(QWidget):
    """Looks of a map, and the baseline of relative flow.

    ``baseline_wanted`` and ``video_wanted`` say that a button was pressed.
    """

    baseline_wanted = Signal()
    video_wanted = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layer_box = LayerBox(viewer, _is_map, empty=NO_MAP, parent=self)
        self.layer_box.setMinimumContentsLength(6)
        self.bar = ColorBar(self)
        self.low, self.high = _limit_box(self), _limit_box(self)
        self.rescale_button = _button("Rescale", "Limits that 98 % of the values now on screen lie within", self)
        self.on_canvas = QCheckBox("color bar over the picture", self)
        self.maps = QSpinBox(self)
        self.maps.setRange(1, 10_000)
        self.maps.setValue(30)
        self.baseline_button = _button("Take", "Live: flow 1 is the mean of the next maps", self)
        self.baseline_text = QLabel(NO_BASELINE, self)
        self.video_button = _button("Video …", VIDEO_TIP, self)
        self._viewer = viewer
        self._followed: Any = None
        self._fill()
        self._connect()

    @property
    def layer(self) -> Any | None:
        """The chosen map, or None."""
        return self.layer_box.layer

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.layer_box.attach()
        self._follow()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._let_go()
        self.layer_box.detach()

    def choose(self, layer: Any) -> None:
        """Choose a map."""
        self.layer_box.choose(layer)

    def rescale(self) -> None:
        """Set limits by what is on screen."""
        if self.layer is not None:
            set_limits(self.layer, limits_of(_on_screen(self.layer, self._viewer)))

    def _fill(self) -> None:
        limits, base = QHBoxLayout(), QHBoxLayout()
        for widget, stretch in ((self.low, 1), (self.high, 1), (self.rescale_button, 0)):
            limits.addWidget(widget, stretch)
        for widget, stretch in ((self.maps, 1), (self.baseline_button, 1)):
            base.addWidget(widget, stretch)
        chosen = QHBoxLayout()
        chosen.addWidget(self.layer_box, 1)
        chosen.addWidget(self.video_button)
        form = aligned_form(None)
        form.addRow(row_label("Shown map", "The live map, or one of a whole stack", self), chosen)
        form.addRow(row_label("Limits", "They stay as they are, so that changes of flow are seen", self), limits)
        tip = "Maps that count as flow 1. Live: those that come after the button; of a whole stack: its first ones"
        form.addRow(row_label("Baseline (maps)", tip, self), base)
        form.addRow("", self.baseline_text)
        form.addRow(self.on_canvas)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.bar)
        layout.addLayout(form)
        self.baseline_text.setStyleSheet("color: #9a9a9a;")
        self.baseline_text.setWordWrap(True)
        self.bar.hide()

    def _connect(self) -> None:
        self.layer_box.currentIndexChanged.connect(self._follow)
        self.rescale_button.clicked.connect(lambda *_: self.rescale())
        self.on_canvas.toggled.connect(self._on_bar)
        self.baseline_button.clicked.connect(lambda *_: self.baseline_wanted.emit())
        self.video_button.clicked.connect(lambda *_: self.video_wanted.emit())
        for box in (self.low, self.high):
            box.valueChanged.connect(self._on_limits)

    # -- the chosen layer -----------------------------------------------------------------------------------------

    def _follow(self, *_: Any) -> None:
        self._let_go()
        layer = self._followed = self.layer
        if layer is not None:
            for event in _events(layer):
                event.connect(self._show)
        for part in (self.low, self.high, self.rescale_button, self.on_canvas, self.video_button):
            part.setEnabled(layer is not None)
        self._on_bar()
        self._show()

    def _let_go(self) -> None:
        if self._followed is not None:
            for event in _events(self._followed):
                event.disconnect(self._show)
        self._followed = None

    def _show(self, *_: Any) -> None:
        layer = self._followed
        self.bar.show_layer(layer, "" if layer is None else str(carried(layer, "title") or layer.name))
        if layer is None:
            return
        low, high = layer.contrast_limits
        for box, value in ((self.low, low), (self.high, high)):
            box.setSingleStep((high - low) / 20)
            box.show_value(value)

    def _on_limits(self, *_: Any) -> None:
        low, high = self.low.value(), self.high.value()
        if self._followed is not None and low < high:
            set_limits(self._followed, (low, high))

    def _on_bar(self, *_: Any) -> None:
        if self._followed is not None:
            self._followed.colorbar.visible = self.on_canvas.isChecked()


def _is_map(layer: Any) -> bool:
    return isinstance(layer, Image) and carried(layer, PANEL) in MAPS


def _events(layer: Any) -> tuple[Any, ...]:
    return layer.events.contrast_limits, layer.events.colormap, layer.events.name


def _on_screen(layer: Any, viewer: Any) -> Any:
    """The map that is shown of a stack, or a single one."""
    if layer.ndim < 3:
        return layer.data
    at = layer.world_to_data(viewer.dims.point)[0]
    return layer.data[min(max(round(float(at)), 0), len(layer.data) - 1)]


def _limit_box(parent: QWidget) -> NumberBox:
    return NumberBox(-1e12, 1e12, 0.0, 4, parent)


def _button(text: str, tip: str, parent: QWidget) -> QPushButton:
    button = QPushButton(text, parent)
    button.setToolTip(tip)
    return button

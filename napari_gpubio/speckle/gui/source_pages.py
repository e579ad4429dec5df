"""The pages of the source box: an open stack, a watched folder, a camera, a simulated camera."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QCheckBox, QFileDialog, QLabel, QLineEdit, QSlider, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.speckle.gui.form_parts import faint, row_of, small_button, whole_box
from napari_gpubio.speckle.gui.places import Place, place_of
from napari_gpubio.speckle.gui.words import PANEL
from napari_gpubio.speckle.live import CameraSource, FolderSource, SimulatedCamera, Source, StackSource
from napari_gpubio.speckle.model import FrameStack

NO_STACK = "there is no stack of frames; open one (File > Open Sample > napari-gpubio > Flow phantom shows how)"
NO_CAMERA = "Cameras need pymmcore-plus. Install it with pip install 'napari-gpubio[camera]' and start napari again."
_FLOW_STEPS = 20  # of the slider, per unit of flow


class Page(QWidget):
    """One kind of source.

    ``changed`` says that another source is meant; ``rate_hz`` is what its frames come at, as far as it is known.
    """

    title = ""
    changed = Signal()
    rate_hz = 30.0

    def make(self, exposure_ms: float) -> Source:
        """Return the source, or raise InvalidInput with a sentence."""
        raise NotImplementedError

    def place(self) -> Place:
        """Return scale and units of maps (y, x)."""
        return {}

    def attach(self) -> None:
        """Follow the viewer."""

    def detach(self) -> None:
        """Hear no more of the viewer."""


class StackPage(Page):
    """An image layer that is open, played as if a camera took it."""

    title = "open image stack"

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layer_box = LayerBox(viewer, is_raw_stack, empty="open a stack (frames, y, x)", parent=self)
        self.layer_box.setMinimumContentsLength(8)
        self.rate = NumberBox(0.1, 1000.0, 30.0, 1, self, arrows=True)
        self.again = QCheckBox("loop", self)
        self.again.setChecked(True)
        self.again.setToolTip("Begin again at the end")
        self.told = faint(self)
        form = aligned_form(self)
        form.addRow(row_label("Stack", "Raw speckle frames of one channel, shape (frames, y, x)", self), self.layer_box)
        played = row_label("Rate (frames/s)", "At which it is played; also the time axis of the curves", self)
        form.addRow(played, row_of(self.rate, self.again))
        form.addRow(self.told)
        self.layer_box.currentIndexChanged.connect(self._on_layer)
        self._on_layer()

    @property
    def rate_hz(self) -> float:
        """Frames per second, for live play and for the time axis."""
        return float(self.rate.value())

    @property
    def layer(self) -> Any:
        """The chosen layer, or InvalidInput."""
        layer = self.layer_box.layer
        if layer is None:
            raise InvalidInput(NO_STACK)
        if layer.rgb:
            raise InvalidInput(
                f"{layer.name!r} is a color image; give one channel: right-click the layer and choose Split RGB"
            )
        return layer

    def make(self, exposure_ms: float) -> Source:
        """Return a player of the stack."""
        layer = self.layer
        FrameStack(frames_of(layer))  # refuses what looks like colors
        return StackSource(
            frames_of(layer), self.rate_hz, loop=self.again.isChecked(), exposure_ms=exposure_ms, bits=_bits_of(layer),
            name=repr(layer.name),
        )  # fmt: skip

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.layer_box.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self.layer_box.detach()

    def place(self) -> Place:
        """Return scale, translation and units of the layer's last two axes."""
        return place_of(self.layer)

    def _on_layer(self, *_: Any) -> None:
        self.told.setText(_told_of(self.layer_box.layer))
        self.told.setVisible(bool(self.told.text()))
        self.changed.emit()


class FolderPage(Page):
    """A folder in which another program leaves image files."""

    title = "watched folder"

    def __init__(self, _viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.folder = QLineEdit(self)
        self.folder.setPlaceholderText("where TIFF or PNG files arrive")
        form = aligned_form(self)
        choose = small_button("…", "Choose a folder", self._choose, self)
        form.addRow(
            row_label("Folder", "Files are taken in the order of their names", self), row_of(self.folder, choose)
        )

    def make(self, exposure_ms: float) -> Source:
        """Return the watcher."""
        if not self.folder.text().strip():
            raise InvalidInput("no folder is chosen; choose the one that the frames come to")
        return FolderSource(Path(self.folder.text().strip()).expanduser(), exposure_ms=exposure_ms)

    def _choose(self) -> None:
        if chosen := QFileDialog.getExistingDirectory(self, "Folder that frames come to", self.folder.text()):
            self.folder.setText(chosen)


class CameraPage(Page):
    """A camera through Micro-Manager."""

    title = "camera (Micro-Manager)"

    def __init__(self, _viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.config = QLineEdit(self)
        self.config.setPlaceholderText("as it is loaded")
        self.hint = faint(self)
        self.hint.setText(NO_CAMERA)
        self.hint.setVisible(not has_camera_support())
        form = aligned_form(self)
        choose = small_button("…", "Choose a configuration file", self._choose, self)
        label = row_label("Configuration", "Micro-Manager's .cfg file; empty: the core as it is", self)
        form.addRow(label, row_of(self.config, choose))
        form.addRow(self.hint)

    def make(self, exposure_ms: float) -> Source:
        """Return the camera; it is opened when live imaging starts."""
        if not has_camera_support():
            raise InvalidInput(NO_CAMERA)
        return CameraSource(config=self.config.text().strip() or None, exposure_ms=exposure_ms)

    def place(self) -> Place:
        """Return the core's pixel size, where it is known."""
        if not has_camera_support():
            return {}
        from pymmcore_plus import CMMCorePlus

        size = float(CMMCorePlus.instance().getPixelSizeUm())
        return {"scale": (size, size), "units": ("um", "um")} if size > 0 else {}

    def _choose(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self, "Micro-Manager configuration", "", "Configuration (*.cfg)")
        if chosen:
            self.config.setText(chosen)


class SimulatedPage(Page):
    """A simulated camera over a vessel whose flow can be changed."""

    title = "simulated camera"

    def __init__(self, _viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.width_box, self.height_box = whole_box(696, 32, 4096, self), whole_box(520, 32, 4096, self)
        self.rate = NumberBox(1.0, 500.0, 30.0, 1, self, arrows=True)
        self.flow = QSlider(Qt.Orientation.Horizontal, self)
        self.flow.setRange(1, 63)
        self.flow.setValue(_FLOW_STEPS)
        self.flow_text = QLabel(self)
        self.flow_text.setMinimumWidth(44)
        form = aligned_form(self)
        size = row_of(self.width_box, QLabel("×", self), self.height_box)
        form.addRow(row_label("Frame (pixels)", "Width and height", self), size)
        form.addRow(row_label("Rate (frames/s)", "", self), self.rate)
        tip = "Speed in the vessel, times that at 1; it may be moved while the camera runs"
        form.addRow(row_label("Flow in the vessel", tip, self), row_of(self.flow, self.flow_text))
        self.camera: SimulatedCamera | None = None
        self.flow.valueChanged.connect(self._on_flow)
        self._on_flow()

    @property
    def rate_hz(self) -> float:
        """Frames per second."""
        return float(self.rate.value())

    def make(self, exposure_ms: float) -> Source:
        """Return the camera; one that is as it was is used again, since its speckle takes a second to compute."""
        shape = (self.height_box.value(), self.width_box.value())
        now = (shape, self.rate_hz, exposure_ms)
        if self.camera is None or (self.camera.shape, self.camera.rate_hz, self.camera.exposure_ms) != now:
            self.camera = SimulatedCamera(shape, self.rate_hz, exposure_ms=exposure_ms)
        self._on_flow()
        return self.camera

    def _on_flow(self, *_: Any) -> None:
        flow = self.flow.value() / _FLOW_STEPS
        self.flow_text.setText(f"{flow:.2f} ×")
        if self.camera is not None:
            self.camera.flow = flow


PAGES = (StackPage, FolderPage, CameraPage, SimulatedPage)


def has_camera_support() -> bool:
    """Whether the optional package for cameras is installed."""
    return importlib.util.find_spec("pymmcore_plus") is not None


def frames_of(layer: Any) -> Any:
    """Return the frames of an image layer, as they are: NumPy, dask or whatever it holds."""
    return layer.data[0] if layer.multiscale else layer.data


def is_raw_stack(layer: Any) -> bool:
    """Whether a layer may hold raw frames: an image that is neither a map of ours nor a truth or a result."""
    ours = carried(layer, PANEL) is not None or carried(layer, "quantity") is not None
    return isinstance(layer, Image) and layer.ndim >= 2 and not ours


def _bits_of(layer: Any) -> int | None:
    top = carried(layer, "saturation_adu")
    return None if top is None else int(top).bit_length()


def _told_of(layer: Any) -> str:
    if layer is None:
        return ""
    frames = frames_of(layer)
    shape = tuple(frames.shape)
    size = f"{shape[-1]} × {shape[-2]} pixels, {np.dtype(frames.dtype)}"
    text = f"{shape[0]} frames of {size}" if len(shape) == 3 and not layer.rgb else f"shape {shape}, {frames.dtype}"
    known = (("exposure_ms", "ms exposure"), ("dark_adu", "ADU dark"))
    return ", ".join([text, *(f"{carried(layer, k):g} {w}" for k, w in known if carried(layer, k) is not None)])

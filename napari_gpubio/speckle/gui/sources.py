"""Inputs of the frames: an open stack, a watched folder, a camera, a simulated camera."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QCheckBox, QLineEdit, QSlider, QSpinBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, carried
from napari_gpubio.core.reading import NOTES
from napari_gpubio.gui.connections import Follower, connect_all
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.file_dialogs import folder_path, open_path
from napari_gpubio.gui.foreign_files import foreign_file, show_instead
from napari_gpubio.gui.forms import Label, aligned_form, fill_column, muted_label, row_label, row_of, text_button
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import LayerBox, LayerListener
from napari_gpubio.gui.results import ResultFiles
from napari_gpubio.speckle.gui.panel_layers import (
    Place,
    frames_of,
    is_raw_stack,
    may_be_frames,
    place_of,
    why_no_frames,
)
from napari_gpubio.speckle.io import READ_TIFF_SUFFIXES, VIDEO_SUFFIXES, TiffLook, look_at_tiff
from napari_gpubio.speckle.live import CameraSource, FolderSource, SimulatedCamera, Source, StackSource
from napari_gpubio.speckle.model import FrameStack
from napari_gpubio.speckle.napari_io import read_layer

NO_STACK = "there is no stack of frames; open one (File > Open Sample > napari-gpubio > Flow phantom shows how)"
NO_CAMERA = "Cameras need pymmcore-plus. Install it with pip install 'napari-gpubio[camera]' and start napari again."
NO_FOLDER = "no folder is chosen; choose the one that the frames come to"
NOT_A_STACK = "a whole stack is run from an open layer; choose 'open image stack' as the source"
_RATE_HZ = 30.0
_BROWSE_WIDTH_PIXELS = 30
_FRAMES = f"Frames ({' '.join(f'*{suffix}' for suffix in (*READ_TIFF_SUFFIXES, *VIDEO_SUFFIXES))} *.0*);;All files (*)"
_REREAD_TIP = (
    "Read the file once more for speckle: frames that it lacks are left out, not black; the layer stays in place"
)
_SLIDER_STEPS_PER_FLOW = 20
_PIXEL_TIP = "Pixel size at the sample, for the scale bar. A camera calibrated in Micro-Manager reports it"
_FLOW_TIP = "Flow speed in the vessel, relative to 1; can be changed while the camera runs"


class Page(QWidget):
    """One kind of source."""

    title = ""

    @property
    def rate_hz(self) -> float:
        """Frames per second, as far as they are known."""
        return _RATE_HZ

    def make_source(self, exposure_ms: float) -> Source:
        """Return the source, or raise InvalidInput with a sentence."""
        raise NotImplementedError

    def place(self) -> Place:
        """Return scale, translation and units of maps (y, x), as far as they are known."""
        return {}


class StackPage(Page, Follower):
    """An image layer that is open, played as if a camera took it."""

    title = "open image stack"

    def __init__(self, viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self._viewer, self.files, self._look = viewer, ResultFiles(self), LatestJob(self)
        empty = "open a stack (frames, y, x)"
        self.layer_box = LayerBox(viewer, why_no_frames, empty=empty, suggests=may_be_frames, parent=self)
        self.layer_box.setMinimumContentsLength(8)
        self._listener = LayerListener(viewer, is_raw_stack, data_changed=self._on_data)
        self.followers = (self.layer_box, self._listener, self.files)
        self.rate = NumberBox(0.1, 1000.0, _RATE_HZ, 1, self, arrows=True)
        self.again = QCheckBox("loop", self, toolTip="Start over at the end", checked=True)
        self.description = muted_label(self)
        self.reread_button = text_button("Read it as frames", _REREAD_TIP, self, self._reread)
        choose = text_button("…", "Open frames: TIFF, a video or a raw file", self, self._choose)
        choose.setFixedWidth(_BROWSE_WIDTH_PIXELS)
        form = aligned_form(self)
        label = row_label("Stack", "Raw speckle frames of one channel, shape (frames, y, x)", self)
        form.addRow(label, row_of(self.layer_box, choose))
        rate = row_label("Rate (frames/s)", "Playback rate; also sets the time axis of the curves", self)
        form.addRow(rate, row_of(self.rate, self.again))
        form.addRow(self.description)
        form.addRow(self.reread_button)
        self.layer_box.currentIndexChanged.connect(self._describe)
        self._look.finished.connect(self._on_look)
        self._describe()

    def detach(self) -> None:
        """Stop following them, and drop what is being read."""
        super().detach()
        self._look.abandon()

    @property
    def rate_hz(self) -> float:
        """Frames per second, for live play and for the time axis."""
        return float(self.rate.value())

    @property
    def layer(self) -> Any:
        """The chosen layer; raises InvalidInput if there is none."""
        return self.layer_box.needed(NO_STACK)

    def make_source(self, exposure_ms: float) -> Source:
        """Return a player of the stack."""
        layer = self.layer
        FrameStack(frames_of(layer))  # refuses what looks like colors
        top = carried(layer, "saturation_adu")
        bits = None if top is None else int(top).bit_length()
        return StackSource(
            frames_of(layer), self.rate_hz, loop=self.again.isChecked(), exposure_ms=exposure_ms, bits=bits,
            name=repr(layer.name),
        )  # fmt: skip

    def place(self) -> Place:
        """Return scale, translation and units of the layer's last two axes."""
        return place_of(self.layer)

    def open(self, path: Path) -> None:
        """Show the frames of a file as a layer of their own, once read."""
        self.files.read(path, read_layer, self._add)

    def _choose(self) -> None:
        self.files.ask_to_read("Open frames", _FRAMES, read_layer, self._add)

    def _add(self, read: LayerData) -> None:
        frames, keywords, _ = read
        self.layer_box.choose(self._viewer.add_image(frames, **keywords))

    def _reread(self) -> None:
        layer = self.layer
        self.files.read(Path(layer.source.path), read_layer, lambda read: show_instead(layer, read))

    def _on_data(self, layer: Any, _: Any) -> None:
        if layer == self.layer_box.layer:  # it is another stack to all that listen
            self.layer_box.currentIndexChanged.emit(self.layer_box.currentIndex())

    def _describe(self, *_: Any) -> None:
        layer = self.layer_box.layer
        self.description.setText("" if layer is None else _stack_text(layer))
        self.description.setVisible(layer is not None)
        self.reread_button.hide()
        self._look.cancel()
        if layer is not None and (path := foreign_file(layer)) is not None:
            self._look.submit(one_step("frames", partial(look_at_tiff, path)))

    def _on_look(self, outcome: Outcome) -> None:
        """Tell how frames differ from what another reader showed."""
        layer = self.layer_box.layer
        if layer is None or outcome.error:  # what cannot be read as frames is left to that reader
            return
        look: TiffLook = outcome.result
        if look.notes or look.shape != tuple(frames_of(layer).shape):
            *counted, rows, columns = look.shape
            count = f"{counted[0]} frames" if counted else "one frame"
            found = f"Another reader opened this file, which has {count} of {columns} × {rows} pixels."
            self.description.setText("\n".join([_stack_text(layer), found, *look.notes]))
            self.reread_button.show()


def _stack_text(layer: Any) -> str:
    frames = frames_of(layer)
    shape = tuple(frames.shape)
    size = f"{shape[-1]} × {shape[-2]} pixels, {np.dtype(frames.dtype)}"
    text = f"{shape[0]} frames of {size}" if len(shape) == 3 and not layer.rgb else f"shape {shape}, {frames.dtype}"
    known = (("exposure_ms", "ms exposure"), ("dark_adu", "ADU dark"))
    about = ", ".join([text, *(f"{carried(layer, k):g} {w}" for k, w in known if carried(layer, k) is not None)])
    return "\n".join([about, *(carried(layer, NOTES) or ())])


class FolderPage(Page):
    """A folder in which another program leaves image files."""

    title = "watched folder"

    def __init__(self, _viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self.folder = QLineEdit(self, placeholderText="where TIFF or PNG files arrive")
        choose = text_button("…", "Choose a folder", self, self._choose)
        choose.setFixedWidth(_BROWSE_WIDTH_PIXELS)
        label = row_label("Folder", "Files are read in the order of their names", self)
        aligned_form(self).addRow(label, row_of(self.folder, choose))

    def make_source(self, exposure_ms: float) -> Source:
        """Return the watcher."""
        if not self.folder.text().strip():
            raise InvalidInput(NO_FOLDER)
        return FolderSource(Path(self.folder.text().strip()).expanduser(), exposure_ms=exposure_ms)

    def _choose(self) -> None:
        chosen = folder_path(self, "Folder in which frames arrive", start=self.folder.text())
        if chosen is not None:
            self.folder.setText(str(chosen))


class CameraPage(Page):
    """A camera through Micro-Manager."""

    title = "camera (Micro-Manager)"

    def __init__(self, _viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self.config = QLineEdit(self, placeholderText="as it is loaded")
        hint = muted_label(self, NO_CAMERA)
        hint.setVisible(not has_camera_support())
        choose = text_button("…", "Choose a configuration file", self, self._choose)
        choose.setFixedWidth(_BROWSE_WIDTH_PIXELS)
        form = aligned_form(self)
        label = row_label("Configuration", "Micro-Manager .cfg file; leave empty to use the core as it is", self)
        form.addRow(label, row_of(self.config, choose))
        form.addRow(hint)

    def make_source(self, exposure_ms: float) -> Source:
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
        chosen = open_path(self, "Micro-Manager configuration", "Configuration (*.cfg)")
        if chosen is not None:
            self.config.setText(str(chosen))


class SimulatedPage(Page):
    """A simulated camera over a vessel whose flow can be changed."""

    title = "simulated camera"

    def __init__(self, _viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self.width_box, self.height_box = QSpinBox(self), QSpinBox(self)
        for box, pixels in ((self.width_box, 696), (self.height_box, 520)):
            box.setRange(32, 4096)
            box.setValue(pixels)
        self.rate = NumberBox(1.0, 500.0, _RATE_HZ, 1, self, arrows=True)
        self.flow = QSlider(Qt.Orientation.Horizontal, self)
        self.flow.setRange(1, 63)
        self.flow.setValue(_SLIDER_STEPS_PER_FLOW)
        self.flow_text = Label(self, minimumWidth=44)
        size = row_of(self.width_box, Label("×", self), self.height_box, stretch=(1, 0, 1))
        form = aligned_form(self)
        form.addRow(row_label("Frame (pixels)", "Width and height", self), size)
        form.addRow(row_label("Rate (frames/s)", "", self), self.rate)
        form.addRow(row_label("Flow in the vessel", _FLOW_TIP, self), row_of(self.flow, self.flow_text))
        self.camera: SimulatedCamera | None = None
        self.flow.valueChanged.connect(self._on_flow)
        self._on_flow()

    @property
    def rate_hz(self) -> float:
        """Frames per second."""
        return float(self.rate.value())

    def make_source(self, exposure_ms: float) -> Source:
        """Return the camera; one that is as it was is used again, since its speckle takes a second to compute."""
        shape = (self.height_box.value(), self.width_box.value())
        now = (shape, self.rate_hz, exposure_ms)
        if self.camera is None or (self.camera.shape, self.camera.rate_hz, self.camera.exposure_ms) != now:
            self.camera = SimulatedCamera(shape, self.rate_hz, exposure_ms=exposure_ms)
        self._on_flow()
        return self.camera

    def _on_flow(self, *_: Any) -> None:
        flow = self.flow.value() / _SLIDER_STEPS_PER_FLOW
        self.flow_text.setText(f"{flow:.2f} ×")
        if self.camera is not None:
            self.camera.flow = flow


def has_camera_support() -> bool:
    """Whether the optional package for cameras is installed."""
    return importlib.util.find_spec("pymmcore_plus") is not None


class SourceBox(QWidget):
    """A list of kinds of sources, and below it what the chosen kind needs."""

    changed = Signal()
    pixel_size_changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.simulated = SimulatedPage(viewer, self)
        self._stack_page = StackPage(viewer, self)
        self.pages: list[Page] = [self._stack_page, FolderPage(viewer, self), CameraPage(viewer, self), self.simulated]
        self.attach, self.detach, self.files = self._stack_page.attach, self._stack_page.detach, self._stack_page.files
        self.kind = ElidedComboBox(self, entries=[page.title for page in self.pages])
        self.pixel = NumberBox(0.0, 1e5, 0.0, 3, self, arrows=True, specialValueText="not known")
        self._sizes = QWidget(self)
        aligned_form(self._sizes).addRow(row_label("Pixel size (µm)", _PIXEL_TIP, self), self.pixel)
        self.kind.setToolTip("Where raw speckle frames come from")
        fill_column(self, *self.pages, self._sizes)
        connect_all((
            (self.pixel.valueChanged, lambda *_: self.pixel_size_changed.emit()),
            (self._stack_page.layer_box.currentIndexChanged, lambda *_: self.changed.emit()),
            (self.kind.currentIndexChanged, self._on_kind),
        ))  # fmt: skip
        self._on_kind()

    @property
    def page(self) -> Page:
        """The chosen kind."""
        return self.pages[self.kind.currentIndex()]

    @property
    def stack(self) -> StackPage:
        """The page of the open stack; raises InvalidInput if another kind is chosen."""
        if self.page is not self._stack_page:
            raise InvalidInput(NOT_A_STACK)
        return self._stack_page

    def place(self) -> Place:
        """Return scale, translation and units of live maps, as far as they are known."""
        size = self.pixel.value()
        typed = {"scale": (size, size), "units": ("um", "um")} if size > 0 else {}
        return self.page.place() or typed

    def choose(self, kind: type[Page]) -> None:
        """Choose a kind of source."""
        self.kind.setCurrentText(kind.title)

    def _on_kind(self, *_: Any) -> None:
        for page in self.pages:
            page.setVisible(page is self.page)
        self._sizes.setVisible(self.page is not self._stack_page)  # a layer has its own
        self.changed.emit()

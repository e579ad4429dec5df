"""The part of the panel that says what is denoised: the image, which of its volumes, where, and what values mean."""

from typing import Any

from napari.layers import Image, Labels
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QSpinBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.denoise.napari_io import LayerVolume, layer_volume, mask_array, says_log
from napari_gpubio.gui.forms import Folded, aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox

PANEL = "panel"  # under which our own layers say what they are
NO_IMAGE = "there is no image; open a volume or a series of volumes, for instance a NIfTI file"
_GAPS = "Leave out voxels that are NaN or infinite; they stay as they are"


class ImageBox(QWidget):
    """Image, volumes, mask; gaps are asked for in a folded part.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layer_box = LayerBox(viewer, _is_image, empty="open a volume (3-D or 4-D image)", parent=self)
        self.mask_box = LayerBox(viewer, _is_mask, nothing="all voxels", parent=self)
        self.log = QCheckBox("log10 (what they mean is filtered)", self)
        self.gaps = QCheckBox("skip voxels that are NaN or infinite", self)
        self.first, self.last = QSpinBox(self), QSpinBox(self)
        self.sizes = QLabel(self)
        self._viewer = viewer
        self._is_own_choice = False  # of the user
        self._followed: Any = None
        self._fill()
        self._connect()
        self._on_layer()

    @property
    def layer(self) -> Any | None:
        """The chosen image layer, or None."""
        return self.layer_box.layer

    @property
    def volumes(self) -> slice | None:
        """Which volumes of a series, or None: all of them, or there is but one."""
        if self.layer is None or self.layer.ndim == 3:
            return None
        first, last = self.first.value(), self.last.value()
        if first > last:
            raise InvalidInput(f"the volumes go from {first} to {last}; choose a last one that is not before the first")
        return None if (first, last) == (0, self.last.maximum()) else slice(first, last + 1)

    def image(self) -> LayerVolume:
        """Take down the image.

        Raises
        ------
        InvalidInput
            If there is none.
        """
        if self.layer is None:
            raise InvalidInput(NO_IMAGE)
        return layer_volume(self.layer, is_log=self.log.isChecked())

    def settle(self) -> None:
        """Take the image for the user's own choice, since it is denoised: its result hides it."""
        self._is_own_choice = True

    def mask(self, image: LayerVolume) -> Any | None:
        """Return the mask, shape (X, Y, Z), or None.

        Raises
        ------
        InvalidInput
            If it lies on another grid than the image.
        """
        layer = self.mask_box.layer
        if layer is None:
            return None
        image.check_same_grid(layer, "mask")
        return mask_array(layer)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.layer_box.attach()
        self.mask_box.attach()
        self._viewer.layers.events.inserted.connect(self._prefer_visible)
        self._prefer_visible()

    def detach(self) -> None:
        """Hear no more of the viewer, and let the image go."""
        self._viewer.layers.events.inserted.disconnect(self._prefer_visible)
        self.layer_box.detach()
        self.mask_box.detach()
        self._follow(None)

    def _fill(self) -> None:
        self._rows = aligned_form(self)
        self._series = QWidget(self)
        row = QHBoxLayout(self._series)
        row.setContentsMargins(0, 0, 0, 0)
        for widget in (self.first, QLabel("to", self), self.last):
            row.addWidget(widget, 0 if isinstance(widget, QLabel) else 1)
        self.sizes.setStyleSheet("color: #9a9a9a;")
        self.sizes.setWordWrap(True)
        more = Folded("Missing values", self)
        more.fold(self.gaps)
        for text, tip, widget in (
            ("Image", "A volume, or a series of volumes: an image layer with 3 or 4 dimensions", self.layer_box),
            (
                "",
                "Edges of a voxel as the layer has them; windows are equally long in mm along every axis",
                self.sizes,
            ),
            ("Values", "The layer shows logarithms: their powers of ten are denoised, and shown as log10", self.log),
            ("Volumes", "Which volumes are denoised; the others stay as they are", self._series),
            ("Mask", "Voxels to denoise; the others stay as they are and are not averaged", self.mask_box),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)
        self.gaps.setToolTip(_GAPS)
        self._rows.addRow(more)

    def _connect(self) -> None:
        self.layer_box.currentIndexChanged.connect(self._on_layer)
        self.layer_box.activated.connect(lambda *_: self.settle())
        signals = (self.mask_box.currentIndexChanged, self.log.toggled, self.gaps.toggled)
        for signal in (*signals, self.first.valueChanged, self.last.valueChanged):
            signal.connect(lambda *_: self.changed.emit())

    def _prefer_visible(self, *_: Any) -> None:
        """While the user has not chosen an image, take one that is seen: samples come with hidden truths."""
        if self._is_own_choice or (self.layer is not None and self.layer.visible):
            return
        seen = [layer for layer in self._viewer.layers if layer.visible and _is_image(layer)]
        if seen:
            self.layer_box.choose(seen[-1])

    def _on_layer(self, *_: Any) -> None:
        """Show what there is to say about another image."""
        layer = self.layer
        self._follow(layer)
        was = [(widget, widget.blockSignals(True)) for widget in (self.log, self.first, self.last)]
        self.log.setChecked(layer is not None and says_log(layer))
        count = layer.data.shape[0] if layer is not None and layer.ndim == 4 else 1
        for box, value in ((self.first, 0), (self.last, count - 1)):
            box.setMaximum(count - 1)
            box.setValue(value)
        for widget, blocked in was:
            widget.blockSignals(blocked)
        self._rows.setRowVisible(self.log, self.log.isChecked())
        self._rows.setRowVisible(self._series, count > 1)
        self._show_sizes()
        self.changed.emit()

    def _follow(self, layer: Any | None) -> None:
        """Hear of changes of where a layer lies."""
        if self._followed is not None:
            self._followed.events.scale.disconnect(self._show_sizes)
            self._followed.events.affine.disconnect(self._show_sizes)
        self._followed = layer
        if layer is not None:
            layer.events.scale.connect(self._show_sizes)
            layer.events.affine.connect(self._show_sizes)

    def _show_sizes(self, *_: Any) -> None:
        self._rows.setRowVisible(self.sizes, self.layer is not None)
        if self.layer is not None:
            image = self.image()
            edges = [f"{size:.3g}" for size in image.voxel_size_mm]
            size = edges[0] if len(set(edges)) == 1 else " × ".join(edges)
            self.sizes.setText(f"{' × '.join(map(str, image.shape))} voxels of {size} mm")


def is_ours(layer: Any) -> bool:
    """Whether a layer is a result or a preview of this panel."""
    return str(carried(layer, PANEL) or "").startswith("denoise")


def _is_image(layer: Any) -> bool:
    is_volume = isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)
    return is_volume and not is_ours(layer)


def _is_mask(layer: Any) -> bool:
    if isinstance(layer, Labels):
        return layer.ndim >= 3  # labels drawn while a series is open have its axis too
    return isinstance(layer, Image) and layer.ndim == 3 and not (layer.rgb or layer.multiscale or is_ours(layer))

"""The labels layer that is simulated: chosen in the panel, read as a volume, and followed while it is painted."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import grid_of, volume_of
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import viewer_to_world, voxel_sizes_mm, world_axes_of
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.forms import LABEL_WIDTH, Label, aligned_form
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import VOLUME, LayerBox, LayerListener, why_not_array
from napari_gpubio.gui.views import ViewBox
from napari_gpubio.light.napari_io import domain_of
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.surface import first_tissue, nearest_surface

Position = npt.NDArray[np.float64]
Vector = tuple[float, float, float]
MAX_LABEL = 65535


@dataclass(frozen=True, slots=True, eq=False)
class Sight(ShortRepr):
    """Where the mouse points.

    In 3-D it has the ``direction`` of view (z, y, x); in 2-D ``hidden``, the viewer axis (0, 1, 2 for z, y, x) that the
    slice cuts.
    """

    position: Position
    direction: Position | None = None
    hidden: int | None = None

    def moved(self, offset: Position) -> "Sight":
        """Return the same view through a place that lies by so much elsewhere."""
        return Sight(self.position + offset, self.direction, self.hidden)


@dataclass(frozen=True, slots=True, eq=False)
class Tissue(ShortRepr):
    """The volume of a labels layer: labels (X, Y, Z), and the affine from voxels to world mm."""

    labels: npt.NDArray[Any]
    affine: npt.NDArray[np.float64]

    @classmethod
    def of(cls, layer: Any) -> "Tissue":
        """Return what a labels layer shows now; `InvalidInput` if it is not a volume."""
        return cls(volume_of(layer), grid_of(layer)[0])

    @property
    def extent_mm(self) -> float:
        """Longest side of the grid, mm; what is drawn is sized by it."""
        return float((voxel_sizes_mm(self.affine) * self.labels.shape).max())

    @property
    def grid_text(self) -> str:
        """How many voxels of what size."""
        counts = " × ".join(map(str, self.labels.shape))
        sizes = " × ".join(f"{edge:.4g}" for edge in voxel_sizes_mm(self.affine))
        return f"{counts} voxels of {sizes} mm"

    def surface_under(self, sight: Sight) -> Position | None:
        """Return the surface point (world mm) that a click means, or None if it means none.

        In 2-D it is the nearest point in the slice, in 3-D the first tissue along the line of sight. `InvalidInput` in
        2-D if the slice has no tissue or the click is beside the volume.
        """
        start = viewer_to_world(sight.position)
        if sight.direction is not None:
            direction = viewer_to_world(sight.position + sight.direction) - start
            return first_tissue(self.labels, self.affine, start, direction, whole_line=True)
        across = None if sight.hidden is None else world_axes_of(self.affine).index(2 - sight.hidden)
        return nearest_surface(self.labels, self.affine, start, across=across)


def labels_in(array: npt.NDArray[Any]) -> tuple[int, ...]:
    """Labels that occur in a volume (X, Y, Z), except the outside; slice by slice, to save memory.

    `InvalidInput` if a value is not a label.
    """
    counts = np.zeros(MAX_LABEL + 1, np.int64)
    for plane in np.moveaxis(array, int(np.argmax(array.strides)), 0):
        if plane.size and not 0 <= int(plane.min()) <= int(plane.max()) <= MAX_LABEL:
            raise InvalidInput(
                f"the labels range from {plane.min()} to {plane.max()}; they must lie between 0 and {MAX_LABEL}"
            )
        counts += np.bincount(plane.ravel(), minlength=MAX_LABEL + 1)
    return tuple(int(label) for label in np.flatnonzero(counts) if label != OUTSIDE)


def vector(values: npt.ArrayLike) -> Vector:
    """Three plain numbers."""
    x, y, z = (float(v) for v in np.asarray(values, np.float64))
    return x, y, z


AFTER_STROKE_MS = 400


def _look_through(array: npt.NDArray[Any]) -> tuple[tuple[int, ...], int]:
    """The labels of a volume, and a checksum of it."""
    return labels_in(array), zlib.crc32(np.ascontiguousarray(array).data)


class LabelSource(QObject):
    """Follows one labels layer.

    ``chosen``: it is another layer. ``counted``: its labels are known (from a worker, because volumes are large).
    ``painted``: the user has painted and paused. ``recolored``: labels have other colors.
    """

    chosen = Signal()
    counted = Signal(object)
    painted = Signal()
    recolored = Signal()
    error_occurred = Signal(str)

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.layer: Any | None = None
        self.tissue: Tissue | None = None
        self.domain: Domain | None = None  # what the layer carried when it was chosen
        self._checksum: int | None = None  # of the labels when they were counted last
        self._is_stroke = self._tells = False
        self._count = LatestJob(self, self._on_counted)
        self._later = single_shot(AFTER_STROKE_MS, self._on_painted, self)
        self._listener = LayerListener(
            viewer,
            lambda layer: layer == self.layer,
            data_changed=self._on_data,
            colors_changed=lambda _: self.recolored.emit(),
        )

    @property
    def is_busy(self) -> bool:
        """Whether labels are painted or counted."""
        return self._later.isActive() or self._count.is_busy

    def follow(self, layer: Any | None) -> None:
        """Follow another layer, or none."""
        if layer is self.layer:
            return
        self.layer, self._checksum = layer, None
        self._listener.attach()
        self.read_domain()
        self._read()
        self.chosen.emit()

    def read_domain(self) -> None:
        """Look at what the layer carries: optical properties that came with it, or None."""
        self.domain = None if self.layer is None else domain_of(self.layer)

    def select(self, label: int) -> None:
        """Make a label the current one of the layer, as if the user had picked it."""
        if self.layer is not None:
            self.layer.selected_label = label

    def colors(self, labels: Any) -> Mapping[int, Any]:
        """Color of each label on screen, RGBA from 0 to 1."""
        return {} if self.layer is None else {label: self.layer.get_color(label) for label in labels}

    def attach(self) -> None:
        """Do nothing: `follow` is called when the list of layers has one."""

    def detach(self) -> None:
        """End what runs and let the layer go."""
        self._later.stop()
        self._count.abandon()
        self._listener.detach()
        self.layer = self.tissue = self.domain = None

    # -- the inside -----------------------------------------------------------------------------------------------

    def _read(self, *, tells: bool = False) -> None:
        """Look at the layer's volume as it is now; ``tells``: say that it was painted, if it is not as before."""
        self.tissue, self._tells = None, tells
        self._count.cancel()
        if self.layer is None:
            return
        try:
            self.tissue = Tissue.of(self.layer)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._count.submit(one_step("counting labels", partial(_look_through, self.tissue.labels)))

    def _on_data(self, _: Any, box: Any) -> None:
        """A stroke has a box; without one (undo, fill, new contours) the labels may be as they were."""
        self._is_stroke = self._is_stroke or box is not None
        self._later.start()

    def _on_painted(self) -> None:
        is_stroke, self._is_stroke = self._is_stroke, False
        self._read(tells=not is_stroke)
        if is_stroke:
            self.painted.emit()

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
            return
        labels, checksum = outcome.result
        has_changed, self._checksum = self._checksum not in (None, checksum), checksum
        self.counted.emit(labels)
        if has_changed and self._tells:
            self.painted.emit()


_NARROWEST_PIXELS = 150


class LabelBox(QWidget):
    """Choose a labels layer."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.choice = LayerBox(viewer, _why_no_labels, empty="open labels or a sample", parent=self)
        self.choice.setMinimumWidth(_NARROWEST_PIXELS)
        self.choice.setToolTip("Segmented volume; label 0 is outside the tissue.")
        self.view_box = ViewBox(viewer, self)
        for label in self.view_box.findChildren(Label):
            label.setMinimumWidth(LABEL_WIDTH)
        self._grid = Label(self)
        self._grid.setStyleSheet(theme.MUTED_STYLE)
        self._grid.setAlignment(Qt.AlignmentFlag.AlignRight)
        form = aligned_form(self)
        form.addRow(self._grid)
        form.addRow(self.view_box)
        self.show_tissue(None)

    def show_tissue(self, tissue: Tissue | None) -> None:
        """Say how many voxels of what size are simulated, so that a wrong scale is seen."""
        self._grid.setText("" if tissue is None else tissue.grid_text)
        self._grid.setVisible(tissue is not None)


def _why_no_labels(layer: Any) -> str | None:
    if isinstance(layer, Image) and layer.dtype.kind in "iu" and layer.ndim == 3:
        return "an image; convert it to labels in its menu"
    return why_not_array(layer, Labels, VOLUME)

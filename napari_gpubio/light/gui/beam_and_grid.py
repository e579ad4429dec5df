"""Beam and tally grid of a layered simulation."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.phantom import common_voxel_mm
from napari_gpubio.light.layers.settings import LayeredSettings

PENCIL = "pencil"
_KINDS = {"pencil beam": PENCIL, "Gaussian (1/e²)": "gaussian", "flat-top": "flat"}


class BeamBox(QWidget):
    """Beam profile; ``changed`` says that the result is to be convolved with another one. Nothing is traced again."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = QComboBox(self)
        for text, kind in _KINDS.items():
            self._kind.addItem(text, kind)
        self._kind.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._kind.setMinimumContentsLength(10)
        self._radius = NumberBox(0.0, 1e6, 1.0, 6, self, step=0.1, unit="mm")
        self._radius.setToolTip("Radius of the disk, or where a Gaussian beam has fallen to 1/e²")
        row = QHBoxLayout()
        row.addWidget(self._kind, 2)
        row.addWidget(self._radius, 1)
        tip = "Pencil-beam results are convolved with the profile; another beam needs no new run"
        aligned_form(self).addRow(row_label("Beam", tip, self), row)
        for signal in (self._kind.activated, self._radius.edited):
            signal.connect(self._on_changed)
        self._show_state()

    @property
    def beam(self) -> Beam | None:
        """The beam, or None for a pencil beam; `InvalidInput` if its radius is 0."""
        kind = self._kind.currentData()
        return None if kind == PENCIL else Beam(kind=kind, radius_mm=self._radius.value())

    def set_beam(self, beam: Beam | None) -> None:
        """Show another beam."""
        self._kind.setCurrentIndex(self._kind.findData(PENCIL if beam is None else beam.kind))
        if beam is not None:
            self._radius.show_value(beam.radius_mm)
        self._on_changed()

    def _on_changed(self, *_: Any) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        self._radius.setVisible(self._kind.currentData() != PENCIL)


FIELDS = ("dr_mm", "dz_mm", "radial_bins", "depth_bins", "angle_bins")
_MOST_FITTED, _FITTED = 2000, 500  # bins in depth
_SAME = 1e-6  # of a bin


class GridBox(QWidget):
    """Bins in depth, radius and angle."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None
        self._boxes = {
            name: NumberBox(0.0, 1e6, 0.0, 9, self, step=0.01)
            if name.endswith("_mm")
            else NumberBox(1, 100_000, 1, 0, self, step=10)
            for name in FIELDS
        }
        self._extents = {name: QLabel(self) for name in ("z", "r", "a")}
        self._note = QLabel(self)
        self._note.setWordWrap(True)
        self._note.setStyleSheet(theme.MUTED_STYLE)
        self._fit = QPushButton("Fit", self)
        self._fit.setMaximumWidth(40)
        self._fit.setToolTip("Let the grid end where the layers end, with their borders between bins")
        self._fit.clicked.connect(self.fit)
        form = aligned_form(self)
        for label, tip, parts in (
            ("Depth Δz (mm)", "Height of a depth bin, and how many", ("dz_mm", "depth_bins", "z")),
            ("Radius Δr (mm)", "Width of a radial bin, and how many", ("dr_mm", "radial_bins", "r")),
            ("Angle bins", "Number of bins from 0° (the normal) to 90°", (None, "angle_bins", "a")),
        ):
            form.addRow(row_label(label, tip, self), self._row(*parts))
        form.addRow(self._note)
        self.set_settings(LayeredSettings())
        for box in self._boxes.values():
            box.edited.connect(self._on_changed)

    def applied_to(self, settings: LayeredSettings) -> LayeredSettings:
        """Return settings with this grid; `InvalidInput` if a width is 0, or the grid too large."""
        return dataclasses.replace(settings, **self._values())

    def set_settings(self, settings: LayeredSettings) -> None:
        """Show the grid of settings; ``changed`` is not emitted."""
        for name, box in self._boxes.items():
            box.show_value(getattr(settings, name))
        self._show_state()

    def show_medium(self, medium: LayeredMedium | None) -> None:
        """Describe how the grid fits these layers."""
        self._medium = medium
        self._show_state()

    @property
    def depth_mm(self) -> float:
        """Where the grid ends."""
        return float(self._boxes["dz_mm"].value() * self._boxes["depth_bins"].value())

    @property
    def note(self) -> str:
        """What is worth knowing about the grid."""
        return self._note.text()

    def fit(self) -> None:
        """Let the grid end where the layers end, their borders between bins where that takes not too many."""
        if self._medium is None or self._medium.layers[-1].is_endless:
            return
        depth, height = float(self._medium.tops_mm[-1]), common_voxel_mm(self._medium)
        bins = round(depth / height)
        bins *= max(1, math.ceil(100 / bins))  # a single layer has no border inside
        if bins > _MOST_FITTED:
            bins = _FITTED
        self._boxes["dz_mm"].show_value(depth / bins)
        self._boxes["depth_bins"].show_value(bins)
        self._on_changed()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _row(self, width: str | None, count: str, extent: str) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(4)
        if width is not None:
            row.addWidget(self._boxes[width], 3)
            row.addWidget(QLabel("×", self))
        row.addWidget(self._boxes[count], 2)
        row.addWidget(self._extents[extent], 2)
        if extent == "z":
            row.addWidget(self._fit)
        return row

    def _values(self) -> dict[str, Any]:
        return {n: box.value() if n.endswith("_mm") else int(box.value()) for n, box in self._boxes.items()}

    def _on_changed(self, *_: Any) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        values = self._values()
        self._extents["z"].setText(f"= {values['dz_mm'] * values['depth_bins']:.5g} mm")
        self._extents["r"].setText(f"= {values['dr_mm'] * values['radial_bins']:.5g} mm")
        self._extents["a"].setText(f"of {90 / values['angle_bins']:.4g}°")
        self._fit.setEnabled(self._medium is not None and not self._medium.layers[-1].is_endless)
        self._note.setText(" ".join(self._notes()))

    def _notes(self) -> Iterator[str]:
        if self._medium is None:
            return
        try:
            problem = LayeredProblem(self._medium, self.applied_to(LayeredSettings()))
        except GpuBioError as error:
            yield str(error)
            return
        yield f"{problem.tally_size:,} numbers in {problem.batch_count} batches: {_memory(problem.resident_bytes)}."
        yield from _fit_notes(self._medium, problem.settings)


def _fit_notes(medium: LayeredMedium, settings: LayeredSettings) -> Iterator[str]:
    """Sentences about what a grid does not show of the layers."""
    depth, tops = settings.depth_bins * settings.dz_mm, medium.tops_mm
    if depth < tops[-1] * (1 - _SAME) and not medium.layers[-1].is_endless:
        yield f"The grid ends at {depth:g} mm, the layers at {tops[-1]:g} mm."
    elif depth <= tops[-2]:
        yield f"The grid ends at {depth:g} mm, before the last layer begins."
    inside = tops[1:-1][tops[1:-1] < depth] / settings.dz_mm
    between = np.abs(inside - np.rint(inside)) > _SAME * np.maximum(1.0, inside)
    if between.any():
        at = ", ".join(f"{z:g}" for z in (inside[between] * settings.dz_mm)[:4])
        yield f"Borders inside a depth bin, whose fluence mixes two layers: {at}{' …' if between.sum() > 4 else ''} mm."


def _memory(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{max(1.0, count / 2**20):.0f} MB"

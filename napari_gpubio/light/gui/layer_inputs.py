"""Inputs of a layered simulation: presets and MCML files, beam, and tally grid."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.numbers import memory_text
from napari_gpubio.core.text import file_name
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.forms import Label, aligned_form, fill_column, muted_label, row_label, row_of, text_button
from napari_gpubio.layered.beams import BEAMS, AnyBeam, FlatBeam, GaussianBeam
from napari_gpubio.layered.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.layered.io.mco import read_mco
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.operations import SimulateLayers
from napari_gpubio.layered.presets import preset as layered_preset
from napari_gpubio.layered.presets import preset_names
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.layered_phantom import common_voxel_mm


class PresetBox(QWidget):
    """Presets, and the runs of a file that was opened; ``chosen`` carries medium and settings."""

    chosen = Signal(object, object)
    open_requested = Signal()
    save_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None  # as it was chosen
        self._origin = ""
        tip = "Fill the table and the grid from the literature, or from a run in an opened file"
        self.choice = ElidedComboBox(self, characters=12, tip=tip)
        for name in preset_names():
            self.choice.addItem(name, layered_preset(name))
        self.choice.activated.connect(lambda _: self._choose(self.choice.currentData()))
        self._citation = muted_label(self)
        self._citation.setStyleSheet(theme.MUTED_STYLE)
        top = QWidget(self)
        aligned_form(top).addRow(row_label("Layers from", self.choice.toolTip(), self), self.choice)
        # not in the form, which cuts long texts off
        fill_column(self, top, self._citation, self._files(), spacing=4)

    def begin(self) -> None:
        """Choose the first preset."""
        self._choose(self.choice.itemData(0))

    def choose(self, name: str) -> None:
        """Choose a preset, or a run of the opened file, by its name."""
        index = self.choice.findText(name)
        if index >= 0:
            self.choice.setCurrentIndex(index)
            self._choose(self.choice.currentData())

    def offer_runs(self, path: Path, runs: Sequence[MciRun]) -> None:
        """Offer the runs of a file, in place of those of an earlier one, and choose the first."""
        presets = len(preset_names())
        while self.choice.count() > presets:
            self.choice.removeItem(presets)
        self.choice.insertSeparator(presets)
        for number, run in enumerate(runs, start=1):
            which = f", run {number}" if len(runs) > 1 else ""
            self.choice.addItem(f"{path.name}{which}: {run.output}", run)
        self.choice.setCurrentIndex(presets + 1)
        self._choose(self.choice.currentData())

    def show_medium(self, medium: LayeredMedium | None) -> None:
        """Say whether what is in the table is still what was chosen."""
        changed = self._medium is not None and medium != self._medium
        self._citation.setText(f"Edited since it was loaded from {self._origin}" if changed else self._origin)

    @property
    def citation(self) -> str:
        """Where the layers come from, and whether they were changed since."""
        return self._citation.text()

    def _files(self) -> QWidget:
        part = QWidget(self)
        tip = "Write layers, grid and photons as an MCML input file"
        save = text_button("Save .mci…", tip, part, self.save_requested.emit)
        tip = "Open an MCML input file or result"
        part.setLayout(row_of(text_button("Open .mci or .mco…", tip, part, self.open_requested.emit), save))
        return part

    def _choose(self, entry: Any) -> None:
        """Take a preset or a run over."""
        if entry is None:
            return
        self._origin = getattr(entry, "citation", "") or self.choice.currentText()
        self._medium, settings = entry.medium, entry.settings
        assert isinstance(settings, LayeredSettings)
        self.chosen.emit(self._medium, settings)
        self.show_medium(self._medium)


OPENED = "MCML (*.mci *.mco);;All files (*)"


class McmlFile(NamedTuple):
    """What a file of MCML holds: the runs of an input file, or a result with the run that made it."""

    path: Path
    runs: tuple[MciRun, ...]
    result: LayeredResult | None = None


def read_mcml(path: Path) -> McmlFile:
    """Read an input file or an output file of MCML; `InvalidInput` if it is none."""
    if path.suffix.lower() != ".mco":
        return McmlFile(path, tuple(read_mci(path)))
    result = read_mco(path)
    return McmlFile(path, (MciRun(medium=result.medium, settings=result.settings, output=path.name),), result)


def write_mcml(draft: SimulateLayers, path: Path) -> None:
    """Write a run as an input file of MCML."""
    output = file_name(path.stem).replace(" ", "_") + ".mco"
    write_mci(path, [MciRun(medium=draft.medium, settings=draft.settings, output=output)])


PENCIL = "pencil"
_KINDS = {"pencil beam": PENCIL, "Gaussian (1/e²)": GaussianBeam.kind, "flat-top": FlatBeam.kind}


class BeamBox(QWidget):
    """Beam profile; ``changed``: the result is to be convolved with another one, without tracing again."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = ElidedComboBox(self, characters=10)
        for text, kind in _KINDS.items():
            self._kind.addItem(text, kind)
        tip = "Radius of the disk, or 1/e² radius of the Gaussian beam"
        self.radius_box = NumberBox(0.0, 1e6, 1.0, 6, self, step=0.1, unit="mm", toolTip=tip)
        row = QHBoxLayout()
        row.addWidget(self._kind, 2)
        row.addWidget(self.radius_box, 1)
        tip = "Pencil-beam results are convolved with this profile; changing the beam needs no new run"
        aligned_form(self).addRow(row_label("Profile", tip, self), row)
        for signal in (self._kind.activated, self.radius_box.edited):
            signal.connect(self._on_changed)
        self._show_state()

    @property
    def beam(self) -> AnyBeam | None:
        """The beam, or None for a pencil beam; `InvalidInput` if its radius is 0."""
        kind = self._kind.currentData()
        return None if kind == PENCIL else BEAMS[kind](radius_mm=self.radius_box.value())

    def _on_changed(self, *_: Any) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        self.radius_box.setVisible(self._kind.currentData() != PENCIL)


FIELDS = ("dr_mm", "dz_mm", "radial_bins", "depth_bins", "angle_bins")
_MAX_FITTED, _FITTED = 2000, 500  # bins in depth
_SAME_BINS = 1e-6


class GridBox(QWidget):
    """Bins in depth, radius and angle."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None
        self.boxes = {
            name: NumberBox(0.0, 1e6, 0.0, 9, self, step=0.01)
            if name.endswith("_mm")
            else NumberBox(1, 100_000, 1, 0, self, step=10)
            for name in FIELDS
        }
        self._extents = {name: Label(self) for name in ("z", "r", "a")}
        self._note = muted_label(self)
        tip = "End the grid where the layers end, with layer boundaries on bin edges"
        self._fit = text_button("Fit", tip, self, self.fit)
        self._fit.setMaximumWidth(40)
        form = aligned_form(self)
        for label, tip, parts in (
            ("Depth Δz (mm)", "Height and number of depth bins", ("dz_mm", "depth_bins", "z")),
            ("Radius Δr (mm)", "Width and number of radial bins", ("dr_mm", "radial_bins", "r")),
            ("Angle bins", "Number of bins from 0° (the normal) to 90°", (None, "angle_bins", "a")),
        ):
            form.addRow(row_label(label, tip, self), self._row(*parts))
        form.addRow(self._note)
        self.set_settings(LayeredSettings())
        for box in self.boxes.values():
            box.edited.connect(self._on_changed)

    def applied_to(self, settings: LayeredSettings) -> LayeredSettings:
        """Return settings with this grid; `InvalidInput` if a width is 0, or the grid too large."""
        return dataclasses.replace(settings, **self._values())

    def set_settings(self, settings: LayeredSettings) -> None:
        """Show the grid of settings; ``changed`` is not emitted."""
        for name, box in self.boxes.items():
            box.show_value(getattr(settings, name))
        self._show_state()

    def show_medium(self, medium: LayeredMedium | None) -> None:
        """Describe how the grid fits these layers."""
        self._medium = medium
        self._show_state()

    @property
    def depth_mm(self) -> float:
        """Where the grid ends."""
        return float(self.boxes["dz_mm"].value() * self.boxes["depth_bins"].value())

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
        if bins > _MAX_FITTED:
            bins = _FITTED
        self.boxes["dz_mm"].show_value(depth / bins)
        self.boxes["depth_bins"].show_value(bins)
        self._on_changed()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _row(self, width: str | None, count: str, extent: str) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(4)
        if width is not None:
            row.addWidget(self.boxes[width], 3)
            row.addWidget(Label("×", self))
        row.addWidget(self.boxes[count], 2)
        row.addWidget(self._extents[extent], 2)
        if extent == "z":
            row.addWidget(self._fit)
        return row

    def _values(self) -> dict[str, Any]:
        return {n: box.value() if n.endswith("_mm") else int(box.value()) for n, box in self.boxes.items()}

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
        yield f"{problem.tally_size:,} tallies in {problem.batch_count} batches: {memory_text(problem.resident_bytes)}."
        yield from _fit_notes(self._medium, problem.settings)


def _fit_notes(medium: LayeredMedium, settings: LayeredSettings) -> Iterator[str]:
    """Sentences about what a grid does not show of the layers."""
    depth, tops = settings.depth_bins * settings.dz_mm, medium.tops_mm
    if depth < tops[-1] * (1 - _SAME_BINS) and not medium.layers[-1].is_endless:
        yield f"The grid ends at {depth:g} mm, the layers at {tops[-1]:g} mm."
    elif depth <= tops[-2]:
        yield f"The grid ends at {depth:g} mm, before the last layer begins."
    inside = tops[1:-1][tops[1:-1] < depth] / settings.dz_mm
    between = np.abs(inside - np.rint(inside)) > _SAME_BINS * np.maximum(1.0, inside)
    if between.any():
        at = ", ".join(f"{z:g}" for z in (inside[between] * settings.dz_mm)[:4])
        yield f"Layer boundaries inside a depth bin, where fluence mixes: {at}{' …' if between.sum() > 4 else ''} mm."

"""The part of the panel that says how to run: photons, the settings of the engine, quick looks."""

import dataclasses

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.light.gui.beam_and_grid import FIELDS
from napari_gpubio.light.gui.photon_box import PhotonBox
from napari_gpubio.light.layers.settings import LayeredSettings


class RunBox(QWidget):
    """Settings of a run, but for the grid."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.photons = PhotonBox(LayeredSettings().photons, self)
        self.form = ParamForm(LayeredSettings(), skip=("photons", *FIELDS), parent=self)
        self._live = QCheckBox("quick run after every change", self)
        self._live.setToolTip("A few thousand photons, as soon as layers or the grid change")
        top = QWidget(self)
        form = aligned_form(top)
        form.addRow(row_label("Photons", "Number of photon packets; more photons, less noise.", self), self.photons)
        form.addRow(row_label("Preview", self._live.toolTip(), self), self._live)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        for part in (top, self.form):
            layout.addWidget(part)
        for signal in (self.photons.changed, self.form.changed, self._live.toggled):
            signal.connect(lambda *_: self.changed.emit())

    @property
    def settings(self) -> LayeredSettings:
        """The settings as shown, with some grid.

        Raises
        ------
        InvalidInput
            If they cannot be run.
        """
        return dataclasses.replace(self.form.value(), photons=self.photons.value())

    @property
    def live(self) -> bool:
        """Whether a quick run follows every change."""
        return self._live.isChecked()

    def set_live(self, live: bool) -> None:
        """Let a quick run follow every change, or not."""
        self._live.setChecked(live)

    def set_settings(self, settings: LayeredSettings) -> None:
        """Show other settings; ``changed`` is not emitted."""
        was = self.blockSignals(True)
        self.photons.set_value(settings.photons)
        self.form.set_value(settings)
        self.blockSignals(was)

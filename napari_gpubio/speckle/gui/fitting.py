"""Inputs of a multi-exposure fit: exposures, settings, and where β comes from."""

import dataclasses
from typing import Any

from napari.layers import Shapes
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QLineEdit, QSizePolicy, QWidget

from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.forms import ParamForm, aligned_form, fill_column, muted_label, row_label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.speckle.gui.panel_layers import frames_of, why_no_frames
from napari_gpubio.speckle.gui.regions import shapes_mask
from napari_gpubio.speckle.gui.run import FramesSource
from napari_gpubio.speckle.mesi import FittedBeta, MesiRecipe
from napari_gpubio.speckle.mesi.model import parse_exposures

_HELP = "Separates moving from static scatterers. Run stack performs the fit."
_TIP = (
    "K² is computed for every frame in a square of pixels, averaged over the frames of each exposure, and fitted pixel "
    "by pixel. A live view keeps its own map."
)
_EXPOSURES_TIP = "Exposure of each frame in ms, increasing; with several frames of each, every exposure once"
_TARGET_TIP = (
    "Frames of a static target, such as paper, or the stack itself if it shows one: β, K² of a scatterer at rest, is "
    "measured there, with the same window. A wrong β makes τ and ρ wrong."
)
_REGION_TIP = "Shapes around the static target; all of the image without"
_ERRORS_TIP = "Add layers of the standard errors of what is fitted"
NO_TARGET, WHOLE_IMAGE = "none: β as below", "the whole image"
_OF_BETA = ("beta", "static_k2", "static_k2_error")  # rows that a static target takes the place of
_SPACING_PIXELS = 3


class MesiBox(QWidget, Follower):
    """Exposures of the frames, and settings of the fit."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.exposures = QLineEdit(self, placeholderText="e.g. 0.5, 1, 2, 5, 10, 20")
        self.target_box = LayerBox(viewer, why_no_frames, nothing=NO_TARGET, parent=self)
        self.region_box = LayerBox(viewer, _why_no_shapes, nothing=WHOLE_IMAGE, parent=self)
        self.followers = (self.target_box, self.region_box)
        self.shows_errors = QCheckBox("as layers", self, toolTip=_ERRORS_TIP)
        self.form = ParamForm(MesiRecipe(exposures_ms=()), parent=self)
        self.form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # not squeezed by the text
        text = muted_label(self, _HELP)
        text.setToolTip(_TIP)
        self._rows = rows = aligned_form(None)
        rows.addRow(row_label("Exposures (ms)", _EXPOSURES_TIP, self), self.exposures)
        rows.addRow(row_label("Static target", _TARGET_TIP, self), self.target_box)
        rows.addRow(row_label("Within", _REGION_TIP, self), self.region_box)
        rows.addRow(row_label("Standard errors", _ERRORS_TIP, self), self.shows_errors)
        fill_column(self, text, rows, self.form, spacing=_SPACING_PIXELS)
        self.target_box.currentIndexChanged.connect(self._show_rows)
        for signal in (
            self.exposures.textChanged, self.form.changed, self.target_box.currentIndexChanged,
            self.region_box.currentIndexChanged,
        ):  # fmt: skip
            signal.connect(lambda *_: self.changed.emit())
        self._show_rows()

    @property
    def recipe(self) -> MesiRecipe:
        """The fit, of a free β if there is a static target; InvalidInput if the text is not a list of exposures."""
        recipe = self.form.value(exposures_ms=parse_exposures(self.exposures.text()))
        if self.target_box.layer is None:
            return recipe
        return dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, beta=FittedBeta()))

    @property
    def target(self) -> tuple[FramesSource, dict[str, Any]] | None:
        """The static target that β is measured on, and its pixels by name, nothing for all; or None."""
        layer, region = self.target_box.layer, self.region_box.layer
        if layer is None:
            return None
        rows, columns = frames_of(layer).shape[-2:]
        within = {} if region is None else {region.name: shapes_mask(region, layer, (rows, columns))}
        return FramesSource.of(layer), within

    def _show_rows(self, *_: Any) -> None:
        """Show the rows that the choice of a static target needs."""
        has_target = self.target_box.layer is not None
        self._rows.setRowVisible(self.region_box, has_target)
        for name in _OF_BETA:
            self.form.set_row_visible(name, visible=not has_target)


def _why_no_shapes(layer: Any) -> str | None:
    return None if isinstance(layer, Shapes) else ""

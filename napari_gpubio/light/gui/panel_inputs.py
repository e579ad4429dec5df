"""The parts of the dock widget "Light transport", what is put into them, and what they say: request and script."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QFileDialog, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import saved_path
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.light.gui.detector_box import DetectorBox
from napari_gpubio.light.gui.display_box import DisplayBox
from napari_gpubio.light.gui.fluence_view import FluenceView
from napari_gpubio.light.gui.labels import LabelBox, LabelSource
from napari_gpubio.light.gui.optodes import read_montage
from napari_gpubio.light.gui.property_table import PropertyTable
from napari_gpubio.light.gui.request import Request, Volume
from napari_gpubio.light.gui.results import ResultBox
from napari_gpubio.light.gui.run_box import RunBox
from napari_gpubio.light.gui.script import light_script, save_input
from napari_gpubio.light.gui.source_box import PlaceBar, SourceBox
from napari_gpubio.light.gui.source_controller import NO_LABELS, SourceController


class LightInputs(EnginePanel):
    """The boxes of the panel; what happens between them is the panel's.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run", parent=parent)
        self._labels = LabelSource(self)
        self._fill()
        self.view = FluenceView(viewer, self.display_box.show_legend)
        self.controller = SourceController(
            viewer, self.place_bar, self.source_box, self.detector_box, lambda: self._labels.tissue, self
        )
        self.labels_box = self.label_box.choice
        self.detector_box.load_wanted.connect(self._on_load_optodes)

    def place_source(self, position_mm: Any, *, snap: bool = True) -> None:
        """Put the source at a world position, mm: at the surface point nearest to it, or exactly there."""
        self.controller.place_source(position_mm, snap=snap)

    def load_optodes(self, path: str | Path) -> None:
        """Take sources and detectors from a SNIRF file, snapped to the surface; problems are shown as a sentence."""
        try:
            if self._labels.tissue is None:
                raise InvalidInput(NO_LABELS)
            montage = read_montage(path, self._labels.tissue)
        except (GpuBioError, OSError) as error:
            self.show_error(f"The optodes could not be loaded: {error}")
            return
        self.controller.load(montage.optodes)
        self.show_note(montage.told)

    def _on_load_optodes(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load optodes", "", "SNIRF (*.snirf)")
        if path:
            self.load_optodes(path)

    def _fill(self) -> None:
        self.label_box = LabelBox(self.viewer, self)
        self.table = PropertyTable(self)
        self.place_bar, self.source_box = PlaceBar(self), SourceBox(self.viewer, self)
        self.detector_box = DetectorBox(self)
        self.run_box, self.display_box = RunBox(self), DisplayBox(self)
        self.results = ResultBox(self.viewer, self)
        self.inputs.addWidget(self.label_box)
        for title, parts in (
            ("Optical properties", (self.table,)),
            ("Source", (self.place_bar, self.source_box)),
            ("Detectors", (self.detector_box,)),
            ("Run", (self.run_box,)),
            ("Picture", (self.display_box,)),
            ("Result", (self.results,)),
        ):
            self.inputs.addWidget(heading(title, self))
            for part in parts:
                self.inputs.addWidget(part)

    # -- what they say --------------------------------------------------------------------------------------------

    def _request(self) -> Request:
        return Request(
            volume=self._volume(),
            source=self.controller.source(),
            detectors=self.controller.shown.detectors,
            settings=self.run_box.settings,
            device=self.device,
        )

    def _volume(self) -> Volume:
        tissue, layer = self._labels.tissue, self._labels.layer
        if tissue is None or layer is None:
            raise InvalidInput(NO_LABELS)
        return Volume(study=layer.name, tissue=tissue, media=self.table.media(), carried=self._labels.domain)

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that simulates what the panel shows."""
        request, layer, pattern = self._request(), self._labels.layer, self.source_box.pattern_layer
        labels_path = saved.get(layer.name) or saved_path(layer)
        if labels_path is None:
            raise InvalidInput(f"the labels {layer.name!r} are in no file; save them first")
        pattern_path = None if pattern is None else saved[pattern.name]
        return light_script(request, self.results.unit, labels_path, pattern_path)

    def painted_layers(self) -> list[Any]:
        """The labels, if no file holds them as they are, and the image of a source's pattern.

        Raises
        ------
        InvalidInput
            If something is missing for a script: that is said before a folder is asked for.
        """
        self._request()
        layer, pattern = self._labels.layer, self.source_box.pattern_layer
        painted = [layer] if layer is not None and saved_path(layer) is None else []
        return painted if pattern is None else [*painted, pattern]

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save labels as NIfTI, or the image of a pattern as ``.npy``, into a folder."""
        return save_input(layer, folder)

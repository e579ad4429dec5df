"""The row "Response": what the responses of a deconvolution are estimated from, or the files that hold them."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import open_paths
from napari_gpubio.gui.forms import row_of, text_button
from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.fods.estimate import estimate_response_steps
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.fods.normalize import normalize_tissues
from napari_gpubio.tracts.fods.response import Response, in_tissue_order, read_response
from napari_gpubio.tracts.fods.settings import CsdSettings, ResponseSettings
from napari_gpubio.tracts.fods.tissues import estimate_tissue_responses_steps
from napari_gpubio.tracts.model import DiffusionScan, TensorField

_FILES = "Responses (*.txt);;All files (*)"
_OPEN = (
    "A response from a text file, as dwi2response writes it; for several tissues choose the files of white matter, "
    "(gray matter,) and CSF together"
)
_CHOICE = "One fiber's response uses one shell; those of tissues use all shells and tell fibers from gray matter, CSF"
_NORMALIZE = "Divide all densities by a smooth field, as mtnormalise does, so that they add up to the same everywhere"


@dataclass(frozen=True, slots=True)
class ResponseChoice:
    """Where the responses of a run come from.

    Parameters
    ----------
    method
        That of `ResponseSettings`, if one fiber's response is estimated from the scan; else empty.
    tissues
        How many tissues are estimated from the scan; 0 for none.
    responses
        Those of files, in the order of tissues.
    normalize
        Whether the densities of several tissues are normalized.
    """

    method: str = ""
    tissues: int = 0
    responses: tuple[Response, ...] = ()
    normalize: bool = False

    @property
    def several(self) -> bool:
        """Whether there are several tissues."""
        return max(self.tissues, len(self.responses)) > 1

    def steps(
        self, scan: DiffusionScan, field: TensorField, settings: CsdSettings, device: str, stop: threading.Event
    ) -> Generator[Step, None, tuple[Response, ...]]:
        """Return the responses of files, or estimate them, step by step."""
        if self.responses:
            return self.responses
        if self.tissues:
            tissues = estimate_tissue_responses_steps(
                scan, field.mask, tissues=self.tissues, field=field, device=device, stop=stop
            )
            return (yield from tissues)
        chosen = ResponseSettings(method=self.method)
        one = estimate_response_steps(
            scan, field.mask, chosen, shell=settings.shell, field=field, device=device, stop=stop
        )
        return ((yield from one),)

    def normalized(self, fods: FodField) -> FodField:
        """Return the FODs, normalized if that is chosen, there are several tissues, and the run came to its end."""
        return normalize_tissues(fods) if self.normalize and self.several and fods.complete else fods

    def script_lines(self, settings: CsdSettings, device: str) -> tuple[list[str], list[str]]:
        """Return the lines that make ``responses`` of ``scan`` and ``field``, and those after the deconvolution."""
        after = ["fods = tracts.normalize_tissues(fods)"] if self.normalize and self.several else []
        if self.responses:
            files = ", ".join(f"tracts.fods.read_response({str(one.path)!r})" for one in self.responses)
            return [f"responses = [{files}]"], after
        if self.tissues:
            call = f"scan, field.mask, tissues={self.tissues}, field=field, device={device!r}"
            return [f"responses = tracts.estimate_tissue_responses({call})"], after
        chosen = call_text("tracts", ResponseSettings(method=self.method))
        call = f"scan, field.mask, {chosen}, shell={settings.shell}, field=field, device={device!r}"
        return [f"responses = tracts.estimate_response({call})"], after


_ESTIMATED = (
    ("one fiber: voxels of highest FA", ResponseChoice(method="fa")),
    ("one fiber: dominant peaks (tournier)", ResponseChoice(method="tournier")),
    ("two tissues: white matter, CSF", ResponseChoice(tissues=2)),
    ("three tissues: white matter, gray matter, CSF", ResponseChoice(tissues=3)),
)


class ResponseBox(QWidget):
    """Choose how the responses are estimated, or open those of files.

    Signals
    -------
    error_occurred
        A file cannot be used; the sentence says why.
    """

    error_occurred = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.box = ElidedComboBox(self)
        self.box.setToolTip(_CHOICE)
        for text, choice in _ESTIMATED:
            self.box.addItem(text, choice)
        self.normalize = QCheckBox("Normalize the densities", self)
        self.normalize.setToolTip(_NORMALIZE)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row_of(self.box, text_button("Open…", _OPEN, self, self._ask)))
        column.addWidget(self.normalize)
        self.box.currentIndexChanged.connect(self._show_normalize)
        self._show_normalize()

    @property
    def choice(self) -> ResponseChoice:
        """What is chosen."""
        chosen: ResponseChoice = self.box.currentData()
        return replace(chosen, normalize=self.normalize.isChecked())

    def open(self, paths: Sequence[str | Path]) -> None:
        """Read the responses of a fiber or of tissues, in any order, and choose them."""
        try:
            responses = in_tissue_order([read_response(path) for path in paths])
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        names = ", ".join(Path(str(one.path)).name for one in responses)
        self.box.addItem(names, ResponseChoice(responses=responses))
        self.box.setCurrentIndex(self.box.count() - 1)

    def _ask(self) -> None:
        if paths := open_paths(self, "Open the responses", _FILES):
            self.open(paths)

    def _show_normalize(self, *_: object) -> None:
        self.normalize.setVisible(self.choice.several)

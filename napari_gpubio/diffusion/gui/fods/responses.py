"""The row "Response": what the responses of a deconvolution are estimated from, or the files that hold them."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.estimate import estimate_response_steps
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.normalize import normalize_tissues
from napari_gpubio.diffusion.fods.response import TISSUES, Response, in_tissue_order, read_response
from napari_gpubio.diffusion.fods.settings import (
    CsdSettings,
    HighestFa,
    MultiTissueSettings,
    ThreeTissues,
    Tournier,
    TwoTissues,
)
from napari_gpubio.diffusion.fods.tissues import estimate_tissue_responses_steps
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.operations import (
    Deconvolve,
    DeconvolveTissues,
    EstimateResponse,
    EstimateTissueResponses,
    OpenResponse,
)
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import open_paths
from napari_gpubio.gui.forms import fill_column, row_of, text_button

_FILES = "Responses (*.txt);;All files (*)"
_OPEN = (
    "A response from a text file, as dwi2response writes it; for several tissues choose the files of white matter, "
    "(gray matter,) and CSF together"
)
_CHOICE = "One fiber's response uses one shell; those of tissues use all shells and tell fibers from gray matter, CSF"
_NORMALIZE = "Divide all densities by a smooth field, as mtnormalise does, so that they add up to the same everywhere"

_FIRST = HighestFa()


@dataclass(frozen=True, slots=True)
class ResponseChoice:
    """Where the responses of a run come from.

    Parameters
    ----------
    estimate
        How one fiber's response, or those of tissues, are estimated from the scan.
    responses
        Those of files, in the order of tissues, in the place of that.
    normalize
        Whether the densities of several tissues are normalized.
    """

    estimate: HighestFa | TwoTissues = _FIRST
    responses: tuple[Response, ...] = ()
    normalize: bool = False

    @property
    def several(self) -> bool:
        """Whether there are several tissues."""
        return len(self.responses) > 1 if self.responses else isinstance(self.estimate, TwoTissues)

    def steps(
        self,
        scan: DiffusionScan,
        mask: Any,
        field: TensorField,
        settings: CsdSettings,
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, tuple[Response, ...]]:
        """Return the responses of files, or estimate them, step by step."""
        if self.responses:
            return self.responses
        if isinstance(self.estimate, TwoTissues):
            return (
                yield from estimate_tissue_responses_steps(
                    scan, mask, self.estimate, field=field, device=device, stop=stop
                )
            )
        one = estimate_response_steps(
            scan, mask, self.estimate, shell=settings.shell, field=field, device=device, stop=stop
        )
        return ((yield from one),)

    def settings(self, form: CsdSettings) -> CsdSettings | MultiTissueSettings:
        """Return the settings of a form as the deconvolution of these responses takes them."""
        if not self.several:
            return form
        return MultiTissueSettings(lmax=form.lmax, constraint_directions=form.constraint_directions)

    def normalized(self, fods: FodField) -> FodField:
        """Return the FODs, normalized if that is chosen, there are several tissues, and the run came to its end."""
        return normalize_tissues(fods) if self.normalize and self.several and fods.complete else fods

    def deconvolution(self, inputs: dict[str, Any], form: CsdSettings) -> Deconvolve | DeconvolveTissues:
        """Return the operation of a deconvolution; ``inputs``: where its scan and mask come from.

        Files are looked through, which a worker does.
        """
        settings, estimate = self.settings(form), self.estimate
        responses = [OpenResponse.at(str(one.path)).output() for one in self.responses]
        if isinstance(settings, MultiTissueSettings):
            if isinstance(estimate, TwoTissues) and not responses:
                found = EstimateTissueResponses(tissues=estimate, **inputs)
                responses = [found.output(tissue) for tissue in TISSUES if found.has(tissue)]
            how: Any = {"responses": tuple(responses), "normalize": self.normalize, "settings": settings}
            return DeconvolveTissues(**how, **inputs)
        if isinstance(estimate, HighestFa) and not responses:
            responses = [EstimateResponse(method=estimate, shell=form.shell, **inputs).output()]
        return Deconvolve(response=responses[0], settings=settings, **inputs)

    @classmethod
    def of(cls, operation: Deconvolve | DeconvolveTissues) -> "ResponseChoice | None":
        """Return the choice of a deconvolution whose responses are estimated; None if they are those of files."""
        made = next((ref.of for name, ref in operation.inputs() if name in ("response", "responses")), None)
        if isinstance(made, EstimateResponse):
            return cls(made.method)
        normalize = isinstance(operation, DeconvolveTissues) and operation.normalize
        return cls(made.tissues, normalize=normalize) if isinstance(made, EstimateTissueResponses) else None


_ESTIMATED = (
    ("one fiber: voxels of highest FA", ResponseChoice(HighestFa())),
    ("one fiber: dominant peaks (tournier)", ResponseChoice(Tournier())),
    ("two tissues: white matter, CSF", ResponseChoice(TwoTissues())),
    ("three tissues: white matter, gray matter, CSF", ResponseChoice(ThreeTissues())),
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
        self.box = ElidedComboBox(self, tip=_CHOICE)
        for text, choice in _ESTIMATED:
            self.box.addItem(text, choice)
        self.normalize = QCheckBox("Normalize the densities", self, toolTip=_NORMALIZE)
        fill_column(self, row_of(self.box, text_button("Open…", _OPEN, self, self._ask)), self.normalize)
        self.box.currentIndexChanged.connect(self._show_normalize)
        self._show_normalize()

    @property
    def choice(self) -> ResponseChoice:
        """What is chosen."""
        chosen: ResponseChoice = self.box.currentData()
        return replace(chosen, normalize=self.normalize.isChecked())

    def show(self, choice: ResponseChoice) -> None:
        """Choose how responses are estimated."""
        index = next(n for n, (_, known) in enumerate(_ESTIMATED) if type(known.estimate) is type(choice.estimate))
        self.box.setItemData(index, replace(choice, normalize=False))
        self.box.setCurrentIndex(index)
        self.normalize.setChecked(choice.normalize)

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

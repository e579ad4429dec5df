"""A deconvolution as a panel asks for it: its inputs, read in the GUI thread, its steps, and the layers of the FODs."""

import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.axis_check import AxisCheck, check_fods
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.napari_io import fod_layers
from napari_gpubio.diffusion.fods.run import deconvolve_steps
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.gui.fods.responses import ResponseChoice
from napari_gpubio.diffusion.gui.records import MaskSource, hide_signal, output_of, remember, with_record
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.operations import Deconvolve, DeconvolveTissues, TissueFods
from napari_gpubio.diffusion.tensors.gradient_check import GradientCheck, check_gradients
from napari_gpubio.diffusion.tensors.run import checked_mask, fit_tensors_steps

USUAL, _USUAL_RESPONSE = CsdSettings(lmax=8), ResponseChoice()
STOPPED = "It was stopped before the deconvolution began, so there are no FODs; press {} to start again."


@dataclass(frozen=True, slots=True)
class Deconvolved:
    """Result of one run: FODs, their study, and the checks of their axes."""

    fods: FodField
    study: str
    check: AxisCheck | None
    scan: DiffusionScan | None = None
    gradients: GradientCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deconvolution:
    """What is deconvolved, and how.

    Parameters
    ----------
    scan, study
        The scan, and the name that its layers begin with.
    settings
        As a form has them.
    choice
        Where responses come from.
    mask, mask_source
        Voxels, and where they come from; None: a brain mask is made.
    """

    scan: DiffusionScan
    study: str
    settings: CsdSettings = USUAL
    choice: ResponseChoice = _USUAL_RESPONSE
    mask: Any | None = None
    mask_source: MaskSource | None = None

    def operation(self) -> Deconvolve | DeconvolveTissues:
        """Return it as an operation; files are looked through, which a worker does."""
        mask = None if self.mask_source is None else self.mask_source.output()
        return self.choice.deconvolution({"scan": output_of(self.scan), "mask": mask}, self.settings)

    def steps(self, device: str, stop: threading.Event) -> Generator[Step, None, Deconvolved | None]:
        """Fit tensors, find responses, deconvolve, and check; None if it was stopped before there were FODs."""
        scan, choice, inside = self.scan, self.choice, checked_mask(self.scan, self.mask)
        field = yield from fit_tensors_steps(scan, inside, device=device, stop=stop)
        if not field.complete:
            return None
        responses = yield from choice.steps(scan, inside, field, self.settings, device, stop)
        if stop.is_set():
            return None
        settings = choice.settings(self.settings)
        fods = yield from deconvolve_steps(scan, responses, inside, settings, device=device, stop=stop)
        fods = choice.normalized(fods)
        yield Step(1, 1, "checking the axes")
        made = self.operation()
        remember(made.output(), fods if isinstance(made, Deconvolve) else TissueFods(fods), device)
        return Deconvolved(fods, self.study, check_fods(fods, field), scan, check_gradients(field))


def add_fods(viewer: Any, made: Deconvolved) -> Generator[None, None, Any]:
    """Add the layers of FODs in place of those of the scan's signal, one after another; return that of the FODs.

    It is then the active one.
    """
    added = []
    for data, keywords, _ in [with_record(one, made.fods) for one in fod_layers(made.fods, made.study)]:
        added.append(viewer.add_image(data, **keywords))
        yield
    layer = added[0]
    viewer.layers.selection.active = layer
    hide_signal(viewer, made.scan)
    return layer

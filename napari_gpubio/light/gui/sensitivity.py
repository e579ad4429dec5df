"""The sensitivity of a detector: a run of light from it, combined with that of the source."""

import dataclasses
import threading
from collections.abc import Generator

from napari_gpubio.core.napari_io import LayerData, volume_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.core.steps import Step, with_step
from napari_gpubio.light.gui.displayed import DisplayOptions
from napari_gpubio.light.gui.labels import vector
from napari_gpubio.light.io.volumes import MAX_ERROR
from napari_gpubio.light.napari_io import log10_of
from napari_gpubio.light.reciprocity import check_same
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.sensitivity import Sensitivity
from napari_gpubio.light.sensitivity import sensitivity as combine
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.pictures import decade_limits, log_name
from napari_gpubio.optics.sources import Pencil, Source
from napari_gpubio.optics.surface import inward_normal


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SensitivityMap:
    """The sensitivity to one detector as a layer, with the source's result that it belongs to."""

    source_run: LightResult
    detector: str
    sensitivity: Sensitivity
    layer: LayerData


def adjoint_source(result: LightResult, detector: Detector) -> Source:
    """Return the source at a detector's place: a pencil along the inward normal."""
    domain = result.domain
    normal = inward_normal(domain.labels, domain.affine, detector.position_mm)
    return Pencil(position_mm=detector.position_mm, direction=vector(normal))


def sensitivity_steps(
    result: LightResult, detector: Detector, name: str, device: str, stop: threading.Event, options: DisplayOptions
) -> Generator[Step, None, SensitivityMap]:
    """Simulate light from a detector with as many photons as a result has, and combine both.

    `InvalidInput` at once if the scattering is not reciprocal.
    """
    check_same(result.domain, result.domain)  # or it would be refused after all photons of the detector
    # other photons than the source's, because the errors of both runs are taken as independent
    seed = (result.settings.seed + 1) % 2**64
    settings = dataclasses.replace(result.settings, photons=result.launched, seed=seed, halves=False, exit_map=False)
    steps = simulate_steps(result.domain, adjoint_source(result, detector), settings, device=device, stop=stop)
    about = {"message": f"photons from {name}", "make_preview": None}
    found = combine(result, (yield from with_step(steps, lambda step: dataclasses.replace(step, **about))))
    return SensitivityMap(result, name, found, sensitivity_layer(found, name, options))


def sensitivity_layer(found: Sensitivity, name: str, options: DisplayOptions) -> LayerData:
    """Return the image layer of log10 of a sensitivity's size, mm; voxels without light are NaN."""
    values = -(found.masked_mm(MAX_ERROR) if options.hide_uncertain else found.jacobian_mm)
    shown = log10_of(values)
    metadata = quantity_metadata(Quantity("sensitivity", "mm", "log10"))
    return volume_layer(
        shown,
        found.domain.affine,
        log_name("", f"sensitivity to {name}", "mm"),
        metadata=metadata,
        contrast_limits=decade_limits(shown, options.decades),
    )

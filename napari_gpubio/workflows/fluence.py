"""Light, denoise and dose: a fluence is cleaned with all that its run knows, and counted by region."""

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, stored_volume, volume_layer
from napari_gpubio.core.quantity import QUANTITY, Quantity, quantity_metadata, to_linear
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.light.io.volumes import fluence_arrays, fluence_word
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.napari_io import DECADES, decade_limits, label_properties, log10_of, log_name
from napari_gpubio.light.result import UNITS, LightResult
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit

if TYPE_CHECKING:
    from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings
    from napari_gpubio.dose import DvhResult, DvhSettings

Array = npt.NDArray[Any]


def clean_fluence_steps(
    result: LightResult,
    settings: "FluenceSettings | None" = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, "FluenceResult"]:
    """Denoise the fluence of a simulation step by step, of all time gates together.

    Halves of the photons, labels, optical properties and voxel sizes are those of the result. Without halves
    (``LightSettings.halves``) the standard error of the batches stands for them, which cleans less well.

    Parameters
    ----------
    result
        What `napari_gpubio.light.simulate` gave, complete or not.
    settings
        Of the filter.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early.

    Returns
    -------
    FluenceResult
        Its ``image`` is per launched photon, 1/mm^2, shape (X, Y, Z), its ``noise`` the standard error that is left.

    Raises
    ------
    InvalidInput
        If no light has reached the labels.

    Examples
    --------
    >>> from napari_gpubio import light, workflows
    >>> head = light.phantom.load_head_phantom()
    >>> source = light.Pencil(position_mm=(0, 0, 90), direction=(0, 0, -1))
    >>> result = light.simulate(head, source, light.LightSettings(photons=2000, halves=True), device="cpu")
    >>> workflows.clean_fluence(result, device="cpu").image.shape == head.shape
    True
    """
    from napari_gpubio.denoise.fluence import denoise_fluence_steps
    from napari_gpubio.light.guide import guide_steps

    held, domain = fluence_arrays(result, PER_PHOTON), result.domain
    halves, error = held["halves"], held["standard_error"]
    first, second = (result.fluence, None) if halves is None else halves
    inside = domain.labels != OUTSIDE
    guide = None  # theory for tissue that scatters alike in all directions
    if not domain.is_anisotropic:
        guide = (yield from guide_steps(result, device=device)).guide
    steps = denoise_fluence_steps(
        first,
        second,
        settings,
        labels=domain.labels,
        guide=guide,
        refractive_index=None if guide is None else refractive_index(domain),
        mask=inside,
        voxel_size_mm=tuple(map(float, domain.voxel_sizes_mm)),
        noise=error if halves is None else None,
        device=device,
        stop=stop,
    )
    return (yield from steps)


clean_fluence = driven(clean_fluence_steps)


def refractive_index(domain: Domain) -> npt.NDArray[np.float32] | None:
    """Return the refractive index of every voxel, shape (X, Y, Z), or None if it is the same in all tissue."""
    table = np.array([domain.outside_n, *(domain.medium(label).n for label in domain.labels_present)], np.float32)
    return table[domain.ranks] if len(set(table[1:])) > 1 else None


def cleaned_layer(
    result: LightResult,
    cleaned: "FluenceResult",
    *,
    unit: FluenceUnit = PER_PHOTON,
    decades: int = DECADES,
    name: str = "cleaned",
    **keywords: Any,
) -> LayerData:
    """Return the image layer of log10 of a cleaned fluence.

    Parameters
    ----------
    result
        What was simulated.
    cleaned
        What `clean_fluence` made of it.
    unit
        As of `napari_gpubio.light.napari_io.fluence_layer`.
    decades
        How many are shown.
    name
        Beginning of the layer's name.
    **keywords
        What else the layer is given.
    """
    word, factor = fluence_word(unit), np.float32(unit.factor)
    shown = log10_of(cleaned.image * factor)
    quantity = Quantity(word, unit.name, "log10", f"cleaned: light, {result.launched:,} photons")
    error = cleaned.noise * factor if result.half_fluences is not None else None
    metadata = {
        **quantity_metadata(quantity, standard_error=error),
        **label_properties(result.domain),
        "unit": unit.name, "meaning": UNITS[unit.name], "factor": unit.factor,
        "parameters": dict(cleaned.parameters),
    }  # fmt: skip
    keywords = {"contrast_limits": decade_limits(shown, decades), "colormap": "inferno", **keywords}
    return volume_layer(shown, result.domain.affine, log_name(name, word, unit.name), metadata=metadata, **keywords)


def dose_by_region(
    result: LightResult,
    fluence: npt.ArrayLike | LayerData | None = None,
    settings: "DvhSettings | None" = None,
    *,
    gate: int | None = None,
    unit: FluenceUnit = PER_PHOTON,
    device: str | Device = "auto",
    progress: Callable[[Step], object] | None = None,
) -> "DvhResult":
    """Count a fluence in every region of a simulation's labels.

    Parameters
    ----------
    result
        What `napari_gpubio.light.simulate` gave.
    fluence
        Per launched photon, shape (X, Y, Z), for instance the image of `clean_fluence`; None: as it was simulated. Or
        the image layer of a fluence (`cleaned_layer`, `napari_gpubio.light.napari_io.fluence_layer`), in its own unit:
        the curves then have the bits of those that the window shows of such a layer.
    settings
        Of the histograms; None: as many decades as the fluence has.
    gate
        Which time gate of a layer of several is counted.
    unit
        Of the doses where no layer has its own; see `napari_gpubio.light.statistics.fluence_units`.
    device, progress
        As of `napari_gpubio.dose.dvh`.

    Returns
    -------
    DvhResult
        One curve for each label that occurs, by its name.

    Raises
    ------
    InvalidInput
        If the fluence has another shape than the labels, or is not finite.
    """
    from napari_gpubio.dose import Dose, LabelStructures, dvh

    domain = result.domain
    if isinstance(fluence, tuple):
        values, quantity = _values_of(fluence, gate)
    else:
        plain = result.fluence if fluence is None else np.asarray(fluence)
        values, quantity = plain * np.float32(unit.factor), Quantity(fluence_word(unit), unit.name)
    if values.shape != domain.shape:
        raise InvalidInput(f"the fluence has shape {values.shape} and the labels {domain.shape}; give one of this run")
    names = {label: domain.medium(label).name or f"label {label}" for label in domain.labels_present}
    dose = Dose(values=values, affine=domain.affine, unit=quantity.unit, quantity=quantity.name, name=quantity.name)
    structures = LabelStructures(labels=domain.labels, affine=domain.affine, structures=names)
    return dvh(dose, structures, settings, device=device, progress=progress)


def _values_of(layer: LayerData, gate: int | None) -> tuple[Array, Quantity]:
    """What the image layer of a fluence holds on the linear scale, of one time gate where it has several."""
    data, keywords, _ = layer
    array, quantity = stored_volume(data, keywords)[0], keywords["metadata"][KEY][QUANTITY]
    return to_linear(array if gate is None else array[..., gate], quantity), quantity

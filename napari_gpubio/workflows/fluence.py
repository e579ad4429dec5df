"""Light, denoise and dose: a fluence is cleaned with all that its run knows, and counted by region."""

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.light.io.volumes import fluence_arrays
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import PER_PHOTON, FluenceUnit
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.pictures import fluence_word

if TYPE_CHECKING:
    from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings
    from napari_gpubio.dose import DvhResult, DvhSettings


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
    >>> from napari_gpubio import light, optics, workflows
    >>> head = optics.phantom.load_head_phantom()
    >>> source = optics.Pencil(position_mm=(0, 0, 90), direction=(0, 0, -1))
    >>> result = light.simulate(head, source, light.LightSettings(photons=2000, halves=True), device="cpu")
    >>> workflows.clean_fluence(result, device="cpu").image.shape == head.shape
    True
    """
    from napari_gpubio.denoise.fluence import denoise_fluence_steps
    from napari_gpubio.light.guide import with_guide_steps

    held, domain = fluence_arrays(result, PER_PHOTON), result.domain
    halves, error = held["halves"], held["standard_error"]
    first, second = (result.fluence, None) if halves is None else halves
    inside = domain.labels != OUTSIDE
    guide = None  # theory for tissue that scatters alike in all directions
    if not domain.is_anisotropic:
        guide = (yield from with_guide_steps(result, device=device)).guide
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


@dataclass(frozen=True, eq=False, kw_only=True)
class CleanedVolume(MadeOf, main="result"):
    """The fluence of a run, cleaned, in a unit.

    Parameters
    ----------
    cleaned
        The fluence, shape (X, Y, Z).
    noise
        Its standard error.
    result
        What the denoiser gave, per launched photon.
    """

    cleaned: Volume
    noise: Volume
    result: "FluenceResult"


def clean_volume_steps(
    result: LightResult,
    settings: "FluenceSettings | None" = None,
    *,
    unit: FluenceUnit = PER_PHOTON,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, CleanedVolume]:
    """Denoise the fluence of a simulation, and return it in a unit; see `clean_fluence_steps`."""
    found = yield from clean_fluence_steps(result, settings, device=device, stop=stop)
    word, factor, affine = fluence_word(unit), np.float32(unit.factor), result.domain.affine
    meaning = Quantity(word, unit.name, source=f"cleaned: light, {result.launched:,} photons")
    error = Quantity(f"standard error of the {word}", unit.name)
    return CleanedVolume(
        cleaned=Volume(array=found.image * factor, affine=affine, name=f"cleaned {word}", quantity=meaning),
        noise=Volume(array=found.noise * factor, affine=affine, name=error.name, quantity=error),
        result=found,
    )


def dose_by_region(
    result: LightResult,
    fluence: npt.ArrayLike | None = None,
    settings: "DvhSettings | None" = None,
    *,
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
        Per launched photon, shape (X, Y, Z), for instance the image of `clean_fluence`; None: as it was simulated.
    settings
        Of the histograms; None: as many decades as the fluence has.
    unit
        Of the doses; see `napari_gpubio.light.statistics.fluence_units`.
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
    values = (result.fluence if fluence is None else np.asarray(fluence)) * np.float32(unit.factor)
    if values.shape != domain.shape:
        raise InvalidInput(f"the fluence has shape {values.shape} and the labels {domain.shape}; give one of this run")
    names = {label: domain.medium(label).name or f"label {label}" for label in domain.labels_present}
    word = fluence_word(unit)
    dose = Dose(values=values, affine=domain.affine, unit=unit.name, quantity=word, name=word)
    structures = LabelStructures(labels=domain.labels, affine=domain.affine, structures=names)
    return dvh(dose, structures, settings, device=device, progress=progress)

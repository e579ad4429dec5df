"""What the light panel asks for, read in the GUI thread, and how it is answered in a worker."""

import dataclasses
import threading
from collections.abc import Callable, Generator

import numpy as np

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.core.steps import Step
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.labels import Tissue
from napari_gpubio.light.gui.pictured import pictured
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.napari_io import DECADES, error_layer, fluence_layer
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import needed_memory_mb, simulate_steps
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit

QUICK_PHOTONS = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a result is drawn."""

    unit: FluenceUnit = PER_PHOTON
    decades: int = DECADES
    masks: bool = False
    shows_error: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Volume:
    """What a domain is made of: labels and their optical properties.

    Parameters
    ----------
    study
        Name of the labels, with which the names of layers and files begin.
    tissue
        The labels and where they are.
    media
        Their optical properties.
    carried
        The domain that came with the labels, for what the panel does not show, or None.
    """

    study: str
    tissue: Tissue
    media: tuple[Medium, ...]
    carried: Domain | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """Everything that one run needs, read from the panel in the GUI thread."""

    volume: Volume
    source: Source
    detectors: tuple[Detector, ...]
    settings: Settings
    device: str

    def quick(self) -> "Request":
        """Return the same with few photons, for a first look."""
        photons = min(QUICK_PHOTONS, self.settings.photons)
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, photons=photons))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A result made ready to be shown: arrays of layers, so that the GUI thread only hands them over."""

    result: LightResult
    fluence: LayerData
    error: LayerData | None


class Domains:
    """Makes domains in the worker, and keeps the last one: its checks take a while for large volumes."""

    def __init__(self) -> None:
        self._tissue: Tissue | None = None
        self._media: tuple[Medium, ...] = ()
        self._domain: Domain | None = None
        self._lock = threading.Lock()  # a quick run may still be ending while the next run begins

    def of(self, volume: Volume) -> Domain:
        """Return the domain of a volume.

        Raises
        ------
        InvalidInput
            If labels and properties do not make one.
        """
        with self._lock:
            if self._domain is None or self._tissue is not volume.tissue or self._media != volume.media:
                self._domain = _domain_of(volume)
                self._tissue, self._media = volume.tissue, volume.media
            return self._domain


def _domain_of(volume: Volume) -> Domain:
    tissue, carried = volume.tissue, volume.carried
    labels = np.array(tissue.labels)  # a copy: the user may go on painting
    if carried is None or carried.shape != labels.shape:
        return Domain(labels=labels, affine=tissue.affine, media=volume.media)
    return dataclasses.replace(carried, labels=labels, affine=tissue.affine, media=volume.media)


def picture_of(result: LightResult, look: Look) -> Picture:
    """Make the layers of a result; takes a moment for large volumes."""
    fluence = fluence_layer(
        result,
        "",  # a short name can be read in napari's list of layers
        unit=look.unit,
        gates=result.settings.gate_count > 1,
        hide_uncertain=look.masks,
        decades=look.decades,
    )
    error = error_layer(result, "") if look.shows_error else None
    return Picture(result, fluence, error)


def drawing_steps(result: LightResult, look: Look) -> Generator[Step, None, Picture]:
    """Draw a result, in a worker."""
    yield Step(0, 1, "drawing")
    return picture_of(result, look)


def light_steps(
    request: Request,
    domains: Domains,
    stop: threading.Event,
    look: Callable[[], Look],
    *,
    outdated: Callable[[], bool] | None = None,
) -> Generator[Step, None, Picture]:
    """Simulate; previews are pictures.

    Parameters
    ----------
    request
        What to simulate.
    domains
        Where the domain is kept for the next run.
    stop
        Ends the run; what was done is the result.
    look
        Says how pictures are to be drawn; asked for each, because the user may change it during a run.
    outdated
        Says whether a newer request waits; the run then ends with its first picture.
    """
    photons = request.settings.photons
    yield Step(0, photons, "reading the labels …")
    domain = domains.of(request.volume)
    steps = simulate_steps(
        domain, request.source, request.settings, detectors=request.detectors, device=request.device, stop=stop
    )
    return (yield from pictured(steps, lambda result: picture_of(result, look()), outdated))


def more_photons(result: LightResult, photons: int) -> int:
    """How many photons a result has when it is gone on with: those that it was stopped before, or so many more."""
    return result.launched + photons if result.complete else result.settings.photons


def continued_steps(
    result: LightResult, photons: int, device: str, stop: threading.Event, look: Callable[[], Look]
) -> Generator[Step, None, Picture]:
    """Go on with a result, with its own inputs, until it has so many photons; previews are pictures."""
    settings = dataclasses.replace(result.settings, photons=photons)
    steps = simulate_steps(
        result.domain, result.source, settings, detectors=result.detectors, device=device, resume=result, stop=stop
    )
    return (yield from pictured(steps, lambda more: picture_of(more, look())))


def needed_memory_steps(
    volume: Volume, domains: Domains, settings: Settings, device: str
) -> Generator[Step, None, str]:
    """Find out, in a worker, how much memory a run needs; returns a sentence."""
    yield Step(0, 1, "reading the labels …")
    megabytes = needed_memory_mb(domains.of(volume), settings, device)
    amount = f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{max(1.0, megabytes):.0f} MB"
    return f"Needs about {amount} of memory."

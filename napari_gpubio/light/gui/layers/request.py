"""What the layered panel asks for, read in the GUI thread, and how it is answered in a worker."""

import dataclasses
from collections.abc import Callable, Generator
from threading import Event

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.core.steps import Step
from napari_gpubio.light.gui.pictured import pictured
from napari_gpubio.light.layers.beams import Beam, convolved
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.napari_io import picture_layer
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.run import layer_steps
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.napari_io import DECADES
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit

QUICK_PHOTONS = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a result is shown."""

    beam: Beam | None = None
    quantity: str = "fluence"
    unit: FluenceUnit = PER_PHOTON
    decades: int = DECADES
    masks: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that one run needs, read from the panel in the GUI thread.

    Parameters
    ----------
    medium, settings, device, resume
        As `layer_steps` takes them.
    """

    medium: LayeredMedium
    settings: LayeredSettings
    device: str
    resume: LayeredResult | None = None

    @classmethod
    def going_on(cls, result: LayeredResult, photons: int, device: str) -> "Request":
        """Return what goes on with a result: to its end if it was stopped, else for so many photons more."""
        count = result.launched + photons if result.complete else result.settings.photons
        settings = dataclasses.replace(result.settings, photons=count)
        return cls(medium=result.medium, settings=settings, device=device, resume=result)

    def quick(self) -> "Request":
        """Return the same with few photons, for a first look."""
        photons = min(QUICK_PHOTONS, self.settings.photons)
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, photons=photons))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A result made ready to be shown.

    Parameters
    ----------
    traced
        As it was traced, of a pencil beam.
    result
        Of the beam that is shown.
    look
        How it is shown.
    layer
        The image, or None without an absorption map.
    problem
        Why it could not be shown for the beam, or an empty text.
    """

    traced: LayeredResult
    result: LayeredResult
    look: Look
    layer: LayerData | None
    problem: str = ""


def picture_of(traced: LayeredResult, look: Look) -> Picture:
    """Make a picture; a beam that does not fit the grid is a problem, and no reason to lose what was traced."""
    result, problem = traced, ""
    if look.beam is not None:
        try:
            result = convolved(traced, look.beam)
        except InvalidInput as error:
            problem = f"shown for a pencil beam, because {error}"
    layer = None
    if result.A_rz is not None:
        layer = picture_layer(
            result, "", quantity=look.quantity, unit=look.unit, hide_uncertain=look.masks, decades=look.decades
        )
    return Picture(traced=traced, result=result, look=look, layer=layer, problem=problem)


def drawing_steps(picture: Picture, look: Look) -> Generator[Step, None, Picture]:
    """Draw what was traced anew, in a worker."""
    yield Step(0, 1, "drawing")
    return picture_of(picture.traced, look)


def request_steps(
    request: Request, stop: Event, look: Callable[[], Look], *, outdated: Callable[[], bool] | None = None
) -> Generator[Step, None, Picture]:
    """Simulate; previews are pictures.

    Parameters
    ----------
    request
        What to simulate.
    stop
        Ends the run; what was done is the result.
    look
        Says how pictures are to be drawn; asked for each, because the user may change it during a run.
    outdated
        Says whether a newer request waits; the run then ends with its first picture.
    """
    steps = layer_steps(request.medium, request.settings, device=request.device, resume=request.resume, stop=stop)
    return (yield from pictured(steps, lambda result: picture_of(result, look()), outdated))

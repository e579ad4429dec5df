"""What the panel asks for, and how it is answered in a worker: histograms that stay open for painting."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import contours_of, dose_of, labels_of
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures

NO_STRUCTURES = "no structures are chosen; tick a Labels or Shapes layer in the list"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """A dose layer, the unit of its values, and which volume of a series."""

    layer: Any
    unit: str
    frame: int | None = None

    @property
    def name(self) -> str:
        """Of the layer, with the volume where there are several."""
        return self.layer.name if self.frame is None else f"{self.layer.name} [{self.frame}]"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """Everything that one run needs.

    Parameters
    ----------
    plans
        One or two.
    layers
        Labels and Shapes, in the order of the curves.
    settings, device
        As the API takes them.
    """

    plans: tuple[Plan, ...]
    layers: tuple[Any, ...]
    settings: DvhSettings
    device: str

    @property
    def layers_with_doses(self) -> tuple[Any, ...]:
        """All layers that go into a run."""
        return (*(plan.layer for plan in self.plans), *self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Where one curve comes from.

    Parameters
    ----------
    name
        Of the curve; no other has it.
    layer
        Labels or Shapes.
    label
        Which label, or None for contours.
    volume
        Which of the label volumes; -1 for contours.
    """

    name: str
    layer: Any
    label: int | None = None
    volume: int = -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Counted:
    """What a run gave.

    Parameters
    ----------
    request
        What was asked for.
    doses
        Of each plan.
    structures
        In the order of the curves.
    contours
        By name, those that are contours.
    lives
        The calculations, one for each plan.
    """

    request: Request
    doses: tuple[Dose, ...]
    structures: tuple[Structure, ...]
    contours: dict[str, ContourStructure]
    lives: tuple[LiveDvh, ...]

    @property
    def complete(self) -> bool:
        """Whether everything was counted."""
        return all(live.complete for live in self.lives)

    def results(self) -> tuple[DvhResult, ...]:
        """The histograms of each plan as they are now."""
        return tuple(live.result() for live in self.lives)

    def label_layers(self) -> dict[int, Any]:
        """The Labels layers by the number of their volume."""
        return {one.volume: one.layer for one in self.structures if one.volume >= 0}

    def close(self) -> None:
        """Free what is kept on the device."""
        for live in self.lives:
            live.close()


def frame_at(layer: Any, point: Any) -> int | None:
    """Which volume of a series is at a position of the viewer; None: the layer is one volume."""
    if layer.ndim == 3:
        return None
    place = layer.world_to_data(np.asarray(point, np.float64)[-layer.ndim :])
    return int(np.clip(round(float(place[0])), 0, layer.data.shape[0] - 1))


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Counted]:
    """Read the layers and count the dose of every structure."""
    yield Step(0, 1, "reading the layers")
    if not request.layers:
        raise InvalidInput(NO_STRUCTURES)
    doses = tuple(dose_of(plan.layer, plan.unit, frame=plan.frame) for plan in request.plans)
    doses = tuple(dataclasses.replace(d, name=p.name) for d, p in zip(doses, request.plans, strict=True))
    _check_units(doses)
    own, found = _structures(request.layers, doses[0])
    lives: list[LiveDvh] = []
    try:
        for dose in doses:
            steps = LiveDvh.steps(dose, own, request.settings, device=request.device, stop=stop)
            lives.append((yield from steps))
            lives[-1].dvhs()  # here, where structures that leave the dose may be refused
    except BaseException:
        for live in lives:
            live.close()
        raise
    contours = {one.name: one for one in own if isinstance(one, ContourStructure)}
    return Counted(request=request, doses=doses, structures=found, contours=contours, lives=tuple(lives))


def _check_units(doses: Sequence[Dose]) -> None:
    units = [dose.unit for dose in doses]
    if len(set(units)) > 1:
        raise InvalidInput(f"the plans are in {' and '.join(units)}, which cannot share an axis; give both in one unit")


def _structures(layers: Sequence[Any], dose: Dose) -> tuple[list[Any], tuple[Structure, ...]]:
    """Structures of all layers, for the engine and for us, with names that differ."""
    given: list[tuple[Any, LabelStructures | tuple[ContourStructure, ...]]] = [
        (layer, labels_of(layer) if isinstance(layer, Labels) else contours_of(layer, dose)) for layer in layers
    ]
    counts = Counter(name for _, kind in given for name in _names(kind))
    own: list[Any] = []
    found: list[Structure] = []
    volume = 0
    for layer, kind in given:
        names = [f"{name} ({layer.name})" if counts[name] > 1 else name for name in _names(kind)]
        if isinstance(kind, LabelStructures):
            renamed = dict(zip(kind.values, names, strict=True))
            own.append(kind if tuple(names) == kind.names else dataclasses.replace(kind, structures=renamed))
            found += [Structure(name=n, layer=layer, label=v, volume=volume) for v, n in renamed.items()]
            volume += 1
        else:
            own += [dataclasses.replace(one, name=name) for one, name in zip(kind, names, strict=True)]
            found += [Structure(name=name, layer=layer) for name in names]
    return own, tuple(found)


def _names(kind: LabelStructures | tuple[ContourStructure, ...]) -> tuple[str, ...]:
    return kind.names if isinstance(kind, LabelStructures) else tuple(one.name for one in kind)

"""What a run of the panel needs, and what it returns: histograms that stay open for painting."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import Scale
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import contours_of, dose_of, labels_of
from napari_gpubio.dose.settings import CONSTANT, DvhSettings
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures

NO_STRUCTURES = "no structures are chosen; tick a Labels or Shapes layer in the list"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """A dose layer, the unit of its values, and which volume of a series."""

    layer: Any
    unit: str
    frame: int | None = None
    scale: Scale = "linear"  # of a layer that does not say itself whether it holds logarithms

    @property
    def name(self) -> str:
        """Of the layer, with the volume where there are several."""
        return self.layer.name if self.frame is None else f"{self.layer.name} [{self.frame}]"

    def dose(self) -> Dose:
        """Return the dose of the layer; InvalidInput if it holds none."""
        found = dose_of(self.layer, self.unit, frame=self.frame, scale=self.scale)
        return dataclasses.replace(found, name=self.name)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """The inputs of one run."""

    plans: tuple[Plan, ...]  # one or two
    layers: tuple[Any, ...]  # Labels and Shapes, in the order of the curves
    settings: DvhSettings
    device: str

    @property
    def input_layers(self) -> tuple[Any, ...]:
        """All layers: doses and structures."""
        return (*(plan.layer for plan in self.plans), *self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The structure of one curve."""

    name: str  # of the curve, unique in a run
    layer: Any  # Labels or Shapes
    label: int | None = None  # number of the label, or None for contours
    volume: int = -1  # number of the label volume; -1 for contours


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LiveHistograms:
    """Result of a run."""

    request: Request
    doses: tuple[Dose, ...]  # of each plan
    structures: tuple[Structure, ...]  # in the order of the curves
    contours: dict[str, ContourStructure]  # by name
    live_dvhs: tuple[LiveDvh, ...]  # the open calculation of each plan

    @property
    def complete(self) -> bool:
        """Whether everything was counted."""
        return all(dvh.complete for dvh in self.live_dvhs)

    def is_constant(self, plan: int) -> bool:
        """Whether a plan's dose is constant in each voxel, as light is counted, instead of interpolated."""
        return self.request.settings.resolved(self.doses[plan]).within_voxels == CONSTANT

    def results(self) -> tuple[DvhResult, ...]:
        """The histograms of each plan as they are now."""
        return tuple(dvh.result() for dvh in self.live_dvhs)

    def volume_number(self, layer: Any) -> int:
        """Number of the label volume of a Labels layer."""
        return next(one.volume for one in self.structures if one.volume >= 0 and one.layer == layer)

    def close(self) -> None:
        """Free what is kept on the device."""
        for dvh in self.live_dvhs:
            dvh.close()


def frame_at(layer: Any, point: Any) -> int | None:
    """Number of the volume of a series at a position of the viewer, or None if the layer is one volume."""
    if layer.ndim == 3:
        return None
    place = layer.world_to_data(np.asarray(point, np.float64)[-layer.ndim :])
    return int(np.clip(round(float(place[0])), 0, layer.data.shape[0] - 1))


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, LiveHistograms]:
    """Read the layers and count the dose of every structure."""
    yield Step(0, 1, "reading the layers")
    if not request.layers:
        raise InvalidInput(NO_STRUCTURES)
    doses = tuple(plan.dose() for plan in request.plans)
    _check_units(doses)
    own, found = _structures(request.layers, doses[0])
    live_dvhs: list[LiveDvh] = []
    try:
        for dose in doses:
            steps = LiveDvh.steps(dose, own, request.settings, device=request.device, stop=stop)
            live_dvhs.append((yield from steps))
            live_dvhs[-1].dvhs()  # structures that leave the dose may be refused here, still in the worker
    except BaseException:
        for dvh in live_dvhs:
            dvh.close()
        raise
    contours = {one.name: one for one in own if isinstance(one, ContourStructure)}
    return LiveHistograms(request=request, doses=doses, structures=found, contours=contours, live_dvhs=tuple(live_dvhs))


def _check_units(doses: Sequence[Dose]) -> None:
    units = [dose.unit for dose in doses]
    if len(set(units)) > 1:
        raise InvalidInput(f"the plans are in {' and '.join(units)}, which cannot share an axis; convert one of them")


def _structures(layers: Sequence[Any], dose: Dose) -> tuple[list[Any], tuple[Structure, ...]]:
    """Structures of all layers as the engine takes them, and as the panel lists them, with unique names."""
    kinds: list[tuple[Any, LabelStructures | tuple[ContourStructure, ...]]] = [
        (layer, labels_of(layer) if isinstance(layer, Labels) else contours_of(layer, dose)) for layer in layers
    ]
    counts = Counter(name for _, kind in kinds for name in _names(kind))
    own: list[Any] = []
    found: list[Structure] = []
    volume = 0
    for layer, kind in kinds:
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

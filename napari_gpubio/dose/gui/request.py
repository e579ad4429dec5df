"""What a run of the panel needs, and what it returns: histograms that stay open for painting."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Shapes

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import Scale
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.bands import DvhBand, band_of, border_doses
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import contours_of, dose_of, labels_of, unit_of
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
    layers: tuple[Any, ...]  # with labels and Shapes, in the order of the curves
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
    layer: Any  # with labels, or Shapes
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
    # two more for each plan whose layer carries its errors: of both halves, or of the dose less and plus its errors
    error_dvhs: tuple[tuple[LiveDvh, ...], ...] = ()
    bases: tuple[str, ...] = ()  # of the bands of each plan, empty where there is none

    @property
    def complete(self) -> bool:
        """Whether everything was counted."""
        return all(dvh.complete for dvh in self.all_dvhs)

    @property
    def all_dvhs(self) -> tuple[LiveDvh, ...]:
        """All open calculations, those of the plans first."""
        return (*self.live_dvhs, *(dvh for pair in self.error_dvhs for dvh in pair))

    def is_constant(self, plan: int) -> bool:
        """Whether a plan's dose is constant in each voxel, as light is counted, instead of interpolated."""
        return self.request.settings.resolved(self.doses[plan]).within_voxels == CONSTANT

    def results(self) -> tuple[DvhResult, ...]:
        """The histograms of each plan as they are now."""
        return tuple(dvh.result() for dvh in self.live_dvhs)

    def bands(self, results: Sequence[DvhResult]) -> tuple[tuple[DvhBand, ...], ...]:
        """The bands of each plan as they are now, none where its layer carries no errors."""
        found: list[tuple[DvhBand, ...]] = []
        for result, pair, basis in zip(results, self.error_dvhs, self.bases, strict=True):
            made = zip(result, *(dvh.dvhs() for dvh in pair), strict=True) if pair else ()
            found.append(tuple(band_of(basis, *three) for three in made))
        return tuple(found)

    def volume_number(self, layer: Any) -> int:
        """Number of the label volume of a Labels layer."""
        return next(one.volume for one in self.structures if one.volume >= 0 and one.layer == layer)

    def close(self) -> None:
        """Free what is kept on the device."""
        for dvh in self.all_dvhs:
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
    own, found = structures_of(request.layers, doses[0])
    bases, pairs = zip(*map(border_doses, doses), strict=True)
    opened: list[LiveDvh] = []
    try:
        for dose, plan_dose in _with_plans(doses, pairs):
            settings = request.settings.resolved(plan_dose)  # the same for a dose less its errors
            steps = LiveDvh.steps(dose, own, settings, device=request.device, stop=stop)
            opened.append((yield from steps))
            opened[-1].dvhs()  # structures that leave the dose may be refused here, still in the worker
    except BaseException:
        for dvh in opened:
            dvh.close()
        raise
    rest = iter(opened[len(doses) :])
    return LiveHistograms(
        request=request,
        doses=doses,
        structures=found,
        contours={one.name: one for one in own if isinstance(one, ContourStructure)},
        live_dvhs=tuple(opened[: len(doses)]),
        error_dvhs=tuple(tuple(next(rest) for _ in pair) for pair in pairs),
        bases=bases,
    )


def _with_plans(doses: Sequence[Dose], pairs: Sequence[Sequence[Dose]]) -> Iterator[tuple[Dose, Dose]]:
    """Every dose that is counted, and that of its plan: first the plans, then what their bands are made from."""
    yield from zip(doses, doses, strict=True)
    for dose, pair in zip(doses, pairs, strict=True):
        yield from ((one, dose) for one in pair)


def unit_note(plans: Sequence[Plan]) -> str:
    """Return a sentence if the second plan's unit is only known from the first."""
    if len(plans) < 2 or unit_of(plans[1].layer):
        return ""
    return f"The unit of {plans[1].name!r} is not known: it is taken to be in {plans[1].unit}, as {plans[0].name!r} is."


def _check_units(doses: Sequence[Dose]) -> None:
    units = [dose.unit for dose in doses]
    if len(set(units)) > 1:
        raise InvalidInput(f"the plans are in {' and '.join(units)}, which cannot share an axis; convert one of them")


def structures_of(layers: Sequence[Any], dose: Dose) -> tuple[list[Any], tuple[Structure, ...]]:
    """Return structures of all layers as the engine takes them, and as the panel lists them, with unique names."""
    kinds: list[tuple[Any, LabelStructures | tuple[ContourStructure, ...]]] = [
        (layer, contours_of(layer, dose) if isinstance(layer, Shapes) else labels_of(layer)) for layer in layers
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

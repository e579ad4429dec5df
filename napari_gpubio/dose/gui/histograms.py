"""What a run of the panel needs, and what it returns: histograms that stay open for painting, with their operation."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from napari.layers import Shapes

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.operations.runs import run, value_of
from napari_gpubio.core.operations.volumes import HeldVolume, Volume
from napari_gpubio.core.quantity import Scale
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.bands import DvhBand, band_of, border_doses
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.model import Dose, Structures
from napari_gpubio.dose.napari_io import PATIENT, contours_of, labels_of, unit_of
from napari_gpubio.dose.operations import DoseVolume
from napari_gpubio.dose.operations.inputs import HeldContours, LabelsOf
from napari_gpubio.dose.operations.layer_sources import Volumes, dose_shown, labels_shown
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HistogramRequest:
    """The inputs of one run."""

    plans: tuple[Plan, ...]  # one or two
    layers: tuple[Any, ...]  # with labels and Shapes, in the order of the curves
    settings: DvhSettings
    device: str
    known: Volumes = field(default_factory=dict)  # what layers were found to show in the run before

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

    request: HistogramRequest
    draft: DoseVolume  # of what was counted, before labels were painted
    volumes: Volumes  # what layers were found to show
    doses: tuple[Dose, ...]  # of each plan
    structures: tuple[Structure, ...]  # in the order of the curves
    parts: tuple[Structures, ...]  # as they were counted
    live_dvhs: tuple[LiveDvh, ...]  # the open calculation of each plan
    # two more for each plan whose layer carries its errors: of both halves, or of the dose less and plus its errors
    error_dvhs: tuple[tuple[LiveDvh, ...], ...] = ()
    bases: tuple[str, ...] = ()  # of the bands of each plan, empty where there is none
    painted: set[int] = field(default_factory=set)  # numbers of the label volumes that have been painted since

    @property
    def complete(self) -> bool:
        """Whether everything was counted."""
        return all(dvh.complete for dvh in self.all_dvhs)

    @property
    def all_dvhs(self) -> tuple[LiveDvh, ...]:
        """All open calculations, those of the plans first."""
        return (*self.live_dvhs, *(dvh for pair in self.error_dvhs for dvh in pair))

    @property
    def contours(self) -> dict[str, ContourStructure]:
        """Contours by name."""
        return {one.name: one for one in self.parts if isinstance(one, ContourStructure)}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the layers."""
        return tuple(note for layer in self.request.input_layers for note in carried(layer, NOTES) or ())

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

    def parts_now(self) -> list[Structures]:
        """The structures as they are now, after labels were painted."""
        labels = iter(range(len(self.parts)))
        return [
            dataclasses.replace(one, labels=self.live_dvhs[0].labels(next(labels)))
            if isinstance(one, LabelStructures)
            else one
            for one in self.parts
        ]

    def operation(self, **fields: Any) -> DoseVolume:
        """Return the operation of the histograms as they are now; painted labels are copied.

        ``fields``: how they are scaled, and what is read off them.
        """
        refs: list[Output[Any]] = [ref for name, ref in self.draft.inputs() if name == "structures"]
        counted = [one for one in self.parts if isinstance(one, LabelStructures)]
        places = [n for n, ref in enumerate(refs) if isinstance(ref.of, LabelsOf)]
        for number in self.painted:
            name = next(one.layer.name for one in self.structures if one.volume == number)
            array, place = self.live_dvhs[0].labels(number), places[number]
            now = HeldVolume.of(Volume(array=array, affine=counted[number].affine, name=name))
            refs[place] = replaced_fields(refs[place].of, {"volume": now}).output()
        return replaced_fields(self.draft, {"structures": refs, **fields})

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


def run_steps(request: HistogramRequest, stop: threading.Event) -> Generator[Step, None, LiveHistograms]:
    """Find out what the layers show, and count the dose of every structure."""
    yield Step(0, 1, "reading the layers")
    found = _found(request)
    doses = found.doses
    bases, pairs = zip(*map(border_doses, doses), strict=True)
    opened: list[LiveDvh] = []
    try:
        for dose, plan_dose in _with_plans(doses, pairs):
            settings = request.settings.resolved(plan_dose)  # the same for a dose less its errors
            steps = LiveDvh.steps(dose, found.parts, settings, device=request.device, stop=stop)
            opened.append((yield from steps))
            opened[-1].dvhs()  # structures that leave the dose may be refused here, still in the worker
    except BaseException:
        for dvh in opened:
            dvh.close()
        raise
    rest = iter(opened[len(doses) :])
    return dataclasses.replace(
        found,
        live_dvhs=tuple(opened[: len(doses)]),
        error_dvhs=tuple(tuple(next(rest) for _ in pair) for pair in pairs),
        bases=bases,
    )


def _with_plans(doses: Sequence[Dose], pairs: Sequence[Sequence[Dose]]) -> Iterator[tuple[Dose, Dose]]:
    """Every dose that is counted, and that of its plan: first the plans, then what their bands are made from."""
    yield from zip(doses, doses, strict=True)
    for dose, pair in zip(doses, pairs, strict=True):
        yield from ((one, dose) for one in pair)


def draft_of(request: HistogramRequest) -> DoseVolume:
    """Return the operation of what is requested."""
    return _found(request).draft


def _found(request: HistogramRequest) -> LiveHistograms:
    """What is to be counted, as operations and as values, before it is."""
    if not request.layers:
        raise InvalidInput(NO_STRUCTURES)
    refs, doses, volumes = list[Output[Dose]](), list[Dose](), dict[Any, Output[Volume]]()
    for plan in request.plans:
        known = request.known.get(plan.layer)
        ref, volume = dose_shown(plan.layer, plan.unit, frame=plan.frame, scale=plan.scale, known=known)
        refs.append(ref)
        patient = str(carried(plan.layer, PATIENT) or "")  # who that is is in no record
        doses.append(dataclasses.replace(value_of(ref), name=plan.name, patient=patient))
        volumes |= {} if volume is None else {plan.layer: volume}
    _check_units(doses)
    listed = _Structures(doses[0], request.known)
    listed.add(request.layers)
    return LiveHistograms(
        request=request,
        draft=DoseVolume(doses=tuple(refs), structures=tuple(listed.operations), settings=request.settings),
        volumes=volumes | listed.volumes,
        doses=tuple(doses),
        structures=tuple(listed.structures),
        parts=tuple(listed.parts),
        live_dvhs=(),
    )


class _Structures:
    """Structures of all layers: their operations, as the engine takes them, and as the panel lists them."""

    def __init__(self, dose: Dose, known: Volumes) -> None:
        self._dose, self._known = dose, known
        self.operations: list[LabelsOf | HeldContours] = []
        self.structures: list[Structure] = []
        self.parts: list[Structures] = []
        self.volumes: dict[Any, Output[Volume]] = {}
        self._labels = 0

    def add(self, layers: Sequence[Any]) -> None:
        """Add the structures of layers; names that several have get that of their layer, too."""
        drawn = {layer: contours_of(layer, self._dose) for layer in layers if isinstance(layer, Shapes)}
        labels = {layer: labels_of(layer) for layer in layers if layer not in drawn}
        names = [name for own in labels.values() for name in own.names]
        counts = Counter([*names, *(one.name for own in drawn.values() for one in own)])

        def unique(name: str, layer: Any) -> str:
            return f"{name} ({layer.name})" if counts[name] > 1 else name

        for layer in layers:
            if layer in drawn:
                own = [dataclasses.replace(one, name=unique(one.name, layer)) for one in drawn[layer]]
                self._add_contours(layer, own)
            else:
                self._add_labels(layer, labels[layer], [unique(name, layer) for name in labels[layer].names])

    def _add_contours(self, layer: Any, own: Sequence[ContourStructure]) -> None:
        self.operations.append(operation := HeldContours.of(own, layer.name))
        for one, read in zip(own, run(operation, device="cpu"), strict=True):
            self.parts.append(dataclasses.replace(read, color=one.color, notes=one.notes, patient=one.patient))
            self.structures.append(Structure(name=one.name, layer=layer))

    def _add_labels(self, layer: Any, own: LabelStructures, unique: Sequence[str]) -> None:
        names = dict(zip(own.values, unique, strict=True))
        operation, self.volumes[layer] = labels_shown(layer, names, known=self._known.get(layer))
        self.operations.append(operation)
        self.parts.append(dataclasses.replace(value_of(operation.output()), patient=own.patient))
        self.structures += [Structure(name=n, layer=layer, label=v, volume=self._labels) for v, n in names.items()]
        self._labels += 1


def unit_note(plans: Sequence[Plan]) -> str:
    """Return a sentence if the second plan's unit is only known from the first."""
    if len(plans) < 2 or unit_of(plans[1].layer):
        return ""
    return f"The unit of {plans[1].name!r} is not known: it is taken to be in {plans[1].unit}, as {plans[0].name!r} is."


def _check_units(doses: Sequence[Dose]) -> None:
    units = [dose.unit for dose in doses]
    if len(set(units)) > 1:
        raise InvalidInput(f"the plans are in {' and '.join(units)}, which cannot share an axis; convert one of them")

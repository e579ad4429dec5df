"""Layers as inputs of operations, without importing napari: where the doses and structures that they show come from.

What a layer shows is what made it, its file, or its values, which are copied. Finding out takes a moment: files are
read, and arrays looked through; `known` is what was found before.
"""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import label_volume
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import LayerData, affine_mm, carried, is_oriented
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import LayerSource, record_of
from napari_gpubio.core.operations.records import Output, Reading
from napari_gpubio.core.operations.runs import run, value_of
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import HeldVolume, Volume, is_equal
from napari_gpubio.core.quantity import Quantity, Scale, standard_error_of
from napari_gpubio.core.reading import without_notes
from napari_gpubio.core.space import same_grid
from napari_gpubio.dose.io.rtstruct import StructureSet
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import (
    FRAME,
    RTDOSE,
    contours_layer,
    dose_layer,
    labels_layer,
    unit_of,
    volume_of_dose,
)
from napari_gpubio.dose.operations.inputs import DoseOf, LabelsOf, OpenDose
from napari_gpubio.dose.structures.labels import LabelStructures

_UNKNOWN_QUANTITY = Quantity("values")
Volumes = Mapping[Any, Output[Volume]]  # that layers were found to show, by the layer


def dose_shown(
    layer: Any,
    unit: str,
    *,
    frame: int | None = None,
    scale: Scale | None = None,
    known: Output[Volume] | None = None,
) -> tuple[Output[Dose], Output[Volume] | None]:
    """Return where the dose of a layer comes from, and its volume, if it is one; as of `napari_io.dose_of`."""
    volume = volume_of_dose(layer, scale)
    if frame is None and (made := _made_as_dose(layer, unit, volume)) is not None:
        return made, None
    as_it_is = dataclasses.replace(volume, quantity=None) if volume.quantity == _UNKNOWN_QUANTITY else volume
    source, value = volume_shown(layer, as_it_is, known)
    error = standard_error_of(layer)
    held = None if error is None else HeldVolume.of(volume.like(error, name=f"error of {volume.name}"))
    states_it = value.quantity is not None
    assert volume.quantity is not None
    operation = DoseOf(
        volume=source,
        standard_error=held,
        unit=unit,
        frame=frame,
        values_unit="" if states_it else unit_of(layer),
        quantity="" if states_it else volume.quantity.name,
        frame_of_reference=str(carried(layer, FRAME) or ""),
        is_oriented=is_oriented(layer),
    )
    errors = None if held is None else run(held, device="cpu")
    _keep(operation, volume=value, standard_error=errors)
    return operation.output(), source


def finder(layer: Any) -> Callable[[], Output[Dose]] | None:
    """Read a layer of a RTDOSE file; see `napari_gpubio.core.operations.layer_sources.register_finder`."""
    return (lambda: dose_shown(layer, unit_of(layer))[0]) if layer.ndim == 3 else None


def _keep(operation: Reading, **values: Any) -> None:
    """Make what an operation takes of values that are here, whatever device they were made on."""
    if STORE.last_result(operation) is None:
        STORE.keep(operation, "cpu", operation.read(SimpleNamespace(**values)))


def _made_as_dose(layer: Any, unit: str, volume: Volume) -> Output[Dose] | None:
    """What made the dose of a layer, or its RTDOSE file, if that is what it shows."""
    record, path = record_of(layer), carried(layer, RTDOSE)
    if record is not None and record.kind is Dose and (kept := STORE.last_value(record)) is not None:
        return record if _is_same(kept, unit, volume) else None
    if path is not None:
        with suppress(InvalidInput), without_notes():  # a file that has become something else since
            opened = OpenDose.at(path)
            if _is_same(run(opened, device="cpu"), unit, volume):
                found: Output[Dose] = opened.output()
                return found
    return None


def _is_same(dose: Dose, unit: str, volume: Volume) -> bool:
    grids = dose.values.shape, dose.affine, volume.array.shape, volume.affine
    return same_grid(*grids) and dose.unit == unit and is_equal(dose.values, volume.array)


def volume_shown(layer: Any, volume: Volume, known: Output[Volume] | None = None) -> tuple[Output[Volume], Volume]:
    """Return where what a layer shows comes from, and its value."""
    path = carried(layer, "path") or layer.source.path
    found = LayerSource(volume, None if path is None else Path(path), known or record_of(layer)).output()
    return found, value_of(found)


# -- structures -------------------------------------------------------------------------------------------------------


def labels_shown(
    layer: Any, names: Mapping[int, str], *, known: Output[Volume] | None = None
) -> tuple[LabelsOf, Output[Volume]]:
    """Return the operation of a layer's labels under some names, and where their volume comes from."""
    labels = label_volume(layer)
    source, value = volume_shown(layer, Volume(array=labels, affine=affine_mm(layer), name=layer.name), known)
    operation = LabelsOf(
        volume=source,
        names=tuple(f"{number}={name}" for number, name in names.items()),
        frame_of_reference=str(carried(layer, FRAME) or ""),
        is_oriented=is_oriented(layer),
    )
    _keep(operation, volume=value)
    return operation, source


# -- back to layers ---------------------------------------------------------------------------------------------------


def layers_of(value: Any, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layers of a dose, of labels or of contours; see `napari_gpubio.core.operations.Kind`."""
    metadata = {RECORD: record_of_output(output)}
    if isinstance(value, Dose):
        return [dose_layer(value, name, metadata=metadata)]
    if isinstance(value, LabelStructures):
        return [labels_layer(value, name, metadata=metadata)]
    assert isinstance(value, StructureSet)
    return [contours_layer(value.structures, name, metadata=metadata)]

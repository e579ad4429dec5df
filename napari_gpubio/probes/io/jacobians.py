"""Files of Jacobians: all of them (``.npz``), and one for every channel (NIfTI)."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import companions, write_described
from napari_gpubio.core.quantity import QUANTITY, STANDARD_ERROR, Quantity
from napari_gpubio.core.steps import drive
from napari_gpubio.light.io.results import domain_arrays, domain_fields, domain_from
from napari_gpubio.optics.io.archive import (
    JACOBIANS,
    Array,
    as_json,
    entry,
    fields_of,
    opened_archive,
    within,
    write_archive_steps,
)
from napari_gpubio.probes.jacobians.model import Channel, Jacobian, Jacobians

_PART_ARRAYS = ("values", "errors", "measured", "measured_error", "label_sums", "label_errors", "label_deviations")
_FIRST_AXIS = "channel"
_PLACES = ("source_mm", "detector_mm")


def save_jacobians(path: str | Path, jacobians: Jacobians, *, compress: bool = True) -> None:
    """Save Jacobians in one file; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    jacobians
        What `napari_gpubio.probes.jacobians.replay` gave, or others of this type.
    compress
        Make the file smaller, since most voxels are zero, and the saving slower.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    header = {name: as_json(value) for name, value in describe_jacobians(jacobians).items()}
    drive(write_archive_steps(path, JACOBIANS, header, _arrays(jacobians), compress=compress))


def load_jacobians(path: str | Path) -> Jacobians:
    """Load what `save_jacobians` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such file, of another version, or too large for the memory.
    """
    with opened_archive(path, JACOBIANS) as (described, arrays):
        return _jacobians(described, arrays)


def describe_jacobians(jacobians: Jacobians) -> dict[str, Any]:
    """Return what they are of and how they were made, without the arrays, as JSON nearly holds it."""
    return {
        "software": f"napari-gpubio {__version__}",
        "domain": domain_fields(jacobians.domain),
        "channels": [fields_of(channel) for channel in jacobians.channels],
        "parts": [
            {name: value for name, value in fields_of(part).items() if name not in _PART_ARRAYS} | {"unit": part.unit}
            for part in jacobians.parts
        ],
        "labels": jacobians.labels,
        "method": jacobians.method,
        "complete": jacobians.complete,
        "parameters": jacobians.parameters,
        "notes": jacobians.notes,
    }


def _arrays(jacobians: Jacobians) -> Iterator[tuple[str, Array]]:
    for name in domain_arrays():
        if (array := getattr(jacobians.domain, name)) is not None:
            yield f"domain/{name}", array
    for number, part in enumerate(jacobians.parts):
        for name in _PART_ARRAYS:
            if (array := getattr(part, name)) is not None:
                yield f"part_{number}/{name}", array


def _jacobians(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> Jacobians:
    domain = domain_from(entry(described, "domain", dict), within(arrays, "domain"))
    channels = tuple(map(_channel, entry(described, "channels", list)))
    shapes = {
        "values": (len(channels), *domain.shape),
        "measured": (len(channels),),
        "label_sums": (len(channels), len(domain.labels_present)),
    }
    shapes |= {"errors": shapes["values"], "measured_error": shapes["measured"], "label_errors": shapes["label_sums"]}
    parts = [
        _part(row, within(arrays, f"part_{number}"), shapes)
        for number, row in enumerate(entry(described, "parts", list))
    ]
    return Jacobians(
        domain=domain,
        channels=channels,
        parts=tuple(parts),
        method=entry(described, "method", str),
        complete=entry(described, "complete", bool),
        parameters=entry(described, "parameters", dict),
        notes=tuple(map(str, entry(described, "notes", list))),
    )


def _channel(row: Any) -> Channel:
    if not isinstance(row, dict):
        raise InvalidInput(f"a channel is {str(row)[:60]!r}; it was changed: save it again")
    filled = {name: [math.nan if one is None else one for one in entry(row, name, list)] for name in _PLACES}
    places = {name: _numbers(filled, name, 3) for name in _PLACES}
    return Channel(source=entry(row, "source", str), detector=entry(row, "detector", str), **places)


def _part(row: Any, arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> Jacobian:
    if not isinstance(row, dict):
        raise InvalidInput(f"a part is {str(row)[:60]!r}; it was changed: save it again")
    found: dict[str, Any] = {name: entry(arrays, name, np.ndarray) for name in shapes}
    for name, array in found.items():
        if array.shape != shapes[name] or array.dtype.kind != "f":
            raise InvalidInput(
                f"its {name!r} has shape {array.shape} of {array.dtype}, and {shapes[name]} of numbers is needed; it "
                "was changed: save it again"
            )
    gate, frequency = row.get("gate_ns"), row.get("frequency_mhz")
    return Jacobian(
        measure=entry(row, "measure", str),
        coefficient=entry(row, "coefficient", str),
        **found,
        label_deviations=arrays.get("label_deviations"),
        gate_ns=None if gate is None else _numbers(row, "gate_ns", 2),
        frequency_mhz=None if frequency is None else float(entry(row, "frequency_mhz", Real)),
    )


def _numbers(row: Mapping[str, Any], name: str, count: int) -> Any:
    values = entry(row, name, list)
    if len(values) != count or not all(isinstance(value, Real) for value in values):
        raise InvalidInput(f"its {name!r} is {str(values)[:60]}; {count} numbers are needed: save it again")
    return tuple(float(value) for value in values)


def write_jacobian(path: str | Path, jacobians: Jacobians, part: Jacobian | None = None) -> Path:
    """Write one part of Jacobians as NIfTI (float32), a volume for each channel, with all else and errors beside it.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``.
    jacobians
        Of which channels and tissue.
    part
        One of its parts; by default the first.

    Returns
    -------
    Path
        The JSON file, which has everything but the volumes.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    part = jacobians.parts[0] if part is None else part
    about = {
        "kind": "image",
        QUANTITY: Quantity(part.name, part.unit, source=f"light, {jacobians.method}"),
        "unit": part.unit,
        **({"first_axis": _FIRST_AXIS} if len(jacobians.channels) > 1 else {}),
    }
    beside = {
        "quantity": part.name,
        "unit": part.unit,
        **describe_jacobians(jacobians),
        "measured": part.measured,
        "measured_error": part.measured_error,
        "label_sums": part.label_sums,
        "label_errors": part.label_errors,
    }
    values, errors = (np.moveaxis(array, 0, -1) for array in (part.values, part.errors))
    if len(jacobians.channels) == 1:
        values, errors = values[..., 0], errors[..., 0]
    held = companions({STANDARD_ERROR: None if np.isnan(errors).all() else errors})
    described = {name: as_json(value) for name, value in beside.items()}
    return write_described(path, values, jacobians.domain.affine, about, held, beside=described)

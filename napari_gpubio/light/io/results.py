"""Result files: everything needed to display a result again, and to resume a stopped run."""

import dataclasses
import reprlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.result import EnergyBalance, LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import AnyDetector, DetectedPhotons, Detector, FaceDetector
from napari_gpubio.optics.io.archive import (
    VOXELS,
    Array,
    about_run,
    as_json,
    entry,
    estimate_from,
    fields_of,
    header_of,
    made_from,
    opened_archive,
    within,
    write_archive_steps,
)
from napari_gpubio.optics.model import VOXEL_LIMITS, Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import KINDS, AnySource, Source, all_sources, one_or_all

_DOMAIN_ARRAYS = ("labels", *VOXEL_LIMITS, "mus_tensor_per_mm")
_IN_DOMAIN = ("media", "outside_n", "scattering_model")
_VOLUMES = ("gates", "gates_error", "fluence_error")
_VOLUMES_ON_REQUEST = ("half_fluences", "escaped_weight", "guide")
_PHOTON_ARRAYS = (
    "photon", "detector", "weight", "path_mm", "scatterings", "position_mm", "direction", "time_ns",
)  # fmt: skip


def describe(result: LightResult) -> dict[str, Any]:
    """Return what was simulated, how, and the numbers that came out, as JSON holds it.

    The parameters of the run (device, seconds, versions) are there too. Arrays are left out, but for the affine;
    numbers that are not known (NaN) are None.
    """
    run = {name: value for name, value in result.parameters.items() if name not in (*_IN_DOMAIN, RECORD)}
    sources = [source.described() for source in result.sources]
    described = {
        "software": f"napari-gpubio {__version__}",
        **run,
        "domain": {"shape": result.domain.shape, **domain_fields(result.domain)},
        "source": sources if len(sources) > 1 else sources[0],
        "settings": fields_of(result.settings),
        "detectors": [fields_of(detector) for detector in result.detectors],
        "launched": result.launched,
        "complete": result.complete,
        "energy": {name: part._asdict() for name, part in fields_of(result.energy).items()},
        "absorbed": {label: part._asdict() for label, part in result.absorbed.items()},
        "detected": {name: getattr(result.detected, name) for name in ("labels", "launched", "dropped")},
    }
    return {name: as_json(value) for name, value in described.items()}


def save_result_steps(
    path: str | Path, result: LightResult, *, resumable: bool = True, compress: bool | None = None
) -> Generator[Step, None, None]:
    """Save a result in one file, block by block; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    result
        What a simulation gave, complete or not.
    resumable
        Save the tallies too, from which the run can be resumed and results be merged; they are two thirds of the file
        or more.
    compress
        True makes the file three times smaller or more, and the saving four to ten times slower: half a second or a
        minute and a half, for a head or for a large grid with ten time gates. By default that is done with arrays
        most of whose numbers are equal, as where little light has come, which takes no longer; False: never.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    header = {**describe(result), "parameters": as_json(result.parameters)}
    return write_archive_steps(path, VOXELS, header, _arrays(result, resumable=resumable), compress=compress)


save_result = driven(save_result_steps)


def load_result(path: str | Path) -> LightResult:
    """Load a result that `save_result` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no result, of another version, or too large for the memory.
    """
    with opened_archive(path, VOXELS) as (described, arrays):
        return _result(described, arrays)


def load_unfinished(path: str | Path) -> LightResult | None:
    """Load a result that `save_result` saved of a run that did not come to its end, to go on with it.

    None if the file is anything else, or has no state; of a complete one no more than its text is read. InvalidInput
    as of `load_result`.
    """
    if header_of(path, VOXELS).get("complete") is not False:
        return None
    found = load_result(path)
    return None if found.state is None else found


def _arrays(result: LightResult, *, resumable: bool) -> Iterator[tuple[str, Array]]:
    """Every array of a result, with its name in the file."""
    for owner, prefix, names in (
        (result.domain, "domain", _DOMAIN_ARRAYS),
        *((source, _source_folder(result, number), ("pattern",)) for number, source in enumerate(result.sources)),
        (result, "result", _VOLUMES + _VOLUMES_ON_REQUEST),
        (result.detected, "detected", _PHOTON_ARRAYS),
    ):
        for name in names:
            if getattr(owner, name, None) is not None:
                yield f"{prefix}/{name}", getattr(owner, name)
    if resumable and result.state is not None:
        for name, array in result.state.to_arrays().items():
            yield f"state/{name}", array


def _source_folder(result: LightResult, number: int) -> str:
    """Where arrays of a source are in the file."""
    return f"source/{number}" if len(result.sources) > 1 else "source"


def _sources(described: Any, arrays: Mapping[str, Array]) -> AnySource:
    """A source, or several, from plain data and their patterns."""
    if isinstance(described, dict):
        return _made_source(described, arrays.get("source/pattern"))
    made = [_made_source(one, arrays.get(f"source/{number}/pattern")) for number, one in enumerate(described)]
    return one_or_all(all_sources(made))


def _made_source(described: Any, pattern: Array | None) -> Source:
    """A source of a kind; files of earlier versions have the numbers of all kinds, most of which had no effect."""
    kind = described.get("kind") if isinstance(described, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"its source is {reprlib.repr(kind)}, which is not known here; update napari-gpubio")
    own = {field.name for field in dataclasses.fields(KINDS[kind])}
    of_others = {field.name for one in KINDS.values() for field in dataclasses.fields(one)} - own
    values = {name: value for name, value in described.items() if name not in {"kind", *of_others}}
    return made_from(KINDS[kind], values | {"pattern": pattern} if pattern is not None and "pattern" in own else values)


def _result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LightResult:
    energy, absorbed, detected = (entry(described, name, dict) for name in ("energy", "absorbed", "detected"))
    if odd := [label for label in absorbed if not (label.isdecimal() and len(label) <= 5)]:
        raise InvalidInput(f"its 'absorbed' has {odd[0]!r}, which is no label; it was changed: save the result again")
    photons = {name: entry(arrays, f"detected/{name}", np.ndarray) for name in _PHOTON_ARRAYS}
    state = within(arrays, "state")
    domain = domain_from(entry(described, "domain", dict), within(arrays, "domain"))
    settings = made_from(LightSettings, described.get("settings"))
    return LightResult(
        domain=domain,
        source=_sources(entry(described, "source", (dict, list)), arrays),
        settings=settings,
        detectors=tuple(map(_detector, entry(described, "detectors", list))),
        **_volumes(within(arrays, "result"), domain.shape, settings.gate_count),
        energy=made_from(EnergyBalance, {name: estimate_from(energy, name) for name in energy}),
        absorbed={int(label): estimate_from(absorbed, label) for label in absorbed},
        detected=made_from(DetectedPhotons, {**detected, **photons, "labels": tuple(entry(detected, "labels", list))}),
        **about_run(described),
        state=VoxelTally.from_arrays(state) if state else None,
    )


def _volumes(arrays: Mapping[str, Array], shape: tuple[int, ...], gates: int) -> dict[str, Any]:
    """The volumes of a result, of the shapes that `LightResult` states."""
    shapes = dict.fromkeys(_VOLUMES + _VOLUMES_ON_REQUEST, shape)
    shapes |= {"gates": (*shape, gates), "gates_error": (*shape, gates), "half_fluences": (2, *shape, gates)}
    found: dict[str, Any] = {name: entry(arrays, name, np.ndarray) for name in _VOLUMES}
    found |= {name: arrays.get(name) for name in _VOLUMES_ON_REQUEST}
    for name, array in found.items():
        if array is not None and (array.shape != shapes[name] or array.dtype.kind != "f"):
            raise InvalidInput(
                f"its {name!r} has shape {array.shape} of {array.dtype}, and {shapes[name]} of numbers is needed; it "
                "was changed: save the result again"
            )
    return found


def media_from(rows: Any) -> tuple[Medium, ...]:
    """Return optical properties from plain data as `fields_of` gave them; `InvalidInput` if they are no such rows."""
    if not isinstance(rows, list):
        raise InvalidInput(f"the optical properties are {reprlib.repr(rows)}; give a list with a row for each label")
    return tuple(made_from(Medium, row) for row in rows)


def domain_arrays() -> tuple[str, ...]:
    """Names of the arrays of a domain, which files have apart from its description."""
    return _DOMAIN_ARRAYS


def domain_fields(domain: Domain) -> dict[str, Any]:
    """Return what a file holds of a domain beside the arrays; undone by `domain_from`."""
    fields = {name: value for name, value in fields_of(domain).items() if name not in _DOMAIN_ARRAYS}
    fields["media"] = [fields_of(medium) for medium in domain.media]
    if not domain.is_anisotropic:
        del fields["scattering_model"]
    table = fields.pop("phase_function")
    return fields if table is None else {**fields, "phase_function": fields_of(table)}


def domain_from(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> Domain:
    """Return a domain from its description and its arrays; `InvalidInput` if they are damaged."""
    values = {name: value for name, value in described.items() if name != "shape"}
    values["media"] = media_from(entry(values, "media", list))
    values["path"] = None if values.get("path") is None else Path(entry(values, "path", str))
    values["notes"] = tuple(entry(values, "notes", list))
    if "phase_function" in values:
        values["phase_function"] = made_from(TabulatedPhaseFunction, values["phase_function"])
    return made_from(Domain, {**values, **{name: arrays.get(name) for name in _DOMAIN_ARRAYS}})


def _detector(described: Any) -> AnyDetector:
    """A detector with a place, or a whole face."""
    is_face = isinstance(described, dict) and "face" in described
    return made_from(FaceDetector, described) if is_face else made_from(Detector, described)

"""Result files: everything needed to display a result again and, for voxels, to resume a stopped run."""

import dataclasses
import math
import reprlib
from collections.abc import Generator, Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive, driven
from napari_gpubio.light.detectors import AnyDetector, DetectedPhotons, Detector, FaceDetector
from napari_gpubio.light.io.archive import (
    LAYERS,
    VOXELS,
    Array,
    entry,
    header_of,
    opened_archive,
    within,
    write_archive_steps,
)
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.layers.model import Layer, LayeredMedium
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.model import VOXEL_LIMITS, Domain, Medium
from napari_gpubio.light.phase import TabulatedPhaseFunction
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.sources import KINDS, AnySource, Source, all_sources, one_or_all

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Made = TypeVar("Made", bound="DataclassInstance")
_DOMAIN_ARRAYS = ("labels", *VOXEL_LIMITS, "mus_tensor_per_mm")
_IN_DOMAIN = ("media", "outside_n", "scattering_model")
_VOLUMES = ("gates", "gates_error", "fluence_error")
_VOLUMES_ON_REQUEST = ("half_fluences", "escaped_weight", "guide")
_PHOTON_ARRAYS = (
    "photon", "detector", "weight", "path_mm", "scatterings", "position_mm", "direction", "time_ns",
)  # fmt: skip
_FRACTIONS = ("diffuse_reflectance", "transmittance", "absorbed", "roulette")
_RESOLVED = ("A_l", "Rd_ra", "Rd_r", "Rd_a", "Tt_ra", "Tt_r", "Tt_a")
_ON_REQUEST = ("A_rz", "A_z")


def describe(result: LightResult) -> dict[str, Any]:
    """Return what was simulated, how, and the numbers that came out, as JSON holds it.

    The parameters of the run (device, seconds, versions) are there too. Arrays are left out, but for the affine;
    numbers that are not known (NaN) are None.
    """
    run = {name: value for name, value in result.parameters.items() if name not in _IN_DOMAIN}
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


def as_json(value: Any) -> Any:
    """Return a value made of what JSON knows: NaN and infinity become None, other things their text."""
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def fields_of(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance as they are; dataclasses.asdict would copy arrays."""
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def _made(kind: type[Made], values: Any) -> Made:
    """Return a dataclass instance from its fields; what is not described has its default.

    Raises
    ------
    InvalidInput
        If a field is missing, something is described that this version does not know, or a value is out of range.
    """
    if not isinstance(values, dict):
        raise InvalidInput(f"its {kind.__name__} is {reprlib.repr(values)}; it was changed: save the result again")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    if unknown := sorted(set(values) - set(fields)):
        raise InvalidInput(f"{unknown[0]!r} of its {kind.__name__} is not known here; update napari-gpubio")
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise InvalidInput(f"its {kind.__name__} lacks {name!r}; it was changed: save the result again")
    try:
        return kind(**values)
    except (TypeError, ValueError, OverflowError) as error:  # what NumPy makes of text or lists in place of numbers
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"its {kind.__name__} is damaged ({error}); save the result again") from error


def _estimate(described: Mapping[str, Any], name: str) -> Estimate:
    """Return an estimate that was described; None is NaN."""
    part = entry(described, name, dict)
    return Estimate(*(math.nan if part.get(key) is None else float(entry(part, key, Real)) for key in Estimate._fields))


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
    return _made(KINDS[kind], values | {"pattern": pattern} if pattern is not None and "pattern" in own else values)


def _result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LightResult:
    energy, absorbed, detected = (entry(described, name, dict) for name in ("energy", "absorbed", "detected"))
    if odd := [label for label in absorbed if not (label.isdecimal() and len(label) <= 5)]:
        raise InvalidInput(f"its 'absorbed' has {odd[0]!r}, which is no label; it was changed: save the result again")
    photons = {name: entry(arrays, f"detected/{name}", np.ndarray) for name in _PHOTON_ARRAYS}
    state = within(arrays, "state")
    domain = domain_from(entry(described, "domain", dict), within(arrays, "domain"))
    settings = _made(LightSettings, described.get("settings"))
    return LightResult(
        domain=domain,
        source=_sources(entry(described, "source", (dict, list)), arrays),
        settings=settings,
        detectors=tuple(map(_detector, entry(described, "detectors", list))),
        **_volumes(within(arrays, "result"), domain.shape, settings.gate_count),
        energy=_made(EnergyBalance, {name: _estimate(energy, name) for name in energy}),
        absorbed={int(label): _estimate(absorbed, label) for label in absorbed},
        detected=_made(DetectedPhotons, {**detected, **photons, "labels": tuple(entry(detected, "labels", list))}),
        **_about_run(described),
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
    return tuple(_made(Medium, row) for row in rows)


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
        values["phase_function"] = _made(TabulatedPhaseFunction, values["phase_function"])
    return _made(Domain, {**values, **{name: arrays.get(name) for name in _DOMAIN_ARRAYS}})


def _detector(described: Any) -> AnyDetector:
    """A detector with a place, or a whole face."""
    is_face = isinstance(described, dict) and "face" in described
    return _made(FaceDetector, described) if is_face else _made(Detector, described)


def _about_run(described: Mapping[str, Any]) -> dict[str, Any]:
    """What the results of both engines say of their run."""
    kinds = {"launched": int, "complete": bool, "parameters": dict}
    return {name: entry(described, name, kind) for name, kind in kinds.items()}


def save_layered_result(
    path: str | Path, result: LayeredResult, *, resumable: bool = True, compress: bool | None = None
) -> None:
    """Save a layered result in one file; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    result
        What `simulate` gave, complete or not, or one of these convolved, or read from an output file of MCML.
    resumable
        Save the tallies of every batch too, from which the run can be resumed and the result be convolved with the
        right errors; they are most of the file.
    compress
        Make the file smaller, and the saving slower.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    arrays = _layered_arrays(result, resumable=resumable)
    drive(write_archive_steps(path, LAYERS, _describe_layered(result), arrays, compress=compress))


def load_layered_result(path: str | Path) -> LayeredResult:
    """Load a result that `save_layered_result` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such result, of another version, or too large for the memory.
    """
    with opened_archive(path, LAYERS) as (described, arrays):
        return _layered_result(described, arrays)


def _describe_layered(result: LayeredResult) -> dict[str, Any]:
    """What was simulated, how, and the fractions that came out, as JSON holds it.

    The thickness of an endless layer is None.
    """
    layers = [{**fields_of(one), **({"thickness_mm": None} if one.is_endless else {})} for one in result.medium.layers]
    medium = {**fields_of(result.medium), "layers": layers}
    described = {
        "software": f"napari-gpubio {__version__}",
        "medium": medium,
        "settings": fields_of(result.settings),
        "specular": result.specular,
        **{name: getattr(result, name)._asdict() for name in _FRACTIONS},
        "launched": result.launched,
        "complete": result.complete,
        "parameters": result.parameters,
    }
    return {name: as_json(value) for name, value in described.items()}


def _layered_arrays(result: LayeredResult, *, resumable: bool) -> Iterator[tuple[str, Array]]:
    """Every array of a result, with its name in the file."""
    for name in _RESOLVED + _ON_REQUEST:
        estimates = getattr(result, name)
        if estimates is not None:
            yield f"result/{name}", estimates.value
            yield f"result/{name}_error", estimates.error
    if resumable and result.state is not None:
        for name, array in result.state.to_arrays().items():
            yield f"state/{name}", array


def _layered_result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LayeredResult:
    medium, settings = _medium(entry(described, "medium", dict)), _layered_settings(described.get("settings"))
    estimates: dict[str, Any] = {name: _estimate(described, name) for name in _FRACTIONS}
    estimates |= dict.fromkeys(_ON_REQUEST)
    for name in _RESOLVED + (_ON_REQUEST if settings.has_map else ()):
        estimates[name] = Estimates(*(entry(arrays, f"result/{name}{part}", np.ndarray) for part in ("", "_error")))
    return LayeredResult(
        medium=medium,
        settings=settings,
        specular=float(entry(described, "specular", Real)),
        **estimates,
        **_about_run(described),
        state=_state(within(arrays, "state"), LayeredProblem(medium, settings)),
    )


def _layered_settings(described: Any) -> LayeredSettings:
    """Settings; files of earlier versions say apart whether there is a map, and what lies beyond its edge."""
    if isinstance(described, dict) and isinstance(described.get("absorption"), bool):
        edge = described.get("edge", "collect") if described["absorption"] else "off"
        described = {**{name: value for name, value in described.items() if name != "edge"}, "absorption": edge}
    return _made(LayeredSettings, described)


def _medium(described: Mapping[str, Any]) -> LayeredMedium:
    return _made(LayeredMedium, {**described, "layers": tuple(map(_layer, entry(described, "layers", list)))})


def _layer(row: Any) -> Layer:
    """A layer; JSON has no infinity, so the thickness of an endless one is None."""
    is_endless = isinstance(row, dict) and row.get("thickness_mm", 0.0) is None
    return _made(Layer, {**row, "thickness_mm": math.inf} if is_endless else row)


def _state(arrays: Mapping[str, Array], problem: LayeredProblem) -> LayerTally | None:
    """The tallies; without them there is no state."""
    if not arrays:
        return None
    state = LayerTally.from_arrays(arrays)
    if state.key != problem.key:  # a finite beam would be made of them unseen
        raise InvalidInput("its tallies belong to other layers or settings than its header names; save it again")
    return state

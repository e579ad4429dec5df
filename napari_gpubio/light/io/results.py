"""Result files: everything needed to display a result again and, for voxels, to resume a stopped run."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import DetectedPhotons, Detector
from napari_gpubio.light.io.archive import LAYERS, VOXELS, Array, opened_archive, within, write_archive
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.layers.model import Layer, LayeredMedium
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Made = TypeVar("Made", bound="DataclassInstance")
_DOMAIN_ARRAYS = ("labels", "mua_per_mm", "mus_per_mm")
_IN_DOMAIN = ("media", "outside_n")


def describe(result: LightResult) -> dict[str, Any]:
    """Return what was simulated, how, and the numbers that came out, as JSON holds it.

    What the run said of itself (device, seconds, versions) is there too. Arrays are left out, but for the affine;
    numbers that are not known (NaN) are None.
    """
    run = {name: value for name, value in result.parameters.items() if name not in _IN_DOMAIN}
    domain = {name: value for name, value in fields_of(result.domain).items() if name not in _DOMAIN_ARRAYS}
    described = {
        "software": f"napari-gpubio {__version__}",
        **run,
        "domain": {"shape": result.domain.shape, **domain, "media": [fields_of(m) for m in result.domain.media]},
        "source": {name: value for name, value in fields_of(result.source).items() if name != "pattern"},
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


def domain_from(described: Mapping[str, Any], arrays: Mapping[str, Any]) -> Domain:
    """Return the domain that was described; ``arrays`` has its labels, and its coefficients if it is continuous."""
    values = {name: value for name, value in described["domain"].items() if name != "shape"}
    values["media"] = [made(Medium, row) for row in values["media"]]
    values["path"] = None if values["path"] is None else Path(values["path"])
    values["notes"] = tuple(values["notes"])
    return made(Domain, {**values, **{name: arrays.get(name) for name in _DOMAIN_ARRAYS}})


def source_from(described: Mapping[str, Any], pattern: Any) -> Source:
    """Return the source that was described."""
    return made(Source, {**described["source"], "pattern": pattern})


def settings_from(described: Mapping[str, Any]) -> LightSettings:
    """Return the settings that were described."""
    return made(LightSettings, described["settings"])


def detectors_from(described: Mapping[str, Any]) -> tuple[Detector, ...]:
    """Return the detectors that were described."""
    return tuple(made(Detector, values) for values in described["detectors"])


def energy_from(described: Mapping[str, Any]) -> EnergyBalance:
    """Return the energy balance that was described."""
    return made(EnergyBalance, {name: estimate_from(part) for name, part in described["energy"].items()})


def absorbed_from(described: Mapping[str, Any]) -> dict[int, Estimate]:
    """Return the absorbed fraction of each label."""
    return {int(label): estimate_from(part) for label, part in described["absorbed"].items()}


def made(kind: type[Made], values: Mapping[str, Any]) -> Made:
    """Return a dataclass instance; what is not described has its default.

    Raises
    ------
    InvalidInput
        If something is described that this version does not know, or a value is out of range.
    """
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    if unknown := sorted(set(values) - known):
        raise InvalidInput(f"{unknown[0]!r} of its {kind.__name__} is not known here; update napari-gpubio")
    return kind(**values)


def fields_of(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance as they are; dataclasses.asdict would copy arrays."""
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def estimate_from(part: Mapping[str, float | None]) -> Estimate:
    """Return an estimate that was described; None is NaN."""
    value, error = (math.nan if part[name] is None else float(part[name] or 0.0) for name in ("value", "error"))
    return Estimate(value, error)


_VOLUMES = ("gates", "gates_error", "fluence_error")
_VOLUMES_ON_REQUEST = ("half_fluences", "escaped_weight")
_PHOTON_ARRAYS = (
    "photon", "detector", "weight", "path_mm", "scatterings", "position_mm", "direction", "time_ns",
)  # fmt: skip


def save_result(path: str | Path, result: LightResult, *, resumable: bool = True, compress: bool = False) -> None:
    """Save a result in one file; an older file is replaced only when the new one is complete.

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
        Make the file three times smaller or more, and the saving four to ten times slower: half a second or a minute
        and a half, for a head or for a large grid with ten time gates.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    header = {**describe(result), "parameters": as_json(result.parameters)}
    write_archive(path, VOXELS, header, _arrays(result, resumable=resumable), compress=compress)


def load_result(path: str | Path) -> LightResult:
    """Load a result that `save_result` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no result, of another version, or too large for the memory.
    """
    with opened_archive(path, VOXELS) as (described, arrays):
        return _result(described, arrays)


def _arrays(result: LightResult, *, resumable: bool) -> Iterator[tuple[str, Array]]:
    """Every array of a result, with its name in the file."""
    for owner, prefix, names in (
        (result.domain, "domain", _DOMAIN_ARRAYS),
        (result.source, "source", ("pattern",)),
        (result, "result", _VOLUMES + _VOLUMES_ON_REQUEST),
        (result.detected, "detected", _PHOTON_ARRAYS),
    ):
        for name in names:
            if getattr(owner, name) is not None:
                yield f"{prefix}/{name}", getattr(owner, name)
    if resumable and result.state is not None:
        for name, array in result.state.to_arrays().items():
            yield f"state/{name}", array


def _result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LightResult:
    detected = {name: arrays[f"detected/{name}"] for name in _PHOTON_ARRAYS}
    labels, state = tuple(described["detected"]["labels"]), within(arrays, "state")
    on_request: dict[str, Any] = {name: arrays.get(f"result/{name}") for name in _VOLUMES_ON_REQUEST}
    return LightResult(
        domain=domain_from(described, within(arrays, "domain")),
        source=source_from(described, arrays.get("source/pattern")),
        settings=settings_from(described),
        detectors=detectors_from(described),
        **{name: arrays[f"result/{name}"] for name in _VOLUMES},
        **on_request,
        energy=energy_from(described),
        absorbed=absorbed_from(described),
        detected=made(DetectedPhotons, {**described["detected"], **detected, "labels": labels}),
        launched=described["launched"],
        complete=described["complete"],
        parameters=described["parameters"],
        state=VoxelTally.from_arrays(state) if state else None,
    )


_FRACTIONS = ("diffuse_reflectance", "transmittance", "absorbed", "roulette")
_RESOLVED = ("A_l", "Rd_ra", "Rd_r", "Rd_a", "Tt_ra", "Tt_r", "Tt_a")
_ON_REQUEST = ("A_rz", "A_z")


def save_layered_result(
    path: str | Path, result: LayeredResult, *, resumable: bool = True, compress: bool = False
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
    write_archive(
        path, LAYERS, _describe_layered(result), _layered_arrays(result, resumable=resumable), compress=compress
    )


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

    JSON has no infinity: the thickness of an infinite layer is None.
    """
    medium = {**fields_of(result.medium), "layers": [fields_of(layer) for layer in result.medium.layers]}
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
    medium, settings = _medium(described["medium"]), made(LayeredSettings, described["settings"])
    estimates: dict[str, Any] = {name: estimate_from(described[name]) for name in _FRACTIONS}
    estimates |= dict.fromkeys(_ON_REQUEST)
    for name in _RESOLVED + (_ON_REQUEST if settings.absorption else ()):
        estimates[name] = Estimates(arrays[f"result/{name}"], arrays[f"result/{name}_error"])
    return LayeredResult(
        medium=medium,
        settings=settings,
        specular=described["specular"],
        **estimates,
        launched=described["launched"],
        complete=described["complete"],
        parameters=described["parameters"],
        state=_state(within(arrays, "state"), LayeredProblem(medium, settings)),
    )


def _medium(described: Mapping[str, Any]) -> LayeredMedium:
    layers = tuple(made(Layer, {**row, "thickness_mm": _thickness(row)}) for row in described["layers"])
    return made(LayeredMedium, {**described, "layers": layers})


def _thickness(row: Mapping[str, Any]) -> float:
    """A layer's thickness, mm; infinite where it is None."""
    thickness: float | None = row["thickness_mm"]
    return math.inf if thickness is None else thickness


def _state(arrays: Mapping[str, Array], problem: LayeredProblem) -> LayerTally | None:
    """The tallies; without them there is no state."""
    if not arrays:
        return None
    state = LayerTally.from_arrays(arrays)
    if state.key != problem.key:  # a finite beam would be made of them unseen
        raise InvalidInput("its tallies are of other layers or settings than its text says; save it again")
    return state

"""Everything of a result but its arrays, as JSON holds it, and back: for result files, sidecars and layers."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made", bound="DataclassInstance")
_DOMAIN_ARRAYS = ("labels", "mua_per_mm", "mus_per_mm")
_TOLD_BY_DOMAIN = ("media", "outside_n")


def describe(result: LightResult) -> dict[str, Any]:
    """Return what was simulated, how, and the numbers that came out, as JSON holds it.

    What the run said of itself (device, seconds, versions) is there too. Arrays are left out, but for the affine;
    numbers that are not known (NaN) are None.
    """
    run = {name: value for name, value in result.parameters.items() if name not in _TOLD_BY_DOMAIN}
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


def settings_from(described: Mapping[str, Any]) -> Settings:
    """Return the settings that were described."""
    return made(Settings, described["settings"])


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

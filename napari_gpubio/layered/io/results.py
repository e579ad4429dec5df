"""Result files of light in layers."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import LayerTally
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.estimates import Estimates
from napari_gpubio.optics.io.archive import (
    LAYERS,
    Array,
    about_run,
    as_json,
    entry,
    estimate_from,
    fields_of,
    made_from,
    opened_archive,
    within,
    write_archive_steps,
)
from napari_gpubio.optics.model import Layer

_FRACTIONS = ("diffuse_reflectance", "transmittance", "absorbed", "roulette")
_RESOLVED = ("A_l", "Rd_ra", "Rd_r", "Rd_a", "Tt_ra", "Tt_r", "Tt_a")
_ON_REQUEST = ("A_rz", "A_z")


def save_result(
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


def load_result(path: str | Path) -> LayeredResult:
    """Load a result that `save_result` saved.

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
    estimates: dict[str, Any] = {name: estimate_from(described, name) for name in _FRACTIONS}
    estimates |= dict.fromkeys(_ON_REQUEST)
    for name in _RESOLVED + (_ON_REQUEST if settings.has_map else ()):
        estimates[name] = Estimates(*(entry(arrays, f"result/{name}{part}", np.ndarray) for part in ("", "_error")))
    return LayeredResult(
        medium=medium,
        settings=settings,
        specular=float(entry(described, "specular", Real)),
        **estimates,
        **about_run(described),
        state=_state(within(arrays, "state"), LayeredProblem(medium, settings)),
    )


def _layered_settings(described: Any) -> LayeredSettings:
    """Settings; files of earlier versions say apart whether there is a map, and what lies beyond its edge."""
    if isinstance(described, dict) and isinstance(described.get("absorption"), bool):
        edge = described.get("edge", "collect") if described["absorption"] else "off"
        described = {**{name: value for name, value in described.items() if name != "edge"}, "absorption": edge}
    return made_from(LayeredSettings, described)


def _medium(described: Mapping[str, Any]) -> LayeredMedium:
    return made_from(LayeredMedium, {**described, "layers": tuple(map(_layer, entry(described, "layers", list)))})


def _layer(row: Any) -> Layer:
    """A layer; JSON has no infinity, so the thickness of an endless one is None."""
    is_endless = isinstance(row, dict) and row.get("thickness_mm", 0.0) is None
    return made_from(Layer, {**row, "thickness_mm": math.inf} if is_endless else row)


def _state(arrays: Mapping[str, Array], problem: LayeredProblem) -> LayerTally | None:
    """The tallies; without them there is no state."""
    if not arrays:
        return None
    state = LayerTally.from_arrays(arrays)
    if state.key != problem.key:  # a finite beam would be made of them unseen
        raise InvalidInput("its tallies belong to other layers or settings than its header names; save it again")
    return state

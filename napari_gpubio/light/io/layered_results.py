"""A whole layered result in one file, as `napari_gpubio.light.io.results` has those of voxels."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.archive import LAYERS, Array, opened_archive, within, write_archive
from napari_gpubio.light.io.description import as_json, estimate_from, fields_of, made
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.layers.model import Layer, LayeredMedium
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings

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
        What `simulate_layers` gave, complete or not, or one of these convolved, or read from an output file of MCML.
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
    write_archive(path, LAYERS, _described(result), _arrays(result, resumable=resumable), compress=compress)


def load_layered_result(path: str | Path) -> LayeredResult:
    """Load a result that `save_layered_result` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such result, of another version, or too large for the memory.
    """
    with opened_archive(path, LAYERS) as (described, arrays):
        return _result(described, arrays)


def _described(result: LayeredResult) -> dict[str, Any]:
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


def _arrays(result: LayeredResult, *, resumable: bool) -> Iterator[tuple[str, Array]]:
    """Every array of a result, with its name in the file."""
    for name in _RESOLVED + _ON_REQUEST:
        estimates = getattr(result, name)
        if estimates is not None:
            yield f"result/{name}", estimates.value
            yield f"result/{name}_error", estimates.error
    if resumable and result.state is not None:
        for name, array in result.state.to_arrays().items():
            yield f"state/{name}", array


def _result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LayeredResult:
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

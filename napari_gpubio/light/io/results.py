"""A whole result in one file, from which everything can be shown again and a stopped run be resumed.

What was simulated, with what settings, on which device, and the numbers that came out are text in the file; see
`napari_gpubio.light.io.archive`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.io import description
from napari_gpubio.light.io.archive import VOXELS, Array, opened_archive, within, write_archive
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.result import LightResult

_VOLUMES = ("gates", "gates_error", "fluence_error")
_VOLUMES_ON_REQUEST = ("half_fluences", "escaped_weight")
_PHOTON_ARRAYS = (
    "photon", "detector", "weight", "path_mm", "scatterings", "position_mm", "direction", "time_ns",
)  # fmt: skip
_DOMAIN_ARRAYS = ("labels", "mua_per_mm", "mus_per_mm")


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
    told = {**description.describe(result), "parameters": description.as_json(result.parameters)}
    write_archive(path, VOXELS, told, _arrays(result, resumable=resumable), compress=compress)


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
        domain=description.domain_from(described, within(arrays, "domain")),
        source=description.source_from(described, arrays.get("source/pattern")),
        settings=description.settings_from(described),
        detectors=description.detectors_from(described),
        **{name: arrays[f"result/{name}"] for name in _VOLUMES},
        **on_request,
        energy=description.energy_from(described),
        absorbed=description.absorbed_from(described),
        detected=description.made(DetectedPhotons, {**described["detected"], **detected, "labels": labels}),
        launched=described["launched"],
        complete=described["complete"],
        parameters=described["parameters"],
        state=VoxelTally.from_arrays(state) if state else None,
    )

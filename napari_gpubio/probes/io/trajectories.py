"""Files of trajectories (``.npz``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.light.io.results import domain_arrays, domain_fields, domain_from
from napari_gpubio.optics.io.archive import (
    TRAJECTORIES,
    Array,
    as_json,
    entry,
    opened_archive,
    within,
    write_archive_steps,
)
from napari_gpubio.probes.trajectory_model import KINDS, Trajectories

_ARRAYS = {
    "photon": "u", "starts": "i", "position_mm": "f", "weight": "f", "time_ns": "f", "kind": "u", "vertex_counts": "i",
}  # fmt: skip


def save_trajectories(path: str | Path, trajectories: Trajectories, *, compress: bool = False) -> None:
    """Save trajectories in one file; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    trajectories
        What `napari_gpubio.probes.trajectories` gave.
    compress
        Make the file smaller, and the saving slower.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    header = {
        "software": f"napari-gpubio {__version__}",
        "domain": domain_fields(trajectories.domain),
        "kinds": KINDS,
        "parameters": trajectories.parameters,
    }
    arrays = [(f"domain/{name}", getattr(trajectories.domain, name)) for name in domain_arrays()]
    arrays += [(f"vertices/{name}", getattr(trajectories, name)) for name in _ARRAYS]
    present = [(name, array) for name, array in arrays if array is not None]
    plain = {name: as_json(value) for name, value in header.items()}
    drive(write_archive_steps(path, TRAJECTORIES, plain, present, compress=compress))


def load_trajectories(path: str | Path) -> Trajectories:
    """Load what `save_trajectories` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such file, of another version, or too large for the memory.
    """
    with opened_archive(path, TRAJECTORIES) as (described, arrays):
        domain = domain_from(entry(described, "domain", dict), within(arrays, "domain"))
        found = _checked(within(arrays, "vertices"))
        return Trajectories(domain=domain, **found, parameters=entry(described, "parameters", dict))


def _checked(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The arrays, if their types and lengths fit each other."""
    found = {name: entry(arrays, name, np.ndarray) for name in _ARRAYS}
    photons, vertices = len(found["photon"].ravel()), len(found["kind"].ravel())
    shapes = dict.fromkeys(("weight", "time_ns", "kind"), (vertices,)) | {"position_mm": (vertices, 3)}
    shapes |= {"photon": (photons,), "vertex_counts": (photons,), "starts": (photons + 1,)}
    for name, array in found.items():
        if array.shape != shapes[name] or array.dtype.kind != _ARRAYS[name]:
            raise InvalidInput(f"its {name!r} has shape {array.shape} of {array.dtype}; it was changed: save it again")
    starts = found["starts"]
    fits = starts[0] == 0 and starts[-1] == vertices and (np.diff(starts) >= 0).all()
    if not fits or (found["kind"] >= len(KINDS)).any():
        raise InvalidInput("its vertices do not fit its photons; it was changed: save it again")
    return found

"""Fibers of DSI Studio (``.tt.gz``): a MATLAB file of version 4 in gzip, whose ``track`` holds steps of 1/32 voxel.

A fiber is the number of its coordinates (3 for each point, uint32), the first point (3 int32), and for each other point
its distance from the one before (3 int8), all in 1/32 voxel. More than a matrix can hold goes on in ``track1``,
``track2``, ... ``trans_to_mni`` takes voxels to world mm (RAS); without it the volume lies as `dsi_studio` tells.
``cluster``, a number for each fiber, tells which of the bundles it belongs to that were saved together.
"""

from array import array
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.io.dsi_studio import affine_of, checked_dimension, matrices, unpacked
from napari_gpubio.diffusion.io.grids import Grid
from napari_gpubio.diffusion.model import GROUP
from napari_gpubio.tractograms.io.parsed import Parsed, Provenance
from napari_gpubio.tractograms.io.validation import DAMAGED, offsets_of
from napari_gpubio.tractograms.places import UNKNOWN_LENGTHS, UNKNOWN_PLACE

Array = npt.NDArray[Any]
DAMAGE = DAMAGED
_UNIT = 32  # steps in a voxel
_MAX_GROUPS = 1000  # more clusters stay a column
_HEAD = 16  # bytes of a fiber before its steps
_BLOCKS = [f"track{n or ''}" for n in range(1000)]


def read_tiny_track(path: Path) -> Parsed:
    """Read a ``.tt.gz`` file, as many whole fibers as it holds; InvalidInput if it is damaged before the first one."""
    content = matrices(unpacked(path), path, ("dimension", "voxel_size", "trans_to_mni", "color", "cluster", *_BLOCKS))
    if "track" not in content:
        raise InvalidInput(f"{path.name} has no track, so it has no fibers; save them again in DSI Studio")
    if "trans_to_mni" in content:
        content["trans"] = content.pop("trans_to_mni")
    try:
        shape = checked_dimension(content, path.name)
    except InvalidInput:
        note("the dimensions of its volume are missing or make no sense; one voxel was taken")
        shape = 1, 1, 1
    affine, unknown = _place(content, shape, path.name)
    parts = [_fibers(content[name]) for name in takewhile(content.__contains__, _BLOCKS)]
    counts = np.concatenate([part[0] for part in parts])
    voxels = np.concatenate([part[1] for part in parts])
    return Parsed(
        points=apply_affine(affine, voxels).astype(np.float32),
        offsets=offsets_of(counts),
        per_fiber=_columns(content, len(counts)),
        grid=Grid(affine, shape),
        provenance=Provenance(unknown),
    )


def _place(
    content: dict[str, Array], shape: tuple[int, int, int], file: str
) -> tuple[npt.NDArray[np.float64], dict[str, str]]:
    """Voxel to world, mm, and parameters that tell what of it is not known; notes tell what cannot be used."""
    if "trans" in content:
        try:
            return affine_of(content, shape, file), {}
        except InvalidInput as error:
            note(f"its matrix trans_to_mni cannot be used ({error}); the voxel sizes were taken")
            del content["trans"]
    try:
        return affine_of(content, shape, file), UNKNOWN_PLACE
    except InvalidInput:
        note("its voxel sizes are missing or make no sense; 1 mm was taken, so lengths are in voxels")
    return affine_of({"voxel_size": np.ones(3)}, shape, file), UNKNOWN_PLACE | UNKNOWN_LENGTHS


def _fibers(track: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Points of each fiber (F,), and all points (P, 3) in voxels."""
    data = np.ascontiguousarray(track.ravel(order="F").astype(np.uint8, copy=False))
    starts, counts, at, damage = array("q"), array("q"), 0, ""
    view = data.data
    while at < len(view) and not damage:
        count = int.from_bytes(view[at : at + 4], "little")
        end = at + _HEAD + count - 3
        if count < 3 or count % 3:
            damage = f"claims {count} coordinates"
        elif end > len(view):
            damage = f"claims {count} coordinates, which the file does not hold"
        else:
            starts.append(at)
            counts.append(count // 3)
            at = end
    if damage and not starts:
        raise InvalidInput(f"the first fiber {damage}; the file is damaged, save it again in DSI Studio")
    if damage:
        note(f"fiber {len(starts)} {damage}: the {len(starts)} whole fibers before it were read")
    heads, points = np.array(starts, np.int64), np.array(counts, np.int64)
    steps = np.zeros((int(points.sum()), 3), np.int64)
    firsts = offsets_of(points)[:-1]
    is_step = np.ones(at, bool)
    is_step[heads[:, None] + np.arange(_HEAD)] = False
    others = np.ones(len(steps), bool)
    others[firsts] = False
    steps[others] = data[:at][is_step].view(np.int8).reshape(-1, 3)
    begin = data[heads[:, None] + np.arange(4, _HEAD)].view("<i4")
    moved = np.cumsum(steps, axis=0)
    return points, (moved - np.repeat(moved[firsts] - begin, points, axis=0)) / _UNIT


def _columns(content: dict[str, Array], fibers: int) -> dict[str, Array]:
    """Color (a number of 24 bits) and group of each fiber, where a file has as many as fibers."""
    found = {name: content[name].flatten(order="F") for name in ("color", "cluster") if name in content}
    if odd := [name for name, values in found.items() if len(values) not in (fibers, 1)]:
        note(f"{' and '.join(odd)} have another number of values than the {fibers} fibers and were left out")
    columns: dict[str, Array] = {name: values for name, values in found.items() if len(values) == fibers}
    if "cluster" in columns and len(groups := np.unique(columns["cluster"])) <= _MAX_GROUPS:
        clusters = columns.pop("cluster")
        columns |= {f"{GROUP}cluster {n:g}": clusters == n for n in groups}
    return columns

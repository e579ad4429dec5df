"""Fibers and matrices of their ends as napari layers, and fibers of tracks layers; without importing napari."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import (
    IN_MM,
    KEY,
    STREAMLINES_KEY,
    LayerData,
)
from napari_gpubio.core.operations.layer_sources import register_finder
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.space import layer_matrix
from napari_gpubio.diffusion.napari_io import of_result
from napari_gpubio.tractograms.io.validation import box_grid, offsets_of
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]

register_finder(("tractogram",), "napari_gpubio.tractograms.gui.fibers:finder")


def layers_of_matrix(matrix: Any, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layer of a matrix of a connectome; see `Kind.shows`."""
    return [of_result(matrix_layer(matrix.values, name), output)]


def matrix_layer(values: npt.ArrayLike, name: str) -> LayerData:
    """Return the layer of a matrix, rows from the top.

    Its units are those of all layers of this package: napari shows no scale where layers have others.
    """
    units = {"units": IN_MM["units"][-2:]}
    return np.nan_to_num(values), {"name": name, "colormap": "viridis", "metadata": {KEY: {}}, **units}, "image"


def fibers_of_tracks(data: Any, attributes: Mapping[str, Any]) -> tuple[Tractogram, int]:
    """Return the fibers that a file gets of a Tracks layer, and how many the layer has.

    Parameters
    ----------
    data
        Shape (N, 4) or (N, 5): track, T, (z,) y, x in layer coordinates; two-dimensional tracks get z = 0.
    attributes
        The layer's attributes, as napari hands them to a writer. Those of a streamlines layer say which fibers are
        saved, and may hold the `Tractogram` itself, whose numbers and parameters then go with them.

    Returns
    -------
    fibers, total
        Fibers in world mm where the layer shows them.

    Raises
    ------
    InvalidInput
        If the data have another shape.
    """
    table = np.asarray(data)
    if table.ndim != 2 or table.shape[1] not in (4, 5):
        raise InvalidInput(f"tracks have shape (N, 4) or (N, 5); this layer has shape {table.shape}")
    metadata = attributes.get("metadata", {})
    settings = metadata.get(STREAMLINES_KEY)
    if settings is None:
        fibers = _stock_tracks(table, attributes)
        return fibers, len(fibers)
    offsets = np.asarray(settings["offsets"], np.int64)
    points = _world_points(table[: offsets[-1], 1:], attributes)
    ours = metadata.get(KEY, {})
    shown_fibers = ours.get("tractogram") if isinstance(ours, Mapping) else None
    if isinstance(shown_fibers, Tractogram) and np.array_equal(shown_fibers.offsets, offsets):
        fibers = dataclasses.replace(shown_fibers, points=points)
    else:
        fibers = _bare_fibers(points, offsets, settings, attributes.get("properties", {}))
    shown = np.asarray(settings["shown"], bool)
    is_whole = settings["saves"] != "shown" or shown.all()
    return fibers if is_whole else fibers.select(shown), len(fibers)


def _stock_tracks(table: Array, attributes: Mapping[str, Any]) -> Tractogram:
    """Turn the rows of an ordinary Tracks layer into fibers."""
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    counts = np.unique(table[:, 0], return_counts=True)[1]
    return _bare_fibers(_world_points(table[:, 1:], attributes), offsets_of(counts), {"per_point": ()}, {})


def _bare_fibers(
    points: Array, offsets: Array, settings: Mapping[str, Any], properties: Mapping[str, Any]
) -> Tractogram:
    """Fibers that belong to no volume, with the numbers of a streamlines layer."""
    affine, shape = box_grid(points)
    return Tractogram(
        points=points,
        offsets=offsets,
        affine=affine,
        shape=shape,
        per_fiber=settings.get("per_fiber", {}),
        per_point={name: np.asarray(properties[name])[: len(points)] for name in settings["per_point"]},
    )


def _world_points(coordinates: Array, attributes: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """World points (x, y, z), shape (P, 3), of layer coordinates T, (z,) y, x, shape (P, d), as napari shows them."""
    d = coordinates.shape[1]
    matrix = layer_matrix(attributes, d)
    if not np.array_equal(matrix, np.eye(d + 1)):
        coordinates = coordinates @ matrix[:d, :d].T + matrix[:d, d]
    points = np.zeros((len(coordinates), 3), np.float32)
    points[:, : d - 1] = coordinates[:, :0:-1]
    return points

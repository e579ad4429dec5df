"""Regions of maps: images of labels, shapes that napari saved, and files of this package."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.core.foreign import existing_table, json_of
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, one_volume, read_array
from napari_gpubio.speckle.io.tiff import READ_TIFF_SUFFIXES, read_tiff

Array = npt.NDArray[Any]
_MAX_LABELS = 4096


@dataclass(frozen=True, eq=False, kw_only=True)
class Regions(ShortRepr):
    """Regions of maps, whose shape need not be known yet.

    Parameters
    ----------
    name
        As people know them, such as that of their file.
    pixels
        Pixels of each by its name, booleans (Y, X).
    outlines
        Kind and vertices (y, x) of those that are shapes, in pixels.
    """

    name: str = "regions"
    pixels: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    outlines: Mapping[str, tuple[str, Array]] = field(default_factory=dict)

    def on(self, shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of each in maps of a shape (Y, X).

        Raises
        ------
        InvalidInput
            If a region has another shape, or no pixel.
        """
        drawn = {name: _inside(kind, points, shape) for name, (kind, points) in self.outlines.items()}
        for name, pixels in (found := {**self.pixels, **drawn}).items():
            if pixels.shape != tuple(shape):
                raise InvalidInput(
                    f"{self.name} has the shape {pixels.shape} and a map {tuple(shape)}; draw regions on the same "
                    "frames"
                )
            if not pixels.any():
                raise InvalidInput(f"{self.name}: region {name!r} has no pixel in maps of shape {tuple(shape)}")
        return found


def read_regions(path: str | os.PathLike[str], shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
    """Read regions of maps of a shape (Y, X): name and pixels of each; see `open_regions`."""
    return open_regions(path).on(shape)


@reads_file
def open_regions(path: str | os.PathLike[str]) -> Regions:
    """Open regions of maps.

    Parameters
    ----------
    path
        A TIFF file that `write_regions` wrote; an image of labels, TIFF or NIfTI (x, y), of which every number but 0
        is a region; or shapes that napari saved (``.csv``), in pixels of the maps, the center of the first pixel being
        0. A pixel belongs to a shape if its center lies within.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or marks no pixel.
    """
    file = existing_file(path)
    if file.suffix.lower() == ".csv":
        return Regions(name=file.name, outlines=_shapes(file))
    if file.name.lower().endswith(NIFTI_SUFFIXES):
        regions = _labeled(one_volume(read_array(file)[0], file.name)[:, :, 0].T, file.name)
    elif file.suffix.lower() in READ_TIFF_SUFFIXES:
        array, names = read_tiff(file, colors=False), _region_names(file)
        regions = dict(zip(names, array.reshape(-1, *array.shape[-2:]) != 0, strict=False)) if names else (
            _labeled(array, file.name)
        )  # fmt: skip
    else:
        raise InvalidInput(f"{file.name} holds no regions; give labels (.tif, .nii) or shapes that napari saved (.csv)")
    return Regions(name=file.name, pixels=regions)


def write_regions(path: str | os.PathLike[str], regions: Mapping[str, npt.ArrayLike]) -> None:
    """Write regions as TIFF, a page for each, their names in its description (JSON); `read_regions` reads them.

    Raises
    ------
    InvalidInput
        If there are none, or the file cannot be written.
    """
    import tifffile

    if not regions:
        raise InvalidInput("there are no regions to write; draw one")
    pages = np.stack([np.asarray(pixels) != 0 for pixels in regions.values()]).astype(np.uint8)
    with atomic_write(path) as part:
        tifffile.imwrite(
            part, pages, description=json.dumps({"regions": list(regions)}), metadata=None, photometric="minisblack"
        )


def _region_names(file: Path) -> list[str]:
    """Return the names that `write_regions` wrote, or none."""
    import tifffile

    with tifffile.TiffFile(file) as tiff:
        try:
            names = json_of(tiff.pages[0].description, file.name)["regions"]
        except (InvalidInput, TypeError, LookupError):
            return []
        count = len(tiff.pages)
    return [str(name) for name in names] if isinstance(names, list) and len(names) == count else []


def _labeled(labels: Array, name: str) -> dict[str, npt.NDArray[np.bool_]]:
    if labels.ndim != 2:
        raise InvalidInput(f"{name} has the shape {labels.shape}; give one image of labels (y, x)")
    found = np.unique(labels)
    if not np.array_equal(found, np.rint(found)) or len(found) > _MAX_LABELS:
        raise InvalidInput(f"{name} holds {len(found)} different values, of which not all mark regions; give labels")
    if not (found != 0).any():
        raise InvalidInput(f"{name} is 0 everywhere; give each region a number above 0")
    return {f"region {int(label)}": labels == label for label in found if label != 0}


def _shapes(file: Path) -> dict[str, tuple[str, Array]]:
    """Return kind and vertices of the shapes of napari's table."""
    corners: dict[str, tuple[str, list[list[float]]]] = {}
    try:
        for row in existing_table(file)[1]:
            axes = sorted(key for key in row if str(key).startswith("axis-"))[-2:]
            kind, vertices = corners.setdefault(row["index"], (row["shape-type"], []))
            vertices.append([float(row[axis]) for axis in axes])
    except (ValueError, KeyError, TypeError) as error:
        text = f"{file.name} is no table of shapes as napari saves it ({error}); save the layer again"
        raise InvalidInput(text) from error
    if not corners:
        raise InvalidInput(f"{file.name} holds no shapes; draw one")
    regions = {}
    for number, (kind, vertices) in enumerate(corners.values(), 1):
        points = np.asarray(vertices)
        if kind not in ("rectangle", "polygon", "ellipse") or len(points) < 3 or points.shape[1] != 2:
            raise InvalidInput(f"{file.name}: shape {number} is a {kind}, which encloses no pixels; draw a polygon")
        if not np.isfinite(points).all():
            raise InvalidInput(f"{file.name}: shape {number} has a vertex that is not finite; draw it again")
        regions[f"region {number}"] = kind, points
    return regions


def _inside(kind: str, points: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return _in_ellipse(points, shape) if kind == "ellipse" else _in_polygon(points, shape)


def _in_polygon(vertices: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels whose centers lie within, by the rule of even and odd crossings."""
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
    inside = np.zeros(shape, bool)
    for (y0, x0), (y1, x1) in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        low, high = (int(np.clip(np.ceil(end), 0, shape[0])) for end in sorted((y0, y1)))
        if low < high:  # rows that the edge crosses
            inside[low:high] ^= columns < x0 + (rows[low:high] - y0) / (y1 - y0) * (x1 - x0)
    return inside


def _in_ellipse(corners: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels whose centers lie within the ellipse of a box."""
    away = np.moveaxis(np.indices(shape), 0, -1) - corners.mean(axis=0)
    axes = 0.5 * (corners[1] - corners[0]), 0.5 * (corners[2] - corners[1])
    lengths = [max(float(axis @ axis), np.finfo(np.float64).tiny) for axis in axes]
    reach = [np.square(away @ axis / length) for axis, length in zip(axes, lengths, strict=True)]
    return np.asarray(reach[0] + reach[1] <= 1.0)

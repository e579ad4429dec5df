"""OME-Zarr (NGFF 0.5): volumes and labels at several resolutions, in and out."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_folder
from napari_gpubio.core.label_volumes import looks_like_labels
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.reading import note, reading
from napari_gpubio.core.space import is_oblique, voxel_sizes_mm, world_axes_of
from napari_gpubio.core.submodules import extra

Array = npt.NDArray[Any]
SUFFIX = ".ome.zarr"
OURS = "napari-gpubio"  # attribute with what OME-Zarr cannot say: the affine and the quantity
_SMALL = 64  # voxels along the longest axis of the lowest resolution, at most
_MM = {"meter": 1e3, "centimeter": 10.0, "millimeter": 1.0, "micrometer": 1e-3, "nanometer": 1e-6}


class OmeImage(NamedTuple):
    """A volume, shape (X, Y, Z) or (X, Y, Z, N), voxel to world in mm, and what its values mean, if that is known."""

    array: Array
    affine: npt.NDArray[np.float64]
    quantity: Quantity | None
    is_oriented: bool


def write_ome_zarr(
    path: str | Path,
    array: Array,
    affine: npt.NDArray[np.float64],
    *,
    quantity: Quantity | None = None,
    labels: Mapping[str, Array] | None = None,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write a volume as a new OME-Zarr folder, each resolution half the one before, with scale and unit.

    OME-Zarr 0.5 knows a scale and a shift alone; the affine and the quantity are attributes beside it, which
    `read_ome_zarr` takes.

    Parameters
    ----------
    path
        Folder that is new or empty.
    array, affine
        Shape (X, Y, Z), or (X, Y, Z, N) for channels; voxel to world, mm.
    quantity
        What the values mean.
    labels
        Label volumes of the grid by their names.
    record
        The operation that made it, as plain data.

    Raises
    ------
    InvalidInput
        If zarr or yaozarrs is not installed, the shape is another one, or the folder cannot be written.
    """
    extra("zarr", "zarr", "OME-Zarr")
    writing, model = (extra(f"yaozarrs{name}", "zarr", "OME-Zarr") for name in (".write.v05", ""))
    if array.ndim not in (3, 4):
        raise InvalidInput(f"OME-Zarr takes volumes (X, Y, Z) or (X, Y, Z, N); this array has shape {array.shape}")
    v05, name = model.v05, Path(path).name.removesuffix(SUFFIX)

    def scales(values: Array, what: str, *, is_labels: bool) -> tuple[Any, list[Array]]:
        levels = [*_levels(values, is_labels=is_labels)]
        dims = [model.DimSpec(name="c", scale_factor=1.0)] * (values.ndim == 4)
        dims += [
            model.DimSpec(name=axis, unit="millimeter", scale=size, translation=start)
            for axis, size, start in zip("zyx", voxel_sizes_mm(affine)[::-1], _starts(affine)[::-1], strict=True)
        ]
        return v05.Multiscale.from_dims(dims, name=what, n_levels=len(levels)), levels

    image, levels = scales(array, name, is_labels=looks_like_labels(array))
    ours = {"affine": np.asarray(affine).tolist(), "quantity": None if quantity is None else quantity.to_data()}
    ours |= {} if record is None else {"record": dict(record)}
    each = {what: scales(np.asarray(values), what, is_labels=True) for what, values in (labels or {}).items()}
    with atomic_folder(path) as folder:
        folder.rmdir()  # it makes its own
        writing.write_image(
            folder,
            v05.Image(multiscales=[image]),
            levels,
            labels={
                what: (v05.LabelImage(multiscales=[one], image_label=v05.ImageLabel()), of)
                for what, (one, of) in each.items()
            },
            extra_attributes={OURS: ours},
            writer="zarr",
        )


def _levels(array: Array, *, is_labels: bool) -> Iterator[Array]:
    """An array in the order of OME-Zarr (c, z, y, x), and halves of it: means of 8 voxels, or every other label."""
    level = array.T
    while True:
        yield np.ascontiguousarray(level)
        if max(level.shape[-3:]) <= _SMALL:
            return
        if is_labels or level.dtype.kind not in "fiu":
            level = level[..., ::2, ::2, ::2]
            continue
        for axis in (-3, -2, -1):
            pairs = np.pad(
                level, [(0, level.shape[axis] % 2 if n == level.ndim + axis else 0) for n in range(level.ndim)], "edge"
            )
            first, second = (np.moveaxis(pairs, axis, 0)[n::2].astype(np.float64) for n in (0, 1))
            level = np.moveaxis((first + second) / 2, 0, axis)
        level = (np.rint(level) if array.dtype.kind in "iu" else level).astype(array.dtype)


def _starts(affine: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """World position of the first voxel along each axis where a scale and a shift say all; else 0."""
    plain = not is_oblique(affine) and world_axes_of(affine) == (0, 1, 2) and bool((np.diag(affine)[:3] > 0).all())
    return affine[:3, 3] if plain else np.zeros(3)


def read_ome_zarr(path: str | Path, *, level: int = 0, label: str = "") -> OmeImage:
    """Read a volume of OME-Zarr 0.4 or 0.5.

    Parameters
    ----------
    path
        Its folder.
    level
        Resolution, 0 for the highest.
    label
        Name of one of its label images; the image itself by default.

    Raises
    ------
    InvalidInput
        If zarr is not installed, it is no such folder, or has no such level, label or axes.
    """
    zarr, path = extra("zarr", "zarr", "OME-Zarr"), Path(path)
    with reading(path):
        try:
            root = zarr.open_group(path, mode="r")
            group = root[f"labels/{label}"] if label else root
            attributes = dict(group.attrs)
            image = attributes.get("ome", attributes)["multiscales"][0]
            dataset = image["datasets"][level]
            values, axes = np.asarray(group[dataset["path"]][...]), [dict(one) for one in image["axes"]]
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            asked = f"label {label!r}" if label else f"level {level}"
            raise InvalidInput(f"it is no OME-Zarr image with {asked} ({type(error).__name__}: {error})") from error
        return _placed(values, axes, dataset.get("coordinateTransformations", ()), dict(root.attrs).get(OURS, {}))


def _placed(values: Array, axes: list[dict[str, Any]], transforms: Any, ours: Mapping[str, Any]) -> OmeImage:
    names = [axis["name"] for axis in axes]
    drop = tuple(n for n, axis in enumerate(names) if axis not in "zyx" and values.shape[n] == 1)
    kept = [name for n, name in enumerate(names) if n not in drop]
    if [name for name in kept if name in "zyx"] != [*"zyx"] or len(kept) > 4:
        raise InvalidInput(
            f"it has the axes {', '.join(names)}; a volume has z, y, x and one other that is longer than 1"
        )
    scale, start = np.ones(len(names)), np.zeros(len(names))
    for one in transforms:
        scale, start = np.asarray(one.get("scale", scale), float), np.asarray(one.get("translation", start), float)
    if any("unit" not in axis for axis in axes if axis["name"] in "zyx"):
        note("it has no unit of length; mm is assumed")
    at = [names.index(axis) for axis in "xyz"]
    factors = np.array([_MM.get(axes[n].get("unit", "millimeter"), 1.0) for n in at])
    affine = np.diag([*(scale[at] * factors), 1.0])
    affine[:3, 3] = start[at] * factors
    array = np.squeeze(values, drop).transpose(
        [kept.index(one) for one in (*"xyz", *(n for n in kept if n not in "zyx"))]
    )
    if "affine" not in ours:
        note("it does not say which side is left; its axes are taken as those of the world")
        return OmeImage(array, affine, None, is_oriented=False)
    own = np.asarray(ours["affine"], float)
    times = np.diag(affine)[:3] / voxel_sizes_mm(own)  # of a lower resolution, whose first voxel is the mean of two
    steps = np.diag([*times, 1.0])
    steps[:3, 3] = (times - 1) / 2
    quantity = None if ours.get("quantity") is None else Quantity.from_data(ours["quantity"])
    return OmeImage(array, own @ steps, quantity, is_oriented=True)

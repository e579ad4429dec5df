"""A row of numbers for each bundle: fibers, volume, lengths, and the means of images."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, voxel_volume_mm3
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.bundles.sampling import values_at
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
Images = Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]
_LENGTHS = tuple(f"length_mm_{what}" for what in ("mean", "sd", "median", "min", "max"))
_VALUES = ("mean", "sd", "fiber_mean", "fiber_sd")


def summary(
    bundles: Tractogram | Mapping[str, Tractogram], images: Images | None = None, *, device: str | Device = "auto"
) -> Table:
    """Return the numbers of bundles, a row for each.

    Parameters
    ----------
    bundles
        One, or several by name.
    images
        By name (``"FA"``): volume of real numbers, shape (X, Y, Z), and voxel to world, mm.
    device
        For the volume; see `napari_gpubio.core.device.choose_device`.

    Returns
    -------
    Table
        ``bundle``; ``fibers``; ``volume_mm3`` of the voxels that fibers pass, on the grid of the first image, or their
        own if there is none; ``length_mm_`` mean, standard deviation, median, min and max; and for each image the mean
        and standard deviation along all fibers, each point weighted by the length it stands for (``FA_mean``,
        ``FA_sd``), and of the means of single fibers (``FA_fiber_mean``, ``FA_fiber_sd``). Standard deviations of
        fibers are those of a sample (n - 1). NaN where there is nothing to count.

    Raises
    ------
    InvalidInput
        If an image is no volume of real numbers, or a bundle lies outside of it, or at a place that is not known; the
        sentence names both.
    """
    named = {"bundle": bundles} if isinstance(bundles, Tractogram) else bundles
    volumes = images or {}
    columns = ("bundle", "fibers", "volume_mm3", *_LENGTHS, *(f"{name}_{what}" for name in volumes for what in _VALUES))
    return Table(columns, tuple((name, *_row(name, fibers, volumes, device)) for name, fibers in named.items()))


def _row(name: str, fibers: Tractogram, images: Images, device: str | Device) -> list[float]:
    row = [len(fibers), _volume_mm3(fibers, images, device), *_lengths(fibers.lengths_mm())]
    for title, (image, affine) in images.items():
        try:
            check_place(fibers, np.shape(image), checked_affine(affine), "the image")
            row += _along(fibers, values_at(fibers.points, image, affine))
        except InvalidInput as error:
            raise InvalidInput(f"{name}, {title}: {error}") from error
    return row


def _volume_mm3(fibers: Tractogram, images: Images, device: str | Device) -> float:
    shape, affine = fibers.shape, fibers.affine
    for image, own in images.values():
        nx, ny, nz = (*np.shape(image), 1, 1, 1)[:3]
        shape, affine = (nx, ny, nz), checked_affine(own)
        break
    voxels = np.count_nonzero(maps.mask(fibers, shape=shape, affine=affine, device=device))
    return float(voxels * voxel_volume_mm3(affine))


def _lengths(lengths: npt.NDArray[np.float64]) -> list[float]:
    if not len(lengths):
        return [np.nan] * len(_LENGTHS)
    return [*_mean_and_sd(lengths), float(np.median(lengths)), float(lengths.min()), float(lengths.max())]


def _along(fibers: Tractogram, values: Array) -> list[float]:
    """Mean and standard deviation along the fibers, weighted by length, and of the means of fibers."""
    weights = np.where(np.isnan(values), 0.0, lengths_of_points_mm(fibers))
    values = np.where(np.isnan(values), 0.0, values)
    total = weights.sum()
    if not total > 0:
        return [np.nan] * len(_VALUES)
    mean = float(weights @ values / total)
    sd = float(np.sqrt(weights @ (values - mean) ** 2 / total))
    fiber = fibers.fiber_of_point()
    covered = np.bincount(fiber, weights, minlength=len(fibers))
    sums = np.bincount(fiber, weights * values, minlength=len(fibers))
    return [mean, sd, *_mean_and_sd(sums[covered > 0] / covered[covered > 0])]


def lengths_of_points_mm(fibers: Tractogram) -> npt.NDArray[np.float64]:
    """Length that each point stands for, half of each segment that meets in it, shape (P,); they add up to all."""
    halves = 0.5 * np.linalg.norm(np.diff(fibers.points.astype(np.float64), axis=0), axis=1)
    halves[fibers.offsets[1:-1][(fibers.offsets[1:-1] > 0) & (fibers.offsets[1:-1] < len(fibers.points))] - 1] = 0.0
    lengths = np.zeros(len(fibers.points))
    lengths[:-1] += halves
    lengths[1:] += halves
    return lengths


def _mean_and_sd(values: npt.NDArray[np.float64]) -> list[float]:
    return [float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else np.nan]

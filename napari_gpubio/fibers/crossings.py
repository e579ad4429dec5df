"""How much of the way of fibers leads through voxels with fibers of several directions."""

import dataclasses

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.space import in_mask, nearest_voxels
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.run import find_peaks
from napari_gpubio.diffusion.fods.settings import PeakSettings
from napari_gpubio.tractograms.model import Tractogram

ONE_DIRECTION = (
    "Geodesics in tensors have one direction a voxel, and stray where fibers cross; which regions are joined through "
    "crossings is shown by the flow of fibers along FODs or fixels."
)
SEVERAL = PeakSettings(most=2, least_fraction=0.33, least_amplitude=0.1)


def crossing_share(fibers: Tractogram, fods: FodField, *, device: str | Device = "auto") -> float:
    """Share of the length of fibers in voxels whose FODs have two directions.

    A second peak counts from a third of the highest one on, if its amplitude is 0.1 at least.

    Parameters
    ----------
    fibers
        On any grid of the same world.
    fods
        The distributions; what lies outside their mask does not count.
    device
        Of the search for peaks, see `napari_gpubio.core.device.choose_device`.

    Returns
    -------
    float
        From 0 to 1; NaN if no fiber passes through the FODs.
    """
    joins = np.ones(max(len(fibers.points) - 1, 0), bool)  # pieces between points of one fiber
    joins[fibers.offsets[1:-1] - 1] = False
    before, after = fibers.points[:-1][joins].astype(np.float64), fibers.points[1:][joins].astype(np.float64)
    lengths = np.linalg.norm(after - before, axis=1)
    voxels = nearest_voxels(fods.affine, (before + after) / 2)
    there = in_mask(voxels, fods.mask)
    total = lengths[there].sum()
    if not total > 0:
        return float("nan")
    at, passed = tuple(voxels[there].T), np.zeros(fods.shape, bool)
    passed[at] = True
    peaks = find_peaks(dataclasses.replace(fods, mask=passed), SEVERAL, device=device)
    return float(lengths[there][peaks.counts[at] > 1].sum() / total)


def crossing_notes(fibers: Tractogram, fods: FodField | None, device: str | Device) -> tuple[str, ...]:
    """Say to the user of tensors on which share of the way the FODs, if there are any, have two directions."""
    if fods is None or not len(fibers):
        return ()
    share = crossing_share(fibers, fods, device=device)
    if np.isnan(share):
        return ("No fiber passes through the FODs that were given; they are of another scan, or of another space.",)
    note = (
        f"On {100 * share:.0f} % of the way the FODs have two directions, of which a tensor shows the mean; there, "
        "fibers tracked in FODs or fixels are more certain."
    )
    return (note,)

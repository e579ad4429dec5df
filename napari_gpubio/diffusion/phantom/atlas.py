"""Regions of the brain phantom: lobes with the white matter below their cortex, deep nuclei, cerebellum, brain stem."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import sample_path
from napari_gpubio.diffusion.phantom.brain import (
    NUCLEI,
    Array,
    Floats,
    brain_anatomy,
    cerebellum,
    cerebrum,
    ellipsoid,
    right_side,
    stem,
    voxel_centers,
)
from napari_gpubio.diffusion.phantom.sample import FOLDER
from napari_gpubio.diffusion.regions import Atlas

SHELL_MM = 10.0  # depth of the lobes' regions below the outline, so that fibers end in them
SIDES = ("left", "right")
LOBES = ("frontal lobe", "motor cortex", "parietal lobe", "occipital lobe", "temporal lobe")
DEEP = ("thalamus", "caudate", "putamen", "hippocampus")
_CAUDATE = 2  # of the nuclei, two are the caudate's: head and body


def brain_atlas(affine: Floats, shape: tuple[int, int, int]) -> Atlas:
    """Return the regions of the phantom on a grid of cubic voxels along the world axes, left ones before right ones.

    Parameters
    ----------
    affine
        Voxel to world, mm.
    shape
        Dimensions of the grid.
    """
    points = voxel_centers(affine, shape)
    inside = brain_anatomy(affine, shape).inside > 0.5
    parts = [*_lobes(points), *_deep(points), cerebellum(points) < 0]
    labels, names = np.zeros(shape, np.uint8), dict[int, str]()
    for part, name in zip(parts, (*LOBES, *DEEP, "cerebellum"), strict=True):
        for side, is_side in zip(SIDES, (points[..., 0] < 0, points[..., 0] >= 0), strict=True):
            names[len(names) + 1] = f"{name}, {side}"
            labels[part & is_side & inside] = len(names)
    names[len(names) + 1] = "brain stem"
    labels[(stem(points) < 0) & inside] = len(names)
    return Atlas(labels=labels, affine=affine, names=names)


def _lobes(points: Floats) -> list[npt.NDArray[np.bool_]]:
    """The shell of each lobe, in the order of `LOBES`, cut where the great sulci of a brain are."""
    depth = -cerebrum(points)
    _, y, z = np.moveaxis(points, -1, 0)
    across = np.abs(points[..., 0])
    shell = (depth > -2.0) & (depth < SHELL_MM) & (across > 1.0)
    temporal = shell & (z < -4.0 - 0.42 * (y - 20.0)) & (across > 24.0) & (y > -48.0)
    central = -14.0 - 0.35 * (z - 40.0)  # the central sulcus leans backwards on its way up
    occipital = shell & ~temporal & (y < -62.0)
    rest = shell & ~temporal & ~occipital
    motor = rest & (y < central + 8.0) & (y > central - 8.0) & (z > 12.0)
    frontal = rest & ~motor & (y >= central)
    return [frontal, motor, rest & ~motor & ~frontal & (z > 0.0), occipital, temporal]


def _deep(points: Floats) -> list[Array]:
    """The deep nuclei, in the order of `DEEP`."""
    levels = [ellipsoid(right_side(points), center, semi_axes) < 0 for center, semi_axes in NUCLEI]
    return [levels[0], levels[1] | levels[_CAUDATE], *levels[_CAUDATE + 1 :]]


def load_brain_atlas() -> Atlas:
    """Read the phantom's regions that come with the package: lobes, deep nuclei, cerebellum, brain stem."""
    from napari_gpubio.diffusion.io.atlases import read_atlas

    return read_atlas(sample_path(f"{FOLDER}/atlas.nii.gz"), sample_path(f"{FOLDER}/atlas.tsv"))

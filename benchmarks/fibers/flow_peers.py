"""What the flow stands beside: MRtrix's iFOD2, fans in fixels, and every method of tracking, from the same FODs."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Array

from napari_gpubio import tractograms
from napari_gpubio.core.space import in_grid, nearest_voxels
from napari_gpubio.diffusion import PeakSettings, find_peaks
from napari_gpubio.diffusion.io import write_fods
from napari_gpubio.diffusion.regions import Atlas, Region
from napari_gpubio.fibers import Cone, FixelGeodesic, FromFod, track
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.metrics import Adaptive
from napari_gpubio.fibers.seeds import label_points
from napari_gpubio.fibers.settings import METHODS, EuDX, Hamiltonian, VanAart2011
from napari_gpubio.tractograms.io import read_tractogram
from napari_gpubio.tractograms.model import Tractogram

SEEDS = (50_000, 5_000, 500)
RAYS = 20  # from each voxel of a region
THREADS = 2


class Seconds(NamedTuple):
    """Wall seconds, and those of processors, programs that were started included."""

    wall: float
    busy: float

    @classmethod
    def now(cls) -> "Seconds":
        """Since some time."""
        return cls(time.perf_counter(), sum(os.times()[:4]))

    def since(self) -> "Seconds":
        """Return how many have passed."""
        now = self.now()
        return Seconds(now.wall - self.wall, now.busy - self.busy)


class Streamlines(NamedTuple):
    """What tckgen made: how many seeds, the streamlines, and the seconds of the program."""

    seeds: int
    fibers: Tractogram
    seconds: Seconds


def tckgen(fods: Any, seed_mask: Array, mask: Array | None = None) -> Iterator[Streamlines]:
    """iFOD2 of MRtrix with its usual settings, without anatomical constraints; nothing where it is not installed."""
    import nibabel as nib

    if shutil.which("tckgen") is None:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_fods(folder / "fod.nii", fods)
        for file, voxels in (("seeds", seed_mask), ("mask", seed_mask if mask is None else mask)):
            nib.Nifti1Image(voxels.astype(np.uint8), fods.affine).to_filename(folder / f"{file}.nii")
        words = ["tckgen", "fod.nii", "out.tck", "-algorithm", "iFOD2", "-seed_image", "seeds.nii", "-mask", "mask.nii"]
        words += ["-select", "0", "-nthreads", str(THREADS), "-quiet", "-force"]
        for count in SEEDS:
            begun = Seconds.now()
            subprocess.run([*words, "-seeds", str(count)], cwd=folder, check=True)
            seconds = begun.since()
            fibers = read_tractogram(folder / "out.tck", reference=(fods.affine, fods.shape))
            yield Streamlines(count, fibers, seconds)


def version() -> str:
    """Of MRtrix, or nothing."""
    if shutil.which("tckgen") is None:
        return ""
    return subprocess.run(["tckgen", "--version"], capture_output=True, text=True).stdout.split()[2]


def counted(fibers: Tractogram, atlas: Atlas) -> Array:
    """How many fibers have an end in both of two regions, (R, R)."""
    return np.asarray(tractograms.connectome.connectome(fibers, atlas).matrix())


def ends_in(fibers: Tractogram, regions: list[Region]) -> Array:
    """The same for regions that overlap: an end counts for each region that holds its voxel, or one that touches it."""
    from scipy import ndimage

    held = np.stack([ndimage.binary_dilation(region.voxels) for region in regions])
    there = []
    for which in (fibers.offsets[:-1], fibers.offsets[1:] - 1):
        at = nearest_voxels(regions[0].affine, fibers.points[which])
        inside = in_grid(at, held.shape[1:])
        at[~inside] = 0
        there.append((held[:, *at.T] & inside).astype(np.float32))
    counts = there[0] @ there[1].T
    return np.asarray(counts + counts.T)


def over_totals(matrix: Array) -> Array:
    """A matrix over the root of the totals of both regions, as the overlap of flows is."""
    matrix = matrix * ~np.eye(len(matrix), dtype=bool)
    totals = matrix.sum(axis=1)
    return np.asarray(matrix / np.sqrt(np.maximum(totals[:, np.newaxis] * totals, 1e-30)))


def fan_in_fixels(fods: Any, atlas: Atlas, device: str) -> Array:
    """Share of the rays of a fan from each region that pass another one; mean of both ways, (R, R)."""
    fixels = find_peaks(fods, PeakSettings(most=4), device=device)
    labels = list(atlas.voxel_counts)
    shares = np.zeros((len(labels), len(labels)))
    for row, label in enumerate(labels):
        seeds = label_points(atlas.labels, atlas.affine, label)
        fan = Cone(count=RAYS, half_angle_deg=10.0)
        fibers = track(fixels, seeds, fan, FixelGeodesic(min_length_mm=10.0), device=device)
        at = nearest_voxels(atlas.affine, fibers.points)
        inside = in_grid(at, atlas.labels.shape)
        passed = np.zeros(len(at), np.int64)
        passed[inside] = atlas.labels[tuple(at[inside].T)]
        for column, other in enumerate(labels):
            reached = np.unique(fibers.fiber_of_point()[passed == other])
            shares[row, column] = len(reached) / (len(seeds) * RAYS)
    return 0.5 * (shares + shares.T)


def methods(case: Any, tensors: Any, device: str) -> Iterator[tuple[str, Tractogram]]:
    """Fibers of each method with its usual settings, one from each of 5,000 places of the mask."""
    seeds = label_points(case.mask.astype(np.uint8), case.scan.affine, 1, per_voxel=10)
    seeds = seeds[np.linspace(0, len(seeds) - 1, 5_000).astype(int)]
    fixels = find_peaks(case.fods, PeakSettings(most=4), device=device)
    yield "hamiltonian", track(tensors, seeds, Principal(), Hamiltonian(), device=device)
    fan = Cone(count=10, half_angle_deg=15.0)
    yield "hamiltonian, fan of the panel", track(tensors, seeds[::10], fan, Hamiltonian(), device=device)
    yield (
        "hamiltonian, adaptive metric",
        track(tensors, seeds, Principal(), Hamiltonian(metric=Adaptive()), device=device),
    )
    yield "vanaart2011", track(tensors, seeds, Principal(), VanAart2011(), device=device)
    yield "eudx", track(tensors, seeds, Principal(), EuDX(), device=device)
    for name in ("ifod2", "ifod1", "sd_stream", "lifted_geodesic"):
        yield name, track(case.fods, seeds, FromFod(count=1), METHODS[name](min_length_mm=10.0), device=device)
    yield "fixel_geodesic", track(fixels, seeds, FromFod(count=1), FixelGeodesic(min_length_mm=10.0), device=device)

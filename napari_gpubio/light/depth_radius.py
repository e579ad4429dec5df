"""Fluence by depth and distance from the axis of a source, for tools of optogenetics: tables by wavelength."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, Tabular
from napari_gpubio.core.files import write_rows
from napari_gpubio.core.quantity import ascii_unit
from napari_gpubio.core.space import apply_affine
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import PER_PHOTON, Estimates, FluenceUnit
from napari_gpubio.optics.model import OUTSIDE

_ON_EDGE = 1e-6  # of a bin: voxels whose centers lie on the edge of two bins are in the outer one
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class DepthRadius(Tabular, Gridded):
    """Fluence by wavelength, depth and radius.

    Parameters
    ----------
    wavelengths_nm
        Shape (L,).
    z_mm, r_mm
        Centers of the bins, shapes (Z,) and (R,).
    fluence, error
        Mean of each bin and its standard error, shape (L, Z, R); NaN where a bin has no tissue.
    unit
        Of both.
    """

    wavelengths_nm: Floats
    z_mm: Floats
    r_mm: Floats
    fluence: Floats
    error: Floats
    unit: str

    @property
    def columns(self) -> dict[str, Floats]:
        """The table by its columns, a row for each bin, with units in their names."""
        places = np.meshgrid(self.wavelengths_nm, self.z_mm, self.r_mm, indexing="ij")
        names = ("wavelength_nm", "z_mm", "r_mm", f"fluence ({ascii_unit(self.unit)})", "standard_error")
        return {name: one.ravel() for name, one in zip(names, (*places, self.fluence, self.error), strict=True)}

    def write_csv(self, path: str | Path) -> None:
        """Write the table as CSV, with units in the head; InvalidInput if it cannot be written."""
        rows = (map("{:.6g}".format, row) for row in zip(*self.columns.values(), strict=True))
        write_rows(path, [[*self.columns], *rows])


def depth_radius(
    results: Mapping[float, LightResult | LayeredResult], *, bin_mm: float | None = None, unit: FluenceUnit = PER_PHOTON
) -> DepthRadius:
    """Take fluence by depth along the axis of the source, and distance from it, of runs at several wavelengths.

    Of a run in layers these are its bins. Of one in voxels, the axis is that of its one source; depth 0 is where tissue
    begins on it, or the source itself if it lies in tissue; each bin is the mean of the tissue's voxels whose centers
    are in it, with an error as if these were independent.

    Parameters
    ----------
    results
        Runs by their wavelengths, nm, on one grid.
    bin_mm
        Width of the bins of voxels; by default the longest edge of a voxel.
    unit
        Of the fluence; see `napari_gpubio.light.statistics.fluence_units`.

    Raises
    ------
    InvalidInput
        If there are no runs, they have different bins, one has several sources, or one in layers no absorption map.
    """
    found = [_bins_of(run, bin_mm) for run in results.values()]
    if not found:
        raise InvalidInput("there are no runs; give one at least, by its wavelength in nm")
    z_mm, r_mm, _ = found[0]
    if any(one[0].shape != z_mm.shape or one[1].shape != r_mm.shape for one in found):
        raise InvalidInput("the runs have different bins; simulate all wavelengths on one grid, with one source")
    values, errors = (unit.factor * np.stack([one[2][part] for one in found]) for part in (0, 1))
    wavelengths = np.array([*results], np.float64)
    return DepthRadius(wavelengths_nm=wavelengths, z_mm=z_mm, r_mm=r_mm, fluence=values, error=errors, unit=unit.name)


Bins = tuple[Floats, Floats, Estimates]


def _bins_of(run: LightResult | LayeredResult, bin_mm: float | None) -> Bins:
    if isinstance(run, LightResult):
        return _bins_of_voxels(run, bin_mm)
    found = run.fluence_rz()
    return run.z_mm, run.r_mm, Estimates(found.value.T, found.error.T)


def _bins_of_voxels(run: LightResult, bin_mm: float | None) -> Bins:
    source, domain = run.single_source("a table by depth and radius"), run.domain
    inside = domain.labels != OUTSIDE
    away = apply_affine(domain.affine, np.argwhere(inside)) - np.asarray(source.position_mm)
    axis = np.asarray(source.direction, float) / np.linalg.norm(source.direction)
    z = away @ axis
    r = np.linalg.norm(away - z[:, np.newaxis] * axis, axis=1)
    edge = float(domain.voxel_sizes_mm.max())
    width = edge if bin_mm is None else bin_mm
    near = z[(r <= edge) & (z >= -edge / 2)]
    if not len(near) or not width > 0:
        raise InvalidInput(f"no tissue lies on the axis of the source, or bins of {width:g} mm; give bin_mm above 0")
    z = z - (near.min() - edge / 2)
    there = z >= 0
    places = (np.stack([z, r])[:, there] / width + _ON_EDGE).astype(np.int64)
    shape = tuple(int(n) + 1 for n in places.max(axis=1))
    flat = np.ravel_multi_index((places[0], places[1]), shape)
    values, errors = (one[inside][there].astype(np.float64) for one in (run.fluence, run.fluence_error))
    count, total, variance = (
        np.bincount(flat, one, np.prod(shape)).reshape(shape) for one in (None, values, errors**2)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return _centers(shape[0], width), _centers(shape[1], width), Estimates(total / count, np.sqrt(variance) / count)


def _centers(count: int, width: float) -> Floats:
    return np.asarray((np.arange(count) + 0.5) * width)

"""MCML's quantities with their standard errors from integer tallies."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.batches import mean_error
from napari_gpubio.light.kernels.layers.problem import SCALE, LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.settings import angle_centers, ring_area_mm2, solid_angle_sr
from napari_gpubio.light.result import Estimate

Floats = npt.NDArray[np.float64]


class _Tallies:
    """Sums of weight per launched photon, and their errors from the spread of the batches."""

    def __init__(self, problem: LayeredProblem, tally: LayerTally) -> None:
        size = self._size = problem.batch_size
        self.launched = tally.photons
        in_order = [tally.batches[index] for index in sorted(tally.batches)]
        whole = [batch.numbers for batch in in_order if batch.photons == size]
        open_ones = [batch.numbers for batch in in_order if batch.photons != size]
        self._whole = np.array(whole, np.uint64).reshape(len(whole), problem.tally_size).view(np.int64)
        self._rest_photons = self.launched - len(whole) * size
        self._rest = np.sum(np.array(open_ones, np.uint64).reshape(-1, problem.tally_size).view(np.int64), axis=0)

    def estimates(self, part: slice, reduce: Callable[[Floats], Floats], unit: npt.ArrayLike = 1.0) -> Estimates:
        """Estimate something linear in a part of the tally.

        ``reduce`` turns an array whose last axis is that part into the quantity, batch by batch; ``unit`` (a volume, an
        area) is what the result is divided by.
        """
        whole = reduce(self._whole[:, part] / SCALE)
        rest = reduce((self._rest[part] / SCALE)[None])[0]
        value = (whole.sum(axis=0) + rest) / max(1, self.launched)
        error = mean_error(whole, rest, self._size, self._rest_photons)
        return Estimates(value / np.asarray(unit), error / np.asarray(unit))

    def estimate(self, part: slice) -> Estimate:
        """Estimate the sum of a part."""
        both = self.estimates(part, lambda weights: weights.sum(axis=1))
        return Estimate(float(both.value), float(both.error))


def assemble(
    problem: LayeredProblem, tally: LayerTally, parameters: Mapping[str, Any], *, spread: Floats | None = None
) -> LayeredResult:
    """Turn the tallies of the photons that are done into a result; ``spread`` is the matrix of a finite beam."""
    tallies, s = _Tallies(problem, tally), problem.settings
    reflected = slice(problem.absorption_cells, problem.absorption_cells + problem.angular_cells)
    transmitted = slice(reflected.stop, reflected.stop + problem.angular_cells)
    layers = slice(transmitted.stop, transmitted.stop + len(problem.medium.layers))
    roulette = slice(layers.stop, layers.stop + 1)
    return LayeredResult(
        medium=problem.medium,
        settings=s,
        specular=problem.specular,
        diffuse_reflectance=tallies.estimate(reflected),
        transmittance=tallies.estimate(transmitted),
        absorbed=tallies.estimate(layers),
        roulette=tallies.estimate(roulette),
        A_l=tallies.estimates(layers, lambda weights: weights),
        **_absorption(problem, tallies, spread),
        **_escaped(problem, tallies, "Rd", reflected, spread),
        **_escaped(problem, tallies, "Tt", transmitted, spread),
        launched=tallies.launched,
        complete=tallies.launched == s.photons,
        parameters=parameters,
        state=tally,
    )


def _absorption(problem: LayeredProblem, tallies: _Tallies, spread: Floats | None) -> dict[str, Any]:
    s = problem.settings
    if not s.absorption:
        return {"A_rz": None, "A_z": None}
    cells, shape = slice(0, problem.absorption_cells), (-1, s.radial_bins, s.depth_bins)
    area = ring_area_mm2(s)[:, None]
    return {
        "A_rz": tallies.estimates(cells, lambda w: _along_r(w.reshape(shape) / area, spread), s.dz_mm),
        "A_z": tallies.estimates(cells, lambda w: w.reshape(shape).sum(axis=1), s.dz_mm),
    }


def _escaped(
    problem: LayeredProblem, tallies: _Tallies, name: str, cells: slice, spread: Floats | None
) -> dict[str, Estimates]:
    s = problem.settings
    shape = (-1, s.radial_bins, s.angle_bins)
    area, solid, cosine = ring_area_mm2(s), solid_angle_sr(s), np.cos(angle_centers(s))
    return {
        f"{name}_ra": tallies.estimates(
            cells, lambda w: _along_r(w.reshape(shape) / area[:, None], spread), solid * cosine
        ),
        f"{name}_r": tallies.estimates(cells, lambda w: _along_r(w.reshape(shape).sum(axis=2) / area, spread)),
        f"{name}_a": tallies.estimates(cells, lambda w: w.reshape(shape).sum(axis=1), solid),
    }


def _along_r(per_area: Floats, spread: Floats | None) -> Floats:
    """Apply the matrix of a finite beam to the second axis, r."""
    return per_area if spread is None else np.moveaxis(np.tensordot(spread, per_area, axes=(1, 1)), 0, 1)

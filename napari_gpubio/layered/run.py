"""Photons through planar layers: from layers and settings to MCML's quantities with their standard errors."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import LayerTally
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings, angle_centers, ring_area_mm2, solid_angle_sr
from napari_gpubio.optics.batches import error_of_squares, photon_steps, resumed
from napari_gpubio.optics.estimates import Estimate, Estimates
from napari_gpubio.optics.pooled_variance import pooled_variance


def simulate_steps(
    medium: LayeredMedium,
    settings: LayeredSettings | None = None,
    *,
    device: str | Device = "auto",
    resume: LayeredResult | None = None,
    client: Any = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, LayeredResult]:
    """Trace photons of a pencil beam through layers, step by step; a step's preview is the result so far.

    Parameters
    ----------
    medium
        The layers.
    settings
        Photons and grid; see `LayeredSettings`.
    device
        See `napari_gpubio.core.device.choose_device`; ``"cuda:all"`` shares the photons among all GPUs.
    resume
        A result of the same layers and settings (stopped, or with fewer photons): only what it lacks is traced.
    client
        A ``dask.distributed.Client`` whose workers share the batches.
    stop
        Set it to stop early; the result then holds what was done, with its own error, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If ``resume`` belongs to another simulation.

    Examples
    --------
    >>> from napari_gpubio import layered
    >>> layer = layered.Layer(n=1.0, mua_per_mm=1, mus_per_mm=9, g=0.75, thickness_mm=0.2)
    >>> slab = layered.LayeredMedium(layers=(layer,))
    >>> result = layered.simulate(slab, layered.LayeredSettings(photons=10_000), device="cpu")
    >>> abs(result.diffuse_reflectance.value - 0.0974) < 0.02
    True
    """
    problem = resumed(LayeredProblem(medium, settings or LayeredSettings()), resume, LayerTally)
    if client is None:
        chosen = choose_device(device)
        if not chosen.is_gpu:
            problem.memory(chosen).check("the simulation", "take fewer bins or batches")
    nothing, how = LayerTally.empty(problem), {"medium": _medium_as_json(problem.medium)}
    return (
        yield from photon_steps(problem, nothing, assemble, how, device=device, resume=resume, client=client, stop=stop)
    )


simulate = driven(simulate_steps)


def needed_memory(
    medium: LayeredMedium, settings: LayeredSettings | None = None, device: str | Device = "auto"
) -> Memory:
    """Memory that a simulation takes on each device that works on it, part by part.

    Examples
    --------
    >>> from napari_gpubio import layered
    >>> slab = layered.LayeredMedium(layers=(layered.Layer(mua_per_mm=1, thickness_mm=0.2),))
    >>> memory = layered.needed_memory(slab, layered.LayeredSettings(radial_bins=100, depth_bins=100), "cpu")
    >>> memory.tallies > 16 * 8 * 100 * 100  # of each batch
    True
    """
    return LayeredProblem(medium, settings or LayeredSettings()).memory(choose_device(device))


def _medium_as_json(medium: LayeredMedium) -> dict[str, Any]:
    """The layers as JSON can hold them, which has no infinity: an endless layer's thickness is None."""
    described = dataclasses.asdict(medium)
    for row, layer in zip(described["layers"], medium.layers, strict=True):
        row["thickness_mm"] = None if layer.is_endless else layer.thickness_mm
    return described


Floats = npt.NDArray[np.float64]


class _Tallies:
    """Sums of weight per launched photon, and their errors from the spread of the batches."""

    def __init__(self, problem: LayeredProblem, tally: LayerTally) -> None:
        size = self._size = problem.batch_size
        self.launched = tally.photons
        in_order = [tally.batches[index] for index in sorted(tally.batches)]
        self._whole = [batch.numbers.view(np.int64) for batch in in_order if batch.photons == size]
        self._rest_photons = self.launched - len(self._whole) * size
        self._of_whole, self._rest = np.zeros((2, problem.tally_size), np.int64)
        for batch in in_order:
            together = self._of_whole if batch.photons == size else self._rest
            together += batch.numbers.view(np.int64)

    def estimates(self, part: slice, reduce: Callable[[Any], Any], unit: npt.ArrayLike = 1.0) -> Estimates:
        """Estimate something linear in a part of the tally, batch by batch, since all together would be much.

        ``reduce`` turns an array whose last axis is that part into the quantity, which keeps the axes before; ``unit``
        (a volume, an area) is what the result is divided by.
        """

        def reduced(numbers: npt.NDArray[np.int64]) -> Floats:
            return np.asarray(reduce(numbers[part][None])[0] * (1.0 / SCALE))

        batches = len(self._whole)
        total, rest = reduced(self._of_whole), reduced(self._rest)
        mean = total / max(1, batches)
        squares = np.zeros(total.shape)
        for numbers in self._whole:
            apart = reduced(numbers) - mean
            squares += apart * apart
        error = error_of_squares(squares, batches, mean, rest, self._size, self._rest_photons)
        value = (total + rest) / max(1, self.launched)
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
    if not s.has_map:
        return {"A_rz": None, "A_z": None}
    cells, shape = slice(0, problem.absorption_cells), (-1, s.radial_bins, s.depth_bins)
    area = ring_area_mm2(s)[:, None]
    if spread is None:
        a_rz = tallies.estimates(cells, lambda w: w.reshape(shape), area * s.dz_mm)
    else:
        a_rz = tallies.estimates(cells, lambda w: _along_r(w.reshape(shape) / area, spread), s.dz_mm)
    return {
        "A_rz": a_rz if spread is not None else _pooled(a_rz, area * s.dz_mm / _deposit_share(problem)),
        "A_z": tallies.estimates(cells, lambda w: w.reshape(shape).sum(axis=1), s.dz_mm),
    }


def _escaped(
    problem: LayeredProblem, tallies: _Tallies, name: str, cells: slice, spread: Floats | None
) -> dict[str, Estimates]:
    s = problem.settings
    shape = (-1, s.radial_bins, s.angle_bins)
    area, solid, cosine = ring_area_mm2(s), solid_angle_sr(s), np.cos(angle_centers(s))
    by_both = tallies.estimates(cells, lambda w: _along_r(w.reshape(shape) / area[:, None], spread), solid * cosine)
    by_r = tallies.estimates(cells, lambda w: _along_r(w.reshape(shape).sum(axis=2) / area, spread))
    return {
        f"{name}_ra": by_both if spread is not None else _pooled(by_both, area[:, None] * solid * cosine),
        f"{name}_r": by_r if spread is not None else _pooled(by_r, area),
        f"{name}_a": tallies.estimates(cells, lambda w: w.reshape(shape).sum(axis=1), solid),
    }


def _deposit_share(problem: LayeredProblem) -> Floats:
    """Part of its weight that a packet leaves where it interacts, in each depth bin; 1 where nothing absorbs."""
    s, medium = problem.settings, problem.medium
    depths = (np.arange(s.depth_bins) + 0.5) * s.dz_mm
    shares = problem.layers[medium.layers_at(depths), 0].astype(np.float64)
    return np.where(shares > 0, shares, 1.0)


_NEAR = (5, 9)  # bins along r, and along z or the angle, that help with a bin's error


def _pooled(found: Estimates, unit: Floats) -> Estimates:
    """Return estimates in bins with errors that neighbors help to know, see `napari_gpubio.optics.pooled_variance`.

    Outermost bins keep their own, since they may hold what lies beyond the grid.

    Parameters
    ----------
    found
        In bins of r, and of z or of the angle.
    unit
        What a value is multiplied with to be the weight in its bin; of absorbed weight, that before it was absorbed. A
        finite beam has spread every photon over many bins, which know enough by themselves.
    """
    inner = (slice(None, -1),) * found.value.ndim
    if np.isnan(found.error).any() or not found.value[inner].size:
        return found
    error = found.error * unit
    error[inner] = np.sqrt(pooled_variance((found.value * unit)[inner], np.square(error[inner]), _NEAR[: error.ndim]))
    return Estimates(found.value, error / unit)


def _along_r(per_area: Floats, spread: Floats | None) -> Floats:
    """Apply the matrix of a finite beam to the second axis, r."""
    return per_area if spread is None else np.moveaxis(np.tensordot(spread, per_area, axes=(1, 1)), 0, 1)

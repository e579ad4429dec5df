"""Denoising on any device."""

import dataclasses
import functools
import itertools
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import in_slabs
from napari_gpubio.core.chunks import within_memory
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.denoise.inputs import (
    AXES,
    as_series,
    check_windows,
    checked_image,
    checked_mask,
    checked_noise,
    checked_voxel_size,
)
from napari_gpubio.denoise.kernels.anlm.calibration import make_problem
from napari_gpubio.denoise.kernels.anlm.problem import NoiseGrid, Problem, Windows, make_windows, scale_of
from napari_gpubio.denoise.kernels.anlm.tally import Filtered, mixed_slabs, reached
from napari_gpubio.denoise.level import Level, find_level
from napari_gpubio.denoise.model import DenoiseResult, provenance
from napari_gpubio.denoise.noise import SeriesNoise, doubts, estimate, few_volumes, is_across_volumes, of_volumes
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]


def denoise_steps(
    image: npt.ArrayLike,
    settings: DenoiseSettings | None = None,
    *,
    mask: npt.ArrayLike | None = None,
    voxel_size_mm: Sequence[float] = (1.0, 1.0, 1.0),
    noise: npt.ArrayLike | SeriesNoise | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, DenoiseResult]:
    """Denoise a volume or a series of volumes by adaptive non-local means, step by step.

    The filter is that of Yuan et al. 2018 (doi 10.1117/1.JBO.23.12.121618), voxel by voxel: every voxel becomes the
    weighted mean of the voxels in its search window, with weights exp(-D / h^2), where D is the mean squared
    difference of the patches around both and h^2 the local noise. There it is the least difference of patches, to
    which fine anatomy adds; here it follows the noise where that is known, and is as there in fluence and with
    ``noise_from="patches"``. The result does not depend on the number of threads, chunks or GPUs.

    Parameters
    ----------
    image
        Shape (X, Y, Z), or (X, Y, Z, N) for a series, each volume of which is denoised alone. Any unit and scale.
        A plane, shape (X, Y) or with one axis of length 1, has windows within it.
    settings
        Patches, search radius, noise model and rules; see `DenoiseSettings`.
    mask
        Voxels to denoise, of the shape of a volume. The others stay as they are and are not averaged; patches read
        them.
    voxel_size_mm
        Edge lengths of a voxel, of a plane (X, Y) two or three; windows are as long in mm along every axis.
    noise
        Standard deviation of the noise where it is known (of the real and imaginary parts, if Rician): one number,
        one for each volume, a map, or what `noise.estimate` has found. None: estimated, for ``noise_model="rician"``
        and a series of at least `noise.FEWEST_VOLUMES` volumes as one number across the volumes, else in each volume
        alone, see `DenoiseSettings.noise_from`. Where it is known, h^2 is a multiple of its square, whatever patches
        differ by, and patches fade out from their middle and are mixed by place (see `Problem.known_sums`).
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; what was not reached is then as it was, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If the image, the mask or the noise cannot be used, or the windows do not fit in the volume.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import denoise
    >>> noisy = 100 + np.random.default_rng(0).normal(size=(20, 20, 20))
    >>> result = denoise.denoise(noisy, device="cpu")
    >>> bool(result.image.std() < 0.2)
    True
    """
    settings, clock = settings or DenoiseSettings(), RunClock()
    array, notes = checked_image(image, settings)
    volumes = as_series(array)
    shape = volumes.shape[:3]
    sizes = checked_voxel_size(voxel_size_mm, array.ndim)
    windows = make_windows(settings, sizes, shape)
    check_windows(windows, shape, " xy" if array.ndim == 2 else AXES)
    usable = checked_mask(mask, array.shape[:3]).reshape(shape)
    if noise is None and is_across_volumes(settings, array.shape):
        yield Step(0, 1, "finding the noise across the volumes")
        noise = estimate(array, mask=mask)
    across = noise if isinstance(noise, SeriesNoise) else None
    sigma = checked_noise(noise.sigma if isinstance(noise, SeriesNoise) else noise, array.shape)
    chosen = choose_device(device)
    if not chosen.is_gpu:
        needed = needed_memory(array, settings, voxel_size_mm=sizes, noise=sigma, device=chosen)
        needed.check("denoising this image", "take a part of it, or close other programs")
    known = None if sigma is None else as_series(sigma)
    series = _Series(volumes, usable, known, windows, settings)
    count = volumes.shape[3]
    opened = (series.open_volume(n, chosen) for n in range(count))
    complete = yield from denoise_volumes(opened, count, "denoising", stop)
    image_found, noise_found = series.results()
    if across is not None:
        notes += across.sentences()
    elif sigma is None:
        notes += series.notes()
    return DenoiseResult(
        image=image_found.reshape(array.shape),
        noise=noise_found.reshape(array.shape),
        parameters={
            **provenance(settings, voxel_size_mm, chosen, clock),
            "masked": mask is not None,
            **_provenance_of(noise, across),
        },
        notes=notes,
        complete=complete,
    )


denoise = driven(denoise_steps)


def needed_memory(
    image: npt.ArrayLike,
    settings: DenoiseSettings | None = None,
    *,
    voxel_size_mm: Sequence[float] = (1.0, 1.0, 1.0),
    noise: npt.ArrayLike | None = None,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `denoise` takes besides the image: of the CPU's, or on each of some GPUs; see it for the arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import denoise
    >>> memory = denoise.needed_memory(np.zeros((64, 64, 64), np.float32), device="cpu")
    >>> memory.results == 2 * 4 * 64**3  # the denoised volume and its noise
    True
    """
    chosen, given, settings = choose_device(device), np.asarray(image), settings or DenoiseSettings()
    sigma = np.float64(0) if noise is None else np.asarray(noise)
    mapped = [n for n, stride in zip(sigma.shape, sigma.strides, strict=True) if stride]  # not what is spread out
    is_map = len(mapped) > 1
    x, y, z, count = as_series(np.broadcast_to(np.float32(0), given.shape)).shape
    windows = make_windows(settings, checked_voxel_size(voxel_size_mm, given.ndim), (x, y, z))
    values, usable = np.broadcast_to(np.float32(0), (x, y, z)), np.broadcast_to(np.uint8(1), (x, y, z))
    grid = NoiseGrid(np.zeros((1, 1, 1), np.float32), (np.zeros(1),) * 3, (x, y, z))
    is_known = noise is not None or settings.noise_from != "patches"
    variance = values if is_map else grid if is_known else None
    problem = Problem(values=values, usable=usable, windows=windows, settings=settings, variance=variance)
    volume = problem.memory(chosen)
    if chosen.is_gpu:
        return volume
    each = 8 if given.dtype == np.float64 else 4
    copied = given.size * each * (given.dtype.kind != "f" or given.itemsize < each)
    mixing = dataclasses.replace(volume, inputs=volume.inputs + copied + 8 * math.prod(mapped) * is_map)
    if count == 1 and each == 4:  # what is mixed is what is returned
        return mixing
    kept = 2 * each * given.size
    storing = dataclasses.replace(mixing, results=kept, scratch=8 * values.size)
    return fuller(storing, dataclasses.replace(mixing, results=mixing.results + kept * (count > 1)))


def _provenance_of(noise: Any, across: SeriesNoise | None) -> dict[str, Any]:
    """Where the noise came from."""
    if across is not None:
        return {"noise": "estimated across volumes", "sigma": across.sigma, "noise_volumes": across.volumes}
    return {"noise": "estimated" if noise is None else "given"}


class OpenVolume(NamedTuple):
    """A volume that is being denoised.

    Parameters
    ----------
    runs
        Those that denoise it.
    keep
        Stores the result, given how many items are done; of a large one, part by part.
    preview
        Makes a preview of what is done.
    """

    runs: Runs
    keep: Callable[[int], Iterable[None]]
    preview: Callable[[], Any] | None = None


def denoise_volumes(
    volumes: Iterator[OpenVolume], count: int, message: str, stop: threading.Event | None
) -> Generator[Step, None, bool]:
    """Denoise ``count`` volumes, each of which is opened when it is its turn; returns whether the end was reached."""
    for number in range(count):
        volume, done = next(volumes), 0  # the one before is gone by now
        total = volume.runs.problem.items
        with volume.runs as runs:
            for done in runs.chunks(stop):
                yield Step(number * total + done, count * total, message, volume.preview)
            for _ in volume.keep(done):
                yield Step(number * total + done, count * total, message)
        if done < total:
            return False
        del volume, runs
    return True


class _Series:
    """The volumes of an image, and what was made of them so far."""

    def __init__(
        self,
        volumes: Array,
        usable: npt.NDArray[np.uint8],
        sigma: Array | None,
        windows: Windows,
        settings: DenoiseSettings,
    ) -> None:
        self._volumes, self._usable, self._sigma = volumes, usable, sigma
        self._windows, self._settings = windows, settings
        self._levels: dict[int, tuple[Level, float]] = {}  # found in a volume, and the unit
        self._kept: tuple[Array, Array] | None = None

    def results(self) -> tuple[Array, Array]:
        """Denoised volumes and their noise, of the shape of all volumes; what was not reached is as it was, noise 0."""
        return self._kept or (self._volumes.copy(), np.zeros_like(self._volumes))

    def open_volume(self, n: int, device: Device) -> OpenVolume:
        """Scale a volume and put it on the processors."""
        volume = self._volumes[..., n]
        scale = scale_of(volume)
        values = np.divide(volume, scale, out=np.empty(volume.shape, np.float32), casting="same_kind")
        variance = self._level(n, values, scale) if self._sigma is None else _variance(self._sigma[..., n], scale)
        problem = make_problem(values, self._settings, self._windows, usable=self._usable, variance=variance)
        runs = Runs(problem, device)
        return OpenVolume(runs, functools.partial(self._keep, n, problem, scale, runs))

    def _level(self, n: int, values: Array, scale: float) -> NoiseGrid | None:
        """Find the noise of a scaled volume in its finest detail, if that is wanted and can be."""
        level = find_level(values, self._usable, is_rician=self._settings.is_rician)
        if self._settings.noise_from == "patches":
            level = Level(is_doubtful=level.is_doubtful or level.grid is not None)
        self._levels[n] = level, scale
        return level.grid

    def notes(self) -> tuple[str, ...]:
        """What was assumed of the noise of volumes that were looked at one by one."""
        count, is_rician = self._volumes.shape[3], self._settings.is_rician
        doubtful = [n for n, (level, _) in self._levels.items() if level.is_doubtful]
        sentences = {n: level.note(scale) for n, (level, scale) in self._levels.items()}
        return (
            *few_volumes(count if self._settings.noise_model == "rician" else 1),
            *of_volumes(sentences, count),
            *doubts(self._volumes, *self.results(), self._usable != 0, doubtful, is_rician=is_rician),
        )

    def _keep(self, n: int, problem: Problem, scale: float, runs: Runs, done: int) -> Iterator[None]:
        """Store a denoised volume in the image's own scale; what was not filtered keeps its bits."""
        if not done:
            return
        values, noise = yield from _finish(problem, runs)
        before, factor = self._volumes[..., n], self._volumes.dtype.type(scale)
        image = scaled(values, factor)
        noise = scaled(noise, factor) if self._sigma is None else self._sigma[..., n].astype(before.dtype)
        inside = self._usable != 0
        if done < problem.items:
            inside &= reached(problem, runs.each[0].done)
        if not inside.all():
            np.copyto(image, before, where=~inside)
            noise[~inside] = 0
        if self._volumes.shape[3] == 1:  # not copied: new pages take longer than the numbers on them
            self._kept = image[..., np.newaxis], noise[..., np.newaxis]
        else:
            self._kept = self.results()
            self._kept[0][..., n], self._kept[1][..., n] = image, noise


def _variance(sigma: Array, scale: float) -> Array | NoiseGrid:
    """The scaled variance of a noise that is given, shape (X, Y, Z)."""
    if not any(sigma.strides):  # one number, as `checked_noise` spreads it
        x, y, z = sigma.shape
        return NoiseGrid((sigma[:1, :1, :1] / scale).astype(np.float32), (np.zeros(1),) * 3, (x, y, z))
    return np.square(sigma / scale).astype(np.float32)


def _finish(problem: Problem, runs: Runs) -> Generator[None, None, Filtered]:
    """The volume of all runs together, slab by slab.

    Parts may be repeated where memory runs out: what was taken over from another run is then taken again.
    """
    first, *others = runs.each
    found: Filtered = first.room()
    taken = (functools.partial(_take_over, first, other) for other in others)
    finished = (functools.partial(first.finish_slab, slab, found) for slab in mixed_slabs(problem.shape))
    for do in itertools.chain(taken, finished):
        within_memory(do, first.device, problem.memory(first.device).total, problem.work)
        yield
    return found


def _take_over(first: Any, other: Any) -> None:
    first.merge(other.part())


def scaled(values: Array, factor: Any) -> Array:
    """Values times a factor of the result's type, in their own place where that can be."""
    out = values if values.dtype == factor.dtype else np.empty(values.shape, factor.dtype)
    in_slabs(lambda given, room: np.multiply(given, factor, out=room), values, out)
    return out

"""Simulated speckle of exactly known contrast, and the sample data made of it: three tubes, and a step of flow.

A field of fully developed speckle is the Fourier transform of white noise inside a round pupil. For flow, every pixel
is a first-order autoregressive process with its own correlation time, driven by new fields; the contrast of its mean
intensity over the steps of an exposure has a closed form, see `napari_gpubio.speckle.indices.expected_k2`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData
from napari_gpubio.speckle.indices import expected_k2
from napari_gpubio.speckle.settings import NoiseModel

Array = npt.NDArray[Any]
AXES = ("frame", "y", "x")
STEPS_PER_DECAY = 4  # least steps of an exposure per correlation time
EXPOSURE_MS = 10.0
BACKGROUND, TUBES = 2.0, (10.0, 20.0, 40.0)  # exposures over correlation times
STEP_AT, STEP_FACTOR = 20, 2.0  # frame from which the flow in the tube is faster by this factor
_CUTOFF = 0.35
_PHANTOM_SHAPE, _PHANTOM_FRAMES = (224, 256), 8
_STEP_SHAPE, _STEP_FRAMES, _STEP_X, _STEP_REST = (72, 96), 40, 8.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """A simulated camera, which turns light into integers with noise.

    Parameters
    ----------
    mean_adu
        Mean signal above the dark level.
    electrons_per_adu
        Inverse gain; 0: no noise.
    read_noise_electrons
        Standard deviation of the read noise.
    dark_adu
        Dark level.
    top_adu
        Saturation level.
    """

    mean_adu: float = 600.0
    electrons_per_adu: float = 10.0
    read_noise_electrons: float = 5.0
    dark_adu: float = 100.0
    top_adu: int = 4095

    def expose(self, intensity: Array, rng: np.random.Generator) -> npt.NDArray[np.uint16]:
        """Return the image of an intensity whose mean is 1."""
        signal = self.mean_adu * intensity
        if self.electrons_per_adu > 0:
            electrons = rng.poisson(signal * self.electrons_per_adu)
            noise = self.read_noise_electrons * rng.standard_normal(signal.shape)
            signal = (electrons + noise) / self.electrons_per_adu
        return np.clip(np.rint(signal + self.dark_adu), 0, self.top_adu).astype(np.uint16)


CAMERA = Camera()


class SpeckleField:
    """Generates independent, complex fields of fully developed speckle with mean intensity 1.

    Parameters
    ----------
    shape
        (Y, X).
    cutoff
        Radius of the pupil in cycles per pixel; speckles are about 1/(2 cutoff) pixels wide.
    rng
        Random numbers.
    """

    def __init__(self, shape: tuple[int, int], cutoff: float, rng: np.random.Generator) -> None:
        if not 0 < cutoff <= 0.5:
            raise InvalidInput(f"cutoff is {cutoff:g} cycles per pixel; it must be above 0 and at most 0.5")
        rows, columns = np.fft.fftfreq(shape[0])[:, None], np.fft.fftfreq(shape[1])[None, :]
        self.pupil = rows**2 + columns**2 <= cutoff**2
        self._inside = int(self.pupil.sum())
        self._scale = np.float32(np.sqrt(self.pupil.size / (2.0 * self._inside)))
        self._rng = rng

    def draw(self) -> npt.NDArray[np.complex64]:
        """Return the next field."""
        from scipy import fft

        spectrum = np.zeros(self.pupil.shape, np.complex64)
        noise = self._rng.standard_normal((self._inside, 2), np.float32)
        spectrum[self.pupil] = noise.view(np.complex64)[:, 0] * self._scale
        return np.asarray(fft.ifft2(spectrum, norm="ortho", overwrite_x=True))


def window_share(window: int, cutoff: float) -> float:
    """Return the share of K² that remains in a square window, whose pixels are correlated.

    It is 1 minus the mean squared correlation of the field over all pairs of different pixels of the window.
    """
    from scipy import fft

    field = SpeckleField((256, 256), cutoff, np.random.default_rng(0))
    correlation = np.abs(fft.ifft2(field.pupil.astype(np.float64))) ** 2
    correlation /= correlation[0, 0]
    lags = np.arange(1 - window, window)
    weights = (window - np.abs(lags))[:, None] * (window - np.abs(lags))[None, :]
    pairs = float((weights * correlation[np.ix_(lags, lags)]).sum()) - window**2
    return 1.0 - pairs / (window**2 * (window**2 - 1))


def tube_map(shape: tuple[int, int], background: float, tubes: tuple[float, ...]) -> Array:
    """Return x = T/τ of straight horizontal tubes, as wide as the gaps between them."""
    x, height = np.full(shape, float(background)), shape[0] // (2 * len(tubes) + 1)
    for n, level in enumerate(tubes):
        x[(2 * n + 1) * height : (2 * n + 2) * height] = level
    return x


def flow_frames(
    x: npt.ArrayLike,
    *,
    frames: int | None = None,
    steps: int | None = None,
    cutoff: float = 0.35,
    rho: float = 1.0,
    camera: Camera | None = None,
    seed: int = 0,
) -> Array:
    """Simulate frames of flow with a known correlation time at every pixel.

    Parameters
    ----------
    x
        Exposure over correlation time, shape (Y, X), or (T, Y, X) if it changes from frame to frame.
    frames
        Number of frames of a map (Y, X); except for light from what is at rest, frames are independent.
    steps
        Steps of an exposure; `steps_for` gives the default.
    cutoff
        Radius of the pupil, cycles per pixel.
    rho
        Fraction of light scattered by what moves.
    camera
        None for intensities of mean 1, float32; else frames are uint16.
    seed
        Seed of the random numbers.

    Raises
    ------
    InvalidInput
        If x has another shape or values that are not positive, or there are too few steps for it.
    """
    maps = np.asarray(x, np.float64)
    maps = np.broadcast_to(maps, (frames or 1, *maps.shape)) if maps.ndim == 2 else maps
    if maps.ndim != 3 or not np.isfinite(maps).all() or not (maps > 0).all():
        raise InvalidInput(f"x has shape {maps.shape}; give positive numbers, (y, x) or (frames, y, x)")
    steps = steps or steps_for(maps)
    if steps < maps.max():
        raise InvalidInput(f"steps is {steps} and x up to {maps.max():g}; take {steps_for(maps)} steps")
    rng = np.random.default_rng(seed)
    field = SpeckleField((maps.shape[1], maps.shape[2]), cutoff, rng)
    rest = np.sqrt(np.float32(1.0 - rho)) * field.draw() if rho < 1 else None
    made = (_exposure(field, one, steps, np.sqrt(np.float32(rho)), rest) for one in maps)
    return np.stack([one if camera is None else camera.expose(one, rng) for one in made])


def steps_for(x: npt.ArrayLike) -> int:
    """Return the default steps of an exposure in `flow_frames`."""
    return max(8, int(np.ceil(STEPS_PER_DECAY * float(np.max(x)))))


def _exposure(field: SpeckleField, x: Array, steps: int, amplitude: np.float32, rest: Array | None) -> Array:
    """Return the mean intensity over the steps of an exposure."""
    keep = np.exp(-x / steps).astype(np.float32)
    new = np.sqrt(1.0 - keep * keep)
    moving, total = field.draw(), np.zeros(x.shape, np.float32)
    for step in range(steps):
        if step:
            moving = keep * moving + new * field.draw()
        whole = moving if rest is None else amplitude * moving + rest
        total += whole.real**2 + whole.imag**2
    return total / np.float32(steps)


class Flow(NamedTuple):
    """Frames (uint16), their exposure over correlation time, (Y, X) or (T, Y, X), and exact K² without noise."""

    frames: npt.NDArray[np.uint16]
    x: Array
    k2: Array


def noise_model() -> NoiseModel:
    """Return the noise model of the samples' camera."""
    return NoiseModel(
        dark_adu=CAMERA.dark_adu,
        gain=1.0 / CAMERA.electrons_per_adu,
        read_noise_adu=CAMERA.read_noise_electrons / CAMERA.electrons_per_adu,
        quantization=True,
    )


def tube_phantom(seed: int = 1) -> Flow:
    """Simulate three tubes with flow in a medium with less: 8 frames of 256 x 224 pixels, 10 ms."""
    x = tube_map(_PHANTOM_SHAPE, BACKGROUND, TUBES)
    frames = flow_frames(x, frames=_PHANTOM_FRAMES, cutoff=_CUTOFF, camera=CAMERA, seed=seed)
    return Flow(frames, x, expected_k2(x, steps_for(x)))


def flow_step(seed: int = 2) -> Flow:
    """Simulate a tube whose flow doubles in the middle of the series: 40 frames of 96 x 72 pixels, 10 ms."""
    x = np.repeat(tube_map(_STEP_SHAPE, _STEP_REST, (_STEP_X,))[None], _STEP_FRAMES, axis=0)
    x[STEP_AT:] = np.where(x[STEP_AT:] == _STEP_X, STEP_FACTOR * _STEP_X, x[STEP_AT:])
    frames = flow_frames(x, cutoff=_CUTOFF, camera=CAMERA, seed=seed)
    return Flow(frames, x, expected_k2(x, steps_for(x)))


# -- layers -----------------------------------------------------------------------------------------------------------


def phantom_layers() -> list[LayerData]:
    """Return layers of the three tubes: the frames, and the truth, hidden (sample data of napari)."""
    made = tube_phantom()
    return [_truth_layer(made.x, "1/τ of the phantom (truth)"), _frames_layer(made.frames, "speckle phantom")]


def step_layers() -> list[LayerData]:
    """Return layers of the step of flow: the frames, and the truth, hidden (sample data of napari)."""
    made = flow_step()
    return [_truth_layer(made.x, "1/τ of the flow step (truth)"), _frames_layer(made.frames, "speckle, flow step")]


def _frames_layer(frames: Array, name: str) -> LayerData:
    about = {"exposure_ms": EXPOSURE_MS, "saturation_adu": CAMERA.top_adu, "dark_adu": CAMERA.dark_adu}
    limits = (float(frames.min()), float(np.percentile(frames, 99.5)))
    options = {"axis_labels": AXES, "contrast_limits": limits, "colormap": "gray"}
    return frames, {"name": name, "metadata": {KEY: about}, **options}, "image"


def _truth_layer(x: Array, name: str) -> LayerData:
    about = {"quantity": "inverse correlation time", "unit": "1/s", "exposure_ms": EXPOSURE_MS}
    values = (1e3 / EXPOSURE_MS * x).astype(np.float32)
    options = {"axis_labels": AXES[-values.ndim :], "colormap": "inferno", "visible": False}
    return values, {"name": name, "metadata": {KEY: about}, **options}, "image"

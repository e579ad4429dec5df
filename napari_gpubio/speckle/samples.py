"""Speckle to try the engine on, made when asked for: a phantom of three tubes, and a short series with a step of flow.

Both come as napari layers, without importing napari.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, LayerData
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.phantom import Camera, expected_k2, flow_frames, steps_for, tube_map

Array = npt.NDArray[Any]
AXES = ("frame", "y", "x")
EXPOSURE_MS = 10.0
CAMERA = Camera()
BACKGROUND, TUBES = 2.0, (10.0, 20.0, 40.0)  # exposures over correlation times
STEP_AT, STEP_FACTOR = 20, 2.0  # frame from which the flow in the tube is so many times as fast
_CUTOFF = 0.35
_PHANTOM_SHAPE, _PHANTOM_FRAMES = (224, 256), 8
_STEP_SHAPE, _STEP_FRAMES, _STEP_X, _STEP_REST = (72, 96), 40, 8.0, 2.0


class Flow(NamedTuple):
    """Frames (uint16), exposure over correlation time in each (Y, X) or (T, Y, X), and their exact K² without noise."""

    frames: npt.NDArray[np.uint16]
    x: Array
    k2: Array


def noise_model() -> NoiseModel:
    """Return the noise of the samples' camera."""
    return NoiseModel(
        dark_adu=CAMERA.dark_adu,
        gain=1.0 / CAMERA.electrons_per_adu,
        read_noise_adu=CAMERA.read_noise_electrons / CAMERA.electrons_per_adu,
        quantization=True,
    )


def tube_phantom(seed: int = 1) -> Flow:
    """Make three tubes with flow in a medium with less: 8 frames of 256 x 224 pixels, 10 ms."""
    x = tube_map(_PHANTOM_SHAPE, BACKGROUND, TUBES)
    frames = flow_frames(x, frames=_PHANTOM_FRAMES, cutoff=_CUTOFF, camera=CAMERA, seed=seed)
    return Flow(frames, x, expected_k2(x, steps_for(x)))


def flow_step(seed: int = 2) -> Flow:
    """Make a tube whose flow doubles in the middle of the series: 40 frames of 96 x 72 pixels, 10 ms."""
    x = np.repeat(tube_map(_STEP_SHAPE, _STEP_REST, (_STEP_X,))[None], _STEP_FRAMES, axis=0)
    x[STEP_AT:] = np.where(x[STEP_AT:] == _STEP_X, STEP_FACTOR * _STEP_X, x[STEP_AT:])
    frames = flow_frames(x, cutoff=_CUTOFF, camera=CAMERA, seed=seed)
    return Flow(frames, x, expected_k2(x, steps_for(x)))


# -- layers -----------------------------------------------------------------------------------------------------------


def phantom_layers() -> list[LayerData]:
    """Return the tubes' frames, and hidden the truth (napari's sample-data contribution)."""
    made = tube_phantom()
    return [_truth_layer(made.x, "1/τ of the phantom (truth)"), _frames_layer(made.frames, "speckle phantom")]


def step_layers() -> list[LayerData]:
    """Return the series with a step of flow, and hidden the truth (napari's sample-data contribution)."""
    made = flow_step()
    return [_truth_layer(made.x, "1/τ of the flow step (truth)"), _frames_layer(made.frames, "speckle, flow step")]


def _frames_layer(frames: Array, name: str) -> LayerData:
    told = {"exposure_ms": EXPOSURE_MS, "saturation_adu": CAMERA.top_adu, "dark_adu": CAMERA.dark_adu}
    limits = (float(frames.min()), float(np.percentile(frames, 99.5)))
    options = {"axis_labels": AXES, "contrast_limits": limits, "colormap": "gray"}
    return frames, {"name": name, "metadata": {KEY: told}, **options}, "image"


def _truth_layer(x: Array, name: str) -> LayerData:
    told = {"quantity": "inverse correlation time", "unit": "1/s", "exposure_ms": EXPOSURE_MS}
    values = (1e3 / EXPOSURE_MS * x).astype(np.float32)
    options = {"axis_labels": AXES[-values.ndim :], "colormap": "inferno", "visible": False}
    return values, {"name": name, "metadata": {KEY: told}, **options}, "image"

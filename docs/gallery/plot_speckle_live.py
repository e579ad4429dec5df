"""
Flow, live
==========

A simulated camera over a vessel whose flow rises and falls, and the flow index of each frame as it comes.
"""

import matplotlib.pyplot as plt
import numpy as np
from window_pictures import film

from napari_gpubio import speckle
from napari_gpubio.speckle.samples import CAMERA, SpeckleField, noise_model

shape, steps = (112, 150), 12
rng = np.random.default_rng(0)
field = SpeckleField(shape, 0.35, rng)
rows = np.arange(shape[0])[:, None] - 56 - 14 * np.sin(np.arange(shape[1])[None] / 26)
vessel = np.exp(-((rows / 14) ** 4))

settings = speckle.ContrastSettings(mode=speckle.Spatial(window=7), index=speckle.FlowIndex(exposure_ms=10))
figure, axis = plt.subplots(figsize=(6.4, 4.8), dpi=100)
shown = axis.imshow(np.zeros(shape), cmap="inferno", vmin=0, vmax=900)
axis.set(xticks=[], yticks=[])
figure.colorbar(shown, label="flow index (1/s)")
figure.tight_layout()

frames, smooth = [], None
with speckle.ContrastStream(settings, shape=shape, dtype="uint16", noise=noise_model()) as stream:
    for number in range(42):
        speed = 1 - 0.7 * np.cos(2 * np.pi * number / 42)
        keep = np.exp(-(1.5 + 12 * speed * vessel) / steps)
        light, moving = np.zeros(shape), field.draw()
        for _ in range(steps):
            moving = keep * moving + np.sqrt(1 - keep**2) * field.draw()
            light += np.abs(moving) ** 2 / steps
        index = stream.push(CAMERA.expose(light, rng)).index
        smooth = index if smooth is None else 0.6 * smooth + 0.4 * index
        shown.set_data(smooth)
        axis.set_title(f"frame {number + 1}, flow × {speed:.1f}")
        figure.canvas.draw()
        frames.append(np.asarray(figure.canvas.buffer_rgba()).copy())
film("speckle_live", frames)

"""
From frames to flow
===================

A raw frame of three tubes with flow, its speckle contrast, and the flow index of the mean over eight frames.
"""

import matplotlib.pyplot as plt

from napari_gpubio import speckle
from napari_gpubio.speckle.indices import speckle_flow_index
from napari_gpubio.speckle.samples import noise_model, tube_phantom

frames = tube_phantom().frames
settings = speckle.ContrastSettings(mode=speckle.Spatial(window=7), index=speckle.Squared())
maps = speckle.contrast(frames, settings, noise=noise_model())
flow = speckle_flow_index(maps.squared.mean(axis=0), exposure_ms=10)

figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.1))
for axis, values, title, colors, top in (
    (axes[0], frames[0], "raw frame (ADU)", "gray", 1500),
    (axes[1], maps.contrast[0], "contrast K", "magma", 0.8),
    (axes[2], flow, "flow index (1/s)", "inferno", 2500),
):
    shown = axis.imshow(values, cmap=colors, vmin=0, vmax=top)
    axis.set(title=title, xticks=[], yticks=[])
    figure.colorbar(shown, fraction=0.042)
figure.tight_layout()

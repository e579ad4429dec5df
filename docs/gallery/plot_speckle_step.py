"""
A step of flow
==============

Flow in a tube doubles halfway. Curves of two regions, relative to the first half, over the maps before and after.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import speckle
from napari_gpubio.speckle.indices import speckle_flow_index
from napari_gpubio.speckle.samples import flow_step, noise_model

maps = speckle.contrast(flow_step().frames, speckle.ContrastSettings(index=speckle.Squared()), noise=noise_model())
regions = {name: np.zeros(maps.contrast.shape[1:], bool) for name in ("tube", "tissue")}
regions["tube"][28:44, 10:86] = regions["tissue"][54:70, 10:86] = True
before, after = (speckle_flow_index(maps.squared[part].mean(axis=0), 10) for part in (np.s_[:20], np.s_[20:]))

figure = plt.figure(figsize=(8, 3.4))
grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.7))
for row, values, title in ((0, before, "before"), (1, after, "after")):
    axis = figure.add_subplot(grid[row, 0])
    axis.imshow(values, cmap="inferno", vmin=0, vmax=1200)
    axis.set(title=title, xticks=[], yticks=[])
axis = figure.add_subplot(grid[:, 1])
for curve in speckle.region_curves(maps, regions, flow=speckle.FlowIndex(exposure_ms=10)):
    axis.plot(curve.times_s(rate_hz=30), curve.relative(slice(0, 20)), lw=2, label=curve.name)
axis.set(xlabel="time (s)", ylabel="relative flow", ylim=(0.6, 2.3))
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
figure.tight_layout()

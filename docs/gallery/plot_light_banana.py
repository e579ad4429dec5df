"""
What a detector sees
====================

A source and a detector 20 mm apart on tissue with a dark vessel: mean path of the detected light by voxel.
A change of absorption counts where this banana is bright.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

tissue = optics.Medium(label=1, mua_per_mm=0.015, mus_per_mm=8.0, g=0.9, n=1.37)
vessel = optics.Medium(label=2, mua_per_mm=0.4, mus_per_mm=8.0, g=0.9, n=1.37)
labels = np.ones((50, 30, 22), np.uint8)
x, _, z = np.indices(labels.shape)
labels[np.hypot(x - 21, z - 5) < 1.6] = 2
block = optics.Domain(labels=labels, affine=np.eye(4), media=(tissue, vessel))
settings = light.LightSettings(photons=25_000)
optodes = [optics.Pencil(position_mm=(x_mm, 14.5, -1), direction=(0, 0, 1)) for x_mm in (14.5, 34.5)]
runs = [light.simulate(block, optode, settings) for optode in optodes]
path = -light.sensitivity(*runs).jacobian_mm.sum(axis=1)  # light falls where absorption rises

fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
with np.errstate(divide="ignore"):
    shown = ax.imshow(np.log10(path).T, extent=(-0.5, 49.5, 22, 0), cmap="magma", vmin=-2, vmax=1)
ax.contour(np.arange(50), np.arange(22) + 0.5, (labels[:, 15] == 2).T, levels=[0.5], colors="tab:cyan", linewidths=1)
ax.plot([14.5], [0], "v", color="tab:orange", markersize=12, clip_on=False)
ax.plot([34.5], [0], "^", color="tab:cyan", markersize=12, clip_on=False)
ax.set(xlabel="mm", ylabel="depth (mm)")
fig.colorbar(shown, ax=ax, label="log10 mean path (mm)")
plt.show()

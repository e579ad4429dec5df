"""
Fluence before and after cleaning
=================================

A hundred thousand photons in a cube with an absorbing ball, the same cleaned from its two halves, and the truth.
Below, how far every voxel is off; the far edge, where hardly a photon came, stays uncertain.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import denoise

pair = denoise.samples.fluence_pair()
clean = denoise.denoise_fluence(pair.half_a, pair.half_b, labels=pair.labels)
images = {"100,000 photons": (pair.half_a + pair.half_b) / 2, "cleaned": clean.image, "truth": pair.truth}

middle = pair.truth.shape[1] // 2
fig, axes = plt.subplots(2, 3, figsize=(9, 6.2), layout="constrained")
for ax, (title, image) in zip(axes[0], images.items(), strict=True):
    with np.errstate(divide="ignore"):
        decades = ax.imshow(np.log10(image[:, middle]).T, cmap="inferno", vmin=-7, vmax=-1)
    ax.set(title=title, xticks=[], yticks=[])
fig.colorbar(decades, ax=axes[0], label="log10 fluence (1/mm²)")
for ax, image in zip(axes[1, :2], list(images.values())[:2], strict=True):
    off = 100 * (image / pair.truth - 1)[:, middle]
    percent = ax.imshow(off.T, cmap="RdBu_r", vmin=-60, vmax=60)
    ax.set(xticks=[], yticks=[])
axes[1, 2].axis("off")
fig.colorbar(percent, ax=axes[1], label="off from the truth (%)")
plt.show()

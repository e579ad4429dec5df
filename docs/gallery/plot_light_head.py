"""
Fluence in a head
=================

A pencil beam on the scalp of the sample head, 690 nm: where its light goes, in decades, over the tissues.
From the scalp to the middle of the brain it loses a factor of a million.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

head = optics.phantom.load_head_phantom()
source = optics.Pencil(position_mm=(-75.0, -18.0, 8.0), direction=(1.0, 0.0, 0.0), entry="smooth")
result = light.simulate(head, source, light.LightSettings(photons=40_000))

i, j, k = np.round(np.linalg.inv(head.affine) @ [0, -18, 8, 1])[:3].astype(int)
cuts = {"axial": np.s_[:, :, k - 1 : k + 2], "coronal": np.s_[:, j - 1 : j + 2, :]}
fig, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", facecolor="black")
for ax, (name, cut) in zip(axes, cuts.items(), strict=True):
    across = 2 if name == "axial" else 1
    fluence = result.fluence[cut].mean(axis=across)
    labels = head.labels[cut].take(1, axis=across)
    ax.imshow(np.array([0, 0.45, 0.8, 0.12, 0.35, 0.6])[labels].T, origin="lower", cmap="gray", vmin=0, vmax=1)
    with np.errstate(divide="ignore"):
        decades = np.log10(np.where(labels > 0, fluence, 0))
    shown = ax.imshow(
        decades.T, origin="lower", cmap="inferno", vmin=-7, vmax=-1, alpha=np.clip((decades.T + 7.5) / 2, 0, 0.95)
    )
    ax.set_title(name, color="white")
    ax.axis("off")
bar = fig.colorbar(shown, ax=axes, shrink=0.7)
bar.set_label("log10 fluence per photon (1/mm²)", color="white")
bar.ax.tick_params(colors="white")
plt.show()

"""
Isodoses over anatomy
=====================

The dose of the treatment phantom over its organs, with isodoses in % of the prescription, seen from below.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio.dose.samples import PRESCRIPTION_GY, treatment_dose, treatment_structures
from napari_gpubio.dose.structures import inside

given = treatment_dose()
fine = given.affine @ np.diag([0.5, 0.5, 1, 1])
shape = (232, 120, 84)
gray = np.zeros(shape)
for one, value in zip(treatment_structures(), (0.62, 0.12, 0.12, 0.75, 0.95), strict=True):
    gray[inside(one, fine, shape)] = value
gray += np.random.default_rng(0).normal(0, 0.015, shape)

middle = 42  # the slice through the target
extent = (-232, 230, -118, 120)
figure, axes = plt.subplots(figsize=(7.5, 4.2))
axes.imshow(gray[:, :, middle].T, cmap="gray", origin="lower", extent=extent, vmin=0, vmax=1)
percent = 100 * given.values[:, :, middle].T / PRESCRIPTION_GY
levels = [10, 30, 50, 80, 95, 105]
colors = plt.get_cmap("turbo")(np.linspace(0.1, 0.95, len(levels)))
axes.contour(percent, levels=levels, colors=colors, extent=extent, linewidths=1.6)
lines = [plt.Line2D([], [], color=color, lw=2, label=f"{level} %") for level, color in zip(levels, colors, strict=True)]
axes.legend(handles=lines, loc="upper right", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor="white")
axes.set(xlabel="right (mm)", ylabel="anterior (mm)", xlim=(-180, 229), ylim=(-115, 115))
figure.tight_layout()

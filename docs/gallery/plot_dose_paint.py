"""
Paint, and the curve follows
============================

A brush makes the target larger, stroke by stroke; its curve is counted again after each in a few milliseconds.
"""

import matplotlib.pyplot as plt
import numpy as np
from window_pictures import film

from napari_gpubio import dose
from napari_gpubio.dose.samples import treatment_dose, treatment_structures
from napari_gpubio.dose.structures import label_structures

given = treatment_dose()
target = [one for one in treatment_structures() if one.name == "target"]
drawn, _ = label_structures(target, given.affine, given.values.shape)
x, y, z = np.indices(given.values.shape)
labels = drawn.labels.copy()

figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.2), dpi=100)
left.imshow(given.values[:, :, 42].T, cmap="inferno", origin="lower")
shown = left.imshow(np.ma.masked_equal(labels[:, :, 42].T, 0), cmap="cool", alpha=0.6, origin="lower")
left.set(title="target, painted", xlim=(15, 75), ylim=(5, 58), xticks=[], yticks=[])
(curve,) = right.plot([], [], color="tab:pink", lw=2)
right.set(title="its curve", xlabel="dose (Gy)", ylabel="volume (cc)", xlim=(0, 100), ylim=(0, 260))
figure.tight_layout()

frames = []
for step in np.linspace(0, 1, 40):
    at = 40 + 22 * step, 32 - 10 * np.sin(3 * step)
    labels[(x - at[0]) ** 2 + (y - at[1]) ** 2 + (z - 42) ** 2 < 25] = 1
    (found,) = dose.dvh(given, dose.LabelStructures(labels=labels, affine=given.affine, structures={1: "target"}))
    shown.set_data(np.ma.masked_equal(labels[:, :, 42].T, 0))
    curve.set_data(found.doses, found.volumes_cc)
    figure.canvas.draw()
    frames.append(np.asarray(figure.canvas.buffer_rgba()).copy())
film("dose_paint", frames)

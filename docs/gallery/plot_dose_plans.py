"""
Two plans beside each other
===========================

The dose of one plan minus that of another, whose field is shifted, and what the difference means for the lung.
"""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import dose
from napari_gpubio.dose.samples import treatment_dose, treatment_structures

first = treatment_dose()
second = dataclasses.replace(first, values=np.roll(first.values, 2, axis=0), name="shifted by 8 mm")
change = dose.difference_of_doses(first, second)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=(1.2, 1))
extent = (-232, 232, -120, 120)
shown = left.imshow(change.values[:, :, 42].T, cmap="RdBu_r", vmin=-80, vmax=80, origin="lower", extent=extent)
for one in treatment_structures():
    for loop in (loop for loop in one.world_loops if abs(loop[0, 2]) < 2):
        left.plot(*np.vstack([loop, loop[:1]]).T[:2], color=[c / 400 for c in one.color], lw=1)
left.set(xlabel="right (mm)", ylabel="anterior (mm)", title="first minus second")
figure.colorbar(shown, label="Gy", fraction=0.03)
for plan, style in ((first, "-"), (second, "--")):
    curves = dose.dvh(plan, treatment_structures())
    for name, color in (("target", "tab:red"), ("left lung", "tab:blue")):
        one = curves[name]
        right.plot(np.r_[0, one.doses], np.r_[100, 100 * one.volumes_cc / one.volume_cc], style, color=color)
right.set(xlabel="dose (Gy)", ylabel="volume (%)", title="target and left lung; dashed: second")
figure.tight_layout()

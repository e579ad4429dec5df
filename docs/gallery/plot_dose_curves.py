"""
Curves of a plan, and a constraint
==================================

Dose-volume histograms of the treatment phantom. The shaded corner is what a constraint forbids for the left lung.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import dose
from napari_gpubio.dose.metrics import evaluate_constraints, parse_constraints
from napari_gpubio.dose.samples import treatment_dose, treatment_structures

curves = dose.dvh(treatment_dose(), treatment_structures())
(found,) = evaluate_constraints(parse_constraints("left lung: V20Gy[%] < 25"), curves)

figure, axes = plt.subplots(figsize=(7, 4.2))
for one in curves:
    percent = 100 * one.volumes_cc / one.volume_cc
    color = [c / 255 for c in one.color]
    axes.plot(np.r_[0, one.doses], np.r_[100, percent], color=color, lw=2, label=one.name)
axes.fill([20, 100, 100, 20], [25, 25, 100, 100], color="tab:red", alpha=0.08)
axes.plot(20, found.value, "o", color="tab:red")
axes.annotate(f"V20Gy = {found.value:.1f} %\nlimit 25 %: {found.status}", (20, found.value), (30, 42),
              arrowprops={"arrowstyle": "-"})  # fmt: skip
axes.set(xlabel="dose (Gy)", ylabel="volume (%)", xlim=(0, 102), ylim=(0, 102))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(0.05, 0.72))
figure.tight_layout()

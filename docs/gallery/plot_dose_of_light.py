"""
Dose of light by region
=======================

Light under a source on the scalp of the head phantom: how much of each tissue receives at least a fluence.
"""

import matplotlib.pyplot as plt

from napari_gpubio import light, optics, workflows

head = optics.phantom.load_head_phantom()
source = optics.Fiber(position_mm=(-49, -18.4, 65.9), direction=(0.65, 0, -0.76), radius_mm=0.2)
result = light.simulate(head, source, light.LightSettings(photons=30_000))

figure, axes = plt.subplots(figsize=(7, 4))
for one in workflows.dose_by_region(result):
    lit = one.doses > 0
    axes.loglog(one.doses[lit], one.volumes_cc[lit], lw=2, label=one.name)
axes.set(xlabel="fluence per launched photon (1/mm²)", ylabel="volume (cc)", xlim=(1e-7, 1), ylim=(1e-2, 300))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
figure.tight_layout()

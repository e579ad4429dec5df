"""
Light in seven layers of skin
=============================

A pencil beam of 600 nm on skin (Meglinski and Matcher 2001): fluence by depth and radius, and on and off the axis.
The light that skin scatters back makes the fluence below its surface several times that of the beam.
"""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import layered

skin = layered.preset("seven-layer skin at 600 nm")
result = layered.simulate(skin.medium, dataclasses.replace(skin.settings, photons=60_000))
r, z, fluence = result.r_mm, result.z_mm, result.fluence_rz().value

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", width_ratios=(3, 2))
both = np.concatenate((fluence[::-1], fluence))
with np.errstate(divide="ignore"):
    shown = left.imshow(
        np.log10(both).T, extent=(-r[-1], r[-1], z[-1], 0), aspect="auto", cmap="inferno", vmin=-4, vmax=2
    )
for top in skin.medium.tops_mm[1:]:
    left.axhline(top, color="white", linewidth=0.6)
left.set(xlim=(-4, 4), ylim=(3, 0), xlabel="r (mm)", ylabel="depth (mm)")
fig.colorbar(shown, ax=left, label="log10 fluence per photon (1/mm²)")
for at in (0.05, 0.5, 1.0, 2.0):
    right.semilogy(z, fluence[np.searchsorted(r, at)], label=f"r = {at:g} mm")
right.set(xlabel="depth (mm)", ylabel="fluence per photon (1/mm²)", xlim=(0, 3), ylim=(1e-4, 1e2))
right.legend()
plt.show()

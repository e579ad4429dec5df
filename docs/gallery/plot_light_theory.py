"""
Monte Carlo beside diffusion theory
===================================

Diffuse reflectance of a thick medium by distance from a pencil beam, and the closed form of diffusion theory.
They agree where light has forgotten its direction; closer than two transport mean free paths only Monte Carlo is right.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import layered, optics

medium = optics.Medium(label=1, mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=1.37)
layer = layered.Layer(mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=1.37, thickness_mm=np.inf)
settings = layered.LayeredSettings(
    photons=15_000, dr_mm=0.25, radial_bins=60, dz_mm=0.5, depth_bins=60, absorption="off"
)
result = layered.simulate(layered.LayeredMedium(layers=(layer,)), settings)
r = result.r_mm
theory = optics.theory.reflectance_semi_infinite(r, medium)

fig, (top, bottom) = plt.subplots(2, 1, figsize=(6.5, 5), layout="constrained", sharex=True, height_ratios=(2, 1))
top.errorbar(r, result.Rd_r.value, result.Rd_r.error, fmt=".", label=f"Monte Carlo, {result.launched:,} photons")
top.semilogy(r, theory, label="diffusion theory")
top.axvspan(
    0, 2 * optics.theory.transport_mean_free_path_mm(medium), color="0.9", label="two transport mean free paths"
)
top.set(ylabel="reflectance (1/mm²)", ylim=(1e-5, 1))
top.legend()
bottom.errorbar(r, result.Rd_r.value / theory, result.Rd_r.error / theory, fmt=".")
bottom.axhline(1, color="tab:orange")
bottom.set(xlabel="distance from the beam (mm)", ylabel="ratio", ylim=(0.5, 1.5), xlim=(0, 15))
plt.show()

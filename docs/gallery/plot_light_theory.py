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
settings = layered.LayeredSettings(photons=15_000, dr_mm=0.25, radial_bins=61, absorption="off")
result = layered.simulate(layered.LayeredMedium(layers=(layer,)), settings)
r = result.r_mm[:-1]  # the last bin has all light beyond
reflectance, error = (part[:-1] for part in result.Rd_r)
theory = optics.theory.reflectance_semi_infinite(r, medium)

fig, (top, bottom) = plt.subplots(2, 1, figsize=(6.5, 5), layout="constrained", sharex=True, height_ratios=(2, 1))
top.errorbar(r, reflectance, error, fmt=".", label=f"Monte Carlo, {result.launched:,} photons")
top.semilogy(r, theory, label="diffusion theory")
top.axvspan(
    0, 2 * optics.theory.transport_mean_free_path_mm(medium), color="0.9", label="two transport mean free paths"
)
top.set(ylabel="reflectance (1/mm²)", ylim=(1e-5, 1))
top.legend()
bottom.errorbar(r, reflectance / theory, error / theory, fmt=".")
bottom.axhline(1, color="tab:orange")
bottom.set(xlabel="distance from the beam (mm)", ylabel="ratio", ylim=(0.5, 1.5), xlim=(0, 15))
plt.show()

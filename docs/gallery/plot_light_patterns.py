"""
Patterns that share photons
===========================

Four patterns on one square, traced with the same photons: stripes wash out with depth, the finer the sooner.
This is what spatial frequency domain imaging measures.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

tissue = optics.Medium(label=1, mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37)
block = optics.Domain(labels=np.ones((60, 20, 16), np.uint8), affine=np.diag([0.5, 0.5, 0.5, 1]), media=(tissue,))
area = optics.Planar(
    position_mm=(14.75, 4.75, -0.5), direction=(0, 0, 1), width_axis=(1, 0, 0), width_mm=28, height_mm=9
)
across = np.linspace(0, 2 * np.pi, 560)
images = np.array([np.tile(1 + np.cos(cycles * across), (20, 1)) for cycles in (0, 2, 5, 10)])
settings = light.LightSettings(photons=40_000, faces=("mirror",) * 4 + ("default",) * 2)
found = light.simulate_patterns(block, area, images, settings)

fig, axes = plt.subplots(4, 1, figsize=(8, 6), layout="constrained", sharex=True)
for ax, result, cycles in zip(axes, found, (0, 2, 5, 10), strict=True):
    plane = result.fluence.mean(axis=1)
    shown = ax.imshow(1000 * plane.T, extent=(0, 30, 8, 0), cmap="inferno", vmin=0, vmax=28, interpolation="bilinear")
    ax.set(ylabel="depth (mm)", title=f"{cycles / 28:.2f} cycles per mm")
axes[-1].set_xlabel("mm")
fig.colorbar(shown, ax=axes, label="fluence per photon (10⁻³/mm²)")
plt.show()

"""
White matter guides light
=========================

An isotropic point source in tissue whose fibers run from left to right, and in tissue without a direction.
Light is scattered less along fibers, so it reaches farther there, and less far across them.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import light, optics

shape = (25, 25, 25)
white = optics.Medium(label=1, mua_per_mm=0.02, mus_per_mm=25.0, g=0.9, n=1.37)
plain = optics.Domain(
    labels=np.ones(shape, np.uint8), affine=np.diag([0.5, 0.5, 0.5, 1]), media=(white,), outside_n=1.37
)
tensors = np.broadcast_to(np.array([1.7e-3, 0.3e-3, 0.3e-3, 0, 0, 0]), (*shape, 6))
fibrous = optics.anisotropy.with_fibers(plain, tensors, plain.affine)
source = optics.Isotropic(position_mm=(6.0, 6.0, 6.0))
both = [light.simulate(one, source, light.LightSettings(photons=12_000)).fluence for one in (plain, fibrous)]


def folded(volume):
    """The mean over the eight mirror images, in the plane through the source, averaged over three voxels."""
    for axis in range(3):
        volume = (volume + np.flip(volume, axis)) / 2
    return volume[:, :, 11:14].mean(axis=2)


without, along = map(folded, both)
change = 100 * (along / without - 1)
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
for ax, image, title in zip(
    axes[:2], (without, along), ("without a direction", "fibers from left to right"), strict=True
):
    shown = ax.imshow(np.log10(image).T, extent=(-6.25, 6.25, -6.25, 6.25), cmap="inferno", vmin=-3, vmax=0)
    ax.contour(
        np.log10(image).T,
        extent=(-6.25, 6.25, -6.25, 6.25),
        levels=np.arange(-3, 0, 0.5),
        colors="white",
        linewidths=0.7,
    )
    ax.set(title=title, xlabel="mm")
fig.colorbar(shown, ax=axes[:2], label="log10 fluence (1/mm²)")
percent = axes[2].imshow(change.T, extent=(-6.25, 6.25, -6.25, 6.25), cmap="PuOr", vmin=-80, vmax=80)
axes[2].set(title="difference", xlabel="mm")
fig.colorbar(percent, ax=axes[2], label="%")
plt.show()

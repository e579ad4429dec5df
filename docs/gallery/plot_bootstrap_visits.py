"""
How far noise moves a fiber
===========================

One seed, 100 scans that could as well have been measured: where the fiber passes, and how its numbers spread.
"""

import matplotlib.pyplot as plt

from napari_gpubio import diffusion, fibers

scan = diffusion.phantom.load_brain_phantom()
found = fibers.bootstrap(
    scan, [(-22, -18, 12)], method=fibers.EuDX(), resampling=fibers.BootstrapSettings(repeats=100)
)  # fmt: skip

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
b0 = scan.data[::-1, :, :, 0].max(axis=1).T
visits = found.probability[::-1].max(axis=1).T
left.imshow(b0, origin="lower", cmap="gray")
shown = left.imshow(visits, origin="lower", cmap="viridis", vmin=0, vmax=1, alpha=(visits > 0).astype(float))
figure.colorbar(shown, ax=left, label="share of repeats that pass", shrink=0.8)
left.set(xticks=[], yticks=[], title="seen from behind")

for start, end in zip(found.kept.offsets[:-1], found.kept.offsets[1:], strict=True):
    right.plot(*found.kept.points[start:end, ::2].T, lw=0.5, color="tab:gray", alpha=0.6)
right.plot(*found.fibers.points[:, ::2].T, lw=2, color="tab:orange", label="fiber of the scan")
estimate, low, high = found.interval("length_mm")
right.set_title(f"length {estimate:.0f} mm, 95 % from {low:.0f} to {high:.0f} mm")
right.set(xlabel="x (mm)", ylabel="z (mm)", aspect="equal")
right.legend()
plt.show()

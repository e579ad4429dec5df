"""
Three methods on one seed
=========================

The same 100 seeds in the internal capsule: geodesics, geodesics that keep to bends, and classic streamlines.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from napari_gpubio import diffusion, fibers

field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())
fa = diffusion.tensors.scalar_map(field, "FA")
seeds = fibers.seeds.ball((-22, -18, 12), radius_mm=3, count=100)
methods = {
    "geodesics": fibers.Hamiltonian(),
    "geodesics, adaptive metric": fibers.Hamiltonian(metric=fibers.Adaptive()),
    "classic streamlines": fibers.EuDX(),
}
row = round(np.linalg.solve(field.affine, [0, -18, 0, 1])[1])
corners = [(-0.5, row, -0.5, 1), (fa.shape[0] - 0.5, row, fa.shape[2] - 0.5, 1)]
(left, bottom), (right, top) = ((field.affine @ corner)[[0, 2]] for corner in corners)

figure, axes = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained")
for axis, (name, method) in zip(axes, methods.items(), strict=True):
    axis.imshow(fa[:, row].T, origin="lower", extent=(left, right, bottom, top), cmap="gray", vmax=0.9)
    found = fibers.track(field, seeds, fibers.Principal(), method)
    for start, end in zip(found.offsets[:-1], found.offsets[1:], strict=True):
        line = found.points[start:end]
        along = np.abs(np.diff(line, axis=0))
        colors = along / np.linalg.norm(along, axis=1, keepdims=True)  # red, green, blue: along x, y, z
        pieces = np.stack([line[:-1, ::2], line[1:, ::2]], axis=1)
        axis.add_collection(LineCollection(pieces, colors=colors, linewidths=0.8, alpha=0.7))
    axis.set(title=name, xlim=(-70, 70), ylim=(-65, 75), xlabel="x (mm)")
axes[0].set_ylabel("z (mm)")
plt.show()

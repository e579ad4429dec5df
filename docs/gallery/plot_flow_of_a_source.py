"""
The flow of a source
====================

Mass that leaves the internal capsule along all fibers at once, without sampling, and the regions that it reaches.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio import diffusion, fibers

field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())
source = diffusion.regions.Sphere(name="internal capsule", center_mm=(-22, -15, 12), radius_mm=4)
found = fibers.flow.source_flow(field, source, diffusion.phantom.load_brain_atlas())
ranked = [one for one in found.ranked() if one.overlap > 0.01][:8]

fa = diffusion.tensors.scalar_map(field, "FA")
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for axis, across, title in ((axes[0], 1, "seen from behind"), (axes[1], 0, "seen from the right")):
    behind, mass = (volume.max(axis=across).T for volume in (fa, np.log10(np.maximum(found.mass, 1e-4))))
    axis.imshow(behind, origin="lower", cmap="gray", vmax=1.4)
    shown = axis.imshow(mass, origin="lower", cmap="inferno", vmin=-4, vmax=0, alpha=np.clip((mass + 4) / 1.5, 0, 1))
    axis.set(title=title, xticks=[], yticks=[])
axes[0].invert_xaxis()  # the first axis of the scan runs to the left
figure.colorbar(shown, ax=axes[1], label="log₁₀ of the mass that passes", shrink=0.7)
axes[2].barh([one.region for one in ranked], [one.overlap for one in ranked], color="tab:orange")
axes[2].invert_yaxis()
axes[2].set(xlabel="overlap of flows", title="regions that it reaches")
plt.show()

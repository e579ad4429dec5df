"""
A connectome
============

Fibers of a whole brain between the regions of an atlas; both ends are looked up within 4 mm.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

from napari_gpubio import diffusion, fibers, tractograms

field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())
seeds = fibers.seeds.white_matter_points(field)
brain = fibers.track(field, seeds, fibers.Principal(), fibers.EuDX(step_mm=1.0))
found = tractograms.connectome.connectome(brain, diffusion.phantom.load_brain_atlas())

counts = np.where(found.matrix() > 0, found.matrix(), np.nan)
figure, axis = plt.subplots(figsize=(8, 6.6), layout="constrained")
axis.set_facecolor("#221c2b")
shown = axis.imshow(counts, cmap="magma", norm=LogNorm())
axis.set_xticks(range(len(found.names)), found.names, rotation=60, ha="right", fontsize=8)
axis.set_yticks(range(len(found.names)), found.names, fontsize=8)
figure.colorbar(shown, label="fibers", shrink=0.7)
plt.show()

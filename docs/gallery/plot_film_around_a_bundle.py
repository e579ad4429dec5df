"""
Around a bundle
===============

The corticospinal tracts and the corpus callosum of the sample brain, from all sides.
"""

import napari
import numpy as np
from window_pictures import film, settle

from napari_gpubio import tractograms
from napari_gpubio.core.files import sample_path

bundles = tractograms.io.read_tractogram(sample_path("brain_phantom/bundles.trk"))
chosen = bundles.select(np.isin(bundles.per_fiber["bundle"], (1, 2, 3)))

viewer = napari.Viewer()
tractograms.show(viewer, chosen, "callosum and corticospinal tracts", line_width=2)
viewer.dims.ndisplay = 3
viewer.camera.zoom *= 0.75
settle(viewer)


def frames():
    for angle in np.linspace(0, 2 * np.pi, 40, endpoint=False):
        viewer.camera.set_view_direction((-0.3, np.cos(angle), np.sin(angle)), up_direction=(1, 0, 0))
        yield viewer.screenshot(canvas_only=True, size=(480, 640), flash=False)


film("around_a_bundle", frames(), rate=10)

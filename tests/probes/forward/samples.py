"""A small head for tests of forward models: a block of two layers, a probe on it, and exact paths beside them."""

import numpy as np

from napari_gpubio.optics.model import Medium
from napari_gpubio.probes.forward import ForwardSettings, Head, Pair, Probe
from napari_gpubio.probes.forward.model import TabulatedTissue
from tests.light.voxel_samples import grid_affine

SHAPE, TOP = (44, 30, 18), 5
FEW = ForwardSettings(photons=3200, groups=4, threshold=0.0, wavelengths_nm=(760, 850))


def medium(mua, label=1, name=""):
    return Medium(label=label, name=name, mua_per_mm=mua, mus_per_mm=1.0, n=1.37)


def block(top_mua=(0.02, 0.03), bottom_mua=(0.02, 0.03)):
    """A block whose upper face is at z = 0: the labels 1, scalp, and 2, gray matter, from 5 mm on."""
    labels = np.ones(SHAPE, np.uint8)
    labels[:, :, TOP:] = 2
    tissues = {
        label: TabulatedTissue(media={760.0: medium(a[0], name=name), 850.0: medium(a[1], name=name)})
        for label, name, a in ((1, "scalp", top_mua), (2, "gray matter", bottom_mua))
    }
    return Head(labels=labels, affine=grid_affine(), tissues=tissues)


def probe(**changes):
    """Two sources and two detectors on the block, 10 to 16 mm apart."""
    given = {
        "sources": ("S1", "S2"),
        "source_positions_mm": [(14.0, 15.0, 0.0), (14.0, 19.0, 0.0)],
        "detectors": ("D1", "D2"),
        "detector_positions_mm": [(25.0, 15.0, -1.0), (29.0, 15.0, 0.4)],
        "wavelengths_nm": (760.0,),
        "pairs": (Pair(0, 0), Pair(0, 1), Pair(1, 0)),
    }
    return Probe(**(given | changes))
